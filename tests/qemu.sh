#!/bin/sh
# The binary on processors that this machine is not: Conroe (SSSE3: the reference tier), Nehalem (SSE4.2: the sse41
# tier), Haswell (AVX2) and, of the emulator's, one with all it has. The same text and logits as here, a clear refusal of a tier that is not there, and
# no illegal instruction anywhere.
#   tests/qemu.sh BUILD_DIR     (needs qemu-x86_64 of Debian's qemu-user)
set -eu
build=${1:?usage: tests/qemu.sh BUILD_DIR}
kentang=$build/kentang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
unset KENTANG_ISA

case $(uname -m) in x86_64 | amd64) ;; *) echo "skipped: the emulated processors are x86-64"; exit 0 ;; esac
command -v qemu-x86_64 >/dev/null || { echo "qemu.sh: no qemu-x86_64: apt-get install qemu-user" >&2; exit 2; }

# check NAME COMMAND...: runs it, says PASS or FAIL
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "PASS $name"
    else
        echo "FAIL $name"
        sed 's/^/    /' "$work/log" | tail -5
        failed=$((failed + 1))
    fi
}

on() {
    cpu=$1
    shift
    qemu-x86_64 -cpu "$cpu" "$@"
}

answer() { "$@" run -t 2 --temp 0 -n 8 -p "Tell me a short story about a cat." 2>"$work/stderr"; }
logits() { echo '[1,5,9,100,200,300,7]' | "$@" logits -t 2 2>"$work/stderr"; }

# same WHAT CPU: WHAT's output there equals the one here
same() {
    "$1" on "$2" "$kentang" >"$work/there" || { cat "$work/stderr"; return 1; }
    "$1" "$kentang" >"$work/here" || { cat "$work/stderr"; return 1; }
    [ -s "$work/here" ] && cmp "$work/here" "$work/there"
}

# tier_is CPU ISA: the plan line says so
tier_is() {
    answer on "$1" "$kentang" >/dev/null
    cat "$work/stderr"
    grep -qw "$2" "$work/stderr"
}

# The sse41 tier's kernels against the reference, whose fma the C library computes there without FMA.
kernels() {
    [ -x "$build/test_kernels_vector" ] || { echo "no test_kernels_vector in $build"; return 1; }
    KT_TEST_TIER=sse41 qemu-x86_64 -cpu "$1" "$build/test_kernels_vector" || return 1
    KT_TEST_TIER=sse41 KT_TEST_EVERY=41 qemu-x86_64 -cpu "$1" "$build/test_kernels_tiers"
}

refuses() {
    cpu=$1 isa=$2
    code=0
    KENTANG_ISA=$isa qemu-x86_64 -cpu "$cpu" "$kentang" run --temp 0 -n 1 -p x >"$work/out" 2>"$work/stderr" || code=$?
    cat "$work/stderr"
    [ "$code" -eq 6 ] && [ ! -s "$work/out" ] && grep -q "'$isa' needs" "$work/stderr"
}

for cpu in Conroe Nehalem Haswell max; do
    check "$cpu: --help" on $cpu "$kentang" --help
    check "$cpu: run --help" on $cpu "$kentang" run --help
    check "$cpu: doctor --quick" on $cpu "$kentang" doctor --quick
done
check "Conroe: tier ref" tier_is Conroe ref
check "Nehalem: tier sse41" tier_is Nehalem sse41
check "Haswell: tier avx2" tier_is Haswell avx2
for cpu in Conroe Nehalem Haswell max; do
    check "$cpu: the same text" same answer $cpu
    check "$cpu: the same logits" same logits $cpu
done
check "Nehalem: the kernels" kernels Nehalem
check "Conroe refuses sse41" refuses Conroe sse41
check "Nehalem refuses avx2" refuses Nehalem avx2
check "Nehalem refuses avx512" refuses Nehalem avx512
check "Haswell refuses avx512" refuses Haswell avx512
check "Haswell as ref: the same text" env KENTANG_ISA=ref sh -c '
    [ "$(qemu-x86_64 -cpu Haswell "$1" run -t 1 --temp 0 -n 8 -p hello 2>/dev/null)" = "$("$1" run --temp 0 -n 8 -p hello 2>/dev/null)" ]' sh "$kentang"
[ $failed -eq 0 ] && echo "qemu: all passed" || echo "qemu: $failed failed"
[ $failed -eq 0 ]
