#!/bin/sh
# kentang mcp: lines in, lines out, and nothing else on standard output. usage: test_cli_mcp.sh BUILD SOURCE
set -eu
command -v python3 >/dev/null || exit 77
exec python3 "$2/tests/mcp/lines.py" "$1/kentang"
