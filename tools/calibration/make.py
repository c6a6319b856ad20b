#!/usr/bin/env python3
"""make.py >src/program/make/calibration.txt: the text that models are calibrated with where no other is given.

All of it is this project's own: prose.txt here, dialogues of the demo model's corpus, the documentation, code, JSON. English and
Indonesian, half each where it is prose. Same tree, same bytes."""
import json
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "../..")
sys.path.insert(0, os.path.join(root, "tools/demo_model"))
import make_corpus
from corpus.pick import Pick


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def dialogues(n, seed):
    p = Pick(seed, "train")
    kinds = ["story", "talk", "sums", "kentang", "other"]
    for i in range(n):
        turns = make_corpus.dialogue(p, kinds[i % len(kinds)])["messages"]
        yield "\n".join(text for _, text in turns)


def paragraphs(text, most):
    """Running text alone: no tables, code or headings."""
    out, size = [], 0
    for part in re.sub(r"```.*?```", "", text, flags=re.S).split("\n\n"):
        if len(part) < 200 or part.lstrip()[:1] in "|#-*<!0123456789" or part.startswith("    "):
            continue
        part = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(part.split()))
        if size + len(part) > most:
            break
        out.append(part)
        size += len(part)
    return out


def main():
    parts = [p for p in read("tools/calibration/prose.txt").split("\n\n") if p.strip()]
    talk = list(dialogues(110, 7))
    docs = paragraphs(read("docs/DESIGN.md"), 7000) + paragraphs(read("docs/decisions/kernels.md"), 9000)
    code = [read("src/lib/base/text.c")[:5000], read("src/lib/quant/recipe.c")[:3000], read("tools/demo_model/bpe.py")[:3500],
            read("scripts/demo")[:2000]]
    data = [json.dumps({"id": i, "nama": n, "kota": k, "aktif": i % 3 > 0, "nilai": [i * 7 % 100, i * 13 % 100 / 4]}, indent=1)
            for i, (n, k) in enumerate([("Siti", "Bandung"), ("Budi", "Medan"), ("Anna", "Leeds"), ("Tomás", "Porto")])]
    everything = [*parts, *docs, *code, *data]
    step = max(1, len(talk) // len(everything))  # dialogues between the rest
    for i, part in enumerate(everything):
        print(part.strip() + "\n")
        for t in talk[i * step:(i + 1) * step]:
            print(t.strip() + "\n")
    for t in talk[len(everything) * step:]:
        print(t.strip() + "\n")


if __name__ == "__main__":
    main()
