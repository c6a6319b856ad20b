#!/bin/sh
# The demo model learns four facts from corrections, and keeps what it knew: the short form of scripts/prove_learning.
set -eu
command -v python3 >/dev/null || exit 77
if ldd "$1/kentang" 2>/dev/null | grep -q 'lib[at]san'; then exit 77; fi # a minute of arithmetic would be many
exec "$2/scripts/prove_learning" --build "$1" --only quick
