"""What cannot be converted is refused by name, and leaves nothing behind. Usage: check_refusals.py KENTANG WORK_FOLDER"""
import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np

import encoders
import folders
import models

kentang, work = sys.argv[1:3]
base, folder, out = (os.path.join(work, name) for name in ("refuse-base", "refuse", "refused.gguf"))
failed = 0


def path(name):
    return os.path.join(folder, name)


def edit(name, **change):
    with open(path(name), encoding="utf-8") as f:
        value = json.load(f)
    for key, new in change.items():
        at = value
        *parents, last = key.split("__")
        for p in parents:
            at = at[p]
        if new is None:
            at.pop(last, None)
        else:
            at[last] = new
    with open(path(name), "w", encoding="utf-8") as f:
        json.dump(value, f)


def listing():
    return sorted((name, os.stat(path(name)).st_size, os.stat(path(name)).st_mtime_ns) for name in os.listdir(folder))


def refused(what, say, change, target=None):
    """The message holds `say`; no output, no leftovers, sources as they were."""
    global failed
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    change()
    before = listing()
    done = subprocess.run([kentang, "convert", folder, target or out], capture_output=True, text=True)
    left = os.path.exists(out) or os.path.exists(out + ".part") or listing() != before
    good = done.returncode > 1 and say in done.stderr and not left
    failed += not good
    print(f"{'PASS' if good else 'FAIL'} {what}" + ("" if good else f": {done.returncode}, {left}, {done.stderr.strip()}"))


def rewrite(name, change, file="model.safetensors"):
    """One tensor of the single file, changed: change(dtype, array bytes, shape) -> the same."""
    with open(path(file), "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(n)), f.read()
    at, parts, new = 0, [], {}
    for key, t in header.items():
        if key == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        dtype, blob, shape = t["dtype"], data[begin:end], t["shape"]
        if key == name:
            result = change(dtype, blob, shape)
            if result is None:
                continue
            dtype, blob, shape = result
        new[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        parts.append(blob)
    text = json.dumps(new).encode()
    with open(path(file), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def add_tensor(name, dtype, blob, shape, file="model.safetensors"):
    folders.add_tensor(path(file), name, dtype, blob, shape)


def append(name, more):
    with open(path(name), "ab") as f:
        f.write(more)


def truncate(name, n):
    os.truncate(path(name), os.path.getsize(path(name)) - n)


def index_names(**names):
    with open(path("model.safetensors.index.json")) as f:
        index = json.load(f)
    index["weight_map"].update({k.replace("__", "."): v for k, v in names.items()})
    index["weight_map"] = {k: v for k, v in index["weight_map"].items() if v}
    with open(path("model.safetensors.index.json"), "w") as f:
        json.dump(index, f)


m = models.MODELS["qwen2-yarn"]
models.write(m, base)
Q, NORM = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.input_layernorm.weight"

refused("an empty folder", "it has no config.json", lambda: shutil.rmtree(folder) or os.makedirs(folder))
refused("no weights", "neither model.safetensors", lambda: os.remove(path("model.safetensors")))
refused("pickles", ".pt files are programs", lambda: os.rename(path("model.safetensors"), path("pytorch_model.bin")))
refused("a longer file", "belong to no tensor", lambda: append("model.safetensors", b"x"))
refused("a shorter file", "are not inside", lambda: truncate("model.safetensors", 1))
refused("F8", "type F8_E4M3: the weights are quantised already (FP8)", lambda: rewrite(Q, lambda d, b, s: ("F8_E4M3", b[:len(b) // 2], s)))
refused("F64", "F64", lambda: rewrite(NORM, lambda d, b, s: ("F64", b * 4, s)))
refused("another shape", "by config.json it is [256, 256]", lambda: rewrite(Q, lambda d, b, s: (d, b, s[::-1] + [1])))
refused("a vector's shape", "by config.json it is [256]", lambda: rewrite(NORM, lambda d, b, s: (d, b, [128, 2])))
refused("a tensor is missing", Q.removeprefix("model."), lambda: rewrite(Q, lambda d, b, s: None))
refused("a layer too many", "has no place", lambda: edit("config.json", num_hidden_layers=1))
refused("a layer too few", "is missing", lambda: edit("config.json", num_hidden_layers=3))
nan = np.full(256, np.nan, np.float16).tobytes()
refused("not a number", "element 0 is not a finite", lambda: rewrite(NORM, lambda d, b, s: (d, nan, s)))
refused("infinity", "element 255 is not a finite",
        lambda: rewrite(NORM, lambda d, b, s: (d, b[:-2] + b"\x00\x7c", s)))
refused("fewer rows than tokens of the model", "do not belong together", lambda: rewrite(
    "model.embed_tokens.weight", lambda d, b, s: (d, b[:2 * 256 * 100], [100, 256])))

refused("no class", "'GPT2LMHeadModel' is not supported; supported are the classes of: llama, mistral", lambda: edit(
    "config.json", architectures=["GPT2LMHeadModel"]))
refused("broken JSON", "not valid JSON", lambda: append("config.json", b"}"))
refused("a number of 10,000 digits", "a number of 10000 digits; 4300 are the most (", lambda: open(path("config.json"), "w").write(
    '{"a": ' + "1" * 10000 + "}"))
refused("an infinite size", "is 1.797", lambda: edit("config.json", hidden_size=float("inf")))
refused("many objects", "over 349525 values", lambda: open(path("config.json"), "w").write('{"x":[' + "{}," * 50000 + "1]}"))
refused("many keys", "where a key counts as 4", lambda: open(path("config.json"), "w").write("{" + ",".join(f'"{i}":1' for i in range(80000)) + "}"))
refused("a number of very many digits", "a number of 10000 digits", lambda: open(path("config.json"), "w").write('{"x":' + "1" * 10000 + "}"))


def links_out(name):
    outside = os.path.join(work, "outside")
    os.makedirs(outside, exist_ok=True)
    shutil.copy(path(name), outside)
    os.remove(path(name))
    os.symlink(os.path.join("../outside", name), path(name))


for name in ("config.json", "tokenizer.json", "model.safetensors"):
    refused(f"a link out of the folder: {name}", f"outside/{name}, which is neither in the model's folder", lambda: links_out(name))
refused("a very large config.json", "over the limit of", lambda: open(path("config.json"), "w").write("{" + " " * (5 << 20) + "}"))
refused("depth", "not valid JSON: maximum parsing depth", lambda: open(path("config.json"), "w").write('{"a":' * 20000))
refused("a number that is none", "\"hidden_size\" is not a number", lambda: edit("config.json", hidden_size="256"))
refused("out of range", "from 1 to 1024", lambda: edit("config.json", num_hidden_layers=100000))
refused("heads that do not divide", "does not divide", lambda: edit("config.json", num_key_value_heads=3))
refused("an activation", "'relu'", lambda: edit("config.json", hidden_act="relu"))
refused("a class that sees", "'Qwen2_5_VLForConditionalGeneration', which has a vision or audio part,", lambda: edit(
    "config.json", architectures=["Qwen2_5_VLForConditionalGeneration"], vision_config={}))
for method, name in (("gptq", "GPTQ"), ("awq", "AWQ"), ("fp8", "FP8"), ("bitsandbytes", "bitsandbytes"), ("new", "new")):
    refused(f"{name} in config.json", f"quantised already ({name})",
            lambda: edit("config.json", quantization_config={"quant_method": method}))
refused("a method in text_config", "quantised already (FP8)",
        lambda: edit("config.json", text_config={"model_type": "qwen2", "quantization_config": {"quant_method": "fp8"}}))
for tail, name in (("qweight", "GPTQ or AWQ"), ("qzeros", "GPTQ or AWQ"), ("g_idx", "GPTQ"), ("weight.absmax", "bitsandbytes"),
                   ("SCB", "bitsandbytes"), ("weight_scale_inv", "FP8")):
    refused(f"a tensor {tail}", f"quantised already ({name})",
            lambda: add_tensor("model.layers.0.self_attn.q_proj." + tail, "F32", np.zeros(4, np.float32).tobytes(), [4]))
refused("dynamic rope", "'dynamic'", lambda: edit("config.json", rope_scaling={"type": "dynamic", "factor": 2.0}))
refused("a window of qwen2", "use_sliding_window",
        lambda: edit("config.json", use_sliding_window=True, sliding_window=32))

refused("no tokenizer", "neither tokenizer.json", lambda: os.remove(path("tokenizer.json")))
refused("a class of tokenizers that is not known", "the rules of the class 'XTokenizer' are not known", lambda: [
    os.remove(path("tokenizer.json")), open(path("vocab.txt"), "w").write("a\n"), edit("tokenizer_config.json", tokenizer_class="XTokenizer")])
refused("merges that are no text", "line 2 is not UTF-8", lambda: [
    os.remove(path("tokenizer.json")), open(path("vocab.json"), "w").write('{"a": 0}'),
    open(path("merges.txt"), "wb").write(b"#version: 0.2\n\xff a\n"), edit("tokenizer_config.json", tokenizer_class="Qwen2Tokenizer")])
for what, lines, say in (("no rank", b"aGU=\n", "line 1: a token in base64, a space and its rank"), ("no base64", b"aGU= 0\n!! 1\n", "line 2: the token is not base64"),
                         ("a rank out of order", b"aGU= 1\n", "line 1: the rank is not the number of tokens before it"),
                         ("a token twice", b"aGU= 0\naGU= 1\n", "line 2: a token that came before"), ("a very long token", b"A" * 4000 + b" 0\n", "of 1 to 256 bytes"),
                         ("no token", b"", "model.vocab is missing or empty")):
    refused(f"tiktoken.model: {what}", say, lambda: [os.remove(path("tokenizer.json")), open(path("tiktoken.model"), "wb").write(lines),
                                                     edit("tokenizer_config.json", tokenizer_class="TikTokenTokenizer")])
refused("tiktoken.model of another class", "the rules of the class 'QWenTokenizer' are not known", lambda: [
    os.remove(path("tokenizer.json")), open(path("tiktoken.model"), "w").write("aGU= 0"), edit("tokenizer_config.json", tokenizer_class="QWenTokenizer")])
refused("Mistral's own tokenizer", "tekken.json, Mistral's own form",
        lambda: os.rename(path("tokenizer.json"), path("tekken.json")))
refused("Mistral's own weights", "consolidated.safetensors, Mistral's own form",
        lambda: os.rename(path("model.safetensors"), path("consolidated.safetensors")))
refused("WordPiece that is none", "continuing_subword_prefix", lambda: edit("tokenizer.json", model__type="WordPiece"))
refused("Unigram that is none", "not a list of 1 to", lambda: edit("tokenizer.json", model__type="Unigram"))
refused("a tokenizer of words", "a tokenizer of type WordLevel", lambda: edit("tokenizer.json", model__type="WordLevel"))
refused("an unknown expression", "pre_tokenizer: foo+",
        lambda: edit("tokenizer.json", pre_tokenizer={"type": "Split", "pattern": {"Regex": "foo+"},
                                                      "behavior": "Isolated", "invert": False}))
refused("a normaliser", "normalizer: Lowercase", lambda: edit("tokenizer.json", normalizer={"type": "Lowercase"}))
refused("a space before", "add_prefix_space", lambda: edit("tokenizer.json", pre_tokenizer={
    "type": "ByteLevel", "add_prefix_space": True, "use_regex": True}))
O200K = folders.PRETOKENIZERS["gpt-4o"][0]


def whole_words(vocab, merges):
    edit("tokenizer.json", pre_tokenizer={"type": "Sequence", "pretokenizers": O200K}, normalizer=None, model__ignore_merges=True,
         model__vocab=vocab, model__merges=merges, added_tokens=[])
    edit("tokenizer_config.json", eos_token=None, pad_token=None)
    edit("generation_config.json", eos_token_id=None)


LETTERS = {c: i for i, c in enumerate(folders.alphabet().values())}
refused("a whole word that merges do not make", "merges do not make token 257, 'xyz'", lambda: whole_words(
    {**LETTERS, "xy": 256, "xyz": 257}, ["x y"]))
refused("tokens of very many letters", "merges do not make token 256", lambda: whole_words({**LETTERS, "x" * 60000: 256}, ["x y"]))
refused("an id twice", "the same id", lambda: edit("tokenizer.json", model__vocab={"a": 1, "b": 1}))
refused("an id too large", "not a number from 0", lambda: edit("tokenizer.json", model__vocab={"a": 1 << 40}))
refused("a merge of one", "model.merges[0]", lambda: edit("tokenizer.json", model__merges=["ab"]))
refused("an end that is no token", "no id of the", lambda: edit("generation_config.json", eos_token_id=[1, 100000]))
refused("a merge without a token", "encodes", lambda: edit("tokenizer.json", model__merges=["O N"]))

models.write(models.MODELS["llama3"], base)
os.remove(os.path.join(base, "model.safetensors"))
refused("a shard is missing", "cannot open", lambda: os.remove(path("model-00002-of-00003.safetensors")))
refused("a shard outside", "in the same folder", lambda: index_names(lm_head__weight="../x.safetensors"))
refused("a shard with a full path", "in the same folder", lambda: index_names(lm_head__weight="/tmp/x.safetensors"))
refused("a hidden shard", "in the same folder", lambda: index_names(lm_head__weight=".x.safetensors"))
refused("an index of another file", "is not in model-00001",
        lambda: index_names(lm_head__weight="model-00001-of-00003.safetensors"))
refused("an index without a tensor", "is not named", lambda: index_names(lm_head__weight=""))
refused("a tensor twice", "is in another file, too", lambda: shutil.copy(path("model-00001-of-00003.safetensors"),
                                                                         path("model-00002-of-00003.safetensors")))
refused("the output is an input", "file of the folder", lambda: None, path("model-00001-of-00003.safetensors"))
refused("the output is a folder", "not a regular file", lambda: None, folder)
refused("the output has no folder", "cannot create", lambda: None, os.path.join(folder, "nowhere", "x.gguf"))

models.write(models.MODELS["smollm3"], base)
refused("rotation of all layers", "each fourth layer", lambda: edit("config.json", no_rope_layers=[1] * 5))
refused("a window of smollm3", "use_sliding_window", lambda: edit("config.json", use_sliding_window=True))

models.write(models.MODELS["cohere2"], base)
refused("cohere2 without a window", "the cohere2 format has one", lambda: edit("config.json", sliding_window=0))
refused("cohere2 in another order", "another order", lambda: edit("config.json", layer_types=["full_attention"] * 5))
models.write(models.MODELS["cohere"], base)
refused("Command R+'s norms of heads", "layer norms of query and key heads", lambda: edit("config.json", use_qk_norm=True))
models.write(models.MODELS["exaone4"], base)
refused("letters of another kind", "letters L and G", lambda: edit("config.json", sliding_window_pattern="LLXG"))
refused("a pattern of nothing", "letters L and G", lambda: edit("config.json", sliding_window_pattern=0))
refused("types of too few layers", "4 elements for 5 layers",
        lambda: edit("config.json", layer_types=["full_attention"] * 4))
refused("another type of layer", "full_attention are expected",
        lambda: edit("config.json", layer_types=["chunked_attention"] * 5))
models.write(models.MODELS["hunyuan"], base)
refused("dynamic rope without alpha", "'dynamic'", lambda: edit("config.json", rope_scaling__alpha=None))
models.write(models.MODELS["mistral3"], base)
refused("mistral3 without yarn", "yarn is expected", lambda: edit("config.json", text_config__rope_parameters=None))
refused("a temperature that is none", "llama_4_scaling_beta",
        lambda: edit("config.json", text_config__rope_parameters__llama_4_scaling_beta="x"))
refused("a text part of another kind", "'pixtral', which is not supported",
        lambda: edit("config.json", text_config__model_type="pixtral"))
refused("no text part", "\"num_hidden_layers\" is missing", lambda: edit("config.json", text_config=None))

def fresh(write, m):
    shutil.rmtree(base)
    write(m, base)


fresh(encoders.write, encoders.MODELS["bert"])
for name in ("ModernBertForSequenceClassification", "MPNetModel", "NewModel", "NewForSequenceClassification"):
    refused(name, f"the encoder class '{name}' is not supported", lambda: edit("config.json", architectures=[name], model_type="x"))
refused("an encoder: what is possible", "of the class BertModel, RobertaModel", lambda: edit("config.json", architectures=["MPNetModel"]))
refused("a normaliser that keeps control characters", "a BertNormalizer", lambda: edit("tokenizer.json", normalizer__clean_text=False))
refused("another pre-tokenizer", "a BertPreTokenizer", lambda: edit("tokenizer.json", pre_tokenizer__type="Whitespace"))
refused("long words", "100 is expected", lambda: edit("tokenizer.json", model__max_input_chars_per_word=50))
refused("no unknown token", "unk_token is not in", lambda: edit("tokenizer.json", model__unk_token="[X]"))
refused("relative positions", "absolute positions", lambda: edit("config.json", position_embedding_type="relative_key"))
refused("a decoder", "is_decoder", lambda: edit("config.json", is_decoder=True))
refused("exact words of an activation", "'gelu_new'", lambda: edit("config.json", hidden_act="gelu_new"))
refused("modules that are no list", "a list of at most", lambda: open(path("modules.json"), "w").write("{}"))
refused("modules of another kind", "'sentence_transformers.models.CNN', which is not", lambda: open(path("modules.json"), "w").write(
    '[{"idx": 0, "path": "", "type": "sentence_transformers.models.CNN"}]'))
refused("a module outside", "which is not below", lambda: open(path("modules.json"), "w").write(
    '[{"path": "../x", "type": "sentence_transformers.models.Pooling"}]'))
refused("pooling by the maximum", "pooling_mode_max_tokens", lambda: edit(
    "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True))
refused("two poolings at once", "by mean, by the first", lambda: edit("1_Pooling/config.json", pooling_mode_cls_token=True))
refused("modules without their list", "the file is missing, and config_sentence", lambda: [
    os.rename(path("modules.json"), path("config_sentence_transformers.json"))])
refused("a module's folder is missing", "1_Pooling/config.json)", lambda: shutil.rmtree(path("1_Pooling")))
refused("a token type too many", "by config.json it is [3, 256]", lambda: edit("config.json", type_vocab_size=3))

fresh(encoders.write, encoders.MODELS["xlm-roberta"])
refused("a map that is no base64", "not base64", lambda: edit("tokenizer.json", normalizer={
    "type": "Precompiled", "precompiled_charsmap": "A*"}))
refused("a map without an end", "precompiled_charsmap", lambda: edit("tokenizer.json", normalizer={
    "type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}))
refused("a step of another kind", "the step Lowercase", lambda: edit("tokenizer.json", normalizer={"type": "Lowercase"}))
refused("a replacement of another kind", "the step Replace", lambda: edit("tokenizer.json", normalizer={
    "type": "Replace", "pattern": {"String": "a"}, "content": "b"}))
refused("no unknown piece", "unk_id", lambda: edit("tokenizer.json", model__unk_id=None))
refused("a piece without a score", "model.vocab[0]", lambda: edit("tokenizer.json", model__vocab=[["a"]]))
refused("no room for positions", "3 is the least", lambda: edit("config.json", max_position_embeddings=2))

fresh(encoders.write, encoders.MODELS["modern"])
refused("ModernBERT in another order", "another order", lambda: edit("config.json", global_attn_every_n_layers=2))
refused("ModernBERT with biases", "which the format cannot express", lambda: edit("config.json", mlp_bias=True))
fresh(encoders.write_decoder, encoders.DECODERS["gemma-embedding"])
refused("gemma's class without a head", "use_bidirectional_attention", lambda: edit("config.json", use_bidirectional_attention=False))
refused("a function behind a dense layer", "activation_function", lambda: edit(
    "2_Dense/config.json", activation_function="torch.nn.modules.activation.Tanh"))
refused("one dense layer of another width", "leads to 1024 features", lambda: open(path("modules.json"), "w").write(
    '[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]'))
refused("dense layers in another order", "3_Dense/model.safetensors", lambda: open(path("modules.json"), "w").write(
    '[{"path": "3_Dense", "type": "a.Dense"}, {"path": "2_Dense", "type": "a.Dense"}]'))
refused("the output is a dense layer", "file of the folder", lambda: None, path("2_Dense/model.safetensors"))

fresh(encoders.write_decoder, encoders.DECODERS["qwen3-reranker"])
refused("tokens that are not there", "compares tokens", lambda: edit("1_LogitScore/config.json", true_token_id=100000))
refused("no token", "true_token_id", lambda: edit("1_LogitScore/config.json", true_token_id="yes"))

fresh(models.write, {**models.MODELS["gpt-oss"], "files": 1})
BLOCKS = "model.layers.1.mlp.experts.down_proj_blocks"
refused("no blocks", "in which it is published", lambda: rewrite(BLOCKS, lambda d, b, s: None))
refused("blocks of another shape", "U8 of shape [4, 256, 8, 16] is expected", lambda: rewrite(BLOCKS, lambda d, b, s: (d, b, [4, 256, 4, 32])))
refused("another limit of the gate", "swiglu_limit", lambda: edit("config.json", swiglu_limit=5.0))
refused("blocks of another kind", "quantised already (FP8)", lambda: edit("config.json", quantization_config={"quant_method": "fp8"}))
refused("infinite blocks", "is not a finite", lambda: rewrite(
    BLOCKS.replace("blocks", "scales"), lambda d, b, s: (d, b"\xff" * len(b), s)))

fresh(models.write, {**models.MODELS["deepseek3"], "files": 1})
KV_B = "model.layers.1.self_attn.kv_b_proj.weight"
refused("latent keys of another shape", "by config.json it is [224, 64]", lambda: rewrite(KV_B, lambda d, b, s: (d, b, s[::-1])))
refused("groups by their best expert", "topk_method", lambda: edit("config.json", topk_method="group_limited_greedy"))
refused("magnitudes that differ", "mscale_all_dim", lambda: edit("config.json", rope_scaling__mscale=0.7))
refused("an odd latent vector", "kv_lora_rank", lambda: edit("config.json", kv_lora_rank=91))
fresh(models.write, models.MODELS["granitehybrid"])
refused("layers of another kind", "attention and mamba are expected", lambda: edit("config.json", layer_types=["linear_attention"] * 4))
refused("heads of another width", "mamba_d_head", lambda: edit("config.json", mamba_d_head=32))
fresh(models.write, models.MODELS["falcon-h1"])
refused("a gate after the norm", "mamba_norm_before_gate", lambda: edit("config.json", mamba_rms_norm=True, mamba_norm_before_gate=True))
fresh(models.write, models.MODELS["nemotron-h"])
refused("a pattern that is too short", "5 letters for 6 layers", lambda: edit("config.json", hybrid_override_pattern="M-M*-"))
refused("a part of another kind", "M, * and either", lambda: edit("config.json", hybrid_override_pattern="M-M*-X"))
fresh(models.write, {**models.MODELS["qwen3moe"], "files": 1})
EXPERT = "model.layers.1.mlp.experts.3.up_proj.weight"
refused("an expert is missing", "layers.1.mlp.experts.3.up_proj.weight' is missing", lambda: rewrite(EXPERT, lambda d, b, s: None))
refused("an expert's shape", "by config.json it is [256, 256]", lambda: rewrite(EXPERT, lambda d, b, s: (d, b, [128, 512])))
refused("an expert's NaN", "experts.3.up_proj.weight': element 0 is not a finite", lambda: rewrite(
    EXPERT, lambda d, b, s: (d, b"\xff\xff" + b[2:], s)))
refused("an expert of another type", "another type than that of expert 0", lambda: rewrite(
    EXPERT, lambda d, b, s: ("F32", b + b, s)))
refused("an expert too many", "by config.json it is [5, 256]", lambda: edit("config.json", num_experts=5))
refused("more experts used than there are", "more than there are", lambda: edit("config.json", num_experts_per_tok=7))
refused("shares of all", "sum to 1", lambda: edit("config.json", norm_topk_prob=False))
refused("dense layers", "in every layer", lambda: edit("config.json", mlp_only_layers=[0]))
fresh(models.write, {**models.MODELS["gemma4"], "files": 1})
refused("all layers' keys shared", "num_kv_shared_layers", lambda: edit("config.json", text_config__num_kv_shared_layers=7))
refused("keys of a kind shared alone", "leaves no layer of one kind", lambda: edit("config.json", text_config__num_kv_shared_layers=4))
refused("rotated more than whole", "partial_rotary_factor", lambda: edit(
    "config.json", text_config__rope_parameters__full_attention__partial_rotary_factor=1.5))
refused("a layer's own embeddings of another width", "by config.json it is", lambda: edit("config.json", text_config__hidden_size_per_layer_input=64))
fresh(models.write, models.MODELS["gemma4-experts"])
refused("more experts used than gemma4 has", "top_k_experts", lambda: edit("config.json", top_k_experts=6))
fresh(models.write, {**models.MODELS["llama4-text"], "files": 1})
refused("another layer without rotation", "no_rope_layers", lambda: edit("config.json", no_rope_layers=[1, 1, 0, 1, 1]))
refused("chunks in every layer", "no_rope_layers", lambda: edit("config.json", layer_types=["chunked_attention"] * 5))
refused("experts in other layers", "moe_layers", lambda: edit("config.json", moe_layers=[0, 2]))
refused("heads that are not normed", "use_qk_norm", lambda: edit("config.json", use_qk_norm=False))
refused("experts that are not transposed", "by config.json it is [5, 256, 192]", lambda: rewrite(
    "model.layers.1.feed_forward.experts.gate_up_proj", lambda d, b, s: (d, b, [5, 192, 256])))
fresh(models.write, {**models.MODELS["bitnet-packed"], "files": 1})
DOWN = "model.layers.1.mlp.down_proj.weight"
refused("no factor", DOWN + "_scale' is missing", lambda: rewrite(DOWN + "_scale", lambda d, b, s: None))
refused("a factor of nothing", "no weights are times that", lambda: rewrite(DOWN + "_scale", lambda d, b, s: (d, b"\0\0", s)))
refused("rows that are not packed", "by config.json it is [64, 512]", lambda: rewrite(DOWN, lambda d, b, s: (d, b, s[::-1])))
refused("floats for packed rows", "U8 with four rows in one", lambda: rewrite(DOWN, lambda d, b, s: ("BF16", b + b, s)))
refused("packed rows for floats", "quantised already", lambda: edit("config.json", quantization_config__quantization_mode="online"))
fresh(encoders.write, encoders.MODELS["nomic-moe"])
refused("shares that sum to 1", "moe_normalize_expert_weights", lambda: edit("config.json", moe_normalize_expert_weights=True))
refused("experts that choose their tokens", "expert_choice_router", lambda: edit("config.json", expert_choice_router=True))
refused("shared experts of nomic", "num_shared_experts", lambda: edit("config.json", num_shared_experts=1))
refused("more experts used than nomic has", "moe_top_k", lambda: edit("config.json", moe_top_k=5))
refused("experts in every layer", "moe_every_n_layers", lambda: edit("config.json", moe_every_n_layers=1))
refused("gated products next to experts", "'swiglu'", lambda: edit("config.json", activation_function="swiglu"))
refused("another number of experts", "by config.json it is [8, 256]", lambda: edit("config.json", num_experts=8))
fresh(models.write, models.MODELS["mamba2"])
refused("steps with limits", "time_step_limit", lambda: edit("config.json", time_step_limit=[0.001, 0.1]))
refused("groups that do not divide heads", "n_groups", lambda: edit("config.json", n_groups=3))
fresh(models.write, {**models.MODELS["gemma3n"], "files": 1})
refused("widths that differ", "intermediate_size", lambda: edit("config.json", text_config__intermediate_size=[512] * 6 + [256]))
refused("shares of too few layers", "activation_sparsity_pattern", lambda: edit("config.json", text_config__activation_sparsity_pattern=[0.95]))
refused("another stream first", "altup_active_idx", lambda: edit("config.json", text_config__altup_active_idx=1))
sys.exit(failed > 0)
