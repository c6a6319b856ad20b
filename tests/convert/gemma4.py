"""Gemma 4 in numpy: layers with and without a sliding window have heads of their own, the last ones read the keys and values of
earlier ones, each layer may have an input of its own, and experts stand beside a feed-forward part."""
import math

import numpy as np

import folders


def is_local(m, i):
    types = m["config"].get("layer_types")
    if types:
        return types[i] == "sliding_attention"
    return (i + 1) % 6 != 0 and i + 1 < m["layers"]


def sizes(m, i):
    """Heads of keys, a head's size, whether keys are made here, and whether values are other than they."""
    c = m["config"]
    local, same = is_local(m, i), c.get("attention_k_eq_v", False)
    kv = m["kv"] if local or not same else c["num_global_key_value_heads"]
    own = i < m["layers"] - c.get("num_kv_shared_layers", 0)
    return kv, c["head_dim"] if local else c["global_head_dim"], own, local or not same


def weights(m, d, ff, seed):
    rng, c, w = np.random.default_rng(seed), m["config"], {}

    matrix, vector = folders.drawing(rng, 1.0)

    n_layer, own_width = m["layers"], c["hidden_size_per_layer_input"]
    w["model.embed_tokens.weight"] = matrix(m["rows"], d, 2.0)
    if own_width:
        w["model.embed_tokens_per_layer.weight"] = matrix(m["rows"], n_layer * own_width)
        w["model.per_layer_model_projection.weight"] = matrix(n_layer * own_width, d)
        w["model.per_layer_projection_norm.weight"] = vector(own_width)
    for i in range(n_layer):
        p, (kv, hd, own, values) = f"model.layers.{i}.", sizes(m, i)
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            w[p + name + ".weight"] = vector(d)
        w[p + "self_attn.q_proj.weight"], w[p + "self_attn.q_norm.weight"] = matrix(m["heads"] * hd, d), vector(hd, 0.4)
        if own or i + 1 == n_layer:  # some folders keep matrices that no layer reads
            w[p + "self_attn.k_proj.weight"], w[p + "self_attn.k_norm.weight"] = matrix(kv * hd, d), vector(hd, 0.4)
        if own and values:
            w[p + "self_attn.v_proj.weight"] = matrix(kv * hd, d)
        w[p + "self_attn.o_proj.weight"] = matrix(d, m["heads"] * hd)
        width = ff * (2 if not own and c.get("use_double_wide_mlp") else 1)
        for name, rows, cols in (("gate", width, d), ("up", width, d), ("down", d, width)):
            w[p + f"mlp.{name}_proj.weight"] = matrix(rows, cols)
        w[p + "layer_scalar"] = vector(1, 0.8)
        if own_width:
            w[p + "per_layer_input_gate.weight"], w[p + "per_layer_projection.weight"] = matrix(own_width, d), matrix(d, own_width)
            w[p + "post_per_layer_input_norm.weight"] = vector(d)
        if m.get("experts"):
            n, width = m["experts"][0], m["ff"]
            w[p + "router.proj.weight"], w[p + "router.scale"] = matrix(n, d, 40.0), vector(d)
            w[p + "router.per_expert_scale"] = vector(n)
            w[p + "experts.gate_up_proj"] = matrix(n * 2 * width, d).reshape(n, 2 * width, d)
            w[p + "experts.down_proj"] = matrix(n * d, width).reshape(n, d, width)
            for name in ("post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"):
                w[p + name + ".weight"] = vector(d)
    w["model.norm.weight"] = vector(d)
    return {name: folders.rounded(a, m["dtype"]) for name, a in w.items()}


def rms(x, eps, w=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def rotate(x, hd, theta, share):
    """The first pairs of each head, at the frequencies that they would have if all were rotated."""
    inv = theta ** (-np.arange(0, hd, 2) / hd)
    inv[int(hd * share) // 2:] = 0.0
    angle = np.arange(len(x))[:, None, None] * inv
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def attention(m, w, i, x, kept):
    p, eps, n, local, (kv, hd, own, values) = f"model.layers.{i}.self_attn.", m["eps"], len(x), is_local(m, i), sizes(m, i)
    theta, share = (10000.0, 1.0) if local else (1e6, 0.25)

    def heads(name, count):
        return (x @ w[p + name + "_proj.weight"].astype(np.float64).T).reshape(n, count, hd)

    q = rotate(rms(heads("q", m["heads"]), eps, w[p + "q_norm.weight"]), hd, theta, share)
    if own:
        k = heads("k", kv)
        v = rms(heads("v", kv) if values else k, eps)
        k = rotate(rms(k, eps, w[p + "k_norm.weight"]), hd, theta, share)
        kept[local] = k.astype(np.float16).astype(np.float64), v.astype(np.float16).astype(np.float64)
    k, v = (np.repeat(a, m["heads"] // kv, 1) for a in kept[local])
    back = np.arange(n)[:, None] - np.arange(n)
    hidden = (back < 0) | (local & (back >= m["window"]))
    score = np.where(hidden, -np.inf, np.einsum("qhd,khd->hqk", q, k))
    prob = np.exp(score - score.max(-1, keepdims=True))
    y = np.einsum("hqk,khd->qhd", prob / prob.sum(-1, keepdims=True), v)
    return y.reshape(n, -1) @ w[p + "o_proj.weight"].astype(np.float64).T


def experts(m, w, p, h):
    """Chosen by the state itself, as long as its norm has it, not by what the experts are given."""
    r = rms(h, m["eps"]) / math.sqrt(h.shape[1]) * w[p + "router.scale"]
    logit = r @ w[p + "router.proj.weight"].astype(np.float64).T
    x, y = rms(h, m["eps"], w[p + "pre_feedforward_layernorm_2.weight"]), np.zeros_like(h)
    for t in range(len(h)):
        chosen = np.argsort(-logit[t])[:m["experts"][1]]
        share = np.exp(logit[t][chosen] - logit[t][chosen].max())
        for e, s in zip(chosen, share / share.sum()):
            gate, up = np.split(w[p + "experts.gate_up_proj"][e].astype(np.float64) @ x[t], 2)
            y[t] += s * w[p + "router.per_expert_scale"][e] * (w[p + "experts.down_proj"][e].astype(np.float64) @ (gelu(gate) * up))
    return rms(y, m["eps"], w[p + "post_feedforward_layernorm_2.weight"])


def feed_forward(m, w, p, h):
    x = rms(h, m["eps"], w[p + "pre_feedforward_layernorm.weight"])
    gate, up, down = (w[p + f"mlp.{name}_proj.weight"].astype(np.float64).T for name in ("gate", "up", "down"))
    y = (gelu(x @ gate) * (x @ up)) @ down
    if m.get("experts"):
        y = rms(y, m["eps"], w[p + "post_feedforward_layernorm_1.weight"]) + experts(m, w, p, h)
    return rms(y, m["eps"], w[p + "post_feedforward_layernorm.weight"])


def layer_inputs(m, w, ids, h):
    width, d = m["config"]["hidden_size_per_layer_input"], h.shape[1]
    if not width:
        return None
    own = w["model.embed_tokens_per_layer.weight"][ids].astype(np.float64).reshape(len(ids), -1, width) * math.sqrt(width)
    made = (h @ w["model.per_layer_model_projection.weight"].astype(np.float64).T / math.sqrt(d)).reshape(len(ids), -1, width)
    return (rms(made, m["eps"], w["model.per_layer_projection_norm.weight"]) + own) * math.sqrt(0.5)


def logits(m, w, ids):
    """Of the last token."""
    embed = w["model.embed_tokens.weight"].astype(np.float64)
    h, eps, kept = embed[ids] * math.sqrt(embed.shape[1]), m["eps"], {}
    inputs = layer_inputs(m, w, ids, h)
    for i in range(m["layers"]):
        p = f"model.layers.{i}."
        y = attention(m, w, i, rms(h, eps, w[p + "input_layernorm.weight"]), kept)
        h = h + rms(y, eps, w[p + "post_attention_layernorm.weight"])
        h = h + feed_forward(m, w, p, h)
        if inputs is not None:
            y = gelu(h @ w[p + "per_layer_input_gate.weight"].astype(np.float64).T) * inputs[:, i]
            h = h + rms(y @ w[p + "per_layer_projection.weight"].astype(np.float64).T, eps, w[p + "post_per_layer_input_norm.weight"])
        h = h * w[p + "layer_scalar"].astype(np.float64)
    out = embed @ rms(h[-1], eps, w["model.norm.weight"])
    cap = m["config"]["final_logit_softcapping"]
    return cap * np.tanh(out / cap)
