#!/bin/sh
# Random texts that schemas' constraints take, judged by jsonschema and, with NODE_MODULES, by ajv.
# Usage: tests/peer/walks.sh CASES.jsonl|numbers [NODE_MODULES]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -I"$root/src/lib" -I"$root/src/program" -I"$root/include" -o "$work/walk" "$root/tests/peer/schema_walk.c" \
    "$root"/src/lib/grammar/*.c "$root"/src/lib/base/*.c -lutf8proc -lm -lpthread
cases=$1
shift
if [ "$cases" = numbers ]; then
    cases="$work/numbers.jsonl"
    python3 "$root/tests/peer/number_schemas.py" >"$cases"
fi
python3 "$root/tests/peer/walks.py" "$work/walk" "$cases" "$@"
