#!/usr/bin/env python3
"""Byte-level BPE: learns a vocabulary from a corpus and turns dialogues into token files.

    bpe.py learn CORPUS.jsonl VOCAB.json [--size 2048]
    bpe.py encode VOCAB.json CORPUS.jsonl OUT.bin

The pre-tokenizer is `qwen2` of GGUF and the alphabet is GPT-2's 256 printable stand-ins for bytes.
"""

import argparse
import array
import collections
import heapq
import json
import re
import struct

from corpus.calls import TAGS

# Control tokens, which no text contains, and the tags around tools and calls, which are text of one token.
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPECIALS = CONTROL + TAGS
MAX_LEN = 1000

# A sum's few tokens would drown among the stories' many, so they weigh more in the loss.
SUM = re.compile(r"-?\d+ [-+x/] \d+ = ")
TAG = re.compile("(" + "|".join(map(re.escape, TAGS)) + ")")
SUM_WEIGHT = 4
# So would a call's or a form's among the many of the tools' definitions.
COPY_WEIGHT = 2
# Whether a note answers is said by the first tokens of an answer, what it says by the others.
NOTE_WEIGHT, FIRST_WEIGHT, FIRST = 2, 8, 3

# The qwen2 pattern in re's own terms: L = letters, N = one digit, the rest as it stands there.
L, NOT_LN = r"[^\W\d_]", r"(?:[^\w\s]|_)"
PATTERN = re.compile(
    r"'(?i:s|t|re|ve|m|ll|d)|(?:[^\r\n\w]|_)?" + L + r"+|\d| ?" + NOT_LN + r"+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_alphabet():
    """GPT-2's map from bytes to printable characters."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


ALPHABET = byte_alphabet()


def stand_in(text):
    return "".join(ALPHABET[b] for b in text.encode("utf-8"))


def dialogues(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def learn(path, size):
    """The merges, most frequent pair first (ties: the smaller pair)."""
    words = collections.Counter()
    for d in dialogues(path):
        for role, text in d["messages"]:
            for piece in TAG.split(role + "\n" + text)[::2]:
                words.update(PATTERN.findall(piece))
    parts = [list(stand_in(w)) for w in words]
    counts = list(words.values())
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, p in enumerate(parts):
        for pair in zip(p, p[1:]):
            pairs[pair] += counts[i]
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < size - 256 - len(SPECIALS) and heap:
        n, pair = heapq.heappop(heap)
        if pairs[pair] != -n:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        merges.append(pair)
        apply_merge(pair, parts, counts, pairs, where, heap)
    return merges


def apply_merge(pair, parts, counts, pairs, where, heap):
    changed = set()
    for i in where.pop(pair):
        old, new = parts[i], merge(parts[i], pair)
        for p in zip(old, old[1:]):
            pairs[p] -= counts[i]
        for p in zip(new, new[1:]):
            pairs[p] += counts[i]
            where[p].add(i)
            changed.add(p)
        parts[i] = new
    for p in changed:
        heapq.heappush(heap, (-pairs[p], p))


def merge(parts, pair):
    out, i = [], 0
    while i < len(parts):
        if i + 1 < len(parts) and parts[i] == pair[0] and parts[i + 1] == pair[1]:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


class Vocab:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            v = json.load(f)
        self.tokens, self.merges = v["tokens"], v["merges"]
        self.id = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {tuple(m): i for i, m in enumerate(self.merges)}
        self._seen = {}

    def word(self, text):
        if text not in self._seen:
            parts = list(stand_in(text))
            while len(parts) > 1:
                best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, 1 << 30))
                if best not in self.rank:
                    break
                parts = merge(parts, best)
            self._seen[text] = [self.id[p] for p in parts]
        return self._seen[text]

    def encode(self, text):
        """Ids of a text; control tokens in it are text, tags are tokens."""
        pieces = TAG.split(text)
        ids = []
        for i, piece in enumerate(pieces):
            ids += [self.id[piece]] if i % 2 else [t for w in PATTERN.findall(piece) for t in self.word(w)]
        return ids

    def decode(self, ids):
        back = {c: b for b, c in ALPHABET.items()}
        raw = b"".join(bytes(back[c] for c in self.tokens[i]) if self.tokens[i] not in SPECIALS
                       else self.tokens[i].encode() for i in ids)
        return raw.decode("utf-8", "replace")

    def prompt(self, messages):
        """ChatML with the assistant's turn opened."""
        start, end = self.id["<|im_start|>"], self.id["<|im_end|>"]
        ids = []
        for role, text in messages:
            ids += [start, *self.encode(role + "\n" + text), end, *self.encode("\n")]
        return ids + [start, *self.encode("assistant\n")]


def dialogue_ids(v, messages):
    """(ids, weights): ChatML; a loss weight on what the assistant writes, end-of-turn included, 0 elsewhere."""
    start, end, newline = v.id["<|im_start|>"], v.id["<|im_end|>"], v.encode("\n")
    ids, marks = [], []
    for role, text in messages:
        head, body = [start, *v.encode(role + "\n")], [*v.encode(text), end]
        if role == "user" and len(ids) + len(head) + len(body) + 300 > MAX_LEN:
            break
        ids += head + body + newline
        noted = any("\nA: " in said for who, said in messages if who == "user")
        copied = text.startswith(("<tool_call>", "{"))
        weight = 0 if role != "assistant" else SUM_WEIGHT if SUM.match(text) else NOTE_WEIGHT if noted else COPY_WEIGHT if copied else 1
        first = min(FIRST, len(body)) if weight and noted else 0
        marks += [0] * len(head) + [FIRST_WEIGHT] * first + [weight] * (len(body) - first) + [0] * len(newline)
    drop = len(newline)
    return ids[:-drop], marks[:-drop]


def encode_file(v, source, target):
    cats, docs, total = {}, [], 0
    for d in dialogues(source):
        cat = cats.setdefault(d["cat"], len(cats))
        ids, marks = dialogue_ids(v, d["messages"])
        total += len(ids)
        docs.append(struct.pack("<2H", len(ids), cat) + array.array("H", ids).tobytes() + bytes(marks) +
                    b"\0" * (len(ids) & 1))
    with open(target, "wb") as out:
        out.write(b"KTDATA1\0" + struct.pack("<3i", len(v.tokens), len(cats), len(docs)))
        for name in cats:
            out.write(name.encode().ljust(24, b"\0"))
        out.write(b"".join(docs))
    print(f"{target}: {len(docs)} dialogues, {total} tokens")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("verb", choices=["learn", "encode"])
    a.add_argument("args", nargs="+")
    a.add_argument("--size", type=int, default=2048)
    a = a.parse_args()
    if a.verb == "encode":
        encode_file(Vocab(a.args[0]), a.args[1], a.args[2])
        return
    merges = learn(a.args[0], a.size)
    tokens = [ALPHABET[b] for b in sorted(ALPHABET, key=lambda b: ALPHABET[b])]
    tokens += [x + y for x, y in merges] + SPECIALS
    assert len(tokens) == len(set(tokens)) == a.size, "the corpus is too poor for this vocabulary"
    with open(a.args[1], "w", encoding="utf-8") as out:
        json.dump({"tokens": tokens, "merges": merges}, out, ensure_ascii=False, indent=0)


if __name__ == "__main__":
    main()
