#!/bin/sh
# All that a virtual machine needs to run some programs of this one: an archive in memory, no disk, no network.
#   tests/guest_initramfs.sh OUT SCRIPT PROGRAM...      (needs busybox-static, cpio)
# OUT: a gzipped cpio archive for the kernel (qemu -initrd). PROGRAMs lie in /bin of the guest, their libraries where
# they lie here, busybox' commands around them. SCRIPT is run by its sh as root, in /tmp, with /proc, /sys and /dev
# there; what it writes goes to the console (console=ttyS0: the serial port). After it the console says "guest: exit
# STATUS" and the machine goes off.
set -eu
out=${1:?usage: tests/guest_initramfs.sh OUT SCRIPT PROGRAM...}
script=${2:?usage: tests/guest_initramfs.sh OUT SCRIPT PROGRAM...}
shift 2
busybox=$(command -v busybox) || { echo "guest_initramfs.sh: no busybox: apt-get install busybox-static" >&2; exit 2; }
command -v cpio >/dev/null || { echo "guest_initramfs.sh: no cpio: apt-get install cpio" >&2; exit 2; }
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

mkdir -p "$top/bin" "$top/proc" "$top/sys" "$top/dev" "$top/tmp"
cp "$busybox" "$top/bin/busybox"
cp "$script" "$top/script"
for program in "$@"; do
    strip --strip-debug -o "$top/bin/$(basename "$program")" "$program"
    ldd "$program" 2>/dev/null | grep -o '/[^ ]*' | while IFS= read -r library; do
        mkdir -p "$top$(dirname "$library")"
        cp -L "$library" "$top$library"
    done
done
cat >"$top/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp TERM=dumb
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
cd /tmp
sh /script
echo "guest: exit $?"
sleep 3 # a slow serial port must have sent it
poweroff -f
INIT
chmod +x "$top/init"
(cd "$top" && find . | cpio -o -H newc --quiet) | gzip -1 >"$out"
