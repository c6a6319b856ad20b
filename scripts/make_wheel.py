#!/usr/bin/env python3
"""make_wheel.py FOLDER VERSION TAG EPOCH LIBRARY PROGRAM LICENCES: writes kentang-VERSION-py3-none-TAG.whl into FOLDER.

A wheel is a zip file; this one holds bindings/python/kentang with LIBRARY next to it, PROGRAM as a script, and the texts in the folder
LICENCES. Names are sorted and times are EPOCH's, so that the same files make the same bytes."""
import base64
import hashlib
import os
import sys
import time
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

METADATA = """Metadata-Version: 2.1
Name: kentang
Version: {version}
Summary: Language models on the processor: the engine kentang, its program and its module
License: MIT
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
WHEEL = """Wheel-Version: 1.0
Generator: kentang scripts/make_wheel.py
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main():
    folder, version, tag, epoch, library, program, licences = sys.argv[1:]
    info, data = f"kentang-{version}.dist-info", f"kentang-{version}.data"
    module = os.path.join(ROOT, "bindings/python/kentang")
    files = {f"kentang/{name}": (read(os.path.join(module, name)), 0o644) for name in os.listdir(module) if name.endswith(".py")}
    files[f"kentang/{os.path.basename(library)}"] = (read(library), 0o755)
    files[f"{data}/scripts/{os.path.basename(program)}"] = (read(program), 0o755)
    for name in os.listdir(licences):
        files[f"{info}/licenses/{name}"] = (read(os.path.join(licences, name)), 0o644)
    text = METADATA.format(version=version) + read(os.path.join(ROOT, "bindings/python/README.md")).decode()
    files[f"{info}/METADATA"] = (text.encode(), 0o644)
    files[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), 0o644)
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(files[name][0])}\n"
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    # RECORD comes last, as wheels have it
    order = sorted(files, key=lambda name: (name.startswith(info), name.endswith("RECORD"), name))
    date = time.gmtime(int(epoch))[:6]
    with zipfile.ZipFile(os.path.join(folder, f"kentang-{version}-py3-none-{tag}.whl"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name in order:
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100000 | files[name][1]) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, files[name][0])


main()
