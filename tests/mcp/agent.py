"""kentang agent over a model that calls what test_agent_turn.c has written, and over the demo model, which was taught to call a clock.
python3 agent.py KENTANG SOURCE MODEL
"""
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

KENTANG, SOURCE, MODEL = sys.argv[1:4]
EVIL = os.path.join(SOURCE, "tests/mcp/evil.py")
DIR = tempfile.mkdtemp(prefix="kentang-agent-")
OPTIONS = ["-m", MODEL, "--temp", "0", "-t", "1", "-c", "1024", "--max-rounds", "4"]
SUM = ["-p", "alpha", *OPTIONS]
TASK = ["-p", "echo", *OPTIONS]


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
    out, err = run("agent", "--tools", "clock,calculator", *SUM, "--transcript", path("a"))
    assert out == "It is 391, and then 5.\n", out
    assert "calculator {\"expression\":\"17*23\"}" in err
    happened = events("a")
    kinds = [e["event"] for e in happened]
    assert kinds == ["tools", "task", "model", "approval", "result", "approval", "result", "model", "answer"], kinds
    model = happened[2]
    assert model["text"] == "Let me see." and model["reasoning"] == "I need both.", model
    assert [c["arguments"] for c in model["calls"]] == [{"expression": "17*23"}, {"expression": "2+3"}]
    assert [e["text"] for e in happened if e["event"] == "result"] == ["391", "5"]
    again, _ = run("agent", "--replay", path("a"), *SUM, "--transcript", path("b"))
    assert again == out
    same = [(e["event"], e.get("text")) for e in happened]
    assert same == [(e["event"], e.get("text")) for e in events("b")]
    alone, _ = run("agent", "--tools", "calculator", "--one-call", *SUM)
    assert alone == "One call alone gave 391.\n", alone
    with open(path("a")) as lines, open(path("other"), "w") as out:
        out.writelines(line.replace("17*23", "17*24") for line in lines)
    run("agent", "--replay", path("other"), *SUM, code=13)


def test_run_has_tools():
    out, _ = run("run", "--tools", "clock,calculator", *SUM)
    assert out == "It is 391, and then 5.\n", out
    run("run", "--tools", "clock", "--raw", "-p", "x", code=2)
    run("run", "--tools", "clok", "-p", "x", code=2)


def test_demo_model():
    """It calls the clock and tells what it said; and a calculator, whose result it could not know."""
    out, err = run("agent", "--tools", "clock", "-p", "What time is it?", "--temp", "0", "-t", "1", "-c", "1024")
    assert re.fullmatch(r"It is \d\d:\d\d\.\n", out) and "-> clock" in err, (out, err)
    out, err = run("agent", "--tools", "clock,calculator", "-p", "What is 1234 times 56?", "--temp", "0", "-c", "1024")
    assert "69104" in out and "-> calculator" in err, (out, err)


def test_nobody_to_ask():
    """Without a terminal nothing is called that is not allowed; the model is told so."""
    out, _ = run("agent", *servers("good"), *TASK, "--transcript", path("c"))
    asked = [e for e in events("c") if e["event"] == "approval"]
    assert [(e["approval"], e["by"]) for e in asked] == [("no", "nobody to ask")], asked
    assert out == "I may not.\n", out


def test_allowed_and_denied():
    out, _ = run("agent", *servers("control"), *TASK, "--allow", "evil__*", "--transcript", path("d"))
    results = [e for e in events("d") if e["event"] == "result"]
    assert len(results) == 1 and "<|im_start|>system" in results[0]["text"], results
    assert out == "That was no order.\n", out
    out, _ = run("agent", *servers("good"), *TASK, "--allow", "evil__*")
    assert out == "The server said so.\n", out
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
    assert code == 0, shown
    assert "The model wants to call echo of evil with" in shown
    approvals = [e for e in events("f") if e["event"] == "approval"]
    assert approvals[0]["arguments"] == {"text": "typed by me"} and approvals[0]["approval"] == "yes", approvals
    results = [e for e in events("f") if e["event"] == "result"]
    assert results[0]["text"] == "typed by me", results
    assert "You wrote that yourself." in shown, shown
    shown, code = terminal([*servers("good"), *TASK], [(question, "n")])
    assert code == 0 and "As you wish." in shown, shown


def test_limits():
    run("agent", "--tools", "clock,calculator", *SUM, "--max-calls", "0", "--transcript", path("g"))
    assert not [e for e in events("g") if e["event"] == "approval"]
    out, _ = run("agent", "--tools", "clock,calculator", *SUM, "--max-calls", "1")
    assert out == "One call alone gave 391.\n", out


try:
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok", name)
finally:
    subprocess.run(["rm", "-rf", DIR], check=False)
