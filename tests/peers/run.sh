#!/bin/sh
# What is too long for ctest of several processes over MPI: one of them, chosen at random, is killed twenty times in the
# middle of answers.
# usage: run.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$build/kentang" synth --preset tiny-qwen2 --quant q4_k_m --seed 3 model.gguf >/dev/null
for processes in 2 4; do
    python3 "$here/kill.py" "$build/kentang" model.gguf --processes $processes --times 10
done
