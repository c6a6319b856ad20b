#!/bin/sh
# Real vocabularies and malformed files of ../shared/data through the GGUF reader: `kentang inspect` must read
# the former and end every one of the latter with a documented exit code, quickly.
# Usage: tests/peer/gguf.sh [BUILD]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
data=$root/../shared/data
failed=0
for file in "$data"/vocab/*.gguf "$data"/models/*.gguf; do
    "$build/kentang" inspect --tensors --json "$file" >/dev/null || failed=$((failed + 1))
done
n=0
for file in "$data"/fuzz-seeds/a/gguf_open/* "$data"/fuzz-seeds/b/*; do
    [ -f "$file" ] || continue
    n=$((n + 1))
    code=0
    timeout 10 "$build/kentang" inspect --tensors "$file" >/dev/null 2>&1 || code=$?
    case $code in
    0 | 3 | 5 | 6 | 7) ;;
    *)
        echo "gguf.sh: exit code $code for $file" >&2
        failed=$((failed + 1))
        ;;
    esac
done
echo "gguf.sh: $n malformed files, $failed failures"
[ "$failed" -eq 0 ]
