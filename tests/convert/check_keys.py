"""What a converted file says beside its weights: keys of the configuration, pre-tokenizer names of every family, special
ids, end-of-turn ids, templates, types of tokens. Usage: check_keys.py KENTANG WORK_FOLDER"""
import base64
import json
import os
import shutil
import subprocess
import sys

import encoders
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

# what transformers writes: numbers beyond 64 bits, no numbers, keys twice
folder, n = fresh("qwen2")
edit(folder, "tokenizer_config.json", lambda c: c.update(model_max_length=1000000000000000019884624838656, x=float("nan")))
edit(folder, "config.json", lambda c: c.update(time_step_limit=[0.0, float("inf")]))
with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
    text = f.read()
with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
    f.write('{"rms_norm_eps": 1.0,' + text[1:])
check("numbers as Python reads them", round(convert(folder).keys["qwen2.attention.layer_norm_rms_epsilon"], 9), 1e-6)

# whole words where GGUF's name has none, and the other way round: the name is taken, since merges make each token
for pre in ("gpt-4o", "tekken"):
    steps, normalizer, whole = folders.PRETOKENIZERS[pre]
    folders.PRETOKENIZERS[pre] = steps, normalizer, not whole
    folders.write_bpe(folder, pre, 512)
    folders.PRETOKENIZERS[pre] = steps, normalizer, whole
    check(f"pre {pre}, ignore_merges {not whole}", convert(folder).keys["tokenizer.ggml.pre"], pre)

# added tokens beyond the embedding's rows are left out; buffers are no weights
folder, n = fresh("qwen2")
edit(folder, "tokenizer.json", lambda t: t["added_tokens"].extend([folders.added(512, "<image>"), folders.added(600, "<pad>")]))
edit(folder, "tokenizer_config.json", lambda c: c.update(pad_token="<pad>"))
k = convert(folder).keys
check("tokens without a row", (len(k["tokenizer.ggml.tokens"]), "<image>" in k["tokenizer.ggml.tokens"],
                               "tokenizer.ggml.padding_token_id" in k), (512, False, False))
done = subprocess.run([kentang, "convert", folder, os.path.join(work, "keys.gguf")], capture_output=True, text=True)
check("a note of them", "2 added tokens have no row in the embedding and are left out, first '<image>' (512)" in done.stderr, True)

# white space that belongs to added tokens
folder, n = fresh("qwen2")
edit(folder, "tokenizer.json", lambda t: [t["added_tokens"][1].update(rstrip=True), t["added_tokens"][2].update(rstrip=True),
                                          t["added_tokens"][3].update(lstrip=True)])
k = convert(folder).keys
check("strips", (k["kentang.rstrip_ids"], k["kentang.lstrip_ids"]), ([n - 3, n - 2], [n - 1]))
ids = json.loads(subprocess.run([kentang, "tokenize", "-m", os.path.join(work, "keys.gguf"), "-p",
                                 "<|im_start|> \n<tool_call>\n<tool_call><|im_end|>\n"], capture_output=True, text=True).stdout or "[]")
check("strips: ids", ids, [n - 3, n - 1, n - 1, n - 2])

# folders of older tokenizers: vocab.json with merges.txt, and vocab.txt, give the same keys as their tokenizer.json
def as_files(folder, **settings):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        t = json.load(f)
    os.remove(os.path.join(folder, "tokenizer.json"))
    vocab = t["model"]["vocab"]
    if "merges" in t["model"]:
        folders.write_json(folder, "vocab.json", vocab)
        with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in t["model"]["merges"]))
    else:
        with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8", newline="") as f:
            f.write("".join(w + "\r\n" for w in sorted(vocab, key=vocab.get)))
    edit(folder, "tokenizer_config.json", lambda c: c.update(settings))
    return t


def tokenizer_keys(folder):
    return {k: v for k, v in convert(folder).keys.items() if k.startswith(("tokenizer.", "kentang."))}


folder, n = fresh("qwen2")
want = tokenizer_keys(folder)
t = as_files(folder, tokenizer_class="Qwen2Tokenizer")
edit(folder, "tokenizer_config.json", lambda c: c.update(added_tokens_decoder={str(a["id"]): a for a in t["added_tokens"]}))
check("vocab.json and merges.txt", tokenizer_keys(folder), want)
edit(folder, "tokenizer_config.json", lambda c: [c.pop("tokenizer_class"), c.pop("added_tokens_decoder")])
folders.write_json(folder, "added_tokens.json", {a["content"]: a["id"] for a in t["added_tokens"]})
folders.write_json(folder, "special_tokens_map.json", {"a": "<|im_start|>"})
k = tokenizer_keys(folder)
check("the class by the model's, and added_tokens.json", (k["tokenizer.ggml.pre"], k["tokenizer.ggml.tokens"], k["kentang.eos_ids"]),
      (want["tokenizer.ggml.pre"], want["tokenizer.ggml.tokens"], want["kentang.eos_ids"]))
edit(folder, "tokenizer_config.json", lambda c: c.update(tokenizer_class="GPT2TokenizerFast"))
check("another class", tokenizer_keys(folder)["tokenizer.ggml.pre"], "gpt-2")

# links: within the folder, and from a snapshot of the hub's cache to its blobs
folder, n = fresh("qwen2")
want = convert(folder).keys
os.rename(os.path.join(folder, "tokenizer.json"), os.path.join(folder, "t.json"))
os.symlink("t.json", os.path.join(folder, "tokenizer.json"))
check("a link within the folder", convert(folder).keys, want)
snapshot, blobs = (os.path.join(work, "keys/hub/models--o--m", p) for p in ("snapshots/0123", "blobs"))
os.makedirs(snapshot)
os.makedirs(blobs)
for i, name in enumerate(os.listdir(folder)):
    os.rename(os.path.join(folder, name), os.path.join(blobs, f"{i:040x}"))
    os.symlink(os.path.join("../../blobs", f"{i:040x}"), os.path.join(snapshot, name))
os.remove(os.path.join(snapshot, "tokenizer.json"))
os.rename(os.path.join(snapshot, "t.json"), os.path.join(snapshot, "tokenizer.json"))
k = convert(snapshot).keys
check("a snapshot of the hub's cache", {a: b for a, b in k.items() if a != "general.name"}, {a: b for a, b in want.items() if a != "general.name"})

# tiktoken.model: ranks, the special tokens after them, and the merges of the ranks
folder, n = fresh("qwen2")
os.remove(os.path.join(folder, "tokenizer.json"))
ranks = [bytes([b]) for b in range(256)] + [b"he", b"ll", b"lo", b"hell", b"llo", b"hello", b" hello"]
with open(os.path.join(folder, "tiktoken.model"), "wb") as f:
    f.write(b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(ranks)))
edit(folder, "tokenizer_config.json", lambda c: c.update(tokenizer_class="TikTokenTokenizer", eos_token="[EOS]", pad_token=None, added_tokens_decoder={
    str(len(ranks) + 1): {"content": "[EOS]", "special": True}, str(len(ranks) + 2): {"content": "<think>", "special": False}}))
edit(folder, "generation_config.json", lambda c: c.update(eos_token_id=len(ranks) + 1))
k = tokenizer_keys(folder)
check("tiktoken: pre", k["tokenizer.ggml.pre"], "kimi-k2")
check("tiktoken: special tokens", k["tokenizer.ggml.tokens"][len(ranks):len(ranks) + 4],
      [f"<|reserved_token_{len(ranks)}|>", "[EOS]", "<think>", f"<|reserved_token_{len(ranks) + 3}|>"])
check("tiktoken: kinds", k["tokenizer.ggml.token_type"][len(ranks):len(ranks) + 4], [3, 3, 4, 3])
check("tiktoken: merges", k["tokenizer.ggml.merges"], ["h e", "l l", "l o", "he ll", "ll o", "l lo", "hell o", "he llo", "\u0120 hello"])
ids = json.loads(subprocess.run([kentang, "tokenize", "-m", os.path.join(work, "keys.gguf"), "-p", " hello你helloo[EOS]"],
                                capture_output=True, text=True).stdout or "[]")
check("tiktoken: ids", ids, [262, *"你".encode(), 261, ord("o"), len(ranks) + 1])

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

# WordPiece and unigram vocabularies, from every form of the file
def encoder(name, **how):
    folder = os.path.join(work, "keys", name)
    shutil.rmtree(folder, ignore_errors=True)
    return folder, encoders.write({**encoders.MODELS[name], "tokenizer": how}, folder)[1]


for lowercase, accents in ((True, None), (True, False), (False, None), (False, True)):
    folder, n = encoder("bert", lowercase=lowercase, accents=accents, bert=not lowercase)
    k = convert(folder).keys
    name = f"WordPiece, lowercase {lowercase}, accents {accents}"
    check(name, (k["tokenizer.ggml.model"], k["tokenizer.ggml.normalizer.lowercase"],
                 k["tokenizer.ggml.normalizer.strip_accents"]), ("bert", lowercase, lowercase if accents is None else accents))
    check(name + ": roles", [k[f"tokenizer.ggml.{r}_token_id"] for r in (
        "padding", "unknown", "cls", "seperator", "mask", "bos", "eos")], [0, 2, 3, 4, 5, 3, 4])
for lowercase in (True, False):
    folder, n = encoder("bert", lowercase=lowercase)
    want = tokenizer_keys(folder)
    as_files(folder, do_lower_case=lowercase, tokenizer_class="BertTokenizer")
    check(f"vocab.txt, lowercase {lowercase}", tokenizer_keys(folder), want)
check("WordPiece: spelling", [t in k["tokenizer.ggml.tokens"] for t in ("[CLS]", "▁a", "a", "##a")], [True, True, True, False])
check("encoder: keys", (k["bert.attention.causal"], k["bert.pooling_type"], k["tokenizer.ggml.token_type_count"],
                        k["bert.attention.layer_norm_epsilon"] < 1e-11), (False, 1, 2, True))
for name, how in (("json", {}), ("model", {"files": {"model"}}), ("joined", {"split": False}), ("bytes", {"fallback": True}),
                  ("no map", {"mapped": False})):
    folder, n = encoder("xlm-roberta", **how)
    k = convert(folder).keys
    fallback = 256 if name == "bytes" else 0
    check(f"unigram {name}", (k["tokenizer.ggml.model"], k["tokenizer.ggml.add_space_prefix"],
                              k["tokenizer.ggml.remove_extra_whitespaces"], k["tokenizer.ggml.unknown_token_id"]), ("t5", True, True, 3))
    check(f"unigram {name}: types", (k["tokenizer.ggml.token_type"][:5], k["tokenizer.ggml.token_type"][n - 1]),
          ([3, 3, 3, 2, 6 if fallback else 1], 3))
    check(f"unigram {name}: ends", (k["tokenizer.ggml.bos_token_id"], k["tokenizer.ggml.eos_token_id"],
                                    k["tokenizer.ggml.add_bos_token"], k["tokenizer.ggml.add_eos_token"]), (0, 2, True, True))
    compiled = b"" if name == "no map" else folders.charsmap(folders.CHARS)
    check(f"unigram {name}: map", bytes(k.get("tokenizer.ggml.precompiled_charsmap", b"")), compiled)
folder, n = encoder("bert")
for name, dtype, blob in (("embeddings.position_ids", "I64", bytes(64)), ("rotary_emb.inv_freq", "F32", bytes(32)),
                          ("embeddings.token_type_ids", "I64", bytes(64)), ("encoder.mask", "BOOL", bytes(8))):
    folders.add_tensor(os.path.join(folder, "model.safetensors"), name, dtype, blob, [8])
check("buffers", convert(folder).keys["general.architecture"], "bert")
check("positions of XLM-R", k["bert.context_length"], 128)

# a reranker by two tokens, and one dense layer more than GGUF has room for
folder = os.path.join(work, "keys", "reranker")
m = encoders.DECODERS["qwen3-reranker"]
_, n, _ = encoders.write_decoder(m, folder)
check("no prompt for other tokens", "tokenizer.chat_template.rerank" in convert(folder).keys, False)
edit(folder, "tokenizer.json", lambda t: t["added_tokens"].extend([folders.added(n, "yes", False), folders.added(n + 1, "no", False)]))
edit(os.path.join(folder, "1_LogitScore"), "config.json", lambda c: c.update(true_token_id=n, false_token_id=n + 1))
k = convert(folder).keys
check("a reranker's prompt", ("{query}" in k["tokenizer.chat_template.rerank"], k["qwen3.pooling_type"]), (True, 4))
check("a reranker's two rows", k["qwen3.classifier.output_labels"], ["yes", "no"])
folder = os.path.join(work, "keys", "embedding")
encoders.write_decoder(encoders.DECODERS["qwen3-embedding"], folder)
edit(folder, "tokenizer.json", lambda t: t.update(post_processor={
    "type": "Sequence", "processors": [folders.byte_level(False), {
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {
            "SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}], "pair": [], "special_tokens": {}}]}))
k = convert(folder).keys
check("the end that is added", (k["tokenizer.ggml.add_eos_token"], k["tokenizer.ggml.tokens"][k["tokenizer.ggml.eos_token_id"]],
                                k["qwen3.pooling_type"]), (True, "<|endoftext|>", 3))

# gpt-oss: blocks are kept where nothing smaller is asked for
folder, _ = fresh("gpt-oss")
for recipe, want in ((None, 39), ("q8_0", 39), ("q4_k_m", 39), ("f16", 1), ("q2_k", 10)):
    k = convert(folder, *(["--type", recipe] if recipe else []))
    check(f"experts, --type {recipe}", k.tensors["blk.0.ffn_gate_exps.weight"][1], want)
check("sinks", k.tensors["blk.0.attn_sinks.weight"][:2], ((8,), 0))

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
# layers of two kinds
folder, n = fresh("gemma4")
edit(folder, "generation_config.json", lambda c: c.update(suppress_tokens=[7, n - 1, 100000]))
k = convert(folder)
check("widths and heads of each layer", (k.keys["gemma4.feed_forward_length"], k.keys["gemma4.attention.head_count_kv"]),
      ([512] * 4 + [1024] * 3, [1] * 7))
check("heads of two sizes", [k.keys["gemma4." + name] for name in (
    "attention.key_length", "attention.key_length_swa", "rope.dimension_count", "rope.dimension_count_swa")], [96, 64, 96, 64])
check("keys of other layers", [(f"blk.{i}.attn_k.weight" in k.tensors) for i in range(7)], [True] * 4 + [False] * 3)
check("merges over letters", (k.keys["tokenizer.ggml.model"], "tokenizer.ggml.merges" in k.keys, "tokenizer.ggml.scores" in k.keys),
      ("gemma4", True, False))
check("ends and suppressed tokens", (k.keys["kentang.eos_ids"], k.keys["tokenizer.ggml.suppress_tokens"]), ([1, n - 1], [7, n - 1]))
k = convert(fresh("gemma4-experts")[0])
check("heads of each layer", k.keys["gemma4.attention.head_count_kv"], [4] * 5 + [2] * 2)
check("values of keys", [(f"blk.{i}.attn_v.weight" in k.tensors) for i in range(7)], [True] * 5 + [False] * 2)
# chunks
k = convert(fresh("llama4")[0])
check("chunks, temperature and experts", [k.keys["llama4." + name] for name in (
    "attention.sliding_window", "attention.temperature_length", "feed_forward_length", "expert_feed_forward_length", "interleave_moe_layer_step")],
      [24, 16, 512, 96, 2])
check("transposed experts", [k.tensors[f"blk.1.ffn_{name}_exps.weight"][0] for name in ("gate", "up", "down")], [(256, 96, 5)] * 2 + [(96, 256, 5)])
check("experts in some layers", [(f"blk.{i}.ffn_up_shexp.weight" in k.tensors, f"blk.{i}.ffn_up.weight" in k.tensors) for i in range(5)],
      [(i % 2 == 1, i % 2 == 0) for i in range(5)])
k = convert(fresh("llama4-text")[0])
check("what the format implies is not said", [name for name in ("sliding_window", "temperature_scale", "temperature_length")
                                              if "llama4.attention." + name in k.keys], [])
check("no chunks", convert(fresh("llama4-plain")[0]).keys["llama4.attention.sliding_window"], 0)
# streams, and gates that count where they stand out
k = convert(fresh("gemma3n")[0])
check("streams", (k.keys["gemma3n.altup.num_inputs"], k.tensors["altup_proj.weight"][0], k.keys["gemma3n.feed_forward_length"]),
      (4, (256, 256, 3), 512))
cuts = k.keys["gemma3n.activation_sparsity_scale"]
check("gates that are cut", ([round(c, 6) for c in cuts[:3]], cuts[3:]), ([1.644854] * 3, [float("-inf")] * 4))
check("rows of both tables", [k.tensors[name][0][1] for name in ("token_embd.weight", "per_layer_token_embd.weight")],
      [len(k.keys["tokenizer.ggml.tokens"])] * 2)

# BitNet: factors of matrices in tensors of their own, whatever the type
k = convert(fresh("bitnet-packed")[0], "--type", "tq2_0")
check("matrices and factors", [k.tensors["blk.1." + name][:2] for name in ("ffn_down.weight", "ffn_down.scale")], [((512, 256), 35), ((1,), 0)])
check("what becomes of the gate", k.keys["bitnet.hidden_act"], "relu2")
k = convert(fresh("mamba")[0])
check("steps of their own", [k.keys["mamba.ssm." + name] for name in ("time_step_rank", "inner_size")] +
      [k.tensors["blk.1." + name][0] for name in ("ssm_a", "ssm_x.weight")], [16, 512, (16, 512), (512, 48)])
k = convert(fresh("mamba2")[0])
check("no heads", [k.keys["mamba2." + name] for name in ("attention.head_count", "feed_forward_length", "ssm.inner_size", "context_length")],
      [0, 0, 384, 1048576])
sys.exit(failed > 0)
