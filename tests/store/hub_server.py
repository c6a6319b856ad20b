#!/usr/bin/env python3
"""A hub to be fetched from, well-behaved and otherwise: the first part of a path says how it behaves.

    hub_server.py FOLDER LOG

Serves what lies in FOLDER/OWNER/REPO with Hugging Face's interface, as a list of links and, from FOLDER/registry.json, as a registry. Prints
the ports of two listeners, "A B"; the second stands for another host. Each request is a line of LOG:
LISTENER METHOD PATH RANGE AUTHORIZATION.
"""
import hashlib
import http.server
import json
import os
import re
import socketserver
import sys
import threading
import time
import urllib.parse

ROOT, LOG = sys.argv[1:3]
TOKEN = "Bearer hub-token-for-tests"
lock = threading.Lock()
counts = {}
loaded = {}


def count(key):
    """How often key was asked for, this time included."""
    with lock:
        counts[key] = counts.get(key, 0) + 1
        return counts[key]


def load(path):
    """The bytes of a file and their sha256, read and computed once for each version of it."""
    seen = os.stat(path)
    version = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
    if loaded.get(path, (None,))[0] != version:
        with open(path, "rb") as f:
            data = f.read()
        loaded[path] = version, data, hashlib.sha256(data).hexdigest()
    return loaded[path][1:]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer's body waits 40 ms for the acknowledgement of its head

    def log_message(self, *args):
        pass

    def note(self):
        with lock, open(LOG, "a") as log:
            print(self.server.name, self.command, self.path, self.headers.get("Range", "-"),
                  self.headers.get("Authorization", "-").replace(" ", "_"), file=log)

    def answer(self, code, body, headers=()):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.note()
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        mode, _, rest = path.lstrip("/").partition("/")
        self.mode = mode
        if mode in ("hf", "longurl") and self.as_published(rest):
            return None
        if mode == "gated" and self.headers.get("Authorization") != TOKEN:
            return self.answer(401, b"no")
        if mode == "broken":
            return self.answer(500, b"oops")
        if mode in ("listing", "registry") and rest.startswith("api/"):
            return self.answer(404, b"no such interface")
        if mode == "listing" and rest.startswith("v2/"):
            return self.answer(404, b"no such interface")
        if rest == "api/models":
            return self.search(urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query))
        if rest.startswith("api/models/"):
            return self.interface(rest[len("api/models/"):].split("/"))
        if rest.startswith("v2/"):
            return self.registry(rest[3:].split("/"))
        if "/resolve/" in rest:
            owner_repo, _, file = rest.partition("/resolve/")
            return self.file(owner_repo + "/" + file.partition("/")[2])
        return self.plain(rest)

    def send_on(self, code, where, headers=()):
        self.answer(code, b"Temporary Redirect. Redirecting", (("Location", where), *headers))
        return True

    def as_published(self, rest):
        """What Hugging Face's hub does beside the plain answers: renamed and missing repositories, a signed address on another host
        for large files, a cache of its own for small ones, 416 for the first byte of an empty file."""
        if "Owner/Renamed" in rest:
            return self.send_on(307, self.path.replace("Owner/Renamed", "Owner/Encoder"))
        if rest.startswith("api/resolve-cache/"):
            owner_repo, _, file = rest.removeprefix("api/resolve-cache/").partition("/resolve/")
            self.file(owner_repo + "/" + file.partition("/")[2])
            return True
        if rest.startswith("api/models/") and not os.path.isdir(os.path.join(ROOT, *rest.split("/")[2:4])):
            self.answer(401, b'{"error":"Invalid username or password."}', (("X-Error-Code", "RepoNotFound"),))
            return True
        if self.server.name == "B" or "/resolve/" not in rest:
            return False
        owner_repo, _, file = rest.partition("/resolve/")
        data, sha = load(os.path.join(ROOT, owner_repo, file.partition("/")[2]))
        if not file.endswith((".gguf", ".safetensors")):
            return self.send_on(307, f"/{self.mode}/api/resolve-cache/{rest}?x=%2F")
        sign = "&Policy=" + "a1b2c3d4" * (1000 if self.mode == "longurl" else 300)
        return self.send_on(302, f"http://127.0.0.1:{self.server.other}/good/{owner_repo}/{file.partition('/')[2]}?Expires=1{sign}", (
            ("X-Linked-Etag", '"' + sha + '"'), ("X-Linked-Size", str(len(data))),
            ("X-Repo-Commit", "%040x" % 0xabc)))

    def search(self, asked):
        """Repositories whose names have all words, in the order of their names; and two whose names are none."""
        words, found = asked["search"][0].lower().split(), []
        for owner in sorted(os.listdir(ROOT)):
            for repo in sorted(os.listdir(os.path.join(ROOT, owner)) if os.path.isdir(os.path.join(ROOT, owner)) else ()):
                if all(w in f"{owner}/{repo}".lower() for w in words):
                    found.append({"id": f"{owner}/{repo}", "downloads": 1000 + len(found)})
        odd = [{"id": "../../etc", "downloads": 1}, {"id": 7}]
        self.answer(200, json.dumps(odd + found[:int(asked["limit"][0])]).encode())

    def interface(self, parts):
        repo, kind, revision = "/".join(parts[:2]), parts[2], parts[3]
        folder = os.path.join(ROOT, repo)
        if not os.path.isdir(folder):
            return self.answer(404, b'{"error": "Repository not found"}')
        if kind == "revision":
            return self.answer(200, json.dumps({"sha": "%040x" % 0xabc, "siblings": []}).encode())
        tree = []
        for base, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                full = os.path.join(base, name)
                data, sha = load(full)
                size = len(data) + (self.mode == "lie")
                entry = {"type": "file", "path": os.path.relpath(full, folder), "size": size}
                if name.endswith((".gguf", ".safetensors")):
                    sha = "0" * 64 if self.mode == "wrongsum" else sha
                    if self.mode != "nosum":
                        entry["lfs"] = {"oid": sha, "size": size}
                else:
                    entry["oid"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                tree.append(entry)
        tree.append({"type": "file", "path": "../../escape.gguf", "size": 10, "oid": "0" * 40})
        tree.append({"type": "file", "path": "/etc/escape.gguf", "size": 10, "oid": "0" * 40})
        tree.append({"type": "directory", "path": "folder"})
        if not self.mode.startswith("pages"):
            return self.answer(200, json.dumps(tree).encode())
        self.page(tree)

    def page(self, tree):
        """One entry a page; some modes point in a circle or to another host."""
        at = int((re.search(r"cursor=(\d+)", self.path) or [0, 0])[1])
        path = self.path.partition("?")[0]
        following = {"pages": f"<{path}?recursive=true&cursor={at + 1}>", "pagesloop": f"<{path}?recursive=true&cursor=0>",
                     "pagesaway": "<http://localhost.invalid/evil>"}[self.mode]
        last = self.mode == "pages" and at + 1 >= len(tree)
        link = () if last else (("Link", f'<{path}?cursor=0>; rel="first", {following}; rel="next"'),)
        self.answer(200, json.dumps(tree[at:at + 1]).encode(), link)

    def registry(self, parts):
        known = json.load(open(os.path.join(ROOT, "registry.json")))
        if "manifests" in parts:
            at = parts.index("manifests")
            file = known.get("/".join(parts[:at]) + ":" + parts[at + 1])
            if not file:
                return self.answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
            if file == "tensors":
                layers = [{"mediaType": "application/vnd.ollama.image.tensor", "digest": "sha256:" + c * 64, "size": 3,
                           "name": "model.norm.weight"} for c in "12"]
                return self.answer(200, json.dumps({"schemaVersion": 2, "layers": layers}).encode())
            data, sha = load(os.path.join(ROOT, file))
            layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "1" * 64, "size": 3},
                      {"mediaType": "application/vnd.ollama.image.model", "size": len(data),
                       "digest": "sha256:" + sha}]
            return self.answer(200, json.dumps({"schemaVersion": 2, "layers": layers}).encode())
        digest = parts[-1].removeprefix("sha256:")
        for file in known.values():
            if load(os.path.join(ROOT, file))[1] == digest:
                return self.file(file)
        self.answer(404, b"")

    def plain(self, rest):
        if rest.startswith("v2/") or rest.startswith("api/"):
            return self.answer(404, b"")
        full = os.path.join(ROOT, rest)
        if os.path.isdir(full) and rest.endswith("/"):
            links = "".join(f'<li><a href="{urllib.parse.quote(n)}">{n}</a></li>' for n in sorted(os.listdir(full)))
            page = f'<html><a href="../">..</a><a href="?C=M">by date</a><a href="/etc/passwd.gguf">x</a><ul>{links}</ul>'
            return self.answer(200, page.encode(), [("Content-Type", "text/html")])
        self.file(rest)

    def file(self, rest):
        full = os.path.join(ROOT, rest)
        if not os.path.isfile(full):
            return self.answer(404, b"")
        mode, (data, sha) = self.mode, load(full)
        etag = '"' + sha + '"'
        n = count((mode, rest))
        if mode in ("redirect", "downgrade", "loop") and self.server.name == "A":
            port = self.server.other
            where = {"redirect": f"http://127.0.0.1:{port}/good/{rest}?sig=1", "loop": self.path,
                     "downgrade": f"ftp://127.0.0.1:{port}/x"}[mode]
            return self.answer(302, b"elsewhere", [("Location", where), ("X-Linked-Etag", etag)])
        if mode in ("change", "silent") and n > 2:
            data = bytes(b ^ 1 for b in data[:4096]) + data[4096:-1] + bytes([data[-1] ^ 1])
            etag = '"' + hashlib.sha256(data).hexdigest() + '"' if mode == "change" else etag
        first, last, code = 0, len(data) - 1, 200
        asked = self.headers.get("Range", "")
        same = self.headers.get("If-Range", etag) == etag
        if asked and not data and mode != "norange":
            return self.answer(416, b"", [("Content-Range", "bytes */0")])
        if mode == "chunked" and not rest.endswith((".gguf", ".safetensors")):
            return self.chunked(data)
        if asked.startswith("bytes=") and mode != "norange" and same:
            a, _, b = asked[6:].partition("-")
            first, last, code = int(a), min(int(b or last), last), 206
        body = data[first:last + 1]
        self.send_response(code)
        self.send_header("ETag", "W/" + etag if mode == "weak" else etag)
        if code == 206:
            shift = 7 if mode == "shifted" and n > 1 else 0
            self.send_header("Content-Range", f"bytes {first + shift}-{last + shift}/{len(data)}")
        length = len(body)
        if mode == "long" and length > 1:
            body += b"x" * 100
            length += 100
        if mode == "short" and length > 1:
            length -= length // 3
            body = body[:length]
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.send_body(mode, body, n)

    def chunked(self, data):
        """As proxies pass a small file on: whole, in pieces, and without its length."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(data), 5):
            piece = data[at:at + 5]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def send_body(self, mode, body, n):
        if mode == "drop" and len(body) > 1 << 18:  # a part of 4 MiB ends four times before it is whole
            body = body[:len(body) // 2]
            self.close_connection = True
        if mode == "dead" and len(body) > 1:
            self.close_connection = True
            return
        step = {"slow": 1 << 16, "steady": 1 << 18}.get(mode, 1 << 20)
        for at in range(0, len(body), step):
            try:
                self.wfile.write(body[at:at + step])
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
                return
            if mode in ("slow", "steady") and len(body) > 1:
                time.sleep(0.05)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
for server, name in zip(servers, "AB"):
    server.name = name
    server.other = servers[1].server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(*(s.server_address[1] for s in servers), flush=True)
sys.stdin.read()
