#!/usr/bin/env python3
"""compare.py MODEL.f32 VOCAB.json MODEL.gguf HELD.jsonl LOGITS ENGINE...: the export is exact.

LOGITS is the trainer's forward pass (logits.c); ENGINE... an engine that takes `tokenize MODEL` and
`logits MODEL` (kentang, or `node oracle.mjs` of ../shared/peer). Both see the same prompts: the
token ids must be equal, the logits close (the engine reads f16 weights and keeps f16 keys and values).
"""

import math
import sys

from bpe import Vocab, dialogue_ids, dialogues
from engine import ask


def kl(a, b):
    pa, pb = ([x - max(z) for x in z] for z in (a, b))
    la, lb = (math.log(sum(map(math.exp, z))) for z in (pa, pb))
    return sum(math.exp(x - la) * ((x - la) - (y - lb)) for x, y in zip(pa, pb))


def main():
    checkpoint, vocab, gguf, held, logits, *engine = sys.argv[1:]
    v = Vocab(vocab)
    some = [d["messages"] for d in dialogues(held)][:400]
    texts = sorted({text for m in some for _, text in m})
    theirs = ask([*engine, "tokenize", gguf], texts)
    bad = [t for t, ids in zip(texts, theirs) if ids != v.encode(t)]
    print(f"tokenizer: {len(texts) - len(bad)} of {len(texts)} texts equal", bad[:3])
    ids = [dialogue_ids(v, m)[0] for m in some[:40]]
    ids += [i[:len(i) // 2] for i in ids]
    ours, theirs = ask([logits, checkpoint], ids), ask([*engine, "logits", gguf], ids)
    worst = max(abs(a - b) for x, y in zip(ours, theirs) for a, b in zip(x["logits"], y["logits"]))
    mean = sum(kl(x["logits"], y["logits"]) for x, y in zip(ours, theirs)) / len(ids)
    same = sum(x["argmax"] == y["argmax"] for x, y in zip(ours, theirs))
    print(f"logits: {len(ids)} positions, top-1 equal in {same}, worst difference {worst:.4f}, mean KL {mean:.2e}")
    sys.exit(bool(bad) or mean > 1e-3)


if __name__ == "__main__":
    main()
