#!/bin/sh
# kentang agent: tools, questions, transcripts, over the demo model. usage: test_cli_agent.sh BUILD SOURCE
set -eu
command -v python3 >/dev/null || exit 77
exec python3 "$2/tests/mcp/agent.py" "$1/kentang" "$2"
