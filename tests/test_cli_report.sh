#!/bin/sh
# --report FILE.html: one page that an XML parser reads, without scripts or anything from elsewhere; and what cannot be written is
# refused before anything is measured.
# usage: test_cli_report.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir XDG_CACHE_HOME=$dir HOME=$dir
cd "$dir"
fail() { echo "failed: $*" >&2; exit 1; }

# page FILE PLOTS TABLES: well-formed, in itself, with at least this many of both; each plot has a title, each table a caption
page() {
    python3 - "$@" <<'PYTHON'
import re, sys
import xml.etree.ElementTree as tree
path, n_plots, n_tables = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
text = open(path, encoding="utf-8").read()
root = tree.fromstring(text)
assert root.tag == "html" and root.get("lang") == "en"
assert not list(root.iter("script")) and not re.search(r"https?:|src=|url\(|@import", text)
plots = [e for e in root.iter("svg") if e.get("role") == "img"]
assert len(plots) >= n_plots, f"{len(plots)} plots in {path}"
ids = {e.get("id") for e in root.iter() if e.get("id")}
assert len(ids) == sum(1 for e in root.iter() if e.get("id")), "an id twice"
for svg in plots:
    title, desc = svg.find("title"), svg.find("desc")
    assert title.text and desc.text and set(svg.get("aria-labelledby").split()) == {title.get("id"), desc.get("id")}
    assert "nan" not in tree.tostring(svg, encoding="unicode").lower().replace("nanos", "")
tables = list(root.iter("table"))
assert len(tables) >= n_tables, f"{len(tables)} tables in {path}"
for table in tables:
    assert table.find("caption").text
    columns = len(table.find("thead/tr").findall("th"))
    rows = table.findall("tbody/tr")
    assert rows and all(len(row) == columns and row[0].get("scope") == "row" for row in rows), path
levels = [int(e.tag[1]) for e in root.iter() if re.fullmatch("h[1-6]", e.tag)]
assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels
facts = [e.text for e in root.iter("dt")]
assert {"Processor", "Cores", "Memory", "Pages", "kentang", "Revision", "Date"} <= set(facts), facts
assert root.find(".//pre").text.startswith("kentang "), "the command"
PYTHON
}

"$kentang" bench -p 8,16 -n 4 -d 0,16 -b 1,2 -t 1,2 -r 2 --no-limits --report bench.html >out 2>err || fail "$(cat err)"
grep -q 'pp16@d16' out || fail "no table: $(cat out)"
page bench.html 7 1
grep -q 'bench -p 8,16 -n 4' bench.html || fail "the command"
"$kentang" bench --preset tiny-llama --quant q8_0 -p 8 -n 4 -t 1 -r 1 -o json --report limits.html >out 2>err || fail "$(cat err)"
page limits.html 1 1

# a hostile name is a text
name='x"><script>alert(1)<.script>&amp;.gguf'
cp "$2/src/lib/context/demo.gguf" "$name"
"$kentang" bench -m "$name" -p 8 -n 2 -r 1 -t 1 --no-limits --report "$name.html" >out 2>err || fail "$(cat err)"
page "$name.html" 1 1
ls | grep -q '\.tmp$' && fail "a temporary file is left"

"$kentang" bench --server none --requests 6 --clients 2 -n 4 --key hidden --report load.html >out 2>err || fail "$(cat err)"
page load.html 5 1
grep -q hidden load.html && fail "a key is in the report"

# several files against the first one, and one against a base
demo=$2/src/lib/context/demo.gguf
i=0
while [ $i -lt 40 ]; do
    echo "Once upon a time, on day $i, there was a small potato. It was happy because the rain came to the garden."
    i=$((i + 1))
done >text
for type in q8_0 q2_k; do "$kentang" quantize "$demo" "$type.gguf" "$type" >/dev/null 2>&1; done
"$kentang" compare "$demo" q8_0.gguf q2_k.gguf -f text --context 64 --json --report compare.html >out || fail "compare"
page compare.html 4 2
python3 - out <<'PYTHON'
import json, sys
o = json.load(open(sys.argv[1]))
assert set(o) == {"a", "b", "c", "b_beside_a", "c_beside_a"}, o
assert 0 < o["b_beside_a"]["kl"] < o["c_beside_a"]["kl"], o
assert o["a"]["type"] == "Q5_K_M" and o["c"]["type"] == "Q2_K" and o["c"]["file_bytes"] < o["b"]["file_bytes"], o
text = open("compare.html", encoding="utf-8").read() # the same figures, not others
for name in "abc":
    assert f'{o[name]["perplexity"]:.5g}'[:5] in text, name
PYTHON
"$kentang" compare "$demo" q8_0.gguf none.gguf -f text --context 64 >out 2>err && fail "a third file that is not there"
[ ! -s out ] && ! grep -q chunks err || fail "measured before it looked at all files"
"$kentang" perplexity q2_k.gguf --kl "$demo" -f text --context 64 --report perplexity.html >out || fail "perplexity"
page perplexity.html 6 2
"$kentang" perplexity -f text --context 64 --report alone.html >out || fail "perplexity alone"
page alone.html 1 1
printf '%s\n' '{"ind": 1, "ctx": "The sun is", "endings": ["hot.", "a cup of tea in a box.", "seven", "to"], "label": "0"}' >choices
"$kentang" perplexity --choices choices --report choices.html >out || fail "choices"
page choices.html 1 1

# what was tried, and what was learned
"$kentang" tune -r 1 --dry-run --report tune.html >out 2>err || fail "tune: $(cat err)"
page tune.html 3 1
grep -q 'chosen' tune.html || fail "tune: nothing is chosen"
for i in 1 2 3 4 5 6; do echo "{\"prompt\":\"Where is cup $i?\",\"correction\":\"In the sea.\"}"; done >lesson
echo '{"prompt":"Hello","answer":"Hello!","keep":true}' >>lesson
code=0
"$kentang" learn lesson --steps 3 --held-out 0 --rank 2 --report learn.html >out 2>err || code=$?
[ "$code" = 3 ] || fail "learn: $code, $(cat err)"
page learn.html 1 1

# refused WORD COMMAND...: with the reason, at once, and without a result
refused() {
    word=$1
    shift
    "$kentang" "$@" >out 2>err && fail "$* was taken"
    grep -q "$word" err || fail "$*: $(cat err)"
    [ ! -s out ] || fail "$* measured first"
}
for command in "bench -p 8 -n 2 -r 1" "bench --server none -n 2" "perplexity -f text" "compare q8_0.gguf q2_k.gguf -f text" "tune -r 1" "learn lesson --steps 1"; do
    # shellcheck disable=SC2086
    refused 'cannot write the report: No such file or directory' $command --report none/r.html
    # shellcheck disable=SC2086
    refused 'cannot write the report: Is a directory' $command --report .
    # shellcheck disable=SC2086
    refused 'no file' $command --report /dev/null
done
[ -c /dev/null ] || fail "/dev/null was replaced"
