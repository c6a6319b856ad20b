"""kentang mcp over pipes: answers by id, progress, cancel, the end of input, a reader that goes away.

    python3 lines.py KENTANG
"""
import json
import os
import signal
import subprocess
import sys
import time

KENTANG = sys.argv[1]


class Server:
    def __init__(self):
        self.process = subprocess.Popen([KENTANG, "mcp", "--no-config", "--no-env", "-t", "1"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def say(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(text + b"\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), line
        return json.loads(line)

    def answers(self, n):
        """The next n messages that have an id, by it; all others."""
        found, others = {}, []
        while len(found) < n:
            message = self.hear()
            if "id" in message:
                found[message["id"]] = message
            else:
                others.append(message)
        return found, others

    def end(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert self.process.wait(20) == 0, self.process.returncode
        return [json.loads(line) for line in rest.splitlines()]


def call(id_, tool, arguments, token=None):
    params = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def test_answers():
    s = Server()
    s.say({"jsonrpc": "2.0", "id": "one", "method": "initialize", "params": {"protocolVersion": "2025-11-25",
           "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
    assert s.hear()["result"]["protocolVersion"] == "2025-11-25"
    s.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    s.say(call(2, "generate", {"prompt": "Tell me a story about a cat.", "max_tokens": 300, "seed": 7}, "p"))
    s.say(call(3, "count_tokens", {"text": "a cat"}))
    s.say(b"{bad")
    s.say(b"")
    s.say(call(4, "nothing", {}))
    found, others = s.answers(3)
    assert found[2]["result"]["structuredContent"]["seed"] == 7
    assert found[3]["result"]["structuredContent"]["tokens"] > 0
    assert found[4]["error"]["code"] == -32602
    assert any(o.get("error", {}).get("code") == -32700 for o in others)
    progress = [o["params"]["progress"] for o in others if o.get("method") == "notifications/progress"]
    assert progress and progress == sorted(set(progress)), progress
    assert s.end() == []


def test_cancel():
    """Nothing is said about a call that was cancelled, and the next is answered."""
    s = Server()
    s.say(call(1, "generate", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 900}, 0))
    s.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    s.say(call(2, "list_models", {}))
    found, others = s.answers(1)
    assert list(found) == [2], found
    assert all("id" not in m for m in s.end())


def test_end_of_input():
    """What was asked before is answered; a last line without its newline counts."""
    s = Server()
    s.say(call(1, "generate", {"prompt": "Tell me a story about a cat.", "max_tokens": 40}))
    s.process.stdin.write(json.dumps(call(2, "list_models", {})).encode())
    assert sorted(m["id"] for m in s.end()) == [1, 2]


def test_reader_gone():
    """Nobody reads the answers any more: the program ends by itself."""
    s = Server()
    s.say(call(1, "generate", {"prompt": "Tell me a story about a cat.", "max_tokens": 900}, 1))
    s.hear()
    s.process.stdout.close()
    assert s.process.wait(20) is not None


def test_term():
    s = Server()
    s.say(call(1, "generate", {"prompt": "Tell me a story about a cat.", "max_tokens": 900}, 1))
    s.hear()
    began = time.time()
    os.kill(s.process.pid, signal.SIGTERM)
    assert s.process.wait(20) == 0 and time.time() - began < 10


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
