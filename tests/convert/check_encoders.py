"""Every embedding model and reranker: a folder is written, converted, and the vectors are compared with the forward pass in
numpy; a reranker's head and keys are what the folder says. Usage: check_encoders.py KENTANG WORK_FOLDER [NAME...]"""
import json
import os
import subprocess
import sys

import numpy as np

import encoders
import gguf


def tensor(file, name):
    """Of F32 values."""
    dims, kind, at = file.tensors[name]
    assert kind == 0
    begin = (file.at + 31) // 32 * 32 + at
    n = int(np.prod(dims))
    return np.frombuffer(file.data[begin:begin + 4 * n], np.float32).reshape(tuple(reversed(dims)))


def head_of(m, w, file):
    """What a reranker's file must say beside its layers."""
    arch = file.keys["general.architecture"]
    prefix = "classifier.out_proj" if m["kind"] == "xlmr" else "classifier"
    problems = []
    if file.keys[arch + ".pooling_type"] != 4:
        problems.append("pooling_type")
    if m.get("compares"):
        want = w["model.embed_tokens.weight"][list(m["compares"])]
        return problems + ([] if (tensor(file, "cls.output.weight") == want).all() else ["cls.output.weight"])
    names = {"score.weight": "cls.output.weight"} if m["kind"] == "qwen3" else {
        prefix + ".weight": "cls.output.weight", prefix + ".bias": "cls.output.bias"}
    if m["kind"] == "bert":
        names.update({"bert.pooler.dense.weight": "cls.weight", "bert.pooler.dense.bias": "cls.bias"})
    if m["kind"] == "xlmr":
        names.update({"classifier.dense.weight": "cls.weight", "classifier.dense.bias": "cls.bias"})
    for source, target in names.items():
        if target not in file.tensors or not np.array_equal(tensor(file, target), w[source]):
            problems.append(target)
    if "id2label" in m["config"] and file.keys[arch + ".classifier.output_labels"] != list(m["config"]["id2label"].values()):
        problems.append("labels")
    return problems


def distance(kentang, m, w, made, out, n_tokens):
    rng = np.random.default_rng(7)
    lines = [rng.integers(0, n_tokens, n).tolist() for n in (1, 2, 17, 40, 90)]
    got = subprocess.run([kentang, "embed", out, "--json"], input="".join(json.dumps(ids) + "\n" for ids in lines),
                         capture_output=True, text=True)
    if got.returncode:
        sys.exit(f"FAIL {out}: {got.stderr.strip()}")
    worst = 0.0
    for ids, line in zip(lines, got.stdout.splitlines()):
        have, want = np.array(json.loads(line)), encoders.embedding(m, w, made, ids)
        worst = max(worst, float(np.abs(want - have).max() / want.std()))
    return worst


def main():
    kentang, work, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    failed = 0
    for name, m in {**encoders.MODELS, **encoders.DECODERS}.items():
        if names and name not in names:
            continue
        folder, out = os.path.join(work, name), os.path.join(work, name + ".gguf")
        w, n_tokens, made = (encoders.write if name in encoders.MODELS else encoders.write_decoder)(m, folder)
        done = subprocess.run([kentang, "convert", folder, out, "--type", "f32"], capture_output=True, text=True)
        if done.returncode:
            print(f"FAIL {name}: {done.stderr.strip()}")
            failed += 1
            continue
        if ("biases after the experts of 2 layers" in done.stderr) != bool(m.get("experts")):
            print(f"FAIL {name}: a note of biases: {done.stderr.strip()}")
            failed += 1
        if "otherwise" in done.stderr:
            print(f"FAIL {name}: {done.stderr.strip()}")
            failed += 1
        if m["pooling"]:
            worst = distance(kentang, m, w, made, out, n_tokens)
            good, said = worst < 2e-3, f"largest difference {worst:.2e} of the vector's spread"
        else:
            problems = head_of(m, w, gguf.Reader(out))
            good, said = not problems, "the head" if not problems else f"wrong: {problems}"
        failed += not good
        print(f"{'PASS' if good else 'FAIL'} {name}: {said}")
    sys.exit(failed > 0)


main()
