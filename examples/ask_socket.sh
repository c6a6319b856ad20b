#!/bin/sh
# A prompt to a running `kentang serve`: over the socket with nc (netcat-openbsd) or socat, or over HTTP with curl.
# usage: ask_socket.sh [SOCKET]
socket=${1:-${XDG_RUNTIME_DIR:-/run/kentang}/kentang.sock}
request='{"prompt":"Once upon a time","stream":true,"max_tokens":100}'
if command -v nc >/dev/null 2>&1; then
    echo "$request" | nc -N -U "$socket"
elif command -v socat >/dev/null 2>&1; then
    echo "$request" | socat -t 600 - "UNIX:$socket"
else
    curl -sN http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d "$request"
fi
