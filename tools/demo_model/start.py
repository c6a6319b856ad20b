#!/usr/bin/env python3
"""start.py FILE-f32.gguf CORPUS.jsonl VOCAB.json START.f32 [--size N] [--layers N]: where a training goes on from a file.

Takes the weights of a demo file (kentang quantize FILE FILE-f32.gguf f32) as a checkpoint of the trainer, with a larger vocabulary: the
tags around tools, and merges for what the corpus' calls and forms have besides. A token that is new begins as the mean of its parts.
Further layers stand before the last two and do nothing at first: what they add is 0.
"""

import argparse
import array
import collections
import heapq
import json
import os
import random
import struct
import sys

import bpe


def grown_merges(vocab, path, n_new):
    """The n_new most frequent pairs of what the old merges leave of calls and forms, one after the other."""
    words = collections.Counter()
    for d in bpe.dialogues(path):
        if d["cat"].startswith(("calls", "forms")):
            for role, text in d["messages"]:
                for piece in bpe.TAG.split(role + "\n" + text)[::2]:
                    words.update(bpe.PATTERN.findall(piece))
    parts = [[vocab.tokens[i] for i in vocab.word(w)] for w in words]
    counts, merges = list(words.values()), []
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, p in enumerate(parts):
        for pair in zip(p, p[1:]):
            pairs[pair] += counts[i]
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    while len(merges) < n_new and heap:
        n, pair = heapq.heappop(heap)
        if pairs[pair] != -n:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        if any(c.isdigit() for c in pair[0] + pair[1]):
            pairs[pair] = 0
            continue
        merges.append(pair)
        bpe.apply_merge(pair, parts, counts, pairs, where, heap)
    return merges


def grown_vocab(keys, corpus, size, path):
    """Writes the vocabulary and returns, of each of its tokens, the ids in the old one that it is made of."""
    tokens, merges = keys["tokenizer.ggml.tokens"], [m.split(" ") for m in keys["tokenizer.ggml.merges"]]
    old = {t: i for i, t in enumerate(tokens)}

    def write(tokens, merges):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"tokens": tokens, "merges": merges}, f, ensure_ascii=False, indent=0)
        return bpe.Vocab(path)

    before = write(tokens, merges)
    made = {t: [i] for t, i in old.items()}
    for tag in bpe.TAGS:
        if tag not in made:
            made[tag] = before.word(tag)
            tokens.append(tag)
    for x, y in grown_merges(before, corpus, size - len(tokens)):
        merges.append([x, y])
        if x + y not in made:
            tokens.append(x + y)
            made[x + y] = made[x] + made[y]
    write(tokens, merges)
    return [made[t] for t in tokens]


def floats(reader, base, name):
    dims, kind, offset = reader.tensors[name + ".weight"]
    assert kind == 0, name
    n = dims[0] * (dims[1] if len(dims) > 1 else 1)
    return array.array("f", reader.data[base + offset:base + offset + 4 * n])


def noise(rng, n, size):
    return array.array("f", (rng.gauss(0, size) for _ in range(n)))


def embedding(old, embd, made, rng):
    out = array.array("f")
    for ids in made:
        if len(ids) == 1:
            out += old[ids[0] * embd:(ids[0] + 1) * embd]
            continue
        rows = [old[i * embd:(i + 1) * embd] for i in ids]
        out.extend(sum(x) / len(rows) + rng.gauss(0, 0.01) for x in zip(*rows))
    return out


PARTS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")


def new_layer(embd, kv, ff, rng):
    inner = 0.7 / embd ** 0.5
    size = {"attn_q": embd * embd, "attn_k": kv * embd, "attn_v": kv * embd, "ffn_gate": ff * embd, "ffn_up": ff * embd}
    for part in PARTS:
        if part.endswith("norm"):
            yield array.array("f", [1.0]) * embd
        elif part in size:
            yield noise(rng, size[part], inner)
        else:
            yield array.array("f", [0.0]) * (embd * (embd if part == "attn_output" else ff))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("source")
    a.add_argument("corpus")
    a.add_argument("vocab")
    a.add_argument("out")
    a.add_argument("--size", type=int, default=2144)
    a.add_argument("--layers", type=int, default=7)
    a = a.parse_args()
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/convert"))
    from gguf import Reader  # the tests' reader
    r = Reader(a.source)
    base, k = r.at + -r.at % 32, r.keys
    embd, n_old = k["llama.embedding_length"], k["llama.block_count"]
    heads, heads_kv, ff = k["llama.attention.head_count"], k["llama.attention.head_count_kv"], k["llama.feed_forward_length"]
    made, rng = grown_vocab(k, a.corpus, a.size, a.vocab), random.Random(1)
    new = range(n_old - 2, n_old - 2 + a.layers - n_old)
    with open(a.out, "wb") as f:
        f.write(b"KTF32\0\0\0" + struct.pack("<7i2f", len(made), embd, a.layers, heads, heads_kv, ff, k["llama.context_length"], k["llama.rope.freq_base"],
                                             k["llama.attention.layer_norm_rms_epsilon"]))
        f.write(embedding(floats(r, base, "token_embd"), embd, made, rng).tobytes())
        f.write(floats(r, base, "output_norm").tobytes())
        old = iter(range(n_old))
        for layer in range(a.layers):
            if layer in new:
                tensors = new_layer(embd, embd // heads * heads_kv, ff, rng)
            else:
                block = next(old)
                tensors = (floats(r, base, f"blk.{block}.{part}") for part in PARTS)
            for t in tensors:
                f.write(t.tobytes())


if __name__ == "__main__":
    main()
