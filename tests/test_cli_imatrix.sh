#!/bin/sh
# kentang imatrix and what quantize makes of it: the same files on every tier and with every number of threads, adding up,
# less loss the more is known of the model's activations, and refusals.
set -eu
kentang=$1/kentang
demo=$2/src/lib/context/demo.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "test_cli_imatrix: $*" >&2; exit 1; }
same() { cmp -s "$1" "$2" || fail "$3"; }

# ---- gathering ----
"$kentang" imatrix -m "$demo" --chunks 1 -o "$work/a" 2>"$work/err" || fail "$(cat "$work/err")"
grep -q '56 matrices, 1 chunks of 512 tokens' "$work/err" || fail "said $(cat "$work/err")"
"$kentang" imatrix -m "$demo" --chunks 1 -t 1 --isa ref -o "$work/b" 2>/dev/null
same "$work/a" "$work/b" "another importance matrix on the reference tier with one thread"
"$kentang" imatrix "$work/a" "$work/b" -o "$work/sum" 2>"$work/err"
grep -q '56 matrices, 2 chunks' "$work/err" || fail "added up: $(cat "$work/err")"

"$kentang" synth --preset tiny-qwen3moe --quant q8_0 "$work/experts.gguf" >/dev/null 2>&1
"$kentang" imatrix -m "$work/experts.gguf" --chunks 1 -o "$work/none" 2>"$work/err" && fail "a matrix of experts"
grep -q 'columns of experts are not measured' "$work/err" || fail "said $(cat "$work/err")"

# ---- one answer ----
quantise() {
    to=$1
    shift
    "$kentang" quantize "$demo" "$work/$to" q8_0 -q --keep 'blk.*.attn_[qkv].weight=q4_k' --keep 'blk.*.ffn_down.weight=q3_k' \
        --keep 'blk.*.ffn_gate.weight=iq4_xs' --keep 'blk.*.attn_output.weight=q4_0' "$@" 2>"$work/err" || fail "$(cat "$work/err")"
}
quantise plain
quantise careful --imatrix "$work/a"
quantise doubled --imatrix "$work/sum"
same "$work/careful" "$work/doubled" "the scale of an importance matrix matters"
quantise fast --imatrix "$work/a" --fit fast
quantise feedback --fit feedback --calib-tokens 2048
quantise short --fit feedback --calib-tokens 512
# of floats, which the layers that a text goes through have in 8 bits
"$kentang" quantize "$demo" "$work/floats" bf16 -q 2>/dev/null
of_floats() { "$kentang" quantize "$work/floats" "$work/$1" q4_k_m -q --fit feedback --calib-tokens 1024 "$2" "$3" 2>"$work/err" || fail "$(cat "$work/err")"; }
of_floats floats1 -t 3
export KENTANG_ISA=ref
quantise careful2 --imatrix "$work/a" -t 1
same "$work/careful" "$work/careful2" "another careful file on the reference tier with one thread"
quantise fast2 --imatrix "$work/a" --fit fast -t 3
same "$work/fast" "$work/fast2" "another fast file on the reference tier with three threads"
# The reference takes half a minute for a text that goes through the layers: the plainest of the other tiers.
KENTANG_ISA=ref
for tier in sse41 neon; do
    "$kentang" imatrix -m "$demo" --chunks 1 --isa $tier -o "$work/tier" 2>/dev/null || continue
    same "$work/a" "$work/tier" "another importance matrix on the tier $tier"
    KENTANG_ISA=$tier
    break
done
quantise short2 --fit feedback --calib-tokens 512 -t 1
same "$work/short" "$work/short2" "another feedback file on the tier $KENTANG_ISA with one thread"
unset KENTANG_ISA
of_floats floats2 -t 1 # their sums are those of the files above
same "$work/floats1" "$work/floats2" "another feedback file of floats with one thread"

# ---- what it is good for ----
i=0
while [ $i -lt 10 ]; do
    echo "Once upon a time, on day $i, there was a little robot called Tom. He lived in a house by the sea and had a friend."
    echo "Dahulu ada seekor kucing yang tinggal di toko tua. Ia menunggu $i hari, lalu seorang anak membawanya pulang."
    i=$((i + 1))
done >"$work/text"
kl() { "$kentang" perplexity -m "$work/$1" --kl "$demo" -f "$work/text" --exact --context 128 --json | sed 's/.*"kl":\([^,]*\),.*/\1/'; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 < b + 0) }'; }
plain=$(kl plain) feedback=$(kl feedback)
below "$feedback" "$(awk -v x="$plain" 'BEGIN { print 0.8 * x }')" || fail "feedback $feedback, plain $plain"

# ---- types by what they cost ----
smallest() { "$kentang" quantize "$demo" "$work/$1" auto -q --calib "$work/text" --imatrix "$work/a" --target-"$2" "$3" 2>"$work/err" || fail "$(cat "$work/err")"; }
smallest sized size 3950K
grep -q 'a KL of about 0' "$work/err" || fail "auto said $(cat "$work/err")"
[ "$(wc -c <"$work/sized")" -le 4044800 ] || fail "auto is too large"
[ "$(wc -c <"$work/sized")" -gt 3860000 ] || fail "auto left room"
"$kentang" quantize "$demo" "$work/recipe" q4_k_s -q --imatrix "$work/a" 2>/dev/null
below "$(kl sized)" "$(kl recipe)" || fail "auto in 3950 KiB is no better than a recipe of $(wc -c <"$work/recipe") bytes"

# ---- refusals ----
refused() {
    want=$1 say=$2
    shift 2
    code=0
    "$kentang" "$@" >"$work/out" 2>"$work/err" || code=$?
    [ $code -eq "$want" ] && grep -q "$say" "$work/err" || fail "$* ended with $code: $(cat "$work/err")"
    [ ! -e "$work/none" ] || fail "$* left a file"
}
printf 'one word' >"$work/short"
refused 2 'auto takes either' quantize "$demo" "$work/none" auto
refused 2 'for the type auto' quantize "$demo" "$work/none" q4_0 --target-kl 0.1
refused 2 'FILE is missing' imatrix -m "$demo"
refused 2 'not one chunk' imatrix -m "$demo" -f "$work/short" -o "$work/none"
refused 5 'not an importance matrix' imatrix "$demo" -o "$work/none"
refused 5 'not a GGUF file' quantize "$demo" "$work/none" q4_k_m --imatrix "$work/text"
refused 2 'not one chunk' quantize "$demo" "$work/none" q4_k_m --fit feedback --calib "$work/short"
"$kentang" synth --preset tiny-qwen2 --quant f32 "$work/other" >/dev/null 2>&1 || fail "synth"
refused 2 'of another model' quantize "$work/other" "$work/none" q8_0 --imatrix "$work/a"
head -c 3000 "$work/a" >"$work/cut"
refused 5 '' quantize "$demo" "$work/none" q4_k_m --imatrix "$work/cut"
echo "imatrix and feedback: ok"
