"""Mamba in numpy: a convolution, a state of each channel, whose steps and what is written and read follow from its inputs, and a gate."""

import numpy as np

import folders


def weights(m, d, seed):
    rng, c, w = np.random.default_rng(seed), m["config"], {}
    inner, n, rank = 2 * d, c["state_size"], d // 16

    matrix, vector = folders.drawing(rng)

    w["model.embeddings.weight"] = matrix(m["rows"], d, 2.0)
    for i in range(m["layers"]):
        p = f"model.layers.{i}."
        w[p + "norm.weight"], p = vector(d, 1.0), p + "mixer."
        w[p + "in_proj.weight"], w[p + "out_proj.weight"] = matrix(2 * inner, d, 1.4), matrix(d, inner)
        w[p + "conv1d.weight"], w[p + "conv1d.bias"] = matrix(inner, 4).reshape(inner, 1, 4), vector(inner)
        w[p + "x_proj.weight"] = matrix(rank + 2 * n, inner)
        w[p + "dt_proj.weight"], w[p + "dt_proj.bias"] = matrix(inner, rank), vector(inner, -1.0, 0.5)
        w[p + "A_log"], w[p + "D"] = vector((inner, n), 0.5, 0.5), vector(inner, 1.0)
    w["model.norm_f.weight"] = vector(d, 1.0)
    return {name: folders.rounded(a, m["dtype"]) for name, a in w.items()}


def linear(x, w, name):
    return x @ w[name + ".weight"].astype(np.float64).T


def silu(x):
    return x / (1 + np.exp(-x))


def mixer(m, w, p, a):
    n, rank = m["config"]["state_size"], a.shape[1] // 16
    x, z = np.split(linear(a, w, p + "in_proj"), 2, -1)
    taps, padded = w[p + "conv1d.weight"][:, 0].astype(np.float64), np.concatenate([np.zeros((3, x.shape[1])), x])
    x = silu(sum(padded[j:j + len(x)] * taps[:, j] for j in range(4)) + w[p + "conv1d.bias"])
    dt, b, c = np.split(linear(x, w, p + "x_proj"), [rank, rank + n], -1)
    step = np.log1p(np.exp(linear(dt, w, p + "dt_proj") + w[p + "dt_proj.bias"]))
    decay, s, y = -np.exp(w[p + "A_log"].astype(np.float64)), np.zeros((x.shape[1], n)), np.zeros_like(x)
    for t in range(len(x)):
        s = np.exp(step[t][:, None] * decay) * s + (step[t] * x[t])[:, None] * b[t]
        y[t] = s @ c[t] + w[p + "D"] * x[t]
    return linear(y * silu(z), w, p + "out_proj")


def logits(m, w, ids):
    """Of the last token."""
    embed = w["model.embeddings.weight"].astype(np.float64)

    def rms(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + m["eps"]) * w[name]

    h = embed[ids]
    for i in range(m["layers"]):
        h = h + mixer(m, w, f"model.layers.{i}.mixer.", rms(h, f"model.layers.{i}.norm.weight"))
    return embed @ rms(h[-1], "model.norm_f.weight")
