#!/usr/bin/env python3
"""Schemas of numbers for walks.py, a line each: bounds, multiples, enums, unique items, negations. Multiples have both bounds:
validators compute in doubles, which large numbers do not fit."""
import json
import random

random.seed(7)


def bound():
    return random.choice([random.randint(-12, 120), round(random.uniform(-2, 9), random.randint(1, 3))])


def number():
    schema = {"type": random.choice(["number", "number", "integer"])}
    low, high = sorted([bound(), bound()])
    multiple = random.random() < 0.5
    if multiple or random.random() < 0.8:
        schema[random.choice(["minimum", "exclusiveMinimum"])] = low
    if multiple or random.random() < 0.8:
        schema[random.choice(["maximum", "exclusiveMaximum"])] = high + 3
    if multiple:
        schema["multipleOf"] = random.choice([0.5, 0.25, 0.125, 2, 3])
    if random.random() < 0.3:
        schema["not"] = random.choice([{"enum": [low, high, 1]}, {"minimum": high}, {"multipleOf": 2} if multiple else {"const": low}])
    return schema


def values():
    return {"enum": random.sample([0, 1, 2, 3, 10, 11, 12, 100, -1, -10, 0.5, 0.25, 1.5, 12.75, 1e3], random.randint(2, 8))}


def items(n):
    return {"type": "array", "items": values() if n % 2 else {"type": "integer", "minimum": n, "maximum": n + 6},
            "uniqueItems": True, "minItems": 2, "maxItems": 7}


for i in range(240):
    print(json.dumps({"id": "numbers %d" % i, "schema": [number, values, lambda: items(i)][i % 3]()}))
