#!/bin/sh
# Only the files of a vector tier may hold instructions beyond the x86-64 baseline: everything else, and so the
# choice of a tier, runs on any processor. The reference alone has one more instruction, which it asks for first: vfmadd231ss.
#   test_api_instructions.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1
case $(uname -m) in x86_64 | amd64) ;; *) echo "skipped: not an x86-64 machine"; exit 0 ;; esac
list=$(mktemp)
trap 'rm -f "$list"' EXIT

find "$build"/CMakeFiles/kt_*.dir "$build"/CMakeFiles/kentang.dir -name '*.o' ! -name 'tier_avx*' ! -name 'tier_amx*' ! -name 'tier_sse41*' >"$list"
[ "$(wc -l <"$list")" -gt 30 ] || { echo "FAILED: hardly any object files under $build"; exit 1; }

# SSSE3 and SSE4.1 (most of them), 256 and 512-bit registers, mask registers, VEX-coded 128-bit instructions, BMI, POPCNT, CRC32, F16C, FMA
wider='%[yz]mm|%k[0-7]|	v[a-z0-9]+ .*%xmm|	(andn|bextr|bls[ir]|blsmsk|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|popcnt|lzcnt|crc32)[lqwb]? '
beyond="	(p(shufb|maddubsw|sign[bwd]|abs[bwd]|h(add|sub)s?[wd]|alignr|mulld|blendvb|blendw|test|m(in|ax)(sb|sd|uw|ud)|mov[sz]x[bwd]+|cmpeqq|packusdw|extr[bdq]|insr[bdq])|blendv?p[sd]|round[ps][sd]|dpp[sd]|insertps|extractps) |$wider"
found=$(xargs objdump -d --no-show-raw-insn <"$list" 2>/dev/null |
    awk -v beyond="$beyond" '/file format/ { file = $1 } file ~ /tier_ref/ && /\tvfmadd231ss / { next } $0 ~ beyond { print file ": " $0 }' | head -20)
[ -z "$found" ] || { printf 'FAILED: beyond the baseline outside the tiers:\n%s\n' "$found"; exit 1; }

# the sse41 tier runs where there is no AVX
narrow=$(find "$build"/CMakeFiles/kt_kernels.dir -name 'tier_sse41*.o')
found=$([ -z "$narrow" ] || echo "$narrow" | xargs objdump -d --no-show-raw-insn | grep -E "$wider" | head -5)
[ -z "$found" ] || { printf 'FAILED: beyond SSE4.1 in the sse41 tier:\n%s\n' "$found"; exit 1; }

# and the check sees what it looks for
tier=$(find "$build"/CMakeFiles/kt_kernels.dir -name 'tier_avx2.c.o')
[ -z "$tier" ] || objdump -d --no-show-raw-insn "$tier" | grep -q '%ymm' || { echo "FAILED: no AVX2 in its own tier"; exit 1; }
echo "$(wc -l <"$list") object files hold baseline instructions only"
