#!/bin/sh
# The library's shape: only kt_ names are exported; nothing that spawns a process, opens a socket, ends the
# program or jumps is imported; no mutable globals beyond the listed ones.
#   test_api_symbols.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1
lib=$build/libkentang.so
bad=0

if nm "$lib" | grep -qE '__(asan|tsan|ubsan)_'; then
    echo "skipped: a sanitizer's build imports its own symbols"
    exit 0
fi

fail() {
    echo "FAILED: $1"
    bad=1
}

exported=$(nm -D --defined-only "$lib" | awk '{print $3}' | grep -vE '^(_init|_fini|KENTANG.*)$' | grep -vE '^kt_[a-z]' || true)
[ -z "$exported" ] || fail "exported without the kt_ prefix: $exported"

unwanted='socket|connect|bind|listen|accept|fork|vfork|clone|execve|execv|execvp|posix_spawn|popen|system|exit|_exit|longjmp|siglongjmp|signal'
imported=$(nm -D --undefined-only "$lib" | awk '{print $2}' | sed 's/@.*//' | grep -xE "$unwanted" || true)
[ -z "$imported" ] || fail "imports: $imported"

# every exported call of the header exists, and no other
for name in $(sed -n 's/^KT_API.*[ *]\(kt_[a-z0-9_]*\)(.*/\1/p' "$2/include/kentang.h"); do
    nm -D --defined-only "$lib" | grep -qw "$name" || fail "declared but not in the library: $name"
done

# noalloc_depth: the debug guard's thread-local counter; guard_*: the fault guard that a program asks for
mutable=$(nm "$build/libkentang.a" 2>/dev/null | awk '$2 ~ /^[bBdDsSgG]$/ {print $3}' |
    grep -vE '^(noalloc_depth|guard_[a-z_]*|__|\.L|DW\.)' || true)
[ -z "$mutable" ] || fail "mutable globals: $mutable"

[ $bad -eq 0 ] && echo "exports, imports and globals are as promised"
exit $bad
