#!/bin/sh
# The documentation points at what is there: relative links and their anchors, the tests that docs/NUMERICS.md names,
# each page of decisions in docs/DECISIONS.md, each decision with a date, and each room of scripts/rooms.txt in docs/DESIGN.md.
# usage: test_tree_docs.sh BUILD_DIR SOURCE_DIR
set -eu
cd "$2"
python3 - <<'PYTHON'
import pathlib, re, sys

bad = []
pages = [p for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md") for p in sorted(pathlib.Path().glob(pattern))]


def anchors(text):
    """As a repository host makes them: lower case, blanks to hyphens, other punctuation dropped."""
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


for page in pages:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^    .*$", "", text, flags=re.M)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists():
            bad.append(f"{page}: no file {target}")
        elif anchor and anchor not in anchors(file.read_text()):
            bad.append(f"{page}: no heading for {target}")

rules = 0
for row in re.findall(r"^\|[^|]*\|([^|]*tests/[^|]*)\|([^|]*)\|$", pathlib.Path("docs/NUMERICS.md").read_text(), re.M):
    files = [f.strip() for f in row[0].split(",")]
    groups = [g.split(",") for g in row[1].split(";")]
    rules += 1
    if len(files) != len(groups):
        bad.append(f"docs/NUMERICS.md: {len(files)} files and {len(groups)} lists of functions: {row[0].strip()}")
        continue
    for file, names in zip(files, groups):
        text = pathlib.Path(file).read_text() if pathlib.Path(file).exists() else None
        if text is None:
            bad.append(f"docs/NUMERICS.md: no file {file}")
        for name in names:
            if text is not None and name.strip() and not re.search(rf"\b{name.strip()}\(void \*\*state\)", text):
                bad.append(f"docs/NUMERICS.md: no {name.strip()} in {file}")
if rules < 10:
    bad.append(f"docs/NUMERICS.md: only {rules} rows that name tests")

index = pathlib.Path("docs/DECISIONS.md").read_text()
for page in sorted(pathlib.Path("docs/decisions").glob("*.md")):
    if f"(decisions/{page.name})" not in index:
        bad.append(f"docs/DECISIONS.md: does not name {page}")
    for head in re.findall(r"^## (?!.*\(\d{4}-\d\d-\d\d\)$).*$", page.read_text(), re.M):
        bad.append(f"{page}: without a date: {head}")

design = pathlib.Path("docs/DESIGN.md").read_text()
for room in re.findall(r"^room (\w+):", pathlib.Path("scripts/rooms.txt").read_text(), re.M):
    if not re.search(rf"^\| src/(lib|program|program/server)/{room} \|", design, re.M):
        bad.append(f"docs/DESIGN.md: no row for the room {room}")

if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
PYTHON
