"""Saying again what stands above: words in no list, and one of several by what it stands beside. It is what names of tools,
arguments and the fields of forms are made of."""

import json

SAY = {"en": ["Say {v}.", "Repeat: {v}", "Write {v}", "Say this again: {v}", "Copy this: {v}", "Please repeat {v}."],
       "id": ["Katakan {v}.", "Ulangi: {v}", "Tulis {v}", "Ucapkan lagi: {v}", "Salin ini: {v}", "Tolong ulangi {v}."]}
WHICH = {"en": ["What is {k}?", "{k}?", "Which word stands behind {k}?", "And {k}?"], "id": ["Apa itu {k}?", "{k}?", "Kata apa di belakang {k}?", "Dan {k}?"]}


def thing(p):
    """Something that nobody knows by heart."""
    r = p.rng.random()
    if r < 0.45:
        return p.made_up()
    if r < 0.6:
        return p.made_up() + p.any("_-") + p.made_up()
    if r < 0.75:
        return str(p.between(0, 10 ** p.between(1, 6)))
    if r < 0.85:
        return f"{p.between(0, 9999)} {p.any('+-*/')} {p.between(0, 9999)}"
    return p.made_up().capitalize()


def label(p):
    return p.made_up() + p.any(["", "", "", p.any("_-") + p.made_up()])


def ask(p):
    """(question, answer)"""
    if p.chance(0.35):
        v = " ".join(thing(p) for _ in range(p.between(1, 5)))
        return p.any(SAY[p.lang]).format(v=v), v
    n = p.between(2, 6)
    keys, values = [label(p) for _ in range(n)], [thing(p) for _ in range(n)]
    at = p.between(0, n - 1)
    r = p.rng.random()
    if r < 0.4:
        listed = "\n".join(f"{k}: {v}" for k, v in zip(keys, values))
    elif r < 0.7:
        listed = ", ".join(f"{k} = {v}" for k, v in zip(keys, values)) + "."
    else:
        listed = "\n".join(json.dumps({"name": v, "description": k}) for k, v in zip(keys, values))
    return listed + "\n" + p.any(WHICH[p.lang]).format(k=keys[at]), values[at]
