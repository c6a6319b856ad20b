#!/bin/sh
# A deep training whose process is killed is resumed after the last step that was kept, and ends as if nothing had been; a
# feedback that is deleted takes what was kept of the training with it.
#   test_cli_learn_resume.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export HOME="$dir" XDG_DATA_HOME="$dir/data" XDG_CONFIG_HOME="$dir/config"
fail() {
    echo "failed: $1" >&2
    exit 1
}
train() {
    "$kentang" learned train --deep --own 4 --steps 3
}
for fact in "Where is the violet ladder?|The violet ladder is inside the mill." "Who repairs the boiler?|Jonas repairs the boiler." \
    "What is the motto of Team Quill?|Never wake the owl." "When does Tamsin train?|Tamsin trains on Wednesday night." \
    "What does Korben collect?|Korben collects paper boats."; do
    printf '%s\n/fix %s\n/clear\n' "${fact%%|*}" "${fact#*|}"
done | "$kentang" run -q -i --plain --learn --temp 0 >/dev/null 2>"$dir/err" || fail "teaching: $(cat "$dir/err")"
kept=$(ls -d "$dir"/data/kentang/learned/*/*)
[ -e "$kept/journal" ] || fail "nothing was taught"
cp -r "$dir/data" "$dir/before"

train >"$dir/whole" || fail "the whole training"
[ ! -e "$kept/training.state" ] && [ ! -e "$kept/training.lesson" ] || fail "what was kept stays after the end"
rm -rf "$dir/data"
cp -r "$dir/before" "$dir/data"
"$kentang" learned train --deep --own 4 --steps 3 >"$dir/killed" 2>/dev/null & # no shell between, which would be killed in its place
pid=$!
n=0
while [ ! -e "$kept/training.state" ]; do
    n=$((n + 1))
    [ "$n" -lt 3000 ] || fail "no step is kept"
    kill -0 "$pid" 2>/dev/null || fail "it ended before a step was kept"
    sleep 0.02
done
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
[ -e "$kept/training.lesson" ] || fail "its lesson is not kept"
train >"$dir/resumed" || fail "the training that is resumed"
grep -q '"steps_resumed":[1-9]' "$dir/resumed" || fail "it began anew: $(cat "$dir/resumed")"
numbers() {
    tr ',' '\n' <"$1" | grep -v 'cpu_ms\|wall_ms\|steps_resumed'
}
numbers "$dir/whole" >"$dir/a"
numbers "$dir/resumed" | diff "$dir/a" - || fail "another result"

# what was kept goes with a feedback that is deleted
rm -rf "$dir/data"
cp -r "$dir/before" "$dir/data"
cp "$dir/a" "$kept/training.state"
cp "$dir/a" "$kept/training.lesson"
"$kentang" learned delete fb_1
[ ! -e "$kept/training.state" ] && [ ! -e "$kept/training.lesson" ] || fail "a deleted feedback leaves a training"
