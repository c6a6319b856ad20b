"""Gemma 3n in numpy: four residual streams, of which layers compute with the first, a low-rank part besides attention, gates that count
where they stand out, embeddings of each layer's own, and last layers that read earlier ones' keys and values."""
import math

import numpy as np

import folders
from gemma4 import gelu, rms, rotate

STREAMS, LOW = 4, 16
CUT = 1.6448536269514722  # 0.95 of the normal distribution is below


def weights(m, d, ff, seed):
    rng, c, w = np.random.default_rng(seed), m["config"], {}

    matrix, vector = folders.drawing(rng, 1.0)

    width, n_layer, hd = c["hidden_size_per_layer_input"], m["layers"], c["head_dim"]
    w["model.embed_tokens.weight"] = matrix(m["rows"], d, 2.0)
    w["model.embed_tokens_per_layer.weight"] = matrix(c["vocab_size_per_layer_input"], n_layer * width)
    w["model.per_layer_model_projection.weight"], w["model.per_layer_projection_norm.weight"] = matrix(n_layer * width, d), vector(width)
    for i in range(STREAMS - 1):
        w[f"model.altup_projections.{i}.weight"], w[f"model.altup_unembed_projections.{i}.weight"] = matrix(d, d), matrix(d, d)
    for i in range(n_layer):
        p = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
                     "post_per_layer_input_norm", "laurel.post_laurel_norm"):
            w[p + name + ".weight"] = vector(d)
        for name, n in (("q", m["heads"]), ("k", m["kv"]), ("v", m["kv"])):
            w[p + f"self_attn.{name}_proj.weight"] = matrix(n * hd, d)
        w[p + "self_attn.q_norm.weight"], w[p + "self_attn.k_norm.weight"] = vector(hd, 0.4), vector(hd, 0.4)
        w[p + "self_attn.o_proj.weight"] = matrix(d, m["heads"] * hd)
        for name, rows, cols in (("gate", ff, d), ("up", ff, d), ("down", d, ff)):
            w[p + f"mlp.{name}_proj.weight"] = matrix(rows, cols)
        w[p + "altup.router_norm.weight"], w[p + "altup.modality_router.weight"] = vector(d, d, 0.1 * d), matrix(STREAMS, d)
        w[p + "altup.prediction_coefs.weight"] = matrix(STREAMS * STREAMS, STREAMS, 0.06)
        w[p + "altup.correction_coefs.weight"] = matrix(STREAMS, STREAMS, 0.2)
        w[p + "altup.correct_output_scale"] = vector(d)
        w[p + "laurel.linear_left.weight"], w[p + "laurel.linear_right.weight"] = matrix(LOW, d), matrix(d, LOW)
        w[p + "per_layer_input_gate.weight"], w[p + "per_layer_projection.weight"] = matrix(width, d), matrix(d, width)
    w["model.norm.weight"] = vector(d)
    return {name: folders.rounded(a, m["dtype"]) for name, a in w.items()}


def linear(x, w, name):
    return x @ w[name + ".weight"].astype(np.float64).T


def attention(m, w, i, x, kept):
    c, p, n, hd = m["config"], f"model.layers.{i}.self_attn.", len(x), m["config"]["head_dim"]
    local = c["layer_types"][i] == "sliding_attention"
    theta = 10000.0 if local else 1e6
    q = rotate(rms(linear(x, w, p + "q_proj").reshape(n, -1, hd), m["eps"], w[p + "q_norm.weight"]), hd, theta, 1.0)
    if i < m["layers"] - c["num_kv_shared_layers"]:
        k = rotate(rms(linear(x, w, p + "k_proj").reshape(n, -1, hd), m["eps"], w[p + "k_norm.weight"]), hd, theta, 1.0)
        v = rms(linear(x, w, p + "v_proj").reshape(n, -1, hd), m["eps"])
        kept[local] = k.astype(np.float16).astype(np.float64), v.astype(np.float16).astype(np.float64)
    k, v = (np.repeat(a, m["heads"] // m["kv"], 1) for a in kept[local])
    back = np.arange(n)[:, None] - np.arange(n)
    score = np.where((back < 0) | (local & (back >= m["window"])), -np.inf, np.einsum("qhd,khd->hqk", q, k))
    prob = np.exp(score - score.max(-1, keepdims=True))
    return linear(np.einsum("qhk,khd->qhd", (prob / prob.sum(-1, keepdims=True)).transpose(1, 0, 2), v).reshape(n, -1), w, p + "o_proj")


def like(x, y):
    """y, as long as x."""
    return y * np.sqrt((x * x).sum(-1, keepdims=True) / (y * y).sum(-1, keepdims=True))


def routes(m, w, p, x):
    return np.tanh(linear(rms(x, m["eps"], w[p + "router_norm.weight"]) / x.shape[1], w, p + "modality_router"))


def feed_forward(m, w, i, x):
    p = f"model.layers.{i}.mlp."
    gate = linear(x, w, p + "gate_proj")
    if m["config"]["activation_sparsity_pattern"][i]:
        gate = np.maximum(gate - gate.mean(-1, keepdims=True) - CUT * gate.std(-1, ddof=1, keepdims=True), 0)
    return linear(gelu(gate) * linear(x, w, p + "up_proj"), w, p + "down_proj")


def layer(m, w, i, s, own, kept):
    p, eps = f"model.layers.{i}.", m["eps"]
    factors = linear(routes(m, w, p + "altup.", s[0]), w, p + "altup.prediction_coefs").reshape(-1, STREAMS, STREAMS)
    s = s + np.einsum("nok,knd->ond", factors, s)
    a = rms(s[0], eps, w[p + "input_layernorm.weight"])
    low = a + rms(linear(linear(a, w, p + "laurel.linear_left"), w, p + "laurel.linear_right"), eps, w[p + "laurel.post_laurel_norm.weight"])
    h = s[0] + rms(attention(m, w, i, a, kept), eps, w[p + "post_attention_layernorm.weight"])
    h = (h + low) * math.sqrt(0.5)
    y = feed_forward(m, w, i, rms(h, eps, w[p + "pre_feedforward_layernorm.weight"]))
    h = h + rms(y, eps, w[p + "post_feedforward_layernorm.weight"])
    factors = linear(routes(m, w, p + "altup.", h), w, p + "altup.correction_coefs") + 1
    s = s + (h - s[0]) * factors.T[..., None]
    y = gelu(linear(s[0] * w[p + "altup.correct_output_scale"], w, p + "per_layer_input_gate")) * own[:, i]
    s[1:] += rms(linear(y, w, p + "per_layer_projection"), eps, w[p + "post_per_layer_input_norm.weight"])
    return s


def logits(m, w, ids):
    """Of the last token."""
    embed = w["model.embed_tokens.weight"].astype(np.float64)
    width, d, kept = m["config"]["hidden_size_per_layer_input"], embed.shape[1], {}
    h = embed[ids] * math.sqrt(d)
    table = w["model.embed_tokens_per_layer.weight"][ids].astype(np.float64).reshape(len(ids), -1, width) * math.sqrt(width)
    made = (linear(h, w, "model.per_layer_model_projection") / math.sqrt(d)).reshape(len(ids), -1, width)
    own = (rms(made, m["eps"], w["model.per_layer_projection_norm.weight"]) + table) * math.sqrt(0.5)
    s = np.stack([h] + [like(h, linear(h, w, f"model.altup_projections.{i}")) for i in range(STREAMS - 1)])
    for i in range(m["layers"]):
        s = layer(m, w, i, s, own, kept)
    h = (s[0] + sum(like(s[0], linear(s[i + 1], w, f"model.altup_unembed_projections.{i}")) for i in range(STREAMS - 1))) / STREAMS
    return 30 * np.tanh(embed @ rms(h[-1], m["eps"], w["model.norm.weight"]) / 30)
