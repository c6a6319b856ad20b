#!/bin/sh
# include/kentang.hpp as C++17 without warnings, on the demo model; examples/embed.cpp says what examples/embed.c says.
#   test_api_cpp.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
command -v c++ >/dev/null 2>&1 || { echo "skipped: no C++ compiler"; exit 77; }
if nm "$build/libkentang.so" | grep -qE '__(asan|tsan|ubsan)_'; then exit 77; fi # needs its flags at the link
. "$source/tests/bindings/expected.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
compile() {
    c++ -std=c++17 -Wall -Wextra -Wshadow -Werror -I "$source/include" "$1" -o "$2" -L "$build" -lkentang -Wl,-rpath,"$build"
}
expect_from "$build" "$dir/expected.json"
compile "$source/tests/bindings/wrapper.cpp" "$dir/wrapper"
"$dir/wrapper" "$question" "$answer" "$n" "$(numbers_of "$prompt_ids")" "$(numbers_of "$ids")"
compile "$source/examples/embed.cpp" "$dir/embed"
"$dir/embed" >"$dir/cpp"
"$build/example_embed" >"$dir/c"
cmp "$dir/cpp" "$dir/c"
status=0
"$dir/embed" /no/such/file 2>"$dir/error" || status=$?
[ "$status" -eq 4 ] && grep -q '^KT_E_IO: ' "$dir/error"
echo "embed.cpp: the answer of embed.c"
