#!/bin/sh
# kentang launch: what a program is told, with a server that runs and with one that is started; the user's own files stay; --print starts nothing.
#   test_cli_launch.sh BUILD_DIR SOURCE_DIR
set -eu
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
source=$2
. "$source/tests/serve_shell.sh"
export HOME="$dir/home" XDG_CONFIG_HOME="$dir/config" XDG_DATA_HOME="$dir/data" XDG_RUNTIME_DIR="$dir/run"
mkdir -p "$dir/bin" "$dir/run" "$HOME"
# programs that say what they were told
for name in claude codex opencode aider pi qwen goose; do
    cat >"$dir/bin/$name" <<'END'
#!/bin/sh
echo "$0 $*" >"$OUT"
env >>"$OUT"
[ -z "${PI_CODING_AGENT_DIR:-}" ] || { echo "folder: $PI_CODING_AGENT_DIR"; cat "$PI_CODING_AGENT_DIR/models.json"; } >>"$OUT"
python3 - "$OUT" <<'PY'
import json, os, sys
if "OPENCODE_CONFIG_CONTENT" in os.environ: json.loads(os.environ["OPENCODE_CONFIG_CONTENT"])
PY
exit 7
END
    chmod +x "$dir/bin/$name"
done
export PATH="$dir/bin:$PATH" OUT="$dir/told"
has() { grep -qF -- "$1" "$dir/told" || fail "no $1: $(cat "$dir/told")"; }
launch_it() { # ARGUMENTS...: the program's exit code is launch's
    code=0
    "$kentang" launch "$@" >"$dir/out" 2>&1 || code=$?
    [ "$code" = 7 ] || fail "launch $*: $code $(cat "$dir/out")"
}

# a server that runs, with a name that needs quoting
start --listen 127.0.0.1:0 --socket none --set 'alias=a "b" %c' --ctx 512
url=$(url_of)
at=${url#http://}
launch_it claude --listen "$at" -- -p "hi there"
has "claude -p hi there"
has "ANTHROPIC_BASE_URL=$url"
has 'ANTHROPIC_MODEL=a "b" %c'
has API_TIMEOUT_MS=1800000
if ANTHROPIC_API_KEY=mine "$kentang" launch claude --listen "$at" >/dev/null 2>&1; then fail "the exit code"; fi
if grep -q ANTHROPIC_API_KEY "$dir/told"; then fail "the user's own key would be sent"; fi
launch_it codex --listen "$at" --key 'k"1' -- exec hi
has 'model="a \"b\" %c"'
has "base_url=\"$url/v1\""
has 'KENTANG_API_KEY=k"1'
has 'codex -c'
grep -q 'exec hi$' "$dir/told" || fail "the user's arguments come last: $(cat "$dir/told")"
launch_it opencode --listen "$at"
launch_it aider --listen "$at" -- --message x
has "OPENAI_API_BASE=$url/v1"
has 'aider --model openai/a "b" %c'
launch_it pi --listen "$at"
python3 - "$dir/told" <<'PY' || fail "pi: $(cat "$dir/told")"
import json, sys
model = json.loads(open(sys.argv[1]).read().rsplit("models.json\n")[-1].split("folder: ")[1].split("\n", 1)[1])["providers"]["kentang"]["models"][0]
assert model["id"] == 'a "b" %c' and model["contextWindow"] == 512, model
PY
folder=$(sed -n 's/^folder: //p' "$dir/told")
case $folder in "$dir/run/"*) ;; *) fail "the folder is $folder" ;; esac
[ ! -e "$folder" ] || fail "the folder stays"
launch_it qwen-code --listen "$at"
has 'qwen --auth-type openai'
launch_it goose --listen "$at"
has 'goose session'
[ -z "$(ls -A "$HOME")" ] || fail "something was written to the user's folder: $(ls -A "$HOME")"

# what would be set, in a shell's words, and nothing started
rm "$dir/told"
"$kentang" launch codex --listen "$at" --print -- "it's" >"$dir/print"
grep -qF "'it'\\''s'" "$dir/print" || fail "$(cat "$dir/print")"
[ ! -e "$dir/told" ] || fail "--print started it"
code=0
sh "$dir/print" || code=$?
[ "$code" = 7 ] || fail "what --print says does not run: $(cat "$dir/print")"
has "it's"
finish
"$kentang" launch pi --listen "$at" --print -m tale -c 2048 >"$dir/print"
grep -q '^# no server answers' "$dir/print" && grep -q '"contextWindow":2048' "$dir/print" || fail "$(cat "$dir/print")"

# none answers: one is started, and ends with the program
launch_it claude --listen "$at" -c 256
has "ANTHROPIC_MODEL=demo"
has CLAUDE_CODE_AUTO_COMPACT_WINDOW=256
if curl -s "http://$at/health" >/dev/null; then fail "the server that was started stays"; fi
code=0
"$kentang" launch claude --listen "$at" -m "$dir/none.gguf" >"$dir/out" 2>&1 || code=$?
[ "$code" != 0 ] && grep -q 'its log says why' "$dir/out" || fail "$code $(cat "$dir/out")"

# keys, and what is not there
printf 'anna:0123456789abcdef0\n' >"$dir/keys"
chmod 600 "$dir/keys"
start --listen 127.0.0.1:0 --socket none --set "http.keys=$dir/keys"
at=$(url_of)
at=${at#http://}
if "$kentang" launch claude --listen "$at" 2>"$dir/out"; then fail "without a key"; fi
grep -q 'asks for a key' "$dir/out" || fail "$(cat "$dir/out")"
KENTANG_API_KEY=0123456789abcdef0 launch_it claude --listen "$at"
has ANTHROPIC_AUTH_TOKEN=0123456789abcdef0
rm "$dir/bin/goose"
code=0
"$kentang" launch goose --listen "$at" --key 0123456789abcdef0 2>"$dir/out" >/dev/null || code=$?
[ "$code" = 127 ] && grep -q 'it comes from' "$dir/out" || fail "$code $(cat "$dir/out")"
if "$kentang" launch emacs 2>"$dir/out"; then fail "an unknown program"; fi
finish
echo "all as expected"
