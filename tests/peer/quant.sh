#!/bin/sh
# Every block format against llama.cpp's codec: decoding bit for bit, encoding by its error.
# Usage: KT_PEER_DIR=DIR tests/peer/quant.sh   (DIR: an installed copy of ../shared/peer)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
: "${KT_PEER_DIR:?set it to an installed copy of ../shared/peer (npm install --omit=optional --ignore-scripts)}"
library=$(find "$KT_PEER_DIR/node_modules/@node-llama-cpp" -name libggml-base.so -print | head -n 1)
[ -n "$library" ] || { echo "quant.sh: no libggml-base.so under $KT_PEER_DIR" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -ffp-contract=off -I"$root/src/lib" -I"$root/src/program" -I"$root/include" \
    -o "$work/quant" "$root/tests/peer/quant.c" "$root"/src/lib/quant/*.c "$root/src/lib/base/math.c" -lm -ldl
"$work/quant" "$library"
