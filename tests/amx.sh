#!/bin/sh
# The amx tier's tests, whole: on a processor with AMX those of the tier itself, elsewhere its products in AVX2's vectors with
# emulated tiles. Names what was not run.
#   tests/amx.sh [BUILD_DIR]      (build)
set -eu
build=${1:-$(dirname "$0")/../build}
build=$(cd "$build" && pwd)
unset KENTANG_ISA KT_TEST_EVERY KT_TEST_ONLY
for program in kentang test_kernels_tiers test_ops_tiles test_engine_one_answer; do
    [ -x "$build/$program" ] || { echo "amx.sh: no $build/$program: build first" >&2; exit 2; }
done

run() {
    echo "amx: $*"
    "$@" >"$build/amx.log" 2>&1 || { cat "$build/amx.log"; exit 1; }
    grep -E '^(tiers:|AMX is emulated|the tier amx was skipped|skipped:)' "$build/amx.log" | sed 's/^/    /'
}
run env KT_TEST_TIER=amx "$build/test_kernels_tiers"
run "$build/test_ops_tiles"
why=$("$build/kentang" doctor --quick | sed -n 's/^kernels *//p')
case $why in
amx:*)
    run "$build/test_engine_one_answer"
    run sh "$(dirname "$0")/test_cli_demo_text.sh" "$build" "$(dirname "$0")/.."
    echo "amx: all of it was run"
    ;;
*)
    echo "amx: this machine has: $why"
    echo "amx: NOT RUN: the tier itself, in test_kernels_tiers, test_ops_tiles, test_engine_one_answer and test_cli_demo_text;"
    echo "    its speed: kentang bench --preset qwen2.5-1.5b --quant q4_k_m -p 512; bench_kernels --family gemm --tier amx (and avx512)"
    ;;
esac
