#!/usr/bin/env python3
"""Runs `kentang parse` over the cases of ../shared/data/structured/chat-cases.jsonl.

usage: calls_check.py KENTANG [--data DIR] [--cuts] [-v] [--only TEMPLATE]

A case passes when content, reasoning and calls are as expected (arguments as JSON values; those of an answer that
goes on, byte for byte without white space). --cuts: also with the text in two pieces, cut at every byte. Ends with
1 if a case failed."""
import argparse
import collections
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def lines_of(case, tools, cuts):
    listed = [{"type": "function", "function": tools[name]} for name in case["tools"]]
    base = {"text": case["text"], "options": case["options"]}
    if listed:
        base["tools"] = listed
    out = [base]
    if cuts:
        for cut in range(1, len(case["text"].encode())):
            out.append(dict(base, options=dict(case["options"], cut=cut)))
    return out


def value(text):
    try:
        return json.loads(text)
    except ValueError:
        return "".join(text.split())


def same(got, want):
    calls = [(c["function"]["name"], value(c["function"]["arguments"])) for c in got["tool_calls"]]
    wanted = [(c["name"], value(c["arguments"])) for c in want["tool_calls"]]
    ids = all(w.get("id", g["id"]) == g["id"] for g, w in zip(got["tool_calls"], want["tool_calls"]))
    return (got["content"], got["reasoning_content"], calls) == (want["content"], want["reasoning"], wanted) and ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kentang")
    parser.add_argument("--data", default=os.path.join(ROOT, "../shared/data"))
    parser.add_argument("--cuts", action="store_true")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--only")
    args = parser.parse_args()
    with open(os.path.join(args.data, "structured/chat-tools.json"), encoding="utf-8") as f:
        tools = json.load(f)
    groups = collections.OrderedDict()
    with open(os.path.join(args.data, "structured/chat-cases.jsonl"), encoding="utf-8") as f:
        for line in f:
            case = json.loads(line)
            if not args.only or args.only in case["template"]:
                groups.setdefault(case["template"], []).append(case)
    failed = total = readings = 0
    for template, cases in groups.items():
        lines = [lines_of(case, tools, args.cuts) for case in cases]
        text = "".join(json.dumps(line) + "\n" for some in lines for line in some)
        p = subprocess.run([args.kentang, "parse", "--template", os.path.join(args.data, "templates/jinja", template)],
                           input=text, capture_output=True, text=True)
        answers = p.stdout.splitlines()
        if args.v:
            print(template, p.stderr.strip())
        at = 0
        for case, some in zip(cases, lines):
            mine = [json.loads(a) for a in answers[at:at + len(some)]]
            at += len(some)
            total += 1
            readings += len(some)
            wrong = [i for i, got in enumerate(mine) if not same(got, case["expect"])]
            if len(mine) < len(some) or wrong:
                failed += 1
                print(f"FAIL {template}: {case['text']!r} {case['options']}")
                print(f"  want {json.dumps(case['expect'], ensure_ascii=False)}")
                print(f"  got  {json.dumps(mine[wrong[0]], ensure_ascii=False) if wrong else p.stderr} "
                      f"({len(wrong)} of {len(some)} readings)")
    print(f"{total - failed} of {total} cases, {readings} readings")
    return 1 if failed else 0


sys.exit(main())
