#!/usr/bin/env python3
"""export.py MODEL.f32 VOCAB.json FOLDER

Writes a trained checkpoint as a Hugging Face folder of the class LlamaForCausalLM, with F32 weights: the rest is
`kentang convert` and `kentang quantize`.
"""

import json
import os
import struct
import sys

from bpe import CONTROL, SPECIALS, Vocab
from checkpoint import load

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


# As tokenizer.json writes the pre-tokenizer of bpe.py.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")

NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "token_embd": "embed_tokens", "output_norm": "norm"}


def folder_name(name):
    """"blk.3.attn_q" to "model.layers.3.self_attn.q_proj.weight"."""
    *block, last = name.split(".")
    return "model." + (f"layers.{block[1]}." if block else "") + NAMES[last] + ".weight"


def split_pairs(data, rows, cols, head_rows):
    """The trainer's rotary pairs are adjacent rows; the class has the first of each pair, then the second."""
    row = 4 * cols
    order = [h + i for h in range(0, rows, head_rows) for i in (*range(0, head_rows, 2), *range(1, head_rows, 2))]
    return b"".join(data[r * row:(r + 1) * row] for r in order)


def write_weights(path, dims, tensors):
    header, blobs, at = {}, [], 0
    for name, rows, cols, data in tensors:
        if name.endswith(("attn_q", "attn_k")):
            data = split_pairs(data, rows, cols, dims["embd"] // dims["head"])
        shape = [rows, cols] if rows else [cols]
        header[folder_name(name)] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def config(dims):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "dtype": "float32",
            "hidden_size": dims["embd"], "intermediate_size": dims["ff"], "num_hidden_layers": dims["layer"],
            "num_attention_heads": dims["head"], "num_key_value_heads": dims["head_kv"],
            "max_position_embeddings": dims["ctx"], "rms_norm_eps": dims["eps"], "rope_theta": dims["base"],
            "tie_word_embeddings": True, "vocab_size": dims["vocab"]}


def tokenizer(vocab):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": t in CONTROL} for i, t in enumerate(vocab.tokens) if t in SPECIALS]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {t: i for i, t in enumerate(vocab.tokens) if t not in SPECIALS},
                      "merges": [list(m) for m in vocab.merges]}}


def main():
    checkpoint, vocab_path, folder = sys.argv[1:]
    dims, tensors, _ = load(checkpoint)
    vocab = Vocab(vocab_path)
    os.makedirs(folder, exist_ok=True)

    def write_json(name, value):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f, ensure_ascii=False, indent=1)

    write_json("config.json", config(dims))
    write_json("tokenizer.json", tokenizer(vocab))
    write_json("tokenizer_config.json", {
        "add_bos_token": False, "add_eos_token": False, "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>", "chat_template": TEMPLATE})
    write_json("generation_config.json", {"eos_token_id": vocab.id["<|im_end|>"]})
    write_weights(os.path.join(folder, "model.safetensors"), dims, tensors)


if __name__ == "__main__":
    main()
