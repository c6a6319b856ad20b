"""Models whose experts are chosen by scores with a correction, after some layers without experts, and attention over latent
vectors: weights in the folder's names, and a forward pass in numpy over them, for models.py."""
import math

import numpy as np

import models


def glu_weights(w, p, ff, names, matrix):
    for name, (rows, cols) in zip(names, ((ff, models.D), (ff, models.D), (models.D, ff))):
        w[p + name + ".weight"] = matrix(rows, cols)


def feed_forward_weights(m, w, i, matrix, vector):
    """The feed-forward part of layer i."""
    n, ff, p = m["experts"][0], m["ff"], f"model.layers.{i}."
    if m["kind"] == "granitemoe":
        w[p + "block_sparse_moe.router.layer.weight"] = matrix(n, models.D, 2.0)
        w[p + "block_sparse_moe.input_linear.weight"] = matrix(n * 2 * ff, models.D).reshape(n, 2 * ff, models.D)
        w[p + "block_sparse_moe.output_linear.weight"] = matrix(n * models.D, ff).reshape(n, models.D, ff)
        return
    lfm2 = m["kind"] == "lfm2"
    names = ("w1", "w3", "w2") if lfm2 else ("gate_proj", "up_proj", "down_proj")
    p += "feed_forward." if lfm2 else "mlp."
    if i < m["lead"]:
        return glu_weights(w, p, models.FF, names, matrix)
    w[p + "gate.weight"] = matrix(n, models.D, 2.0)
    bias = {"lfm2": "expert_bias", "erniemoe": "moe_statics.e_score_correction_bias"}.get(m["kind"], "gate.e_score_correction_bias")
    if not m.get("no_bias"):
        w[p + bias] = vector(n, 0.0, 0.05).reshape((1, n) if m["kind"] == "erniemoe" else n)
    for e in range(n):
        glu_weights(w, p + f"experts.{e}.", ff, names, matrix)
    if m.get("n_shared"):
        glu_weights(w, p + "shared_experts.", ff * m["n_shared"], names, matrix)


def latent_weights(m, w, i, matrix, vector):
    c, p, heads = m["config"], f"model.layers.{i}.self_attn.", m["heads"]
    nope, rope, value, rank = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    q = c.get("q_lora_rank")
    if q:
        w[p + "q_a_proj.weight"], w[p + "q_a_layernorm.weight"] = matrix(q, models.D, 1.4), vector(q, 1.0)
    w[p + ("q_b_proj" if q else "q_proj") + ".weight"] = matrix(heads * (nope + rope), q or models.D, 1.4)
    w[p + "kv_a_proj_with_mqa.weight"] = matrix(rank + rope, models.D, 1.4)
    w[p + "kv_a_layernorm.weight"] = vector(rank, 1.0)
    w[p + "kv_b_proj.weight"] = matrix(heads * (nope + value), rank)
    w[p + "o_proj.weight"] = matrix(models.D, heads * value)


# ---- the forward pass ----


def linear(x, w, name):
    return x @ w[name + ".weight"].astype(np.float64).T


def glu(x, w, p, names=("gate_proj", "up_proj", "down_proj")):
    return linear(models.silu(linear(x, w, p + names[0])) * linear(x, w, p + names[1]), w, p + names[2])


def latent_attention(m, w, p, x):
    c, heads, n = m["config"], m["heads"], len(x)
    nope, rope, value, rank = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    p += "self_attn."
    if c.get("q_lora_rank"):
        q = linear(models.rms(linear(x, w, p + "q_a_proj"), w[p + "q_a_layernorm.weight"], m["eps"]), w, p + "q_b_proj")
    else:
        q = linear(x, w, p + "q_proj")
    q = q.reshape(n, heads, nope + rope)
    both = linear(x, w, p + "kv_a_proj_with_mqa")
    latent = models.f16(models.rms(both[:, :rank], w[p + "kv_a_layernorm.weight"], m["eps"]))
    pairs = {**m, "hd": rope, "share": 1.0}
    k_pe = models.f16(models.rotate(both[:, None, rank:], pairs, False))
    q_pe = models.rotate(q[..., nope:], pairs, False)
    kv = linear(latent, w, p + "kv_b_proj").reshape(n, heads, nope + value)
    scale = 1 / math.sqrt(nope + rope)
    if m["rope"]:
        scale *= (0.1 * m["rope"]["mscale_all_dim"] * math.log(m["rope"]["factor"]) + 1) ** 2
    score = (np.einsum("qhd,khd->hqk", q[..., :nope], kv[..., :nope]) + np.einsum("qhd,kd->hqk", q_pe, k_pe[:, 0])) * scale
    score = np.where(np.arange(n)[None, :] > np.arange(n)[:, None], -np.inf, score)
    prob = np.exp(score - score.max(-1, keepdims=True))
    y = np.einsum("hqk,khd->qhd", prob / prob.sum(-1, keepdims=True), kv[..., nope:])
    return linear(y.reshape(n, heads * value), w, p + "o_proj")


def choose(m, share, corrected):
    """The experts of one token, by corrected shares; of the best groups by their best two, where there are groups."""
    n_group, used = m["config"].get("n_group", 1), m["config"].get("topk_group", 1)
    if n_group > 1:
        groups = corrected.reshape(n_group, -1)
        best = np.argsort(-np.sort(groups, -1)[:, -2:].sum(-1))[:used]
        mask = np.full(n_group, -np.inf)
        mask[best] = 0.0
        corrected = (groups + mask[:, None]).reshape(-1)
    return np.argsort(-corrected)[:m["experts"][1]]


def granite_experts(m, w, p, x):
    p += "block_sparse_moe."
    logit, y = linear(x, w, p + "router.layer"), np.zeros_like(x)
    for t in range(len(x)):
        chosen = np.argsort(-logit[t])[:m["experts"][1]]
        share = np.exp(logit[t][chosen] - logit[t][chosen].max())
        for e, s in zip(chosen, share / share.sum()):
            gate, up = np.split(w[p + "input_linear.weight"][e].astype(np.float64) @ x[t], 2)
            y[t] += s * (w[p + "output_linear.weight"][e].astype(np.float64) @ (models.silu(gate) * up))
    return y


def feed_forward(m, w, i, x):
    p, lfm2 = f"model.layers.{i}.", m["kind"] == "lfm2"
    if m["kind"] == "granitemoe":
        return granite_experts(m, w, p, x)
    names = ("w1", "w3", "w2") if lfm2 else ("gate_proj", "up_proj", "down_proj")
    p += "feed_forward." if lfm2 else "mlp."
    if i < m["lead"]:
        return glu(x, w, p, names)
    logit, y = linear(x, w, p + "gate"), np.zeros_like(x)
    if m["scores"] == "sigmoid":
        share = 1 / (1 + np.exp(-logit))
    else:
        share = np.exp(logit - logit.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
    bias = {"lfm2": "expert_bias", "erniemoe": "moe_statics.e_score_correction_bias"}.get(m["kind"], "gate.e_score_correction_bias")
    corrected = share + (w[p + bias].reshape(-1).astype(np.float64) if p + bias in w else 0.0)
    for t in range(len(x)):
        chosen = choose(m, share[t], corrected[t])
        whole = share[t][chosen].sum() if m["config"].get("norm_topk_prob", True) else 1.0
        for e in chosen:
            y[t] += share[t][e] / whole * m["config"].get("routed_scaling_factor", 1.0) * glu(x[t], w, p + f"experts.{e}.", names)
    return y + glu(x, w, p + "shared_experts.", names) if m.get("n_shared") else y
