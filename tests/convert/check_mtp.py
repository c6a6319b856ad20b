"""Folders with a block for multi-token prediction: the file has it, it proposes what the folder's would, answers have the
same bytes as without, and kentang quantize keeps it. Usage: check_mtp.py KENTANG WORK_FOLDER"""
import json
import os
import subprocess
import sys

import numpy as np

import gguf
import models
import mtp

kentang, work = sys.argv[1:3]
failed = 0


def check(name, good, detail=""):
    global failed
    failed += not good
    print(f"{'PASS' if good else 'FAIL'} {name}{': ' + str(detail) if detail and not good else ''}")


def run(*args):
    return subprocess.run([kentang, *args], capture_output=True, text=True)


def values(path):
    """{name: f32 values} of a file whose tensors are all F32, and its keys."""
    r = gguf.Reader(path)
    base = r.at + -r.at % 32
    return {name: np.frombuffer(r.data, np.float32, int(np.prod(dims)), base + at) for name, (dims, _, at) in r.tensors.items()}, r.keys


def answer(path, *how):
    done = run("run", "-m", path, "--raw", "-p", "potatoes", "-n", "160", "--temp", "0", "--ignore-eos", "--json", *how)
    return json.loads(done.stdout) if done.returncode == 0 else {"text": done.stderr}


def check_answers(name, path):
    without = answer(path, "--draft-max", "0")
    for _ in range(5):  # a busy machine may let the gate decide otherwise
        block = answer(path, "--draft-from", "model")
        n, right = block.get("drafted_tokens", 0), block.get("accepted_tokens", 0)
        if n > 0:
            break
    check(f"{name}: the same bytes", without["text"] == block["text"], (without, block))
    check(f"{name}: it proposes, and is right", n > 0 and right >= n - 1, (n, right))


def deep(name):
    """The model with so many layers that its block is cheap."""
    m = models.MODELS[name]
    config = {k: v for k, v in m["config"].items() if k != "layer_types"}
    return {**m, "layers": 12, "config": config, **({"attends": [2, 5, 8, 11]} if "attends" in m else {})}


def convert(name, m, change=None):
    """The folder with weights that change has been at; the file's path."""
    folder, out = os.path.join(work, "mtp-" + name), os.path.join(work, f"mtp-{name}.gguf")
    drawn = models.weights

    def changed(m, seed):
        w = drawn(m, seed)
        if change:
            change(m, w)
        return w

    models.weights = changed
    w, _ = models.write(m, folder)
    models.weights = drawn
    done = run("convert", folder, out, "--type", "f32")
    check(f"{name}: converted", done.returncode == 0, done.stderr)
    return w, out, folder, done.stderr


def each(m, w):
    mtp.each_expert(w)


def none(m, w):
    for name in [n for n in w if n.startswith("mtp.")]:
        del w[name]


for name in ("qwen3next", "qwen35", "qwen35moe"):
    m = models.MODELS[name]
    w, out, folder, _ = convert(name, m)
    have, keys = values(out)
    check(f"{name}: counted", (keys[f"{name}.block_count"], keys[f"{name}.nextn_predict_layers"]) == (5, 1))
    want = mtp.expected(m, w)
    wrong = [n for n, a in want.items() if n not in have or not np.array_equal(have[n], a.astype(np.float32).ravel())]
    check(f"{name}: the block's tensors", not wrong and len(want) == sum(n.startswith("blk.4.") for n in have), wrong)
    direct, out4 = os.path.join(work, "mtp-direct.gguf"), os.path.join(work, "mtp-quantised.gguf")
    for recipe in ("q4_k_m", "q8_0"):
        a, b = run("convert", folder, direct, "--type", recipe), run("quantize", out, out4, recipe)
        with open(direct, "rb") as f, open(out4, "rb") as g:
            check(f"{name} {recipe}: as converted", a.returncode == b.returncode == 0 and f.read() == g.read(), b.stderr)
    kept = gguf.Reader(out4)
    check(f"{name}: quantize keeps it", kept.keys[f"{name}.nextn_predict_layers"] == 1 and set(want) <= set(kept.tensors)
          and kept.tensors["blk.4.nextn.eh_proj.weight"][1] == 8 and kept.tensors["blk.4.nextn.enorm.weight"][1] == 0)

said, told = run("inspect", out4).stdout, json.loads(run("inspect", out4, "--json").stdout)
check("inspect says so", "a block for multi-token prediction" in said and 0 < told["mtp_bytes"] < told["weight_bytes"], said)
plain, keys = values(convert("qwen35moe-each", models.MODELS["qwen35moe"], each)[1])
check("experts in tensors of their own", all(np.array_equal(a, plain[n]) for n, a in have.items()) and len(have) == len(plain))
_, out, _, _ = convert("without", models.MODELS["qwen35"], none)
check("a folder without its block", "qwen35.nextn_predict_layers" not in values(out)[1] and answer(out)["text"]
      and "multi-token" not in run("inspect", out).stdout)

for name in ("qwen3next", "qwen35", "qwen35moe", "deepseek3"):
    check_answers(name + " that agrees", convert(name + "-agrees", deep(name), mtp.agree)[1])
_, out, _, said = convert("deepseek3", models.MODELS["deepseek3"])
names = values(out)[0]
check("deepseek3: no second embeddings and head", not any("embed_tokens" in n or "shared_head_head" in n for n in names))
check("deepseek3: nothing is said to be left out", "left out" not in said, said)


def own(m, w):
    p = f"model.layers.{m['layers']}."
    for name in ("embed_tokens.weight", "shared_head.head.weight"):
        w[p + name] = w[p + name] * 2


w, out, _, _ = convert("deepseek3-own", models.MODELS["deepseek3"], own)
names = values(out)[0]
check("deepseek3: its own embeddings and head", np.array_equal(
    names["blk.3.nextn.embed_tokens.weight"], w["model.layers.3.embed_tokens.weight"].astype(np.float32).ravel())
    and "blk.3.nextn.shared_head_head.weight" in names)
sys.exit(failed > 0)
