#!/bin/sh
# kentang bench --server against a server over the demo model, by HTTP and by the socket, at a rate and by clients; and without a server.
set -eu
. "$(dirname "$0")/serve_shell.sh"
start --listen 127.0.0.1:0 --socket "$dir/k.sock"
url=$(url_of)
for target in "$url" "unix:$dir/k.sock"; do
    "$kentang" bench --server "$target" --requests 12 --rate 40 -n 8 --json >"$dir/out"
    grep -q '"requests":12,"answered":12,"refused":0,"failed":0' "$dir/out" || { cat "$dir/out"; exit 1; }
    grep -q '"first_token_ms":{"p50":' "$dir/out"
done
for target in "$url" "$dir/k.sock" none; do # clients that ask again and again, on a connection each
    "$kentang" bench --server "$target" --requests 20 --clients 4 -n 8 --fresh --warm 1 --json >"$dir/out"
    grep -q '"requests":20,"answered":20,"refused":0,"failed":0' "$dir/out" || { cat "$dir/out"; exit 1; }
    grep -q '"gap_ms":{"p50":' "$dir/out"
    grep -q '"cpu_seconds":0\.' "$dir/out"
done
# what is fresh is so for a server that answered another bench before: no prompt finds a block of 16 in the cache, though the
# first token or two of any two may be the same
cached() { "$kentang" ps --socket "$dir/k.sock" --json | sed -n 's/.*"cached_tokens": *\([0-9]*\).*/\1/p'; }
before=$(cached)
for _ in 1 2; do
    "$kentang" bench --server "$url" --requests 4 --clients 2 -n 2 --fresh --prompt "$(seq -s ' ' 60)" --json >"$dir/out"
done
now=$(cached)
[ $((now - before)) -lt $((8 * 16)) ] || { echo "fresh prompts were found in the cache: $before, then $now"; exit 1; }
"$kentang" bench --server "$url" --requests 3 --rate 50 -n 4 | grep -q 'first token'
for bad in ftp://x http:// 'http://[::1' http://:80; do
    if "$kentang" bench --server "$bad" 2>/dev/null; then echo "$bad was taken"; exit 1; fi
done
finish
