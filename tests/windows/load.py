"""Requests to a server in several streams at once: load.py URL STREAMS REQUESTS. Every answer must be whole, and the
same as the first one of its question; half of them are streamed."""
import json, sys, threading, urllib.request

url, n_streams, n_requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
questions = ["How do I run a GGUF file?", "What is 3 + 4?", "Grüße! Wer bist du?", "Tell me a story."]
lock, said, wrong = threading.Lock(), {}, []


def ask(question, stream):
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 16, "temperature": 0, "stream": stream}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        text = reply.read().decode()
    if not stream:
        return json.loads(text)["choices"][0]["message"]["content"]
    parts = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if "data: [DONE]" not in text:
        raise ValueError("a stream without its end")
    return "".join(p["choices"][0]["delta"].get("content") or "" for p in parts if p["choices"])


def work(first):
    for i in range(first, n_requests, n_streams):
        question = questions[i % len(questions)]
        try:
            answer = ask(question, i // len(questions) % 2 == 1)
        except Exception as e:
            answer = None
            wrong.append(f"request {i}: {e}")
        with lock:
            if answer is not None and said.setdefault(question, answer) != answer:
                wrong.append(f"request {i}: {answer!r} is not {said[question]!r}")


threads = [threading.Thread(target=work, args=(i,)) for i in range(n_streams)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(f"{n_requests} requests in {n_streams} streams, {len(wrong)} wrong")
sys.exit("\n".join(wrong[:5]) if wrong else 0)
