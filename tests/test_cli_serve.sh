#!/bin/sh
# kentang serve, ps and stop as programs: --check, errors, the socket in shell, SIGHUP, SIGTERM, socket activation.
set -eu
kentang=$1/kentang
dir=$(mktemp -d)
server=""
cleanup() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
fail() {
    echo "failed: $1" >&2
    cat "$dir/log" >&2 2>/dev/null || true
    exit 1
}
unset XDG_RUNTIME_DIR
cd "$dir"

# --check: what wins, and what is refused
cat >conf.toml <<'TOML'
ctx = 256
parallel = 2
[limits]
queue = 9
TOML
echo 'KENTANG_PARALLEL=3' >.env
KENTANG_CTX=512 "$kentang" serve --config conf.toml --check >out || fail "--check"
grep -q '^ctx = 512$' out || fail "the environment wins over the file"
grep -q '^parallel = 3$' out || fail ".env wins over the file"
grep -q '^queue = 9$' out || fail "the file wins over the defaults"
"$kentang" serve --config conf.toml --check -c 640 >out
grep -q '^ctx = 640$' out || fail "an option wins"
echo 'ctxx = 1' >bad.toml
if "$kentang" serve --config bad.toml --check 2>err; then fail "an unknown key was taken"; fi
grep -q 'bad.toml:1.*did you mean "ctx"' err || fail "the nearest name"
rm .env
refused() {
    says=$1
    shift
    if "$kentang" serve --no-config --no-env --socket none "$@" >out 2>err; then fail "taken: $*"; fi
    grep -q "$says" err || { cat err; fail "$*"; }
}
refused 'expected ADDRESS:PORT' --listen localhost --check
refused 'API keys' --listen 0.0.0.0:0 --check
refused 'missing.gguf' -m missing.gguf --check
refused 'cannot read the keys' --keys missing --check
refused 'cannot open' --set http.tls_cert=missing --set http.tls_key=missing --check
refused 'did you mean "limits.queue"' --set limits.quue=3 --check
refused 'missing.gguf' --draft-model missing.gguf --listen 127.0.0.1:0

start() {
    : >log
    "$kentang" serve --no-config --no-env --listen 127.0.0.1:0 --socket "$dir/k.sock" "$@" 2>log &
    server=$!
    for _ in $(seq 200); do
        grep -q 'ready.*http' log && return 0
        kill -0 "$server" 2>/dev/null || fail "the server ended"
        sleep 0.05
    done
    fail "the server is not ready"
}

# the text of a request's answer, over HTTP
answer_of() {
    url=$(sed -n 's/.* ready .*http=\(http:[^ ]*\) .*/\1/p' log)
    curl -s "$url/v1/completions" -H 'Content-Type: application/json' -d "$1" | sed 's/.*"text":"\(.*\)","logprobs".*/\1/'
}

start
grep -q 'memory plan, bytes model=demo weights=[1-9].* kv=[1-9].* total=[1-9].* budget=' log || fail "the memory plan is in the log"
"$kentang" ps --socket "$dir/k.sock" >out || fail "ps"
grep -q '^demo ' out || fail "ps shows the model"
"$kentang" ps --socket "$dir/k.sock" --json | grep -q '"models"' || fail "ps --json"
if "$kentang" serve --no-config --no-env --listen none --socket "$dir/k.sock" 2>err; then fail "two servers"; fi
grep -q 'another kentang serves' err || fail "the second server says why"
"$kentang" bench --server "unix:$dir/k.sock" --requests 2 --rate 50 -n 4 --prompt "Xylophones are secret" >out || fail "bench"
grep -q 'route=socket' log || fail "a line in the log for each request"
if grep -q 'Xylophones' log; then fail "a prompt is in the log"; fi
"$kentang" stop --socket "$dir/k.sock" || fail "stop"
wait "$server" || fail "the exit code after stop"
server=""
[ ! -e "$dir/k.sock" ] || fail "the socket file is left"
if "$kentang" ps --socket "$dir/k.sock" 2>err; then fail "ps without a server"; fi
grep -q 'no server at' err || fail "ps says there is no server"

# kill -9 leaves a stale socket; the next start takes it over
start
kill -9 "$server"
wait "$server" 2>/dev/null || true
[ -S "$dir/k.sock" ] || fail "a stale socket was expected"
start
kill -HUP "$server"
for _ in $(seq 100); do
    grep -q 'configuration reloaded' log && break
    sleep 0.05
done
grep -q 'configuration reloaded' log || fail "SIGHUP"
kill -TERM "$server"
wait "$server" || fail "the exit code after SIGTERM"
server=""
grep -q 'stopped' log || fail "SIGTERM"

# SIGHUP says what changed, what needs a restart, and what was refused
cat >conf.toml <<'TOML'
ctx = 256
[limits]
stall_s = 50
[[models]]
name = "demo"
TOML
: >log
"$kentang" serve --config conf.toml --no-env --listen none --socket "$dir/k.sock" 2>log &
server=$!
hup() {
    kill -HUP "$server"
    for _ in $(seq 200); do
        grep -q "$1" log && return 0
        sleep 0.05
    done
    fail "SIGHUP: $1"
}
for _ in $(seq 200); do
    grep -q 'ready.*http' log && break
    sleep 0.05
done
sed -i 's/256/512/; s/50/60/' conf.toml
printf '[[models]]\nname = "two"\n' >>conf.toml
hup 'configuration reloaded from .*conf.toml'
grep -q 'warn .*reload: ctx: 256 -> 512 needs a restart' log || fail "SIGHUP: ctx"
grep -q 'info .*reload: limits.stall_s: 50 -> 60$' log || fail "SIGHUP: limits.stall_s"
grep -q 'warn .*reload: the list of models needs a restart' log || fail "SIGHUP: models"
if grep -q 'reload: limits.body' log; then fail "SIGHUP names what has not changed"; fi
echo 'nonsense = 1' >>conf.toml
hup 'reload refused.*conf.toml.*unknown setting'
kill -TERM "$server"
wait "$server" || fail "the exit code"
server=""

# what tune found is used, unless settings say otherwise; a draft model that proposes tokens
XDG_CONFIG_HOME="$dir/config" "$kentang" tune -r 2 >out 2>&1 || fail "tune"
echo 'ubatch=64' >>"$(ls config/kentang/tuned/*.conf)"
export XDG_CONFIG_HOME="$dir/config"
start
grep -q 'model loaded.*why=tuned.*ubatch=64' log || fail "what tune found"
kill -TERM "$server"
wait "$server" || fail "the exit code"
start --set tuned=false
if grep -q 'why=tuned' log; then fail "tuned = false"; fi
kill -TERM "$server"
wait "$server" || fail "the exit code"
server=""
unset XDG_CONFIG_HOME
"$kentang" synth --preset tiny-llama --quant q8_0 --seed 1 a.gguf >/dev/null 2>&1 || fail "synth"
"$kentang" synth --preset tiny-llama --quant q4_0 --seed 1 b.gguf >/dev/null 2>&1 || fail "synth"
ask='{"prompt":"one two one two one two","max_tokens":40,"temperature":0,"ignore_eos":true}'
start -m a.gguf --set draft_tokens=-1
plain=$(answer_of "$ask")
kill -TERM "$server"
wait "$server" || fail "the exit code"
start -m a.gguf --draft-model b.gguf
grep -q 'model loaded.*draft_model=b.gguf' log || fail "the draft model in the log"
grep -q 'memory plan.* draft=[1-9]' log || fail "the draft model in the memory plan"
drafted=$(answer_of "$ask")
[ -n "$plain" ] && [ "$plain" = "$drafted" ] || fail "a draft model changed the answer"
kill -TERM "$server"
wait "$server" || fail "the exit code"
if "$kentang" serve --no-config --no-env --listen none --socket "$dir/k.sock" --draft-model a.gguf 2>err; then
    fail "a draft model of another vocabulary was taken"
fi
server=""

# JSON lines in the log, and no word of a prompt
start --set log.format=json
"$kentang" ps --socket "$dir/k.sock" >/dev/null
kill -TERM "$server"
wait "$server" || fail "the exit code"
server=""
grep -q '^{"time":".*"level":"info","message":"ready"' log || fail "log.format=json"

if command -v curl >/dev/null 2>&1; then
    start --listen "unix:$dir/http.sock"
    curl -sf --unix-socket "$dir/http.sock" http://localhost/health | grep -q '"ok"' || fail "HTTP over a Unix socket"
    [ "$(stat -c %a "$dir/http.sock")" = 600 ] || fail "the mode of the HTTP socket"
    kill -TERM "$server"
    wait "$server" || fail "the exit code"
    server=""
    [ ! -e "$dir/http.sock" ] || fail "the HTTP socket file is left"
fi
if command -v curl >/dev/null 2>&1 && command -v openssl >/dev/null 2>&1; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost >/dev/null 2>&1
    start --set http.tls_cert="$dir/cert.pem" --set http.tls_key="$dir/key.pem"
    port=$(sed -n 's/.*http=https:[^ ]*:\([0-9]*\) .*/\1/p' log)
    curl -sf --cacert cert.pem "https://localhost:$port/health" | grep -q '"ok"' || fail "TLS"
    curl -sf --cacert cert.pem -H 'Content-Type: application/json' -d '{"prompt":"x","max_tokens":9,"stream":true}' \
        "https://localhost:$port/v1/completions" | grep -q 'DONE' || fail "TLS, streamed"
    if curl -sf "http://localhost:$port/health"; then fail "plain HTTP was answered beside TLS"; fi
    kill -TERM "$server"
    wait "$server" || fail "the exit code"
    server=""
fi

if command -v systemd-socket-activate >/dev/null 2>&1; then
    systemd-socket-activate -l "$dir/act.sock" "$kentang" serve --no-config --no-env --listen none --socket none 2>log &
    server=$!
    for _ in $(seq 100); do
        [ -S "$dir/act.sock" ] && break
        sleep 0.05
    done
    "$kentang" ps --socket "$dir/act.sock" >out || fail "socket activation"
    grep -q '^demo ' out || fail "socket activation: ps"
    "$kentang" stop --socket "$dir/act.sock" || fail "socket activation: stop"
    wait "$server" || fail "socket activation: the exit code"
    server=""
fi
