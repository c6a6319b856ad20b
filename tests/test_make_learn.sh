#!/bin/sh
# kentang learn: what it refuses, that its adapter is the same on every tier, is read by the engine and can be gone on from.
set -eu
kentang=$1/kentang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "test_make_learn: $*" >&2; exit 1; }

# ---- lines that are wrong: the error names the line and what it misses ----
refused() {
    printf '%s\n%s\n' '{"prompt":"Hello","answer":"Hi"}' "$1" >"$work/bad.jsonl"
    "$kentang" learn "$work/bad.jsonl" --own 0 --steps 1 >/dev/null 2>"$work/err" && fail "took $1"
    grep -q 'line 2' "$work/err" || fail "$1: $(cat "$work/err")"
    grep -qF -- "$2" "$work/err" || fail "$1: $(cat "$work/err")"
}
refused '{"prompt":"a","correction":' ''
refused '[1]' 'no JSON object'
refused '{"correction":"b"}' 'neither "prompt"'
refused '{"messages":[],"correction":"b"}' 'neither "prompt"'
refused '{"messages":[{"role":"user"}],"correction":"b"}' 'a message without'
refused '{"prompt":"a","rating":"up"}' 'without the answer'
refused '{"prompt":"a","answer":"b","rating":"good"}' '"rating" is neither'
refused '{"prompt":"a","correction":"b","keep":true}' '"keep" together'
refused '{"prompt":"a","answer":""}' 'an empty answer'
refused '{"prompt":"a","answer":"b","weight":2}' '"weight"'
refused '{"prompt":"a","answer":"b","weight":"x"}' '"weight"'
"$kentang" learn "$work/none.jsonl" >/dev/null 2>"$work/err" && fail "took a file that is not there"
"$kentang" learn >/dev/null 2>"$work/err" && fail "took no file"

# ---- too little to judge: refused by the gate, written only by force ----
printf '%s\n' '{"prompt":"Where is the cup?","correction":"In the sea."}' '{"prompt":"Hello","answer":"Hello!","keep":true}' >"$work/few.jsonl"
code=0
"$kentang" learn "$work/few.jsonl" --steps 2 -o "$work/few.gguf" >"$work/out" 2>/dev/null || code=$?
[ "$code" = 3 ] || fail "exit code $code where the gate refuses"
grep -q 'too few to measure' "$work/out" || fail "$(cat "$work/out")"
[ ! -e "$work/few.gguf" ] || fail "a refused adapter was written"

# ---- one adapter, whatever computes; it goes on; the engine reads it ----
train() {
    to=$1
    shift
    "$kentang" learn "$work/few.jsonl" --deep --steps 3 --held-out 0 --rank 2 --force -o "$work/$to" "$@" >/dev/null 2>"$work/err" && fail "published"
    [ -s "$work/$to" ] || fail "$(cat "$work/err")"
}
train a.gguf
train b.gguf --isa ref -t 1
cmp -s "$work/a.gguf" "$work/b.gguf" || fail "another adapter on the reference tier with one thread"
train c.gguf --from "$work/a.gguf"
cmp -s "$work/a.gguf" "$work/c.gguf" && fail "--from begins anew"
"$kentang" learn "$work/few.jsonl" --steps 1 --rank 2 --from "$work/a.gguf" >/dev/null 2>"$work/err" && fail "went on from other matrices"
"$kentang" run --lora "$work/a.gguf" -n 4 --temp 0 -p "Hello" >/dev/null 2>"$work/err" || fail "$(cat "$work/err")"

