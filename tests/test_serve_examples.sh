#!/bin/sh
# The socket clients of examples/ in every language whose tools are here, against a server: all get the same answers.
#   test_serve_examples.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2 examples=$2/examples
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
socket=$dir/socket
"$build/kentang" serve --listen none --socket "$socket" --set sampling.temperature=0 --set ctx=512 >"$dir/log" 2>&1 &
server=$!
i=0
until [ -S "$socket" ]; do
    i=$((i + 1))
    [ $i -lt 300 ] || { cat "$dir/log" >&2; exit 1; }
    kill -0 "$server" 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
    sleep 0.1
done

have() { command -v "$1" >/dev/null 2>&1 || { echo "left out: $1 is not installed"; return 1; }; }
# The text of lines of JSON on standard input, escaped as it is there.
text_of() { sed -n 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p' | tr -d '\n'; }
# same NAME FILE WANTED
same() {
    cmp "$2" "$3" || { echo "failed: $1" >&2; exit 1; }
    echo "ok: $1"
}

# Clients that print the lines which come, for a text that is continued.
prompt="Once upon a time"
lines_from() {
    name=$1
    shift
    "$@" >"$dir/lines" 2>"$dir/errors" || { cat "$dir/errors" >&2; echo "failed: $name" >&2; exit 1; }
    grep -q '"done":true' "$dir/lines"
    text_of <"$dir/lines" >"$dir/text"
    same "$name" "$dir/text" "$dir/continued"
}
"$build/kentang" run --raw -c 512 -n 100 --temp 0 -p "$prompt" --json -q | text_of >"$dir/continued"
[ -s "$dir/continued" ]
lines_from C "$build/example_ask_socket" "$socket" "$prompt"
if command -v nc >/dev/null 2>&1 || command -v socat >/dev/null 2>&1; then
    lines_from shell sh "$examples/ask_socket.sh" "$socket"
fi
if have rustc; then
    rustc --edition 2021 -D warnings "$examples/ask_socket.rs" -o "$dir/ask_rust"
    lines_from Rust "$dir/ask_rust" "$socket" "$prompt"
fi

# Clients that print the text, for a question.
question="Who are you?"
printf '%s' "$("$build/kentang" run -c 512 -n 100 --temp 0 -p "$question" --plain -q)" >"$dir/answered"
text_from() {
    name=$1
    shift
    printf '%s' "$("$@" 2>"$dir/errors")" >"$dir/text"
    same "$name" "$dir/text" "$dir/answered" || { cat "$dir/errors" >&2; exit 1; }
}
have python3 && text_from Python python3 "$examples/ask_socket.py" --socket "$socket" "$question"
have node && text_from Node node "$examples/ask_socket.mjs" --socket "$socket" "$question"
if have go; then
    # Go compiles its own library where it has no cache of it yet: 20 s
    [ -d "$(go env GOCACHE)" ] || export GOCACHE="$build/bindings-go"
    GO111MODULE=off go build -o "$dir/ask_go" "$examples/ask_socket.go"
    text_from Go "$dir/ask_go" "$socket" "$question"
    status=0
    "$dir/ask_go" /no/such/socket x 2>/dev/null || status=$?
    [ "$status" -eq 1 ]
fi
echo "all the same"
