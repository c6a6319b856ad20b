#!/usr/bin/env python3
"""Runs `kentang schema` over a file of schemas with texts and reports the verdicts.

usage: schema_check.py KENTANG CASES.jsonl [-m MODEL] [-v] [--only ID]

CASES.jsonl has a line for each schema: {"id": ..., "schema": ..., "tests": [{"valid": bool, "text": ...}]}
(MaskBench's form; the JSON Schema Test Suite's, with "file" and "group" for the id, is read as well). A schema
passes when every valid text is accepted and no invalid one is. Ends with 1 if an invalid text was accepted."""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import tempfile


def check(kentang, case, model):
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
        json.dump(case["schema"], f)
    lines = "".join(json.dumps({"text": t["text"]}) + "\n" for t in case["tests"])
    command = [kentang, "schema", f.name] + (["-m", model] if model else [])
    try:
        p = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    finally:
        os.unlink(f.name)
    if p.returncode == 6:
        return {"refused": json.loads(p.stdout.splitlines()[-1])}
    if p.returncode != 0:
        return {"failed": p.stderr.strip()[-300:], "code": p.returncode}
    verdicts = [json.loads(line) for line in p.stdout.splitlines()]
    over = [(t, v) for t, v in zip(case["tests"], verdicts) if t["valid"] and not v["accepted"]]
    under = [(t, v) for t, v in zip(case["tests"], verdicts) if not t["valid"] and v["accepted"]]
    return {"over": over, "under": under, "stderr": p.stderr}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kentang")
    parser.add_argument("cases")
    parser.add_argument("-m", "--model")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--stderr", help="write what kentang says of its times here")
    args = parser.parse_args()
    cases = [json.loads(line) for line in open(args.cases, encoding="utf-8")]
    for case in cases:
        case.setdefault("id", "%s: %s" % (case.get("file"), case.get("group")))
    cases = [c for c in cases if not args.only or args.only in c["id"]]
    counts = collections.Counter()
    texts = collections.Counter()
    reasons = collections.Counter()
    times = open(args.stderr, "w") if args.stderr else None
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda c: check(args.kentang, c, args.model), cases)
        for case, r in zip(cases, results):
            kind = next((k for k in ("refused", "code", "under", "over") if r.get(k)), "pass")
            counts[kind] += 1
            texts["over"] += len(r.get("over", []))
            texts["under"] += len(r.get("under", []))
            if times:
                times.write("# %s\n%s" % (case["id"], r.get("stderr", "")))
            if kind == "refused":
                reasons["%(keyword)s: %(why)s" % r["refused"]] += 1
            if kind == "code":
                print("FAILED", case["id"], r["code"], r["failed"])
            if args.verbose and kind in ("under", "over"):
                for t, v in r["under"] + r["over"]:
                    print(kind.upper(), case["id"], "| at", v["at"], "of", len(t["text"].encode()), "|",
                          t["text"][:160], "|", t.get("why", t.get("what", "")))
            if args.verbose and kind == "refused":
                print("REFUSED", case["id"], r["refused"])
    n = len(cases)
    print("%d schemas: %s" % (n, ", ".join("%d %s (%.1f%%)" % (c, k, 100 * c / n) for k, c in counts.most_common())))
    print("texts: %d valid ones refused, %d invalid ones accepted" % (texts["over"], texts["under"]))
    for reason, c in reasons.most_common(30):
        print("%5d %s" % (c, reason))
    return 1 if texts["under"] or counts["code"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
