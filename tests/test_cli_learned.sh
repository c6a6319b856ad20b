#!/bin/sh
# kentang run --learn with /good, /bad and /fix, and kentang learned: what was taught is recalled in later runs, listed, exported, rolled
# back and deleted; `kentang learn status` means the same.
#   test_cli_learned.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export HOME="$dir" XDG_DATA_HOME="$dir/data" XDG_CONFIG_HOME="$dir/config"
fail() {
    echo "failed: $1" >&2
    exit 1
}
ask="Where is the blue ladder?"
right="The blue ladder is behind the old mill."

"$kentang" run -q -i --temp 0 </dev/null >/dev/null 2>&1 || true
printf '%s\n/fix %s\n' "$ask" "$right" | "$kentang" run -q -i --temp 0 2>"$dir/err" >/dev/null
grep -q "learning is off" "$dir/err" || fail "/fix without --learn"
[ ! -e "$XDG_DATA_HOME/kentang/learned" ] || fail "a folder without --learn"

printf '/good\n%s\n/bad\n/fix\n/fix %s\n/clear\n%s\n/good\n' "$ask" "$right" "$ask" |
    "$kentang" run -q -i --plain --learn --temp 0 2>"$dir/err" >"$dir/out"
grep -q "$right" "$dir/out" || fail "the correction holds in the same conversation"
grep -q "no answer to speak of" "$dir/err" || fail "/good before an answer"
grep -q "noted as fb_1" "$dir/err" || fail "/bad"
grep -q "/fix needs" "$dir/err" || fail "/fix without a text"
grep -q "learned as fb_2: .* version 1" "$dir/err" || fail "/fix"
grep -q "learned as fb_3: .* version 2" "$dir/err" || fail "/good"
[ "$("$kentang" run -q --learn --temp 0 -p "$ask")" = "$right" ] || fail "a later run recalls it"
[ "$("$kentang" run -q --temp 0 -p "$ask")" != "$right" ] || fail "without --learn it is not there"
[ "$("$kentang" run -q --learn --namespace other --temp 0 -p "$ask")" != "$right" ] || fail "nor in another namespace"

"$kentang" learned status >"$dir/out"
# the correction replaced the thumb down on the same answer
grep -q "^feedback    2 (1 corrections, 1 scores)" "$dir/out" || fail "status"
grep -q "^version     2 of 2" "$dir/out" || fail "status' version"
"$kentang" learn status | diff - "$dir/out" || fail "learn status"
"$kentang" learned list | grep -q '^\* *2 *1   feedback fb_3' || fail "list"
# what it is about, searched, and which entries a message opens
"$kentang" learned entries >"$dir/out"
grep -q '^fb_2  \[blue ladder\]$' "$dir/out" || fail "entries: $(cat "$dir/out")"
grep -q "^    Q  $ask" "$dir/out" || fail "an entry's question"
"$kentang" learn entries "mill ladd" | diff - "$dir/out" || fail "entries by words"
"$kentang" learn entries violin | grep -qx "(none)" || fail "no entries"
"$kentang" learn opens "I lost my blue ladders" | diff - "$dir/out" || fail "opens"
"$kentang" learn opens "I lost my red ladder" | grep -qx "(none)" || fail "opens for another"
"$kentang" learn opens 2>"$dir/err" && fail "opens without a text"
"$kentang" learned export >"$dir/lines"
[ "$(wc -l <"$dir/lines")" = 2 ] || fail "export"
grep -q '"correction":"'"$right"'"' "$dir/lines" || fail "export's correction"
grep -q 'Where is the blue ladder' "$dir/lines" || fail "export's prompt"

# too little was said for the gate to judge a training
"$kentang" learn train --steps 1 --own 16 >"$dir/out" 2>"$dir/err" || fail "train: $(cat "$dir/err")"
grep -q "^refused, version 2" "$dir/out" || fail "train: $(cat "$dir/out")"
grep -q '"why":"[012] held-out conversations* [a-z]* too few' "$dir/out" || fail "train's report: $(cat "$dir/out")"

"$kentang" learned rollback 0
[ "$("$kentang" run -q --learn --temp 0 -p "$ask")" != "$right" ] || fail "rolled back"
"$kentang" learned rollback 1
[ "$("$kentang" run -q --learn --temp 0 -p "$ask")" = "$right" ] || fail "rolled forth"
# the instant loop: of what the journal has, and only where it is asked for
"$kentang" learn status | grep -q "^instant" && fail "an instant loop that nobody asked for"
"$kentang" learn status --learn-instant scoped | grep -q "^instant     1 steps, used where a correction opens" || fail "status of the instant loop"
"$kentang" learn status --learn-instant everywhere | grep -q "^instant     1 steps, used everywhere" || fail "an instant loop for all"
"$kentang" learn status --learn-instant always 2>"$dir/err" && fail "no such use"
grep -q "expected one of off|scoped|everywhere" "$dir/err" || fail "says what it may be: $(cat "$dir/err")"
"$kentang" learn judge --own 16 >"$dir/out" 2>"$dir/err" || fail "judge: $(cat "$dir/err")"
grep -q '"why":"[0-9]* held-out' "$dir/out" || fail "the gate on the instant loop: $(cat "$dir/out")"
# notes: the built-in model uses them; without, what is recalled is named, too
"$kentang" run --learn --temp 0 -p "I lost the blue ladder." 2>"$dir/err" >/dev/null
grep -q "^(learned: fb_2)$" "$dir/err" || fail "notes without a probe: $(cat "$dir/err")"
"$kentang" run --learn --learn-notes off --temp 0 -p "I lost the blue ladder." 2>"$dir/err" >/dev/null
grep -q "(learned" "$dir/err" && fail "notes that are off"
"$kentang" run --learn --learn-notes off --temp 0 -p "$ask" 2>"$dir/err" >/dev/null
grep -q "^(learned: fb_2)$" "$dir/err" || fail "what was recalled: $(cat "$dir/err")"
"$kentang" run -q --learn -p "What have you learned?" | grep -qF "$right" || fail "the list of what was learned"
"$kentang" run --learn --learn-notes on --temp 0 -p "I lost the blue ladder." 2>"$dir/err" >/dev/null
grep -q "^(learned: fb_2)$" "$dir/err" || fail "run says what it took: $(cat "$dir/err")"
"$kentang" run --learn --learn-notes on --temp 0 -p "I lost the red ladder." 2>"$dir/err" >/dev/null
grep -q "(learned" "$dir/err" && fail "a note about another"
printf 'I lost the blue ladder.\nAnd now?\n' | "$kentang" run -i --plain --learn --learn-notes on --temp 0 2>"$dir/err" >/dev/null
[ "$(grep -c "^(learned: fb_2)$" "$dir/err")" = 2 ] || fail "the note stays in the conversation"
"$kentang" learn probe >"$dir/out" || fail "probe"
grep -q "^notes used *[0-9]* of 20" "$dir/out" || fail "probe's result"
grep -q "of 20 notes used" "$XDG_DATA_HOME"/kentang/learned/*/notes.probe || fail "probe's file"
# a base model is judged as the server has it: with ChatML where its file has no chat template
"$kentang" synth --preset tiny-llama --quant q8_0 "$dir/t.gguf" >/dev/null 2>&1
LC_ALL=C sed 's/tokenizer\.chat_template/tokenizer.chat_templat0/' "$dir/t.gguf" >"$dir/base.gguf"
"$kentang" learn probe -m "$dir/base.gguf" >"$dir/out" 2>"$dir/err" || fail "probe of a base model: $(cat "$dir/err")"
grep -q "^notes used *[0-9]* of 20" "$dir/out" || fail "probe of a base model: $(cat "$dir/out")"
"$kentang" learn edit fb_3 x 2>"$dir/err" && fail "a score is no correction"
"$kentang" learn edit fb_2 "$right!" | grep -q "^fb_4, version " || fail "edit"
"$kentang" learn entries | grep -q '^fb_4  ' || fail "the edited entry"
[ "$("$kentang" run -q --learn --temp 0 -p "$ask")" = "$right!" ] || fail "an edited correction holds"
"$kentang" learn edit fb_4 "$right" | grep -q "^fb_5, version " || fail "edited again"
"$kentang" learned delete fb_5
"$kentang" learned delete fb_5 2>/dev/null && fail "deleted twice"
grep -rq "$right" "$XDG_DATA_HOME" && fail "a trace of what was deleted"
"$kentang" learn freeze
printf '%s\n/good\n' "$ask" | "$kentang" run -q -i --plain --learn --temp 0 2>"$dir/err" >/dev/null || true
grep -q "frozen" "$dir/err" || fail "a frozen namespace takes nothing"
"$kentang" learned thaw
"$kentang" learned rollback 9 2>/dev/null && fail "a version that is not there"
"$kentang" learned rollback 2>/dev/null && fail "no version"
"$kentang" learned dance 2>/dev/null && fail "no such action"
"$kentang" learned delete 2>/dev/null && fail "delete what?"
"$kentang" learned delete --all
"$kentang" learned status 2>"$dir/err" && fail "nothing is there"
grep -q "nothing was learned there" "$dir/err" || fail "says so"
echo ok
