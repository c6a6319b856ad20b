#!/bin/sh
# The demo model's greedy answers are those of tests/golden/demo_greedy.txt, byte for byte, in every tier that this
# machine has and with one thread or three. After training a new model, write the file again with the loop below.
#   test_cli_demo_text.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 golden=$2/tests/golden/demo_greedy.txt
got=$(mktemp)
trap 'rm -f "$got"' EXIT

for tier in ref sse41 avx2 avxvnni avx512 amx neon dotprod i8mm; do
    code=0
    said=$(KENTANG_ISA=$tier "$build/kentang" run -n 1 -p x 2>&1 >/dev/null) || code=$?
    if [ $code -ne 0 ]; then # only a tier of another processor (KT_E_UNSUPPORTED) or build may be missing
        [ $tier != ref ] || { echo "ref does not run: $said"; exit 1; }
        [ $code -eq 6 ] && continue
        case $said in *"unknown kernel tier '$tier'"*) continue ;; esac
        echo "tier $tier: exit $code: $said"
        exit 1
    fi
    for threads in 1 3; do
        [ "$tier$threads" != ref1 ] || continue # the slowest, whose loops are the others'
        : >"$got"
        sed -n 's/^> //p' "$golden" | while IFS= read -r prompt; do
            printf '> %s\n' "$prompt"
            KENTANG_ISA=$tier "$build/kentang" run -t $threads --temp 0 -p "$prompt" 2>/dev/null
            echo
        done >"$got"
        cmp "$golden" "$got" || {
            echo "tier $tier, $threads threads: not the text of $golden"
            exit 1
        }
    done
    echo "$tier: the same text"
done
