"""The demo model's own way (tools/demo_model/export.py, convert, quantize) with a checkpoint made of the committed file's
weights: tensors, keys, types and texts are those of the committed file. Usage: check_demo.py KENTANG WORK_FOLDER"""
import json
import os
import struct
import subprocess
import sys

import gguf

kentang, work = sys.argv[1:3]
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
demo, tools = os.path.join(root, "src", "lib", "context", "demo.gguf"), os.path.join(root, "tools", "demo_model")
failed = 0


def check(name, good, detail=""):
    global failed
    failed += not good
    print(f"{'PASS' if good else 'FAIL'} {name}{': ' + str(detail) if detail and not good else ''}")


def at(name):
    return os.path.join(work, name)


def run(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAIL {args}: {done.stderr}")


def bytes_of(r, name):
    base = r.at + -r.at % 32
    starts = sorted(base + t[2] for t in r.tensors.values()) + [len(r.data)]
    begin = base + r.tensors[name][2]
    return r.data[begin:starts[starts.index(begin) + 1]]


def f32_of(r, name):
    n = 4
    for d in r.tensors[name][0]:
        n *= d
    return bytes_of(r, name)[:n]


# ---- a checkpoint as the trainer would have it ----
run(kentang, "quantize", demo, at("demo-f32.gguf"), "f32", "-q")
f32, committed = gguf.Reader(at("demo-f32.gguf")), gguf.Reader(demo)
k = f32.keys
head = struct.pack("<5s3x7i2f", b"KTF32", k["llama.vocab_size"], k["llama.embedding_length"], k["llama.block_count"],
                   k["llama.attention.head_count"], k["llama.attention.head_count_kv"], k["llama.feed_forward_length"],
                   k["llama.context_length"], k["llama.rope.freq_base"], k["llama.attention.layer_norm_rms_epsilon"])
order = ["token_embd", "output_norm"]
for i in range(k["llama.block_count"]):
    order += [f"blk.{i}.{n}" for n in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate",
                                       "ffn_up", "ffn_down")]
with open(at("model.f32"), "wb") as f:
    f.write(head + b"".join(f32_of(f32, n + ".weight") for n in order))
with open(at("vocab.json"), "w") as f:
    json.dump({"tokens": k["tokenizer.ggml.tokens"], "merges": [m.split(" ") for m in k["tokenizer.ggml.merges"]]}, f)

# ---- and its way to a file ----
run(sys.executable, os.path.join(tools, "export.py"), at("model.f32"), at("vocab.json"), at("kentang-demo"))
run(kentang, "convert", at("kentang-demo"), at("new-f32.gguf"), "-q")
new = gguf.Reader(at("new-f32.gguf"))
check("the same tensors", set(new.tensors) == set(f32.tensors), set(new.tensors) ^ set(f32.tensors))
check("the same weights", all(f32_of(new, n) == f32_of(f32, n) for n in f32.tensors))
for key, value in committed.keys.items():
    # the committed template is older; an end of turn that is the end of text needs no key of its own
    if not key.startswith("general.") and key not in ("tokenizer.chat_template", "tokenizer.ggml.eot_token_id"):
        check(key, new.keys.get(key) == value, new.keys.get(key))
check("all ends", new.keys["kentang.eos_ids"] == [k["tokenizer.ggml.eos_token_id"]])

with open(os.path.join(tools, "train.sh")) as f:  # the types that train.sh asks for
    script = f.read().split('src/lib/context/demo.gguf" q5_k_m', 1)[1].split('\n"$kentang"', 1)[0]
keep = [word for part in script.split("--keep '")[1:] for word in ("--keep", part.split("'")[0])]
run(kentang, "quantize", at("new-f32.gguf"), at("new-demo.gguf"), "q5_k_m", "-q", *keep)
made = gguf.Reader(at("new-demo.gguf"))
check("types", all(made.tensors[n][:2] == t[:2] for n, t in committed.tensors.items()))
check("file type", made.keys["general.file_type"] == committed.keys["general.file_type"])

run(kentang, "quantize", at("new-demo.gguf"), at("back.gguf"), "f32", "-q")
run(sys.executable, os.path.join(tools, "checkpoint.py"), at("model.f32"), at("new-f32.gguf"), at("back.f32"))
with open(at("model.f32"), "rb") as a, open(at("back.f32"), "rb") as b:
    check("back into a checkpoint", a.read() == b.read())
sys.exit(failed > 0)
