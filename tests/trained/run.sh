#!/bin/sh
# What trained models prove (prove.py), and what they make of calls and of JSON: a server for each model, its questions, and the
# figures, which must not be below those that were measured (docs/TOOLS.md has them).
#   tests/trained/run.sh BUILD_DIR [--small] [FOLDER]
# FOLDER (~/.cache/kentang-trained) has GGUF files of instruction models; those that are named below have floors, others are measured
# alone. Where it lacks a file that prove.py names, ../shared/tools/trained fetches them, if it is there. --small: prove.py's short
# form alone. KT_LLAMA: a folder with llama.cpp's tools, whose figures are printed next to ours; KT_TEXT: the text of the perplexities.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: tests/trained/run.sh BUILD_DIR [FOLDER]}" && pwd)
shift
small=
[ "${1:-}" != --small ] || { small=--small; shift; }
folder=${1:-$HOME/.cache/kentang-trained}
fetch=$here/../../../shared/tools/trained
[ -n "$(ls "$folder" 2>/dev/null)" ] || [ ! -f "$fetch" ] || python3 "$fetch" "$folder"
work=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
set -- "$folder"/*.gguf
[ -f "$1" ] || { echo "no GGUF file in $folder" >&2; exit 1; }

# start FILE: a server of it at $url
start() {
    "$build/kentang" serve --no-config --no-env -m "$1" --listen 127.0.0.1:0 --socket none >"$work/log" 2>&1 &
    server=$!
    url=
    while [ -z "$url" ]; do
        kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
        url=$(sed -n 's/.* ready .*http=\(http:[^ ]*\).*/\1/p' "$work/log")
        sleep 0.2
    done
}

# least NAME: floors of calls.py, right where the model meant a call and quiet where the question needs none
least() {
    case $1 in
    qwen2.5-coder-1.5b*) echo "--least 90 50" ;;
    *) echo "--least 0 0" ;;
    esac
}

status=0
python=/usr/bin/python3
"$python" -c 'import numpy' 2>/dev/null || python=python3
"$python" "$here/prove.py" "$build/kentang" "$folder" $small ${KT_TEXT:+--text "$KT_TEXT"} ${KT_LLAMA:+--llama "$KT_LLAMA"} || status=1
[ -z "$small" ] || exit $status
for file; do
    name=$(basename "$file" .gguf)
    if ! "$build/kentang" inspect "$file" 2>/dev/null | grep -q chat_template; then
        echo "== $name: no chat template, left out"
        continue
    fi
    echo "== $name"
    start "$file"
    # shellcheck disable=SC2046
    python3 "$here/calls.py" "$url" $(least "$name") || status=1
    python3 "$here/extract.py" "$url" free object schema
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
done
exit $status
