"""Runs a command that answers JSON lines with JSON lines, from a file: some engines poll stdin."""

import json
import subprocess
import tempfile


def ask(command, items):
    with tempfile.TemporaryFile("w+", encoding="utf-8") as f:
        f.writelines(json.dumps(i, ensure_ascii=False) + "\n" for i in items)
        f.seek(0)
        out = subprocess.run(command, stdin=f, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]
