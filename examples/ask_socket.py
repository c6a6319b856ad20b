#!/usr/bin/env python3
"""A prompt to a running `kentang serve` over its Unix socket, streamed. Standard library only.

usage: ask_socket.py [--socket PATH] PROMPT..."""
import json
import os
import socket
import sys

arguments = sys.argv[1:]
path = os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/run/kentang"), "kentang.sock")
if arguments[:1] == ["--socket"]:
    path, arguments = arguments[1], arguments[2:]
question = " ".join(arguments) or "Hello!"

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    lines = connection.makefile("rw", encoding="utf-8", newline="\n")
    request = {"id": "1", "messages": [{"role": "user", "content": question}], "stream": True}
    print(json.dumps(request), file=lines, flush=True)
    for line in lines:
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(answer["error"]["message"])
        if answer.get("done"):
            print(f"\n[{answer['finish_reason']}, {answer['usage']['completion_tokens']} tokens, "
                  f"{answer['timings']['tokens_per_second']} tokens/s]", file=sys.stderr)
            break
        print(answer["text"], end="", flush=True)
