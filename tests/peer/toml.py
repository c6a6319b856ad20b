#!/usr/bin/env python3
"""The TOML parser against Python's tomllib (3.11 or later): generated documents and mutations of them must be taken
or refused alike, with the same values. Dates are refused by ours, and NUL in strings; documents with these are left out.

usage: toml.py PROGRAM [N]        PROGRAM: tests/peer/toml.c, compiled"""
import datetime
import json
import math
import random
import subprocess
import sys
import tomllib

program, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20000
rng = random.Random(1)
words = ["a", "b", "c", "key-1", "x_y", "7", '"q u"', "'l.t'", '""', "é"]
scalars = ["1", "-0", "+17", "1_000", "0x1F", "0o17", "0b101", "1.5", "-2e3", "6.02e+23", "1_0.5_0", "inf", "-nan", "true",
           "false", '"s"', '"\\u00e9\\n\\t\\\\"', "'raw\\n'", '"""\nm\n  l \\\n   x"""', "'''\nq'q''r'''", '""""x""""', "[]", "[1, 2,]",
           '[ "a", [1.0], {b = 2} ]', "{}", "{a.b = 1, c = 'd'}", "[\n 1, # c\n 2\n]", "01", "1__0", "_1", "1.", ".5", "0xg",
           "9223372036854775807", "9223372036854775808", "-9223372036854775808", '"\\q"', '"\\ud800"', "1e5", "1e", "tru",
           "+0x1", "0X1", "{a = 1,}", "{a = 1\n}", '"open', "[1 2]", "1 2"]


def key():
    return ".".join(rng.choice(words[:9]) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def document():
    lines = []
    for _ in range(rng.randrange(1, 9)):
        kind = rng.random()
        if kind < 0.2:
            lines.append(f"[{key()}]" + rng.choice(["", " # c"]))
        elif kind < 0.3:
            lines.append(f"[[{key()}]]")
        elif kind < 0.35:
            lines.append(rng.choice(["", "# comment é", "  ", "\t# x"]))
        else:
            lines.append(f"{rng.choice(['', '  '])}{key()}{rng.choice([' = ', '=', chr(9) + '='])}{rng.choice(scalars)}")
    text = rng.choice(["\n", "\n", "\r\n"]).join(lines)
    if rng.random() < 0.4 and text:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", "\n", '"', "'", "[", "]", "{", "}", "=", ".", ",", "#", "\\", "_", "0", " ", "\x7f", "e"]) + \
            text[at + rng.randrange(2):]
    return text


def tagged(v):
    if isinstance(v, dict):
        return {"": {k: tagged(x) for k, x in v.items()}}
    if isinstance(v, list):
        return [tagged(x) for x in v]
    if isinstance(v, float):
        return {"float": "nan" if math.isnan(v) else v.hex()}
    return v


def left_out(v):
    if isinstance(v, dict):
        return any(left_out(x) or "\0" in k for k, x in v.items())
    if isinstance(v, list):
        return any(left_out(x) for x in v)
    if isinstance(v, int) and not isinstance(v, bool):
        return not -2**63 <= v < 2**63  # tomllib has integers of any size
    return isinstance(v, (datetime.date, datetime.time)) or (isinstance(v, str) and "\0" in v)


def normal(v):
    if isinstance(v, dict):
        if set(v) == {"float"}:
            return {"float": v["float"] if v["float"] == "nan" else float.fromhex(v["float"]).hex()}
        return {k: normal(x) for k, x in v.items()}
    return [normal(x) for x in v] if isinstance(v, list) else v


documents = [document() for _ in range(n)]
ours = subprocess.run([program], input="".join(d + "\0" for d in documents).encode(), capture_output=True, check=True)
answers = ours.stdout.decode().splitlines()
assert len(answers) == n, f"{len(answers)} answers to {n} documents"
differ = taken = 0
for text, answer in zip(documents, answers):
    try:
        value = tomllib.loads(text)
        if left_out(value):
            continue
        right = tagged(value)
        taken += 1
    except tomllib.TOMLDecodeError:
        right = "refused"
    if normal(json.loads(answer)) != normal(right):
        differ += 1
        if differ <= 10:
            print(f"--- {text!r}\n    ours:    {answer}\n    tomllib: {json.dumps(right)}")
print(f"toml: {n} documents, {taken} of them valid, {differ} differences")
sys.exit(1 if differ else 0)
