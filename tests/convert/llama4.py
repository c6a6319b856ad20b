"""Llama 4's text part in numpy: chunks, layers that are not rotated, heads normed without weights, and experts whose matrices the
folder has transposed and whose inputs are weighed."""
import math

import numpy as np

import folders


def has_experts(m, i):
    return (i + 1) % m["config"].get("interleave_moe_layer_step", 1) == 0


def weights(m, d, ff, seed):
    rng, w = np.random.default_rng(seed), {}
    matrix, vector = folders.drawing(rng, 1.0)
    w["model.embed_tokens.weight"] = matrix(m["rows"], d, 2.0)
    for i in range(m["layers"]):
        p, n, width = f"model.layers.{i}.", m["experts"][0], m["ff"]
        w[p + "input_layernorm.weight"], w[p + "post_attention_layernorm.weight"] = vector(d), vector(d)
        for name, rows in (("q", m["heads"]), ("k", m["kv"]), ("v", m["kv"])):
            w[p + f"self_attn.{name}_proj.weight"] = matrix(rows * m["hd"], d, 1.4)
        w[p + "self_attn.o_proj.weight"] = matrix(d, m["heads"] * m["hd"])
        p += "feed_forward."
        if not has_experts(m, i):
            for name, rows, cols in (("gate", ff, d), ("up", ff, d), ("down", d, ff)):
                w[p + f"{name}_proj.weight"] = matrix(rows, cols)
            continue
        w[p + "router.weight"] = matrix(n, d, 2.0)
        w[p + "experts.gate_up_proj"] = matrix(n * d, 2 * width).reshape(n, d, 2 * width)
        w[p + "experts.down_proj"] = matrix(n * width, d).reshape(n, width, d)
        for name, rows, cols in (("gate", width, d), ("up", width, d), ("down", d, width)):
            w[p + f"shared_expert.{name}_proj.weight"] = matrix(rows, cols)
    w["model.norm.weight"] = vector(d)
    if not m["tied"]:
        w["lm_head.weight"] = matrix(m["rows"], d, 3.0)
    return {name: folders.rounded(a, m["dtype"]) for name, a in w.items()}


def rms(x, eps, w=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def frequencies(m):
    inv, rope = m["theta"] ** (-np.arange(0, m["hd"], 2) / m["hd"]), m["rope"]
    if rope is None:
        return inv
    wave = 2 * math.pi / inv  # both factors are alike: nothing is between
    return np.where(wave > rope["original_max_position_embeddings"] / rope["low_freq_factor"], inv / rope["factor"], inv)


def rotate(x, inv):
    """Neighbours are pairs."""
    angle = np.arange(len(x))[:, None, None] * inv
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1).reshape(x.shape)


def attention(m, w, p, x, i):
    n, c, hd, heads, kv = len(x), m["config"], m["hd"], m["heads"], m["kv"]
    q, k, v = (x @ w[p + f"self_attn.{name}_proj.weight"].astype(np.float64).T for name in ("q", "k", "v"))
    q, k, v = q.reshape(n, heads, hd), k.reshape(n, kv, hd), v.reshape(n, kv, hd)
    chunk, pos = c.get("attention_chunk_size", 8192), np.arange(n)
    rotated = chunk is None or (i + 1) % 4 != 0
    if rotated:
        q, k = rotate(q, frequencies(m)), rotate(k, frequencies(m))
        if c.get("use_qk_norm", True):
            q, k = rms(q, m["eps"]), rms(k, m["eps"])
    elif c.get("attn_temperature_tuning", True):
        turns = np.floor((pos + 1) / c.get("floor_scale", 8192))
        q = q * (1 + c.get("attn_scale", 0.1) * np.log(1 + turns))[:, None, None]
    k, v = (np.repeat(y.astype(np.float16).astype(np.float64), heads // kv, 1) for y in (k, v))
    hidden = pos[:, None] < pos[None, :]
    if rotated and chunk:
        hidden = hidden | (pos[None, :] < pos[:, None] // chunk * chunk)
    score = np.where(hidden[None], -np.inf, np.einsum("qhd,khd->hqk", q, k) / math.sqrt(hd))
    prob = np.exp(score - score.max(-1, keepdims=True))
    y = np.einsum("hqk,khd->qhd", prob / prob.sum(-1, keepdims=True), v).reshape(n, heads * hd)
    return y @ w[p + "self_attn.o_proj.weight"].astype(np.float64).T


def glu(x, gate, up, down):
    gate = x @ gate
    return (gate / (1 + np.exp(-gate)) * (x @ up)) @ down


def feed_forward(m, w, p, x, i):
    p += "feed_forward."
    part = "" if not has_experts(m, i) else "shared_expert."
    y = glu(x, *(w[p + f"{part}{name}_proj.weight"].astype(np.float64).T for name in ("gate", "up", "down")))
    if not part:
        return y
    logit = x @ w[p + "router.weight"].astype(np.float64).T
    for t in range(len(x)):
        for e in np.argsort(-logit[t])[:m["experts"][1]]:
            gate, up = np.split(w[p + "experts.gate_up_proj"][e].astype(np.float64), 2, -1)
            y[t] += glu(x[t] / (1 + np.exp(-logit[t][e])), gate, up, w[p + "experts.down_proj"][e].astype(np.float64))
    return y


def logits(m, w, ids):
    h = w["model.embed_tokens.weight"][ids].astype(np.float64)
    for i in range(m["layers"]):
        p = f"model.layers.{i}."
        h = h + attention(m, w, p, rms(h, m["eps"], w[p + "input_layernorm.weight"]), i)
        h = h + feed_forward(m, w, p, rms(h, m["eps"], w[p + "post_attention_layernorm.weight"]), i)
    head = w["model.embed_tokens.weight" if m["tied"] else "lm_head.weight"].astype(np.float64)
    return head @ rms(h, m["eps"], w["model.norm.weight"])[-1]
