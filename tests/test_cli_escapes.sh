#!/bin/sh
# Names from a hostile file cannot steer a terminal: no command passes on a control character of general.name, of a tensor's name in an
# error, or of a file's name.
# usage: test_cli_escapes.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
kentang=$build/kentang
command -v python3 >/dev/null 2>&1 || exit 77

fail() { echo "failed: $*" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir XDG_DATA_HOME=$dir XDG_CACHE_HOME=$dir HOME=$dir
cd "$dir"

# the demo model with another name of the same length, and with a damaged tensor's name
python3 - "$source/src/lib/context/demo.gguf" <<'PYTHON'
import sys
data = open(sys.argv[1], "rb").read()
key = b"general.name"
at = data.index(key) + len(key) + 4 + 8
n = int.from_bytes(data[at - 8:at], "little")
evil = (b"\x1b]0;OWNED\x07\x1b[2J" + b"x" * n)[:n]
open("evil.gguf", "wb").write(data[:at] + evil + data[at + n:])
name = b"token_embd.weight"
open("wrong.gguf", "wb").write(data.replace(name, b"token\x1b[2J_\x07weigh"))
PYTHON
cp evil.gguf "$(printf 'a\033[31mb.gguf')"
mkdir -p kentang/models
cp evil.gguf "$(printf 'kentang/models/c\033[31md.gguf')"

# clean WHAT COMMAND...: nothing of its output is a control character but the newline and the tab
clean() {
    what=$1
    shift
    "$@" >"$dir/said" 2>&1 </dev/null || true
    [ -s "$dir/said" ] || fail "$what: no output"
    tr -d '\n\t\r' <"$dir/said" | LC_ALL=C grep -q '[[:cntrl:]]' && fail "$what: $(cat -v "$dir/said")"
    return 0
}
clean "run, the plan" "$kentang" run -m evil.gguf -n 1 -p Hi
clean "run, a file's name" "$kentang" run -m "$(printf 'a\033[31mb.gguf')" -n 1 -p Hi
clean "run, no such file" "$kentang" run -m "$(printf './none\033[31m.gguf')" -n 1 -p Hi
clean "run, a tensor's name" "$kentang" run -m wrong.gguf -n 1 -p Hi
clean "bench" "$kentang" bench -m evil.gguf -p 8 -n 2 -r 1 --no-limits
clean "inspect" "$kentang" inspect evil.gguf
clean "list" "$kentang" list
clean "show" "$kentang" show "$(printf 'c\033[31md')"
clean "perplexity" "$kentang" perplexity -m wrong.gguf -f evil.gguf
