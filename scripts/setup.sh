#!/bin/sh
# Sourced by the other scripts: installs what the build needs, configures, builds. Quick when nothing has
# changed. KT_ROOT is the checkout.
set -eu

KT_ROOT=$(cd "$(dirname "$0")/.." && pwd)
KT_PACKAGES="gcc cmake ninja-build pkg-config libpcre2-dev libutf8proc-dev libhwloc-dev libedit-dev libjansson-dev libmicrohttpd-dev libcurl4-openssl-dev libcmocka-dev libpng16-16 libturbojpeg0 libwebp7 libvulkan-dev glslang-tools mesa-vulkan-drivers"
KT_MPI_PACKAGES="openmpi-bin libopenmpi-dev" # for several machines: libkentang-mpi.so, and tests that start it
KT_APT_LOG=${TMPDIR:-/tmp}/kentang-apt-$(id -u).log

say() { printf '\033[1m== %s\033[0m\n' "$*"; }
die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  what to do: %s\n' "$2" >&2
    exit 1
}

# As root, or through sudo where there is one: install_packages has looked.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# install_packages NAME...: those that dpkg does not know as installed
install_packages() {
    missing=""
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null 2>&1 || die "this script installs packages with apt-get, which is not here" "install the equivalents of:$missing"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 ||
        die "packages are missing and neither root nor sudo is at hand:$missing" "install as root: apt-get install$missing"
    say "installing:$missing"
    # shellcheck disable=SC2086
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >"$KT_APT_LOG" 2>&1; then
        as_root apt-get update -q >"$KT_APT_LOG" 2>&1 || die "apt-get update failed (log: $KT_APT_LOG)" "check the network and the package sources"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >"$KT_APT_LOG" 2>&1 || {
            tail -5 "$KT_APT_LOG" >&2
            die "apt-get could not install:$missing (log: $KT_APT_LOG)" "check the network and the package sources"
        }
    fi
}

# The flags of the build folder that demo and check share, so that neither compiles the other's objects again. Warnings
# are errors where they are known: with the compiler of Debian 12.
release_flags() {
    case "$(cc -dumpversion 2>/dev/null)" in
    12 | 12.*) echo -DKT_WERROR=ON ;;
    *) echo -DKT_WERROR=OFF ;;
    esac
}

# run_ninja LOG ARGUMENTS...: on a terminal ninja shows how far it is and what fails; else both go to LOG
run_ninja() {
    log=$1
    shift
    if [ -t 1 ]; then
        NINJA_STATUS='[%f of %t, %es] ' ninja "$@" || die "the build failed" "read the first error above; if it persists, report it"
        return
    fi
    ninja "$@" >"$log" 2>&1 || {
        grep -E 'error|warning|undefined' "$log" | head -20 >&2
        die "the build failed (log: $log)" "read the log; if it persists, report it"
    }
}

# build DIR TYPE [cmake arguments]: configures, where it was not yet or arguments are given, then builds everything, or the
# targets in KT_TARGETS
build() {
    dir=$1
    type=$2
    shift 2
    log="$dir/build.log"
    mkdir -p "$dir"
    if [ ! -f "$dir/build.ninja" ] || [ $# -gt 0 ]; then
        say "configuring $dir ($type)"
        cmake -S "$KT_ROOT" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE="$type" "$@" >"$log" 2>&1 || {
            tail -20 "$log" >&2
            die "cmake failed (log: $log)" "remove $dir and try again; if it persists, report the log"
        }
    fi
    say "building $dir"
    # shellcheck disable=SC2086
    run_ninja "$log" -C "$dir" ${KT_TARGETS:-}
}
