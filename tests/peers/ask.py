"""Asks a server many things at once, and prints what it said, in the order of the questions, without what differs from
run to run. usage: ask.py URL [--clients N] [--gone]   --gone: some clients go away in the middle of their answers"""
import argparse
import http.client
import json
import threading
from urllib.parse import urlparse

LONG = " ".join(f"word{i % 17} {i}" for i in range(60))
SEEDED = {"temperature": 0.9, "seed": 7}
CONSTANT = {"temperature": 0}


def questions():
    for i in range(4):
        yield "/v1/completions", {"prompt": f"once {i}", "max_tokens": 24, "temperature": 0.8, "seed": i}
        yield "/v1/completions", {"prompt": LONG + f" and {i}", "max_tokens": 12, "logprobs": 3, **CONSTANT}
        yield "/v1/completions", {"prompt": LONG + " and", "max_tokens": 20, "n": 2, **SEEDED}
        yield "/v1/completions", {"prompt": "a b c a b c a b", "max_tokens": 40, "stream": True, **CONSTANT}
    yield "/v1/completions", {"prompt": ["one", "two", "three"], "max_tokens": 9, **CONSTANT}
    yield "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 16, **SEEDED}
    yield "/v1/chat/completions", {"messages": [{"role": "user", "content": "a number"}], "max_tokens": 60, **CONSTANT,
                                   "response_format": {"type": "json_schema", "json_schema": {
                                       "name": "n", "schema": {"type": "object", "properties": {"n": {"type": "boolean"}},
                                                               "required": ["n"], "additionalProperties": False}}}}
    yield "/v1/embeddings", {"input": ["the water", "nasi " * 30]}


def post(url, path, body):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


def choice_of(choice):
    return {key: choice.get(key) for key in ("index", "text", "message", "logprobs", "finish_reason", "embedding")}


def read_stream(text):
    events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return "".join(choice["text"] for event in events for choice in json.loads(event)["choices"])


def answer_of(url, path, body):
    response = post(url, path, body)
    text = response.read().decode()
    if response.status != 200:
        return {"status": response.status, "error": text}
    if body.get("stream"):
        return read_stream(text)
    said = json.loads(text)
    return sorted((choice_of(c) for c in said.get("choices", said.get("data"))), key=lambda c: c["index"] or 0)


def go_away(url):
    """Reads a few bytes of a long answer."""
    response = post(url, "/v1/completions", {"prompt": LONG, "max_tokens": 200, "stream": True, **SEEDED})
    response.read(300)
    response.close()


def ask_all(url, asked, answers, client, n_clients, gone):
    for i in range(client, len(asked), n_clients):
        if gone and i % 3 == 0:
            go_away(url)
        answers[i] = answer_of(url, *asked[i])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", type=urlparse)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--gone", action="store_true")
    a = parser.parse_args()
    asked = list(questions())
    answers = [None] * len(asked)
    clients = [threading.Thread(target=ask_all, args=(a.url, asked, answers, i, a.clients, a.gone))
               for i in range(a.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for (path, body), answer in zip(asked, answers):
        print(json.dumps({"path": path, "asked": body, "said": answer}))


if __name__ == "__main__":
    main()
