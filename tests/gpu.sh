#!/bin/sh
# Graphics processors at length, on Mesa's software driver: many models whole and in parts, trained ones by their logits and greedy
# text, the validation layer silent, and the options that meet a device.
#   tests/gpu.sh BUILD [FOLDER]     FOLDER: of trained models (*.gguf)
set -eu
build=$1
folder=${2:-$HOME/.cache/kentang-trained}
kentang=$build/kentang
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME="$dir"
fail() {
    echo "failed: $1" >&2
    exit 1
}
on_gpu="--device llvmpipe -ngl"

echo "validation layer"
export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
KT_TEST_GPU=all "$build/test_gpu_device" >"$dir/out" 2>&1 || fail "the device's test: $(tail -3 "$dir/out")"
"$build/test_engine_gpu" >>"$dir/out" 2>&1 || fail "the engine's test: $(tail -3 "$dir/out")"
unset VK_INSTANCE_LAYERS
if grep -qi 'validation' "$dir/out"; then fail "the validation layer: $(grep -i validation "$dir/out" | head -3)"; fi

echo "trained models"
for model in "$folder"/*.gguf; do
    [ -e "$model" ] || { echo "skipped: no models in $folder"; break; }
    echo '[1,2,3,4,5,6,7]' >"$dir/ids"
    "$kentang" logits -m "$model" <"$dir/ids" >"$dir/want"
    for n in 99 4; do
        # shellcheck disable=SC2086
        "$kentang" logits -m "$model" $on_gpu $n <"$dir/ids" >"$dir/got" 2>"$dir/err"
        cmp "$dir/want" "$dir/got" || fail "$model: logits with -ngl $n"
    done
    "$kentang" run -q --temp 0 -n 8 -m "$model" -p 'The capital of France is' >"$dir/want"
    # shellcheck disable=SC2086
    "$kentang" run -q --temp 0 -n 8 -m "$model" -p 'The capital of France is' $on_gpu 99 >"$dir/got" 2>"$dir/err"
    cmp "$dir/want" "$dir/got" || fail "$model: text"
    echo "  $(basename "$model"): logits and text are the processor's"
done

echo "many models: 1, 7 and 300 tokens, keys and values in f16, q8 and q4, 1 and 4 sequences, half of the layers and all; options"
KT_TEST_GPU=all "$build/test_engine_gpu" >"$dir/out" 2>&1 || fail "$(grep -E 'differs|FAILED|ERROR' "$dir/out" | head -5)"
sed -n 's/^\[ *OK *\] /  alike: /p' "$dir/out"
