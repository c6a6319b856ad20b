#!/bin/sh
# The avx512 tier on any x86-64 machine: Bochs emulates a processor with AVX-512 VNNI (Ice Lake), on which Debian's
# kernel runs the kernel tests for this tier alone and the demo model; bytes are compared with the reference tier's, the
# text with that of the avx2 tier.
#   tests/avx512.sh [BUILD_DIR]      (build)
# Needs bochs, bochs-term, busybox-static, cpio, isolinux, syslinux-common, xorriso; the network for the first run.
# KT_TEST_EVERY: each n-th case of test_kernels_tiers and of attention (41); KT_AVX512_LIMIT: seconds until the emulated
# machine is stopped (1800).
set -eu
tests=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$tests")
build=${1:-$root/build}
build=$(cd "$build" && pwd)
every=${KT_TEST_EVERY:-41} limit=${KT_AVX512_LIMIT:-1800}
work=$(mktemp -d)
emulator=""
trap '[ -z "$emulator" ] || kill -9 "$emulator" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
unset KENTANG_ISA

die() {
    echo "avx512.sh: $1" >&2
    exit "${2:-1}"
}

case $(uname -m) in x86_64 | amd64) ;; *) die "the emulated processor is an x86-64, and so must be the build" 2 ;; esac
for tool in bochs-bin:bochs xorriso:xorriso; do
    command -v "${tool%:*}" >/dev/null || die "no ${tool%:*}: apt-get install ${tool#*:}" 2
done
isolinux=/usr/lib/ISOLINUX/isolinux.bin ldlinux=/usr/lib/syslinux/modules/bios/ldlinux.c32
bios=/usr/share/bochs/BIOS-bochs-latest vgabios=/usr/share/bochs/VGABIOS-lgpl-latest
for file in $isolinux:isolinux $ldlinux:syslinux-common $bios:bochsbios $vgabios:vgabios; do
    [ -f "${file%:*}" ] || die "no ${file%:*}: apt-get install ${file#*:}" 2
done
for program in test_kernels_tiers test_kernels_vector kentang; do
    [ -x "$build/$program" ] || die "no $build/$program: build first" 2
done
bochs-bin --help cpu 2>&1 | grep -qx corei7_icelake_u || die "this bochs knows no Ice Lake (corei7_icelake_u)" 2

# Bochs 2.7 rounds a tie to F16 away from zero (VCVTPS2PH, VEX as EVEX), not to even as the instruction and the reference
# do. So test_store is left out, test_store_exact is not, and the text is compared with that of the avx2 tier on the
# same emulated processor.

# ---- what it runs: lines on the serial port say how each ended

cat >"$work/script" <<GUEST
say() { echo "emulated: \$*"; }
check() {
    name=\$1
    shift
    code=0
    "\$@" >log 2>&1 || code=\$?
    tail -n 30 log
    [ "\$code" -eq 0 ] && say "PASS \$name" || say "FAIL \$name (exit status \$code)"
}
answers() {
    while IFS= read -r prompt; do
        echo "> \$prompt"
        KENTANG_ISA=\$1 kentang run -t 1 --temp 0 -p "\$prompt" 2>stderr || return 1
        echo
    done >"\$1" <<'PROMPTS'
$(sed -n 's/^> //p' "$root/tests/golden/demo_greedy.txt")
PROMPTS
    head -n 1 stderr
    grep -q "| \$1," stderr
}
same() { answers "\$1" && { cmp "\$2" "\$1" || { cat "\$1"; return 1; }; }; }
say begin
say "\$(grep -m1 'model name' /proc/cpuinfo)"
answers avx2 >log 2>&1
check "avx512: the text of avx2" same avx512 avx2
export KT_TEST_TIER=avx512 KT_TEST_EVERY=$every
check "avx512: test_kernels_vector" env KT_TEST_SKIP=test_store test_kernels_vector
check "avx512: test_kernels_tiers" test_kernels_tiers
say end
GUEST

# What of this processor the kernel must not use, by CPUID word * 32 + bit: protection keys (515) and compact XSAVE
# (321, 323), whose sizes this emulator states wrongly, after which the kernel would switch AVX off; fast short REP MOV
# (580) without fast REP MOV, which its memmove cannot do.
kernel_options="console=ttyS0,115200 mitigations=off nokaslr clearcpuid=515,321,323,580 tsc=reliable lpj=200000 \
no_timer_check panic=-1 quiet"

disk() {
    mkdir -p "$work/iso/isolinux"
    cp "$isolinux" "$ldlinux" "$work/iso/isolinux/"
    cp "$kernel" "$work/iso/vmlinuz"
    "$tests/guest_initramfs.sh" "$work/iso/initrd.gz" "$work/script" "$build/kentang" "$build/test_kernels_tiers" \
        "$build/test_kernels_vector" || return 1
    printf 'default kentang\nprompt 0\nlabel kentang\n kernel /vmlinuz\n append initrd=/initrd.gz %s\n' \
        "$kernel_options" >"$work/iso/isolinux/isolinux.cfg"
    xorriso -as mkisofs -quiet -o "$work/disk.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table "$work/iso" 2>"$work/log"
}
kernel=$("$tests/guest_kernel.sh" "$build/guest")
disk || { cat "$work/log" >&2 2>/dev/null || true; die "could not make the disk"; }

# ---- the machine

cat >"$work/bochsrc" <<BOCHS
config_interface: textconfig
display_library: term
cpu: model=corei7_icelake_u, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
megs: 512
romimage: file=$bios
vgaromimage: file=$vgabios
ata0-master: type=cdrom, path="$work/disk.iso", status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev="$work/serial"
sound: waveoutdrv=dummy
clock: sync=none
log: $work/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
BOCHS
echo c >"$work/go" # Debian builds the debugger in, which waits for a command

echo "avx512: an emulated Ice Lake; some minutes"
: >"$work/serial"
TERM=linux setsid bochs-bin -q -f "$work/bochsrc" -rc "$work/go" </dev/null >"$work/out" 2>&1 &
emulator=$!
waited=0
while kill -0 "$emulator" 2>/dev/null; do
    [ $waited -lt "$limit" ] || { kill -9 "$emulator"; break; }
    sleep 1
    waited=$((waited + 1))
done
wait "$emulator" 2>/dev/null || true # it calls every end of the machine a failure
emulator=""
tr -d '\r' <"$work/serial" >"$build/avx512.log"
sed -n '/^emulated: begin/,/^emulated: end/s/^/    /p' "$build/avx512.log"

grep -q '^emulated: end' "$build/avx512.log" || {
    tail -5 "$build/avx512.log" >&2
    tail -3 "$work/bochs.log" >&2
    die "the emulated machine did not get to the end in $waited s (its log: $build/avx512.log)"
}
failed=$(grep -c '^emulated: FAIL' "$build/avx512.log" || true)
passed=$(grep -c '^emulated: PASS' "$build/avx512.log" || true)
[ "$(grep -cx 'tiers: avx512' "$build/avx512.log")" -eq 2 ] || die "the tests did not name the avx512 tier"
echo "avx512: $passed passed, $failed failed, in $waited s"
[ "$failed" -eq 0 ] && [ "$passed" -eq 3 ]
