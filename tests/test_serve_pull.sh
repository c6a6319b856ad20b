#!/bin/sh
# serve with http.pull: a client fetches a model from a hub of our own, sees how far it is, stops it, uses it, and finds it after a restart.
#   test_serve_pull.sh BUILD_DIR SOURCE_DIR
set -eu
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
command -v curl >/dev/null || { echo "no curl: skipped"; exit 77; }
source=$2
. "$source/tests/serve_shell.sh"
hub=""
trap 'exec 9>&-; [ -z "$hub" ] || kill "$hub" 2>/dev/null || true; cleanup' EXIT
unset HF_TOKEN HF_HOME HF_ENDPOINT http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export HOME="$dir/home" XDG_CONFIG_HOME="$dir/config" XDG_DATA_HOME="$dir/data" NO_PROXY=127.0.0.1

# what the hub has: the demo model, and as F32 to be fetched slowly
mkdir -p "$dir/hub/Owner/Tale"
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Tale/Tale-Q4_K_M.gguf"
"$kentang" quantize -q "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Tale/Tale-F32.gguf" f32 2>/dev/null
echo "{}" >"$dir/hub/registry.json"
mkfifo "$dir/stdin"
python3 "$source/tests/store/hub_server.py" "$dir/hub" "$dir/hub.log" <"$dir/stdin" >"$dir/ports" &
hub=$!
exec 9>"$dir/stdin"
for _ in $(seq 100); do
    [ -s "$dir/ports" ] && break
    sleep 0.05
done
read -r port other <"$dir/ports" || fail "the hub did not start"

serve_from() { # MODE ARGUMENTS...: with a hub that behaves so
    mode=$1
    shift
    start --listen 127.0.0.1:0 --socket none --set "hub=http://127.0.0.1:$port/$mode" "$@"
    url=$(url_of)
}
post() { # PATH BODY: the status; the answer is in $dir/out
    curl -s -o "$dir/out" -w '%{http_code}' "$url$1" -H 'Content-Type: application/json' -d "$2"
}
expect() { # STATUS PATTERN PATH BODY
    code=$(post "$3" "$4")
    [ "$code" = "$1" ] && grep -q "$2" "$dir/out" || fail "$3 $4: $code $(cat "$dir/out")"
    if grep -q "$dir" "$dir/out"; then fail "$3 $4: a path of the server: $(cat "$dir/out")"; fi
}
pulled() { # PATTERN: until /props says so of the pull, for 20 s
    until=$(($(date +%s) + 20))
    while [ "$(date +%s)" -lt $until ]; do
        curl -s "$url/props" | grep -o '"pull":{[^}]*}' >"$dir/pull" || true
        if grep -Eq "$1" "$dir/pull"; then return 0; fi
        sleep 0.05
    done
    fail "not said: $1: $(cat "$dir/pull")"
}

# not without the setting
serve_from good
expect 403 'http.pull' /v1/models/pull '{"model":"Owner/Tale"}'
expect 403 'http.pull' /v1/models/pull/stop '{}'
expect 403 'http.pull' /v1/models/search '{"words":"tale"}'
curl -s "$url/v1/models" | grep -q '"pull"' && fail "allowed without the setting"
finish

# fetched, listed, used; what is no name of the hub's, or not there, is refused without a path of ours
serve_from good --set http.pull=true
curl -s "$url/v1/models" | grep -q '"pull":true' || fail "not said that clients may"
expect 400 'words: expected a text' /v1/models/search '{}'
expect 200 '{"name":"Owner/Tale:q4_k_m","bytes":[1-9][0-9]*,"memory_bytes":[1-9][0-9]*,"fits":true,"sees":false,"downloads":1000' /v1/models/search '{"words":"tale"}'
expect 200 '"data":\[\]' /v1/models/search '{"words":"nothing like it"}'
expect 400 'name of the hub' /v1/models/pull '{}'
expect 400 'name of the hub' /v1/models/pull "{\"model\":\"http://127.0.0.1:$other/good/Owner/Tale/Tale-Q4_K_M.gguf\"}"
expect 400 'model' /v1/models/pull '{"model":"../../etc/passwd"}'
expect 409 'nothing' /v1/models/pull/stop '{}'
expect 200 '"state":"fetching"' /v1/models/pull '{"model":"Owner/Nothing"}'
pulled '"failed".*has no'
expect 200 '"state":"fetching"' /v1/models/pull '{"model":"Owner/Tale:q4_k_m"}'
pulled '"done".*"model":"Owner/Tale/Tale-Q4_K_M"'
curl -s "$url/v1/models" | grep -q '"id":"Owner/Tale/Tale-Q4_K_M"' || fail "not listed"
for name in Owner/Tale/Tale-Q4_K_M Owner/Tale tale-q4_k_m; do
    expect 200 '"text"' /v1/completions "{\"model\":\"$name\",\"prompt\":\"Once\",\"max_tokens\":4}"
done
curl -s "$url/metrics" | grep -q 'model_loaded{model="Owner/Tale/Tale-Q4_K_M"} 1' || fail "not in /metrics"
expect 200 '"state":"fetching"' /v1/models/pull '{"model":"Owner/Tale:q4_k_m"}'
pulled '"done"' # a second time without a byte, and served once
[ "$(curl -s "$url/v1/models" | grep -o '"id":"Owner/Tale/Tale-Q4_K_M"' | wc -l)" = 1 ] || fail "served twice"
finish
grep -q 'was fetched, and is served as' "$log" || fail "the log does not say it"

# slow: one at a time, how far it is, stopped and taken up again; the end of the server stops it, too
serve_from slow --set http.pull=true
curl -s "$url/v1/models" | grep -q '"id":"Owner/Tale/Tale-Q4_K_M"' || fail "gone after a restart"
expect 200 '"state":"fetching"' /v1/models/pull '{"model":"Owner/Tale:f32"}'
pulled '"bytes_done":[1-9][0-9]*,"bytes":2[0-9]{7}'
expect 409 'one at a time' /v1/models/pull '{"model":"Owner/Tale:q4_k_m"}'
expect 200 '"text"' /v1/completions '{"prompt":"Once","max_tokens":4}'
expect 200 'pull' /v1/models/pull/stop '{}'
pulled '"stopped"'
expect 200 '"state":"fetching"' /v1/models/pull '{"model":"Owner/Tale:f32"}'
pulled '"bytes_done":[1-9]'
began=$(date +%s)
finish
[ $(($(date +%s) - began)) -le 5 ] || fail "the server waited for the hub"
[ ! -e "$dir/data/kentang/models/Owner/Tale/Tale-F32.gguf" ] || fail "named while unfinished"
: >"$dir/hub.log"
serve_from good --set http.pull=true
expect 200 '"state":"fetching"' /v1/models/pull '{"model":"Owner/Tale:f32"}'
pulled '"done"'
cmp -s "$dir/hub/Owner/Tale/Tale-F32.gguf" "$dir/data/kentang/models/Owner/Tale/Tale-F32.gguf" || fail "other bytes"
finish
echo "all as expected"
