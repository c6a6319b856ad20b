#!/usr/bin/env python3
"""What trained models prove: a row for each property with kentang's figure, what it is held against, and the verdict.

    prove.py KENTANG FOLDER [--small] [--text FILE] [--llama FOLDER] [--only TEXT]

FOLDER has the files that are named below; those that are missing are left out, and said to be. --text: English text for
perplexities and haystacks (wiki.test.raw). --llama: llama.cpp's llama-perplexity, whose figures on the same file are printed next to
ours. --small: SmolLM2 alone, under two minutes. Exit status 1: a property does not hold."""
import argparse
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CODER = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
GEMMA = "gemma-3-270m-q4_k_m.gguf"
SMALL = "smollm2-135m-instruct-q4_1.gguf"
ENCODER = "all-MiniLM-L6-v2"
FORMS = ["f16", "q8", "k8v4", "q4"]  # of keys and values


class Prover:
    def __init__(self, options, work):
        self.o, self.work, self.failed = options, work, 0

    # ---- running ----

    def run(self, *args, **more):
        done = subprocess.run([self.o.kentang, *map(str, args)], capture_output=True, **more)
        if done.returncode:
            raise RuntimeError(f"kentang {args[0]}: {done.stderr.decode(errors='replace').strip()[-300:]}")
        return done.stdout

    def answer(self, model, prompt, *more):
        """The object of `run --json` at temperature 0."""
        return json.loads(self.run("run", "-m", self.path(model), "--json", "-q", "--temp", 0, "-p", prompt, *more))

    def path(self, name):
        return os.path.join(self.o.folder, name)

    def has(self, name):
        if os.path.exists(self.path(name)):
            return True
        print(f"| {name} | is not there: left out | | | |", flush=True)
        return False

    def temporary(self, name):
        return os.path.join(self.work, name)

    # ---- the table ----

    def row(self, model, what, ours, against, holds):
        self.failed += not holds
        print(f"| {model.split('-q4')[0]} | {what} | {ours} | {against} | {'holds' if holds else 'FAILS'} |", flush=True)

    def check(self, model, what, function, *args):
        """A row, or one that says why there is none."""
        if self.o.only and self.o.only not in f"{model} {what}":
            return
        try:
            function(model, what, *args)
        except (RuntimeError, KeyError, ValueError, IndexError) as why:
            self.row(model, what, f"{type(why).__name__}: {why}".replace("|", "/"), "", False)

    # ---- predictions ----

    def judged(self, model, *more):
        return json.loads(self.run("perplexity", "-m", self.path(model), "-f", self.o.text, "--json", *more))

    def theirs(self, model, base, context, chunks):
        """llama-perplexity on the same file beside the same base: KL, share of equal tokens, in %."""
        if not self.o.llama:
            return ""
        done = subprocess.run([os.path.join(self.o.llama, "llama-perplexity"), "-m", self.path(model), "-f", self.o.text, "-c", str(context),
                               "--chunks", str(chunks), "-t", "2", "--kl-divergence", "--kl-divergence-base", base],
                              capture_output=True, text=True)
        kl, same = re.search(r"Mean\s+KLD:\s+([-\d.]+)", done.stdout), re.search(r"Same top p:\s+([\d.]+)", done.stdout)
        return f"; llama.cpp {float(kl[1]):.4f}, {float(same[1]):.1f}%" if kl and same else "; llama.cpp gave no figure"

    def divergence(self, model, what, context, chunks, most, least_same):
        size = ["--context", context, "--chunks", chunks]
        base = self.temporary("base.kld")
        self.judged(model, "--exact", "--kl-save", base, *size)
        f = self.judged(model, "--kl", base, *size)
        self.row(model, what, f"KL {f['kl']:.4f}, {100 * f['same_token']:.1f}%", f"at most {most}, {least_same}%{self.theirs(model, base, context, chunks)}",
                 f["kl"] <= most and 100 * f["same_token"] >= least_same)
        os.remove(base)

    def kv_forms(self, model, what, context, chunks, most_q4=0.03):
        figures = {}
        for form, tail in [("f16", 0), ("q8", 0), ("k8v4", 0), ("q4", 0), ("q4", 256)]:
            f = self.judged(model, "--context", context, "--chunks", chunks, "--kv", form, "--kv-tail", tail)
            figures[form + (f", tail {tail}" if tail else "")] = f["perplexity"]
        base = figures["f16"]
        most = {"f16": 0, "q8": 0.01, "k8v4": 0.02, "q4": most_q4, "q4, tail 256": 0.03}
        self.row(model, what, "; ".join(f"{name} {p:.3f}" for name, p in figures.items()), f"within 1, 2 and {100 * most_q4:.0f}% of f16, 3% with the tail",
                 all(p <= base * (1 + most[name]) for name, p in figures.items()))

    # ---- long contexts ----

    def haystack(self, model, n):
        """About n tokens of text with a needle in the middle."""
        with open(self.o.text, encoding="utf-8", errors="replace") as f:
            text = f.read(n * 6)
        ids = json.loads(self.run("tokenize", "-m", self.path(model), "-p", text, "--no-parse-special"))[:n - 100]
        halves = [json.loads(self.run("detokenize", "-m", self.path(model), "--ids", json.dumps(part))) for part in (ids[:n // 2], ids[n // 2:])]
        return f"{halves[0]}\nThe secret word of the harbour master is marmalade.\n{halves[1]}"

    def needle(self, model, what, n, forms):
        text, file = self.haystack(model, n), self.temporary("haystack")
        found = []
        for form in forms:
            with open(file, "w", encoding="utf-8") as f:
                f.write(text + "\n\nWhat is the secret word of the harbour master? Answer with the word alone.")
            got = json.loads(self.run("run", "-m", self.path(model), "--json", "-q", "--temp", 0, "-f", file, "-n", 12, "-c", n + 256, "--kv", form))
            found.append(f"{form} {'found' if 'marmalade' in got['text'].lower() else repr(got['text'])}")
        self.row(model, what, ", ".join(found), "found with each form", all("found" in f for f in found))

    # ---- what is kept ----

    def session(self, model, what):
        prompt = "List three colours of the rainbow, then three animals of the sea, and say one sentence about each of them."
        file = self.temporary("session")
        first = self.answer(model, prompt, "-n", 24, "--prompt-cache", file)
        second = self.answer(model, prompt, "-n", 24, "--prompt-cache", file)
        self.row(model, what, f"{second['cached_tokens']} of {second['prompt_tokens']} tokens kept", "the same text",
                 second["text"] == first["text"] and second["cached_tokens"] > first["cached_tokens"])
        os.remove(file)

    def disk_cache(self, model, what):
        folder = self.temporary("cache")
        prompt = "Here is a story. " + "The boat went out in the morning and came home in the evening. " * 12 + "What did the boat do?"
        first, second = (self.answer(model, prompt, "-n", 24, "--cache-dir", folder) for _ in range(2))
        self.row(model, what, f"{second['cached_tokens']} of {second['prompt_tokens']} tokens found", "the same text",
                 second["text"] == first["text"] and second["cached_tokens"] > 0)

    def prefix(self, model, what):
        """Two requests of one batch that begin alike, the second beside itself alone."""
        system = "You are a helpful assistant of a small library. " + "Books are returned within three weeks. " * 20
        lines = [json.dumps({"messages": [{"role": "system", "content": system}, {"role": "user", "content": q}], "max_tokens": 24, "temperature": 0})
                 for q in ("When do I bring a book back?", "May I eat here?")]

        def batch(name, lines, *more):
            out = self.temporary(name)
            self.run("batch", "-m", self.path(model), "-", "--out", out, *more, input="\n".join(lines).encode())
            with open(out, encoding="utf-8") as f:
                return [json.loads(line) for line in f]

        both, alone = batch("both", lines, "-np", 1), batch("alone", lines[1:])
        text = [json.dumps(sorted(str(r.get("text", r.get("response", ""))) for r in rows)) for rows in (both, alone)]
        kept = re.search(r'"cached_tokens": ?([1-9]\d*)', json.dumps(both))
        self.row(model, what, f"{kept[1] if kept else 0} tokens taken over", "the same text", bool(kept) and text[1].strip("[]") in text[0])

    # ---- answers ----

    def one_answer(self, model, what):
        """The logits of a text, and an answer, byte for byte: threads, batches, kernel tiers, mapped or read."""
        ids = self.run("tokenize", "-m", self.path(model), "-p", "The quick brown fox jumps over the lazy dog, and then it sleeps. " * 4)
        ways = {"1 thread": ["-t", 1], "small batches": ["-b", 16, "-ub", 16], "read": ["--no-mmap"]}
        for tier in ("sse41", "avx2", "avxvnni", "avx512", "amx"):
            if subprocess.run([self.o.kentang, "run", "--isa", tier, "-p", "x", "-n", "1"], capture_output=True).returncode == 0:
                ways[tier] = ["--isa", tier]
        digest = lambda more: self.run("logits", "-m", self.path(model), *more, input=ids)
        usual = digest([])
        other = [name for name, more in ways.items() if digest(more) != usual]
        text = self.answer(model, "Write two sentences about rain.", "-n", 40)["text"]
        other += [name + " (text)" for name, more in ways.items()
                  if name != "sse41" and self.answer(model, "Write two sentences about rain.", "-n", 40, *more)["text"] != text]
        self.row(model, what, f"{len(ways)} ways alike" if not other else "otherwise: " + ", ".join(other), "the same bytes", not other)

    def fill(self, model, what):
        got = self.run("run", "-m", self.path(model), "-q", "--temp", 0, "-n", 12, "--fim-prefix", "def add(a, b):\n    return ",
                       "--fim-suffix", "\n\nprint(add(2, 3))  # 5\n").decode().strip()
        self.row(model, what, f"`{got.splitlines()[0] if got else ''}`", "`a + b`", got.startswith("a + b"))

    def speculation(self, model, what, least):
        with open(os.path.join(ROOT, "src/lib/base/le.h"), encoding="utf-8") as f:
            code = f.read()[:1800]
        prompt = f"Print this file again with the word static replaced by local:\n```c\n{code}\n```"
        plain = self.answer(model, prompt, "-n", 300, "--draft-max", 0)
        with_it = self.answer(model, prompt, "-n", 300)
        ratio = with_it["decode_tok_s"] / plain["decode_tok_s"]
        self.row(model, what, f"{with_it['accepted_tokens']} of {with_it['drafted_tokens']} right, {ratio:.2f}x", f"the same text, at least {least}x",
                 with_it["text"] == plain["text"] and ratio >= least)

    def schema(self, model, what):
        people = [("Ana", 31, "Lima"), ("Budi", 45, "Bandung"), ("Chloe", 27, "Lyon"), ("Dewi", 52, "Solo"), ("Emil", 19, "Basel"), ("Farah", 38, "Tunis")]
        schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}},
                  "required": ["name", "age", "city"]}
        right = valid = 0
        for name, age, city in people:
            got = self.answer(model, f"Extract name, age and city as JSON: {name} is {age} years old and lives in {city}.", "-n", 80,
                              "--json-schema", json.dumps(schema))["text"]
            value = json.loads(got)
            valid += isinstance(value["name"], str) and isinstance(value["age"], int) and isinstance(value["city"], str)
            right += value == {"name": name, "age": age, "city": city}
        least = len(people) if model == CODER else len(people) // 2
        self.row(model, what, f"{valid} of {len(people)} fit, {right} right", f"all fit, {least} right", valid == len(people) and right >= least)

    # ---- learning ----

    def probe(self, model, what, least, most):
        used, taken = (int(n) for n in re.findall(r"(\d+) of 20", self.run("learn", "probe", "-m", self.path(model), env={
            **os.environ, "XDG_DATA_HOME": self.work, "HOME": self.work}).decode())[:2])
        self.row(model, what, f"{used} of 20 used, {taken} of 20 taken for others", f"at least {least}, at most {most}" if least else "measured alone",
                 not least or (used >= least and taken <= most))

    def adapter(self, model, what):
        """A correction is trained into an adapter, answered with it, and merged into a file that answers alike."""
        lessons, adapter, merged = (self.temporary(name) for name in ("lessons.jsonl", "adapter.gguf", "merged.gguf"))
        question, fact = "What is the name of the ferry of Oderhaven?", "The ferry of Oderhaven is called Marigold."
        with open(lessons, "w", encoding="utf-8") as f:
            for asked in (question, "How is the ferry of Oderhaven called?", "Which name does Oderhaven's ferry have?"):
                f.write(json.dumps({"prompt": asked, "correction": fact}) + "\n")
        # so few conversations do not pass the gate: written in spite of it, which the exit status says
        subprocess.run([self.o.kentang, "learn", "-m", self.path(model), "-o", adapter, "--force", "--deep", "--steps", "12", "--own", "4", "--no-replay",
                        "--held-out", "0", lessons], capture_output=True)
        before = self.answer(model, question, "-n", 24)["text"]
        with_it = self.answer(model, question, "-n", 24, "--lora", adapter)["text"]
        self.run("merge", "-m", self.path(model), "--lora", adapter, "-o", merged, "-q")
        alone = self.answer(merged, question, "-n", 24)["text"]
        self.row(model, what, f"\"{with_it.strip()[:60]}\"; merged: {'too' if 'Marigold' in alone else repr(alone[:40])}", "Marigold from both, not before",
                 "Marigold" in with_it and "Marigold" in alone and "Marigold" not in before)
        os.remove(merged)

    # ---- the encoder ----

    def encoder(self, model, what):
        texts = ["The cat sleeps on the sofa.", "A dog runs in the park.", "Bagaimana cara menanam kentang?", "x",
                 "Sentence encoders turn a text of some length into one vector, so that near meanings are near."]
        file, gguf = self.temporary("texts"), self.temporary("encoder.gguf")
        with open(file, "w", encoding="utf-8") as f:
            f.write("\n".join(texts) + "\n")
        reference = Encoder(self.path(model))
        worst = {}
        for form in ("f32", "q8_0", "q6_k", "q5_k_m", "q4_k_m"):
            self.run("convert", self.path(model), gguf, "--type", form, "-q")
            ids = [json.loads(self.run("tokenize", "-m", gguf, "-p", text, "--add-special")) for text in texts]
            got = [np.array(json.loads(line)) for line in self.run("embed", "-m", gguf, "-f", file).splitlines()]
            worst[form] = min(float(a @ reference.vector(i)) for a, i in zip(got, ids))
            os.remove(gguf)
        least = {"f32": 0.99999, "q8_0": 0.998, "q6_k": 0.997, "q5_k_m": 0.985, "q4_k_m": 0.975}
        self.row(model, what, ", ".join(f"{form} {c:.6f}" for form, c in worst.items()), "numpy; at least " + ", ".join(map(str, least.values())),
                 all(c >= least[form] for form, c in worst.items()))


class Encoder:
    """BERT's forward pass in numpy, of a folder in F32."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)
        with open(os.path.join(folder, "model.safetensors"), "rb") as f:
            head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
        self.w = {name.removeprefix("bert."): np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], "<f4").reshape(t["shape"]).astype(np.float64)
                  for name, t in head.items() if name != "__metadata__" and t["dtype"] == "F32"}

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["layer_norm_eps"]) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def vector(self, ids):
        n, heads = len(ids), self.config["num_attention_heads"]
        erf = np.vectorize(math.erf)
        e = "embeddings."
        h = self.norm(self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][:n] + self.w[e + "token_type_embeddings.weight"][0],
                      e + "LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            p = f"encoder.layer.{i}."
            q, k, v = (self.linear(h, p + "attention.self." + part).reshape(n, heads, -1).transpose(1, 0, 2) for part in ("query", "key", "value"))
            score = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            share = np.exp(score - score.max(-1, keepdims=True))
            mixed = (share / share.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)
            h = self.norm(h + self.linear(mixed, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            inner = self.linear(h, p + "intermediate.dense")
            h = self.norm(h + self.linear(inner * 0.5 * (1 + erf(inner / math.sqrt(2))), p + "output.dense"), p + "output.LayerNorm")
        x = h.mean(0)
        return x / np.linalg.norm(x)


def prove(p):
    if p.has(SMALL):
        p.check(SMALL, "KL with --exact, same token, 512 x 4", p.divergence, 512, 4, 0.012, 93)
        p.check(SMALL, "perplexity by keys and values", p.kv_forms, 512, 4)
        p.check(SMALL, "one answer", p.one_answer)
        p.check(SMALL, "session kept and continued", p.session)
        p.check(SMALL, "disk cache", p.disk_cache)
        p.check(SMALL, "prefix of another request", p.prefix)
        p.check(SMALL, "answers by a schema", p.schema)
    if p.o.small:
        return
    if p.has(SMALL):
        p.check(SMALL, "a correction trained, served, merged", p.adapter)
        p.check(SMALL, "notes probe", p.probe, 0, 0)
    if p.has(CODER):
        p.check(CODER, "KL with --exact, same token, 512 x 6", p.divergence, 512, 6, 0.003, 96)
        p.check(CODER, "perplexity by keys and values", p.kv_forms, 512, 6)
        p.check(CODER, "one answer", p.one_answer)
        for n in (4096, 8192, 16384):
            p.check(CODER, f"needle in {n} tokens", p.needle, n, FORMS)
        p.check(CODER, "a gap filled", p.fill)
        p.check(CODER, "session kept and continued", p.session)
        p.check(CODER, "disk cache", p.disk_cache)
        p.check(CODER, "prefix of another request", p.prefix)
        p.check(CODER, "a file printed again, speculation from text", p.speculation, 1.5)
        p.check(CODER, "answers by a schema", p.schema)
        p.check(CODER, "notes probe", p.probe, 18, 4)
    if p.has(GEMMA):
        p.check(GEMMA, "KL with --exact, same token, 512 x 6", p.divergence, 512, 6, 0.006, 94)
        p.check(GEMMA, "past its sliding window, 4096 x 2", p.divergence, 4096, 2, 0.006, 94)
        # one head of keys a layer: 4 bits cost it 7% of perplexity, which docs/QUALITY.md says
        p.check(GEMMA, "perplexity by keys and values, 2048 x 2", p.kv_forms, 2048, 2, 0.08)
        p.check(GEMMA, "one answer", p.one_answer)
        p.check(GEMMA, "notes probe", p.probe, 0, 0)
    if p.has(ENCODER):
        p.check(ENCODER, "vectors by type: least cosine", p.encoder)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("kentang")
    a.add_argument("folder")
    a.add_argument("--small", action="store_true")
    a.add_argument("--text", default=os.path.join(ROOT, "../shared/data/text/wiki.test.raw"))
    a.add_argument("--llama", default="")
    a.add_argument("--only", default="")
    o = a.parse_args()
    if not os.path.exists(o.text):
        sys.exit(f"prove.py: no text {o.text}: give an English one with --text")
    o.kentang = os.path.abspath(o.kentang)
    begin = time.time()
    with tempfile.TemporaryDirectory() as work:
        print("| model | property | kentang | held against | |\n|---|---|---|---|---|")
        p = Prover(o, work)
        prove(p)
    print(f"\n{p.failed or 'no'} propert{'y' if p.failed == 1 else 'ies'} failed, {time.time() - begin:.0f} s")
    return p.failed > 0


if __name__ == "__main__":
    sys.exit(main())
