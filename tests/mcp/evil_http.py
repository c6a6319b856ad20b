"""An HTTP server of the Model Context Protocol that behaves as its path says: python3 evil_http.py PORT-FILE"""
import http.server
import json
import os
import socketserver
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or an answer's body waits 40 ms for the acknowledgement of its head

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, *events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(event)
            self.wfile.flush()
        self.close_connection = True

    def do_GET(self):  # nobody is to come here
        with open(sys.argv[1] + ".got", "w"):
            pass
        self.reply(200, {"jsonrpc": "2.0", "id": 1, "result": {}})

    def do_POST(self):
        how = self.path.strip("/")
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, id_ = message["method"], message.get("id")
        modern = how in ("modern", "headers")
        if how == "redirect":
            return self.reply(307, None, Location="/good")
        if how == "broken":
            return self.reply(500, b"<html>", "text/html")
        if how == "hangs":
            time.sleep(600)
        if how == "nothing":
            return self.reply(200, b"")
        if id_ is None:
            return self.reply(202, None, None)
        if method == "server/discover":
            if modern:
                return self.answer(id_, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
                                         "ttlMs": 0, "cacheScope": "private"})
            if how == "old":  # says nothing that could be read
                return self.reply(400, b"Bad Request: no session", "text/plain")
            return self.reply(200, {"jsonrpc": "2.0", "id": id_, "error": {"code": -32601, "message": "?"}})
        if modern:
            meta = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
            assert self.headers["MCP-Protocol-Version"] == meta == "2026-07-28"
            assert self.headers["Mcp-Method"] == method
        elif method != "initialize":
            assert self.headers["MCP-Protocol-Version"] == "2025-11-25"
            assert self.headers["Mcp-Session-Id"] == "s-1", self.headers
        if method == "initialize":
            return self.answer(id_, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "e", "version": "0"}},
                               Mcp_Session_Id="s-1")
        if method == "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
            unsound = {"type": "object", "properties": {"text": {"type": "number", "x-mcp-header": "Text"}}}
            return self.answer(id_, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                                     "tools": [{"name": "echo", "inputSchema": schema}, {"name": "unsound", "inputSchema": unsound}]})
        if modern:
            assert self.headers["Mcp-Name"] == "echo"
        text = message["params"]["arguments"].get("text", "")
        if how == "headers":
            text = self.headers["Mcp-Param-Text"]
        result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
        whole = json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode()
        if how == "stream":
            note = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
            parts = b"event: message\r\ndata: " + whole[:18] + b"\r\ndata:" + whole[18:] + b"\r\n\r\n"
            return self.stream(b": hello\n\n", b"retry: 1\nid: 7\n\n", note, b"data: {bad\n\n", parts[:30], parts[30:])
        if how == "endless":
            self.stream()
            while True:
                self.wfile.write(b": still here\n\n")
                time.sleep(0.01)
        if how == "huge":
            return self.reply(200, b"[" + b"1," * (20 << 20) + b"1]")
        if how == "dies":
            self.stream(b"data: " + whole[:30])
            return None
        return self.reply(200, whole)

    def answer(self, id_, result, **headers):
        self.reply(200, {"jsonrpc": "2.0", "id": id_, "result": result}, **headers)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".new", "w") as out:
    out.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
