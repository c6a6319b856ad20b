"""BitNet's matrices in numpy: weights of -1, 0 and 1 times the mean size of those that were trained, and how folders store them."""
import numpy as np

PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FIRST = {"attn_sub_norm": "inner_attn_ln", "ffn_sub_norm": "ffn_layernorm"}  # names of the first models


def is_matrix(name):
    return name.split(".")[-2] in PARTS


def mean_of(a):
    return np.float32(np.abs(a.astype(np.float64)).mean())


def signs(a):
    return np.clip(np.round(a * (np.float32(1) / mean_of(a))), -1, 1)


def made(m, w):
    """What the model computes with, and the factors, under names that end in step: keys and values are kept without them."""
    steps = {name.removesuffix("weight") + "step": m.get("scale", mean_of(a)) for name, a in w.items() if is_matrix(name)}
    return {name: signs(a) * steps[name.removesuffix("weight") + "step"] if is_matrix(name) else a for name, a in w.items()} | steps


def stored(m, w):
    """The folder's tensors: as trained, with the first models' names, or four rows in one and a factor."""
    out = {}
    for name, a in w.items():
        for new, old in FIRST.items() if m.get("first") else ():
            name = name.replace(new, old)
        if not m.get("scale") or not is_matrix(name):
            out[name] = a
            continue
        rows = (signs(a) + 1).astype(np.uint8).reshape(4, len(a) // 4, -1)
        out[name] = rows[0] | rows[1] << 2 | rows[2] << 4 | rows[3] << 6
        multiplies = m["config"]["quantization_config"]["linear_class"] == "autobitlinear"
        out[name + "_scale"] = np.array([m["scale"] if multiplies else 1 / m["scale"]], np.float32)
    return out
