# Sourced: what `kentang` itself answers, for the tests of the bindings.
#   expect_from BUILD_DIR FILE: sets question, answer, n, text, prompt_ids and ids, and writes them to FILE as JSON
expect_from() {
    n=24 question="Who are you?" text="Once upon a time"
    prompt_ids=$("$1/kentang" tokenize -p "$text")
    ids=$(echo "$prompt_ids" | "$1/kentang" greedy -n "$n" -c 512)
    answer=$("$1/kentang" run -c 512 -p "$question" --temp 0 -n "$n" --plain -q)
    [ -n "$answer" ] && [ -n "$ids" ] || return 1
    cat >"$2" <<JSON
{"n": $n, "question": "$question", "answer": "$answer", "text": "$text", "prompt_ids": $prompt_ids, "ids": $ids}
JSON
}

# The numbers of a JSON array, with blanks between them.
numbers_of() { echo "$1" | tr -d '[]' | tr ',' ' '; }
