"""Blocks for multi-token prediction: what folders have after the layers, and the same as the file should have it."""
import numpy as np

import mixtures

# matrices after which a layer's parts are added to what came in
ENDS = ("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj")
INNER = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
         "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
         "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
         "self_attn.k_norm.weight": "attn_k_norm.weight", "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
         "mlp.down_proj.weight": "ffn_down.weight", "mlp.gate.weight": "ffn_gate_inp.weight",
         "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight", "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
         "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight", "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight"}


def is_qwen(m):
    return m["kind"] == "qwen35"


def add(m, w, matrix, vector, hybrid_weights):
    """One more layer with attention, and what is before and after it."""
    n, d = m["layers"], w["model.norm.weight"].size
    p = f"model.layers.{n}."
    if is_qwen(m):
        hybrid_weights({**m, "attends": [n]}, w, n, matrix, vector)
        for name in [name for name in w if name.startswith(p)]:
            w["mtp.layers.0." + name[len(p):]] = w.pop(name)
        w["mtp.fc.weight"] = matrix(d, 2 * d)
        for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
            w[f"mtp.{name}.weight"] = vector(d)
        return
    w[p + "input_layernorm.weight"], w[p + "post_attention_layernorm.weight"] = vector(d, 1.0), vector(d, 1.0)
    mixtures.latent_weights(m, w, n, matrix, vector)
    mixtures.feed_forward_weights(m, w, n, matrix, vector)
    w[p + "eh_proj.weight"] = matrix(d, 2 * d)
    for name in ("enorm", "hnorm", "shared_head.norm"):
        w[f"{p}{name}.weight"] = vector(d, 1.0)
    w[p + "embed_tokens.weight"], w[p + "shared_head.head.weight"] = w["model.embed_tokens.weight"], w["lm_head.weight"]


def agree(m, w):
    """Layers that add nothing, so that a token alone says which is next, and a block that says the same."""
    p, d = f"model.layers.{m['layers']}.", w["model.norm.weight"].size
    for name in w:
        if name.endswith(ENDS):
            w[name] = np.zeros_like(w[name])
    own = ("mtp.fc", "mtp.pre_fc_norm_embedding", "mtp.norm") if is_qwen(m) else (p + "eh_proj", p + "enorm", p + "shared_head.norm")
    w[own[0] + ".weight"] = np.eye(d, 2 * d, dtype=np.float32)
    w[own[1] + ".weight"] = np.zeros(d, np.float32) if is_qwen(m) else np.ones(d, np.float32)
    w[own[2] + ".weight"] = w["model.norm.weight"]


def each_expert(w):
    """A block's experts in tensors of their own, as large folders of Qwen3.5 have them."""
    p = "mtp.layers.0.mlp.experts."
    both, down = w.pop(p + "gate_up_proj"), w.pop(p + "down_proj")
    for e in range(len(both)):
        w[f"{p}{e}.gate_proj.weight"], w[f"{p}{e}.up_proj.weight"] = np.split(both[e], 2)
        w[f"{p}{e}.down_proj.weight"] = down[e]


def expected(m, w):
    """{name in the file: f32 array} of the block of a folder of Qwen3-Next or Qwen3.5; norms are stored with one less."""
    p, out, b = "mtp.layers.0.", {}, f"blk.{m['layers']}."
    for name, to in INNER.items():
        if p + name in w:
            out[b + to] = w[p + name] + (1 if "norm" in name else 0)
    for name, to in (("pre_fc_norm_embedding", "enorm"), ("pre_fc_norm_hidden", "hnorm"), ("norm", "shared_head_norm")):
        out[f"{b}nextn.{to}.weight"] = w[f"mtp.{name}.weight"] + 1
    out[b + "nextn.eh_proj.weight"] = w["mtp.fc.weight"]
    if p + "mlp.experts.gate_up_proj" in w:
        both = w[p + "mlp.experts.gate_up_proj"]
        half = both.shape[1] // 2
        out[b + "ffn_gate_exps.weight"], out[b + "ffn_up_exps.weight"] = both[:, :half], both[:, half:]
        out[b + "ffn_down_exps.weight"] = w[p + "mlp.experts.down_proj"]
    n = sum(name.startswith(p + "mlp.experts.") and name.endswith(".up_proj.weight") for name in w)
    for part in ("gate", "up", "down") if n else ():
        out[b + f"ffn_{part}_exps.weight"] = np.stack([w[f"{p}mlp.experts.{e}.{part}_proj.weight"] for e in range(n)])
    return out
