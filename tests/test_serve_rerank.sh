#!/bin/sh
# kentang embed and a server with encoders: vectors and rankings are the same bytes from both, in every format; what an
# encoder and a model that is no reranker refuse, and in which words.
set -eu
. "$(dirname "$0")/serve_shell.sh"
command -v curl >/dev/null && command -v python3 >/dev/null || exit 77
unset XDG_RUNTIME_DIR
cd "$dir"
for preset in tiny-bert tiny-bert-reranker tiny-qwen3-reranker; do
    "$kentang" synth --preset $preset --quant q8_0 $preset.gguf >/dev/null || fail "synth $preset"
done

# ---- kentang embed ----

printf 'the water\nkentang dan nasi\n\nthe house\n' >texts
"$kentang" embed tiny-bert.gguf <texts >vectors.json || fail "embed"
"$kentang" embed tiny-bert.gguf -f texts | cmp - vectors.json || fail "embed -f: other vectors"
"$kentang" embed tiny-bert.gguf -f missing 2>said && fail "embed -f of no file"
grep -q 'cannot open missing' said || fail "embed -f of no file: $(cat said)"
"$kentang" embed tiny-bert.gguf --format f32 -o vectors.f32 <texts || fail "embed --format f32"
"$kentang" embed tiny-bert.gguf --format npy -o vectors.npy <texts || fail "embed --format npy"
"$kentang" embed tiny-bert.gguf --no-normalize <texts >raw.json || fail "embed --no-normalize"
"$kentang" embed tiny-bert.gguf --dimensions 16 <texts >short.json || fail "embed --dimensions"
printf '"the water"\n[2, 5, 3]\n' | "$kentang" embed tiny-bert.gguf --json >ids.json || fail "embed --json"
"$kentang" embed tiny-bert.gguf --format npy <texts 2>said | cat >/dev/null
grep -q -- '--output' said || fail "npy into a pipe: $(cat said)"
printf '%0600d\n' 0 | sed 's/0/a b /g' >long
"$kentang" embed tiny-bert.gguf <long >/dev/null 2>said && fail "a text over the context was taken"
grep -q 'it exceeds the available context size of 512' said || fail "over the context: $(cat said)"
"$kentang" run -q -m tiny-bert.gguf -p hi >/dev/null 2>said && fail "an encoder generated"
grep -q 'generates no text' said || fail "run with an encoder: $(cat said)"
python3 - <<'PY' || fail "vectors"
import json, struct
rows = [json.loads(l) for l in open("vectors.json")]
f32 = open("vectors.f32", "rb").read()
npy = open("vectors.npy", "rb").read()
assert len(rows) == 4 and all(len(r) == 256 for r in rows)
flat = [x for r in rows for x in r]
assert struct.pack("<%df" % len(flat), *flat) == f32
assert npy[:8] == b"\x93NUMPY\x01\x00" and npy[128:] == f32 and b"'shape': (4, 256)" in npy[:128]
for row, raw, short in zip(rows, open("raw.json"), open("short.json")):
    raw, short = json.loads(raw), json.loads(short)
    length = sum(x * x for x in raw) ** 0.5
    assert abs(sum(x * x for x in row) - 1) < 1e-5 and abs(length - 1) > 1e-3
    assert max(abs(x / length - y) for x, y in zip(raw, row)) < 1e-6
    cut = sum(x * x for x in row[:16]) ** 0.5
    assert len(short) == 16 and max(abs(x / cut - y) for x, y in zip(row, short)) < 1e-6
ids = [json.loads(l) for l in open("ids.json")]
assert ids[0] == rows[0] and len(ids[1]) == 256
PY

# ---- the server ----

post() { # PATH JSON
    curl -sS -w '\n%{http_code}' -H 'Content-Type: application/json' "$url$1" -d "$2"
}
refused() { # PATH JSON STATUS WORDS
    post "$1" "$2" >said
    [ "$(tail -1 said)" = "$3" ] || fail "$1 $2: $(cat said)"
    grep -q -- "$4" said || fail "$1 $2 does not say $4: $(cat said)"
}
pairs='{"query":"the water","documents":["the house","water is good",{"text":"kentang [SEP] dan"}],"top_n":2,"return_documents":true}'

# Ollama's list says the same of a model before it is loaded and after
start -m tiny-bert.gguf --listen 127.0.0.1:0 --set preload=false
url=$(url_of)
listed() { curl -sS "$url/api/tags" | python3 -c 'import json, sys; print([(m["digest"], m["size"]) for m in json.load(sys.stdin)["models"]])'; }
before=$(listed)
post /v1/embeddings '{"input":"a"}' | grep -q '"embedding"' || fail "embeddings of a model that was not loaded"
[ "$(listed)" = "$before" ] || fail "/api/tags says $(listed), not $before"
case $before in *", 0)"*) fail "no size of a model that is not loaded: $before" ;; esac
finish

start -m tiny-bert.gguf --listen 127.0.0.1:0
url=$(url_of)
post /v1/embeddings '{"input":["the water","kentang dan nasi"]}' >answer
python3 - <<'PY' || fail "/v1/embeddings is not kentang embed: $(cut -c1-300 answer)"
import json
body = json.loads(open("answer").read().rsplit("\n", 1)[0])
rows = [json.loads(l) for l in open("vectors.json")]
assert [d["embedding"] for d in body["data"]] == rows[:2]
PY
refused /v1/chat/completions '{"messages":[{"role":"user","content":"hi"}]}' 400 'generates no text'
refused /v1/completions '{"prompt":"hi"}' 400 'encoder'
refused /v1/rerank "$pairs" 400 'no reranker'
refused /v1/embeddings '{"input":"a","pooling":"first"}' 400 'model, mean, last or cls'
finish

start -m tiny-bert.gguf --listen 127.0.0.1:0 --pooling none
url=$(url_of)
refused /v1/embeddings '{"input":"a"}' 400 'say mean, last, cls or model'
post /v1/embeddings '{"input":"the water","pooling":"model"}' | grep -q '"embedding"' || fail "pooling of a request"
finish

for model in tiny-bert-reranker tiny-qwen3-reranker; do
    start -m $model.gguf --listen 127.0.0.1:0
    url=$(url_of)
    post /v1/rerank "$pairs" >answer
    post /rerank '{"query":"the water","documents":["the house","water is good","kentang [SEP] dan"]}' >all
    python3 - <<'PY' || fail "$model ranks: $(cat answer)"
import json
body = json.loads(open("answer").read().rsplit("\n", 1)[0])
whole = json.loads(open("all").read().rsplit("\n", 1)[0])
texts = ["the house", "water is good", "kentang [SEP] dan"]
found, most = whole["results"], body["results"]
assert sorted(r["index"] for r in found) == [0, 1, 2] and len(most) == 2
scores = [r["relevance_score"] for r in found]
assert scores == sorted(scores, reverse=True) and all(0 < s < 1 for s in scores) and scores[0] > scores[2]
for r, w in zip(most, found):
    assert (r["index"], r["relevance_score"]) == (w["index"], w["relevance_score"])
    assert r["document"]["text"] == texts[r["index"]] and "document" not in w
assert body["usage"]["total_tokens"] > 0
PY
    post /rerank '{"query":"the water","texts":["the house","water is good","kentang [SEP] dan"],"return_text":true,"top_n":2}' >tei
    python3 - <<'PY' || fail "$model as TEI ranks: $(cat tei)"
import json
tei = json.loads(open("tei").read().rsplit("\n", 1)[0])
whole = json.loads(open("all").read().rsplit("\n", 1)[0])["results"]
texts = ["the house", "water is good", "kentang [SEP] dan"]
assert tei == [{"index": r["index"], "score": r["relevance_score"], "text": texts[r["index"]]} for r in whole[:2]]
PY
    refused /v1/rerank '{"query":"a","texts":[7]}' 400 'texts\[0\]: '
    refused /v1/rerank '{"query":"a","texts":["b"],"return_text":1}' 400 'return_text: '
    refused /v1/embeddings '{"input":"a"}' 400 'reranker'
    refused /v1/rerank '{"query":"","documents":["a"]}' 400 'query: '
    refused /v1/rerank '{"query":"a","documents":[]}' 400 'documents: '
    refused /v1/rerank '{"query":"a","documents":[7]}' 400 'documents\[0\]: '
    refused /v1/rerank '{"query":"a","documents":["b"],"top_n":0}' 400 'top_n: '
    finish
done
