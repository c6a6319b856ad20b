"""How much of an answer's distance in Q8_0 is the choice of experts, and who is right.

    KT_PEER_DIR=DIR /usr/bin/python3 tests/peer/choices.py BUILD_DIR [--seed N] [PRESET...]

DIR: an installed copy of ../shared/peer. The same weights are decoded to F32: what kentang answers with those is the reference,
of which llama.cpp is within 1e-5. `kentang` is linked with tests/peer/experts.c, which tells the experts of every token and
layer, and makes a run take those of another. Printed: the share of tokens and layers whose experts are others than the reference's; mean
divergences of kentang, of kentang with the reference's experts (its rounding alone), of the reference with kentang's experts (the choice alone), of
kentang with --exact (activations in F32), of llama.cpp, and of llama.cpp from kentang; clear best tokens (0.5 before the next) of each. Of deepseek2 the
reference is also compared with numpy in f64."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(root, "tests/convert"))
import gguf  # noqa: E402

PRESETS = ["tiny-deepseek2", "tiny-gpt-oss", "tiny-lfm2moe", "tiny-qwen35moe", "tiny-qwen3moe", "tiny-llama4"]
VOCAB = 2000


def sequences(vocab):
    """Those of models.mjs."""
    seed, out = 5, []
    for n in (1, 2, 7, 15, 16, 17, 31, 33, 48, 64, 66, 100, 130, 200, 257, 300):
        ids = []
        for _ in range(n):
            seed = (seed * 1664525 + 1013904223) % 2**32
            ids.append((seed >> 8) % vocab)
        out.append(ids)
    return out


def rows(argv, lines, **env):
    done = subprocess.run(argv, input="".join(json.dumps(ids) + "\n" for ids in lines), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, cwd=env.pop("cwd", None), env={**os.environ, **env})
    return [np.array(json.loads(line)["logits"]) for line in done.stdout.splitlines()]


def log_shares(x):
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def distance(want, got):
    """Mean divergence over the sequences."""
    return np.mean([(np.exp(p) * (p - q)).sum() for p, q in ((log_shares(a), log_shares(b)) for a, b in zip(want, got))])


def clear(want, got):
    tops = [np.sort(a)[-2:] for a in want]
    sure = [i for i, (second, first) in enumerate(tops) if first - second > 0.5]
    return f"{sum(want[i].argmax() == got[i].argmax() for i in sure)}/{len(sure)}"


# ---- deepseek2 in f64 ----


def tensors_of(path):
    r = gguf.Reader(path)
    out = {}
    base = (r.at + 31) // 32 * 32
    for name, (dims, kind, at) in r.tensors.items():
        assert kind == 0, f"{name} is not F32"
        out[name] = np.frombuffer(r.data, np.float32, int(np.prod(dims)), base + at).astype(np.float64).reshape(dims[::-1])
    return r.keys, out


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, base):
    """Neighbours are pairs; positions are the first axis."""
    n = x.shape[-1]
    angle = np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1)) * base ** (-np.arange(0, n, 2) / n)
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1).reshape(x.shape)


def latent_attention(k, w, p, x):
    eps, heads, rank = k["attention.layer_norm_rms_epsilon"], k["attention.head_count"], k["attention.kv_lora_rank"]
    size, rot, n = k["attention.key_length_mla"], k["rope.dimension_count"], len(x)
    q = rms(x @ w[p + "attn_q_a.weight"].T, w[p + "attn_q_a_norm.weight"], eps) @ w[p + "attn_q_b.weight"].T
    q = q.reshape(n, heads, size)
    both = x @ w[p + "attn_kv_a_mqa.weight"].T
    c, k_pe = rms(both[:, :rank], w[p + "attn_kv_a_norm.weight"], eps), rotate(both[:, rank:], k["rope.freq_base"])
    q_pe = rotate(q[..., size - rot:], k["rope.freq_base"])
    score = np.einsum("thn,hrn->thr", q[..., :size - rot], w[p + "attn_k_b.weight"]) @ c.T + q_pe @ k_pe.T
    score = score.transpose(1, 0, 2)
    score = np.where(np.tri(n, dtype=bool), score / np.sqrt(size), -np.inf)
    share = np.exp(score - score.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    out = np.einsum("htr,hvr->thv", share @ c, w[p + "attn_v_b.weight"]).reshape(n, -1)
    return out @ w[p + "attn_output.weight"].T


def feed_forward(k, w, p, x):
    def glu(x, name, part=slice(None)):
        gate, up, down = (w[p + f"ffn_{kind}{name}.weight"][part] for kind in ("gate", "up", "down"))
        return (silu(x @ gate.T) * (x @ up.T)) @ down.T

    if p + "ffn_gate_inp.weight" not in w:
        return glu(x, "")
    score = 1 / (1 + np.exp(-(x @ w[p + "ffn_gate_inp.weight"].T)))
    pick, y = score + w[p + "exp_probs_b.bias"], glu(x, "_shexp")
    for t in range(len(x)):
        chosen = np.argsort(-pick[t])[:k["expert_used_count"]]
        for e in chosen:
            y[t] += k["expert_weights_scale"] * score[t][e] / score[t][chosen].sum() * glu(x[t], "_exps", e)
    return y


def deepseek2(path, lines):
    keys, w = tensors_of(path)
    k = {name.removeprefix("deepseek2."): value for name, value in keys.items()}
    eps, out = k["attention.layer_norm_rms_epsilon"], []
    for ids in lines:
        h = w["token_embd.weight"][ids]
        for i in range(k["block_count"]):
            p = f"blk.{i}."
            h = h + latent_attention(k, w, p, rms(h, w[p + "attn_norm.weight"], eps))
            h = h + feed_forward(k, w, p, rms(h, w[p + "ffn_norm.weight"], eps))
        out.append(w.get("output.weight", w["token_embd.weight"]) @ rms(h[-1], w["output_norm.weight"], eps))
    return out


# ---- one model ----


def measure(kentang, with_experts, peer, work, preset, seed):
    model, decoded = os.path.join(work, "model.gguf"), os.path.join(work, "decoded.gguf")
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([kentang, "synth", "--preset", preset, "--quant", "q8_0", "--seed", str(seed), model], **quiet)
    subprocess.run([kentang, "quantize", "--quiet", model, decoded, "f32"], **quiet)
    lines = sequences(len(gguf.Reader(model).keys["tokenizer.ggml.tokens"]))
    of = {name: os.path.join(work, name) for name in ("ref", "own")}

    def run(file, *flags, **env):
        return rows([with_experts, "logits", file, "-t", "1", *flags], lines, **env)

    ref, own = run(decoded, KT_EXPERTS_OUT=of["ref"]), run(model, KT_EXPERTS_OUT=of["own"])
    rounding, choice = run(model, KT_EXPERTS_IN=of["ref"]), run(decoded, KT_EXPERTS_IN=of["own"])
    exact = run(model, "--exact")
    theirs = rows(["node", "oracle.mjs", "logits", model, "--threads", "1", "--no-flash"], lines, cwd=peer)
    used = gguf.Reader(model).keys[[n for n in gguf.Reader(model).keys if n.endswith(".expert_used_count")][0]]
    a, b = (np.fromfile(of[name], np.int32).reshape(-1, used) for name in ("ref", "own"))
    others = (a != b).any(1).mean()
    print(f"| {preset}, {seed} | {100 * others:.1f} % | {distance(ref, own):.1e} | {distance(ref, rounding):.1e} | {distance(ref, choice):.1e} | "
          f"{distance(ref, exact):.1e} | {distance(ref, theirs):.1e} | {distance(own, theirs):.1e} | {clear(ref, own)} | {clear(ref, rounding)} | {clear(ref, theirs)} |", flush=True)
    if preset == "tiny-deepseek2":
        f64 = deepseek2(decoded, lines)
        parted = [i for i in range(len(lines)) if own[i].argmax() != theirs[i].argmax() and "1/1" in (clear(theirs[i:i + 1], theirs[i:i + 1]),
                                                                                                     clear(own[i:i + 1], own[i:i + 1]))]
        right = [[rows[i].argmax() == f64[i].argmax() for i in parted].count(True) for rows in (own, theirs)]
        print(f"deepseek2 in f64: the reference's divergence {distance(f64, ref):.1e}; best tokens of kentang {clear(f64, own)}, of llama.cpp "
              f"{clear(f64, theirs)}; where the two part and one of them is clear, kentang is right {right[0]} and llama.cpp {right[1]} times of {len(parted)}")


def main():
    build, args, seed = os.path.abspath(sys.argv[1]), sys.argv[2:], 1
    if "--seed" in args:
        at = args.index("--seed")
        seed = int(args[at + 1])
        del args[at:at + 2]
    peer = os.environ["KT_PEER_DIR"]
    with tempfile.TemporaryDirectory() as work:
        with_experts = os.path.join(work, "kentang-experts")
        subprocess.run([os.path.join(root, "tests/peer/experts.sh"), build, with_experts], check=True)
        print("| model, seed | other experts | kentang | its rounding alone | its choice alone | --exact | llama.cpp | llama.cpp from kentang | top-1 kentang | its "
              "rounding alone | llama.cpp |\n|---|---|---|---|---|---|---|---|---|---|---|")
        for preset in args or PRESETS:
            measure(os.path.join(build, "kentang"), with_experts, peer, work, preset, seed)


main()
