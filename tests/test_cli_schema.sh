#!/bin/sh
# kentang schema: verdicts on texts by bytes and by tokens, and what becomes of schemas that cannot be enforced.
#   tests/test_cli_schema.sh RUN_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
demo=$2/src/lib/context/demo.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() { # name, what is expected, file with what came
    printf '%s\n' "$2" | cmp -s - "$3" || { echo "$1: expected"; printf '%s\n' "$2"; echo "and got"; cat "$3"; exit 1; }
}

printf '%s' '{"properties":{"n":{"type":"integer","maximum":9}},"required":["n"],"additionalProperties":false}' >"$work/schema"
printf '%s\n' '{"text": "{\"n\": 7}"}' '{"text": "{\"n\": 10}"}' '{"text": "{\"n\""}' '{"text": "{\"m\": 1}"}' >"$work/texts"
verdicts='{"accepted": true, "at": 8}
{"accepted": false, "at": 7}
{"accepted": false, "at": 4}
{"accepted": false, "at": 2}'
"$kentang" schema "$work/schema" <"$work/texts" >"$work/out" 2>"$work/err"
expect "by bytes" "$verdicts" "$work/out"
"$kentang" schema "$work/schema" -m "$demo" <"$work/texts" >"$work/tokens" 2>"$work/err"
sed 's/, "at".*//' "$work/out" >"$work/a"
sed 's/, "at".*//' "$work/tokens" >"$work/b"
cmp "$work/a" "$work/b"
grep -q '^masks: ' "$work/err" || { echo "no times on stderr:"; cat "$work/err"; exit 1; }

code=0
printf '{"items": {"pattern": "(a)\\\\1"}}' >"$work/refused"
"$kentang" schema "$work/refused" </dev/null >"$work/out" || code=$?
[ "$code" -eq 6 ] || { echo "a schema that cannot be enforced ended with $code"; exit 1; }
grep -q '^{"refused": "/items/pattern", "keyword": "pattern", "why": "a back-reference' "$work/out" || { cat "$work/out"; exit 1; }

code=0
echo '{' >"$work/malformed"
"$kentang" schema "$work/malformed" </dev/null >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 5 ] || { echo "a malformed schema ended with $code"; exit 1; }

printf 'root ::= "yes" | "no" "."?\n' >"$work/grammar"
printf '%s\n' '{"text": "no."}' '{"text": "yes."}' | "$kentang" schema "$work/grammar" --grammar >"$work/out" 2>"$work/err"
expect "a grammar" '{"accepted": true, "at": 3}
{"accepted": false, "at": 3}' "$work/out"
echo '[a-f]+\d{2}' >"$work/regex"
printf '%s\n' '{"text": "cafe42"}' '{"text": "cafe4"}' | "$kentang" schema "$work/regex" --regex >"$work/out" 2>"$work/err"
expect "a regular expression" '{"accepted": true, "at": 6}
{"accepted": false, "at": 5}' "$work/out"
