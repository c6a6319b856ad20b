#!/bin/sh
# Programs that a build leaves out (fuzzing needs another compiler, peers another program's headers) still compile with
# what they include of ours.
#   test_tree_programs.sh BUILD_DIR SOURCE_DIR
set -eu
cd "$2"
bad=0
for file in fuzz/*.c tests/peer/*.c; do
    grep -qE '#include [<"](llama|mtmd|ggml)[^"]*\.h' "$file" && continue
    "${CC:-cc}" -std=c17 -D_GNU_SOURCE -fsyntax-only -Wall -Werror -DKT_SOURCE_DIR='""' -DKT_BINARY_DIR='""' -Iinclude -Isrc/lib -Isrc/program \
        -Isrc/program/server -Itests -Ifuzz "$file" || bad=1
done
exit $bad
