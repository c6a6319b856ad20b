#!/bin/sh
# Who sends the answer and the figures to one file can read it; who sends them apart gets the answer alone.
#   tests/test_cli_run_log.sh RUN_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() { "$kentang" run --temp 0 -n 4 -p "Hello"; }

run >"$work/answer" 2>"$work/rest"
run >"$work/log" 2>&1
[ "$(wc -l <"$work/rest")" -eq 2 ] || { echo "expected a line of plan and one of figures:"; cat "$work/rest"; exit 1; }
[ "$(wc -l <"$work/answer")" -eq 0 ] || { echo "the answer alone ends without a newline"; exit 1; }
[ "$(sed -n 2p "$work/log")" = "$(cat "$work/answer")" ] || { echo "the answer is no line of its own:"; cat "$work/log"; exit 1; }
sed -n 3p "$work/log" | grep -q '^kentang: prompt' || { echo "no figures on a line of their own:"; cat "$work/log"; exit 1; }
