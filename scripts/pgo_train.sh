#!/bin/sh
# What the profile-guided build is trained on: prompts, answers and streams in every tier this machine has, over the
# common types and architectures; sampling; the tokenizer and templates. A minute or two.
#   scripts/pgo_train.sh KENTANG
set -eu
kentang=${1:?usage: scripts/pgo_train.sh KENTANG}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bench() { "$kentang" bench --no-limits -r 1 -o csv "$@" >/dev/null 2>&1; }

for isa in amx avx512 avxvnni avx2 sse41 neon; do
    "$kentang" run --isa $isa -p Hi -n 1 >/dev/null 2>&1 || continue
    bench --isa $isa --preset smollm2-135m --quant q4_k_m -p 64 -n 8
    for quant in q4_k_m q8_0 q4_0 q6_k iq4_xs f16; do
        bench --isa $isa --preset tiny-llama --quant $quant -p 64 -n 16 -b 1,4
    done
    for preset in tiny-qwen2 tiny-gemma2 tiny-phi3; do
        bench --isa $isa --preset $preset -p 64 -n 16 -d 0,300
    done
done

for seed in 1 2 3; do
    "$kentang" run -p "Tell me a story about a dog and a boat." -n 100 --seed $seed >"$work/$seed.txt" 2>/dev/null
    "$kentang" run -p "How much is 17 plus 25?" -n 50 --temp 0 >/dev/null 2>&1
done
cat "$work"/*.txt | tr -d '"\\\t' | sed 's/.*/"&"/' >"$work/lines"
for _ in 1 2 3 4 5; do "$kentang" tokenize <"$work/lines" >/dev/null 2>&1 || true; done
