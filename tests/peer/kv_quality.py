#!/usr/bin/env python3
"""What keys and values in other types than f16 cost: KL divergence from the same model with f16, perplexity, and how often the most
probable token is the same.

    kv_quality.py KENTANG [--context N] [--chunks N] [MODEL.gguf TEXT]...

The demo model with held-out dialogues of its corpus comes first and needs no files. `kentang perplexity --exact --kl` (weights
dequantised, activations in f32) shows the loss of the keys and values alone. Without --exact any change of a number, however
small, makes activations round differently, which the last two columns contain."""
import argparse
import json
import os
import tempfile

from quality import ROOT, demo_texts, run

TYPES = [("q8_0", "q8_0", 0), ("q8_0", "f16", 0), ("f16", "q8_0", 0), ("q8_0", "q4_0", 0), ("q8_0", "q4_0", 256), ("q4_0", "q4_0", 0), ("q4_0", "q4_0", 64),
         ("q4_0", "q4_0", 256), ("q4_0", "f16", 0), ("f16", "q4_0", 0)]


def figures(o, model, text, keys, values, tail, special, *how):
    chunks = ["--chunks", str(o.chunks)] if o.chunks else []
    return json.loads(run(o.kentang, "perplexity", "-m", model, "--kl", model, "-f", text, "--context", str(o.context), "-ctk", keys,
                          "-ctv", values, "--kv-tail", str(tail), "--json", *how, *chunks, *(["--parse-special"] if special else [])))


def table(o, name, model, text, special):
    for i, (keys, values, tail) in enumerate(TYPES):
        f = figures(o, model, text, keys, values, tail, special, "--exact")
        own = figures(o, model, text, keys, values, tail, special)
        if i == 0:
            print(f"### {name}: {f['tokens']} tokens judged at a context of {o.context}, perplexity with f16 {f['base_perplexity']:.4f}\n")
            print("| keys | values | tail | KL mean | KL 99% | same token | perplexity | over f16's | KL mean, activations in 8 bits | same token |")
            print("|---|---|---|---|---|---|---|---|---|---|")
        print(f"| {keys} | {values} | {tail} | {f['kl']:.6f} | {f['kl_99']:.5f} | {100 * f['same_token']:.2f}% | {f['perplexity']:.4f} | "
              f"{100 * (f['perplexity'] / f['base_perplexity'] - 1):+.3f}% | {own['kl']:.6f} | {100 * own['same_token']:.2f}% |", flush=True)
    print()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("kentang")
    a.add_argument("files", nargs="*")
    a.add_argument("--context", type=int, default=512)
    a.add_argument("--chunks", type=int, default=0)
    o = a.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as work:
        table(o, "the demo model", os.path.join(ROOT, "src/lib/context/demo.gguf"), demo_texts(work)[1], True)
    for model, text in zip(*[iter(o.files)] * 2):
        table(o, os.path.basename(model), model, text, False)


if __name__ == "__main__":
    main()
