"""Every class: a folder is written, converted, and the engine's logits of the result are compared with the forward pass
in numpy. Usage: check_models.py KENTANG WORK_FOLDER [NAME...]"""
import json
import os
import subprocess
import sys

import numpy as np

import models


def main():
    kentang, work, names = sys.argv[1], sys.argv[2], sys.argv[3:] or list(models.MODELS)
    failed = 0
    for name in names:
        m = models.MODELS[name]
        folder, out = os.path.join(work, name), os.path.join(work, name + ".gguf")
        w, n_tokens = models.write(m, folder)
        # both places for the file's name, by turns
        place = [folder, "-o", out] if len(name) % 2 else [folder, out]
        done = subprocess.run([kentang, "convert", *place, "--type", "f32"], capture_output=True, text=True)
        if done.returncode:
            print(f"FAIL {name}: {done.stderr.strip()}")
            failed += 1
            continue
        rng = np.random.default_rng(7)
        lines = [rng.integers(0, n_tokens, n).tolist() for n in (1, 2, 17, 40, 90)]
        got = subprocess.run([kentang, "logits", out], input="".join(json.dumps(ids) + "\n" for ids in lines),
                             capture_output=True, text=True)
        if got.returncode:
            print(f"FAIL {name}: {got.stderr.strip()}")
            failed += 1
            continue
        worst = 0.0
        for ids, line in zip(lines, got.stdout.splitlines()):
            want = models.logits(m, w, ids)
            have = np.array(json.loads(line)["logits"])
            want = want[:len(have)]  # gemma3 leaves rows without a token out
            worst = max(worst, float(np.abs(want - have).max() / want.std()))
        good = worst < 2e-3
        failed += not good
        print(f"{'PASS' if good else 'FAIL'} {name}: largest difference {worst:.2e} of the logits' spread"
              f"{'; ' + done.stderr.strip() if not good else ''}")
    sys.exit(failed > 0)


main()
