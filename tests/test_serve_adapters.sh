#!/bin/sh
# kentang serve with adapters: each dialect's `adapter`, the settings' default, the list, reload while answers run, and
# errors in words; the texts are those of `kentang run --lora`.
set -eu
. "$(dirname "$0")/serve_shell.sh"
command -v curl >/dev/null && command -v python3 >/dev/null || exit 77
unset XDG_RUNTIME_DIR
cd "$dir"
base=$2/src/lib/context/demo.gguf
[ -s "$base" ] || exit 77

adapter() { # NAME RANK SEED KIND
    "$kentang" synth --lora "$2" --base "$base" --seed "$3" --lora-kind "$4" "$1.gguf" || fail "synth --lora"
}
adapter loud 24 3 all
adapter other 16 8 all
adapter last 8 5 last

# the beginning's ids are sampled from changed logits: an adapter at this scale says something else
prompt="Tell me a story"
run_text() {
    "$kentang" run -q --raw -p "$prompt" -n 24 --temp 0 "$@" 2>/dev/null
}
run_text >plain
run_text --lora loud.gguf=3 >loud3
run_text --lora loud.gguf=3 --lora other.gguf=-2 >both
run_text --lora last.gguf=4 >last4
cmp -s plain loud3 && fail "the adapter changes nothing"
cmp -s loud3 both && fail "the second adapter changes nothing"

cat >conf.toml <<TOML
adapters = ["loud=$dir/loud.gguf", "other=$dir/other.gguf", "last=$dir/last.gguf", "bad=$dir/nothing.gguf"]
TOML
launch --config conf.toml --no-env --listen 127.0.0.1:0 --socket "$dir/sock"
url=$(url_of)

post() { # PATH JSON
    curl -sS -H 'Content-Type: application/json' "$url$1" -d "$2"
}
completion() { # MEMBERS
    post /v1/completions "{\"prompt\":\"$prompt\",\"max_tokens\":24,\"temperature\":0$1}"
}
has_text() { # FILE JSON-OF-AN-ANSWER; the text is among its members
    python3 - "$1" "$2" <<'PY'
import json, sys
want = open(sys.argv[1], encoding="utf-8").read()
a = json.loads(sys.argv[2])
text = (a.get("choices") or [{}])[0].get("text") or a.get("response") or a.get("content") or a.get("text")
sys.exit(text != want)
PY
}
expect() { # FILE WHAT JSON
    has_text "$1" "$3" || fail "$2"
}
expect plain "no adapter" "$(completion '')"
expect loud3 "an object" "$(completion ',"adapter":{"name":"loud","scale":3}')"
expect both "a list" "$(completion ',"adapter":[{"name":"loud","scale":3},{"name":"other","scale":-2}]')"
expect last4 "behind the last keys and values" "$(completion ',"adapter":[{"name":"last","scale":4}]')"
expect plain "none" "$(completion ',"adapter":"none"')"
expect loud3 "again, from what is kept" "$(completion ',"adapter":{"name":"loud","scale":3}')"
expect loud3 "llama-server's numbers" "$(completion ',"lora":[{"id":0,"scale":3}]')"
expect both "several of them" "$(completion ',"lora":[{"id":1,"scale":-2},{"id":0,"scale":3},{"id":2,"scale":0}]')"
expect plain "all of the scale 0" "$(completion ',"lora":[{"id":0,"scale":0}]')"
completion ',"lora":[{"id":9,"scale":1}]' | grep -q 'lora\[0\].id: there is no such adapter' || fail "an unknown number"
completion ',"lora":{"id":0}' | grep -q 'expected an array' || fail "no array"
[ "$(curl -sS -o refused -w '%{http_code}' "$url/lora-adapters" -d '[{"id":0,"scale":3}]')" = 403 ] || fail "scales of all clients are one client's to set"
curl -sS "$url/lora-adapters" | grep -q '^\[{"id":0,"path":"loud","scale":0,' || fail "GET /lora-adapters"
expect loud3 "Ollama's" "$(post /api/generate "{\"model\":\"demo\",\"prompt\":\"$prompt\",\"raw\":true,\"stream\":false,\"adapter\":{\"name\":\"loud\",\"scale\":3},\"options\":{\"temperature\":0,\"num_predict\":24}}")"

# chat's dialects differ from their answer without one, and agree with each other
chat='"messages":[{"role":"user","content":"Tell me a story"}],"max_tokens":16,"temperature":0'
say() { # PATH MEMBERS: the text alone
    post "$1" "{\"model\":\"demo\",$chat$2}" | python3 -c '
import json, sys
a = json.load(sys.stdin)
print(a["choices"][0]["message"]["content"] if "choices" in a else a["content"][0]["text"])'
}
say /v1/chat/completions '' >chat_plain
say /v1/chat/completions ',"adapter":{"name":"loud","scale":3}' >chat_loud
say /v1/messages ',"adapter":{"name":"loud","scale":3}' >messages_loud
cmp -s chat_plain chat_loud && fail "chat: the adapter changes nothing"
cmp -s chat_loud messages_loud || fail "Anthropic's dialect"
one=$(post /v1/embeddings '{"input":"a potato"}')
two=$(post /v1/embeddings '{"input":"a potato","adapter":"loud"}')
[ "$one" != "$two" ] || fail "embeddings"

# the other ways in: the socket, OpenAI's responses, MCP, a batch
cat >ways.py <<'PY'
import json, socket, sys, urllib.request

url, path, prompt = sys.argv[1:4]
LOUD = {"name": "loud", "scale": 3}


def over_socket(message):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(json.dumps(message).encode() + b"\n")
    return json.loads(s.makefile().readline())


def post(at, body):
    r = urllib.request.Request(url + at, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(r))


def tool(name, arguments):
    a = post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
    return a["result"]


def same(name, got):
    want = open(name, encoding="utf-8").read()
    assert got.strip() == want.strip(), (name, got, want)


a = over_socket({"prompt": prompt, "max_tokens": 24, "temperature": 0, "adapter": LOUD})
same("loud3", a["text"])
assert "adapter" in over_socket({"prompt": "x", "adapter": "nobody"})["error"]["message"]
ask = {"input": "Tell me a story", "max_output_tokens": 16, "temperature": 0}
same("chat_plain", post("/v1/responses", ask)["output"][0]["content"][0]["text"])
same("chat_loud", post("/v1/responses", {**ask, "adapter": LOUD})["output"][0]["content"][0]["text"])
ask = {"prompt": "Tell me a story", "max_tokens": 16, "temperature": 0}
same("chat_plain", tool("generate", ask)["structuredContent"]["text"])
same("chat_loud", tool("generate", {**ask, "adapter": LOUD})["structuredContent"]["text"])
one, two = (tool("embed", {"input": "a potato", **more})["structuredContent"]["embeddings"] for more in ({}, {"adapter": "loud"}))
http = post("/v1/embeddings", {"input": "a potato", "adapter": "loud"})["data"][0]["embedding"]
assert one != two and all(abs(x - y) < 1e-6 for x, y in zip(two[0], http))
assert tool("generate", {**ask, "adapter": "nobody"})["isError"]
names = ["loud", "other", "last", "bad"]
get = lambda at: json.load(urllib.request.urlopen(url + at))
assert get("/v1/models")["data"][0]["adapters"] == names and get("/v1/models/demo")["adapters"] == names
assert get("/props")["models"][0]["adapters"] == names
assert tool("list_models", {})["structuredContent"]["models"][0]["adapters"] == names
PY
python3 ways.py "$url" "$dir/sock" "$prompt" || fail "another way in"
cat >lines.jsonl <<JSON
{"id":"a","prompt":"$prompt","max_tokens":24,"temperature":0,"adapter":"none"}
{"id":"b","prompt":"$prompt","max_tokens":24,"temperature":0,"adapter":{"name":"loud","scale":3}}
{"id":"c","prompt":"$prompt","max_tokens":24,"temperature":0,"adapter":[{"name":"loud","scale":3},{"name":"other","scale":-2}]}
JSON
"$kentang" batch -q -m "$base" --lora loud.gguf --lora other.gguf lines.jsonl >batched 2>/dev/null || fail "batch"
python3 - <<'PY' || fail "a batch"
import json
answers = {a["id"]: a for a in map(json.loads, open("batched"))}
for id, name in (("a", "plain"), ("b", "loud3"), ("c", "both")):
    assert answers[id]["text"] == open(name, encoding="utf-8").read(), (id, answers[id])
PY

# errors in words, without paths
completion ',"adapter":"loude"' | grep -q 'adapter.*loude.*there is: loud, other, last, bad' || fail "an unknown name"
completion ',"adapter":3' | grep -q 'adapter: expected a name' || fail "a number"
completion ',"adapter":{"name":"loud","scale":1e9}' | grep -q 'adapter.scale' || fail "a scale"
completion ',"adapter":"bad"' >answer
grep -q 'cannot be loaded' answer || fail "a file that is not there"
grep -q "$dir" answer && fail "a path in an answer"

# the list
curl -sS "$url/v1/adapters" >list
python3 - <<'PY' || fail "the list"
import json
a = {x["id"]: x for x in json.load(open("list"))["data"]}
assert set(a) == {"loud", "other", "last", "bad"}, a
assert a["loud"]["loaded"] and a["loud"]["rank"] == 24 and not a["loud"]["keeps_kv"], a
assert a["last"]["keeps_kv"] and len(a["last"]["hash"]) == 64 and not a["bad"]["loaded"], a
PY

# a reload while answers run: they keep theirs, the next ones get what is listed then
i=0
while [ $i -lt 8 ]; do
    completion ',"adapter":{"name":"loud","scale":3},"cache_prompt":false' >"run$i" &
    i=$((i + 1))
done
cp other.gguf new.gguf && mv new.gguf loud.gguf
sed -i 's/^adapters.*/adapters = ["loud='"$(echo "$dir" | sed 's,/,\\/,g')"'\/loud.gguf"]\nadapter = ["loud=-2"]/' conf.toml
kill -HUP "$server"
for _ in $(seq 200); do
    grep -q 'configuration reloaded' "$log" && break
    sleep 0.05
done
run_text --lora loud.gguf=-2 >new_default
expect new_default "the new default, of the new file" "$(completion '')"
expect plain "none in place of the default" "$(completion ',"adapter":"none"')"
completion ',"adapter":"other"' | grep -q 'there is: loud"' || fail "it is listed no more"
i=0
while [ $i -lt 8 ]; do
    while [ ! -s "run$i" ]; do sleep 0.05; done
    i=$((i + 1))
done
# those that came before the reload had the old file; one that came after it the new one
run_text --lora loud.gguf=3 >new_loud3
i=0
while [ $i -lt 8 ]; do
    has_text loud3 "$(cat "run$i")" || has_text new_loud3 "$(cat "run$i")" || fail "an answer during the reload"
    i=$((i + 1))
done
finish

# the disk cache: prompts computed with an adapter are found by requests with it alone, after a restart too
long="$prompt. $(seq -s ' ' 120)"
far() { # FILE MEMBERS
    post /v1/completions "{\"prompt\":\"$long\",\"max_tokens\":16,\"temperature\":0$2}" >"$1"
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(a["choices"][0]["text"])' "$1" >"$1.text"
}
cached() { python3 -c 'import json, sys; u = json.load(open(sys.argv[1]))["usage"]; print(u["prompt_tokens_details"]["cached_tokens"])' "$1"; }
cp conf.toml disk.toml
mkdir cache
sed -i '/^adapter = /d; 1i cache.dir = "'"$dir"'/cache"' disk.toml
for turn in first second; do
    launch --config disk.toml --no-env --listen 127.0.0.1:0 --socket none
    url=$(url_of)
    far "$turn.loud" ',"adapter":{"name":"loud","scale":3}'
    far "$turn.half" ',"adapter":{"name":"loud","scale":1.5}'
    far "$turn.plain" ''
    finish
done
for kind in loud half plain; do
    [ "$(cached first.$kind)" -eq 0 ] || fail "$kind found another's prompt"
    [ "$(cached second.$kind)" -gt 0 ] || fail "$kind did not find its own prompt on the disk"
    cmp -s first.$kind.text second.$kind.text || fail "$kind: another answer from the disk"
done
cmp -s first.loud.text first.plain.text && fail "the adapter changes nothing in a long prompt"

# --lora
start --model "$base" --alias demo --lora loud.gguf=-2 --listen 127.0.0.1:0 --socket none
url=$(url_of)
expect new_default "serve --lora" "$(completion '')"
finish

# as llama-server has it: several files in one option, scales in another, set by a client afterwards
run_text --lora loud.gguf=3 --lora other.gguf=-2 >new_both
start --model "$base" --alias demo --lora-scaled loud.gguf:3,other.gguf:-2 --listen 127.0.0.1:0 --socket none
url=$(url_of)
expect new_both "--lora-scaled" "$(completion '')"
[ "$(post /lora-adapters '[{"id":0,"scale":3}]')" = '{"success":true}' ] || fail "POST /lora-adapters"
expect new_loud3 "scales that were set" "$(completion '')"
curl -sS "$url/lora-adapters" | grep -q '"id":1,"path":"other","scale":0,' || fail "the other's scale is 0 now"
expect new_both "a request's own" "$(completion ',"lora":[{"id":0,"scale":3},{"id":1,"scale":-2}]')"
post /lora-adapters '[{"id":0}]' | grep -q '\[0\].scale: expected a number' || fail "no scale"
post /lora-adapters '{' | grep -q '"error"' || fail "no JSON"
expect new_loud3 "refused scales change nothing" "$(completion '')"
finish
start --model "$base" --alias demo --lora loud.gguf,other.gguf --lora-init-without-apply --listen 127.0.0.1:0 --socket none
url=$(url_of)
expect plain "--lora-init-without-apply" "$(completion '')"
finish
