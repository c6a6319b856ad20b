#!/usr/bin/env python3
"""export.py MODEL.f32 VOCAB.json OUT.gguf [--recipe f16|demo|TYPE] [--quantise PROGRAM] [--back OUT.f32]

Writes a trained checkpoint as GGUF v3, architecture `llama`. Matrices go through `quantise` (kentang's
own encoders) except for f16 and f32; norms stay f32. --back also writes the checkpoint that the file
decodes to, so that train can measure its perplexity.
"""

import argparse
import array
import struct
import subprocess

from bpe import CONTROL, Vocab
from corpus.calls import TAGS

GGML = {"F32": 0, "F16": 1, "Q4_0": 2, "Q5_0": 6, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}
FILE_TYPE = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18}
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
ALIGN = 32

# The best that fits into 4 MB: six bits where an error costs most, five elsewhere.
DEMO = {"token_embd": "Q6_K", "attn_v": "Q6_K", "attn_k": "Q6_K", "ffn_down": "Q6_K"}

# Tools stand in the system message, a call in the assistant's, a result in a user's; calls.py writes the same texts.
TEMPLATE = """{%- if tools -%}
{{- '<|im_start|>system\\n' -}}
{%- if messages[0]['role'] == 'system' -%}
{{- (messages[0]['content'] | trim) + '\\n\\n' -}}
{%- endif -%}
{{- '# Tools\\n<tools>' -}}
{%- for tool in tools -%}
{{- '\\n' + ((tool['function'] if tool['function'] is defined else tool) | tojson) -}}
{%- endfor -%}
{{- '\\n</tools><|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message['role'] == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1]['role'] != 'tool' -%}
{{- '<|im_start|>user' -}}
{%- endif -%}
{{- '\\n<tool_response>\\n' + (message['content'] | trim) + '\\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1]['role'] != 'tool' -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- elif not (tools and loop.first and message['role'] == 'system') -%}
{{- '<|im_start|>' + message['role'] + '\\n' -}}
{%- if message['content'] -%}
{{- message['content'] | trim -}}
{%- endif -%}
{%- for call in message['tool_calls'] or [] -%}
{%- if message['content'] or not loop.first -%}
{{- '\\n' -}}
{%- endif -%}
{%- set f = call['function'] if call['function'] is defined else call -%}
{{- '<tool_call>\\n{"name": ' + (f['name'] | tojson) + ', "arguments": ' -}}
{{- f['arguments'] if f['arguments'] is string else (f['arguments'] | tojson) -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


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


def kind_of(name, rows, recipe):
    if not rows:
        return "F32"
    if recipe == "demo":
        return DEMO.get(name.split(".")[-1], "Q5_K")
    return recipe.upper()


def encode(data, kind, cols, program, back=False):
    if kind == "F32":
        return data
    if kind == "F16":
        values = array.array("f", data)
        half = struct.pack(f"<{len(values)}e", *values)
        return array.array("f", struct.unpack(f"<{len(values)}e", half)).tobytes() if back else half
    return subprocess.run([program, kind, str(cols)] + ["--back"] * back, input=data, stdout=subprocess.PIPE,
                          check=True).stdout


def string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        item, items = v
        return struct.pack("<IQ", item, len(items)) + b"".join(value(item, i) for i in items)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def metadata(dims, vocab, recipe):
    ids = vocab.id
    types = [3 if t in CONTROL else 4 if t in TAGS else 1 for t in vocab.tokens]
    top = "Q5_K" if recipe == "demo" else recipe.upper()
    return [
        ("general.architecture", STRING, "llama"), ("general.type", STRING, "model"), ("general.name", STRING, "kentang demo"),
        ("general.description", STRING, "A very small chat model: stories, sums, small talk and kentang itself, in English and Indonesian."),
        ("general.license", STRING, "MIT"), ("general.size_label", STRING, "5.2M"),
        ("general.languages", ARRAY, (STRING, ["en", "id"])),
        ("general.file_type", U32, FILE_TYPE[top]), ("general.quantization_version", U32, 2),
        ("llama.block_count", U32, dims["layer"]), ("llama.context_length", U32, dims["ctx"]),
        ("llama.embedding_length", U32, dims["embd"]), ("llama.feed_forward_length", U32, dims["ff"]),
        ("llama.attention.head_count", U32, dims["head"]), ("llama.attention.head_count_kv", U32, dims["head_kv"]),
        ("llama.attention.layer_norm_rms_epsilon", F32, dims["eps"]), ("llama.rope.freq_base", F32, dims["base"]),
        ("llama.rope.dimension_count", U32, dims["embd"] // dims["head"]), ("llama.vocab_size", U32, dims["vocab"]),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "qwen2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, vocab.tokens)), ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, [" ".join(m) for m in vocab.merges])),
        ("tokenizer.ggml.bos_token_id", U32, ids["<|endoftext|>"]), ("tokenizer.ggml.eos_token_id", U32, ids["<|im_end|>"]),
        ("tokenizer.ggml.eot_token_id", U32, ids["<|im_end|>"]), ("tokenizer.ggml.padding_token_id", U32, ids["<|endoftext|>"]),
        ("tokenizer.ggml.add_bos_token", BOOL, False), ("tokenizer.ggml.add_eos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def padded(raw):
    return raw + b"\0" * (-len(raw) % ALIGN)


def write(path, meta, tensors):
    """tensors: [(name, rows, cols, type name, bytes)]"""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta))
    head += b"".join(string(k) + struct.pack("<I", kind) + value(kind, v) for k, kind, v in meta)
    at = 0
    for name, rows, cols, kind, data in tensors:
        shape = [cols, rows] if rows else [cols]
        head += string(name + ".weight") + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", GGML[kind], at)
        at += len(padded(data))
    with open(path, "wb") as out:
        out.write(padded(head))
        for tensor in tensors:
            out.write(padded(tensor[4]))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("vocab")
    a.add_argument("out")
    a.add_argument("--recipe", default="f16")
    a.add_argument("--quantise", default="./quantise")
    a.add_argument("--back")
    a = a.parse_args()
    dims, tensors, head = load(a.model)
    done = []
    for name, rows, cols, data in tensors:
        kind = kind_of(name, rows, a.recipe)
        done.append((name, rows, cols, kind, encode(data, kind, cols, a.quantise)))
    write(a.out, metadata(dims, Vocab(a.vocab), a.recipe), done)
    if a.back:
        with open(a.back, "wb") as out:
            out.write(head)
            for name, rows, cols, data in tensors:
                out.write(encode(data, kind_of(name, rows, a.recipe), cols, a.quantise, back=True))


if __name__ == "__main__":
    main()
