#!/bin/sh
# DESIGN section 6, the way out of a failed step: no function has a ladder, that is two or more lines of
# `if (status == KT_OK) status = ...`.
# usage: test_tree_errors.sh BUILD_DIR SOURCE_DIR
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

ladders() {
    find "$1" -name '*.c' | sort | xargs awk '
        FNR == 1 { n = 0 }
        /^[a-zA-Z].*[({,]$/ && !/;$/ { start = FNR }
        /^}/ {
            if (n > 1) print FILENAME ":" start ": " n " steps by if (status == KT_OK): KT__STEP or KT__TRY"
            n = 0
        }
        /if \(status == KT_OK( && .*)?\) status = / || /if \(status == KT_OK( && .*)?\)$/ { n++ }'
}

cat >"$dir/ladder.c" <<'C'
static kt_status three_steps(kt_error *err) {
    kt_status status = first(err);
    if (status == KT_OK) status = second(err);
    if (status == KT_OK && more)
        status = third(err);
    return status;
}
C
[ "$(ladders "$dir" | wc -l)" -eq 1 ] || { echo "a ladder is not found" && exit 1; }
ladders "$2/src" >"$dir/found"
cat "$dir/found"
! [ -s "$dir/found" ]
