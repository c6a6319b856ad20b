#!/usr/bin/env python3
"""check_sums.py VOCAB.json -- COMMAND...: arithmetic accuracy through an engine's greedy answers.

COMMAND as for evaluate.py. "Unseen" pairs were held out of the training corpus as a whole.
"""

import random
import sys

from bpe import Vocab
from corpus.pick import held
from engine import ask


def groups(rng, n=200):
    pairs = [(a, b) for a in range(100) for b in range(100)]
    some = lambda keep: rng.sample(kept := [p for p in pairs if keep(*p)], min(n, len(kept)))
    two = lambda a, b: max(a, b) > 9
    return {"one digit, sum": [(a, b, "+") for a, b in some(lambda a, b: not two(a, b))],
            "one digit, difference": [(a, b, "-") for a, b in some(lambda a, b: not two(a, b) and a >= b)],
            "two digits, sum, unseen": [(a, b, "+") for a, b in some(lambda a, b: two(a, b) and held(f"{a}+{b}"))],
            "two digits, sum, seen": [(a, b, "+") for a, b in some(lambda a, b: two(a, b) and not held(f"{a}+{b}"))],
            "two digits, difference, unseen": [(a, b, "-") for a, b in some(lambda a, b: a >= b and two(a, b) and held(f"{a}-{b}"))],
            "two digits, difference, seen": [(a, b, "-") for a, b in some(lambda a, b: a >= b and two(a, b) and not held(f"{a}-{b}"))],
            "product up to 12 x 12": [(a, b, "x") for a in range(13) for b in range(13)]}


def main():
    split = sys.argv.index("--")
    v, command = Vocab(sys.argv[1]), sys.argv[split + 1:]
    end = v.id["<|im_end|>"]
    for name, sums in groups(random.Random(1)).items():
        asked = [f"What is {a} {s} {b}?" if i % 2 else f"Berapa {a} {s} {b}?" for i, (a, b, s) in enumerate(sums)]
        right, wrong = 0, []
        for (a, b, s), ids in zip(sums, ask(command, [v.prompt([["user", t]]) for t in asked])):
            text = v.decode(ids[:ids.index(end)] if end in ids else ids)
            c = {"+": a + b, "-": a - b, "x": a * b}[s]
            right += text == f"{a} {s} {b} = {c}."
            wrong += [text] if text != f"{a} {s} {b} = {c}." else []
        print(f"{name:32} {right:4} of {len(sums)} ({100 * right / len(sums):.1f}%)  wrong: {wrong[:3]}")


if __name__ == "__main__":
    main()
