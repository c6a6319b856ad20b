#!/usr/bin/env python3
"""`kentang perplexity --kl` beside llama-perplexity --kl-divergence: the same figures of the same file.

    perplexity.py KENTANG LLAMA_PERPLEXITY MODEL.gguf TEXT [--chunks N] [--context N]

LLAMA_PERPLEXITY: made by llama_tools.sh. MODEL is written out as F32, and as F32 of its Q4_0 weights, so that both programs compute
with the same numbers; llama-perplexity writes the base that both read. Its figures of all chunks but the last are compared (of the
last its log may not show them). Exit status 1: a figure differs by more than 0.5%."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile


def run(*args):
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(args)}: {done.stderr[-2000:]}")
    return done.stdout


def main():
    a = argparse.ArgumentParser()
    for name in ("kentang", "llama_perplexity", "model", "text"):
        a.add_argument(name)
    a.add_argument("--chunks", type=int, default=12)
    a.add_argument("--context", type=int, default=256)
    o = a.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        f32, q4, again, base = (os.path.join(work, n) for n in ("f32.gguf", "q4.gguf", "again.gguf", "base.kld"))
        run(o.kentang, "quantize", o.model, f32, "f32", "-q")
        run(o.kentang, "quantize", f32, q4, "q4_0", "-q")
        run(o.kentang, "quantize", q4, again, "f32", "-q")
        n, text = str(o.context), os.path.abspath(o.text)
        theirs = (o.llama_perplexity, "-f", text, "-c", n, "-b", n, "-ub", n, "--chunks", str(o.chunks), "-t", "1",
                  "--kl-divergence-base", base)
        run(*theirs, "-m", f32)
        rows = re.findall(r"^ *(\d+) +" + r" +".join([r"([-\d.]+) ± +([\d.]+)"] * 3) + r" +([\d.]+) ± +([\d.]+) % +([\d.]+) ± +([\d.]+) %",
                          run(*theirs, "-m", again, "--kl-divergence"), re.M)
        for row in (rows[len(rows) // 2], rows[-1]):
            got = json.loads(run(o.kentang, "perplexity", "-m", again, "-f", text, "--kl", base, "--exact", "--chunks", row[0], "--json"))
            for name, text_of, scale in zip(("perplexity", "perplexity_error", "ln_ratio", "ln_ratio_error", "kl", "kl_error", "dp_rms", None,
                                             "same_token", "same_token_error"), row[1:], [1] * 6 + [100] * 4):
                if name is None:
                    continue
                want, have = float(text_of), scale * got[name]
                unit = 10.0 ** -len(text_of.split(".")[1])
                good = abs(have - want) <= max(0.005 * abs(want), 0.51 * unit)
                failed += not good
                print(f"{'PASS' if good else 'FAIL'} {row[0]} chunks, {name}: {have:.6f}, llama-perplexity {text_of}")
    sys.exit(failed > 0)


main()
