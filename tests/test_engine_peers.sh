#!/bin/sh
# Several processes over MPI compute the bytes of one: logits of models of each kind, with keys and values in f16, 8 and 4
# bits, by two to four processes. Skipped where MPI is not installed.
# usage: test_engine_peers.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
command -v mpirun >/dev/null 2>&1 && [ -f "$1/libkentang-mpi.so" ] || exit 77
. "$(dirname "$0")/peers/env.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "failed: $1" >&2
    tail -3 "$dir/err" >&2
    exit 1
}
job() { # N, then kentang's arguments
    n=$1
    shift
    timeout 120 mpirun --oversubscribe -n "$n" "$kentang" "$@"
}
awk 'BEGIN { for (i = 1; i <= 90; i++) list = list (i * 7 % 250 + 3) ","; print "[" list "5]" }' >"$dir/ids"
# preset, processes, type of keys and values
while read -r preset n kv; do
    "$kentang" synth --preset "$preset" --quant q4_k_m --seed 3 "$dir/model.gguf" >/dev/null 2>"$dir/err" || fail "synth $preset"
    "$kentang" logits -m "$dir/model.gguf" --kv "$kv" -c 512 <"$dir/ids" >"$dir/one" 2>"$dir/err" || fail "$preset alone"
    job "$n" logits -m "$dir/model.gguf" --kv "$kv" -c 512 -t 1 <"$dir/ids" >"$dir/many" 2>"$dir/err" || fail "$preset by $n"
    [ -s "$dir/one" ] && cmp "$dir/one" "$dir/many" || fail "$preset, $kv: $n processes have other bytes than one"
done <<'LIST'
tiny-llama 2 f16
tiny-llama 4 q8
tiny-qwen2 3 q4
tiny-gemma2 2 f16
tiny-gemma2 3 q8
tiny-gemma4 4 f16
tiny-gemma3n 3 f16
tiny-gpt-oss 2 q4
tiny-qwen3moe 3 f16
tiny-deepseek2 2 f16
tiny-lfm2 4 q8
tiny-qwen35 3 f16
tiny-mamba2 2 f16
tiny-mamba 3 f16
LIST
job 2 run -m "$dir/none.gguf" -p x >/dev/null 2>"$dir/err" </dev/null && fail "a model that is not there was run"
exit 0
