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


def mamba_weights(m, w, i, matrix, vector):
    """Mamba-2 or attention, then a shared part and, with experts, those."""
    c, p = m["config"], f"model.layers.{i}."
    heads, n, groups = c["mamba_n_heads"], c["mamba_d_state"], c["mamba_n_groups"]
    inner = c.get("mamba_d_ssm") or c["mamba_expand"] * models.D
    both = m["kind"] == "falconh1"
    second = "pre_ff_layernorm" if both else "post_attention_layernorm"
    w[p + "input_layernorm.weight"], w[p + second + ".weight"] = vector(models.D, 1.0), vector(models.D, 1.0)
    if both or i in m["attends"]:
        for name, rows in (("q", m["heads"] * m["hd"]), ("k", m["kv"] * m["hd"]), ("v", m["kv"] * m["hd"])):
            w[p + f"self_attn.{name}_proj.weight"] = matrix(rows, models.D, 1.4)
        w[p + "self_attn.o_proj.weight"] = matrix(models.D, m["heads"] * m["hd"])
    if both or i not in m["attends"]:
        channels = inner + 2 * groups * n
        w[p + "mamba.in_proj.weight"] = matrix(inner + channels + heads, models.D, 1.4)
        w[p + "mamba.conv1d.weight"] = matrix(channels, 4).reshape(channels, 1, 4)
        w[p + "mamba.conv1d.bias"] = vector(channels)
        w[p + "mamba.A_log"], w[p + "mamba.dt_bias"], w[p + "mamba.D"] = vector(heads, 0.5, 0.5), vector(heads, -1.0, 0.5), vector(heads, 1.0)
        w[p + "mamba.out_proj.weight"] = matrix(models.D, inner)
        if not both:
            w[p + "mamba.norm.weight"] = vector(inner, 1.0)
    if both:
        return glu_weights(w, p + "feed_forward.", models.FF, ("gate_proj", "up_proj", "down_proj"), matrix)
    ff = c["shared_intermediate_size"]
    w[p + "shared_mlp.input_linear.weight"], w[p + "shared_mlp.output_linear.weight"] = matrix(2 * ff, models.D), matrix(models.D, ff)
    if m.get("experts"):
        feed_forward_weights({**m, "kind": "granitemoe"}, w, i, matrix, vector)


def nemotron_weights(m, w, i, matrix, vector):
    """One part a layer, by the pattern's letter, in the names of the class."""
    c, p, part = m["config"], f"model.layers.{i}.", m["config"]["hybrid_override_pattern"][i]
    w[p + "norm.weight"] = vector(models.D, 1.0)
    p += "mixer."
    if part == "M":
        heads, n, groups = c["mamba_num_heads"], c["ssm_state_size"], c["n_groups"]
        inner = heads * c["mamba_head_dim"]
        channels = inner + 2 * groups * n
        w[p + "in_proj.weight"] = matrix(inner + channels + heads, models.D, 1.4)
        w[p + "conv1d.weight"], w[p + "conv1d.bias"] = matrix(channels, 4).reshape(channels, 1, 4), vector(channels)
        w[p + "A_log"], w[p + "dt_bias"], w[p + "D"] = vector(heads, 0.5, 0.5), vector(heads, -1.0, 0.5), vector(heads, 1.0)
        w[p + "norm.weight"], w[p + "out_proj.weight"] = vector(inner, 1.0), matrix(models.D, inner)
    elif part == "*":
        for name, rows in (("q", m["heads"] * m["hd"]), ("k", m["kv"] * m["hd"]), ("v", m["kv"] * m["hd"])):
            w[p + f"{name}_proj.weight"] = matrix(rows, models.D, 1.4)
        w[p + "o_proj.weight"] = matrix(models.D, m["heads"] * m["hd"])
    elif part == "-":
        w[p + "up_proj.weight"], w[p + "down_proj.weight"] = matrix(models.FF, models.D), matrix(models.D, models.FF)
    else:
        n = c["n_routed_experts"]
        w[p + "gate.weight"], w[p + "gate.e_score_correction_bias"] = matrix(n, models.D, 2.0), vector(n, 0.0, 0.05)
        for e in range(n):
            ff = c["moe_intermediate_size"]
            w[p + f"experts.{e}.up_proj.weight"], w[p + f"experts.{e}.down_proj.weight"] = matrix(ff, models.D), matrix(models.D, ff)
        ff = c["moe_shared_expert_intermediate_size"]
        w[p + "shared_experts.up_proj.weight"], w[p + "shared_experts.down_proj.weight"] = matrix(ff, models.D), matrix(models.D, ff)


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


def mamba(m, w, p, x):
    """Mamba-2 (Dao and Gu 2024), position by position."""
    c, p, t_max = m["config"], p + "mamba.", len(x)
    heads, n, groups = c["mamba_n_heads"], c["mamba_d_state"], c["mamba_n_groups"]
    inner = c.get("mamba_d_ssm") or c["mamba_expand"] * models.D
    projected = linear(x * c.get("ssm_in_multiplier", 1.0), w, p + "in_proj")
    sizes = np.cumsum([inner, inner, groups * n, groups * n])
    parts = np.split(projected, sizes, -1)
    projected = np.concatenate([part * by for part, by in zip(parts, c.get("ssm_multipliers", [1.0] * 5))], -1)
    gate, mixed, dt = np.split(projected, [inner, 2 * inner + 2 * groups * n], -1)
    mixed = models.silu(models.over_time(mixed, w[p + "conv1d.weight"]) + w[p + "conv1d.bias"])
    u, b, read = np.split(mixed, [inner, inner + groups * n], -1)
    u = u.reshape(t_max, heads, -1)
    b, read = (np.repeat(y.reshape(t_max, groups, n), heads // groups, 1) for y in (b, read))
    dt = np.log1p(np.exp(dt + w[p + "dt_bias"]))
    decay = np.exp(-dt * np.exp(w[p + "A_log"].astype(np.float64)))
    state, y = np.zeros((heads, u.shape[-1], n)), np.zeros_like(u)
    for t in range(t_max):
        state = state * decay[t][:, None, None] + (dt[t][:, None] * u[t])[..., None] * b[t][:, None, :]
        y[t] = np.einsum("hpn,hn->hp", state, read[t]) + w[p + "D"].astype(np.float64)[:, None] * u[t]
    y = (y.reshape(t_max, inner) * models.silu(gate)).reshape(t_max, groups, -1)
    if p + "norm.weight" not in w:
        return linear(y.reshape(t_max, inner), w, p + "out_proj") * c["ssm_out_multiplier"]
    y = y / np.sqrt((y * y).mean(-1, keepdims=True) + m["eps"])
    return linear(y.reshape(t_max, inner) * w[p + "norm.weight"], w, p + "out_proj")


def mamba_layer(m, w, i, h):
    p, residual = f"model.layers.{i}.", m["scales"][2]
    x = models.rms(h, w[p + "input_layernorm.weight"], m["eps"])
    h = h + residual * (models.attention(m, w, p, x, i) if i in m["attends"] else mamba(m, w, p, x))
    x = models.rms(h, w[p + "post_attention_layernorm.weight"], m["eps"])
    gate, up = np.split(linear(x, w, p + "shared_mlp.input_linear"), 2, -1)
    y = linear(models.silu(gate) * up, w, p + "shared_mlp.output_linear")
    if m.get("experts"):
        y = y + granite_experts(m, w, p, x)
    return h + residual * y


def falcon_layer(m, w, i, h):
    """Attention and Mamba-2 beside each other, with a multiplier for each way in and out."""
    c, p = m["config"], f"model.layers.{i}."
    x = models.rms(h, w[p + "input_layernorm.weight"], m["eps"])
    keys = {name: a * (c["key_multiplier"] if name.endswith("k_proj.weight") else 1.0) for name, a in w.items() if name.startswith(p + "self_attn.")}
    y = models.attention(m, keys, p, x * c["attention_in_multiplier"], i) * c["attention_out_multiplier"]
    h = h + y + mamba(m, w, p, x)
    x = models.rms(h, w[p + "pre_ff_layernorm.weight"], m["eps"])
    p += "feed_forward."
    gate, down = c["mlp_multipliers"]
    return h + linear(models.silu(linear(x, w, p + "gate_proj") * gate) * linear(x, w, p + "up_proj"), w, p + "down_proj") * down


def squared(x, w, p):
    return linear(np.maximum(linear(x, w, p + "up_proj"), 0.0) ** 2, w, p + "down_proj")


def squared_experts(m, w, p, x):
    share, y = 1 / (1 + np.exp(-linear(x, w, p + "gate"))), squared(x, w, p + "shared_experts.")
    corrected = share + w[p + "gate.e_score_correction_bias"].astype(np.float64)
    for t in range(len(x)):
        chosen = np.argsort(-corrected[t])[:m["config"]["num_experts_per_tok"]]
        for e in chosen:
            y[t] += m["config"]["routed_scaling_factor"] * share[t][e] / share[t][chosen].sum() * squared(x[t], w, p + f"experts.{e}.")
    return y


def nemotron_layer(m, w, i, h):
    c, p, part = m["config"], f"model.layers.{i}.", m["config"]["hybrid_override_pattern"][i]
    x = models.rms(h, w[p + "norm.weight"], m["eps"])
    p += "mixer."
    if part == "*":
        return h + models.attention(m, {name.replace("mixer.", "self_attn."): a for name, a in w.items()}, p.replace("mixer.", ""), x, i)
    if part == "M":
        names = {"mamba_n_heads": c["mamba_num_heads"], "mamba_d_state": c["ssm_state_size"], "mamba_n_groups": c["n_groups"],
                 "mamba_d_ssm": c["mamba_num_heads"] * c["mamba_head_dim"]}
        return h + mamba({**m, "config": names}, {name.replace("mixer.", "mamba."): a for name, a in w.items()}, p.replace("mixer.", ""), x)
    return h + (squared(x, w, p) if part == "-" else squared_experts(m, w, p, x))
