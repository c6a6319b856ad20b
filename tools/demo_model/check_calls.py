#!/usr/bin/env python3
"""check_calls.py VOCAB.json KENTANG MODEL.gguf [--n N]: how many calls of tools, answers from results and forms are right, greedy.

Wordings, numbers and names are of the held-out side. "Own tools": the clock and the calculator of `kentang agent`; "other names": names
that the training never saw, made of words; "made-up names": of syllables. "Free": as the model writes; "held": with tool_choice
"required" (forms: with the schema), where every answer must parse.
"""

import argparse
import json
import os
import subprocess
import tempfile

from bpe import Vocab
from corpus import calls, forms
from corpus.pick import Pick
from engine import ask


def boxes(p, kind):
    while True:
        box = calls.Toolbox(p)
        own = box.calculator == "calculator" or box.clock == "clock"
        if own == (kind == "own tools"):
            return box


def tool_cases(kind, n):
    """[(tools, messages before the call, the call, messages after it, the answer)]"""
    p = Pick(77, "held", 1 if kind == "made-up names" else 0)
    out = []
    while len(out) < n:
        p.lang = "en" if p.chance(0.5) else "id"
        box = boxes(p, kind)
        turn = calls.exchange(p, box)
        system = calls.system_text(p, box.tools, calls.AGENT if p.chance(0.5) else "")
        before = [["system", system], turn[0]]
        out.append((box.tools, before, turn[1][1], before + turn[1:3], turn[3][1]))
    return out


def free(v, command, prompts):
    end = v.id["<|im_end|>"]
    return [v.decode(ids[:ids.index(end)] if end in ids else ids) for ids in ask(command, [v.prompt(m) for m in prompts])]


def batch(kentang, model, requests):
    with tempfile.TemporaryDirectory() as d:
        source, out = os.path.join(d, "in.jsonl"), os.path.join(d, "out.jsonl")
        with open(source, "w", encoding="utf-8") as f:
            for i, r in enumerate(requests):
                f.write(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": {"temperature": 0, "max_tokens": 300, **r}}) + "\n")
        subprocess.run([kentang, "batch", "-m", model, source, "--out", out], check=True, capture_output=True)
        found = {}
        for line in open(out, encoding="utf-8"):
            r = json.loads(line)
            found[int(r["custom_id"])] = (r.get("response") or {}).get("body") or {}
    return [found.get(i, {}) for i in range(len(requests))]


def same_call(text, want):
    try:
        return json.loads(text.split("<tool_call>\n")[1].split("\n</tool_call>")[0]) == json.loads(want.split("<tool_call>\n")[1].split("\n</tool_call>")[0])
    except (IndexError, ValueError):
        return False


def held_call(body, want):
    """(it parses, it is right)"""
    try:
        message = body["choices"][0]["message"]
        f = message["tool_calls"][0]["function"]
        call = {"name": f["name"], "arguments": json.loads(f["arguments"])}
    except (KeyError, IndexError, TypeError, ValueError):
        return False, False
    return True, call == json.loads(want.split("<tool_call>\n")[1].split("\n</tool_call>")[0])


def percent(n, of):
    return f"{n} of {of} ({100 * n / of:.1f}%)"


def check_tools(v, a, kind):
    cases = tool_cases(kind, a.n)
    command = [a.kentang, "greedy", "-m", a.model]
    said = free(v, command, [c[1] for c in cases])
    right = [same_call(text, c[2]) for text, c in zip(said, cases)]
    told = free(v, command, [c[3] for c in cases])
    answers = [text == c[4] for text, c in zip(told, cases)]
    requests = []
    for tools, before, _, _, _ in cases:
        system = before[0][1].split("# Tools\n<tools>")[0].strip()
        messages = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": before[1][1]}]
        requests.append({"messages": messages, "tools": [{"type": "function", "function": t} for t in tools], "tool_choice": "required", "parallel_tool_calls": False})
    held = [held_call(body, c[2]) for body, c in zip(batch(a.kentang, a.model, requests), cases)]
    print(f"{kind:15} calls, free: {percent(sum(right), a.n)}; held: {percent(sum(h[0] for h in held), a.n)} parse, {percent(sum(h[1] for h in held), a.n)} right; "
          f"answers: {percent(sum(answers), a.n)}")
    for text, c, ok in list(zip(said, cases, right)):
        if a.show and not ok:
            print("  ", repr(c[1][1][1]), "|", repr(c[2][12:-13]), "|", repr(text[:120]))


def check_forms(v, a):
    p = Pick(78, "held")
    cases = []
    while len(cases) < a.n:
        p.lang = "en" if p.chance(0.5) else "id"
        system, question, answer = forms.fill(p)
        if system is None:
            cases.append((question, answer))
    said = free(v, [a.kentang, "greedy", "-m", a.model], [[["user", q]] for q, _ in cases])
    schemas = []
    for q, answer in cases:
        value = json.loads(answer)
        schemas.append({"type": "object", "properties": {k: {"type": "integer" if isinstance(x, int) else "string"} for k, x in value.items()}, "required": list(value),
                        "additionalProperties": False})
    held = batch(a.kentang, a.model, [{"messages": [{"role": "user", "content": q}], "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": s}}}
                                      for (q, _), s in zip(cases, schemas)])
    parse = right = 0
    for body, (_, answer) in zip(held, cases):
        try:
            value = json.loads(body["choices"][0]["message"]["content"])
        except (KeyError, TypeError, ValueError):
            continue
        parse, right = parse + 1, right + (value == json.loads(answer))
    print(f"{'forms':15} free: {percent(sum(s == c[1] for s, c in zip(said, cases)), a.n)}; held: {percent(parse, a.n)} parse, {percent(right, a.n)} right")
    for s, c in zip(said, cases):
        if a.show and s != c[1]:
            print("  ", repr(c[0]), "|", c[1], "|", s[:120])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("vocab")
    a.add_argument("kentang")
    a.add_argument("model")
    a.add_argument("--n", type=int, default=200)
    a.add_argument("--show", action="store_true")
    a = a.parse_args()
    v = Vocab(a.vocab)
    for kind in ("own tools", "other names", "made-up names"):
        check_tools(v, a, kind)
    check_forms(v, a)


if __name__ == "__main__":
    main()
