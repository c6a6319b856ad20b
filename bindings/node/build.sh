#!/bin/sh
# Compiles the addon: build.sh [OUT [FLAGS]]. Needs a C compiler, node's headers (Debian: libnode-dev, or those beside node) and
# kentang, as pkg-config says, or in the folders KENTANG_INCLUDE and KENTANG_LIB_DIR.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/kentang.node}
beside=$(dirname "$(dirname "$(node -p process.execPath)")")/include/node
for headers in "$beside" /usr/include/node /usr/include/nodejs/src; do
    [ ! -f "$headers/node_api.h" ] || break
done
[ -f "$headers/node_api.h" ] || { echo "error: node_api.h is not here: install libnode-dev" >&2; exit 1; }
if [ -n "${KENTANG_LIB_DIR:-}" ]; then
    flags="-I${KENTANG_INCLUDE} -L$KENTANG_LIB_DIR -lkentang"
else
    flags=$(pkg-config --cflags --libs kentang)
fi
# shellcheck disable=SC2086
cc -std=c17 -O2 -Wall -Wextra -fPIC -shared "$here/addon.c" -I"$headers" $flags ${2:-} -o "$out"
