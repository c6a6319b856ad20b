#!/bin/sh
# Links `kentang` with tests/peer/experts.c. Usage: tests/peer/experts.sh BUILD_DIR OUT
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$build"
${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -I"$root/src/lib" -I"$root/include" -c -o "$out.o" "$root/tests/peer/experts.c"
link=$(ninja -t commands kentang | tail -n 1)
link=${link#: && } link=${link% && :}
case $link in *" -o kentang "*) ;; *) echo "experts.sh: the build has no link command of kentang as expected" >&2; exit 2 ;; esac
eval "${link%% -o kentang *} $out.o -Wl,--wrap=kt__cpu_route -o $out ${link#* -o kentang }"
