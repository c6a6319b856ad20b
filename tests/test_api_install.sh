#!/bin/sh
# What `cmake --install` puts down works from any place: pkg-config without the libraries behind libkentang, and the
# README's program with the shared library and with the static one.
set -eu
build=$1
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "failed: $1" >&2
    exit 1
}

# An instrumented library cannot be linked without its run time.
if grep -q '^KT_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then exit 0; fi
cmake --install "$build" --prefix "$dir/first" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; fail "cmake --install"; }
mv "$dir/first" "$dir/second"
pc=$(find "$dir/second" -name kentang.pc)
[ -n "$pc" ] || fail "no kentang.pc"

for file in man/man1/kentang.1 man/man1/kentang-run.1 man/man5/kentang.toml.5 bash-completion/completions/kentang \
    zsh/site-functions/_kentang fish/vendor_completions.d/kentang.fish; do
    [ -s "$dir/second/share/$file" ] || fail "share/$file is not installed"
done

# Only our own .pc file is to be seen: as on a machine without the -dev packages.
export PKG_CONFIG_LIBDIR="${pc%/*}"
flags=$(pkg-config --cflags kentang) || fail "pkg-config --cflags"
libs=$(pkg-config --libs kentang) || fail "pkg-config --libs"
case "$flags" in *UTF8PROC*) fail "flags of another library: $flags" ;; esac
case "$libs" in *hwloc*) fail "a shared link names what it does not use: $libs" ;; esac
version=$(pkg-config --modversion kentang)
"$dir/second/bin/kentang" --version | grep -q "kentang $version " || fail "the version of kentang.pc: $version"

# shellcheck disable=SC2086
cc "$source/examples/embed.c" $flags $libs -o "$dir/embed" || fail "linking with the shared library"
lib=$(dirname "${pc%/*}")
LD_LIBRARY_PATH="$lib" "$dir/embed" >"$dir/shared" || fail "running it"
[ -s "$dir/shared" ] || fail "it says nothing"
# shellcheck disable=SC2046,SC2086
cc "$source/examples/embed.c" $flags "$lib/libkentang.a" $(pkg-config --static --libs-only-l kentang | sed 's/-lkentang//') \
    -o "$dir/embed_static" || fail "linking with the static library"
"$dir/embed_static" >"$dir/static" || fail "running it, static"
cmp "$dir/shared" "$dir/static" || fail "the static library answers otherwise"
