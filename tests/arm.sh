#!/bin/sh
# 64-bit ARM under the emulator: cross-compiles, runs the kernel tests on processors with and without dot products and
# I8MM, and compares text and logits with this machine's.
#   tests/arm.sh [--full] [--clang] [BUILD_DIR [NATIVE_BUILD_DIR]]      (build-arm, build)
# --full: also the whole test suite on an emulated processor with everything, and test_engine_one_answer in every
# layer program (half an hour). --clang: compiles with clang too, warnings as errors.
# Needs gcc-aarch64-linux-gnu, qemu-user, and for the first run the network (Debian's arm64 libraries).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
full=0 clang=0
while :; do
    case "${1:-}" in
    --full) full=1 ;;
    --clang) clang=1 ;;
    *) break ;;
    esac
    shift
done
build=${1:-$root/build-arm} native=${2:-$root/build}
sysroot=${KT_ARM_SYSROOT:-$root/build-arm/sysroot}
mkdir -p "$build"
build=$(cd "$build" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
unset KENTANG_ISA QEMU_CPU

command -v qemu-aarch64 >/dev/null || { echo "arm.sh: no qemu-aarch64: apt-get install qemu-user" >&2; exit 2; }
command -v aarch64-linux-gnu-gcc >/dev/null || {
    echo "arm.sh: no cross compiler: apt-get install gcc-aarch64-linux-gnu" >&2
    exit 2
}

# check NAME COMMAND...: runs it, says PASS or FAIL
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "PASS $name"
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        sed 's/^/    /' "$work/log" | tail -12
        failed=$((failed + 1))
    fi
}

# compile DIR [cmake arguments]
compile() {
    dir=$1
    shift
    cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKT_WERROR=ON -DKT_ARM_SYSROOT="$sysroot" \
        -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" "$@" && ninja -C "$dir"
}

test_on() { QEMU_CPU=$1 qemu-aarch64 -L "$sysroot" "$build/$2"; }
kentang_on() {
    cpu=$1
    shift
    QEMU_CPU=$cpu "$build/emulated/kentang" "$@"
}

# The tier that a processor gets by itself.
tier_is() {
    kentang_on "$1" run --temp 0 -n 1 -p x >/dev/null 2>"$work/stderr"
    cat "$work/stderr"
    grep -q "| $2," "$work/stderr"
}

refuses() {
    code=0
    KENTANG_ISA=$2 kentang_on "$1" run --temp 0 -n 1 -p x >"$work/out" 2>"$work/stderr" || code=$?
    cat "$work/stderr"
    [ "$code" -eq 6 ] && [ ! -s "$work/out" ] && grep -q "'$2' needs" "$work/stderr"
}

# golden_text CPU TIER THREADS: the demo model's greedy answers
golden_text() {
    sed -n 's/^> //p' "$root/tests/golden/demo_greedy.txt" | while IFS= read -r prompt; do
        printf '> %s\n' "$prompt"
        KENTANG_ISA=$2 kentang_on "$1" run -t "$3" --temp 0 -p "$prompt"
        echo
    done >"$work/got" 2>"$work/stderr"
    cmp "$root/tests/golden/demo_greedy.txt" "$work/got"
}

# same_logits CPU TIER MODEL: equal to those that this machine computes
same_logits() {
    echo '[1,5,9,100,200,300,7,2,11,40,41,42,43,44,45,46,47,48,49,50]' >"$work/ids"
    KENTANG_ISA=$2 kentang_on "$1" logits -m "$3" -t 2 <"$work/ids" >"$work/there"
    "$native/kentang" logits -m "$3" -t 1 <"$work/ids" >"$work/here"
    [ -s "$work/here" ] && cmp "$work/here" "$work/there"
}

# Only the tiers' own files hold instructions beyond ARMv8.0 (and these do).
baseline_only() {
    beyond='	([su]dot|[su]*mmla|bf(dot|mmla|mlal|cvt)[a-z0-9]*|ld(add|clr|set|eor)[a-z]*|swp[a-z]*|casp?[a-z]*|sqrdml[as]h|fml[as]l2?|ptrue)	'
    find "$build"/CMakeFiles/kt_*.dir "$build"/CMakeFiles/kentang.dir -name '*.o' >"$work/objects"
    [ "$(wc -l <"$work/objects")" -gt 30 ] || return 1
    grep -vE 'tier_(dotprod|i8mm)' "$work/objects" | xargs aarch64-linux-gnu-objdump -d --no-show-raw-insn |
        grep -E "$beyond" | head -5 >"$work/found"
    cat "$work/found"
    [ ! -s "$work/found" ] || return 1
    grep -E 'tier_(dotprod|i8mm)_q256' "$work/objects" | xargs aarch64-linux-gnu-objdump -d --no-show-raw-insn |
        grep -cE "$beyond"
}

echo "== build"
check "Debian's arm64 libraries" "$root/scripts/arm_sysroot.sh" "$sysroot"
check "gcc, warnings as errors" compile "$build"
[ $clang -eq 0 ] || check "clang, warnings as errors" compile "$build-clang" -DKT_ARM_CLANG=ON -DKT_TESTS=OFF
[ $failed -eq 0 ] || { echo "arm: the build failed"; exit 1; }
check "instructions beyond the baseline in the tiers alone" baseline_only

echo "== kernels, byte for byte the reference's"
# neither dot products nor I8MM; dot products; both
for cpu in cortex-a53 neoverse-n1 max; do
    for test in test_base test_host_cpu test_kernels_ref test_kernels_vector test_kernels_tiers; do
        check "$cpu: $test" test_on $cpu $test
    done
done

echo "== the choice of a tier"
check "cortex-a53: neon" tier_is cortex-a53 neon
check "cortex-a72: neon" tier_is cortex-a72 neon
check "cortex-a76: dotprod" tier_is cortex-a76 dotprod
check "neoverse-n1: dotprod" tier_is neoverse-n1 dotprod
check "max: i8mm" tier_is max i8mm
check "cortex-a53 refuses dotprod" refuses cortex-a53 dotprod
check "cortex-a76 refuses i8mm" refuses cortex-a76 i8mm
check "cortex-a53: --help" kentang_on cortex-a53 --help
check "cortex-a53: doctor" kentang_on cortex-a53 doctor --quick

echo "== text and logits, byte for byte this machine's"
check "cortex-a53, neon, 1 thread: golden text" golden_text cortex-a53 neon 1
check "cortex-a76, dotprod, 2 threads: golden text" golden_text cortex-a76 dotprod 2
check "max, i8mm, 3 threads: golden text" golden_text max i8mm 3
check "max, ref: golden text" golden_text max ref 1
if [ -x "$native/kentang" ]; then
    for fixture in tiny-llama:q4_k_m tiny-qwen2:q4_0 tiny-qwen3:iq4_xs tiny-gemma2:q6_k tiny-gemma3:bf16 tiny-phi3:q2_k tiny-gpt-oss:mxfp4_moe; do
        model=$work/model.gguf
        "$native/kentang" synth --preset "${fixture%:*}" --quant "${fixture#*:}" --seed 3 "$model" >/dev/null 2>&1
        for tier in neon dotprod i8mm; do
            check "$tier: logits of ${fixture%:*} ${fixture#*:}" same_logits max $tier "$model"
        done
    done
else
    echo "skipped: no $native/kentang to compare logits with"
fi

echo "== the engine"
check "test_engine_one_answer, q4_0" env KT_TEST_ONLY='*q4_0' QEMU_CPU=max qemu-aarch64 -L "$sysroot" \
    "$build/test_engine_one_answer"
check "test_engine_live_threads" test_on max test_engine_live_threads
check "test_engine_corrupt" test_on max test_engine_corrupt
[ $full -eq 0 ] || {
    check "test_engine_one_answer, all" test_on max test_engine_one_answer
    (cd "$build" && ctest -j "$(nproc)" --output-on-failure -E 'test_(engine_one_answer|kernels_tiers)')
}

echo "arm: $passed passed, $failed failed"
[ $failed -eq 0 ]
