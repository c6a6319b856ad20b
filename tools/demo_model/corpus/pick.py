"""Seeded choices with held-out fillings: a filling is trained on or tested on, never both."""

import random
import zlib

from corpus import words

HELD_ONE_IN = 12

# What made-up words are made of: syllables that are easily said, syllables as English and Indonesian have them, and parts of known words.
PLAIN_ONSETS = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "z", "bl", "tr", "ch"]
PLAIN_CODAS = ["", "", "n", "r", "l", "s", "m", "k", "t"]
ONSETS = PLAIN_ONSETS + ["", "", "h", "w", "v", "j", "y", "c", "pr", "br", "gr", "cr", "dr", "fl", "pl", "sh", "th", "st", "sp", "sk", "qu", "ng", "ny", "wh", "x"]
VOWELS = list("aeiou") * 3 + ["ai", "ea", "oo", "ue", "ie", "au", "ee", "y"]
CODAS = PLAIN_CODAS + ["", "nd", "ng", "ck", "ll", "tt", "rn", "st", "gue", "x", "sh", "th", "h", "d", "g", "p", "b", "ver", "zel", "ps", "te", "ne", "rt"]


def held(text):
    """Whether a filling (a noun, a name, a phrasing, a sum) belongs to the held-out side."""
    return zlib.crc32(text.encode()) % HELD_ONE_IN == 0


# A set has another order on each run, a list its own.
FRAGMENTS = [w.lower() for name in sorted(vars(words)) if name.isupper() for of in [vars(words)[name]] for w in (sorted(of) if isinstance(of, set) else of)
             if isinstance(w, str) and len(w) > 3 and w.isalpha() and not held(w)]


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
        """A word that is in no list, so that copying is learnt, not recall."""
        r = self.rng.random()
        if r < 0.3:
            return self.syllables(PLAIN_ONSETS, "aeiou", PLAIN_CODAS)
        if r < 0.65:
            return self.syllables(ONSETS, VOWELS, CODAS)
        a, b = self.any(FRAGMENTS), self.any(FRAGMENTS)
        return a[:self.between(1, len(a) - 1)] + b[self.between(1, len(b) - 1):]

    def syllables(self, onsets, vowels, codas):
        return "".join(self.any(onsets) + self.any(vowels) + self.any(codas) for _ in range(self.between(1 if onsets is ONSETS else 2, 3)))
