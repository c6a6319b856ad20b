#!/bin/sh
# Several processes over MPI compute the bytes of one: logits of models of each kind, with keys and values in f16, 8 and 4
# bits, by two to eight processes with equal and other shares and with kernels of different tiers, and with adapters; what was
# taught is recalled. Skipped where MPI is not installed.
# usage: test_engine_peers.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
command -v mpirun >/dev/null 2>&1 && [ -f "$1/libkentang-mpi.so" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/peers/env.sh"
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
mixed() { # the same; processes 1 and 3 compute with the reference's kernels
    n=$1
    shift
    timeout 120 mpirun --oversubscribe -n "$n" sh -c 'case $OMPI_COMM_WORLD_RANK in 1 | 3) export KENTANG_ISA=ref ;; esac; exec "$@"' - "$kentang" "$@"
}
awk 'BEGIN { for (i = 1; i <= 260; i++) list = list (i * 7 % 250 + 3) ","; print "[" list "5]" }' >"$dir/ids"
# preset, processes, type of keys and values, shares
while read -r preset n kv split; do
    "$kentang" synth --preset "$preset" --quant q4_k_m --seed 3 "$dir/model.gguf" >/dev/null 2>"$dir/err" || fail "synth $preset"
    "$kentang" logits -m "$dir/model.gguf" --kv "$kv" -c 512 <"$dir/ids" >"$dir/one" 2>"$dir/err" || fail "$preset alone"
    run=job least=1
    [ "$n" = 2 ] && [ "$kv" = q8 ] && least=20K # some matrices are divided, others are not
    [ "${split%,*}" = "$split" ] || run=mixed
    [ "$split" = - ] && split=
    $run "$n" logits -m "$dir/model.gguf" --kv "$kv" -c 512 -t 1 --split "$split" --split-least "$least" <"$dir/ids" >"$dir/many" 2>"$dir/err" || fail "$preset by $n"
    [ -s "$dir/one" ] && cmp "$dir/one" "$dir/many" || fail "$preset, $kv: $n processes ($split) have other bytes than one"
done <<'LIST'
tiny-llama 2 f16 -
tiny-llama 4 q8 -
tiny-llama 4 q8 3,1,1,1
tiny-llama 3 f16 0,1,1
tiny-llama 8 q8 -
tiny-qwen2 3 q4 -
tiny-qwen2 4 f16 1,1,1,5
tiny-qwen2 2 q8 0,1
tiny-qwen2 2 f16 auto
tiny-gemma2 2 f16 -
tiny-gemma2 3 q8 1,4,1
tiny-gemma4 4 f16 2,1,2,1
tiny-gemma3n 3 f16 auto
tiny-gpt-oss 2 q4 -
tiny-gpt-oss 4 f16 1,0,3,1
tiny-qwen3moe 2 q8 -
tiny-qwen3moe 3 f16 2,1,1
tiny-qwen2moe 4 f16 -
tiny-olmoe 2 f16 1,5
tiny-llama4 3 f16 1,1,2
tiny-llama4-c 3 q8 1,1,2
tiny-deepseek2 2 f16 3,1
tiny-lfm2 4 q8 1,0,3,1
tiny-qwen35 3 f16 1,2,4
tiny-mamba2 2 f16 -
tiny-mamba 3 f16 1,1,2
LIST
# Adapters, of every matrix and of the final hidden state: preset, processes, shares.
while read -r preset n split; do
    "$kentang" synth --preset "$preset" --quant q4_k_m --seed 3 "$dir/model.gguf" >/dev/null 2>"$dir/err" || fail "synth $preset"
    "$kentang" synth --lora 8 --base "$dir/model.gguf" "$dir/all.gguf" >/dev/null 2>"$dir/err" || fail "synth an adapter"
    "$kentang" synth --lora 5 --lora-kind hidden --base "$dir/model.gguf" "$dir/hidden.gguf" >/dev/null 2>"$dir/err" || fail "synth an adapter"
    set -- --lora "$dir/all.gguf" --lora "$dir/hidden.gguf=0.5"
    "$kentang" logits -m "$dir/model.gguf" <"$dir/ids" >"$dir/none" 2>"$dir/err" || fail "$preset alone"
    "$kentang" logits -m "$dir/model.gguf" "$@" <"$dir/ids" >"$dir/one" 2>"$dir/err" || fail "$preset with adapters"
    job "$n" logits -m "$dir/model.gguf" "$@" -t 1 --split "$split" --split-least 1 <"$dir/ids" >"$dir/many" 2>"$dir/err" || fail "$preset by $n"
    cmp -s "$dir/none" "$dir/one" && fail "$preset: the adapters change nothing"
    cmp "$dir/one" "$dir/many" || fail "$preset with adapters: $n processes ($split) have other bytes than one"
done <<'LIST'
tiny-llama 3 2,1,4
tiny-phi3 2 1,1
tiny-qwen35 3 1,1,1
tiny-nemotronh 2 1,3
LIST
# What was taught is recalled.
export XDG_DATA_HOME="$dir/data"
printf 'Where is the ladder?\n/fix It is at the mill.\n' | job 2 run -q -i --plain --learn --temp 0 >/dev/null 2>"$dir/err" || fail "teaching"
[ "$(job 2 run -q --learn --temp 0 -p "Where is the ladder?" 2>"$dir/err" </dev/null)" = "It is at the mill." ] || fail "what was taught is not recalled"
while read -r split words; do
    job 2 logits -m "$dir/model.gguf" --split "$split" <"$dir/ids" >/dev/null 2>"$dir/err" && fail "--split $split was taken"
    grep -q "$words" "$dir/err" || fail "--split $split is refused in other words"
done <<'LIST'
2,1,1 numbers for 3 processes, but the launcher started 2
2,x expected auto, or a number
0,0 no process a part
LIST
job 2 logits -m "$dir/model.gguf" -ngl 2 <"$dir/ids" >/dev/null 2>"$dir/err" && fail "several processes took a graphics processor"
grep -q "several processes and a graphics processor exclude each other" "$dir/err" || fail "-ngl is refused in other words"
job 2 run -m "$dir/none.gguf" -p x >/dev/null 2>"$dir/err" </dev/null && fail "a model that is not there was run"
exit 0
