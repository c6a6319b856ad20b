#!/bin/sh
# Machines with 1 Gbit between them, as network namespaces (root): answers have the bytes of one process, what passes the wire
# is what `kentang plan` says, and so is the speed. Where this system has no namespaces, or is busy, it says so.
# usage: net_check.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/net.sh"
kentang=$build/kentang
dir=$(mktemp -d)
fail() {
    echo "failed: $1" >&2
    tail -3 "$dir/err" >&2
    exit 1
}
net_can || {
    echo "network namespaces with limited ports: not on this system, or not for you; skipped"
    exit 0
}
trap 'net_down; rm -rf "$dir"' EXIT
cd "$dir"

# bytes: machine 1 has the reference's kernels
net_up 3
awk 'BEGIN { for (i = 1; i <= 90; i++) list = list (i * 7 % 250 + 3) ","; print "[" list "5]" }' >ids
for preset in tiny-qwen2 tiny-gemma2 tiny-qwen3moe; do
    "$kentang" synth --preset $preset --quant q4_k_m --seed 3 tiny.gguf >/dev/null 2>err || fail "synth $preset"
    "$kentang" logits -m tiny.gguf -c 512 <ids >one 2>err || fail "$preset alone"
    net_job 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export KENTANG_ISA=ref; exec "$@"' - "$kentang" logits -m tiny.gguf -c 512 -t 1 --split 2,1,1 --split-least 1 \
        <ids >many 2>err || fail "$preset by three machines"
    cmp one many || fail "$preset: other bytes"
    echo "$preset: three machines and kernels of two tiers have the bytes of one process"
done

# the wire: what machine 1 sends for 40 tokens more, with TCP's and Ethernet's own bytes
net_up 2
"$kentang" synth --preset qwen2.5-1.5b --quant q4_k_m model.gguf >/dev/null 2>err || fail "synth"
sent() { # TOKENS
    before=$(ip netns exec kt-1 cat /sys/class/net/wire/statistics/tx_bytes)
    net_job 2 "$kentang" run -m model.gguf -p x --ignore-eos --draft-max -1 --temp 0 -c 512 -t 1 -n "$1" >out 2>err </dev/null || fail "run by two machines"
    after=$(ip netns exec kt-1 cat /sys/class/net/wire/statistics/tx_bytes)
    echo $((after - before))
}
"$kentang" plan -m model.gguf --machines 2 -c 512 --speeds 1 --json >plan 2>err || fail "plan"
planned=$(tr -d ' ,"' <plan | awk -F: '/^sent_bytes/ { b = $2 } END { print b }')
few=$(sent 8)
many=$(sent 48)
echo "$few $many $planned" | awk '{ wire = ($2 - $1) / 40; printf "a token: %.1f KB on the wire, %.1f planned\n", wire / 1e3, $3 / 1e3; exit wire < $3 || wire > 1.15 * $3 + 4000 }' ||
    fail "the wire carries something else"

# speed: plan gets what doctor measures; five times each, medians
rate() { sed -n 's/.*tg32 *| *\([0-9.]*\).*/\1/p' "$1"; }
median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }
busy=0
: >measured
: >expected
for round in 1 2 3 4 5; do
    net_job 2 "$kentang" doctor --mpi -t 1 >table 2>err || fail "doctor --mpi"
    # shellcheck disable=SC2046
    "$kentang" plan $(sed -n 's/^kentang plan -m MODEL/-m model.gguf/p' table) -c 512 --json >plan 2>err || fail "plan with doctor's figures"
    sed -n 's/.*"tok_s": \([0-9.]*\).*/\1/p' plan >>expected
    net_job 2 "$kentang" bench -m model.gguf -t 1 -p 0 -n 32 -r 3 >out 2>err || fail "bench by two machines"
    ! grep -q 'the machine was busy' err || busy=$((busy + 1))
    rate out >>measured
done
cat table
echo "$(median <measured) $(median <expected)" | awk '{ printf "two machines at 1 Gbit: %.1f tok/s measured, %.1f expected\n", $1, $2; exit $1 < 0.85 * $2 || $1 > 1.15 * $2 }' || {
    [ "$busy" -gt 0 ] || fail "the speed is not what plan expects"
    echo "the machine was busy in $busy of 5 rounds: the speed says nothing"
}
