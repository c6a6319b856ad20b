#!/bin/sh
# The kernels, which take minutes to compile, are compiled again only for what they are made of: not for every change of
# the public header, of the machine's description or of errors.
set -eu
source=$2
command -v cc >/dev/null 2>&1 || exit 0
for file in "$source"/src/lib/kernels/tier_avx2.c "$source"/src/lib/kernels/tier_ref.c; do
    headers=$(cc -MM -D_GNU_SOURCE -I"$source/include" -I"$source/src/lib" "$file")
    case "$headers" in
    *kentang.h* | */host/*) echo "failed: $file includes too much: $headers" >&2; exit 1 ;;
    esac
done
