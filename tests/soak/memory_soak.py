#!/usr/bin/env python3
"""The memory contract under the kernel's eyes: a server with --mem in a memory cgroup whose limit is the contract itself.

    memory_soak.py KENTANG [SECONDS [PRESET [MIB [OPTION...]]]]      # 300 s, smollm2-135m, 320 MiB; as root

OPTION: further ones of the server, such as --kv q4.

Clients send prompts of 10 to 2000 tokens with shared beginnings, one to three answers each, other priorities, cancels and
broken connections, over the socket; the pages are too few for all, so that answers are preempted, and a disk cache
takes what falls out. Asked for: no kill, the server's resident memory and what the cgroup charged never above the
limit, every request that stayed connected ends, equal requests get equal answers. cgroup v1 and v2. One JSON line;
exit 1 where it was not so.
"""
import collections
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS = 24


class Cgroup:
    def __init__(self, limit):
        v1 = pathlib.Path("/sys/fs/cgroup/memory")
        root = v1 if (v1 / "memory.limit_in_bytes").exists() else pathlib.Path("/sys/fs/cgroup")
        self.v1, self.dir = root == v1, root / f"kentang-soak-{os.getpid()}"
        if not self.v1:
            (root / "cgroup.subtree_control").write_text("+memory")
        self.dir.mkdir()
        self.write("memory.limit_in_bytes" if self.v1 else "memory.max", limit)
        if not self.v1 and (self.dir / "memory.swap.max").exists():
            self.write("memory.swap.max", 0)

    def write(self, name, value):
        (self.dir / name).write_text(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def fields(self, name):
        return dict(line.split()[:2] for line in (self.dir / name).read_text().splitlines())

    def figures(self):
        if self.v1:
            stat, kills = self.fields("memory.stat"), self.fields("memory.oom_control").get("oom_kill", "0")
            return {"most_charged": int((self.dir / "memory.max_usage_in_bytes").read_text()),
                    "limit_reached": int((self.dir / "memory.failcnt").read_text()),
                    "anonymous": int(stat["rss"]), "oom_kills": int(kills)}
        stat, events = self.fields("memory.stat"), self.fields("memory.events")
        most = self.dir / "memory.peak"
        return {"most_charged": int(most.read_text()) if most.exists() else 0, "limit_reached": int(events["max"]),
                "anonymous": int(stat["anon"]), "oom_kills": int(events["oom_kill"])}

    def remove(self):
        self.dir.rmdir()


class Tally:
    def __init__(self):
        self.lock, self.counts, self.answers = threading.Lock(), collections.Counter(), {}
        self.problems = []

    def add(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    def problem(self, text):
        with self.lock:
            self.problems.append(text)

    def compare(self, key, text):
        with self.lock:
            if self.answers.setdefault(key, text) != text:
                self.problems.append(f"another answer to {key}")


WORDS = "the a cat dog house tree river small old red walks sees under over with from and then why never".split()


def prompt(rng):
    """A shared beginning and an end of its own: (key, text)."""
    family, length, own = rng.randrange(6), rng.choice([5, 30, 100, 250, 500, 700]), rng.randrange(4)
    words = random.Random(family)
    shared = [words.choice(WORDS) for _ in range(length)]
    return (family, length, own), " ".join(shared + [WORDS[own], "and"])


def client(path, seed, end, tally):
    rng, serial = random.Random(seed), 0
    while time.monotonic() < end:
        try:
            converse(path, rng, f"{seed}-{serial}", end, tally)
        except (OSError, ValueError) as error:
            if time.monotonic() < end:
                tally.problem(f"connection: {error}")
                return
        serial += 1


def converse(path, rng, name, end, tally):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(300)
        s.connect(path)
        lines = s.makefile("r", encoding="utf-8")
        for i in range(rng.randint(1, 4)):
            key, text = prompt(rng)
            n, tokens, seed = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 8, 40, 120]), rng.randrange(3)
            ask = {"id": f"{name}-{i}", "prompt": text, "max_tokens": tokens, "n": n, "seed": seed, "ignore_eos": True,
                   "priority": rng.choice([0, 0, 1, -1]), "stream": False}
            s.sendall((json.dumps(ask) + "\n").encode())
            fate = rng.random()
            if fate < 0.05: # gone without a word
                tally.add("left")
                return
            if fate < 0.15:
                time.sleep(rng.random())
                s.sendall((json.dumps({"op": "cancel", "id": ask["id"]}) + "\n").encode())
                tally.add("cancels")
            answer = {}
            while not answer.get("done") and "error" not in answer:
                answer = json.loads(lines.readline())
                if answer.get("error", {}).get("param") == "id": # a cancel that came too late
                    answer = {}
            if "error" in answer:
                tally.add("refused " + str(answer["error"].get("code") or answer["error"].get("type")))
                time.sleep(0.2)
                continue
            tally.add("answers")
            tally.add("preemptions", answer.get("timings", {}).get("preempted", 0))
            ends = [c.get("finish_reason") for c in answer.get("choices", [answer])]
            if "cancelled" not in ends:
                tally.compare((key, n, tokens, seed), json.dumps([answer.get("content"), answer.get("choices")]))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kentang = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 300
    preset = sys.argv[3] if len(sys.argv) > 3 else "smollm2-135m"
    limit = int(sys.argv[4] if len(sys.argv) > 4 else 320) << 20
    options = sys.argv[5:]
    group, tally, most_rss = Cgroup(limit), Tally(), 0
    with tempfile.TemporaryDirectory() as work:
        model, path, log = (os.path.join(work, name) for name in ("model.gguf", "sock", "log"))
        subprocess.run([kentang, "synth", "--preset", preset, "--quant", "q4_k_m", model], check=True,
                       stderr=subprocess.DEVNULL)
        with open(log, "wb") as out:
            server = subprocess.Popen([kentang, "serve", "--no-config", "--no-env", "-m", model, "--socket", path,
                                       "--listen", "none", "--mem", str(limit), "-c", "2048", "--set",
                                       f"cache.dir={work}/cache", *options], stdout=out, stderr=out, preexec_fn=group.enter)
        while not os.path.exists(path) and server.poll() is None:
            time.sleep(0.1)
        end = time.monotonic() + seconds
        clients = [threading.Thread(target=client, args=(path, i, end, tally)) for i in range(CLIENTS)]
        for c in clients:
            c.start()
        while any(c.is_alive() for c in clients) and server.poll() is None:
            status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines())
            most_rss = max(most_rss, int(status.get("VmRSS", "0").split()[0]) << 10)
            time.sleep(0.5)
        alive = server.poll() is None
        figures = group.figures()
        server.terminate()
        server.wait()
        group.remove()
        if not alive:
            sys.stderr.write(open(log, errors="replace").read()[-2000:])
    bad = tally.problems[:5]
    if not alive:
        bad.append(f"the server is gone: {server.returncode}")
    if most_rss > limit:
        bad.append(f"resident {most_rss} of {limit}")
    if figures["oom_kills"]:
        bad.append("killed for memory")
    if not tally.counts["answers"]:
        bad.append("no answer at all")
    print(json.dumps({"preset": preset, "options": options, "seconds": seconds, "limit": limit, "most_resident": most_rss, **figures,
                      **tally.counts, "problems": bad}))
    sys.exit(1 if bad else 0)


main()
