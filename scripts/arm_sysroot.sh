#!/bin/sh
# Debian's arm64 libraries and headers, unpacked into a folder: what cross-compiling kentang and emulating its tests
# needs. Nothing on this machine is changed; no root. Quick when the folder is complete.
#   scripts/arm_sysroot.sh DIR [extra package...]      (KT_DEBIAN_MIRROR: another mirror than deb.debian.org)
set -eu
dir=${1:?usage: scripts/arm_sysroot.sh DIR [package...]}
shift
# the libraries that the build needs, as scripts/setup.sh lists them
needed=$(sed -n 's/^KT_PACKAGES="\(.*\)"$/\1/p' "$(dirname "$0")/setup.sh" | tr ' ' '\n' | grep '^lib.*-dev$' | tr '\n' ' ')
[ -n "$needed" ] || { echo "arm_sysroot.sh: setup.sh names no libraries" >&2; exit 1; }
packages="libc6-dev libgcc-12-dev $needed$*"
mirror=${KT_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# shellcheck disable=SC1091
. /etc/os-release
[ "${ID:-}" = debian ] || VERSION_CODENAME=bookworm

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ "$(cat "$dir/.complete" 2>/dev/null)" = "$packages" ] && exit 0

# An apt of its own: arm64 alone, nothing installed.
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/sources.d"
: >"$apt/status"
echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $VERSION_CODENAME main" \
    >"$apt/sources.list"
cat >"$apt/conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/sources.d";
CONF
export APT_CONFIG="$apt/conf"
apt-get update -q >"$apt/log" 2>&1 || { cat "$apt/log" >&2; exit 1; }
# shellcheck disable=SC2086
apt-get install -y -q --download-only $packages >"$apt/log" 2>&1 || { cat "$apt/log" >&2; exit 1; }
for deb in "$apt"/cache/archives/*.deb; do dpkg -x "$deb" "$dir"; done
echo "$packages" >"$dir/.complete"
