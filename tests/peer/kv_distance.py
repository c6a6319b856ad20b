#!/usr/bin/env python3
"""What quantised keys and values cost far from the end: KL divergence from the same model with f16, and how often the most probable token
is the same, by the length of the context and by the distance of what a token depends on.

    kv_distance.py KENTANG MODEL.gguf [--lengths 2048,8192,16384] [--chunks N]

The model is one whose context was stretched (tools/demo_model/stretch.sh): the texts are held-out dialogues of the demo model's corpus, and
every third is one that was there before, so that a model which reads its context predicts it from there. `kentang perplexity --exact --kl-save`
writes the predictions of each text's second half. With --exact only the keys' and values' own loss is seen."""
import argparse
import json
import math
import os
import random
import struct
import tempfile

import numpy

from quality import ROOT, dialogue_text, run

TYPES = [("q8_0", "q8_0", 0), ("q8_0", "q4_0", 256), ("q4_0", "q4_0", 256), ("q4_0", "q4_0", 0)]
EDGES = [0, 512, 2048, 8192, 16384]


def dialogues(work):
    run("python3", os.path.join(ROOT, "tools/demo_model/make_corpus.py"), work, "--train", "10", "--held", "1200", "--seed", "5")
    with open(os.path.join(work, "held.jsonl"), encoding="utf-8") as f:
        return [dialogue_text(json.loads(line)["messages"]) for line in f]


def lengths_of(o, texts):
    lines = "\n".join(json.dumps(t, ensure_ascii=False) for t in texts)
    return [len(json.loads(line)) for line in run(o.kentang, "tokenize", "-m", o.model, input=lines).splitlines()]


def compose(texts, sizes, n_tok, rng):
    """A text of at least n_tok tokens, and for each token how far back it was there before; 0: it was not."""
    text, back, begin, order = "", [], {}, list(range(len(texts)))
    rng.shuffle(order)
    while len(back) < n_tok:
        again = begin and rng.random() < 1 / 3
        i = rng.choice(list(begin)) if again else order.pop()
        back += [len(back) - begin[i] if again else 0] * sizes[i]
        begin[i] = len(back) - sizes[i]
        text += texts[i]
    return text, back[:n_tok]


def predictions(o, text, back, n_tok, types, out):
    """Log-probabilities of the text's second half [tokens, vocabulary], and the tokens that came."""
    keys, values, tail = types
    run(o.kentang, "perplexity", "-m", o.model, "-f", text, "--context", str(n_tok), "--chunks", "1", "--kl-save", out, "--parse-special", "--exact", "-ctk", keys,
        "-ctv", values, "--kv-tail", str(tail), "-c", str(n_tok))
    with open(out, "rb") as f:
        raw = f.read()
    n_ctx, n_vocab, n_chunk = struct.unpack_from("<3i", raw, 8)
    ids = numpy.frombuffer(raw, "<i4", n_ctx * n_chunk, 20)
    width = 2 * ((n_vocab + 1) // 2) + 4
    codes = numpy.frombuffer(raw, "<u2", offset=20 + 4 * n_ctx * n_chunk).reshape(-1, width)
    head = numpy.ascontiguousarray(codes[:, :4]).view("<f4").astype(float)
    logp = head[:, :1] * codes[:, 4:4 + n_vocab] + head[:, 1:2]
    first = n_ctx // 2
    there = numpy.flatnonzero(back)
    assert (ids[there] == ids[there - back[there]]).all(), "what is said to be repeated is not"
    return logp, ids[first + 1:first + 1 + len(logp)]


def figures(base, other, came, chosen):
    p = numpy.exp(base[chosen])
    kl = (p * (base[chosen] - other[chosen])).sum(1)
    rows = numpy.arange(len(came))[chosen]
    return {"n": len(rows), "kl": kl.mean(), "kl_99": numpy.quantile(kl, 0.99),
            "same": (base[chosen].argmax(1) == other[chosen].argmax(1)).mean(),
            "ppl_f16": math.exp(-base[rows, came[rows]].mean()), "ppl": math.exp(-other[rows, came[rows]].mean())}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("kentang")
    a.add_argument("model")
    a.add_argument("--lengths", default="2048,8192,16384")
    a.add_argument("--chunks", type=int, default=2)
    o = a.parse_args()
    rng = random.Random(1)
    print("| context | repeated from | tokens | ppl f16 | keys | values | tail | KL mean | KL 99% | same token | ppl |\n|--:|---|--:|--:|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as work:
        texts = dialogues(work)
        sizes = lengths_of(o, texts)
        for n_tok in map(int, o.lengths.split(",")):
            seen = {}
            for _ in range(o.chunks):
                text, back = compose(texts, sizes, n_tok, rng)
                path = os.path.join(work, "text")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                back = numpy.array(back)
                base, came = predictions(o, path, back, n_tok, ("f16", "f16", -1), os.path.join(work, "kld"))
                judged = back[n_tok // 2 + 1:n_tok // 2 + 1 + len(came)]
                for types in TYPES:
                    other, _ = predictions(o, path, back, n_tok, types, os.path.join(work, "kld"))
                    seen.setdefault(types, []).append((base, other, came, judged))
            for types, parts in seen.items():
                base, other, came, back = (numpy.concatenate(x) for x in zip(*parts))
                groups = [("nowhere", back == 0)] + [(f"{low} to {high}", (back > low) & (back <= high)) for low, high in zip(EDGES, EDGES[1:])]
                for name, chosen in [("all", back >= 0), *groups]:
                    if chosen.sum() < 50:
                        continue
                    f = figures(base, other, came, chosen)
                    print(f"| {n_tok} | {name} | {f['n']} | {f['ppl_f16']:.4f} | {types[0]} | {types[1]} | {types[2]} | {f['kl']:.6f} | {f['kl_99']:.5f} | "
                          f"{100 * f['same']:.2f}% | {f['ppl']:.4f} |", flush=True)


main()
