#!/usr/bin/env python3
"""A soak of the server: mixed clients over HTTP and the socket, memory, and that everything is answered.

usage: serve_soak.py KENTANG [SECONDS] [CLIENTS]      (Python's standard library only)

Clients that read fast, read slowly, go away in the middle, send nonsense, or open a connection and say nothing run
at once. Every request of a client that stays must get exactly one end. Afterwards nothing may run or wait, and the
server must stop by itself with exit code 0. Anonymous memory is read every second: the last third may not lie more than
a tenth above the middle third."""
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

kentang = sys.argv[1]
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 600
n_clients = int(sys.argv[3]) if len(sys.argv) > 3 else 100
directory = tempfile.mkdtemp(prefix="kentang-soak-")
socket_path = os.path.join(directory, "k.sock")
log_path = os.path.join(directory, "log")
counts = {}
problems = []
lock = threading.Lock()
stop = threading.Event()


def count(name, n=1):
    with lock:
        counts[name] = counts.get(name, 0) + n


def problem(text):
    with lock:
        problems.append(text)


def start():
    log = open(log_path, "w")
    server = subprocess.Popen([kentang, "serve", "--no-config", "--no-env", "--listen", "127.0.0.1:0", "--socket",
                               socket_path, "--set", "limits.stall_s=5", "--set", "limits.request_s=5",
                               "--set", "limits.connections=2000", "--set", "limits.connections_per_peer=1000"],
                              stderr=log)
    for _ in range(1200):
        found = re.search(r"ready .*http=http://127\.0\.0\.1:(\d+)", open(log_path).read())
        if found:
            return server, int(found.group(1))
        time.sleep(0.05)
    sys.exit("the server does not start: " + open(log_path).read())


def body(rng, stream):
    n = rng.choice([1, 5, 20, 60])
    words = " ".join(rng.choice(["cat", "river", "potato", "rain"]) for _ in range(rng.choice([2, 10, 150])))
    return {"messages": [{"role": "user", "content": words}], "max_tokens": n, "stream": stream, "seed": rng.randrange(9)}


def http_whole(rng):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for _ in range(rng.randrange(1, 4)):
        connection.request("POST", "/v1/chat/completions", json.dumps(body(rng, False)),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = json.loads(answer.read())
        if answer.status == 200:
            assert data["choices"][0]["finish_reason"] in ("stop", "length"), data
            count("answered")
        elif answer.status in (429, 503):
            count("refused")
        else:
            problem(f"HTTP {answer.status}: {data}")
    connection.close()


def http_stream(rng, slow=False, leave=False):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/chat/completions", json.dumps(body(rng, True)), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        answer.read()
        count("refused" if answer.status in (429, 503) else f"http {answer.status}")
        return connection.close()
    ends = 0
    for i, line in enumerate(answer):
        ends += line.startswith(b"data: [DONE]")
        if slow:
            time.sleep(0.01)
        if leave and i > 4:
            count("left")
            return connection.close()
    if ends != 1:
        problem(f"{ends} ends of a stream")
    count("answered")
    connection.close()


def lines(rng, slow=False, leave=False):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(120)
        s.connect(socket_path)
        n = rng.randrange(1, 6)
        for i in range(n):
            s.sendall(json.dumps(dict(body(rng, rng.random() < 0.5), id=str(i))).encode() + b"\n")
        ends = {}
        for i, line in enumerate(s.makefile("rb")):
            answer = json.loads(line)
            if answer.get("done"):
                if "id" not in answer:
                    return count("refused") # too many connections
                ends[answer["id"]] = ends.get(answer["id"], 0) + 1
                count("refused" if "error" in answer else "answered")
            if slow:
                time.sleep(0.01)
            if leave and i > 3:
                return count("left")
            if sum(ends.values()) == n:
                break
        if len(ends) != n or set(ends.values()) != {1}:
            problem(f"{n} requests, ends {ends}")


def nonsense(rng):
    data = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 2000)))
    if rng.random() < 0.5:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(socket_path)
            s.sendall(data + b"\n")
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
    else:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(rng.choice([data, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                        b"application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data]))
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
    count("nonsense")


def half_open(rng):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-")
        time.sleep(rng.random() * 3)
    count("half-open")


def stuck(rng):
    with socket.socket(socket.AF_UNIX) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(socket_path)
        s.sendall(b'{"prompt":"x","max_tokens":900,"ignore_eos":true,"stream":true,"n_probs":20}\n' * 2)
        time.sleep(rng.random() * 4)
    count("stuck")


kinds = [http_whole, http_stream, lambda r: http_stream(r, slow=True), lambda r: http_stream(r, leave=True), lines,
         lambda r: lines(r, slow=True), lambda r: lines(r, leave=True), nonsense, half_open, stuck]


def client(number):
    rng = random.Random(number)
    while not stop.is_set():
        kind = rng.choice(kinds)
        try:
            kind(rng)
        except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected, http.client.BadStatusLine):
            count("reset" if kind in kinds[7:] or stop.is_set() else "lost")
        except Exception as error: # noqa: BLE001
            problem(f"{type(error).__name__}: {error}")
            time.sleep(0.2)


def memory():
    for line in open(f"/proc/{server.pid}/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0


server, port = start()
threads = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(n_clients)]
for thread in threads:
    thread.start()
end, series = time.time() + seconds, []
while time.time() < end and server.poll() is None:
    series.append(memory())
    time.sleep(1)
stop.set()
for thread in threads:
    thread.join(130)
left = "?"
for _ in range(100):
    time.sleep(0.1)
    s = socket.socket(socket.AF_UNIX)
    s.connect(socket_path)
    s.sendall(b'{"op":"stats"}\n')
    stats = json.loads(s.makefile().readline())["stats"]
    s.close()
    left = [m["running"] + m["waiting"] for m in stats["models"]], len(stats["requests"])
    if left == ([0], 0):
        break
else:
    problem(f"left over: {left}")
server.send_signal(signal.SIGTERM)
code = server.wait(60)
third = len(series) // 3
middle, last = max(series[third:2 * third], default=0), max(series[2 * third:], default=0)
print(json.dumps({"seconds": seconds, "clients": n_clients, "counts": counts, "exit": code,
                  "rss_anon_mb": {"middle": round(middle, 1), "last": round(last, 1)}, "problems": problems[:20],
                  "n_problems": len(problems)}, indent=1))
bad = problems or code != 0 or counts.get("lost") or "Sanitizer" in open(log_path).read()
if third > 10 and last > 1.1 * middle + 16:
    bad = True
    print("memory grows")
if bad:
    print(open(log_path).read()[-3000:])
else:
    shutil.rmtree(directory)
sys.exit(1 if bad else 0)
