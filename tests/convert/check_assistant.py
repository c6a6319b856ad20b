"""A folder of a Gemma 4 assistant: the file has its tensors as they are, what it proposes changes no answer of its model, kentang
quantize keeps it, and what its format cannot say is refused by name. Usage: check_assistant.py KENTANG WORK_FOLDER"""
import json
import os
import subprocess
import sys

import numpy as np

import gguf
import models

kentang, work = sys.argv[1:3]
failed = 0


def check(name, good, detail=""):
    global failed
    failed += not good
    print(f"{'PASS' if good else 'FAIL'} {name}{': ' + str(detail) if detail and not good else ''}")


def run(*args):
    return subprocess.run([kentang, *args], capture_output=True, text=True)


def values(path):
    """{name: f32 values} of a file whose tensors are all F32, and its keys."""
    r = gguf.Reader(path)
    base = r.at + -r.at % 32
    return {name: np.frombuffer(r.data, np.float32, int(np.prod(dims)), base + at) for name, (dims, _, at) in r.tensors.items()}, r.keys


TARGET = models.MODELS["gemma4"]
TYPES = ["sliding_attention"] * 3 + ["full_attention"]
SPEC = {**TARGET, "cls": "Gemma4AssistantForCausalLM", "layers": 4, "files": 1, "rename": None, "nested": None, "drop": ["rope_theta"],
        "config": {**models.GEMMA4, "global_head_dim": 96, "num_kv_shared_layers": 4, "hidden_size_per_layer_input": 0,
                   "final_logit_softcapping": None, "layer_types": TYPES}}
drawn, configured = models.weights, models.config


def weights(m, seed):
    w, d = drawn(m, seed), models.D
    rng = np.random.default_rng(seed)
    for name, shape in (("pre_projection", (d, 2 * d)), ("post_projection", (d, d)), ("masked_embedding.centroids", (8, d))):
        w[name + ".weight"] = models.folders.rounded(rng.normal(0, 1 / d ** 0.5, shape).astype(np.float32), m["dtype"])
    return w


def config(m, n_tokens, host=models.D, **text):
    c = configured({**m, "cls": "Gemma4ForCausalLM"}, n_tokens)
    c = {k: v for k, v in c.items() if k not in ("architectures", "model_type")}
    return {"architectures": [m["cls"]], "model_type": "gemma4_assistant", "backbone_hidden_size": host, "num_centroids": 8,
            "centroid_intermediate_top_k": 2, "use_ordered_embeddings": True, "text_config": {**c, "model_type": "gemma4_text", **text}}


def convert(folder, out):
    return run("convert", folder, out, "--type", "f32")


folder, out, target = (os.path.join(work, name) for name in ("assistant", "assistant.gguf", "assistant-target.gguf"))
models.write(TARGET, folder + "-target")
done = convert(folder + "-target", target)
check("the model", done.returncode == 0, done.stderr)
models.weights, models.config = weights, config
w, n_tokens = models.write(SPEC, folder)
done = convert(folder, out)
check("converted", done.returncode == 0, done.stderr)
have, keys = values(out)
prefix = "gemma4-assistant."
check("its keys", keys["general.architecture"] == "gemma4-assistant" and [keys[prefix + name] for name in (
    "block_count", "nextn_predict_layers", "embedding_length_out", "attention.shared_kv_layers", "attention.key_length",
    "attention.key_length_swa", "attention.sliding_window", "attention.head_count_kv", "attention.sliding_window_pattern")] == [
    4, 4, models.D, 4, 96, 64, 32, [1] * 4, [True] * 3 + [False]], keys)
names = {"nextn.pre_projection": "pre_projection", "nextn.post_projection": "post_projection", "token_embd": "model.embed_tokens",
         "output_norm": "model.norm"}
for i in range(4):
    for to, of in (("attn_norm", "input_layernorm"), ("attn_q", "self_attn.q_proj"), ("attn_q_norm", "self_attn.q_norm"),
                   ("attn_output", "self_attn.o_proj"), ("post_attention_norm", "post_attention_layernorm"),
                   ("ffn_norm", "pre_feedforward_layernorm"), ("ffn_gate", "mlp.gate_proj"), ("ffn_up", "mlp.up_proj"),
                   ("ffn_down", "mlp.down_proj"), ("post_ffw_norm", "post_feedforward_layernorm")):
        names[f"blk.{i}.{to}"] = f"model.layers.{i}.{of}"
wrong = [to for to, of in names.items() if not np.array_equal(have[to + ".weight"], w[of + ".weight"].astype(np.float32).ravel())]
rest = set(have) - {to + ".weight" for to in names}
check("its tensors", not wrong and rest == {"rope_freqs.weight"} | {f"blk.{i}.layer_output_scale.weight" for i in range(4)}, (wrong, rest))


def answer(*how):
    done = run("run", "-m", target, "--raw", "-p", "potatoes", "-n", "60", "--temp", "0.8", "--seed", "3", "--ignore-eos", "--json", *how)
    return json.loads(done.stdout)["text"] if done.returncode == 0 else done.stderr


plain, assisted = answer("--draft-max", "0"), answer("--draft-model", out, "--draft-from", "model")
check("the same bytes", plain == assisted, (plain, assisted))
done = run("run", "-m", out, "-p", "potatoes")
check("it answers nothing alone", done.returncode != 0 and "--draft-model" in done.stderr, done.stderr)
small = os.path.join(work, "assistant-q8_0.gguf")
done = run("quantize", out, small, "q8_0")
check("quantize keeps it", done.returncode == 0 and set(gguf.Reader(small).tensors) == set(have)
      and gguf.Reader(small).tensors["nextn.pre_projection.weight"][1] == 8, done.stderr)
check("and it proposes then", answer("--draft-model", small, "--draft-from", "model") == plain)


def refused(name, says, **text):
    models.folders.write_json(folder, "config.json", config(SPEC, n_tokens, **text))
    done = convert(folder, os.path.join(work, "refused.gguf"))
    check(name, done.returncode != 0 and says in done.stderr, done.stderr)


refused("keys of its own", "num_kv_shared_layers", num_kv_shared_layers=2)
refused("embeddings of each layer", "hidden_size_per_layer_input", hidden_size_per_layer_input=32)
refused("experts", "enable_moe_block", enable_moe_block=True)
refused("wider layers", "use_double_wide_mlp", use_double_wide_mlp=True)
refused("another width of its model", "pre_projection.weight", host=models.D // 2)
models.folders.write_json(folder, "config.json", {k: v for k, v in config(SPEC, n_tokens).items() if k != "backbone_hidden_size"})
check("no width of its model", "backbone_hidden_size" in convert(folder, out).stderr)
sys.exit(failed > 0)
