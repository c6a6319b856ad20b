#!/usr/bin/env python3
"""make_corpus.py OUT_DIR [--train N] [--held N] [--seed N] [--drill N] [--notes SHARE]: writes train.jsonl and held.jsonl, and drill.jsonl.

A line is {"cat": NAME, "messages": [[ROLE, TEXT], ...]}. Same seed, same bytes. The held-out side
uses fillings (nouns, names, wordings, sums) that the training side never sees; see corpus/pick.py. The drill is mostly copying, calls and
forms: a training that begins with it learns to copy early.
"""

import argparse
import json
import os

from corpus import calls, copies, facts, forms, notes, other, story_en, story_id, sums, talk
from corpus import words as W
from corpus.pick import Pick

# name: (share of the dialogues, how many exchanges at most)
KINDS = {"story": (0.20, 2), "talk": (0.09, 4), "sums": (0.20, 8), "kentang": (0.16, 4), "other": (0.05, 2), "mixed": (0.03, 8), "calls": (0.17, 2), "forms": (0.09, 3),
         "copies": (0.05, 1), "learned": (0.01, 1)}

# The share of words in tools' definitions and in forms that are in no list, so that copying is learnt and not recall.
MADE_UP = 0.5

DRILL = {"copies": 0.5, "forms": 0.18, "calls": 0.18, "sums": 0.06, "kentang": 0.04, "talk": 0.04}
NOTES_DRILL = {"notes": 0.76, "copies": 0.06, "forms": 0.05, "calls": 0.03, "sums": 0.05, "kentang": 0.02, "talk": 0.02, "story": 0.01}

SYSTEM = ["You are a helpful assistant.", "You are kentang, a small demo model.", "You are a friendly assistant. Answer briefly.",
          "You are kentang.", "Answer the user's questions.", "Be kind and helpful.", "Kamu adalah asisten yang membantu.",
          "Kamu adalah kentang, model demo kecil.", "Jawablah dengan singkat.", "You are an AI assistant.",
          "You are a helpful, respectful and honest assistant.", "Speak simply."]


def exchange(p, kind):
    if kind == "story":
        return (story_en if p.lang == "en" else story_id).tell(p)
    return {"talk": talk.chat, "sums": sums.solve, "kentang": facts.ask, "other": other.ask}[kind](p)


def roughen(p, text):
    """Users write carelessly: case, final punctuation, spaces, politeness, a slipped key."""
    r = p.rng.random()
    if r < 0.12:
        text = text.lower()
    elif r < 0.14:
        text = text.upper() if len(text) < 60 else text
    if p.chance(0.12):
        text = text.rstrip("?.!")
    if p.chance(0.03):
        text = text + p.any([" please", " :)", " thanks"] if p.lang == "en" else [" dong", " ya", " :)"])
    if p.chance(0.03) and len(text) > 12:
        i = p.between(3, len(text) - 3)
        if text[i].isalpha() and text[i - 1].isalpha():
            text = text[:i] + text[i + 1:]
    return text or "?"


def tools_dialogue(p, kind):
    """Some questions that a tool answers, and some, between them, that none does."""
    box = calls.Toolbox(p)
    messages = [["system", calls.system_text(p, box.tools, p.any(SYSTEM + [calls.AGENT] * 6) if p.chance(0.5) else "")]]
    for _ in range(p.any([1, 1, 1, 2, 2, 3])):
        r = p.rng.random()
        if r < 0.78:
            turn = calls.exchange(p, box)
        else:
            what = p.any(["kentang", "talk", "other", "story"] + ["sums"] * (not box.calculator))
            asked, answer = exchange(p, what)
            if box.clock and answer.startswith(NO_CLOCK) or box.calculator and any(d.isdigit() for d in asked):
                turn = calls.exchange(p, box)
            else:
                turn = [["user", asked], ["assistant", answer]]
        messages += [["user", roughen(p, turn[0][1])]] + turn[1:]
    if NOTES and p.chance(0.15):
        noted(p, messages)
    return {"cat": f"{kind}-{p.lang}", "messages": messages}


def noted(p, messages):
    """Tools and a note: one that says nothing of the first question, or one that answers a question of its own."""
    if p.chance(0.5):
        messages[1][1] = notes.a_fact(p).note() + messages[1][1]
        return
    question, answer = notes.use(p)[0] if p.chance(0.7) else notes.sibling(p)[0]
    at = p.any([i for i, (role, text) in enumerate(messages) if role == "user" and not text.startswith("<tool_response>")])
    messages[at:at] = [["user", question], ["assistant", answer]]


NO_CLOCK = ("I can not know that.", "Aku tidak bisa tahu itu.")  # what is said of the time without a clock


def forms_dialogue(p, kind):
    messages = []
    for i in range(p.between(1, KINDS[kind][1]) if p.chance(0.3) else 1):
        system, question, answer = forms.fill(p)
        while i and system:
            system, question, answer = forms.fill(p)
        messages += ([["system", system]] if system else []) + [["user", question], ["assistant", answer]]
        if system:
            break
    return {"cat": f"{kind}-{p.lang}", "messages": messages}


def learned_dialogue(p, kind):
    line, question, answer = facts.learned(p)
    system = p.any(SYSTEM) + "\n" + line if p.chance(0.5) else line
    return {"cat": f"{kind}-{p.lang}", "messages": [["system", system], ["user", roughen(p, question)], ["assistant", answer]]}


def copies_dialogue(p, kind):
    question, answer = copies.ask(p)
    return {"cat": f"{kind}-{p.lang}", "messages": [["user", question], ["assistant", answer]]}


def notes_dialogue(p, kind):
    messages = [["system", p.any(SYSTEM)]] if p.chance(0.1) else []
    for question, answer in notes.converse(p):
        messages += [["user", question], ["assistant", answer]]
    return {"cat": f"{kind}-{p.lang}", "messages": messages}


OWN = {"notes": notes_dialogue, "copies": copies_dialogue, "calls": tools_dialogue, "forms": forms_dialogue, "learned": learned_dialogue}


def dialogue(p, kind):
    p.lang = "en" if p.chance(0.5) else "id"
    if kind in OWN:
        return OWN[kind](p, kind)
    if kind == "talk" and p.chance(0.12):
        names = (W.NAMES_EN_F + W.NAMES_EN_M) if p.lang == "en" else W.NAMES_ID
        middle = [exchange(p, p.any(["talk", "sums", "kentang"])) for _ in range(p.between(0, 2))]
        turns = talk.introduce(p, NAMES.setdefault(p.lang, names), middle)
    elif kind == "talk" and p.chance(0.06):
        turns = talk.joke_again(p)
    else:
        n = 1 if p.chance(0.25 if kind == "sums" else 0.5) else p.between(1, KINDS[kind][1])
        turns = []
        for _ in range(n):
            if kind == "mixed" and p.chance(0.1):
                p.lang = "id" if p.lang == "en" else "en"
            what = p.any(["story", "talk", "sums", "kentang", "other"]) if kind == "mixed" else kind
            if kind != "mixed" and p.chance(0.12):
                what = "talk"
            turns.append(exchange(p, what))
            if what == "story" and p.chance(0.08):
                module = story_en if p.lang == "en" else story_id
                turns.append((p.key(talk.AGAIN[p.lang]), module.tell_free(p)[1]))
    messages = [["system", p.any(SYSTEM)]] if p.chance(0.25) else []
    for question, answer in turns:
        messages += [["user", roughen(p, question)], ["assistant", answer]]
    return {"cat": f"{kind}-{p.lang}", "messages": messages}


NAMES = {}
NOTES = {}  # its share, where there are notes


def write(path, n, p, shares):
    kinds = list(shares or {**KINDS, **NOTES})
    weights = shares and list(shares.values())
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(n):
            kind = p.rng.choices(kinds, weights)[0]
            out.write(json.dumps(dialogue(p, kind), ensure_ascii=False) + "\n")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--train", type=int, default=180000)
    a.add_argument("--held", type=int, default=1800)
    a.add_argument("--drill", type=int, default=0)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--notes", type=float, default=0)
    a = a.parse_args()
    if a.notes:
        NOTES["notes"] = a.notes
    os.makedirs(a.out, exist_ok=True)
    write(os.path.join(a.out, "train.jsonl"), a.train, Pick(a.seed, "train", MADE_UP), {**{k: v[0] for k, v in KINDS.items()}, **NOTES})
    write(os.path.join(a.out, "held.jsonl"), a.held, Pick(a.seed, "held"), None)
    if a.drill:
        write(os.path.join(a.out, "drill.jsonl"), a.drill, Pick(a.seed + 1, "train", MADE_UP), NOTES_DRILL if NOTES else DRILL)


if __name__ == "__main__":
    main()
