#!/bin/sh
# kentang bench --server against a server over the demo model, by HTTP and by the socket, at a rate and by clients; and without a server.
set -eu
kentang=$1/kentang
dir=$(mktemp -d)
: >"$dir/log"
"$kentang" serve --no-config --no-env --listen 127.0.0.1:0 --socket "$dir/k.sock" 2>"$dir/log" &
server=$!
trap 'kill -9 $server 2>/dev/null || true; rm -rf "$dir"' EXIT
url=""
for _ in $(seq 200); do
    url=$(sed -n 's/.* ready .*http=\(http:[^ ]*\).*/\1/p' "$dir/log")
    [ -n "$url" ] && break
    sleep 0.05
done
for target in "$url" "unix:$dir/k.sock"; do
    "$kentang" bench --server "$target" --requests 12 --rate 40 -n 8 --json >"$dir/out"
    grep -q '"requests":12,"answered":12,"refused":0,"failed":0' "$dir/out" || { cat "$dir/out"; exit 1; }
    grep -q '"first_token_ms":{"p50":' "$dir/out"
done
for target in "$url" "$dir/k.sock" none; do # clients that ask again and again, on a connection each
    "$kentang" bench --server "$target" --requests 20 --clients 4 -n 8 --fresh --warm 1 --json >"$dir/out"
    grep -q '"requests":20,"answered":20,"refused":0,"failed":0' "$dir/out" || { cat "$dir/out"; exit 1; }
    grep -q '"gap_ms":{"p50":' "$dir/out"
done
"$kentang" bench --server "$url" --requests 3 --rate 50 -n 4 | grep -q 'first token'
if "$kentang" bench --server ftp://x 2>/dev/null; then exit 1; fi
kill -TERM $server
wait $server
