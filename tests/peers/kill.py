"""Kills a process of a server's job in the middle of answers, again and again, and looks at what its clients get.
usage: kill.py KENTANG MODEL [--times N] [--processes N] [--rank R] [--signal KILL|STOP|TERM]   R -1: mpirun itself

Each time: mpirun starts the server, clients ask without a pause, and after a random time one process gets the signal.
Every request that was sent has to end within --seconds with its whole answer, with 503 and Retry-After, with an error at
the end of its stream, or, where process 0 or mpirun was killed, with its connection; mpirun has to end in that time, with a code
that is not 0, and leave no process; and, of another process than 0, one line has to say which was lost."""
import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

STREAM = {"prompt": "once upon", "max_tokens": 400, "stream": True, "temperature": 0.9}
WHOLE = {"prompt": "a long time ago " * 20, "max_tokens": 300, "temperature": 0.9}


class Client(threading.Thread):
    """Asks until a request fails; .ends: how many ended how; .bad: what may not happen."""

    def __init__(self, port, body, job):
        super().__init__(daemon=True)
        self.port, self.body, self.job = port, body, job
        self.ends, self.bad = {}, []

    def run(self):
        while True:
            try:
                end = self.ask()
            except ConnectionRefusedError:
                return
            except (OSError, http.client.HTTPException) as e:
                end = "connection lost"
                if not self.job.may_lose_connections:
                    self.bad.append(f"the connection was lost: {e!r}")
            self.ends[end] = self.ends.get(end, 0) + 1
            if end != "answered":
                return

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.job.seconds + 30)
        connection.request("POST", "/v1/completions", json.dumps(self.body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        if response.status == 503:
            if not response.getheader("Retry-After"):
                self.bad.append("503 without Retry-After")
            return "503"
        if response.status != 200:
            self.bad.append(f"status {response.status}: {text[:200]}")
            return str(response.status)
        return self.end_of_stream(text) if self.body.get("stream") else self.end_of_whole(json.loads(text))

    def end_of_stream(self, text):
        if '"error"' in text:
            return "error in the stream"
        if not text.rstrip().endswith("data: [DONE]"):
            self.bad.append("a stream ends without an end: " + text[-200:])
        return "cut short" if '"cancelled"' in text else "answered"

    @staticmethod
    def end_of_whole(answer):
        return "cut short" if answer["choices"][0]["finish_reason"] == "cancelled" else "answered"


class Job:
    def __init__(self, a):
        self.rank = random.randrange(a.processes) if a.rank is None else a.rank
        self.seconds = a.seconds
        self.may_lose_connections = self.rank < 1 and a.signal == "KILL"
        self.log = open(a.log, "w+")
        env = dict(os.environ, KENTANG_MPI_DEADLINE=str(a.deadline))
        self.mpirun = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-n", str(a.processes), a.kentang, "serve", "--no-config", "--no-env", "-m", a.model,
             "--listen", "127.0.0.1:0", "--socket", "none", "-t", "1", "-c", "1024", "--split-least", "1"],
            stdout=self.log, stderr=self.log, env=env)
        self.port = self.wait_until_ready()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.mpirun.pid)], capture_output=True, text=True)
        self.pids = sorted(int(pid) for pid in children.stdout.split())

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def wait_until_ready(self):
        for _ in range(600):
            found = re.search(r" ready .*http=http://127\.0\.0\.1:(\d+)", self.text())
            if found:
                return int(found[1])
            if self.mpirun.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit("the server is not ready:\n" + self.text())

    def end_in(self, until):
        """Code of mpirun's; None: it goes on."""
        while time.monotonic() < until and (self.mpirun.poll() is None or self.alive()):
            time.sleep(0.02)
        return self.mpirun.poll()

    def alive(self):
        """Who is still there, zombies aside."""
        def runs(pid):
            try:
                return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
            except OSError:
                return False
        return [pid for pid in self.pids if runs(pid)]

    def end_by_force(self):
        for pid in [self.mpirun.pid] + self.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def kill_once(a):
    job = Job(a)
    clients = [Client(job.port, STREAM if i % 2 else WHOLE, job) for i in range(a.clients)]
    for client in clients:
        client.start()
    time.sleep(random.uniform(0.2, 1.0))
    begin = time.monotonic()
    os.kill(job.mpirun.pid if job.rank < 0 else job.pids[job.rank], getattr(signal, "SIG" + a.signal))
    until = begin + a.seconds
    for client in clients:
        client.join(max(0, until - time.monotonic()))
    answered_s = time.monotonic() - begin
    code = job.end_in(until)
    took_s = time.monotonic() - begin
    bad = [text for client in clients for text in client.bad]
    bad += ["a client hangs" for client in clients if client.is_alive()]
    if code is None or job.alive():
        bad.append(f"after {a.seconds} s mpirun or processes {job.alive()} are there")
        job.end_by_force()
    if code == 0 and a.signal != "TERM":
        bad.append("mpirun's code is 0")
    if job.rank > 0 and not re.search(rf"error.*process {job.rank} on \S+ ", job.text()):
        bad.append("no line names the process that was lost")
    ends = {}
    for client in clients:
        for end, n in client.ends.items():
            ends[end] = ends.get(end, 0) + n
    who = f"process {job.rank} of {a.processes}" if job.rank >= 0 else "mpirun"
    print(f"SIG{a.signal} to {who}: answers ended after {answered_s:.1f} s, the job after {took_s:.1f} s: "
          + ", ".join(f"{n} {end}" for end, n in sorted(ends.items())), flush=True)
    if bad:
        print("\n".join(bad) + "\n" + job.text())
    return not bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kentang")
    parser.add_argument("model")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--signal", default="KILL", choices=["KILL", "STOP", "TERM"])
    parser.add_argument("--deadline", type=int, default=60, help="KENTANG_MPI_DEADLINE")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--log", default="kill.log")
    a = parser.parse_args()
    sys.exit(0 if all([kill_once(a) for _ in range(a.times)]) else 1)


if __name__ == "__main__":
    main()
