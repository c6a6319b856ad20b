#!/usr/bin/env python3
"""The trainer's checkpoints (net.h): reading one, and making one of a GGUF file of F32 weights, so that train measures what
a quantised file decodes to.

    checkpoint.py LIKE.f32 MODEL-f32.gguf OUT.f32
"""

import os
import struct
import sys


def load(path):
    """(dims, [(name, rows, cols, f32 bytes)]) in net.h's order; rows 0 for a vector."""
    with open(path, "rb") as f:
        raw = f.read()
    assert raw[:5] == b"KTF32", path
    vocab, embd, n_layer, head, head_kv, ff, ctx = struct.unpack_from("<7i", raw, 8)
    base, eps = struct.unpack_from("<2f", raw, 36)
    dims = dict(vocab=vocab, embd=embd, layer=n_layer, head=head, head_kv=head_kv, ff=ff, ctx=ctx, base=base, eps=eps)
    kv = embd // head * head_kv
    shapes = [("token_embd", vocab, embd), ("output_norm", 0, embd)]
    for i in range(n_layer):
        b = f"blk.{i}."
        shapes += [(b + "attn_norm", 0, embd), (b + "attn_q", embd, embd), (b + "attn_k", kv, embd),
                   (b + "attn_v", kv, embd), (b + "attn_output", embd, embd), (b + "ffn_norm", 0, embd),
                   (b + "ffn_gate", ff, embd), (b + "ffn_up", ff, embd), (b + "ffn_down", embd, ff)]
    at, tensors = 44, []
    for name, rows, cols in shapes:
        size = 4 * max(rows, 1) * cols
        tensors.append((name, rows, cols, raw[at:at + size]))
        at += size
    assert at == len(raw), "the checkpoint has another size than its dimensions say"
    return dims, tensors, raw[:44]


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/convert"))
    from gguf import Reader  # the tests' reader
    like, source, out = sys.argv[1:]
    _, tensors, head = load(like)
    r = Reader(source)
    base = r.at + -r.at % 32
    with open(out, "wb") as f:
        f.write(head)
        for name, rows, cols, _ in tensors:
            dims, kind, offset = r.tensors[name + ".weight"]
            size = 4 * max(rows, 1) * cols
            assert kind == 0 and (dims == (cols, rows) if rows else dims == (cols,)), name
            f.write(r.data[base + offset:base + offset + size])


if __name__ == "__main__":
    main()
