#!/bin/sh
# Chat templates against python3-jinja2 as transformers configures it.
# Usage: tests/peer/templates.sh [GENERATED [SEED]]
# Renders the cases and the real templates of ../shared/data, then GENERATED (default 3000) templates made
# from SEED (default 1). Needs Debian's python3-jinja2, libjansson-dev and libutf8proc-dev.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
data=$root/../shared/data
[ -d "$data/templates" ] || { echo "templates.sh: no $data/templates" >&2; exit 2; }
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import jinja2' 2>/dev/null ||
    { echo "templates.sh: $python has no jinja2; remedy: apt-get install python3-jinja2" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$root" && ${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -g -Isrc/lib -Isrc/program -Iinclude -Itests -o "$work/driver" tests/peer/templates.c \
    src/lib/jinja/jinja*.c src/lib/jinja/json.c src/lib/chat/chat_template.c src/lib/base/*.c -lutf8proc -ljansson -lm -lpthread)
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
"$python" "$root/tests/peer/templates.py" "$work/driver" "$data"
"$python" "$root/tests/peer/templates.py" "$work/driver" "$data" random "${1:-3000}" "${2:-1}"
