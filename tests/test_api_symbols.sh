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

# Constant tables of pointers lie in .data.rel.ro; the debug allocation guard is thread-local (.tbss). The fault
# guard, which a program asks for, is the one process-wide state.
mutable=$(objdump -t "$build/libkentang.a" 2>/dev/null | awk '
    /file format/ { object = $1 }
    $4 == ".data" || $4 == ".bss" || $4 ~ /^\.(data|bss)\.[^r]/ { if ($5 != "0000000000000000" && $0 !~ / d  /) print object, $NF }' |
    grep -vE '^fault_guard\.c\.o' | grep -vE ' (\.|__|DW\.)' || true)
[ -z "$mutable" ] || fail "mutable globals: $mutable"

[ $bad -eq 0 ] && echo "exports, imports and globals are as promised"
exit $bad
