#!/usr/bin/env python3
"""Encoders of pictures with random weights of a published geometry, and text models that fit them.

vision_models.py encoder FAMILY OUT.gguf D_TEXT [--type f32|f16|q8_0] [--layers N] [--width D] [--side PIXELS]
vision_models.py text FAMILY IN.gguf OUT.gguf   a text model's file with the family's control tokens and chat template
numpy only.
"""
import argparse
import struct
import numpy as np

ALIGN = 32
TYPES = {"f32": 0, "f16": 1, "q8_0": 8}
SIZES = {0: 4, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def text(s):
    b = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(b)) + b


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    return struct.pack("<IIQ", 9, 6, len(v)) + np.asarray(v, "<f4").tobytes()


def pack(x, kind):
    if kind == "f32":
        return x.astype("<f4").tobytes()
    if kind == "f16":
        return x.astype("<f2").tobytes()
    blocks = x.reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype("<f2")
    q = np.rint(np.divide(blocks, scale.astype("f4"), out=np.zeros_like(blocks), where=scale > 0)).astype("i1")
    return np.concatenate([scale.view("i1"), q], 1).tobytes()


def write(path, keys, tensors):
    """keys: [(name, packed value)]; tensors: [(name, ne, type number, bytes)]"""
    with open(path, "wb") as f:
        f.write(struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys)))
        for k, v in keys:
            f.write(text(k) + v)
        at = 0
        for name, ne, kind, data in tensors:
            f.write(text(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, kind, at))
            at += (len(data) + ALIGN - 1) // ALIGN * ALIGN
        f.write(b"\0" * (-f.tell() % ALIGN))
        for _, _, _, data in tensors:
            f.write(data)
            f.write(b"\0" * (-len(data) % ALIGN))


# family: side, patch, width, feed-forward, layers, heads, merge
GEOMETRY = {"idefics3": (512, 16, 768, 3072, 12, 12, 4), "gemma3": (896, 14, 1152, 4304, 27, 16, 4),
            "qwen2vl_merger": (560, 14, 1280, 5120, 32, 16, 2), "qwen2.5vl_merger": (560, 14, 1280, 3420, 32, 16, 2),
            "qwen3vl_merger": (768, 16, 1024, 4096, 24, 16, 2)}


def encoder(args):
    side, patch, d, ff, layers, heads, merge = GEOMETRY[args.family]
    layers, side = args.layers or layers, args.side or side
    rng = np.random.default_rng(1)
    tensors = []

    def add(name, ne, spread, centre=0.0):
        x = (centre + spread * rng.standard_normal(int(np.prod(ne)), dtype=np.float32)).astype("f4")
        matrix = len(ne) == 2 and name.startswith(("v.blk", "mm.model", "mm.0", "mm.2", "v.deepstack"))
        kind = args.type if matrix else "f32"
        if kind == "q8_0" and ne[0] % 32:  # as published files have it
            kind = "f16"
        tensors.append((name, ne, TYPES[kind], pack(x, kind)))

    rms, qwen = args.family == "qwen2.5vl_merger", args.family.startswith("qwen")
    deep = ([i for i in (5, 11, 17) if i < layers] or [0]) if args.family == "qwen3vl_merger" else []

    def norm(name, n):
        add(name + ".weight", [n], 0.1, 1.0)
        if not rms:
            add(name + ".bias", [n], 0.1)

    def linear(name, n_out, n_in):
        add(name + ".weight", [n_in, n_out], 1.0 / np.sqrt(n_in))
        add(name + ".bias", [n_out], 0.1)

    n = (side // patch) ** 2
    add("v.patch_embd.weight", [patch, patch, 3, d], 1.0 / np.sqrt(3 * patch * patch))
    if qwen:
        add("v.patch_embd.weight.1", [patch, patch, 3, d], 1.0 / np.sqrt(3 * patch * patch))
    if not qwen or deep:
        add("v.patch_embd.bias", [d], 0.1)
        add("v.position_embd.weight", [d, n], 0.5)
    for i in range(layers):
        b = f"v.blk.{i}."
        norm(b + "ln1", d)
        norm(b + "ln2", d)
        if deep:
            linear(b + "attn_qkv", 3 * d, d)
        for part in ("attn_q", "attn_k", "attn_v", "attn_out")[3 if deep else 0:]:
            linear(b + part, d, d)
        if rms:
            linear(b + "ffn_gate", ff, d)
        linear(b + "ffn_up", ff, d)
        linear(b + "ffn_down", d, ff)
    norm("v.post_ln", d)
    wide = d * merge * merge
    for i in deep:
        norm(f"v.deepstack.{i}.norm", wide)
        linear(f"v.deepstack.{i}.fc1", wide, wide)
        linear(f"v.deepstack.{i}.fc2", args.d_text, wide)
    if qwen:
        linear("mm.0", wide, wide)
        linear("mm.2", args.d_text, wide)
    elif args.family == "gemma3":
        add("mm.soft_emb_norm.weight", [d], 0.1, 1.0)
        add("mm.input_projection.weight", [args.d_text, d], 1.0 / np.sqrt(d))
    else:
        add("mm.model.fc.weight", [d * merge * merge, args.d_text], 1.0 / np.sqrt(d * merge * merge))
    keys = [("general.architecture", "clip"), ("general.name", f"random {args.family}"), ("clip.has_vision_encoder", True),
            ("clip.projector_type", args.family), ("clip.use_gelu", not qwen or bool(deep)), ("clip.use_silu", rms), ("clip.vision.image_size", side),
            ("clip.vision.patch_size", patch), ("clip.vision.embedding_length", d), ("clip.vision.feed_forward_length", ff),
            ("clip.vision.block_count", layers), ("clip.vision.attention.head_count", heads),
            ("clip.vision.projection_dim", args.d_text), ("clip.vision.projector.scale_factor", merge),
            ("clip.vision.attention.layer_norm_epsilon", 1e-6), ("clip.vision.image_mean", [0.5] * 3),
            ("clip.vision.image_std", [0.5] * 3)]
    if rms:
        keys.append(("clip.vision.n_wa_pattern", min(8, layers)))
    if args.family == "idefics3":
        keys.append(("clip.vision.preproc_image_size", args.longest or 4 * side))
    write(args.out, [(k, value(v)) for k, v in keys], tensors)


# ---- a text model's file with other tokens ----

def read_string(b, at):
    n, = struct.unpack_from("<Q", b, at)
    return b[at + 8:at + 8 + n], at + 8 + n


def skip_value(b, at, kind):
    if kind == 8:
        return read_string(b, at)[1]
    if kind != 9:
        return at + SIZES[kind]
    inner, n = struct.unpack_from("<IQ", b, at)
    at += 12
    for _ in range(n if inner == 8 else 0):
        at = read_string(b, at)[1]
    return at if inner == 8 else at + n * SIZES[inner]


SMOLVLM = ("<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == 'image' %}"
           "{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
           "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
           "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
GEMMA = ("{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
         "{% for p in m['content'] %}{% if p['type'] == 'image' %}{{ '<start_of_image>' }}{% else %}{{ p['text'] | trim }}{% endif %}"
         "{% endfor %}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")


QWEN = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for p in m['content'] %}{% if p['type'] == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def new_tokens(family):
    if family != "idefics3":
        return []
    return (["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"] +
            [f"<row_{y}_col_{x}>" for y in range(1, 7) for x in range(1, 7)])


def retoken(args):
    b = open(args.source, "rb").read()
    magic, version, n_tensor, n_kv = struct.unpack_from("<IIQQ", b, 0)
    at, keys = 24, []
    names = [t.encode() for t in new_tokens(args.family)]
    for _ in range(n_kv):
        key, at = read_string(b, at)
        kind, = struct.unpack_from("<I", b, at)
        end = skip_value(b, at + 4, kind)
        v = b[at:end]
        if key == b"tokenizer.ggml.tokens" and names:
            n, = struct.unpack_from("<Q", b, at + 8)
            p, items = at + 16, []
            for _ in range(n):
                s, p = read_string(b, p)
                items.append(s)
            items[-len(names):] = names
            v = struct.pack("<IIQ", 9, 8, n) + b"".join(text(s) for s in items)
        if key == b"tokenizer.ggml.token_type" and names:
            n, = struct.unpack_from("<Q", b, at + 8)
            types = np.frombuffer(b, "<i4", n, at + 16).copy()
            types[-len(names):] = 3
            v = struct.pack("<IIQ", 9, 5, n) + types.tobytes()
        at = end
        if key == b"tokenizer.ggml.merges" and names:  # no merge makes a token that is gone
            n, = struct.unpack_from("<Q", v, 8)
            v = v[:]
        if key != b"tokenizer.chat_template":
            keys.append((key, v))
    template = {"idefics3": SMOLVLM, "gemma3": GEMMA}.get(args.family, QWEN)
    deep = args.family == "qwen3vl_merger" and args.deep
    if deep:
        keys.append(("qwen3vl.n_deepstack_layers", value(args.deep)))
    keys.append(("tokenizer.chat_template", value(template)))
    infos, tensors = [], []
    for _ in range(n_tensor):
        name, at = read_string(b, at)
        nd, = struct.unpack_from("<I", b, at)
        ne = struct.unpack_from(f"<{nd}Q", b, at + 4)
        kind, place = struct.unpack_from("<IQ", b, at + 4 + 8 * nd)
        at += 16 + 8 * nd
        infos.append((name, ne, kind, place))
    base = (at + ALIGN - 1) // ALIGN * ALIGN
    order = sorted(infos, key=lambda t: t[3])
    ends = [t[3] for t in order[1:]] + [len(b) - base]
    for (name, ne, kind, place), end in zip(order, ends):
        tensors.append((name, ne, kind, b[base + place:base + end]))
    write(args.out, keys, tensors)


p = argparse.ArgumentParser(description=__doc__)
sub = p.add_subparsers(required=True)
e = sub.add_parser("encoder")
e.add_argument("family", choices=GEOMETRY)
e.add_argument("out")
e.add_argument("d_text", type=int)
e.add_argument("--type", default="f32", choices=TYPES)
e.add_argument("--layers", type=int)
e.add_argument("--side", type=int)
e.add_argument("--longest", type=int)
e.set_defaults(run=encoder)
t = sub.add_parser("text")
t.add_argument("family", choices=GEOMETRY)
t.add_argument("source")
t.add_argument("out")
t.add_argument("--deep", type=int, default=0, help="layers that read parts of a picture's rows (qwen3vl)")
t.set_defaults(run=retoken)
args = p.parse_args()
args.run(args)
