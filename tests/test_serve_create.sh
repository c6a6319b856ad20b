#!/bin/sh
# Models that are created, copied, deleted and pulled as Ollama's clients do it, and `kentang create`; what their templates, messages and
# parameters make of requests; what is refused.
#   test_serve_create.sh BUILD_DIR SOURCE_DIR
set -eu
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
command -v curl >/dev/null || { echo "no curl: skipped"; exit 77; }
source=$2
. "$source/tests/serve_shell.sh"
hub=""
trap 'exec 9>&-; [ -z "$hub" ] || kill "$hub" 2>/dev/null || true; cleanup' EXIT
unset HF_TOKEN HF_HOME HF_ENDPOINT http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export HOME="$dir/home" XDG_CONFIG_HOME="$dir/config" XDG_DATA_HOME="$dir/data" NO_PROXY=127.0.0.1
models=$dir/data/kentang/models
mkdir -p "$models" "$dir/hub/Owner/Tale"

run() { # METHOD STATUS PATTERN PATH BODY: the answer is in $dir/out
    code=$(curl -s -o "$dir/out" -w '%{http_code}' -X "$1" "$url$4" -H 'Content-Type: application/json' -d "$5")
    if [ "$code" != "$2" ] || ! grep -Eq "$3" "$dir/out"; then fail "$1 $4 $5: $code $(cat "$dir/out")"; fi
    if grep -q "$dir" "$dir/out"; then fail "$4 $5: a path of the server: $(cat "$dir/out")"; fi
}
post() { run POST "$@"; }
renders() { # MODEL MESSAGES PROMPT: what the model's template makes of messages; \n is a line break
    curl -s "$url/apply-template" -H 'Content-Type: application/json' -d "{\"model\":\"$1\",\"messages\":$2}" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["prompt"].replace("\n", "\\n"))' >"$dir/got"
    [ "$(cat "$dir/got")" = "$3" ] || fail "$1 $2: $(cat "$dir/got")"
}

# not without the settings
start --listen 127.0.0.1:0 --socket none
url=$(url_of)
post 403 http.create /api/create '{"model":"x","from":"demo"}'
post 403 http.create /api/copy '{"source":"demo","destination":"x"}'
run DELETE 403 http.create /api/delete '{"model":"demo"}'
post 403 http.pull /api/pull '{"model":"Owner/Tale"}'
post 501 'sends no model' /api/push '{"model":"demo"}'
finish

# a key is needed where keys are set
printf 'anna:0123456789abcdef0\n' >"$dir/keys"
chmod 600 "$dir/keys"
start --listen 127.0.0.1:0 --socket none --set http.create=true --set "http.keys=$dir/keys"
url=$(url_of)
post 401 'API key' /api/create '{"model":"x","from":"demo"}'
run DELETE 401 'API key' /api/delete '{"model":"demo"}'
post 401 'API key' /api/blobs/sha256:0 'x'
finish

# from what is configured; the demo model is inside the program
start --listen 127.0.0.1:0 --socket none --set http.create=true
url=$(url_of)
post 200 '"status":"success"' /api/create '{"model":"mario","from":"demo","system":"You are Mario.","license":["MIT","two"],
    "parameters":{"temperature":0,"num_predict":7,"stop":["\nXX","YY"],"num_gpu":9},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"its me"}]}'
grep -q '"writing manifest"' "$dir/out" || fail "no progress"
grep -q '^FROM demo$' "$models/mario.modelfile" || fail "$(cat "$models/mario.modelfile")"
renders mario '[{"role":"user","content":"Tell me"}]' '<|im_start|>system\nYou are Mario.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nits me<|im_end|>\n<|im_start|>user\nTell me<|im_end|>\n<|im_start|>assistant\n'
renders mario:latest '[{"role":"system","content":"Mine"},{"role":"user","content":"Tell me"}]' '<|im_start|>system\nMine<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nits me<|im_end|>\n<|im_start|>user\nTell me<|im_end|>\n<|im_start|>assistant\n'
for _ in 1 2; do # its temperature is 0, so the answers are the same, and 7 tokens long
    post 200 '"eval_count":7' /api/chat '{"model":"mario","messages":[{"role":"user","content":"Tell me a story"}],"stream":false}'
    sed 's/.*"content":"\([^"]*\)".*/\1/' "$dir/out" >>"$dir/answers"
done
[ "$(sort -u "$dir/answers" | wc -l)" = 1 ] || fail "other answers: $(cat "$dir/answers")"
post 200 '"completion_tokens":7' /v1/chat/completions '{"model":"mario","messages":[{"role":"user","content":"Tell me a story"}]}'
post 200 '"output_tokens":7' /v1/responses '{"model":"mario","input":"Tell me a story"}'
post 200 '"output_tokens":3' /v1/messages '{"model":"mario","max_tokens":3,"messages":[{"role":"user","content":"Tell me a story"}]}'
post 200 '"eval_count":2' /api/generate '{"model":"mario","prompt":"Tell me a story","options":{"num_predict":2},"stream":false}'
post 200 '"system":"You are Mario."' /api/show '{"model":"mario"}'
for what in '"modelfile":"FROM demo' 'temperature  *0' '"license":"two"' '"content":"its me"' '"completion"' 'embedding_length":[1-9]'; do
    grep -q "$what" "$dir/out" || fail "show has no $what: $(cat "$dir/out")"
done
post 200 'embedding_length":[1-9]' /api/show '{"name":"demo"}'
curl -s "$url/api/tags" | python3 -c 'import json, re, sys
for m in json.load(sys.stdin)["models"]: assert re.fullmatch("[0-9a-f]{64}", m["digest"]), m' || fail "digests"
curl -s "$url/api/version" | python3 -c 'import json, sys
assert [int(x) for x in json.load(sys.stdin)["version"].split(".")] >= [0, 12, 0]' || fail "version"

# templates of both kinds; one that says what a created one does not; of a created one
post 200 success /api/create '{"model":"plain:1b","from":"mario","system":"","messages":[],"template":"{{ if .System }}S: {{ .System }}\n{{ end }}{{ if .Prompt }}U: {{ .Prompt }}\n{{ end }}A: {{ .Response }}<|im_end|>\n"}'
renders plain:1b '[{"role":"system","content":"{{ x }}"},{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]' \
    'S: {{ x }}\nU: hi\nA: its me<|im_end|>\nU: a\n\nb\nA: c<|im_end|>\nU: d\nA: '
post 200 success /api/create '{"model":"newer","from":"demo","modelfile":"TEMPLATE \"\"\"{{- range $i, $_ := .Messages }}{{- $last := eq (len (slice $.Messages $i)) 1 -}}\n<{{ .Role }}>{{ .Content }}{{ if not $last }}</{{ .Role }}>\n{{ end }}{{ if and $last (ne .Role \"assistant\") }}\n<assistant>{{ end }}{{- end }}\"\"\""}'
renders newer '[{"role":"user","content":"a\nb"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]' '<user>a\nb</user>\n<assistant>c</assistant>\n<user>d\n<assistant>'
post 200 success /api/create '{"model":"tools","from":"demo","template":"{{ if .Tools }}{{ range .Tools }}{{ .Function }}|{{ end }}{{ end }}{{ range .Messages }}[{{ .Role }}]{{ .Content }}{{ range .ToolCalls }}<tool_call>{\"name\": \"{{ .Function.Name }}\", \"arguments\": {{ .Function.Arguments }}}</tool_call>{{ end }}{{ end }}"}'
curl -s "$url/apply-template" -H 'Content-Type: application/json' -d '{"model":"tools","tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}],
  "messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"ok"}]}' >"$dir/out"
grep -q '"name\\": \\"f\\".*|\[user\]a\[assistant\]<tool_call>{\\"name\\": \\"f\\", \\"arguments\\": {\\"x\\": 1}}</tool_call>\[tool\]ok' "$dir/out" || fail "tools: $(cat "$dir/out")"

# anew under the same name: the present one holds from then on
post 200 success /api/create '{"model":"mario","from":"demo","system":"Luigi","stream":false}'
[ "$(wc -l <"$dir/out")" = 1 ] || fail "more than one line"
renders mario '[{"role":"user","content":"Tell me"}]' '<|im_start|>system\nLuigi<|im_end|>\n<|im_start|>user\nTell me<|im_end|>\n<|im_start|>assistant\n'
post 200 success /api/create '{"model":"mario","from":"mario","parameters":{"top_k":3}}' # of itself: with that besides
grep -q 'SYSTEM Luigi' "$models/mario.modelfile" && grep -q 'PARAMETER top_k 3' "$models/mario.modelfile" || fail "$(cat "$models/mario.modelfile")"

# what is refused
post 400 'quantize: not supported' /api/create '{"model":"x","from":"demo","quantize":"q4_0"}'
post 400 'files: not supported' /api/create '{"model":"x","files":{"a.gguf":"sha256:0"}}'
post 400 'from: expected the name' /api/create '{"model":"x","from":"/etc/passwd"}'
post 400 'from: expected the name' /api/create '{"model":"x","modelfile":"FROM ./a.gguf"}'
post 400 'from: is missing' /api/create '{"model":"x","system":"a"}'
post 400 'no model .*nothing.* in the folder' /api/create '{"model":"x","from":"nothing"}'
post 400 'adapters: files' /api/create '{"model":"x","from":"demo","modelfile":"ADAPTER a.gguf"}'
post 400 'is no name' /api/create '{"model":"../x","from":"demo"}'
post 400 'PARAMETER heat is not known' /api/create '{"model":"x","from":"demo","parameters":{"heat":1}}'
post 400 'temperature' /api/create '{"model":"x","from":"demo","parameters":{"temperature":"hot"}}'
post 400 'line 2.*FORM' /api/create '{"model":"x","modelfile":"FROM demo\nFORM x"}'
post 400 'action .*with' /api/create '{"model":"x","from":"demo","template":"{{ with .System }}{{ end }}"}'
post 409 'is configured' /api/create '{"model":"demo","from":"demo"}'
post 501 'files are not sent' /api/blobs/sha256:0 'x'
[ "$(curl -s -o /dev/null -w '%{http_code}' -I "$url/api/blobs/sha256:0")" = 404 ] || fail "a blob"
post 404 'no model .*nothing' /api/copy '{"source":"nothing","destination":"x"}'
post 409 'already' /api/copy '{"source":"mario","destination":"newer"}'
post 409 'already' /api/copy '{"source":"mario","destination":"demo"}'
post 400 'is no name' /api/copy '{"source":"mario","destination":"a/../../x"}'
run DELETE 404 'no model' /api/delete '{"model":"demo"}'
run DELETE 404 'no model' /api/delete '{"model":"../mario"}'

# copied and deleted: the other one stays; it is gone from every list, and its name means nothing
post 200 success /api/copy '{"source":"mario","destination":"peach:2b"}'
run DELETE 200 success /api/delete '{"model":"mario"}'
run DELETE 404 'no model' /api/delete '{"model":"mario"}'
renders peach:2b '[{"role":"user","content":"Tell me"}]' '<|im_start|>system\nLuigi<|im_end|>\n<|im_start|>user\nTell me<|im_end|>\n<|im_start|>assistant\n'
for path in /api/tags /v1/models /props /api/ps; do
    if curl -s "$url$path" | grep -q mario; then fail "$path still has it"; fi
    curl -s "$url$path" | python3 -c 'import json, sys; json.load(sys.stdin)' || fail "$path is no JSON"
done
post 404 'does not exist here' /api/show '{"model":"mario"}'
post 404 'does not exist here' /v1/chat/completions '{"model":"mario","messages":[{"role":"user","content":"a"}]}'
finish

# files: with the command line, whose paths begin where the Modelfile lies; a base stays as long as it is one
cp "$source/src/lib/context/demo.gguf" "$models/tale.gguf"
mkdir -p "$dir/files"
cp "$source/src/lib/context/demo.gguf" "$dir/files/own.gguf"
printf 'FROM ./own.gguf\nSYSTEM """Two\nlines"""\nPARAMETER temperature 0\n' >"$dir/files/Modelfile"
"$kentang" create own -f "$dir/files/Modelfile" >"$dir/out" || fail "create"
grep -q "^FROM $dir/files/own.gguf$" "$models/own.modelfile" || fail "$(cat "$models/own.modelfile")"
printf 'FROM tale\nSYSTEM brief\nPARAMETER num_ctx 128\n' | "$kentang" create brief -f - >/dev/null || fail "create from standard input"
printf 'FROM brief\nMESSAGE user hi\n' | "$kentang" create briefer -f - >/dev/null
grep -q '^FROM tale$' "$models/briefer.modelfile" && grep -q 'SYSTEM brief' "$models/briefer.modelfile" || fail "$(cat "$models/briefer.modelfile")"
if printf 'FROM ./none.gguf\n' | "$kentang" create none -f - 2>"$dir/out"; then fail "a file that is not there"; fi
grep -q 'line 1: FROM: no file' "$dir/out" || fail "$(cat "$dir/out")"
if printf 'FROM tale\nADAPTER none\n' | "$kentang" create none -f - 2>"$dir/out"; then fail "an adapter that is not there"; fi
if printf 'FROM demo\n' | "$kentang" create tale -f - 2>"$dir/out"; then fail "in place of a file"; fi
grep -q 'file of its own' "$dir/out" || fail "$(cat "$dir/out")"
"$kentang" list >"$dir/out" 2>&1 && grep -q '^briefer .*created' "$dir/out" || fail "list: $(cat "$dir/out")"
"$kentang" show briefer >"$dir/out" 2>&1 && grep -q '^SYSTEM brief$' "$dir/out" || fail "show: $(cat "$dir/out")"
if "$kentang" rm tale 2>"$dir/out"; then fail "a base was removed"; fi
grep -q 'was created from tale: remove that first' "$dir/out" || fail "$(cat "$dir/out")"
"$kentang" run -m brief -p hi -n 4 --temp 0 >/dev/null 2>"$dir/out" || fail "run: $(cat "$dir/out")"
grep -q 'hold for `kentang serve` alone' "$dir/out" || fail "run does not say what it leaves out: $(cat "$dir/out")"
start --listen 127.0.0.1:0 --socket none --set http.create=true -m own
url=$(url_of)
renders own '[{"role":"user","content":"x"}]' '<|im_start|>system\nTwo\nlines<|im_end|>\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n'
post 200 '"modelfile":"FROM own.gguf' /api/show '{"model":"own"}'
post 200 '"context_length":128|"n_ctx":128|"done":true' /api/generate '{"model":"brief","prompt":"","stream":false}'
curl -s "$url/api/ps" | grep -o '"name":"brief".*' | grep -q '"context_length":128' || fail "num_ctx: $(curl -s "$url/api/ps")"
run DELETE 409 'created from' /api/delete '{"model":"tale"}'
run DELETE 409 'configured' /api/delete '{"model":"own"}'
run DELETE 200 success /api/delete '{"model":"briefer"}'
run DELETE 200 success /api/delete '{"model":"brief"}'
post 200 success /api/copy '{"source":"tale","destination":"saga/1"}'
run DELETE 200 success /api/delete '{"model":"tale"}'
[ ! -e "$models/tale.gguf" ] && [ -e "$models/saga/1.gguf" ] || fail "not renamed"
post 200 '"response":' /api/generate '{"model":"saga:1","prompt":"Once","options":{"num_predict":2},"stream":false}'
run DELETE 200 success /api/delete '{"model":"saga:1"}'
[ ! -e "$models/saga" ] || fail "the folder stays"
finish

# pulled, as a stream of lines, to its end; stopped when its client goes; joined by a second one
"$kentang" quantize -q "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Tale/Tale-F32.gguf" f32 2>/dev/null
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Tale/Tale-Q4_K_M.gguf"
echo '{"library/tale:1b":"Owner/Tale/Tale-Q4_K_M.gguf"}' >"$dir/hub/registry.json"
mkfifo "$dir/stdin"
python3 "$source/tests/store/hub_server.py" "$dir/hub" "$dir/hub.log" <"$dir/stdin" >"$dir/ports" &
hub=$!
exec 9>"$dir/stdin"
for _ in $(seq 100); do
    [ -s "$dir/ports" ] && break
    sleep 0.05
done
read -r port _ <"$dir/ports" || fail "the hub did not start"
serve_from() {
    start --listen 127.0.0.1:0 --socket none --set "hub=http://127.0.0.1:$port/$1" --set http.pull=true
    url=$(url_of)
}
serve_from good
post 200 success /api/pull '{"model":"Owner/Tale:q4_k_m"}'
python3 - "$dir/out" <<'PY' || fail "$(cat "$dir/out")"
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert lines[0] == {"status": "pulling manifest"} and lines[-1] == {"status": "success"}, lines
moving = [line for line in lines if "digest" in line]
assert moving and all(re.fullmatch("sha256:[0-9a-f]{64}", line["digest"]) for line in moving), moving
assert moving[-1]["completed"] == moving[-1]["total"] > 1000000, moving[-1]
PY
post 200 '"done":true' /api/generate '{"model":"Owner/Tale:q4_k_m","prompt":"Once","options":{"num_predict":2},"stream":false}'
post 200 '^\{"status":"success"\}$' /api/pull '{"model":"Owner/Tale:q4_k_m","stream":false}'
post 500 'has no' /api/pull '{"model":"Owner/Nothing","stream":false}'
post 200 '^\{"error":' /api/pull '{"model":"Owner/Nothing"}'
post 400 'name of the hub' /api/pull '{"model":"http://127.0.0.1/x.gguf"}'
finish
serve_from registry
post 200 success /api/pull '{"model":"tale:1b"}'
post 200 '"done":true' /api/generate '{"model":"tale:1b","prompt":"Once","options":{"num_predict":2},"stream":false}'
finish
serve_from slow
state() { curl -s "$url/props" | grep -o '"pull":{[^}]*}' || true; }
awaits() { # PATTERN: until /props says so of the pull, for 10 s
    for _ in $(seq 200); do
        if state | grep -Eq "$1"; then return 0; fi
        sleep 0.05
    done
    fail "not said: $1: $(state)"
}
curl -sN -m 1 -o /dev/null "$url/api/pull" -H 'Content-Type: application/json' -d '{"model":"Owner/Tale:f32"}' || true
awaits '"stopped"'
curl -sN -o "$dir/one" "$url/api/pull" -H 'Content-Type: application/json' -d '{"model":"Owner/Tale:f32"}' &
one=$!
awaits '"bytes_done":[1-9]'
post 409 'one at a time' /api/pull '{"model":"Owner/Tale:q4_k_m"}'
curl -sN -m 1 -o /dev/null "$url/api/pull" -H 'Content-Type: application/json' -d '{"model":"Owner/Tale:f32"}' || true
sleep 0.5
awaits '"fetching"' # the first one is still there
kill "$one"
wait "$one" 2>/dev/null || true
awaits '"stopped"'
curl -sN -o "$dir/one" "$url/api/pull" -H 'Content-Type: application/json' -d '{"model":"Owner/Tale:f32"}' &
one=$!
awaits '"fetching"'
began=$(date +%s)
finish
[ $(($(date +%s) - began)) -le 5 ] || fail "the server waited for the hub"
wait "$one" || true
grep -q '"error":' "$dir/one" || fail "the one who waited got no error: $(cat "$dir/one")"
echo "all as expected"
