#!/bin/sh
# Debian's kernel for virtual machines, unpacked into a folder. Nothing on this machine is changed; no root, where apt
# knows its packages. Quick when the folder has a kernel.
#   tests/guest_kernel.sh DIR       prints the kernel's path
# shellcheck disable=SC1091
. "$(dirname "$0")/../scripts/setup.sh"
dir=${1:?usage: tests/guest_kernel.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# The package that the first of some meta-packages stands for (Debian's, Ubuntu's).
image() {
    for name in linux-image-cloud-amd64 linux-image-virtual linux-image-amd64; do
        apt-cache depends "$name" 2>/dev/null | sed -n 's/.*Depends: *\(linux-image-[0-9][^ ]*\).*/\1/p' | head -1
    done | head -1
}

fetch() {
    package=$(image)
    [ -n "$package" ] && (cd "$dir" && rm -f ./*.deb && apt-get download -q "$package") >"$dir/log" 2>&1
}

if ! ls "$dir"/vmlinuz-* >/dev/null 2>&1; then
    fetch || {
        as_root apt-get update -q >"$dir/log" 2>&1 || die "apt-get update failed (log: $dir/log)" "check the network and the package sources"
        fetch || die "no kernel's package can be had (log: $dir/log)" "check the network and the package sources"
    }
    mkdir -p "$dir/part"
    for deb in "$dir"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/part" --strip-components=2 --wildcards './boot/vmlinuz-*'
    done
    mv "$dir"/part/vmlinuz-* "$dir/" # whole, whoever looks at the same time
    rm -rf "$dir"/*.deb "$dir/part"
fi
ls "$dir"/vmlinuz-* 2>/dev/null | head -1 | grep . || die "there is no kernel in $dir" "remove the folder and try again"
