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

exported=$(nm -D --defined-only "$lib" | awk '{sub(/@.*/, "", $3); print $3}' | grep -vE '^(_init|_fini|KENTANG.*)$' | grep -vE '^kt_[a-z]' || true)
[ -z "$exported" ] || fail "exported without the kt_ prefix: $exported"

unwanted='socket|connect|bind|listen|accept|fork|vfork|clone|execve|execv|execvp|posix_spawn|popen|system|exit|_exit|longjmp|siglongjmp|signal'
imported=$(nm -D --undefined-only "$lib" | awk '{print $2}' | sed 's/@.*//' | grep -xE "$unwanted" || true)
[ -z "$imported" ] || fail "imports: $imported"

# Every call that the header declares is in the library, and no other. A declaration may go over several lines; it
# ends at its semicolon, and its name is the first word before a parenthesis.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -v '^ *#' "$2/include/kentang.h" | tr '\n' ' ' | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' >"$work/header"
grep -oE '\bKT_API [^;]*;' "$work/header" | sed -n 's/^[^(]*\b\(kt_[a-z0-9_]*\) *(.*/\1/p' | sort >"$work/declared"
nm -D --defined-only "$lib" | awk '{sub(/@.*/, "", $3); print $3}' | grep -E '^kt_[a-z]' | sort >"$work/defined"
n_declared=$(wc -l <"$work/declared")
[ "$n_declared" -eq "$(grep -o '\bKT_API\b' "$work/header" | wc -l)" ] || fail "a declaration was not understood"
[ "$n_declared" -ge 60 ] || fail "only $n_declared calls were found in the header"
missing=$(comm -23 "$work/declared" "$work/defined")
[ -z "$missing" ] || fail "declared but not in the library: $missing"
more=$(comm -13 "$work/declared" "$work/defined")
[ -z "$more" ] || fail "in the library but not declared: $more"

# Of a kernel tier an object exports its table, of a part the table of its products, and those of types that others are unpacked
# into; the reference exports its products, and amx and avxvnni, whose other kernels are avx512's and avx2's, what those tiers'
# files make a table of.
tiers=$(nm -g --defined-only "$build/libkt_kernels.a" | awk '/:$/ { object = $1 } object ~ /^tier_/ && NF == 3 { print $3 }')
[ "$(echo "$tiers" | wc -l)" -ge 2 ] || fail "no kernel tiers in libkt_kernels.a"
more=$(echo "$tiers" | grep -vE '^kt__(kernels_[a-z0-9]+|mm_ref|amx_(mm|tile|tiles_from|peak_i8)|avxvnni_(attn|peak_i8)|[a-z0-9]+_mm_(Q32|Q256|unpacked)|[a-z0-9]+_(rowdot|gemm)_as_[A-Z0-9_]+)$' || true)
[ -z "$more" ] || fail "kernel tiers export: $more"

# Constant tables of pointers lie in .data.rel.ro; the debug allocation guard is thread-local (.tbss). The fault
# guard, which a program asks for, is the one process-wide state.
objdump -t "$build/libkentang.a" >"$work/symbols" || fail "objdump cannot read libkentang.a"
[ "$(grep -c 'file format' "$work/symbols")" -ge 100 ] || fail "objdump shows too few objects of libkentang.a"
mutable=$(awk '
    /file format/ { object = $1 }
    $4 == ".data" || $4 == ".bss" || $4 ~ /^\.(data|bss)\.[^r]/ { if ($5 != "0000000000000000" && $0 !~ / d  /) print object, $NF }' "$work/symbols" |
    grep -vE '^fault_guard\.c\.o' | grep -vE ' (\.|__|DW\.)' || true)
[ -z "$mutable" ] || fail "mutable globals: $mutable"

[ $bad -eq 0 ] && echo "$n_declared calls; exports, imports and globals are as promised"
exit $bad
