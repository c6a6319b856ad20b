"""Seeded choices with held-out fillings: a filling is trained on or tested on, never both."""

import random
import zlib

HELD_ONE_IN = 12


def held(text):
    """Whether a filling (a noun, a name, a phrasing, a sum) belongs to the held-out side."""
    return zlib.crc32(text.encode()) % HELD_ONE_IN == 0


class Pick:
    """A random source for one side ("train" or "held") and one language ("en" or "id")."""

    def __init__(self, seed, side, made_up_share=0):
        self.rng = random.Random(f"{seed}/{side}")
        self.side = side
        self.lang = "en"
        self.made_up_share = made_up_share
        self._sides = {}

    def any(self, items):
        return items[int(self.rng.random() * len(items))]

    def chance(self, p):
        return self.rng.random() < p

    def key(self, items):
        """A choice from this side's part of items (the first two always train); all where it is empty."""
        at = id(items)
        if at not in self._sides:
            want = self.side == "held"
            mine = [w for i, w in enumerate(items) if (i > 1 and held(w)) == want]
            self._sides[at] = (mine or list(items), items)  # keeps items, and so its id, alive
        return self.any(self._sides[at][0])

    def between(self, low, high):
        return self.rng.randint(low, high)

    def known(self, items):
        """A choice that trains, on both sides: of words that the model is to know, not to copy."""
        return self.any([w for i, w in enumerate(items) if i < 2 or not held(w)])

    def word(self, items):
        """As key; where copying is to be learnt, often a word that is in no list."""
        return self.made_up() if self.made_up_share and self.chance(self.made_up_share) else self.key(items)

    def made_up(self):
        """A pronounceable word that is in no list, so that copying is learnt, not recall."""
        onset = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "z", "bl", "tr", "ch"]
        coda = ["", "", "n", "r", "l", "s", "m", "k", "t"]
        return "".join(self.any(onset) + self.any("aeiou") + self.any(coda)
                       for _ in range(self.between(2, 3)))
