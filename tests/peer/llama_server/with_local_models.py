#!/usr/bin/env python3
"""with_local_models.py KENTANG FOLDER ARGUMENTS...: starts `KENTANG serve` with the arguments of llama-server, with files of FOLDER in
place of models on a hub. Nothing else is changed or left out. llama-server itself in place of KENTANG: the same, to see what it passes."""
import os
import sys

kentang, folder, given = sys.argv[1], sys.argv[2], sys.argv[3:]
files = {"stories260K": "stories.gguf", "bert-bge": "bert.gguf", "jina-reranker": "reranker.gguf"}
out, name, i = [], "", 0
while i < len(given):
    if given[i] in ("--hf-repo", "--hf-file"):
        name += " " + given[i + 1]
        i += 2
        continue
    if given[i] != "--offline":
        out.append(given[i])
    i += 1
if name:
    found = [f for word, f in files.items() if word in name]
    if not found:
        sys.exit(f"no model here for{name}")
    out = ["-m", os.path.join(folder, found[0])] + out
ours = [] if os.path.basename(kentang) == "llama-server" else ["serve", "--socket", "none"]
os.execv(kentang, [kentang, *ours, *out])
