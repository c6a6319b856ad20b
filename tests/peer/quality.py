#!/usr/bin/env python3
"""What quantisation costs: KL divergence and perplexity of every recipe, kentang's fits and llama-quantize's.

    quality.py KENTANG LLAMA_QUANTIZE [--chunks N] [--only types|recipes] [--names A,B] [--no-demo] [MODEL.gguf CALIBRATION HELD_OUT]...

LLAMA_QUANTIZE: built from llama.cpp's source. Each model is an F32, F16 or BF16 file with a calibration text and a text that
is judged; the demo model, decoded to F32, with dialogues of its corpus comes first and needs no files. Importance matrix and
error feedback see the same calibration text; llama-quantize reads the matrix that `kentang imatrix` wrote. Every file is judged
by `kentang perplexity --exact --kl` (weights dequantised, activations in f32: the loss of the weights alone)."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
TYPES = ["q4_k", "q5_k", "q3_k", "q6_k", "q4_0", "iq4_xs", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "tq2_0"]
RECIPES = ["q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_0", "q4_1", "iq4_nl", "iq4_xs", "q4_k_s", "q4_k_m", "q5_0", "q5_1", "q5_k_s",
           "q5_k_m", "q6_k", "q8_0"]
THEIRS = {"q4_k": "Q4_K_S", "q5_k": "Q5_K_S", "q3_k": "Q3_K_S", "iq2_s": "IQ2_M"}  # with --pure these are the types
BLOCK = {"q": 32, "i": 256, "t": 256}  # by the first letter, and all that end in k


def run(*args, **more):
    done = subprocess.run(args, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(args)}: {done.stderr[-2000:]}")
    return done.stdout


class Judge:
    def __init__(self, options, work, model, calibration, held, special):
        self.o, self.work, self.model, self.calibration, self.held = options, work, model, calibration, held
        self.special = ["--parse-special"] if special else []
        self.imatrix = os.path.join(work, "imatrix.gguf")
        run(options.kentang, "imatrix", "-m", model, "-f", calibration, *self.special, "-o", self.imatrix)

    def figures(self, path):
        chunks = ["--chunks", str(self.o.chunks)] if self.o.chunks else []
        out = run(self.o.kentang, "perplexity", "-m", path, "--kl", self.model, "-f", self.held, "--exact", "--json", *chunks,
                  *self.special)
        return {**json.loads(out), "bytes": os.path.getsize(path)}

    def theirs(self, recipe, *options):
        path = os.path.join(self.work, "theirs.gguf")
        run(self.o.llama_quantize, "--imatrix", self.imatrix, *options, self.model, path, THEIRS.get(recipe, recipe).upper(), "2")
        return self.figures(path)

    def ours(self, recipe, *options):
        path = os.path.join(self.work, "ours.gguf")
        run(self.o.kentang, "quantize", self.model, path, recipe, "-q", *options)
        return self.figures(path)

    def careful(self, recipe, *options):
        return self.ours(recipe, "--imatrix", self.imatrix, *options)

    def feedback(self, recipe, *options):
        return self.ours(recipe, "--fit", "feedback", "--calib", self.calibration, *self.special, *options)


def row(name, theirs, careful, feedback):
    def share(x):
        return f"{x['kl']:.5f} ({x['kl'] / theirs['kl']:.2f})" if theirs["kl"] > 0 else f"{x['kl']:.5f}"
    print(f"| {name} | {careful['bytes'] / 2**20:.2f} | {theirs['kl']:.5f} | {share(careful)} | {share(feedback)} |",
          flush=True)


def head(what):
    print(f"| {what} | MiB | KL llama | careful | feedback |")
    print("|---|---|---|---|---|")


def by_type(judge, width):
    """All matrices of the layers in one type, the embedding in F16."""
    head("type")
    for t in TYPES:
        if width % (256 if t[-1] == "k" else BLOCK[t[0]]):
            continue
        keep = [x for p in ("blk.*attn_[qkvo]*.weight", "blk.*ffn_[gud]*.weight") for x in ("--keep", f"{p}={t}")]
        keep += ["--keep", "blk.*norm.weight=f32", "--keep", "token_embd.weight=f16", "--keep", "output.weight=f16"]
        row(t.upper(), judge.theirs(t, "--pure", "--token-embedding-type", "f16", "--output-tensor-type", "f16"), judge.careful("q8_0", *keep),
            judge.feedback("q8_0", *keep))
    print()


def by_recipe(judge):
    head("recipe")
    for r in RECIPES:
        row(r, judge.theirs(r), judge.careful(r), judge.feedback(r))
    print()


def dialogue_text(messages):
    return "".join(f"<|im_start|>{r}\n{t.strip()}<|im_end|>\n" for r, t in messages)


def demo_texts(work):
    run("python3", os.path.join(ROOT, "tools/demo_model/make_corpus.py"), work, "--train", "600", "--held", "240", "--seed", "5")
    for name, n in (("train", 400), ("held", 200)):
        with open(os.path.join(work, name + ".jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line)["messages"] for line in f][:n]
        with open(os.path.join(work, name + ".txt"), "w", encoding="utf-8") as f:
            f.write("".join(map(dialogue_text, lines)))
    return os.path.join(work, "train.txt"), os.path.join(work, "held.txt")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("kentang")
    a.add_argument("llama_quantize")
    a.add_argument("files", nargs="*")
    a.add_argument("--chunks", type=int, default=0)
    a.add_argument("--only", choices=["types", "recipes"])
    a.add_argument("--no-demo", action="store_true")
    a.add_argument("--names", help="of these types and recipes only, with commas")
    o = a.parse_intermixed_args()
    for names in (TYPES, RECIPES):
        names[:] = [n for n in names if not o.names or n in o.names.split(",")]
    with tempfile.TemporaryDirectory() as work:
        demo = os.path.join(work, "demo-f32.gguf")
        run(o.kentang, "quantize", os.path.join(ROOT, "src/lib/context/demo.gguf"), demo, "f32", "-q")
        models = [("the demo model", demo, *demo_texts(work), True, 256)]
        models = [] if o.no_demo else models
        models += [(os.path.basename(m), m, c, h, False, 32) for m, c, h in zip(*[iter(o.files)] * 3)]
        for name, model, calibration, held, special, width in models:
            judge = Judge(o, work, model, calibration, held, special)
            base = judge.figures(model)
            print(f"### {name}: {base['tokens']} tokens judged, perplexity of the original {base['perplexity']:.4f}\n")
            if o.only != "recipes":
                by_type(judge, width)
            if o.only != "types":
                by_recipe(judge)


if __name__ == "__main__":
    main()
