#!/bin/sh
# A long prompt's first token without a cache, and from the disk cache of a process that was killed.
#   bench/disk_cache.sh KENTANG MODEL [TOKENS [THREADS]]
# TOKENS (8192): about so many are in the prompt. DROP=1 empties the page cache before the last run (needs root).
# Prints one JSON object; exit 1 where the answers differ.
set -eu
kentang=$1
model=$2
tokens=${3:-8192}
threads=${4:-$(nproc)}
dir=$(mktemp -d "${TMPDIR:-/tmp}/kentang-disk-XXXXXX")
trap 'rm -rf "$dir"' EXIT

# words of no meaning: nothing in the prompt repeats itself for long
awk -v n="$tokens" 'BEGIN {
    split("the a cat dog house tree river small old red walks sees under over with from and then why never", w, " ")
    x = 12345
    for (i = 0; i < n; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "%s ", w[int(x / 65536) % 20 + 1] }
}' >"$dir/prompt"

ask() { # ask OUT [options]
    out=$1
    shift
    "$kentang" run -m "$model" --raw -f "$dir/prompt" -c $((tokens * 2)) -n 16 --temp 0 --ignore-eos -t "$threads" --json "$@" >"$out" 2>"$dir/err" || {
        cat "$dir/err" >&2
        exit 1
    }
}
field() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }

ask "$dir/without"
# the writer is killed when its answer begins
"$kentang" run -m "$model" --raw -f "$dir/prompt" -c $((tokens * 2)) -n 4096 --temp 0 --ignore-eos -t "$threads" \
    --cache-dir "$dir/cache" >"$dir/partial" 2>/dev/null &
writer=$!
while [ ! -s "$dir/partial" ] && kill -0 $writer 2>/dev/null; do sleep 0.05; done
sleep 1
kill -9 $writer
wait $writer 2>/dev/null || true
[ "${DROP:-0}" = 0 ] || { sync && echo 3 >/proc/sys/vm/drop_caches; }
ask "$dir/with" --cache-dir "$dir/cache"

python3 - "$dir/without" "$dir/with" "$(du -sb "$dir/cache" | cut -f1)" "$threads" <<'PY'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:3])
same = a["text"] == b["text"]
print(json.dumps({"prompt_tokens": a["prompt_tokens"], "cached_tokens": b["cached_tokens"],
                  "cache_bytes": int(sys.argv[3]), "threads": int(sys.argv[4]),
                  "first_token_ms_without": round(a["first_token_ms"], 1),
                  "first_token_ms_with": round(b["first_token_ms"], 1),
                  "ratio": round(a["first_token_ms"] / b["first_token_ms"], 1), "same_answer": same}))
sys.exit(0 if same else 1)
PY
