"""Hugging Face folders of tiny models, written without any of kentang's code: safetensors, tokenizer.json,
tokenizer.model and the configuration files, as the formats' descriptions say. Weights are seeded."""
import base64
import json
import math
import os
import struct

import numpy as np

# ---- numbers ----

def drawing(rng, mean=0.0):
    """matrix(rows, cols), whose products keep a vector's length but for the gain, and vector(n) around the mean."""
    def matrix(rows, cols, gain=1.0):
        return (rng.standard_normal((rows, cols)) * gain / math.sqrt(cols)).astype(np.float32)

    def vector(n, mean=mean, std=0.1):
        return (mean + rng.standard_normal(n) * std).astype(np.float32)

    return matrix, vector


# ---- files ----


def to_bf16(a):
    """f32 rounded to nearest even, as the upper half."""
    bits = a.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(a):
    return (a.astype(np.uint32) << 16).view(np.float32)


def encode(a, dtype):
    if dtype == "U8":
        return np.ascontiguousarray(a, np.uint8).tobytes()
    a = np.ascontiguousarray(a, np.float32)
    return {"F32": lambda: a, "F16": lambda: a.astype(np.float16), "BF16": lambda: to_bf16(a)}[dtype]().tobytes()


def rounded(a, dtype):
    """What a reader of the file sees."""
    if a.dtype == np.uint8:
        return a
    a = np.asarray(a, np.float32)
    if dtype == "BF16":
        return from_bf16(to_bf16(a))
    return a.astype(np.float16).astype(np.float32) if dtype == "F16" else a


def write_safetensors(path, tensors, dtypes, pad=True):
    """tensors: {name: array}, dtypes: {name: "BF16"...}"""
    header, at, blobs = {"__metadata__": {"format": "pt"}}, 0, []
    for name, a in tensors.items():
        blob = encode(a, dtypes[name])
        header[name] = {"dtype": dtypes[name], "shape": list(a.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def add_tensor(path, name, dtype, blob, shape):
    """One tensor more at the end of a file."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(n)), f.read()
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(blob)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data + blob)


def write_weights(folder, tensors, dtype, n_files=1, pad=True):
    dtypes = {name: "U8" if a.dtype == np.uint8 else dtype for name, a in tensors.items()}
    if n_files == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), tensors, dtypes, pad)
        return
    names, weight_map = list(tensors), {}
    for i in range(n_files):
        file = f"model-{i + 1:05d}-of-{n_files:05d}.safetensors"
        part = {name: tensors[name] for name in names[i::n_files]}
        write_safetensors(os.path.join(folder, file), part, dtypes, pad)
        weight_map.update({name: file for name in part})
    write_json(folder, "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": weight_map})


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def from_mxfp4(blocks, scales):
    """[..., n, 16] and [..., n] bytes as the folder has them: weights 2k and 2k + 1 in byte k."""
    pairs = np.stack([FP4[blocks & 15], FP4[blocks >> 4]], -1).reshape(*blocks.shape[:-1], 32)
    values = pairs * np.exp2(scales.astype(np.float64) - 127)[..., None]
    return values.reshape(*values.shape[:-2], -1)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=1)


# ---- tokenizers ----

TEXT = """Halo, apa kabar hari ini? Saya sedang belajar memasak nasi goreng dengan kentang dan telur.
The quick brown fox jumps over the lazy dog; it's 2024 and they'll say we've 1234 things to do.
for (int i = 0; i < n; i++) { total += value[i]; }  // a comment    with   spaces
Ibu pergi ke pasar untuk membeli sayur, sedangkan ayah bekerja di kantor sampai sore hari.
In the beginning there was the word, and the word was with the people, and they were there."""


def alphabet():
    """GPT-2's letters for bytes."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {b: chr(b) if b in keep else chr(256 + rest.index(b)) for b in range(256)}


def train(words, n_merges):
    """Merges of the most frequent pairs; words: lists of symbols."""
    merges = []
    for _ in range(n_merges):
        count = {}
        for w in words:
            for pair in zip(w, w[1:]):
                count[pair] = count.get(pair, 0) + 1
        if not count:
            break
        best = max(count, key=lambda p: (count[p], p))
        merges.append(best)
        for w in words:
            i = 0
            while i + 1 < len(w):
                if (w[i], w[i + 1]) == best:
                    w[i:i + 2] = [best[0] + best[1]]
                i += 1
    return merges


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cl100k(word, not_word, digits):
    return (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?" + word + "+|" + digits + r"| ?[^\s" + not_word +
            r"\p{N}]+[\r\n]*" + TAIL)


def o200k(c, digits):
    start = r"[^\r\n\p{L}\p{N}]?"
    return (start + UPPER + "*" + LOWER + "+" + c + "|" + start + UPPER + "+" + LOWER + "*" + c + "|" + digits +
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def split(regex, **more):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False, **more}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


NFC = {"type": "NFC"}
# the name GGUF has for it: pre-tokenizer steps, normaliser, ignore_merges
PRETOKENIZERS = {
    "llama-bpe": ([split(cl100k(r"\p{L}", r"\p{L}", r"\p{N}{1,3}")), byte_level(False)], None, True),
    "dbrx": ([split(cl100k(r"\p{L}", r"\p{L}", r"\p{N}{1,3}"), behavior="Removed", invert=True), byte_level(False)],
             None, False),
    "qwen35": ([split(cl100k(r"[\p{L}\p{M}]", r"\p{L}\p{M}", r"\p{N}")), byte_level(False)], NFC, False),
    "qwen2": ([split(cl100k(r"\p{L}", r"\p{L}", r"\p{N}")), byte_level(False)], NFC, False),
    "qwen35": ([split(cl100k(r"[\p{L}\p{M}]", r"\p{L}\p{M}", r"\p{N}")), byte_level(False)], NFC, False),
    "gpt-2": ([byte_level(True)], None, False),
    "mpt": ([split(GPT2), byte_level(False)], {"type": "Sequence", "normalizers": [NFC]}, False),
    "command-r": ([{"type": "Digits", "individual_digits": True}, byte_level(True)], NFC, False),
    "smollm": ([{"type": "Digits", "individual_digits": True}, byte_level(True)], None, False),
    "gpt-4o": ([split(o200k(CONTRACTIONS + "?", r"\p{N}{1,3}")), byte_level(False)], None, False),
    "tekken": ([split(o200k("", r"\p{N}")), byte_level(False)], None, True),
    "deepseek-v3": ([split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
                     split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                           "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), byte_level(False)], None, False),
}

NO_HAN = r"&&[^\p{Han}]]"
PRETOKENIZERS["kimi-k2"] = ([split(r"[\p{Han}]+|" + o200k(CONTRACTIONS + "?", r"\p{N}{1,3}").replace("\\p{M}]", "\\p{M}" + NO_HAN).replace(r"\n/]", r"\n]")),
                             byte_level(False)], None, True)
PRETOKENIZERS["falcon"] = ([{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), {"type": "Digits", "individual_digits": False},
                            split("[0-9][0-9][0-9]")], None, False)
EAST_ASIAN = split("[一-龥\u0800-一가-\ud7ff]+")
PRETOKENIZERS["deepseek-coder"] = ([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), EAST_ASIAN,
                                    {"type": "Digits", "individual_digits": True}, byte_level(False)], None, False)

CHATML = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def added(id, content, special=True):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special}


def write_bpe(folder, pre, n_rows, pairs=False, n_merges=200):
    """Byte-level BPE; returns the number of tokens. The embedding may have more rows."""
    letters = alphabet()
    words = [[letters[b] for b in (" " * (i > 0) + w).encode()] for line in TEXT.split("\n")
             for i, w in enumerate(line.split(" "))]
    merges = train(words, n_merges)
    vocab = {}
    for t in [letters[b] for b in range(256)] + [a + b for a, b in merges]:
        vocab.setdefault(t, len(vocab))
    n = len(vocab)
    specials = [added(n, "<|endoftext|>"), added(n + 1, "<|im_start|>"), added(n + 2, "<|im_end|>"),
                added(n + 3, "<tool_call>", False)]
    steps, normalizer, whole = PRETOKENIZERS[pre]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": specials, "normalizer": normalizer,
        "pre_tokenizer": steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps},
        "post_processor": byte_level(True), "decoder": byte_level(True),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": whole,
                  "vocab": vocab, "merges": [[a, b] if pairs else f"{a} {b}" for a, b in merges]}}
    write_json(folder, "tokenizer.json", tokenizer)
    write_json(folder, "tokenizer_config.json", {
        "add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"},
        "chat_template": [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": "T" + CHATML}]})
    write_json(folder, "generation_config.json", {
        "eos_token_id": [n + 2, n], "do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8,
        "repetition_penalty": 1.05})
    assert n + 4 <= n_rows
    return n + 4


def around(first, last, ids):
    """The post-processor that puts two tokens around a text."""
    def special(t):
        return {"SpecialToken": {"id": t, "type_id": 0}}

    def text(t, type_id=0):
        return {"Sequence": {"id": t, "type_id": type_id}}

    return {"type": "TemplateProcessing", "single": [special(first), text("A"), special(last)],
            "pair": [special(first), text("A"), special(last), text("B", 1), special(last)],
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (first, last)}}


def write_roberta(folder):
    """RoBERTa's byte-level BPE, with a token before and after each text."""
    n = write_bpe(folder, "gpt-2", 512)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        t = json.load(f)
    t["added_tokens"] += [added(n, "<s>"), added(n + 1, "</s>"), {**added(n + 2, "<mask>"), "lstrip": True}]
    t["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", n + 1], "cls": ["<s>", n], "trim_offsets": True, "add_prefix_space": False}
    write_json(folder, "tokenizer.json", t)
    write_json(folder, "tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
                                                 "mask_token": "<mask>", "add_prefix_space": False})
    os.remove(os.path.join(folder, "generation_config.json"))
    return n + 3


def write_wordpiece(folder, lowercase=True, accents=None, bert=False):
    """BERT's vocabulary; returns the number of tokens. bert: the older form of the post-processor."""
    words = sorted({w for w in (TEXT.lower() if lowercase else TEXT).replace("\n", " ").split(" ") if w})
    chars = sorted({c for w in words for c in w} | set("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~0123456789éïœß中文é"))
    specials = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner = sorted({w[i:j] for w in words for i in range(1, len(w)) for j in range(i + 2, len(w) + 1) if j - i < 5})[::3]
    tokens = specials + chars + ["##" + c for c in chars] + [w for w in words if w.isalpha() and len(w) > 1] + \
        ["##" + s for s in inner if s.isalpha()]
    vocab = {}
    for t in tokens:
        vocab.setdefault(t, len(vocab))
    post = {"type": "BertProcessing", "sep": ["[SEP]", vocab["[SEP]"]], "cls": ["[CLS]", vocab["[CLS]"]]}
    write_json(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(vocab[t], t) for t in specials if t != "[unused0]"],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": accents, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": post if bert else around("[CLS]", "[SEP]", vocab),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab}})
    write_json(folder, "tokenizer_config.json", {
        "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"})
    return len(vocab)


def charsmap(pairs):
    """SentencePiece's compiled normalisation: a double-array trie (darts-clone) and the replacements."""
    root, texts = {}, b""
    for source, target in pairs:
        node = root
        for byte in source.encode():
            node = node.setdefault(byte, {})
        node[-1] = len(texts)
        texts += target.encode() + b"\0"
    units, used, queue, base = {0: 0}, {0}, [(root, 0)], 1
    while queue:
        node, at = queue.pop(0)
        labels = [max(label, 0) for label in sorted(node)]
        place = base
        while any(place ^ label in used for label in labels):
            place += 1
        units[at] = units.get(at, 0) | (at ^ place) << 10 | (256 if -1 in node else 0)
        used.update(place ^ label for label in labels)
        for label, child in sorted(node.items()):
            if label == -1:
                units[place] = child | 1 << 31
            else:
                units[place ^ label] = label
                queue.append((child, place ^ label))
        while base in used:
            base += 1
    n = (max(units) | 255) + 1
    trie = struct.pack(f"<{n}I", *(units.get(i, 256) for i in range(n)))
    return struct.pack("<I", len(trie)) + trie + texts


CHARS = [("\n", " "), ("\r", " "), ("\t", " "), ("\u00a0", " "), ("\u3000", " "), ("ﬁ", "fi"), ("½", "1⁄2"), ("…", "..."), ("\u200b", "")]


def write_unigram(folder, files={"json"}, split=True, mapped=True, fallback=False):
    """XLM-R's kind of vocabulary, as tokenizer.json or tokenizer.model; returns the number of tokens.

    split: words are cut at spaces before all; else several spaces are joined by the normaliser."""
    words = ["▁" + w for line in TEXT.split("\n") for w in line.split(" ") if w]
    count = {}
    for w in words:
        for i in range(len(w)):
            for j in range(i + 1, min(i + 8, len(w)) + 1):
                count[w[i:j]] = count.get(w[i:j], 0) + 1
    pieces = sorted((t for t in count if len(t) == 1 or count[t] > 1), key=lambda t: (-count[t], t))
    total = sum(count[t] for t in pieces)
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    rows = [(t, 0.0, 2 if t == "<unk>" else 3) for t in specials]
    if fallback:
        rows += [(f"<0x{b:02X}>", 0.0, 6) for b in range(256)]
    rows += [(t, float(np.float32(np.log(count[t] / total))), 1) for t in pieces]
    rows.append(("<mask>", 0.0, 3))
    ids = {t: i for i, (t, _, _) in enumerate(rows)}
    compiled = charsmap(CHARS) if mapped else b""
    if "model" in files:
        model = b"".join(field(1, 2, field(1, 2, t.encode()) + field(2, 5, struct.pack("<f", s)) +
                               (b"" if k == 1 else field(3, 0, varint(k)))) for t, s, k in rows)
        model += field(2, 2, field(3, 0, varint(1)))
        model += field(3, 2, field(1, 2, b"nmt_nfkc") + field(2, 2, compiled) + field(3, 0, varint(1)) +
                       field(4, 0, varint(1)))
        with open(os.path.join(folder, "tokenizer.model"), "wb") as f:
            f.write(model)
    if "json" in files:
        meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        steps = [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(compiled).decode()}] if mapped else []
        if not split:
            steps += [{"type": "Strip", "strip_left": True, "strip_right": True},
                      {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
        pre = [{"type": "WhitespaceSplit"}, meta] if split else [meta]
        write_json(folder, "tokenizer.json", {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{**added(ids[t], t), "lstrip": t == "<mask>"} for t in (*specials, "<mask>")],
            "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre},
            "post_processor": around("<s>", "</s>", ids), "decoder": meta,
            "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": fallback, "vocab": [[t, s] for t, s, _ in rows]}})
    write_json(folder, "tokenizer_config.json", {
        "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>",
        "pad_token": "<pad>", "mask_token": {"content": "<mask>"}})
    return len(rows)


def varint(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, wire, payload):
    body = varint(len(payload)) + payload if wire == 2 else payload
    return varint(number << 3 | wire) + body


def write_spm(folder, specials, prefix, files, n_merges=150, rstrip=False):
    """A SentencePiece BPE vocabulary as tokenizer.json and/or tokenizer.model; returns the number of tokens.

    specials: (bos, eos, unk, pad, end of turn); files: a set of "json" and "model"."""
    bos, eos, unk, pad, eot = specials
    words = [list("▁" + w) for line in TEXT.split("\n") for w in line.split(" ")]
    chars = sorted({c for w in words for c in w})
    merges = train(words, n_merges)
    control = [pad, eos, bos, unk] if pad else [unk, bos, eos]
    pieces = [(t, 0.0, 2 if t == unk else 3) for t in control]
    pieces += [(f"<0x{b:02X}>", 0.0, 6) for b in range(256)]
    made = []
    for a, b in merges:
        if a + b not in made:
            made.append(a + b)
    pieces += [(t, -float(i), 1) for i, t in enumerate(made)]
    pieces += [(c, -float(len(made) + i), 1) for i, c in enumerate(chars)]
    vocab = {t: i for i, (t, _, _) in enumerate(pieces)}
    eot_id = len(pieces)
    n = eot_id + 1
    tokens = [{**added(vocab[t], t), "rstrip": rstrip} for t in control] + [{**added(eot_id, eot), "rstrip": rstrip}]
    if "model" in files:
        kinds = {1: b"", 2: field(3, 0, varint(2)), 3: field(3, 0, varint(3)), 6: field(3, 0, varint(6))}
        model = b"".join(field(1, 2, field(1, 2, t.encode()) + field(2, 5, struct.pack("<f", s)) + kinds[k])
                         for t, s, k in pieces)
        model += field(2, 2, field(3, 0, varint(2)) + field(4, 0, varint(n)))
        model += field(3, 2, field(1, 2, b"identity") + field(2, 2, b"") + field(3, 0, varint(int(prefix))) +
                       field(4, 0, varint(0)))
        with open(os.path.join(folder, "tokenizer.model"), "wb") as f:
            f.write(model)
    if "json" in files:
        every = []  # every split of a piece into two pieces, best piece first
        for t, s, kind in pieces:
            if kind == 1:
                cuts = [(t[:i], t[i:]) for i in range(1, len(t)) if t[:i] in vocab and t[i:] in vocab]
                every += [(-s, vocab[a], vocab[b], a, b) for a, b in cuts]
        steps = [{"type": "Prepend", "prepend": "▁"}] if prefix else []
        steps += [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
        single = [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        write_json(folder, "tokenizer.json", {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {
                bos: {"id": bos, "ids": [vocab[bos]], "tokens": [bos]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": unk, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {**vocab, eot: eot_id},
                      "merges": [f"{a} {b}" for _, _, _, a, b in sorted(every)]}})
    write_json(folder, "tokenizer_config.json", {
        "bos_token": bos, "eos_token": {"content": eos}, "unk_token": unk, "pad_token": pad,
        "added_tokens_decoder": {str(t["id"]): t for t in tokens}})
    write_json(folder, "generation_config.json", {"eos_token_id": [vocab[eos], eot_id]})
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write("{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}" + eot + "\n{% endfor %}")
    return n
