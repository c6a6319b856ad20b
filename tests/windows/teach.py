"""Teaches a server until it does not answer any more: teach.py URL FILE. A line of FILE is an acknowledged correction."""
import json, sys, urllib.request

url, path = sys.argv[1], sys.argv[2]


def post(where, body):
    request = urllib.request.Request(url + where, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read())


with open(path, "w", encoding="utf-8") as out:
    try:
        for i in range(100000):
            question = f"Where is the ladder number {i}?"
            answer = post("/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "max_tokens": 4,
                                                   "temperature": 0})
            correction = f"The ladder number {i} is behind mill {i * 7}."
            post("/v1/feedback", {"response_id": answer["id"], "correction": correction})
            print(correction, file=out, flush=True)
    except OSError:
        pass
