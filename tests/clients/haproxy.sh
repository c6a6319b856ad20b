#!/bin/sh
# Three servers behind contrib/haproxy.cfg, one killed under load: every request is answered. usage: haproxy.sh KENTANG;
# needs haproxy and curl.
set -eu
kentang=$1
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
pids=""
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap cleanup EXIT
port=$((20000 + $$ % 20000))
config="$dir/haproxy.cfg"
sed "s/127.0.0.1:8000/127.0.0.1:$port/" "$here/../../contrib/haproxy.cfg" >"$config"
n=0
for name in a b c; do
    n=$((n + 1))
    sed -i "s/server $name 127.0.0.1:800$n/server $name 127.0.0.1:$((port + n))/" "$config"
    "$kentang" serve --no-config --no-env --socket none --listen "127.0.0.1:$((port + n))" -t 1 --parallel 2 \
        --set log.level=warn 2>"$dir/log.$name" &
    eval "pid_$name=$!"
    pids="$pids $!"
done
haproxy -f "$config" >"$dir/log.haproxy" 2>&1 &
pids="$pids $!"
url="http://127.0.0.1:$port"
for _ in $(seq 100); do
    curl -sf "$url/ready" >/dev/null && break
    sleep 0.1
done
body='{"prompt":"x","max_tokens":200,"ignore_eos":true,"seed":5}'
: >"$dir/codes"
(seq 300 | xargs -P 12 -I{} curl -s -o /dev/null -w '%{http_code}\n' -H 'Content-Type: application/json' -d "$body" \
    "$url/v1/completions" >"$dir/codes") &
load=$!
for _ in $(seq 200); do # until some were answered
    [ "$(wc -l <"$dir/codes" 2>/dev/null || echo 0)" -ge 40 ] && break
    sleep 0.05
done
kill -9 "$pid_b"
wait "$load"
sort "$dir/codes" | uniq -c
[ "$(grep -c '^200$' "$dir/codes")" -eq 300 ] || { echo "requests were lost" >&2; exit 1; }
echo "ok 300 requests, one of three servers killed meanwhile"
