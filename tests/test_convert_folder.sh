#!/bin/sh
# Folders written by an independent writer (tests/convert, Python with numpy), converted: the engine's logits against a
# forward pass in numpy, the keys, and refusals.
#   test_convert_folder.sh BUILD_DIR SOURCE_DIR [CHECK...]
set -eu
kentang=$1/kentang
here=$2/tests/convert
python=
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || {
    echo "no python3 with numpy: skipped (apt-get install python3-numpy)"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
failed=0
[ $# -gt 2 ] && shift 2 || set -- models mtp assistant encoders keys refusals quantize peft demo
for check in "$@"; do
    "$python" "$here/check_$check.py" "$kentang" "$work" >"$work/log" 2>&1 || failed=1
    grep -v '^PASS' "$work/log" || true
    echo "$check: $(grep -c '^PASS' "$work/log") passed"
done
exit $failed
