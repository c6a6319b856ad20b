#!/usr/bin/env python3
"""A chat with a model inside your own program.

usage: PYTHONPATH=bindings/python embed.py [MODEL.gguf] ["a question"]"""
import sys

import kentang

path = sys.argv[1] if len(sys.argv) > 1 else None
question = sys.argv[2] if len(sys.argv) > 2 else "Who are you?"
try:
    with kentang.Context() as ctx, ctx.open(path or None) as model, model.engine() as engine:
        with engine.sequence() as seq:
            report = seq.chat(question, lambda piece: print(piece, end="", flush=True), temperature=0, n_predict=200)
            print(f"\n[{report.n_generated} tokens, {report.finish}]")
except kentang.Error as error:
    sys.exit(str(error))
