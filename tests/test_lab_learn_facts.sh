#!/bin/sh
# The demo model learns eight facts from corrections, and keeps what it knew: the short form of scripts/prove_learning.
set -eu
command -v python3 >/dev/null || exit 77
exec "$2/scripts/prove_learning" --build "$1" --only quick --seeds 1
