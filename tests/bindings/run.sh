#!/bin/sh
# The bindings and the socket clients in every language, on the embedded model. A language whose toolchain is not here is
# named and left out, unless KT_BINDINGS_ALL=1.
#   run.sh BUILD_DIR [LANGUAGE...]
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
shift
languages=${*:-python cpp rust node go sockets}
. "$source/tests/bindings/expected.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '== %s\n' "$*"; }
# needs PROGRAM...: whether all are here
needs() {
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 && continue
        [ "${KT_BINDINGS_ALL:-0}" != 1 ] || { echo "error: $program is not installed" >&2; exit 1; }
        echo "left out: $program is not installed"
        return 1
    done
}

# same_as_c COMMAND...: the example says what examples/embed.c says
same_as_c() {
    "$@" >"$work/said" && cmp "$work/said" "$work/c_said"
}

run_python() {
    needs python3 || return 0
    sh "$source/tests/test_api_python.sh" "$build" "$source"
    PYTHONPATH="$source/bindings/python" same_as_c python3 -B "$source/examples/embed.py"
}
run_cpp() { needs c++ && sh "$source/tests/test_api_cpp.sh" "$build" "$source"; }
run_sockets() { sh "$source/tests/test_serve_examples.sh" "$build" "$source"; }
run_rust() {
    needs cargo || return 0
    export CARGO_TARGET_DIR="$build/bindings-rust" KENTANG_LIB_DIR="$build"
    (cd "$source/bindings/rust" && cargo test -q && cargo run -q --example ask -- "$text")
}
run_node() {
    needs node cc || return 0
    KENTANG_LIB_DIR=$build sh "$source/bindings/node/build.sh" "$work/kentang.node"
    KENTANG_ADDON="$work/kentang.node" node --test "$source/bindings/node/test.mjs" >"$work/log" || { cat "$work/log" >&2; exit 1; }
    grep -E '^# (pass|fail) ' "$work/log"
    KENTANG_ADDON="$work/kentang.node" same_as_c node "$source/bindings/node/ask.mjs"
}
run_go() {
    needs go cc || return 0
    cd "$source/bindings/go"
    # go's cache does not look into headers: a flag that changes with ours
    header=$(cksum <"$source/include/kentang.h" | tr ' ' _)
    export GOPROXY=off GOCACHE="$build/bindings-go" CGO_CFLAGS="-I$source/include -DKT_HEADER_$header" CGO_LDFLAGS="-L$build"
    go vet ./...
    go test -count=1 .
    same_as_c go run ./ask
}

expect_from "$build" "$work/expected.json"
export KENTANG_EXPECTED="$work/expected.json" KENTANG_INCLUDE="$source/include" KENTANG_LIBRARY="$build/libkentang.so" \
    KENTANG_QUESTION="$question" KENTANG_ANSWER="$answer" KENTANG_N="$n" KENTANG_TEXT="$text" LD_LIBRARY_PATH="$build"
KENTANG_PROMPT_IDS=$(numbers_of "$prompt_ids") KENTANG_IDS=$(numbers_of "$ids")
export KENTANG_PROMPT_IDS KENTANG_IDS
"$build/example_embed" >"$work/c_said"
for language in $languages; do
    say "$language"
    (set -e; "run_$language")
done
say "all passed"
