#!/bin/sh
# bindings/python on the demo model: no compiler but for comparing its structures with the header's.
#   test_api_python.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
if nm "$build/libkentang.so" | grep -qE '__(asan|tsan|ubsan)_'; then exit 77; fi # it cannot be loaded into a python
. "$source/tests/bindings/expected.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
expect_from "$build" "$dir/expected.json"
KENTANG_LIBRARY=$build/libkentang.so KENTANG_INCLUDE=$source/include KENTANG_EXPECTED=$dir/expected.json \
    PYTHONPATH=$source/bindings/python PYTHONDONTWRITEBYTECODE=1 python3 "$source/bindings/python/test_kentang.py"
