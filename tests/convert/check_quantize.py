"""kentang quantize: of an F32 file it makes, byte for byte, what converting the folder to the same recipe makes; rules,
sizes and refusals. Usage: check_quantize.py KENTANG WORK_FOLDER"""
import os
import subprocess
import sys

import gguf
import models

kentang, work = sys.argv[1:3]
failed = 0


def run(*args):
    return subprocess.run([kentang, *args], capture_output=True, text=True)


def check(name, good, detail=""):
    global failed
    failed += not good
    print(f"{'PASS' if good else 'FAIL'} {name}" + ("" if good else f": {detail}"))


def read(path):
    with open(path, "rb") as f:
        return f.read()


source, direct, out = (os.path.join(work, name) for name in ("whole.gguf", "direct.gguf", "quantised.gguf"))
RECIPES = ("q4_k_m q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k_s q3_k_m q3_k_l q4_k_s q5_k_s q5_k_m q6_k iq4_nl iq4_xs f32 f16 "
           "bf16").split()
for name, recipes in (("qwen3", RECIPES), ("qwen2moe", ["q4_k_m", "mxfp4_moe", "q3_k_m"]), ("gemma2", ["q4_k_m"]), ("longrope", ["q4_k_m"])):
    folder = os.path.join(work, "quantise-" + name)
    models.write(models.MODELS[name], folder)
    run("convert", folder, source, "--type", "f32")
    for recipe in recipes:
        a, b = run("convert", folder, direct, "--type", recipe), run("quantize", source, out, recipe, "--threads", "3")
        same = a.returncode == b.returncode == 0 and read(direct) == read(out)
        check(f"{name} {recipe}: as converted", same, a.stderr + b.stderr)

run("quantize", source, out, "q8_0", "--keep", "blk.0.*=f16", "--keep", "blk.0.attn_output.weight=q4_0")
types = {name: t[1] for name, t in gguf.Reader(out).tensors.items()}
check("rules", (types["blk.0.ffn_down.weight"], types["blk.0.attn_output.weight"], types["blk.1.attn_output.weight"])
      == (1, 2, 8), types)
sizes = {}
for recipe in ("q8_0", "q5_k_m", "q2_k"):
    run("quantize", source, out, recipe)
    sizes[recipe] = os.path.getsize(out)
done = run("quantize", source, out, "--target-size", str(sizes["q5_k_m"] + 2000))
check("a size", done.returncode == 0 and gguf.Reader(out).keys["general.file_type"] == 17, done.stderr)
os.remove(out)
for name, say, args in (
        ("too small a size", "the smallest, q2_k", [source, out, "--target-size", "1K"]),
        ("the output is the input", "is the file that is read", [source, source, "q8_0"]),
        ("no type", "either TYPE or --target-size", [source, out]),
        ("an unknown type", "did you mean \"q4_k_m\"", [source, out, "q4_k_n"]),
        ("a rule without a type", "PATTERN=TYPE is expected", [source, out, "q8_0", "--keep", "blk.*=q99"]),
        ("a rule that does not fit", "whose blocks have 256",
         [source, out, "q8_0", "--keep", "rope_factors_long.weight=q4_k"]),
        ("no GGUF", "not a GGUF file", [os.path.join(folder, "config.json"), out, "q8_0"])):
    before = read(source)
    done = run("quantize", *args)
    check(name, done.returncode > 1 and say in done.stderr and not os.path.exists(out) and read(source) == before,
          done.stderr)
sys.exit(failed > 0)
