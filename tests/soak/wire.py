"""Small clients for the soak: a clock that does not run while the machine holds us, sockets with deadlines in that
time, HTTP/1.1 over TCP or a Unix socket, and every dialect's requests and answers."""
import json
import socket
import threading
import time

PATIENCE_S = 200 # of running time, for the next byte of an answer


class Cut(Exception):
    """The connection ended before the answer did."""


class Late(Exception):
    """Nothing came for PATIENCE_S."""


class Clock:
    """Monotonic seconds without the time in which this process was stopped."""

    def __init__(self):
        self.paused_s, self.pauses, self.pause_end, self.longest_wait_s = 0.0, 0, -1e9, 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        last = time.monotonic()
        while True:
            time.sleep(0.25)
            now = time.monotonic()
            if now - last > 5:
                self.paused_s += now - last - 0.25
                self.pauses += 1
                self.pause_end = now
            last = now

    def now(self):
        return time.monotonic() - self.paused_s

    def just_paused(self):
        return time.monotonic() - self.pause_end < 15


clock = Clock()


class Stream:
    """A connected socket with a buffer."""

    def __init__(self, family, address, rcvbuf=0):
        self.sock, self.data = socket.socket(family), bytearray()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        try:
            self.sock.settimeout(20)
            self.sock.connect(address)
        except OSError as error: # refused, or a socket file that is not there
            self.sock.close()
            raise Cut(f"connect: {error}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        try:
            self.sock.sendall(data)
        except socket.timeout:
            raise Late("send")
        except OSError as error:
            raise Cut(f"send: {error}")

    def fill(self):
        begin = clock.now()
        while True:
            try:
                more = self.sock.recv(65536)
                break
            except socket.timeout:
                time.sleep(1) # after a stop of the machine, the clock comes to know of it first
                if clock.just_paused():
                    begin = clock.now()
                if clock.now() - begin > PATIENCE_S:
                    raise Late("receive")
            except OSError as error:
                raise Cut(f"receive: {error}")
        clock.longest_wait_s = max(clock.longest_wait_s, min(clock.now() - begin, PATIENCE_S))
        if not more:
            raise Cut("end")
        self.data += more

    def line(self):
        at = 0
        while True:
            newline = self.data.find(b"\n", at)
            if newline >= 0:
                line = bytes(self.data[:newline + 1])
                del self.data[:newline + 1]
                return line
            at = len(self.data)
            self.fill()

    def exactly(self, n):
        while len(self.data) < n:
            self.fill()
        data = bytes(self.data[:n])
        del self.data[:n]
        return data


class Http(Stream):
    def ask(self, path, body=None):
        """Sends a request; (status, headers) of its answer."""
        head = f"{'POST' if body is not None else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\n"
        data = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self.send(head.encode() + b"\r\n" + data)
        status, self.headers = int(self.line().split()[1]), {}
        while (line := self.line().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        return status, self.headers

    def body(self):
        if "content-length" in self.headers:
            return self.exactly(int(self.headers["content-length"]))
        return b"".join(self.lines())

    def lines(self):
        """Lines of a chunked body; its end is the end of the iteration."""
        text = b""
        while True:
            n = int(self.line(), 16)
            text += self.exactly(n)
            self.exactly(2)
            if not n:
                break
            while b"\n" in text:
                line, _, text = text.partition(b"\n")
                yield line
        if text:
            yield text


# ---- dialects: (path, body of a request, text and finish of a whole answer, of a line of a stream) ----
# A request is (form, text, n_tokens, seed or None for greedy). A line of a stream gives (text, finish, is the end).

FINISH = {"stop": "stop", "length": "length", "end_turn": "stop", "max_tokens": "length"}


def base(request, stream):
    form, text, n, seed = request
    body = {"max_tokens": n, "stream": stream, **({"temperature": 0} if seed is None else {"seed": seed})}
    if form == "chat":
        body["messages"] = [{"role": "user", "content": text}]
    else:
        body["prompt"] = text
    return body


class OpenAI:
    def __init__(self, form):
        self.form, self.path = form, "/v1/chat/completions" if form == "chat" else "/v1/completions"

    body = staticmethod(base)

    def whole(self, answer):
        choice = answer["choices"][0]
        return choice["message"]["content"] if self.form == "chat" else choice["text"], choice["finish_reason"]

    def line(self, line):
        if not line.startswith(b"data: "):
            return "", None, False
        if line == b"data: [DONE]":
            return "", None, True
        data = json.loads(line[6:])
        if "error" in data:
            return "", "error", False
        choice = data["choices"][0]
        return (choice["delta"].get("content") or "") if self.form == "chat" else choice["text"], \
            choice["finish_reason"], False


class Anthropic:
    form, path = "chat", "/v1/messages"

    @staticmethod
    def body(request, stream):
        body = base(request, stream)
        if request[3] is not None:
            body["temperature"] = 0 # it has no seed
        body.pop("seed", None)
        return body

    @staticmethod
    def whole(answer):
        return "".join(part["text"] for part in answer["content"]), answer["stop_reason"]

    @staticmethod
    def line(line):
        if not line.startswith(b"data: "):
            return "", None, False
        data = json.loads(line[6:])
        delta = data.get("delta", {})
        return delta.get("text", ""), "error" if data["type"] == "error" else delta.get("stop_reason"), \
            data["type"] == "message_stop"


class Ollama:
    def __init__(self, form):
        self.form, self.path = form, "/api/chat" if form == "chat" else "/api/generate"

    @staticmethod
    def body(request, stream):
        body = base(request, stream)
        options = {"num_predict": body.pop("max_tokens")}
        options.update({k: body.pop(k) for k in ("seed", "temperature") if k in body})
        return dict(body, options=options, raw=True, model="demo")

    def whole(self, answer):
        return answer["message"]["content"] if self.form == "chat" else answer["response"], answer["done_reason"]

    def line(self, line):
        data = json.loads(line)
        if "error" in data:
            return "", "error", False
        return data["message"]["content"] if self.form == "chat" else data["response"], data.get("done_reason"), \
            data["done"]


DIALECTS = [OpenAI("chat"), OpenAI("text"), Anthropic(), Ollama("chat"), Ollama("text")]
