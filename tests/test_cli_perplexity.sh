#!/bin/sh
# kentang perplexity and compare as a user runs them: one figure on every tier and with every number of threads, a
# base as a model and as a file, and what is wrong said with its exit code.
set -eu
kentang=$1/kentang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "test_cli_perplexity: $*" >&2; exit 1; }

i=0
while [ $i -lt 40 ]; do
    echo "Once upon a time, on day $i, there was a small potato. It was happy because the rain came to the garden."
    i=$((i + 1))
done >"$work/text"
demo=$2/src/lib/context/demo.gguf

# without the line's speed, the same bytes everywhere
figures() { "$kentang" perplexity -m "$demo" -f "$work/text" --context 64 --json "$@" | sed 's/,"tok_s":[^,}]*//'; }
figures >"$work/best"
grep -q '"perplexity":[0-9]' "$work/best" || fail "no perplexity: $(cat "$work/best")"
figures --isa ref >"$work/ref"
cmp -s "$work/best" "$work/ref" || fail "another figure with --isa ref: $(cat "$work/best" "$work/ref")"
figures -t 1 -ub 16 >"$work/one"
cmp -s "$work/best" "$work/one" || fail "another figure with one thread"

# a base: the model itself, and a file of it
figures --kl "$demo" | grep -q '"kl":0[.0]*,' || fail "a model is not far from itself"
figures --kl-save "$work/base.kld" >/dev/null
"$kentang" perplexity -m "$demo" --kl "$work/base.kld" --json >"$work/kl"
grep -q '"same_token":1[.0]*,' "$work/kl" || fail "not itself by its file: $(cat "$work/kl")"

"$kentang" compare "$demo" "$demo" -f "$work/text" --context 64 | grep -q "KL mean 0.000000" || fail "compare"

refused() {
    want=$1
    shift
    code=0
    "$kentang" "$@" >"$work/out" 2>"$work/err" || code=$?
    [ $code -eq "$want" ] || fail "$* ended with $code, not $want: $(cat "$work/err")"
    [ -s "$work/err" ] && [ ! -s "$work/out" ] || fail "$* said nothing, or wrote to stdout"
}
refused 2 perplexity -m "$demo"
refused 2 perplexity -m "$demo" -f "$work/text" --context 4096
refused 2 perplexity -m "$demo" -f "$work/text" --context 64 --stride 64
refused 5 perplexity -m "$demo" --kl "$work/text"
refused 4 perplexity -m "$demo" -f "$work/absent"
refused 2 compare "$demo"
echo "perplexity and compare: ok"
