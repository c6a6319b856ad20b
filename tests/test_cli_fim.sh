#!/bin/sh
# Filling in the middle: `run`, and every path of the server that editors use, give what `greedy` makes of the ids.
#   test_cli_fim.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$kentang" synth --preset tiny-qwen2 --quant q8_0 "$work/plain.gguf" >/dev/null 2>&1
# Three tokens of its vocabulary become those around a gap: only keys are added.
cat >"$work/add_keys.py" <<'PY'
import struct, sys
raw = open(sys.argv[1], "rb").read()
at = 24
size = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
def skip(kind):
    global at
    if kind == 8:
        at += 8 + struct.unpack_from("<Q", raw, at)[0]
    elif kind == 9:
        item, n = struct.unpack_from("<IQ", raw, at)
        at += 12
        for _ in range(n): skip(item)
    else:
        at += size[kind]
version, n_tensors, n_kv = struct.unpack_from("<IQQ", raw, 4)
for _ in range(n_kv):
    at += 8 + struct.unpack_from("<Q", raw, at)[0]
    at += 4
    skip(struct.unpack_from("<I", raw, at - 4)[0])
keys = b""
for name, token in (("fim_pre", 300), ("fim_suf", 301), ("fim_mid", 302)):
    key = f"tokenizer.ggml.{name}_token_id".encode()
    keys += struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, token)
end = at
for _ in range(n_tensors):
    end += 8 + struct.unpack_from("<Q", raw, end)[0]
    dims = struct.unpack_from("<I", raw, end)[0]
    end += 4 + 8 * dims + 12
head = raw[:4] + struct.pack("<IQQ", version, n_tensors, n_kv + 3) + raw[24:at] + keys + raw[at:end]
head += bytes(-len(head) % 32)
open(sys.argv[2], "wb").write(head + raw[end + -end % 32:])
PY
python3 "$work/add_keys.py" "$work/plain.gguf" "$work/gap.gguf"

before='def f(x):' after=' return y'
ids() { printf '"%s"\n' "$1" | "$kentang" tokenize -m "$work/gap.gguf" | tr -d '[]'; }
printf '[300,%s,301,%s,302]\n' "$(ids "$before")" "$(ids "$after")" >"$work/ids"
"$kentang" greedy -m "$work/gap.gguf" -n 12 <"$work/ids" >"$work/answer_ids"
want=$("$kentang" detokenize -m "$work/gap.gguf" <"$work/answer_ids" | python3 -c 'import json,sys; print(json.loads(sys.stdin.readline()))')
[ -n "$want" ] || fail "no reference"

got=$("$kentang" run -m "$work/gap.gguf" --fim-prefix "$before" --fim-suffix "$after" --temp 0 -n 12 --json -q | python3 -c 'import json,sys; print(json.load(sys.stdin)["text"])')
[ "$got" = "$want" ] || fail "run: $got, not $want"
"$kentang" run -m "$work/plain.gguf" --fim-prefix a --fim-suffix b -n 1 -q >/dev/null 2>"$work/err" && fail "a model without the tokens"
grep -q "no tokens for filling in the middle" "$work/err" || fail "$(cat "$work/err")"
"$kentang" run -m "$work/gap.gguf" --fim-prefix a -p b -q >/dev/null 2>&1 && fail "two prompts"

"$kentang" serve --no-config --no-env -m "$work/gap.gguf" --listen 127.0.0.1:0 --socket none 2>"$work/log" &
server=$!
for _ in $(seq 100); do
    url=$(sed -n 's/.* ready .*http=\(http:[^ ]*\).*/\1/p' "$work/log")
    [ -n "$url" ] && break
    sleep 0.1
done
[ -n "$url" ] || fail "no server: $(cat "$work/log")"
python3 - "$url" "$before" "$after" "$want" <<'PY'
import json, sys, urllib.error, urllib.request
url, before, after, want = sys.argv[1:]
def post(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request).read().decode()
def check(name, got):
    assert got == want, f"{name}: {got!r}, not {want!r}"
def status(path, body):
    try:
        post(path, body)
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    return 200, ""
events = lambda text: [json.loads(l[5:]) for l in text.splitlines() if l.startswith("data:") and "[DONE]" not in l]
short = {"temperature": 0, "max_tokens": 12}
check("completions", json.loads(post("/v1/completions", {"prompt": before, "suffix": after, **short}))["choices"][0]["text"])
check("fim", json.loads(post("/v1/fim/completions", {"prompt": before, "suffix": after, **short}))["choices"][0]["message"]["content"])
check("fim stream", "".join(c["delta"].get("content", "") for e in events(post("/v1/fim/completions", {"prompt": before, "suffix": after, "stream": True, **short})) for c in e["choices"]))
line = json.loads(post("/infill", {"input_prefix": before[:4], "prompt": before[4:], "input_suffix": after, "n_predict": 12, "temperature": 0}))
check("infill", line["content"])
assert line["stop"] is True and line["tokens_predicted"] == 12 and line["stop_type"] == "limit", line
check("infill stream", "".join(e["content"] for e in events(post("/infill", {"input_prefix": before, "input_suffix": after, "n_predict": 12, "temperature": 0, "stream": True}))))
check("ollama", json.loads(post("/api/generate", {"model": "gap", "prompt": before, "suffix": after, "stream": False, "options": {"temperature": 0, "num_predict": 12}}))["response"])
for path, body, param in (("/v1/completions", {"prompt": [1, 2], "suffix": after}, "suffix"), ("/v1/completions", {"prompt": before, "suffix": 7}, "suffix"),
                          ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "suffix": after}, "suffix"), ("/infill", {"input_prefix": 1}, "input_prefix")):
    code, text = status(path, body)
    assert code == 400 and json.loads(text)["error"]["param"] == param, (path, code, text)
PY
