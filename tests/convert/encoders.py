"""Tiny embedding models and rerankers of every class that can be converted, and their forward passes in numpy."""
import math
import os

import numpy as np

import folders
import models

D, FF, LAYERS, HEADS = 256, 512, 2, 8


def spec(cls, kind, **more):
    base = {"cls": cls, "kind": kind, "pooling": "mean", "labels": 0, "config": {}, "drop": [], "types": 2, "dense": False,
            "prefix": "", "ctx": 128, "tokenizer": {}, "dtype": "F32"}
    return {**base, **more}


MODELS = {
    "bert": spec("BertModel", "bert", config={"hidden_act": "gelu", "position_embedding_type": "absolute"}, pooler=True,
                 drop=["type_vocab_size"]),
    "bert-cls": spec("BertModel", "bert", pooling="cls", prefix="bert.", dtype="F16", drop=["layer_norm_eps"], pooler=True,
                     tokenizer={"lowercase": False, "bert": True}),
    "bert-dense": spec("BertModel", "bert", pooling="cls", dense="one", dtype="F32", pooler=True),
    "cross-encoder": spec("BertForSequenceClassification", "bert", prefix="bert.", pooling=None, labels=1, pooler=True,
                          config={"id2label": {"0": "LABEL_0"}}),
    "xlm-roberta": spec("XLMRobertaModel", "xlmr", types=1, pooler=True, tokenizer={"split": True}),
    "xlm-joined": spec("XLMRobertaModel", "xlmr", types=1, pooling="cls", tokenizer={"split": False}),
    "xlm-reranker": spec("XLMRobertaForSequenceClassification", "xlmr", types=1, prefix="roberta.", pooling=None, labels=3,
                         config={"id2label": {"0": "yes", "1": "no", "2": "maybe"}}, tokenizer={"split": True}),
    "roberta": spec("RobertaModel", "xlmr", types=1, pooling="mean", bpe=True, dtype="F32", config={"model_type": "roberta"}),
    "modern": spec("ModernBertModel", "modern", modern=True, layers=4, pooling="cls", ctx=256, config={
        "hidden_size": D, "intermediate_size": FF, "num_hidden_layers": 4, "num_attention_heads": HEADS, "max_position_embeddings": 256,
        "hidden_activation": "gelu", "norm_eps": 1e-5, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "local_attention": 32,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "norm_bias": False,
        "attention_bias": False, "mlp_bias": False, "classifier_pooling": "mean", "decoder_bias": True}),
    "nomic": spec("NomicBertModel", "nomic", ctx=256, config={
        "n_embd": D, "n_head": HEADS, "n_layer": LAYERS, "n_inner": FF, "n_positions": 256, "layer_norm_epsilon": 1e-12,
        "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "activation_function": "swiglu", "prenorm": False, "causal": False, "qkv_proj_bias": False, "use_rms_norm": False}),
    "nomic-moe": spec("NomicBertModel", "nomic", ctx=256, types=1, experts=4, layers=4, tokenizer={"split": True}, config={
        "n_embd": D, "n_head": HEADS, "n_layer": 4, "n_inner": FF, "n_positions": 2048, "max_trained_positions": 2048,
        "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None, "activation_function": "gelu", "prenorm": False, "causal": False, "qkv_proj_bias": True,
        "mlp_fc1_bias": True, "mlp_fc2_bias": True, "use_rms_norm": False, "moe_every_n_layers": 2, "moe_top_k": 2,
        "num_experts": 4, "num_shared_experts": 0, "moe_normalize_expert_weights": False, "expert_choice_router": False,
        "ffn_div": 1.0, "pad_token_id": 1}),
}
GEMMA = models.spec("Gemma3TextModel", "gemma3", hd=64, heads=4, kv=1, tied=True, window=17, theta=1e6, layers=7,
                    spm=(models.G, False, {"json"}), drop=["tie_word_embeddings"],
                    config={"head_dim": 64, "sliding_window": 32, "query_pre_attn_scalar": 64, "_sliding_window_pattern": 6,
                            "rope_local_base_freq": 10000, "hidden_activation": "gelu_pytorch_tanh",
                            "use_bidirectional_attention": True})
QWEN = models.spec("Qwen3ForCausalLM", "qwen3", hd=64, heads=4, pre="qwen2", tied=True, dtype="F32", drop=["rms_norm_eps"],
                   config={"head_dim": 64})
DECODERS = {
    "gemma-embedding": {**GEMMA, "dense": True, "pooling": "mean", "headless": True, "dtype": "F32"},
    "qwen3-embedding": {**QWEN, "pooling": "lasttoken"},
    "qwen3-headless": {**QWEN, "cls": "Qwen3Model", "pooling": "lasttoken", "headless": True},
    "qwen3-reranker": {**QWEN, "compares": (37, 41), "pooling": None},
    "qwen3-classifier": {**QWEN, "cls": "Qwen3ForSequenceClassification", "labels": 2, "pooling": None},
}


# ---- writing ----


def layer_norm_names(kind):
    return ("attention.output.LayerNorm", "output.LayerNorm") if kind != "nomic" else ("norm1", "norm2")


def moe_parts(layer):
    """Matrices with biases: odd layers have experts instead of their second half."""
    dense = {"mlp.fc1": (FF, D), "mlp.fc2": (D, FF)}
    return {"attn.Wqkv": (3 * D, D), "attn.out_proj": (D, D), **(dense if layer % 2 == 0 else {})}


def modern_weights(m, rows, rng):
    def matrix(n_rows, n_cols, gain=1.4):
        return (rng.standard_normal((n_rows, n_cols)) * gain / math.sqrt(n_cols)).astype(np.float32)

    def norm():
        return (1.0 + rng.standard_normal(D) * 0.1).astype(np.float32)

    w = {"embeddings.tok_embeddings.weight": matrix(rows, D, 8.0), "embeddings.norm.weight": norm(), "final_norm.weight": norm()}
    for i in range(m["layers"]):
        p = f"layers.{i}."
        if i > 0:
            w[p + "attn_norm.weight"] = norm()
        w.update({p + "attn.Wqkv.weight": matrix(3 * D, D), p + "attn.Wo.weight": matrix(D, D), p + "mlp_norm.weight": norm(),
                  p + "mlp.Wi.weight": matrix(2 * FF, D), p + "mlp.Wo.weight": matrix(D, FF)})
    return w


def weights(m, rows, seed):
    rng = np.random.default_rng(seed)
    if m.get("modern"):
        return {name: folders.rounded(a, m["dtype"]) for name, a in modern_weights(m, rows, rng).items()}

    matrix, vector = folders.drawing(rng)

    def norm(name):
        return {name + ".weight": vector(D, 1.0), name + ".bias": vector(D)}

    nomic = m["kind"] == "nomic"
    w = {"embeddings.word_embeddings.weight": matrix(rows, D, 8.0)}
    if not nomic:
        positions = m["ctx"] + (2 if m["kind"] == "xlmr" else 0)
        w["embeddings.position_embeddings.weight"] = matrix(positions, D, 4.0)
    w["embeddings.token_type_embeddings.weight"] = matrix(m["types"], D, 4.0)
    w.update(norm("emb_ln" if nomic else "embeddings.LayerNorm"))
    for i in range(m.get("layers", LAYERS)):
        p = f"encoder.layer{'s' if nomic else ''}.{i}."
        parts = moe_parts(i) if m.get("experts") else {"attn.Wqkv": (3 * D, D), "attn.out_proj": (D, D), "mlp.fc11": (FF, D), "mlp.fc12": (FF, D),
                 "mlp.fc2": (D, FF)} if nomic else {
            "attention.self.query": (D, D), "attention.self.key": (D, D), "attention.self.value": (D, D),
            "attention.output.dense": (D, D), "intermediate.dense": (FF, D), "output.dense": (D, FF)}
        for name, shape in parts.items():
            w[p + name + ".weight"] = matrix(*shape, 1.4)
            if not nomic or m.get("experts"):
                w[p + name + ".bias"] = vector(shape[0])
        if m.get("experts") and i % 2 == 1:
            w[p + "mlp.router.layer.weight"] = matrix(m["experts"], D, 4.0)
            for name in ("w1", "w2"):  # an expert's second matrix is stored transposed
                w[p + "mlp.experts.mlp." + name] = matrix(m["experts"] * FF, D, 1.4)
            w[p + "mlp.experts.bias"] = vector(D)
        for name in layer_norm_names(m["kind"]):
            w.update(norm(p + name))
    w = {m["prefix"] + name: a for name, a in w.items()}
    if m.get("pooler"):
        w[m["prefix"] + "pooler.dense.weight"], w[m["prefix"] + "pooler.dense.bias"] = matrix(D, D), vector(D)
    if m["labels"]:
        name = "classifier.out_proj" if m["kind"] == "xlmr" else "classifier"
        if m["kind"] == "xlmr":
            w["classifier.dense.weight"], w["classifier.dense.bias"] = matrix(D, D), vector(D)
        w[name + ".weight"], w[name + ".bias"] = matrix(m["labels"], D, 2.0), vector(m["labels"])
    return {name: folders.rounded(a, m["dtype"]) for name, a in w.items()}


def write_modules(folder, m):
    kinds = [("", "Transformer", None)]
    if m["pooling"]:
        flags = {"mean": "mean_tokens", "cls": "cls_token", "lasttoken": "lasttoken"}
        kinds.append(("1_Pooling", "Pooling", {"word_embedding_dimension": D, **{
            f"pooling_mode_{flag}": name == m["pooling"] for name, flag in flags.items()}}))
    if m.get("compares"):
        kinds.append(("1_LogitScore", "LogitScore", {"true_token_id": m["compares"][0], "false_token_id": m["compares"][1]}))
    made = {}
    if m.get("dense"):
        rng = np.random.default_rng(3)
        for i, (rows, cols) in enumerate([(D, D)] if m["dense"] == "one" else [(4 * D, D), (D, 4 * D)]):
            made[f"{i + 2}_Dense"] = {"linear.weight": (rng.standard_normal((rows, cols)) / math.sqrt(cols)).astype(np.float32)}
            if m["dense"] == "one":
                made[f"{i + 2}_Dense"]["linear.bias"] = rng.standard_normal(rows).astype(np.float32)
            kinds.append((f"{i + 2}_Dense", "Dense", {"in_features": cols, "out_features": rows, "bias": m["dense"] == "one",
                                                     "activation_function": "torch.nn.modules.linear.Identity"}))
        kinds.append(("4_Normalize", "Normalize", {}))
    folders.write_json(folder, "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
        for i, (path, kind, _) in enumerate(kinds)])
    for path, _, config in kinds[1:]:
        os.makedirs(os.path.join(folder, path), exist_ok=True)
        folders.write_json(os.path.join(folder, path), "config.json", config)
        if path in made:
            folders.write_weights(os.path.join(folder, path), made[path], "F32")
    return made


def write(m, folder):
    """An encoder's folder; returns its weights, the number of tokens, and the dense layers."""
    os.makedirs(folder, exist_ok=True)
    if m.get("bpe") or m.get("modern"):
        n = folders.write_roberta(folder)
    elif m["kind"] == "xlmr" or m.get("experts"):
        n = folders.write_unigram(folder, **m["tokenizer"])
    else:
        n = folders.write_wordpiece(folder, **m["tokenizer"])
    rows = (n + 63) // 64 * 64
    w = weights(m, rows, 1)
    folders.write_weights(folder, w, m["dtype"])
    types = {"bert": "bert", "xlmr": "xlm-roberta", "nomic": "nomic_bert", "modern": "modernbert"}
    c = {"architectures": [m["cls"]], "model_type": types[m["kind"]], "vocab_size": rows, "type_vocab_size": m["types"],
         **m["config"]}
    if m.get("modern"):
        del c["type_vocab_size"]
    elif m["kind"] != "nomic":
        c = {"hidden_size": D, "intermediate_size": FF, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
             "max_position_embeddings": m["ctx"] + (2 if m["kind"] == "xlmr" else 0), "layer_norm_eps": 1e-12, **c}
    for name in m["drop"]:
        c.pop(name, None)
    folders.write_json(folder, "config.json", c)
    made = write_modules(folder, m) if m["pooling"] else {}
    return w, n, made


def write_decoder(m, folder):
    w, n = models.write(m, folder)
    stored = dict(w)
    if m.get("labels"):
        rng = np.random.default_rng(5)
        w["score.weight"] = stored["score.weight"] = rng.standard_normal((m["labels"], D)).astype(np.float32)
    if m.get("headless"):
        stored = {name.removeprefix("model."): a for name, a in stored.items()}
    folders.write_weights(folder, stored, m["dtype"])
    return w, n, write_modules(folder, m)


# ---- forward passes ----


def layer_norm(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * w[name + ".weight"] + w[name + ".bias"]


def turned(x, theta):
    n, half = x.shape[0], x.shape[-1] // 2
    angle = np.arange(n)[:, None] * theta ** (-np.arange(half) / half)[None, :]
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def gelu(x):
    """By its tanh form, as readers of GGUF compute it."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def modern_states(m, w, ids):
    """ModernBERT: the first layer has no norm of its own; every third layer, from the first on, sees the whole text."""
    w = {name: a.astype(np.float64) for name, a in w.items()}
    eps, window, n = m["config"]["norm_eps"], m["config"]["local_attention"], len(ids)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + ".weight"]

    h = norm(w["embeddings.tok_embeddings.weight"][ids], "embeddings.norm")
    apart = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    for i in range(m["layers"]):
        p, local = f"layers.{i}.", i % 3 != 0
        x = norm(h, p + "attn_norm") if i else h
        q, k, v = (a.reshape(n, HEADS, D // HEADS) for a in np.split(x @ w[p + "attn.Wqkv.weight"].T, 3, -1))
        theta = m["config"]["local_rope_theta" if local else "global_rope_theta"]
        q, k, v = turned(q, theta), models.f16(turned(k, theta)), models.f16(v)
        score = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(D // HEADS)
        if local:
            score = np.where(apart[None] <= window // 2, score, -np.inf)
        prob = np.exp(score - score.max(-1, keepdims=True))
        prob /= prob.sum(-1, keepdims=True)
        h = h + np.einsum("hqk,khd->qhd", prob, v).reshape(n, D) @ w[p + "attn.Wo.weight"].T
        gate, up = np.split(norm(h, p + "mlp_norm") @ w[p + "mlp.Wi.weight"].T, 2, -1)
        h = h + (gelu(gate) * up) @ w[p + "mlp.Wo.weight"].T
    return norm(h, "final_norm")


def of_experts(x, w, p, n_used):
    """Shares are of the softmax over all experts; the bias after them has no place in GGUF."""
    score = x @ w[p + "mlp.router.layer.weight"].T
    share = np.exp(score - score.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    y = np.zeros_like(x)
    for t, row in enumerate(share):
        for e in np.argsort(-row)[:n_used]:
            rows = slice(e * FF, (e + 1) * FF)
            y[t] += row[e] * (gelu(x[t] @ w[p + "mlp.experts.mlp.w1"][rows].T) @ w[p + "mlp.experts.mlp.w2"][rows])
    return y


def states(m, w, ids, types):
    if m.get("modern"):
        return modern_states(m, w, ids)
    p0, kind = m["prefix"], m["kind"]
    w = {name.removeprefix(p0): a.astype(np.float64) for name, a in w.items()}

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    h = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types]
    if kind != "nomic":
        first = 2 if kind == "xlmr" else 0
        h = h + w["embeddings.position_embeddings.weight"][np.arange(len(ids)) + first]
    h = layer_norm(h, w, "emb_ln" if kind == "nomic" else "embeddings.LayerNorm")
    for i in range(m.get("layers", LAYERS)):
        p = f"encoder.layer{'s' if kind == 'nomic' else ''}.{i}."
        if kind == "nomic":
            q, k, v = np.split(linear(h, p + "attn.Wqkv"), 3, -1)
        else:
            q, k, v = (linear(h, p + "attention.self." + part) for part in ("query", "key", "value"))
        q, k, v = (a.reshape(len(ids), HEADS, D // HEADS) for a in (q, k, v))
        if kind == "nomic":
            q, k = turned(q, 1000.0), turned(k, 1000.0)
        k, v = models.f16(k), models.f16(v)
        score = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(D // HEADS)
        prob = np.exp(score - score.max(-1, keepdims=True))
        prob /= prob.sum(-1, keepdims=True)
        y = np.einsum("hqk,khd->qhd", prob, v).reshape(len(ids), D)
        norm1, norm2 = layer_norm_names(kind)
        h = layer_norm(h + linear(y, p + ("attn.out_proj" if kind == "nomic" else "attention.output.dense")), w, p + norm1)
        if m.get("experts") and i % 2 == 1:
            y = of_experts(h, w, p, m["config"]["moe_top_k"])
        elif m.get("experts"):
            y = linear(gelu(linear(h, p + "mlp.fc1")), p + "mlp.fc2")
        elif kind == "nomic":
            gate = linear(h, p + "mlp.fc12")
            y = linear(linear(h, p + "mlp.fc11") * gate / (1 + np.exp(-gate)), p + "mlp.fc2")
        else:
            y = linear(gelu(linear(h, p + "intermediate.dense")), p + "output.dense")
        h = layer_norm(h + y, w, p + norm2)
    return h


def decoder_states(m, w, ids):
    """After the last norm; gemma attends in both directions, within its window on either side."""
    return models.states(m, w, ids, m["kind"] == "gemma3")


def pooled(m, h):
    return {"mean": h.mean(0), "cls": h[0], "lasttoken": h[-1]}[m["pooling"]]


def embedding(m, w, made, ids):
    h = decoder_states(m, w, ids) if m["cls"][0] in "QG" else states(m, w, ids, np.zeros(len(ids), int))
    x = pooled(m, h)
    for name in sorted(made):
        x = made[name]["linear.weight"].astype(np.float64) @ x + made[name].get("linear.bias", 0.0)
    return x / np.linalg.norm(x)
