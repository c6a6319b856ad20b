"""Gives each option of llama-server's --help to `kentang serve --check`, or of llama-cli's to `kentang run` of a model that
is not there, and says which end it.

    llama-server --help | /usr/bin/python3 tests/peer/llama_server/options.py build/kentang serve
    llama-cli --help | /usr/bin/python3 tests/peer/llama_server/options.py build/kentang run

Options get a value of their kind; a file that is not there is one that was looked for. An option is taken (exit code 0), or
refused with what to do instead ("here it is"); any other end is a failure of this check."""

import re
import subprocess
import sys
import tempfile

VALUES = {
    "-lo-hi": "0-1", "lo-hi": "0-1", "TYPE": "f16", "JSON": "{}", "SCHEMA": "{}", "STRING": "{}",
    "TOKEN_ID(+/-)BIAS": "15043-1", "SEQUENCE": "kt", "LEVEL": "low", "FNAME:SCALE,...": "x.gguf:0.5",
    "HOST": "127.0.0.1", "SAMPLERS": "top_k;temperature", "M": "0x1",
}
OWN = {  # by name, where the kind does not say it
    "chat-template": "chatml", "dry-sequence-breaker": "x", "rope-scaling": "linear", "cache-type-k": "f16",
    "cache-type-v": "f16", "ctk": "f16", "ctv": "f16", "flash-attn": "on", "fa": "on", "pooling": "mean", "reasoning": "off",
    "rea": "off", "api-key": "a-key-of-some-length", "tags": "a", "load-mode": "mmap", "grammar": 'root ::= "a"',
    "hf": "a/b", "hfr": "a/b", "hf-repo": "a/b", "top-p": "0.5", "min-p": "0.5", "prio": "0", "seed": "1", "s": "1",
    "cors-origins": "http://localhost:1", "mmproj": "x.gguf", "mm": "x.gguf", "api-prefix": "/x",
}
WITH = {"hf-file": ["-hf", "a/b"], "hff": ["-hf", "a/b"], "ssl-key-file": ["--ssl-cert-file", "x"],
        "ssl-cert-file": ["--ssl-key-file", "x"]}
FILES = {"grammar-file": 'root ::= "a"', "json-schema-file": "{}", "jf": "{}", "api-key-file": "a-key-of-some-length\n",
         "chat-template-file": "x"}


def options(text):
    """(name with dashes, whether a value follows, what it is called) of each name of each option."""
    for line in text.split("\n"):
        found = re.match(r"^((?:-{1,2}[A-Za-z][\w.-]*(?:,\s*)?)+)\s*(.*)$", line)
        if not found:
            continue
        kind = re.split(r"\s{2,}", found.group(2))[0]
        takes = bool(re.match(r"^(?:[A-Z][A-Z_]|[A-Z]\d?\b|MiB|P0|[\[{<]|lo-hi|none,)", kind))
        for name in re.findall(r"-{1,2}[A-Za-z][\w.-]*", found.group(1)):
            yield name, takes, kind


def value_of(bare, kind, folder):
    if bare in FILES:
        path = f"{folder}/{bare}"
        with open(path, "w", opener=lambda p, flags: __import__("os").open(p, flags, 0o600)) as f:
            f.write(FILES[bare])
        return path
    if kind.startswith("[on|off"):
        return "on"
    return OWN.get(bare, VALUES.get(kind.split(" ")[0], "1"))


# an option's value was used, and led to something that is not here
USED = ("o such file", 'no file "', "Could not resolve host", "more than one prompt")
COMMANDS = {"serve": ["serve", "--check", "--no-config", "--no-env", "--socket", "none"],
            "run": ["run", "-m", "/nowhere.gguf", "-p", "x"]}


def main():
    taken, instead, failed = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, takes, kind in options(sys.stdin.read()):
            bare = name.lstrip("-")
            words = [name, value_of(bare, kind, folder)] if takes else [name]
            run = subprocess.run([sys.argv[1]] + COMMANDS[sys.argv[2]] + WITH.get(bare, []) + words, capture_output=True,
                                 text=True, timeout=60, stdin=subprocess.DEVNULL)
            used = any(words in run.stderr for words in USED)
            if run.returncode == 0 or used:
                taken += 1
            elif "here it is" in run.stderr:
                instead.append(name)
            else:
                failed.append((name, run.stderr.split("\n")[0]))
    for name, why in failed:
        print(f"{name}: {why}")
    print(f"{taken} taken, {len(instead)} refused with what to do instead, {len(failed)} neither")
    return 1 if failed else 0


sys.exit(main())
