#!/bin/sh
# Tool calls: published answers of models through `kentang parse`, cut at every byte, and the right answers of BFCL
# tasks written in every format, held to the constraint and read back.
#   tests/peer/calls.sh BUILD_DIR
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?usage: tests/peer/calls.sh BUILD_DIR}" && pwd)
data=$root/../shared/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$root/tests/peer/calls_check.py" "$build/kentang" --data "$data" --cuts
(cd "$root" && ${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -g -Isrc/lib -Isrc/program -Iinclude -Itests -o "$work/calls" tests/peer/calls.c \
    src/lib/calls/*.c src/lib/chat/*.c src/lib/grammar/*.c src/lib/jinja/*.c src/lib/base/*.c -lutf8proc -lm -lpthread)
"$work/calls" "$data/structured/bfcl.jsonl"
