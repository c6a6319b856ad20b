#!/bin/sh
# The configuration's TOML parser against Python's tomllib.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=python3
"$python" -c 'import tomllib' 2>/dev/null || python=/usr/bin/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -O1 -g -fsanitize=address,undefined -I"$root/src/lib" -I"$root/src/program" -I"$root/include" -o "$work/toml" \
    "$root/tests/peer/toml.c" "$root/src/program/setup/toml.c" "$root/src/program/setup/toml.c" "$root/src/lib/base/alloc.c" "$root/src/lib/base/alloc.c" \
    "$root/src/lib/base/error.c" "$root/src/lib/base/text.c" -lpthread
"$python" "$root/tests/peer/toml.py" "$work/toml" "${KT_TOML_N:-20000}"
