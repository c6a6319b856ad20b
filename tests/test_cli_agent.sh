#!/bin/sh
# kentang agent: tools, questions, transcripts, over the demo model and one that says what test_agent_turn has written.
# usage: test_cli_agent.sh BUILD SOURCE
set -eu
command -v python3 >/dev/null || exit 77
[ -x "$1/test_agent_turn" ] || exit 77 # emulated: the program that writes the model is elsewhere
model=$(mktemp)
trap 'rm -f "$model"' EXIT
"$1/test_agent_turn" "$model"
python3 "$2/tests/mcp/agent.py" "$1/kentang" "$2" "$model"
