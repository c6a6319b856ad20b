#!/bin/sh
# Quantising what is loaded: folders and files, once, side by side, killed, over the limit, on a full disk; the words for it in the options,
# the environment and kentang.toml.
#   test_store_load_in.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
source=$2
python=
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || { echo "no python3 with numpy: skipped"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "failed: $1" >&2
    [ ! -f "$dir/err" ] || cat "$dir/err" >&2
    exit 1
}
unset KENTANG_LOAD_IN LOAD_IN_4BIT LOAD_IN_8BIT KENTANG_MODEL XDG_DATA_HOME
export PYTHONDONTWRITEBYTECODE=1 KENTANG_CONFIG= HOME="$dir/home" XDG_CACHE_HOME="$dir/cache"
copies=$dir/cache/kentang/load-in
(cd "$source/tests/convert" && "$python" -c 'import sys, models; models.write(models.MODELS["qwen2"], sys.argv[1])' "$dir/folder")
"$kentang" quantize -q "$source/src/lib/context/demo.gguf" "$dir/f16.gguf" f16 2>/dev/null

count() {
    find "$copies" -name '*.gguf' 2>/dev/null | wc -l
}

# a file, as the words say; the copy is what quantize makes of it, byte for byte
for pair in 4bit:iq4_xs 8bit:q8_0 q4_k_m:q4_k_m; do
    form=${pair%:*} recipe=${pair#*:}
    "$kentang" run -q -m "$dir/f16.gguf" --load-in $form -n 4 --temp 0 -p Once >"$dir/out" 2>"$dir/err" || fail "--load-in $form"
    grep -Eq -- "f16.gguf in $recipe: [0-9.]+ -> [0-9.]+ MB \(-[0-9]+%\) in [0-9.]+ s, kept as" "$dir/err" || fail "--load-in $form is told"
    "$kentang" quantize -q "$dir/f16.gguf" "$dir/own.gguf" $recipe 2>/dev/null
    cmp -s "$dir/own.gguf" "$copies"/*-$recipe.gguf || fail "--load-in $form: other bytes than quantize"
    "$kentang" run -q -m "$dir/f16.gguf" --load-in $form -n 4 --temp 0 -p Once >"$dir/out2" 2>"$dir/err" || fail "again"
    cmp -s "$dir/out" "$dir/out2" || fail "another text from the copy"
    if grep -q 'kept as' "$dir/err"; then fail "quantised twice"; fi
done
[ "$(count)" = 3 ] || fail "three copies"
# what is quantised already stays; as-is is the file itself
"$kentang" run -q -m "$source/src/lib/context/demo.gguf" --load-in 4bit -n 2 -p Once >/dev/null 2>"$dir/err" || fail "a quantised file"
"$kentang" run -q -m "$dir/f16.gguf" --load-in as-is -n 2 -p Once >/dev/null 2>"$dir/err" || fail "as-is"
"$kentang" run -q -m "$dir/f16.gguf" -n 2 -p Once >/dev/null 2>"$dir/err" || fail "a file without words"
[ "$(count)" = 3 ] || fail "copies of what needs none"
if "$kentang" run -m "$dir/f16.gguf" --load-in 3bit -p x 2>"$dir/err"; then fail "an unknown form"; fi
grep -q '4bit, 8bit' "$dir/err" || fail "the known forms are named"
# a folder: in 4bit without a word, and by every form
rm -rf "$copies"
for pair in :iq4_xs 8bit:q8_0 as-is:as-is; do
    form=${pair%:*} recipe=${pair#*:}
    echo '[1,5,9,30]' | "$kentang" logits -m "$dir/folder" ${form:+--load-in $form} >"$dir/out" 2>"$dir/err" || fail "a folder in $recipe"
    [ "$(count)" = 1 ] || fail "a folder in $recipe: $(ls "$copies")"
    type=""
    [ "$recipe" = as-is ] || type="--type $recipe"
    # shellcheck disable=SC2086
    "$kentang" convert -q "$dir/folder" "$dir/own.gguf" $type 2>/dev/null
    cmp -s "$dir/own.gguf" "$copies"/*-$recipe.gguf || fail "a folder in $recipe: other bytes than convert"
    rm -rf "$copies" "$dir/own.gguf"
done
# the environment and kentang.toml
form_of() { # EXPECTED-RECIPE ENVIRONMENT...
    expected=$1
    shift
    rm -rf "$copies"
    env "$@" "$kentang" run -q -m "$dir/f16.gguf" -n 2 -p Once >/dev/null 2>"$dir/err" || fail "$*"
    [ "$(ls "$copies" 2>/dev/null | sed -n 's/.*-\([a-z0-9_]*\)\.gguf$/\1/p')" = "$expected" ] || fail "$*: not $expected"
}
form_of iq4_xs LOAD_IN_4BIT=true
form_of q8_0 LOAD_IN_8BIT=true
form_of iq4_xs LOAD_IN_8BIT=1 LOAD_IN_4BIT=True
form_of "" LOAD_IN_4BIT=false
form_of q6_k KENTANG_LOAD_IN=q6_k
cat >"$dir/kentang.toml" <<TOML
load_in = "8bit"
[[models]]
name = "small"
path = "$dir/f16.gguf"
load_in = "q5_k_m"
TOML
form_of q8_0 KENTANG_CONFIG="$dir/kentang.toml"
rm -rf "$copies"
KENTANG_CONFIG=$dir/kentang.toml "$kentang" run -q -m small -n 2 -p Once >/dev/null 2>"$dir/err" || fail "load_in of a model"
[ -f "$copies"/*-q5_k_m.gguf ] || fail "load_in of [[models]]"
KENTANG_CONFIG=$dir/kentang.toml "$kentang" serve --check --no-env --config "$dir/kentang.toml" >"$dir/out" || fail "serve --check"
grep -q '^load_in = "q5_k_m"' "$dir/out" || fail "--check prints load_in of a model"

# two at once make one copy; a change of the source makes another
rm -rf "$copies"
"$kentang" run -q -m "$dir/f16.gguf" --load-in 4bit -n 2 -p Once >/dev/null 2>"$dir/err" &
first=$!
"$kentang" run -q -m "$dir/f16.gguf" --load-in 4bit -n 2 -p Once >/dev/null 2>"$dir/err2" || fail "the second of two"
wait $first || fail "the first of two"
[ "$(count)" = 1 ] || fail "two at once"
[ "$(cat "$dir/err" "$dir/err2" | grep -c 'kept as')" = 1 ] || fail "two at once: quantised $(cat "$dir/err" "$dir/err2")"
touch "$dir/f16.gguf"
"$kentang" run -q -m "$dir/f16.gguf" --load-in 4bit -n 2 -p Once >/dev/null 2>"$dir/err" || fail "a touched source"
[ "$(count)" = 2 ] || fail "a touched source has a copy of its own"
# the limit: what was used longest ago goes
KENTANG_LOAD_IN_MAX=10M "$kentang" run -q -m "$dir/f16.gguf" --load-in 8bit -n 2 -p Once >/dev/null 2>"$dir/err" || fail "the limit"
[ "$(count)" -le 2 ] && [ -f "$copies"/*-q8_0.gguf ] || fail "the limit: $(ls -l "$copies")"
# killed in the middle, and a full disk: nothing under a final name, and the next start is good
rm -rf "$copies"
for _ in 1 2 3; do
    timeout -s KILL 0.05 "$kentang" run -q -m "$dir/f16.gguf" --load-in 4bit -n 2 -p Once >/dev/null 2>&1 || true
done
(ulimit -f 1000; trap '' XFSZ; "$kentang" run -q -m "$dir/f16.gguf" --load-in 8bit -n 2 -p Once >/dev/null 2>"$dir/err") && fail "a full disk"
[ ! -e "$copies"/*-q8_0.gguf ] || fail "half a copy"
"$kentang" run -q -m "$dir/f16.gguf" --load-in 4bit -n 2 -p Once >/dev/null 2>"$dir/err" || fail "after a kill"
"$kentang" quantize -q "$dir/f16.gguf" "$dir/own.gguf" iq4_xs 2>/dev/null
cmp -s "$dir/own.gguf" "$copies"/*-iq4_xs.gguf || fail "after a kill: other bytes"
echo "load-in: all as it should be"
