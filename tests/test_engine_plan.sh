#!/bin/sh
# What `kentang plan` says before is what happens: messages and bytes of a token, counted through MPI's profiling interface,
# for models of each kind, two to four processes, equal and other shares. Where experts are divided, which ones are chosen
# decides how many there are, within a tenth. Skipped where MPI is not installed.
# usage: test_engine_plan.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
command -v mpirun >/dev/null 2>&1 && command -v mpicc >/dev/null 2>&1 && [ -f "$1/libkentang-mpi.so" ] || exit 77
here=$(dirname "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$here/peers/env.sh"
fail() {
    echo "failed: $1" >&2
    tail -3 "$dir/err" >&2
    exit 1
}
mpicc -shared -fPIC -o "$dir/count.so" "$here/peers/count_mpi.c"
count() { # a file, processes, shares, tokens: a line "messages bytes" of each process
    rm -f "$1".*
    timeout 120 mpirun --oversubscribe -n "$2" -x LD_PRELOAD="$dir/count.so" -x KT_COUNT="$1" "$kentang" run -m "$dir/model.gguf" \
        -p aab --ignore-eos --draft-max -1 --temp 0 -c 512 -t 1 --split "$3" --split-least "$least" -n "$4" >"$dir/out" 2>"$dir/err" </dev/null || fail "$preset by $2"
    cat "$1".*
}
is_as_planned() { # processes, shares, how near
    count "$dir/few" "$1" "$2" 4 >"$dir/of_few"
    count "$dir/many" "$1" "$2" 24 >"$dir/of_many"
    paste -d ' ' "$dir/of_few" "$dir/of_many" | awk '{ print ($3 - $1) / 20, ($4 - $2) / 20 }' | paste -d ' ' "$dir/planned" - >"$dir/both"
    awk -v near="$3" 'function far(a, b) { return a > b * (1 + near) || a < b * (1 - near) } far($1, $3) || far($2, $4) { bad = 1 } END { exit bad }' \
        "$dir/both"
}
# preset, processes, shares, what is divided at least
while read -r preset n split least; do
    "$kentang" synth --preset "$preset" --quant q4_k_m --seed 3 "$dir/model.gguf" >/dev/null 2>"$dir/err" || fail "synth $preset"
    "$kentang" plan -m "$dir/model.gguf" --machines "$n" -c 512 --split "$split" --split-least "$least" --speeds 1 --json >"$dir/plan" 2>"$dir/err" || fail "plan of $preset"
    sed -n '/"ranks"/,$p' "$dir/plan" | tr -d ' ,"' | awk -F: '/^messages/ { m = $2 } /^sent_bytes/ { print m, $2 }' >"$dir/planned"
    [ "$(wc -l <"$dir/planned")" -eq "$n" ] || fail "the plan of $preset has other processes"
    case $preset in
    *moe | *oss | *deepseek2) near=0.1 ;;
    *) near=0 ;;
    esac
    is_as_planned "$n" "$split" $near || {
        cat "$dir/both" >&2
        fail "$preset, $n processes ($split): other messages and bytes are sent than planned"
    }
done <<'LIST'
tiny-llama 2 1,1 1
tiny-llama 4 3,1,1,1 1
tiny-qwen2 3 1,1,1 1
tiny-gemma4 2 1,2 1
tiny-gemma3n 2 1,1 1
tiny-gpt-oss 3 0,1,1 1
tiny-qwen3moe 2 2,1 1
tiny-qwen2moe 2 1,1 1
tiny-deepseek2 2 1,1 1
tiny-lfm2 4 1,1,1,1 1
tiny-qwen35 3 1,2,4 1
tiny-mamba2 2 1,1 1
tiny-gemma3n 2 1,1 40K
tiny-gemma2 3 1,1,1 0
LIST
exit 0
