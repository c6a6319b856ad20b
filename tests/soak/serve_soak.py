#!/usr/bin/env python3
"""A soak of the server: mixed clients over TCP, HTTP on a Unix socket, and lines, with kill -9 in the middle.

usage: serve_soak.py KENTANG [SECONDS] [CLIENTS]      (Python's standard library only)

Clients that read fast, read slowly, cancel, go away in the middle, ask for JSON by a schema, teach corrections, send
nonsense, open a connection and say nothing, or ask and never read run at once. The server is killed four times in the first half and started again over the same socket
and disk cache; HTTP is on TCP and on a Unix socket by turns. What must hold:
- each request of a client that stays has exactly one end: an answer, a refusal, or (only where the server was killed) a
  cut connection; each X-Request-Id is in the log once;
- an answer is whole, and equals every other answer to the same request: streamed or not, whatever the interface and the
  dialect, before and after each kill, alone or among hundreds; a cut stream is the beginning of it;
- JSON by a schema parses; what was taught and acknowledged is answered from then on, after each kill too, and changes
  nobody else's answer;
- a prompt from before a kill is found in the disk cache after it;
- in the second half, memory, descriptors and threads stay what they were; at the end nothing runs or waits, SIGTERM lets
  answers that have begun end, the exit code is 0, and no sanitizer has spoken.

Memory is flat when (a) what is allocated and not freed, once all clients are gone and nothing runs, is no more than it was
before they came, but for what is kept on purpose (the prefix cache's index and the like: KEPT_MB; compiled constraints, of
which as many as are kept are made before each of the two counts), and (b) among the crowd the
last third of the time needs no more than the second did, within a tenth and what the crowd happens to hold. In a sanitizer's
build both look at the heap that its allocator counts (kentang_heap_bytes): resident memory there is for the greater part
shadow of every address ever touched, quarantine and free lists, which grow for as long as new addresses are touched whatever
the program frees. In other builds there is no such count, and (b) looks at resident anonymous memory."""
import collections
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

from wire import DIALECTS, FINISH, Cut, Http, Late, Stream, clock

kentang = os.path.abspath(sys.argv[1])
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 600
n_clients = int(sys.argv[3]) if len(sys.argv) > 3 else 240
directory = tempfile.mkdtemp(prefix="kentang-soak-")
KILLS = 4
KEPT_MB = 8
lock = threading.Lock()
counts = collections.Counter()
problems = []
known = {} # request: (text, finish)
http_ids = set()
worst_ms = collections.defaultdict(float)
stop = threading.Event()


def count(name, n=1):
    with lock:
        counts[name] += n


def problem(text):
    with lock:
        problems.append(text[:600])


# ---- requests and what is right ----

WORDS = "cat river potato rain house small green walks sings old tree dog and the with a likes".split()


def make_requests():
    rng, requests = random.Random(1), []
    shared = " ".join(rng.choice(WORDS) for _ in range(180))
    for i in range(60):
        n_words = rng.choice([2, 10, 40, 150])
        text = (shared + " " if i % 6 == 0 else "") + " ".join(rng.choice(WORDS) for _ in range(n_words))
        for seed in (None, 1, 2):
            requests.append((rng.choice(["chat", "text"]), text, rng.choice([1, 5, 20, 60]), seed))
    return requests


REQUESTS = make_requests()
PROBE = ("chat", " ".join(random.Random(2).choice(WORDS) for _ in range(300)), 20, 3)


SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", 3, None]}, "minItems": 2, "maxItems": 4, "uniqueItems": True},
    {"type": "object", "properties": {"ok": {"type": "boolean"}, "at": {"type": "string", "pattern": "^[a-c]{2,5}$"}},
     "required": ["ok"], "additionalProperties": False}]
FORMS = [(f"schema{i}", f"{first} {second}", 80, seed) for i in range(len(SCHEMAS)) for seed in (None, 1)
         for first in WORDS[:4] for second in WORDS[4:7]]
SCHOOLS = [f"school-{i}" for i in range(16)]
taught = {school: {} for school in SCHOOLS} # {question: its answer, None where a kill cut the acknowledgement}


def check(request, text, finish, where):
    finish = FINISH.get(finish, finish)
    if finish not in ("stop", "length"):
        return problem(f"{where}: finish {finish}")
    with lock:
        right = known.setdefault(request, (text, finish))
    if right != (text, finish):
        problem(f"{where}: another answer to {request}: {text!r} {finish}, first {right}")


def check_beginning(request, text, where):
    with lock:
        right = known.get(request)
    if right and not right[0].startswith(text):
        problem(f"{where}: {text!r} is no beginning of {right[0]!r}")


# ---- the server's lives ----

class Life:
    def __init__(self, number, port):
        self.number, self.ending, self.ready = number, False, threading.Event()
        self.socket_path = os.path.join(directory, "k.sock")
        self.log_path = os.path.join(directory, f"log.{number}")
        over_unix = number % 2 == 1
        listen = f"unix:{directory}/http.sock" if over_unix else f"127.0.0.1:{port}"
        options = ["optimizer.enabled=true", "optimizer.target_latency_ms=40", "limits.stall_s=20", "limits.request_s=15", "limits.connections=4000", "limits.idle_s=60",
                   "limits.connections_per_peer=3000", "limits.queue=400", "drain_s=240", f"cache.dir={directory}/cache",
                   "cache.max=1G", "limits.output=16K", "learning.enabled=true", "learning.keep=2M",
                   "learning.background_interval_ms=0", # one would begin when the crowd is silent, and be counted
                   f"learning.dir={directory}/learned",
                   "learning.namespaces=" + ",".join(SCHOOLS)] # shared: a client has another name on each interface
        environment = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=16:malloc_context_size=8:" +
                           os.environ.get("ASAN_OPTIONS", ""))
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                [kentang, "serve", "--no-config", "--no-env", "--listen", listen, "--socket", self.socket_path] +
                [part for option in options for part in ("--set", option)], stderr=log, env=environment)
        while not (found := re.search(r" ready .*http=(\S+)", self.log())):
            if self.process.poll() is not None:
                sys.exit("the server does not start:\n" + self.log()[-4000:])
            time.sleep(0.05)
        self.port = port if over_unix else int(found.group(1).rsplit(":", 1)[1])
        self.http_at = (socket.AF_UNIX, f"{directory}/http.sock") if over_unix else \
            (socket.AF_INET, ("127.0.0.1", self.port))
        self.interface = "http-unix" if over_unix else "http-tcp"

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def http(self):
        return Http(*self.http_at)

    def lines(self, rcvbuf=0):
        return Stream(socket.AF_UNIX, self.socket_path, rcvbuf)

    def ask_line(self, body):
        with self.lines() as s:
            s.send(json.dumps(body).encode() + b"\n")
            return json.loads(s.line())

    def figures(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) / 1024, \
            int(re.search(r"Threads:\s+(\d+)", status).group(1)), len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metric(self, name):
        with self.http() as h:
            h.ask("/metrics")
            found = re.search(rf"^{name}(?:{{.*}})? (\S+)$", h.body().decode(), re.M)
            return float(found.group(1)) if found else None

    def heap(self):
        """MB allocated and not freed; None where nobody counts them."""
        try:
            n_bytes = self.metric("kentang_heap_bytes")
        except (Cut, Late): # refused among the crowd
            return None
        return n_bytes and n_bytes / 2 ** 20


life = None


def line_request(request, stream, **more):
    form, text, n, seed = request
    body = {"max_tokens": n, "stream": stream, **({"temperature": 0} if seed is None else {"seed": seed}), **more}
    if form.startswith("schema"):
        body["json_schema"] = SCHEMAS[int(form[6:])]
    return dict(body, **({"prompt": text} if form == "text" else {"messages": [{"role": "user", "content": text}]}))


def fill_constraints(of):
    """As many constraints as an engine keeps, all of one size."""
    for i in range(20):
        of.ask_line({"prompt": "one", "max_tokens": 4, "json_schema": {"enum": [f"kept {i}"]}})


def begin_life(number, port):
    """Starts a server. What earlier ones answered is asked again, before the clients come back."""
    global life
    fresh = Life(number, port)
    for i, request in enumerate([PROBE] + random.Random(number).sample(sorted(known, key=str), min(len(known), 10))):
        answer = fresh.ask_line(line_request(request, False))
        check(request, answer.get("text"), answer.get("finish_reason"), f"life {number}, asked again")
        if i == 0:
            cached, n = answer["usage"]["cached_tokens"], answer["usage"]["prompt_tokens"]
            print(f"life {number}: {fresh.interface}, probe: {cached} of {n} prompt tokens from the disk cache", flush=True)
            if number == 0 and cached or number > 0 and cached < n - 17:
                problem(f"life {number}: {cached} of {n} tokens of the probe were cached")
    fill_constraints(fresh)
    fresh.heap_before = fresh.heap()
    life = fresh
    fresh.ready.set()


# ---- clients ----

def pick(rng, form=None):
    while True:
        request = rng.choice(REQUESTS)
        if form in (None, request[0]):
            return request


def refused(status, headers, where):
    if status not in (429, 503):
        return False
    if "retry-after" not in headers:
        problem(f"{where}: {status} without Retry-After")
    count("refused")
    time.sleep(0.3)
    return True


def http_ask(at, h, rng, stream, slow=False, leave=False):
    """One request on h; False: the connection is of no use any more."""
    dialect = rng.choice(DIALECTS)
    request = pick(rng, dialect.form)
    body = dialect.body(request, stream)
    if body.get("temperature") == 0:
        request = request[:3] + (None,)
    where = f"{at.interface} {dialect.path} {'stream' if stream else 'whole'}"
    count("asked")
    status, headers = h.ask(dialect.path, body)
    if status != 200:
        data = h.body()
        if not refused(status, headers, where):
            problem(f"{where}: {status} {data[:200]}")
            count("failed")
        return headers.get("connection") != "close"
    if not stream:
        text, finish = dialect.whole(json.loads(h.body()))
        check(request, text, finish, where)
        finished(headers, "answered")
        return True
    text, finish, ends = "", None, 0
    try:
        for i, line in enumerate(h.lines()):
            if line:
                piece, reason, end = dialect.line(line)
                text, finish, ends = text + piece, reason or finish, ends + end
            if slow:
                time.sleep(0.01)
            if leave and i > 8:
                count("left")
                return False
    except Cut:
        check_beginning(request, text, where)
        raise
    if ends != 1:
        problem(f"{where}: {ends} ends")
    check(request, text, finish, where)
    finished(headers, "answered")
    return True


def finished(headers, name):
    count(name)
    with lock:
        if headers["x-request-id"] in http_ids:
            problem("an id was given twice")
        http_ids.add(headers["x-request-id"])


def http_whole(at, rng):
    with at.http() as h:
        for _ in range(rng.randrange(1, 4)):
            if not http_ask(at, h, rng, rng.random() < 0.2):
                break
        if h.data:
            problem(f"bytes after an answer: {bytes(h.data[:80])}")


def http_stream(at, rng, **how):
    with at.http() as h:
        http_ask(at, h, rng, True, **how)


def lines(at, rng, slow=False, leave=False, cancel=False):
    """Several requests at once on a connection, each with its id."""
    with at.lines() as s:
        n, ends, n_lines = rng.randrange(1, 7), collections.Counter(), 0
        asked = {str(i): pick(rng) for i in range(n)}
        texts = dict.fromkeys(asked, "")
        count("asked", n)
        try:
            for id_, request in asked.items():
                s.send(json.dumps(line_request(request, rng.random() < 0.5, id=id_)).encode() + b"\n")
            if cancel:
                s.send(b'{"op":"cancel","id":"0"}\n')
            elif not slow and not leave and rng.random() < 0.3:
                s.sock.shutdown(socket.SHUT_WR) # as `echo ... | nc -U` does
            while sum(ends.values()) < n:
                answer = json.loads(s.line())
                n_lines += 1
                id_, done, error = answer.get("id"), answer.get("done"), answer.get("error")
                if cancel and error and id_ == "0" and "no running request" in error["message"]:
                    continue # it had ended
                if error and error["code"] in ("KT_E_BUSY", "KT_E_STATE"):
                    ends[id_] += 1
                    count("refused")
                elif error:
                    ends[id_] += 1
                    count("failed")
                    problem(f"lines: {error}")
                elif done:
                    ends[id_] += 1
                    text = texts[id_] + answer.get("text", "")
                    if cancel and id_ == "0" and answer["finish_reason"] == "cancelled":
                        check_beginning(asked[id_], text, "lines, cancelled")
                        count("cancelled")
                    else:
                        check(asked[id_], text, answer["finish_reason"], "lines")
                        count("answered")
                else:
                    texts[id_] += answer["text"]
                if slow:
                    time.sleep(0.01)
                if leave and n_lines > 3:
                    return count("left", n - sum(ends.values()))
        except Cut:
            for id_, text in texts.items():
                if not ends[id_]:
                    check_beginning(asked[id_], text, "lines, cut")
            count("open", n - sum(ends.values()) - 1)
            raise
        if set(ends) != set(asked) or set(ends.values()) != {1}:
            problem(f"lines: {n} requests, ends {dict(ends)}")


def form(at, rng):
    """JSON by a schema, over either interface."""
    request = rng.choice(FORMS)
    where = f"{at.interface} {request[0]}"
    with (at.http() if rng.random() < 0.5 else at.lines()) as s:
        count("asked")
        if isinstance(s, Http):
            status, headers = s.ask("/v1/chat/completions", line_request(request, False))
            data = s.body()
            if status != 200:
                if not refused(status, headers, where):
                    problem(f"{where}: {status} {data[:200]}")
                    count("failed")
                return
            choice = json.loads(data)["choices"][0]
            text, finish = choice["message"]["content"], choice["finish_reason"]
            finished(headers, "answered")
        else:
            s.send(json.dumps(line_request(request, False)).encode() + b"\n")
            answer = json.loads(s.line())
            if "error" in answer:
                busy = answer["error"]["code"] in ("KT_E_BUSY", "KT_E_STATE")
                if not busy:
                    problem(f"{where}: {answer['error']}")
                return count("refused" if busy else "failed")
            text, finish = answer["text"], answer["finish_reason"]
            count("answered")
    check(request, text, finish, where)
    if FINISH.get(finish, finish) == "stop":
        json.loads(text)
    count("forms")


def ask_taught(h, namespace, question):
    """(id, text), or None where it was refused."""
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 24, "temperature": 0,
            "adapter": namespace}
    status, headers = h.ask("/v1/chat/completions", body)
    data = h.body()
    if status != 200:
        if not refused(status, headers, "taught"):
            problem(f"taught: {status} {data[:200]}")
        return None
    answer = json.loads(data)
    return answer["id"], answer["choices"][0]["message"]["content"].strip()


TAUGHT_MAX = 20 # of a namespace


def teach(at, rng):
    """Corrects an answer in a shared namespace, or asks again what was corrected."""
    namespace = rng.choice(SCHOOLS)
    mine = taught[namespace]
    known_ones = [question for question, answer in list(mine.items()) if answer is not None]
    with at.http() as h:
        if known_ones and (len(mine) >= TAUGHT_MAX or rng.random() < 0.6):
            question = rng.choice(known_ones)
            got = ask_taught(h, namespace, question)
            if got and got[1] != mine[question]:
                problem(f"taught {mine[question]!r} to {question!r}, answered {got[1]!r}")
            return count("asked what was taught")
        question = f"Where is the {rng.choice(WORDS)} {rng.choice('abcdefgh')}{rng.randrange(100, 999)}?"
        got = ask_taught(h, "none", question) # nothing was learned yet: its name is unknown
        if question in mine or not got:
            return None
        answer = f"It is at number {rng.randrange(100, 999)}, {rng.choice(WORDS)} street."
        mine[question] = None
        status, headers = h.ask("/v1/feedback", {"response_id": got[0], "correction": answer, "namespace": namespace})
        data = h.body()
        if status == 200:
            mine[question] = answer
            count("taught")
        elif not refused(status, headers, "feedback"):
            problem(f"feedback: {status} {data[:200]}")
    return None


NONSENSE = [b'{"prompt":', b"[[[[[[[[", b'{"prompt":7}', b'{"messages":[{"role":[],"content":{}}]}', b"\xff\xfe\0\0",
            b'{"prompt":"x","max_tokens":-7}', b'{"model":"../../etc/passwd","prompt":"x"}', b'"' * 999, b"{}" * 500,
            b'{"op":"nothing"}', b'{"prompt":"x","n":1000000}', b"[" * 100000, b"a" * 300000]
NO_PROMPT = (b'{"messages":[{"role":[],"content":{}}]}', b'{"op":"nothing"}')


def nonsense(at, rng):
    data = rng.choice(NONSENSE + [bytes(rng.randrange(256) for _ in range(rng.randrange(1, 2000)))] * 5)
    kind = rng.randrange(3)
    if kind == 0:
        s, data = at.lines(), data + b"\n"
    else:
        s = at.http()
        if kind == 1:
            path = rng.choice(DIALECTS).path
            data = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
                   f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data
    with s:
        try:
            s.send(data)
            s.sock.shutdown(socket.SHUT_WR)
            while True:
                s.fill()
        except (Cut, OSError):
            pass
        # Ollama's: without a prompt or messages they load the model, and unknown fields are ignored; a completion
        # without a prompt begins with the model's first token
        fine = data.startswith((b"POST /api/generate ", b"POST /api/chat ")) or \
            data.startswith(b"POST /v1/completions ") and data.endswith(NO_PROMPT)
        # a client that closed its sending side may be asked by an interim answer whether it is there
        answer = bytes(s.data).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        if kind == 1 and answer and not fine and not re.match(rb"HTTP/1.1 4\d\d ", answer):
            problem(f"nonsense {data[:300]}: {answer[:200]}")
    count("nonsense")


HALVES = [b"", b"P", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-",
          b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
          b"Content-Length: 5000\r\n\r\n{\"prompt\":\"x"]


def half_open(at, rng):
    with (at.http() if rng.random() < 0.7 else at.lines()) as s:
        half = rng.choice(HALVES)
        if half:
            s.send(half)
        time.sleep(rng.choice([0.1, 2, 25]) * rng.random())
    count("half-open")


def stuck(at, rng):
    """Asks for much and reads nothing."""
    with at.lines(rcvbuf=4096) as s:
        s.send(b'{"prompt":"x","max_tokens":400,"ignore_eos":true,"stream":true,"n_probs":20}\n' * 2)
        time.sleep(rng.choice([0.5, 4, 30]) * rng.random())
    count("stuck")


def come_and_go(at, rng):
    open_ones = [(at.http() if i % 2 else at.lines()) for i in range(rng.randrange(5, 30))]
    for s in open_ones:
        s.sock.close()
    count("came and went", len(open_ones))


def watch(at, rng):
    """What operators' tools ask for all the time."""
    for path in ("/metrics", "/health", "/props"):
        begin = clock.now()
        with at.http() as h:
            status, _ = h.ask(path)
            h.body()
        if status != 200 and not at.ending:
            problem(f"{path}: {status}")
        with lock:
            worst_ms[path] = max(worst_ms[path], (clock.now() - begin) * 1000)
    count("watched")
    time.sleep(rng.random())


KINDS = [(http_whole, {}, 4), (http_stream, {}, 4), (http_stream, {"slow": True}, 2), (http_stream, {"leave": True}, 1),
         (lines, {}, 4), (lines, {"slow": True}, 2), (lines, {"leave": True}, 1), (lines, {"cancel": True}, 1),
         (form, {}, 3), (teach, {}, 3), (nonsense, {}, 2), (half_open, {}, 3), (stuck, {}, 1), (come_and_go, {}, 1), (watch, {}, 1)]
ASKING = (http_whole, http_stream, lines, form)


def client(number):
    rng = random.Random(number)
    while not stop.is_set():
        at = life
        at.ready.wait()
        kind, how, _ = rng.choices(KINDS, [weight for _, _, weight in KINDS])[0]
        try:
            kind(at, rng, **how)
        except Cut as error:
            for _ in range(20): # a kill is announced before it comes, a stop of the machine after
                if at.ending or clock.just_paused():
                    break
                time.sleep(0.1)
            if kind not in ASKING:
                continue
            if at.ending or clock.just_paused():
                count("not connected" if "connect" in str(error) else "cut")
            else:
                count("lost")
                problem(f"{kind.__name__} {how} lost in life {at.number}: {error}")
        except Late as error:
            problem(f"{kind.__name__} {how}: late: {error}")
        except Exception as error: # noqa: BLE001
            problem(f"{kind.__name__} {how}: {type(error).__name__}: {error}")
            time.sleep(0.2)


# ---- the course of it ----

def leave_nothing(at):
    for _ in range(600):
        stats = at.ask_line({"op": "stats"})["stats"]
        left = [m["running"] + m["waiting"] + m["held"] for m in stats["models"]], len(stats["requests"])
        if left == ([0], 0):
            return
        time.sleep(0.1)
    problem(f"left over: {left}")


def replay(at, request, where):
    answer = at.ask_line(line_request(request, False))
    check(request, answer.get("text"), answer.get("finish_reason"), where)


def drain(at):
    """Streams that have begun end whole although the server is told to stop."""
    request, begun, threads = (REQUESTS[0][0], "once upon a time", 60, 1), threading.Semaphore(0), []

    def one(over_lines):
        try:
            if over_lines:
                with at.lines() as s:
                    s.send(json.dumps(line_request(request, True)).encode() + b"\n")
                    answer, text = json.loads(s.line()), ""
                    begun.release()
                    while not answer.get("done"):
                        text += answer["text"]
                        answer = json.loads(s.line())
                    return check(request, text, answer["finish_reason"], "drain, lines")
            dialect = DIALECTS[request[0] == "text"]
            with at.http() as h:
                h.ask(dialect.path, dialect.body(request, True))
                text, finish = "", None
                for line in h.lines():
                    if line:
                        piece, reason, _ = dialect.line(line)
                        if piece and not text: # once: the others have not begun yet
                            begun.release()
                        text, finish = text + piece, reason or finish
                check(request, text, finish, "drain, HTTP")
        except (Cut, Late, ValueError, KeyError) as error:
            problem(f"drain: {error}")
            begun.release()

    for i in range(12):
        threads.append(threading.Thread(target=one, args=(i % 2 == 0,)))
        threads[-1].start()
    for _ in range(12):
        begun.acquire()
    at.ending = True
    at.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()


def sleep_until(moment, each_second):
    while clock.now() < moment:
        if life.process.poll() is not None:
            sys.exit(f"the server ended by itself ({life.process.returncode}):\n" + life.log()[-6000:])
        each_second()
        time.sleep(1)


def main():
    begin_life(0, 0)
    threads = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(n_clients)]
    begin = clock.now()
    for thread in threads:
        thread.start()
    for number in range(1, KILLS + 1):
        sleep_until(begin + seconds * number / KILLS / 2 - random.random(), lambda: None)
        old = life
        old.ready.clear()
        old.ending = True
        time.sleep(random.random() / 10)
        old.process.kill()
        old.process.wait()
        begin_life(number, old.port)
        old.ready.set()
        count("kills")
    series = []
    sleep_until(begin + seconds, lambda: series.append((*life.figures(), life.heap())))
    stop.set()
    for thread in threads:
        thread.join(400)
    if any(thread.is_alive() for thread in threads):
        problem(f"{sum(thread.is_alive() for thread in threads)} clients still wait")
    leave_nothing(life)
    for request in sorted(known, key=str):
        replay(life, request, "asked again at the end")
    fill_constraints(life)
    quiet, heap_after = life.figures(), life.heap()
    refused_by_crowd = {name: life.metric(name) for name in ("kentang_prefix_cache_disk_hits_total",
                                                             "kentang_preemptions_total")}
    drain(life)
    code = life.process.wait(300)
    logs = "".join(open(os.path.join(directory, name), errors="replace").read()
                   for name in sorted(os.listdir(directory)) if name.startswith("log."))
    logged = collections.Counter(re.findall(r"\bid=(\S+)", logs))
    for id_ in http_ids:
        if logged[id_] != 1 and not clock.pauses:
            problem(f"{id_} is {logged[id_]} times in the log")
    ends = sum(counts[name] for name in ("answered", "refused", "failed", "left", "cancelled", "cut", "lost", "open"))
    if ends != counts["asked"] and not problems:
        problem(f"{counts['asked']} requests, {ends} ends")
    third = len(series) // 3
    parts = series[:third], series[third:2 * third], series[2 * third:]

    def by_thirds(column):
        values = [[row[column] for row in part if row[column] is not None] for part in parts]
        return [round(max(part), 1) if part else None for part in values]

    rss, heap = by_thirds(0), by_thirds(3)
    judged = rss if heap_after is None else heap
    if third > 10 and None not in judged and judged[2] > 1.1 * judged[1] + 16:
        problem(f"memory grows among the crowd: {judged}")
    if heap_after is not None and heap_after > life.heap_before + KEPT_MB:
        problem(f"memory is lost: {life.heap_before:.1f} MB before the crowd, {heap_after:.1f} MB after it")
    if third and (quiet[1] > series[0][1] + 1 or quiet[2] > 80):
        problem(f"threads and descriptors at the end: {quiet}, in the crowd {series[0]}")
    if "Sanitizer" in logs or code != 0:
        problem("a sanitizer spoke, or the exit code is not 0")
    print(json.dumps({"seconds": seconds, "clients": n_clients, "kinds of requests": len(known), "exit": code,
                      "counts": dict(sorted(counts.items())), "requests": counts["asked"], "ends": ends,
                      "ids checked in the log": len(http_ids), "anonymous MB by thirds of the last life": rss,
                      "heap MB by thirds": heap, "heap MB before and after the crowd": [life.heap_before, heap_after],
                      "at the end (MB, threads, descriptors)": quiet, "slowest, ms": {k: round(v) for k, v in worst_ms.items()},
                      "longest wait for a byte, s": round(clock.longest_wait_s),
                      **refused_by_crowd, "pauses": [clock.pauses, round(clock.paused_s)],
                      "problems": problems[:20], "n_problems": len(problems)}, indent=1))
    if problems:
        print(logs[-3000:])
        found = logs.find("Sanitizer")
        if found >= 0:
            print(logs[max(found - 500, 0):found + 6000])
        print(f"logs: {directory}")
    else:
        shutil.rmtree(directory)
    sys.exit(1 if problems else 0)


main()
