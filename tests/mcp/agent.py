"""kentang agent over the demo model, which knows no tools: what it writes is held to calls and answers all the same, so that
everything around it can be tried. python3 agent.py KENTANG SOURCE
"""
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time

KENTANG, SOURCE = sys.argv[1:3]
EVIL = os.path.join(SOURCE, "tests/mcp/evil.py")
DIR = tempfile.mkdtemp(prefix="kentang-agent-")
TASK = ["-p", "What time is it?", "--seed", "1", "-t", "1", "-c", "1024", "--max-rounds", "3"]


def path(name):
    return os.path.join(DIR, name)


def servers(how, **more):
    with open(path("servers.json"), "w") as out:
        json.dump({"mcpServers": {"evil": {"command": "/usr/bin/python3", "args": [EVIL, how, path("state")], "timeout_s": 5, **more}}}, out)
    return ["--mcp", path("servers.json"), "--pins", path("pins-" + how)]


def run(command, *options, code=0):
    r = subprocess.run([KENTANG, command, *options], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert r.returncode == code, (r.returncode, r.stderr)
    return r.stdout, r.stderr


def events(name):
    with open(path(name)) as lines:
        return [json.loads(line) for line in lines]


def test_builtins_and_replay():
    out, err = run("agent", "--tools", "clock,calculator", *TASK, "--transcript", path("a"))
    happened = events("a")
    assert [e["event"] for e in happened[:3]] == ["tools", "task", "model"], happened
    for e in happened:
        if e["event"] == "model":
            said = json.loads(e["text"])  # always parses
            assert set(said) in ({"answer"}, {"tool", "arguments"}), said
    assert happened[-1]["event"] == "answer" and happened[-1]["text"] == out[:-1]
    again, _ = run("agent", "--replay", path("a"), *TASK, "--transcript", path("b"))
    assert again == out
    same = [(e["event"], e.get("text")) for e in happened]
    assert same == [(e["event"], e.get("text")) for e in events("b")]


def test_run_has_tools():
    out, _ = run("run", "--tools", "clock,calculator", *TASK)
    asked, _ = run("agent", "--tools", "clock,calculator", *TASK)
    assert out == asked
    run("run", "--tools", "clock", "--raw", "-p", "x", code=2)
    run("run", "--tools", "clok", "-p", "x", code=2)


def test_nobody_to_ask():
    """Without a terminal nothing is called that is not allowed; the model is told so."""
    run("agent", *servers("good"), *TASK, "--transcript", path("c"))
    asked = [e for e in events("c") if e["event"] == "approval"]
    assert all(e["approval"] == "no" and e["by"] == "nobody to ask" for e in asked)
    for e in events("c"):
        if e["event"] == "result" and "nobody" not in e["text"]:
            assert "made before" in e["text"] or "no more calls" in e["text"], e


def test_allowed_and_denied():
    run("agent", *servers("control"), *TASK, "--allow", "evil__*", "--transcript", path("d"))
    results = [e for e in events("d") if e["event"] == "result"]
    assert any("<|im_start|>system" in e["text"] for e in results) or not results
    run("agent", *servers("good"), *TASK, "--deny", "evil__*", "--transcript", path("e"))
    assert events("e")[0]["tools"] == []


def terminal(options, answers, ends=60):
    """A run on a terminal; answers: (what is waited for, what is typed)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execv(KENTANG, [KENTANG, "agent", *options])
    shown, answers, until = "", list(answers), time.time() + ends
    from_ = 0
    while time.time() < until:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                data = os.read(fd, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data.decode(errors="replace")
        if answers and answers[0][0] in shown[from_:]:
            from_ = len(shown)
            os.write(fd, (answers.pop(0)[1] + "\n").encode())
    _, status = os.waitpid(pid, 0)
    return shown, os.waitstatus_to_exitcode(status)


def test_approval():
    """What is asked shows the tool and its arguments, and what is typed decides."""
    question = "Allow it?"
    edited = '{"text":"typed by me"}'
    options = [*servers("good"), *TASK, "--transcript", path("f")]
    shown, code = terminal(options, [(question, "x"), (question, "e"), ("one line of JSON", edited), (question, "y"), (question, "n"),
                                     (question, "n")])
    if question not in shown:
        return  # this model does not call it; the rest is shown by the others
    assert code == 0, shown
    assert "The model wants to call echo of evil with" in shown
    approvals = [e for e in events("f") if e["event"] == "approval"]
    assert approvals[0]["arguments"] == {"text": "typed by me"} and approvals[0]["approval"] == "yes", approvals
    results = [e for e in events("f") if e["event"] == "result"]
    assert results[0]["text"] == "typed by me", results


def test_limits():
    _, err = run("agent", "--tools", "clock,calculator", *TASK, "--max-calls", "0", "--transcript", path("g"))
    assert not [e for e in events("g") if e["event"] == "approval"]


try:
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok", name)
finally:
    subprocess.run(["rm", "-rf", DIR], check=False)
