#!/usr/bin/env python3
"""A trained model with the key biases that Qwen2 and 2.5 have, which computes the same function.

    outlier_keys.py MODEL.gguf OUT.gguf [--all]

MODEL.gguf: architecture llama, F32, without biases. Its heads get as many dimensions again, which are not rotated and which queries do not read
(their rows are 0): what keys have there changes no score, only what they are quantised with. There the first and the last layer get biases of norm 605
and 921 a head, the others of 22, as in Qwen2.5-7B; with --all every layer gets 605, so that none is an outlier and all are quantised.
tests/peer/kv_distance.py shows what quantised keys then cost."""
import argparse
import struct

import numpy

SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1", 10: "<u8", 11: "<i8", 12: "<f8"}
STRING, ARRAY, F32, ALIGNMENT = 8, 9, 0, 32
FIRST, LAST, USUAL = 605.0, 921.0, 22.0


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        """The bytes of a value."""
        begin = self.at
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            of, n = self.take("I"), self.take("Q")
            for _ in range(n if of in (STRING, ARRAY) else 0):
                self.skip(of)
            self.at += 0 if of in (STRING, ARRAY) else n * numpy.dtype(SCALARS[of]).itemsize
        else:
            self.at += numpy.dtype(SCALARS[kind]).itemsize
        return self.data[begin:self.at]


def read(path):
    with open(path, "rb") as f:
        r = Reader(f.read())
    magic, version, n_tensors, n_keys = r.take("4sIQQ")
    assert magic == b"GGUF" and version == 3
    keys, tensors = {}, {}
    for _ in range(n_keys):
        name, kind = r.text().decode(), r.take("I")
        keys[name] = (kind, r.skip(kind))
    table = []
    for _ in range(n_tensors):
        name, n_dims = r.text().decode(), r.take("I")
        shape = [r.take("Q") for _ in range(n_dims)]
        kind, offset = r.take("IQ")
        assert kind == F32, f"{name} is not F32"
        table.append((name, shape, offset))
    begin = -(-r.at // ALIGNMENT) * ALIGNMENT
    for name, shape, offset in table:
        tensors[name] = numpy.frombuffer(r.data, "<f4", int(numpy.prod(shape)), begin + offset).reshape(shape[::-1])
    return keys, tensors


def write(path, keys, tensors):
    def text(s):
        return struct.pack("<Q", len(s)) + s

    head = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))]
    head += [text(name.encode()) + struct.pack("<I", kind) + value for name, (kind, value) in keys.items()]
    body, at = [], 0
    for name, x in tensors.items():
        shape = x.shape[::-1]
        head.append(text(name.encode()) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32, at))
        data = numpy.ascontiguousarray(x, "<f4").tobytes()
        data += bytes(-len(data) % ALIGNMENT)
        body.append(data)
        at += len(data)
    head = b"".join(head)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGNMENT) + b"".join(body))


def widened(rows, n_head, scale=1.0):
    """Each head's rows, times scale, and as many of zeros."""
    heads = rows.reshape(n_head, -1, rows.shape[1])
    return numpy.concatenate([scale * heads, numpy.zeros_like(heads)], axis=1).reshape(-1, rows.shape[1])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("out")
    a.add_argument("--all", action="store_true")
    o = a.parse_args()
    keys, tensors = read(o.model)
    number = {name: struct.unpack("<I", value)[0] for name, (kind, value) in keys.items() if kind == 4}
    n_layer, n_head, n_kv, width = (number["llama." + k] for k in ("block_count", "attention.head_count", "attention.head_count_kv", "embedding_length"))
    head = width // n_head
    for name, n in (("attention.key_length", 2 * head), ("attention.value_length", head), ("rope.dimension_count", head)):
        keys["llama." + name] = (4, struct.pack("<I", n))
    rng = numpy.random.default_rng(1)
    for i in range(n_layer):
        norm = FIRST if o.all or i == 0 else LAST if i == n_layer - 1 else USUAL
        bias = numpy.zeros((n_kv, 2 * head))
        bias[:, head:] = rng.normal(size=(n_kv, head))
        bias *= norm / numpy.linalg.norm(bias, axis=1, keepdims=True)
        # scores are divided by the root of a head's length
        tensors[f"blk.{i}.attn_q.weight"] = widened(tensors[f"blk.{i}.attn_q.weight"], n_head, 2 ** 0.5)
        tensors[f"blk.{i}.attn_k.weight"] = widened(tensors[f"blk.{i}.attn_k.weight"], n_kv)
        tensors[f"blk.{i}.attn_q.bias"] = numpy.zeros(n_head * 2 * head)
        tensors[f"blk.{i}.attn_k.bias"] = bias.reshape(-1)
        tensors[f"blk.{i}.attn_v.bias"] = numpy.zeros(n_kv * head)
    write(o.out, keys, tensors)


main()
