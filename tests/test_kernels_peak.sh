#!/bin/sh
# The peak loops of doctor measure multiply-adds alone: between the first of them and the jump back no register is
# kept in memory. (gcc 12 did so for avxvnni, which then looked slower than avx2.)
set -eu
build=$1
grep -q '^CMAKE_BUILD_TYPE:STRING=Release' "$build/CMakeCache.txt" || exit 0
command -v objdump >/dev/null 2>&1 || exit 0
loops=$(objdump -d --no-show-raw-insn --disassemble=peak_i8 "$build/libkt_kernels.a" 2>/dev/null | awk '
    /vpdpbusd|pmaddubsw/ { if (!loop) n++; loop = 1 }
    loop && /\(%rsp\)|\(%rbp\)/ { bad++ }
    loop && /\tj[a-z]+ / { loop = 0 }
    END { print n + 0, bad + 0 }')
case "$(uname -m) $loops" in
*" 0 0") [ "$(uname -m)" != x86_64 ] || { echo "failed: no peak loop was found" >&2; exit 1; } ;;
*" 0") ;;
*) echo "failed: $loops (loops, accesses to the stack in them)" >&2; exit 1 ;;
esac
