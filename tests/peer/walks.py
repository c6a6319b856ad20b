#!/usr/bin/env python3
"""Random texts that schemas' constraints take, judged by jsonschema and ajv.

usage: walks.py SCHEMA_WALK CASES.jsonl [NODE_MODULES]

CASES.jsonl has a line {"id", "schema"} for each schema (MaskBench's form). NODE_MODULES has ajv and ajv-formats
(tests/clients); without it jsonschema judges alone. Ends with 1 if either validator refuses a text."""
import collections
import json
import os
import subprocess
import sys

import jsonschema


def judge(schema):
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return cls(schema, format_checker=jsonschema.FormatChecker(["ipv4", "ipv6"]))


OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")


def alone(schema):
    """Up to draft 7 nothing beside $ref counts, which ajv does not follow."""
    if isinstance(schema, list):
        return [alone(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        schema = {k: v for k, v in schema.items() if k in ("$ref", "definitions", "id", "$id", "$schema")}
    return {k: v if k in ("enum", "const", "default", "examples") else alone(v) for k, v in schema.items()}


def for_ajv(schema):
    old = isinstance(schema, dict) and any(d in str(schema.get("$schema")) for d in OLD_DRAFTS)
    return alone(schema) if old else schema


def by_ajv(modules, pairs):
    here = os.path.dirname(os.path.abspath(__file__))
    lines = "".join(json.dumps(p) + "\n" for p in pairs)
    p = subprocess.run(["node", os.path.join(here, "walks.mjs"), modules], input=lines, capture_output=True, text=True)
    sys.stderr.write(p.stderr[-2000:])
    return [json.loads(line) for line in p.stdout.splitlines()]


def main():
    walker, cases = sys.argv[1], [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
    schemas = {str(i): c["schema"] for i, c in enumerate(cases)}
    lines = "".join("%s\t%s\n" % (i, json.dumps(s)) for i, s in schemas.items())
    out = subprocess.run([walker], input=lines.encode(), capture_output=True, check=True).stdout.decode()
    counts, pairs = collections.Counter(), []
    for line in out.split("\n"):
        if not line:
            continue
        i, text = line.split("\t", 1) if "\t" in line else (None, line)
        if i not in schemas:  # a line end within a text: such texts have white space between values
            pairs[-1]["text"] += "\n" + line
        elif text.startswith("\t"):
            counts["stuck" if "way" in text else "refused"] += 1
            if "way" in text:
                print("stuck:", cases[int(i)].get("id"))
        else:
            pairs.append({"i": i, "schema": schemas[i], "text": text})
    bad = 0
    for p in pairs:
        try:
            errors = list(judge(p["schema"]).iter_errors(json.loads(p["text"])))
        except Exception as e:  # noqa: BLE001: a schema that this validator cannot read
            counts["jsonschema cannot judge"] += 1
            continue
        # draft 4 takes 1.0 for no integer; constraints follow the later ones, and write none when compact
        errors = [e for e in errors if not ("draft-04" in str(p["schema"].get("$schema")) and e.validator == "type"
                                            and isinstance(e.instance, float) and e.instance.is_integer())]
        counts["jsonschema: valid" if not errors else "jsonschema: invalid"] += 1
        if errors:
            bad += 1
            print("jsonschema:", cases[int(p["i"])].get("id"), p["text"][:200], errors[0].message[:200])
    if len(sys.argv) > 3 and sys.argv[3]:
        for p, verdict in zip(pairs, by_ajv(sys.argv[3], [{**p, "schema": for_ajv(p["schema"])} for p in pairs])):
            counts["ajv: " + verdict["is"]] += 1
            if verdict["is"] == "invalid":
                bad += 1
                print("ajv:", cases[int(p["i"])].get("id"), p["text"][:200], verdict["why"])
    print(dict(counts))
    return 1 if bad else 0


sys.exit(main())
