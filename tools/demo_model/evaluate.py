#!/usr/bin/env python3
"""evaluate.py VOCAB.json ASK.jsonl -- COMMAND...: what a model answers, greedily, through an engine.

COMMAND reads JSON lists of token ids, one a line, and writes the greedy continuation of each the same way
(`kentang greedy`, or the reference engine of ../shared/peer). ASK holds dialogues as make_corpus.py writes
them; every answer is asked for with the dialogue up to it as the prompt. Prints the share that is
reproduced word for word and the share that stops by itself, by category; --show prints the answers.
"""

import argparse
import collections

from bpe import Vocab, dialogues
from engine import ask


def questions(path):
    for d in dialogues(path):
        m = d["messages"]
        for i, (role, text) in enumerate(m):
            if role == "assistant":
                yield d["cat"] + (" call" if text.startswith("<tool_call>") else ""), m[:i], text
        if m[-1][0] == "user":
            yield d["cat"], m, None


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--show", action="store_true")
    a.add_argument("--limit", type=int, default=1 << 30)
    a.add_argument("vocab")
    a.add_argument("ask")
    a.add_argument("command", nargs="+")
    a = a.parse_args()
    v = Vocab(a.vocab)
    asked = list(questions(a.ask))[:a.limit]
    answers = ask(a.command, [v.prompt(m) for _, m, _ in asked])
    end, count = v.id["<|im_end|>"], collections.defaultdict(collections.Counter)
    for (cat, m, want), ids in zip(asked, answers):
        text, stops = v.decode(ids[:ids.index(end)] if end in ids else ids), end in ids
        count[cat].update(n=1, stops=stops, exact=text == want)
        if a.show:
            print(f"> {m[-1][1]}\n{text}{'' if stops else ' [no end]'}\n")
    for cat, c in sorted(count.items()):
        print(f"{cat:19} {c['n']:5} answers, {100 * c['stops'] / c['n']:5.1f}% stop, {100 * c['exact'] / c['n']:5.1f}% word for word")


if __name__ == "__main__":
    main()
