#!/usr/bin/env python3
"""A load step on a real server whose controller is on: one client, then 32, then one again.

    load_step.py KENTANG [PRESET [TARGET_MS [SECONDS]]]      # smollm2-135m, 60 ms, 60 s of load

Twice: with memory for all answers, where only the time between two tokens counts, and with memory for a few of them, where preempted answers
are computed again; each without the controller and with it. Asked for: after 20 steps of the load the time between two tokens of the answer that
runs all the while is within the target (9 of 10 gaps: a neighbour's moment is not the server's), the direction of the batch's size changes at most
twice in any minute, each change is in the log, in the statistics and in `kentang ps`, no answer fails or is lost, equal requests get equal answers,
and with the controller a quarter of the preemptions at most. One JSON line for each; exit 1 where it was not so.
"""
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KENTANG = sys.argv[1]
PRESET = sys.argv[2] if len(sys.argv) > 2 else "smollm2-135m"
TARGET_MS = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 60.0
CLIENTS, SETTLING, WATCHED, SHORT_MEM, WITHIN = 32, 20, 4000, "260M", 0.9
SHORT = {"prompt": "the old house walks over the river and", "max_tokens": 96, "ignore_eos": True, "seed": 1}
LONG = {"prompt": "the old house walks over the river and " * 24, "max_tokens": 200, "ignore_eos": True, "seed": 1}


class Server:
    def __init__(self, home, model, mem, optimize, watch):
        self.path, self.log = home / "kentang.sock", home / "log"
        settings = {"parallel": 32, "ctx": 4096 if watch else 1024, "ubatch": 256, "optimizer.enabled": str(optimize).lower(),
                    "optimizer.target_latency_ms": int(TARGET_MS if watch else 5000)}
        self.process = subprocess.Popen([KENTANG, "serve", "--no-config", "--no-env", "-m", model, "--socket", str(self.path), "--listen", "none", "--mem", mem,
                                         *(part for k, v in settings.items() for part in ("--set", f"{k}={v}"))],
                                        stderr=open(self.log, "w"), stdout=subprocess.DEVNULL)
        while not self.path.exists():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def stats(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.path))
            s.sendall(b'{"op":"stats"}\n')
            return json.loads(s.makefile().readline())["stats"]["models"][0]

    def ps(self):
        return subprocess.run([KENTANG, "ps", "--socket", str(self.path)], capture_output=True, text=True, check=True).stdout

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def answer(path, ask, on_token=None):
    """The whole text, and where its time went."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(300)
        s.connect(str(path))
        s.sendall((json.dumps({"id": "x", "stream": bool(on_token), **ask}) + "\n").encode())
        text, lines = "", s.makefile("r", encoding="utf-8")
        while True:
            line = json.loads(lines.readline())
            if "error" in line:
                raise RuntimeError(json.dumps(line["error"]))
            if on_token and not line.get("done"):
                on_token()
            text += line.get("content", "") or ""
            if line.get("done") or not on_token:
                return text, line.get("timings", {})


def load(server, ask, watch):
    """One client before, 31 more for SECONDS, and one again: what was seen."""
    seen = {"answers": 0, "preempted": 0, "failures": [], "texts": set(), "gaps": []}
    lock, end, last = threading.Lock(), [0.0], [0.0]

    def crowd(own):
        while time.monotonic() < end[0]:
            try: # prompts of their own share no pages
                text, timings = answer(server.path, {**ask, "prompt": f"{own} {ask['prompt']}"})
            except (OSError, RuntimeError, ValueError) as error:
                with lock:
                    seen["failures"].append(str(error))
                return
            with lock:
                seen["answers"] += 1
                seen["texts"].add((own, text))
                seen["preempted"] += timings.get("preempted", 0)

    def token():
        now = time.monotonic()
        if last[0]:
            seen["gaps"].append((now, 1e3 * (now - last[0])))
        last[0] = now

    watched = threading.Thread(target=lambda: answer(server.path, {**ask, "max_tokens": WATCHED, "priority": 1}, token))
    if watch: # one long answer, all the while, which keeps its lane
        watched.start()
        time.sleep(2)
    begin = time.monotonic()
    end[0] = begin + SECONDS
    threads = [threading.Thread(target=crowd, args=(i,)) for i in range(CLIENTS - 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seen["seconds"] = time.monotonic() - begin
    if watch:
        watched.join()
    seen["gaps"] = [ms for at, ms in seen["gaps"] if begin < at < end[0]]
    return seen


CHANGE = re.compile(r"T(\d+):(\d+):([\d.]+).*optimizer: (reduce|increase)_batch_size")


def most_turns(log):
    """Changes of the direction of the batch's size, in any minute."""
    found = [m for m in map(CHANGE.search, log.splitlines()) if m]
    changes = [(int(m[1]) * 3600 + int(m[2]) * 60 + float(m[3]), m[4]) for m in found]
    turns = [b[0] for a, b in zip(changes, changes[1:]) if a[1] != b[1]]
    return max((sum(t <= u < t + 60 for u in turns) for t in turns), default=0)


def run(model, mem, optimize, ask, watch):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(pathlib.Path(folder), model, mem, optimize, watch)
        seen = load(server, ask, watch)
        optimizer, ps = server.stats()["optimizer"], server.ps()
        exit_code, log = server.stop(), server.log.read_text()
        counted = {k: n for k, n in optimizer["actions"].items() if n}
        problems = seen.pop("failures")[:3]
        texts = seen.pop("texts")
        if len(texts) > len({own for own, _ in texts}):
            problems.append("another answer to an equal request")
        if exit_code:
            problems.append(f"exit {exit_code}")
        for k, n in counted.items():
            if log.count(f"optimizer: {k}") != n or f"{k} {n}" not in ps:
                problems.append(f"{k}: {n} counted, {log.count(f'optimizer: {k}')} in the log, ps: {ps.splitlines()[-1]}")
        if most_turns(log) > 2:
            problems.append(f"{most_turns(log)} changes of direction in a minute")
        if watch:
            late = seen["gaps"][SETTLING:]
            within = sum(ms <= TARGET_MS for ms in late) / len(late)
            seen.update(steps=len(late), first_ms=[round(g) for g in seen["gaps"][:SETTLING]], longest_ms=round(max(late)), p50_ms=round(statistics.median(late), 1),
                        p90_ms=round(statistics.quantiles(late, n=10)[-1], 1), within_target=round(within, 3))
            if optimize and within < WITHIN:
                problems.append("the target is not held")
        seen.pop("gaps")
        return {"optimize": optimize, "mem": mem, **seen, "parallel": optimizer["parallel"], "actions": counted, "turns": most_turns(log), "problems": problems}


def main():
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model.gguf"
        subprocess.run([KENTANG, "synth", "--preset", PRESET, model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for mem, ask, watch in (("2G", SHORT, True), (SHORT_MEM, LONG, False)):
            for optimize in (False, True):
                runs.append(run(model, mem, optimize, ask, watch))
                print(json.dumps(runs[-1]), flush=True)
    bad = [p for r in runs for p in r["problems"]]
    if runs[3]["preempted"] > runs[2]["preempted"] / 4:
        bad.append("answers are preempted in spite of the controller")
    sys.exit(1 if bad else 0)


main()
