#!/bin/sh
# A server of several processes of which one is killed in the middle of answers, or hangs, or dies while nothing is
# computed, or has another file, or whose launcher ends: every request ends, at once, one line says which process was lost,
# and no process is left. scripts/check --mpi kills twenty times. Skipped where MPI is not installed.
# usage: test_serve_peers_lost.sh BUILD_DIR SOURCE_DIR
set -eu
. "$(dirname "$0")/serve_shell.sh"
command -v mpirun >/dev/null 2>&1 && command -v python3 >/dev/null && [ -f "$1/libkentang-mpi.so" ] || exit 77
kill=$2/tests/peers/kill.py
unset XDG_RUNTIME_DIR
. "$(dirname "$0")/peers/env.sh"
cd "$dir"
"$kentang" synth --preset tiny-qwen2 --quant q4_k_m --seed 3 model.gguf >/dev/null || fail "synth"

python3 "$kill" "$kentang" model.gguf --rank 1 --seconds 10 || fail "a process is killed"
python3 "$kill" "$kentang" model.gguf --rank 0 --seconds 10 || fail "process 0 is killed"
python3 "$kill" "$kentang" model.gguf --rank 1 --signal STOP --deadline 2 --seconds 12 || fail "a process hangs"
python3 "$kill" "$kentang" model.gguf --rank -1 --signal TERM --seconds 10 || fail "mpirun gets SIGTERM"
python3 "$kill" "$kentang" model.gguf --rank -1 --seconds 10 || fail "mpirun is killed"

launcher="mpirun --oversubscribe -n 2"
start -m model.gguf --listen 127.0.0.1:0
kill -9 "$(ps -o pid= --ppid "$server" | sort -n | tail -1)"
wait "$server" && fail "a process dies, and the exit code is 0"
server=""
grep -q 'error .*process 1 on [^ ]*: no answer' "$log" || fail "no line says which process died"

mkdir here there
cp model.gguf here
"$kentang" synth --preset tiny-qwen2 --quant q4_k_m --seed 4 there/model.gguf >/dev/null || fail "synth"
for command in "serve --listen 127.0.0.1:0" "run -p hello"; do
    set -- $command -m model.gguf
    timeout 60 mpirun --oversubscribe -n 1 -wdir "$dir/here" "$kentang" "$@" : -n 1 -wdir "$dir/there" "$kentang" "$@" >"$log" 2>&1 &&
        fail "another file is taken"
    grep -q 'process 1 on [^ ]*: model.gguf is another file' "$log" || fail "$command does not name who has another file"
done
rm there/model.gguf
timeout 60 mpirun --oversubscribe -n 1 -wdir "$dir/here" "$kentang" "$@" : -n 1 -wdir "$dir/there" "$kentang" "$@" >"$log" 2>&1 &&
    fail "a missing file is taken"
grep -q 'error: process 1 on [^ ]*: no file' "$log" || fail "no line says who has no file"
exit 0
