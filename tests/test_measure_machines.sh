#!/bin/sh
# `kentang doctor --mpi`: every process' machine is in the table, with what was measured, and the line for `plan` at its end is
# one that plan takes. Skipped where MPI is not installed.
# usage: test_measure_machines.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
"$kentang" doctor --mpi >/dev/null 2>&1 && exit 1 # no launcher
command -v mpirun >/dev/null 2>&1 && [ -f "$1/libkentang-mpi.so" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/peers/env.sh"
fail() {
    echo "failed: $1" >&2
    cat "$dir/out" "$dir/err" >&2
    exit 1
}
for n in 2 3; do
    timeout 120 mpirun --oversubscribe -n $n "$kentang" doctor --mpi -t 1 >"$dir/out" 2>"$dir/err" || fail "doctor by $n"
    awk -v n=$n '/^[0-9]/ { rows++; if ($1 != rows - 1 || $6 <= 0 || (rows > 1 ? $8 : $7) <= 0) bad = 1 } END { exit bad || rows != n }' "$dir/out" ||
        fail "the table of $n"
    sed -n 's/^kentang plan -m MODEL//p' "$dir/out" >"$dir/line"
    # shellcheck disable=SC2046
    "$kentang" plan $(cat "$dir/line") --json >"$dir/plan" 2>"$dir/err" || fail "the line for plan"
    [ "$(grep -c '"share"' "$dir/plan")" = $n ] || fail "plan takes the line for other machines"
done
timeout 120 mpirun --oversubscribe -n 2 "$kentang" doctor --mpi --json -t 1 >"$dir/out" 2>"$dir/err" || fail "doctor --json"
[ "$(grep -c '"product_bytes_per_s": [0-9]' "$dir/out")" = 2 ] && grep -q '"exchange_us": [0-9]' "$dir/out" || fail "the JSON"
exit 0
