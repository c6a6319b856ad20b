#!/usr/bin/env python3
"""instant.py KENTANG [SEED [poison]]: what corrections do at once, measured over HTTP on the embedded demo model.

Twenty invented facts are asked for, corrected once each, and asked again: in the taught wording, in three others, and of forty things
that nobody taught. Perplexity is of the answers of 100 dialogues that the model was not trained on (tools/demo_model's held-out side).
Facts, wordings and radius were fixed before the first run; the seed draws things and places. With "poison" a thousand hostile corrections and random
thumbs about questions of the training side come instead, and the perplexity of the same dialogues tells what they do to everything else.
"""
import json
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
THINGS = ("copper kettle|blue ladder|green bicycle|brass compass|spare key|old telescope|red umbrella|silver whistle|paper lantern|wooden sledge|"
          "garden hose|glass marble|yellow raincoat|tin drum|fishing rod|leather satchel|stone owl|iron anchor|sewing box|velvet curtain|"
          "white piano|straw hat|clay pot|bread knife|rope swing|chess board|snow shovel|music box|pocket watch|milk jug|"
          "birdcage|hammock|lighthouse model|oil lamp|tool chest|wheelbarrow|candle holder|picture frame|walking stick|water barrel").split("|")
PLACES = ("behind the old mill|under the third stair|next to the bakery|inside the grey barn|above the pantry|near the pear tree|in the north tower|"
          "beneath the bridge|beside the well|on the attic shelf|by the ferry dock|in the copper mine|at the end of the lane|behind the chapel|"
          "under the oak bench|in the boathouse|over the stable door|near the post office|in the cellar|outside the greenhouse").split("|")
TAUGHT = "Where is the {}?"
OTHERS = ("Can you tell me where the {} is?", "Where can I find the {}?", "Do you know where the {} is?")


class Server:
    def __init__(self, kentang, folder=None, more=()):
        self.dir = None if folder else tempfile.TemporaryDirectory()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.at = "127.0.0.1:%d" % s.getsockname()[1]
        self.process = subprocess.Popen([kentang, "serve", "--learn", "--no-config", "--no-env", "--listen", self.at, "--socket", "none", "--set",
                                         "learning.dir=" + (folder or self.dir.name) + "/learned", *more], stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                urllib.request.urlopen("http://" + self.at + "/ready")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def post(self, path, body):
        request = urllib.request.Request("http://" + self.at + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    def ask(self, question, **more):
        reply = self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 60, **more})
        return reply["id"], reply["choices"][0]["message"]["content"]

    def loss(self, messages, **more):
        """Of an answer behind its conversation: the sum of nats, and the tokens."""
        prompt = self.post("/apply-template", {"messages": messages[:-1]})["prompt"]
        body = {"prompt": prompt + messages[-1]["content"], "max_tokens": 0, "echo": True, "logprobs": 0, **more}
        tokens = self.post("/v1/completions", body)["choices"][0]["logprobs"]
        own = [p for p, at in zip(tokens["token_logprobs"], tokens["text_offset"]) if at >= len(prompt) and p is not None]
        return -sum(own), len(own)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def dialogues_of(side, n):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/demo_model/make_corpus.py"), out, "--train", "4000", "--held", "400"], check=True,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in open(os.path.join(out, side + ".jsonl"))]
    plain = [d for d in lines if d["cat"].split("-")[0] in ("story", "talk", "sums", "other")]  # what the committed model was trained on the like of
    talks = [[{"role": role, "content": text} for role, text in d["messages"]] for d in plain]
    return [t for t in talks if t[-1]["role"] == "assistant" and all(m["role"] != "tool" for m in t)][:n]


def perplexity(server, dialogues, **more):
    sums = [server.loss(d, **more) for d in dialogues]
    return math.exp(sum(s for s, _ in sums) / sum(n for _, n in sums)), sum(n for _, n in sums)


def poison(server, rng, dialogues):
    base, _ = perplexity(server, dialogues, adapter="none")
    hostile, tokens = 0, 0
    for talk in dialogues_of("train", 1000):
        told, _ = server.ask(talk[0 if talk[0]["role"] == "user" else 1]["content"])
        if rng.random() < 0.5:
            body = {"correction": "No, " + " ".join(rng.choice(THINGS + PLACES) for _ in range(3)) + "."}
        else:
            body = {"rating": rng.choice(["up", "down"])}
        hostile += "correction" in body
        tokens += server.post("/v1/feedback", {"response_id": told, **body})["tokens"]
    now, n = perplexity(server, dialogues)
    print(json.dumps({"hostile": hostile, "thumbs": 1000 - hostile, "tokens": tokens, "perplexity": round(base, 4), "perplexity_now": round(now, 4),
                      "rise_percent": round((now / base - 1) * 100, 3), "answer_tokens": n}))
    return 0


def main():
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    things = rng.sample(THINGS, 40)
    facts = dict(zip(things[:20], rng.sample(PLACES, 20)))
    right = {thing: f"The {thing} is {place}." for thing, place in facts.items()}
    neighbours = [TAUGHT.format(t) for t in things[20:]] + [f"What is the {t} made of?" for t in facts]
    server = Server(sys.argv[1])
    try:
        dialogues = dialogues_of("held", 100)
        if sys.argv[3:] == ["poison"]:
            return poison(server, rng, dialogues)
        keys_ms, update_ms, tokens = [], [], []
        for thing, answer in right.items():
            before, said = server.ask(TAUGHT.format(thing))
            told = server.post("/v1/feedback", {"response_id": before, "correction": answer})
            keys_ms.append(told["keys_ms"])
            update_ms.append(told["update_ms"])
            tokens.append(told["tokens"])
        taught = sum(server.ask(TAUGHT.format(t))[1] == a for t, a in right.items())
        other = sum(server.ask(w.format(t))[1] == a for t, a in right.items() for w in OTHERS)
        leaks = sum(any(place in server.ask(q)[1] for place in facts.values()) for q in neighbours)
        base, n = perplexity(server, dialogues, adapter="none")
        now, _ = perplexity(server, dialogues)
    finally:
        server.stop()
    median = lambda x: sorted(x)[len(x) // 2]
    print(json.dumps({"taught": f"{taught}/20", "other_wordings": f"{other}/60", "leaks": f"{leaks}/40", "perplexity": round(base, 4),
                      "perplexity_now": round(now, 4), "rise_percent": round((now / base - 1) * 100, 3), "answer_tokens": n,
                      "tokens_a_fact": median(tokens), "keys_ms": median(keys_ms), "update_ms": median(update_ms)}))
    return 0 if taught == 20 and now / base <= 1.003 else 1


if __name__ == "__main__":
    sys.exit(main())
