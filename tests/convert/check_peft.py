"""Adapters as PEFT saves them: a folder of a model and one of an adapter are written, and the engine's logits with
--lora, and those of the merged file, are compared with a forward pass in numpy over W + scale * alpha / rank * B A.
Usage: check_peft.py KENTANG WORK_FOLDER [NAME...]"""
import json
import math
import os
import shutil
import subprocess
import sys

import numpy as np

import folders
import models

kentang, work = sys.argv[1], sys.argv[2]
NAMES = sys.argv[3:] or ["llama3", "qwen2", "qwen3", "gemma2", "gemma3-vision", "smollm3", "granite", "fused",
                         "ernie", "glm4", "mistral3", "olmo3", "cohere2", "lfm2", "qwen35", "falcon-h1"]
failed = 0


def check(name, good, detail=""):
    global failed
    failed += not good
    print(f"{'PASS' if good else 'FAIL'} {name}{': ' + detail if detail else ''}")


def run(*args, **more):
    return subprocess.run([kentang, *args], capture_output=True, text=True, **more)


# ---- an adapter ----


def matrices(m, w, rank_of, rng):
    """{module: (A, B)} for every linear layer but the head's, which one model in two has too."""
    pairs = {}
    for name, a in w.items():
        if a.ndim != 2 or "embed" in name or ".conv." in name or "linear_attn" in name or ".mamba." in name or name.startswith("mtp.") or (name.startswith("lm_head") and m["tied"]):
            continue
        module = name[:-len(".weight")]
        r = rank_of(module)
        pairs[module] = (rng.standard_normal((r, a.shape[1])).astype(np.float32) / math.sqrt(a.shape[1]),
                         rng.standard_normal((a.shape[0], r)).astype(np.float32) * 0.3 / math.sqrt(r))
    return pairs


def write_adapter(folder, pairs, config, wrap="", dtype="F32", pad=True):
    os.makedirs(folder, exist_ok=True)
    tensors = {}
    for module, (a, b) in pairs.items():
        tensors[f"base_model.model.{wrap}{module}.lora_A.weight"] = a
        tensors[f"base_model.model.{wrap}{module}.lora_B.weight"] = b
    folders.write_safetensors(os.path.join(folder, "adapter_model.safetensors"), tensors,
                              {name: dtype for name in tensors}, pad)
    folders.write_json(folder, "adapter_config.json", config)


def settings(name):
    """The configuration, and the rank and scale of a module as PEFT has them."""
    config = {"peft_type": "LORA", "r": 6, "lora_alpha": 9, "bias": "none", "use_dora": False, "modules_to_save": None,
              "target_modules": ["q_proj"], "rank_pattern": {}, "alpha_pattern": {}, "use_rslora": False,
              "fan_in_fan_out": False}
    ranks, alphas = {}, {}
    if name in ("llama3", "granite"):
        config["use_rslora"] = True
    if name in ("llama3", "qwen2", "fused"):
        ranks = {"down_proj": 3, "model.layers.1.mlp.up_proj": 10, "o_proj": 1}
        alphas = {"o_proj": 4, "layers.0.self_attn.q_proj": 0.5}
        config["rank_pattern"], config["alpha_pattern"] = ranks, alphas

    def value(module, table, default):
        return next((v for k, v in table.items() if module == k or module.endswith("." + k)), default)

    def rank(module):
        return value(module, ranks, 6)

    def scale(module):
        r = rank(module)
        return value(module, alphas, 9) / (math.sqrt(r) if config["use_rslora"] else r)

    return config, rank, scale


# ---- logits ----


def difference(args, m, w, lines):
    got = run("logits", *args, input="".join(json.dumps(ids) + "\n" for ids in lines))
    if got.returncode:
        return math.inf, got.stderr.strip()
    worst = 0.0
    for ids, line in zip(lines, got.stdout.splitlines()):
        want, have = models.logits(m, w, ids), np.array(json.loads(line)["logits"])
        want = want[:len(have)]
        worst = max(worst, float(np.abs(want - have).max() / want.std()))
    return worst, f"largest difference {worst:.2e} of the logits' spread"


def give_multipliers(name, base, lora):
    """The model's own config.json, which alone has them; without it, and with another model's, the adapter is refused."""
    def refused(what, say):
        got = run("logits", base, "--lora", lora, input="[1]\n")
        check(f"refused: {what}", got.returncode not in (0, -11, -6) and say in got.stderr, got.stderr.strip()[:200])

    refused("no multipliers", "copy that file")
    models.write(models.MODELS["qwen2"], os.path.join(work, "qwen2"))
    shutil.copy(os.path.join(work, "qwen2", "config.json"), lora)
    refused("another model's multipliers", "it is of a qwen2 model")
    shutil.copy(os.path.join(work, name, "config.json"), lora)


def check_model(name):
    m = models.MODELS[name]
    base, lora = os.path.join(work, name + "-base.gguf"), os.path.join(work, name + "-lora")
    merged = os.path.join(work, name + "-merged.gguf")
    w, n_tokens = models.write(m, os.path.join(work, name))
    config, rank, scale = settings(name)
    pairs = matrices(m, w, rank, np.random.default_rng(5))
    dtype = {"qwen2": "BF16", "qwen3": "F16"}.get(name, "F32")
    write_adapter(lora, pairs, config, m.get("wrap", ""), dtype, pad=name != "granite")
    done = run("convert", os.path.join(work, name), base, "--type", "f32")
    check(f"{name} converts", done.returncode == 0, done.stderr.strip() if done.returncode else "")
    if m["kind"] == "falconh1":
        give_multipliers(name, base, lora)
    rng = np.random.default_rng(7)
    lines = [rng.integers(0, n_tokens, n).tolist() for n in (1, 17, 70)]
    # the engine holds A and B as f16: of files in f32, and of what is folded into B, 11 bits stay
    limit = 1e-3 if name == "qwen3" else 1e-2
    for times in (1.0, -0.5):
        adapted = {k: v.astype(np.float64) for k, v in w.items()}
        for module, (a, b) in pairs.items():
            a, b = (folders.rounded(x, dtype).astype(np.float64) for x in (a, b))
            adapted[module + ".weight"] = adapted[module + ".weight"] + times * scale(module) * (b @ a)
        worst, why = difference([base, "--lora", f"{lora}={times}"], m, adapted, lines)
        check(f"{name} --lora x {times}", worst < limit, why)
        done = run("merge", "-m", base, "--lora", f"{lora}={times}", "-o", merged, "--type", "f32", "--quiet")
        worst, why = difference([merged], m, adapted, lines) if done.returncode == 0 else (math.inf, done.stderr)
        check(f"{name} merged x {times}", worst < limit, why)
    plain, why = difference([base], m, adapted, lines)
    check(f"{name}: the adapter matters", plain > 0.1, why)


# ---- refusals ----


def check_refusals():
    m = models.MODELS["qwen2"]
    base, bad = os.path.join(work, "qwen2-base.gguf"), os.path.join(work, "bad")
    w, _ = models.write(m, os.path.join(work, "qwen2"))
    config, rank, _ = settings("qwen2")
    run("convert", os.path.join(work, "qwen2"), base, "--type", "f32")
    pairs = matrices(m, w, rank, np.random.default_rng(5))
    some = dict(list(pairs.items())[:2])

    def refused(what, say, pairs=some, wrap="", **change):
        write_adapter(bad, pairs, {**config, **change}, wrap)
        got = run("logits", base, "--lora", bad, input="[1]\n")
        check(f"refused: {what}", got.returncode not in (0, -11, -6) and say in got.stderr, got.stderr.strip()[:200])

    refused("DoRA", "use_dora", use_dora=True)
    refused("modules to save", "modules_to_save", modules_to_save=["lm_head"])
    refused("biases", "bias", bias="all")
    refused("another method", "peft_type", peft_type="IA3")
    refused("a rank that is not the matrix's", "rank of", r=7, rank_pattern={})
    refused("a pattern", "rank_pattern", rank_pattern={"(q|k)_proj": 3})
    refused("alpha", "lora_alpha", lora_alpha="x")
    refused("an embedding", "embed_tokens", {"model.embed_tokens": next(iter(pairs.values()))})
    refused("an unknown module", "no matrix of this name", {"model.layers.0.mlp.router": next(iter(pairs.values()))})
    refused("a layer too many", "blk.9.ffn_up", {"model.layers.9.mlp.up_proj": pairs["model.layers.0.mlp.up_proj"]})
    a, b = pairs["model.layers.0.mlp.up_proj"]
    refused("a shape", "another model", {"model.layers.0.mlp.up_proj": (a[:, 1:], b)})
    nan = a.copy()
    nan[0, 3] = np.nan
    refused("NaN", "not finite", {"model.layers.0.mlp.up_proj": (nan, b)})
    write_adapter(bad, some, config)
    path = os.path.join(bad, "adapter_model.safetensors")
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) - 5)
    got = run("logits", base, "--lora", bad, input="[1]\n")
    check("refused: a truncated file", got.returncode not in (0, -11, -6) and "adapter_model" in got.stderr, got.stderr)
    os.remove(path)
    got = run("logits", base, "--lora", bad, input="[1]\n")
    check("refused: no weights", got.returncode not in (0, -11, -6) and "adapter_model" in got.stderr, got.stderr)


for name in NAMES:
    check_model(name)
check_refusals()
sys.exit(failed > 0)
