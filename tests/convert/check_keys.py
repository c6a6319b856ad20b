"""What a converted file says beside its weights: keys of the configuration, pre-tokenizer names of every family, special
ids, end-of-turn ids, templates, types of tokens. Usage: check_keys.py KENTANG WORK_FOLDER"""
import json
import os
import shutil
import subprocess
import sys

import folders
import gguf
import models

kentang, work = sys.argv[1:3]
failed = 0


def check(name, got, want):
    global failed
    if got != want:
        failed += 1
        print(f"FAIL {name}: {got!r}, expected {want!r}")
    else:
        print(f"PASS {name}")


def convert(folder, *more):
    out = os.path.join(work, "keys.gguf")
    done = subprocess.run([kentang, "convert", folder, out, *more], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAIL converting {folder}: {done.stderr}")
    return gguf.Reader(out)


def edit(folder, name, change):
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as f:
        value = json.load(f)
    change(value)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def fresh(name):
    folder = os.path.join(work, "keys", name)
    shutil.rmtree(folder, ignore_errors=True)
    _, n = models.write(models.MODELS[name], folder)
    return folder, n


# pre-tokenizers by their structure; the file's own tokenizer proves the name
folder, n = fresh("qwen2")
for pre in folders.PRETOKENIZERS:
    folders.write_bpe(folder, pre, 512)
    check(f"pre {pre}", convert(folder).keys["tokenizer.ggml.pre"], pre)

# ends, roles, flags, sampling and templates of a byte-level model
folder, n = fresh("qwen2")
k = convert(folder).keys
check("type as the source", k["general.file_type"], 32)
check("eos", k["tokenizer.ggml.eos_token_id"], n - 2)
check("all ends", k["kentang.eos_ids"], [n - 2, n - 4])
check("pad", k["tokenizer.ggml.padding_token_id"], n - 4)
check("no bos", ("tokenizer.ggml.bos_token_id" in k, k["tokenizer.ggml.add_bos_token"]), (False, False))
check("token types", k["tokenizer.ggml.token_type"][n - 4:n + 1], [3, 3, 3, 4, 5])
check("padding token", k["tokenizer.ggml.tokens"][511], "[PAD511]")
check("template", k["tokenizer.chat_template"], folders.CHATML)
check("named template", k["tokenizer.chat_template.tool_use"], "T" + folders.CHATML)
check("names of templates", k["tokenizer.chat_templates"], ["tool_use"])
check("sampling", (round(k["general.sampling.temp"], 6), k["general.sampling.top_k"]), (0.7, 20))
check("rope base", k["qwen2.rope.freq_base"], 1e6)

# a SentencePiece vocabulary, from both sources: the same scores' order, the same flags
for name, files in (("model", {"model"}), ("json", {"json"}), ("both", {"model", "json"})):
    folder, n = fresh("gemma2")
    for file in ("tokenizer.json", "tokenizer.model"):
        if os.path.exists(os.path.join(folder, file)):
            os.remove(os.path.join(folder, file))
    n = folders.write_spm(folder, models.G, False, files)
    k = convert(folder).keys
    check(f"spm {name}: kind", k["tokenizer.ggml.model"], "llama")
    check(f"spm {name}: ends", (k["kentang.eos_ids"], k["tokenizer.ggml.eot_token_id"]), ([1, n - 1], n - 1))
    check(f"spm {name}: bos", (k["tokenizer.ggml.bos_token_id"], k["tokenizer.ggml.add_bos_token"]), (2, True))
    check(f"spm {name}: no space", k["tokenizer.ggml.add_space_prefix"], False)
    check(f"spm {name}: types", (k["tokenizer.ggml.token_type"][3:5], k["tokenizer.ggml.token_type"][n - 1]),
          ([2, 6], 3))
    scores = {t: s for t, s, c in zip(k["tokenizer.ggml.tokens"], k["tokenizer.ggml.scores"],
                                      k["tokenizer.ggml.token_type"]) if c == 1 and len(t) > 1}
    order = sorted(scores, key=lambda t: -scores[t])
    if name == "model":
        want = order
    check(f"spm {name}: order", order, want)
    check(f"spm {name}: template", "<end_of_turn>" in k["tokenizer.chat_template"], True)
check("class defaults", (k["gemma2.attn_logit_softcapping"], k["gemma2.final_logit_softcapping"]), (50.0, 30.0))
check("tied: no head", "output.weight" in convert(folder).tensors, False)

# BOS from the post-processor, and the settings that overrule it
folder, _ = fresh("mistral")
check("bos of the post-processor", convert(folder).keys["tokenizer.ggml.add_bos_token"], True)
edit(folder, "tokenizer_config.json", lambda c: c.update(add_bos_token=False))
check("bos of the settings", convert(folder).keys["tokenizer.ggml.add_bos_token"], False)
k = convert(folder, "--type", "q8_0")
check("recipe", (k.keys["general.file_type"], k.tensors["blk.0.attn_q.weight"][1], k.tensors["output_norm.weight"][1]),
      (7, 8, 0))

# an older folder: tokenizer.model, added_tokens.json and special_tokens_map.json
folder, n = fresh("gemma3-vision")
edit(folder, "tokenizer_config.json", lambda c: [c.pop(k) for k in list(c)])
folders.write_json(folder, "added_tokens.json", {"<end_of_turn>": n - 1, "<tool>": n})
folders.write_json(folder, "special_tokens_map.json", {
    "bos_token": {"content": "<bos>"}, "eos_token": "<eos>", "additional": "<end_of_turn>"})
k = convert(folder).keys
check("older files", (k["tokenizer.ggml.tokens"][n], k["tokenizer.ggml.token_type"][n - 1:n + 1],
                      k["tokenizer.ggml.bos_token_id"], k["kentang.eos_ids"]), ("<tool>", [3, 4], 2, [1, n - 1]))

# rope
k = convert(fresh("qwen2-yarn")[0]).keys
check("yarn", (k["qwen2.rope.scaling.type"], k["qwen2.rope.scaling.factor"],
               k["qwen2.rope.scaling.original_context_length"]), ("yarn", 4.0, 64))
k = convert(fresh("longrope")[0])
check("longrope", (k.keys["phi3.rope.scaling.type"], k.keys["phi3.rope.dimension_count"],
                   k.tensors["rope_factors_long.weight"][0]), ("longrope", 24, (12,)))
k = convert(fresh("gemma3-vision")[0])
check("vision left out", any("vision" in t for t in k.tensors), False)
check("local base", (k.keys["gemma3.rope.freq_base"], k.keys["gemma3.rope.freq_base_swa"]), (1e6, 1e4))
check("rows without a token", k.tensors["token_embd.weight"][0][1], len(k.keys["tokenizer.ggml.tokens"]))
sys.exit(failed > 0)
