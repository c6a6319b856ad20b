#!/bin/sh
# A program that was compiled with other structures than the library's is refused before it runs, in words: by the
# loader, which misses the version that the older library's symbols had, and by kt_abi() where header and library were
# mixed when it was compiled.
#   test_api_layout.sh BUILD_DIR SOURCE_DIR
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
fail() {
    echo "FAILED: $1"
    exit 1
}
if nm "$build/libkentang.so" | grep -qE '__(asan|tsan|ubsan)_'; then
    echo "skipped: a sanitizer's library has to be loaded first"
    exit 0
fi

cat >"$work/program.c" <<'C'
#include <kentang.h>
#include <stdio.h>
int main(void) {
    if (kt_abi() != kt_header_abi()) {
        puts("compiled with another version of kentang.h");
        return 3;
    }
    kt_request_params request = kt_request_params_default();
    printf("%s %d\n", kt_version(), request.n_choices);
    return 0;
}
C

# An earlier library, whose structures differed: its symbols carry that version.
mkdir "$work/earlier"
cat >"$work/earlier.c" <<'C'
#include <kentang.h>
uint64_t kt_abi(void) { return kt_header_abi(); }
const char *kt_version(void) { return "earlier"; }
kt_request_params kt_request_params_default(void) { return (kt_request_params){.n_choices = 7}; }
C
echo 'KENTANG_earlier { global: kt_*; local: *; };' >"$work/earlier.map"
"$cc" -shared -fPIC -I"$source/include" -Wl,-soname,libkentang.so.0 -Wl,--version-script="$work/earlier.map" \
    "$work/earlier.c" -o "$work/earlier/libkentang.so.0"
"$cc" -I"$source/include" "$work/program.c" "$work/earlier/libkentang.so.0" -o "$work/program"
[ "$(LD_LIBRARY_PATH=$work/earlier "$work/program")" = "earlier 7" ] || fail "the earlier program does not run with its own library"
said=$(LD_LIBRARY_PATH=$build "$work/program" 2>&1) && fail "an earlier program was loaded: $said"
case $said in
*KENTANG_earlier*not\ found*) ;;
*) fail "the loader said: $said" ;;
esac

# A header that lacks a member.
mkdir "$work/include"
grep -v 'int64_t deadline_ms;' "$source/include/kentang.h" >"$work/include/kentang.h"
cmp -s "$source/include/kentang.h" "$work/include/kentang.h" && fail "no member was taken out"
"$cc" -I"$work/include" "$work/program.c" "$build/libkentang.so" -o "$work/mixed"
status=0
said=$(LD_LIBRARY_PATH=$build "$work/mixed") || status=$?
[ "$status $said" = "3 compiled with another version of kentang.h" ] || fail "a mixed program: $status $said"

"$cc" -I"$source/include" "$work/program.c" "$build/libkentang.so" -o "$work/today"
LD_LIBRARY_PATH=$build "$work/today" >/dev/null || fail "today's program is refused"
