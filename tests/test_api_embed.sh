#!/bin/sh
# examples/embed.c runs on the demo model, also when built against an installed library through pkg-config.
#   test_api_embed.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
answer=$("$build/example_embed")
echo "$answer"
echo "$answer" | grep -q 'eog\]$'

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
if nm "$build/libkentang.so" | grep -qE '__(asan|tsan|ubsan)_'; then
    exit 0 # a sanitizer's library needs its flags at the link
fi
cmake --install "$build" --prefix "$prefix" >/dev/null
pc=$(dirname "$(find "$prefix" -name kentang.pc)")
# the prefix in the .pc file is the configured one
flags=$(PKG_CONFIG_PATH=$pc pkg-config --define-variable=prefix="$prefix" --cflags --libs kentang)
# shellcheck disable=SC2086
cc -std=c17 -Wall -Werror "$source/examples/embed.c" -o "$prefix/embed" $flags
libdir=$(dirname "$(find "$prefix" -name 'libkentang.so')")
[ "$(LD_LIBRARY_PATH=$libdir "$prefix/embed")" = "$answer" ]
echo "installed: the same answer"
