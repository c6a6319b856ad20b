#!/bin/sh
# kentang serve, ps and stop as programs: --check, errors, the socket in shell, SIGHUP, SIGTERM, socket activation.
set -eu
. "$(dirname "$0")/serve_shell.sh"
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

# --host and --port: what is not given stays as it was
listens() { # WANTED OPTIONS...
    wanted=$1
    shift
    "$kentang" serve --check --no-env "$@" >out 2>err || fail "$*: $(cat err)"
    grep -qxF "listen = \"$wanted\"" out || fail "$*: $(grep '^listen' out)"
}
printf '[http]\nlisten = "0.0.0.0:9000"\nno_keys = true\n' >address.toml
listens 127.0.0.1:8123 --no-config --port 8123
listens '[::1]:8000' --no-config --host ::1
listens '127.0.0.1:8000,[::1]:8000' --no-config --host '127.0.0.1, ::1'
listens 0.0.0.0:81 --config address.toml --port 81
listens 127.0.0.1:9000 --config address.toml --host 127.0.0.1
printf '[http]\nlisten = "none"\n' >address.toml
# llama-server's options that say what requests have which do not say it, and others that are several settings
printf 'root ::= "a"' >g.gbnf
"$kentang" serve --check --no-config --no-env --socket none --grammar-file g.gbnf -l 15-0.5 -l 16+1 --ignore-eos -r '###' -r END --keep 4 \
    --no-cache-prompt --sampler-seq kt --rope-scale 4 --reasoning-budget 0 --dry-sequence-breaker none >out || fail "options of requests"
for line in 'request_defaults = .*"grammar' 'logit_bias.*"15.*-0.5.*"16.*1.0' 'ignore_eos.*true' 'stop.*###.*END' 'n_keep.*4' 'cache_prompt.*false' \
    'reasoning_budget.*0' 'dry_sequence_breakers.*\[\]' 'samplers = "top_k;temperature"' 'rope_freq_scale = 0.25'; do
    grep -q "^$line\|^request_defaults.*$line" out || fail "--check: $line: $(grep -n 'request_defaults\|samplers' out)"
done
for wrong in '-l 15' '-j [1]' '--keep x' '--sampler-seq kq' '--grammar-file nowhere' '--lora-scaled x' '--hf-file x'; do
    # shellcheck disable=SC2086
    if "$kentang" serve --check --no-config --no-env --socket none $wrong >out 2>err; then fail "$wrong was taken"; fi
    grep -q 'expected\|cannot read\|goes with' err || fail "$wrong: $(cat err)"
done

if "$kentang" serve --check --no-env --config address.toml --port 81 >out 2>err; then fail "--port of nothing"; fi
grep -q 'give --host and --port both' err || fail "--port of nothing: said"
listens 127.0.0.1:81 --config address.toml --host 127.0.0.1 --port 81

# where the file is found: $XDG_CONFIG_HOME, else ~/.config, else /etc; --config and KENTANG_CONFIG say another, --no-config none
config_in() {
    mkdir -p "$1/kentang"
    echo "ctx = $2" >"$1/kentang/kentang.toml"
}
config_in xdg 301
config_in home/.config 302
config_in etc 303
found() { # EXPECTED-CTX ENVIRONMENT... [-- OPTIONS...]
    wanted=$1
    shift
    settings=""
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    [ $# -eq 0 ] || shift
    # shellcheck disable=SC2086
    env -u XDG_CONFIG_HOME -u HOME $settings "$kentang" serve --check --socket none "$@" >out 2>err || { cat err; fail "--check"; }
    grep -q "^ctx = $wanted\$" out || { cat out; fail "the configuration of$settings $*: expected ctx = $wanted"; }
}
found 301 XDG_CONFIG_HOME="$dir/xdg" HOME="$dir/home"
grep -q "^# from $dir/xdg/kentang/kentang.toml" out || fail "--check names the file"
found 302 HOME="$dir/home"
found 302 HOME="$dir/home" XDG_CONFIG_HOME=
found 256 XDG_CONFIG_HOME="$dir/xdg" KENTANG_CONFIG="$dir/conf.toml"
found 302 XDG_CONFIG_HOME="$dir/xdg" KENTANG_CONFIG="$dir/conf.toml" -- --config home/.config/kentang/kentang.toml
found 0 XDG_CONFIG_HOME="$dir/xdg" KENTANG_CONFIG="$dir/conf.toml" -- --no-config
# /etc, as root where a mount of our own is possible; the machine's own stays as it is
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    in_etc() { # EXPECTED-CTX ENVIRONMENT...
        wanted=$1
        shift
        env -u XDG_CONFIG_HOME -u HOME "$@" unshare -m sh -c 'mount --bind "$1" /etc && exec "$2" serve --check --socket none' \
            sh "$dir/etc" "$kentang" >out 2>err || { cat err; fail "--check with our /etc"; }
        grep -q "^ctx = $wanted\$" out || { cat out; fail "the configuration in /etc with $*: expected ctx = $wanted"; }
    }
    in_etc 303 HOME=/nowhere
    grep -q '^# from /etc/kentang/kentang.toml' out || fail "--check names the file in /etc"
    in_etc 303 XDG_CONFIG_HOME="$dir/nothing" HOME="$dir/home"
    in_etc 301 XDG_CONFIG_HOME="$dir/xdg"
fi
refused() {
    says=$1
    shift
    if "$kentang" serve --no-config --no-env --socket none "$@" >out 2>err; then fail "taken: $*"; fi
    grep -q "$says" err || { cat err; fail "$*"; }
}
refused 'expected ADDRESS:PORT' --listen localhost --check
refused 'API keys' --listen 0.0.0.0:0 --check
refused 'API keys' --listen '[::]:0' --check
refused 'expected ADDRESS:PORT' --listen ::1:8000 --check
refused 'missing.gguf' -m missing.gguf --check
refused 'cannot read the keys' --keys missing --check
refused 'cannot read a certificate' --set http.tls_cert=missing --set http.tls_key=missing --check
refused 'did you mean "limits.queue"' --set limits.quue=3 --check
refused 'a port from 0 to 65535' --listen 127.0.0.1:99999 --check
refused 'without scheme' --set 'http.hosts=["https://a/"]' --check
refused 'limits.queue: expected a whole number from 1 to 1048576' --set limits.queue=0 --check
refused 'missing.gguf' --draft-model missing.gguf --listen 127.0.0.1:0

listen() {
    start --listen 127.0.0.1:0 --socket "$dir/k.sock" "$@"
}

# the text of a request's answer, over HTTP
answer_of() {
    curl -s "$(url_of)/v1/completions" -H 'Content-Type: application/json' -d "$1" | sed 's/.*"text":"\(.*\)","logprobs".*/\1/'
}

listen
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
listen
kill -9 "$server"
wait "$server" 2>/dev/null || true
[ -S "$dir/k.sock" ] || fail "a stale socket was expected"
listen
kill -HUP "$server"
for _ in $(seq 100); do
    grep -q 'configuration reloaded' log && break
    sleep 0.05
done
grep -q 'configuration reloaded' log || fail "SIGHUP"
finish
grep -q 'stopped' log || fail "SIGTERM"

# SIGHUP says in one line what changed, what was kept and what is refused
cat >conf.toml <<'TOML'
ctx = 256
[limits]
stall_s = 50
[[models]]
name = "demo"
TOML
launch --config conf.toml --no-env --listen none --socket "$dir/k.sock"
hup() {
    kill -HUP "$server"
    for _ in $(seq 200); do
        grep -q "$1" log && return 0
        sleep 0.05
    done
    fail "SIGHUP: $1"
}
sed -i 's/256/512/; s/50/60/' conf.toml
printf '[[models]]\nname = "two"\n' >>conf.toml
hup 'configuration reloaded from .*conf.toml'
grep -q 'warn .*conf.toml: changed: limits.stall_s 50 -> 60; kept: models, caches, answers; refused, since it needs a restart: ctx 256 -> 512, the list of models$' log ||
    fail "SIGHUP: $(grep reloaded log)"
echo 'nonsense = 1' >>conf.toml
hup 'reload refused.*conf.toml.*unknown setting'
rm conf.toml
mkfifo conf.toml
hup 'reload refused.*conf.toml.*it is a pipe'
finish

# what tune found is used, unless settings say otherwise; a draft model that proposes tokens
XDG_CONFIG_HOME="$dir/config" "$kentang" tune -r 2 >out 2>&1 || fail "tune"
echo 'ubatch=64' >>"$(ls config/kentang/tuned/*.conf)"
export XDG_CONFIG_HOME="$dir/config"
listen
grep -q 'model loaded.*why=tuned.*ubatch=64' log || fail "what tune found"
finish
listen --set tuned=false
if grep -q 'why=tuned' log; then fail "tuned = false"; fi
finish
unset XDG_CONFIG_HOME
"$kentang" synth --preset tiny-llama --quant q8_0 --seed 1 a.gguf >/dev/null 2>&1 || fail "synth"
"$kentang" synth --preset tiny-llama --quant q4_0 --seed 1 b.gguf >/dev/null 2>&1 || fail "synth"
ask='{"prompt":"one two one two one two","max_tokens":40,"temperature":0,"ignore_eos":true}'
listen -m a.gguf --set draft_tokens=-1
plain=$(answer_of "$ask")
finish
listen -m a.gguf --draft-model b.gguf
grep -q 'model loaded.*draft_model=b.gguf' log || fail "the draft model in the log"
grep -q 'memory plan.* draft=[1-9]' log || fail "the draft model in the memory plan"
drafted=$(answer_of "$ask")
[ -n "$plain" ] && [ "$plain" = "$drafted" ] || fail "a draft model changed the answer"
finish
if "$kentang" serve --no-config --no-env --listen none --socket "$dir/k.sock" --draft-model a.gguf 2>err; then
    fail "a draft model of another vocabulary was taken"
fi

# JSON lines in the log, and no word of a prompt
listen --set log.format=json
"$kentang" ps --socket "$dir/k.sock" >/dev/null
finish
grep -q '^{"time":".*"level":"info","message":"ready"' log || fail "log.format=json"

if command -v curl >/dev/null 2>&1; then
    # several addresses answer alike, each with its share of connections, and end together
    start --listen "127.0.0.1:0,unix:$dir/several.sock" --socket none
    url=$(url_of | cut -d, -f1)
    curl -fsS "$url/health" >said || fail "the first address: $(cat log)"
    curl -fsS --unix-socket "$dir/several.sock" http://localhost/v1/models >said || fail "the second address: $(cat log)"
    finish
    start --listen "unix:$dir/http.sock" --socket "$dir/k.sock"
    curl -sf --unix-socket "$dir/http.sock" http://localhost/health | grep -q '"ok"' || fail "HTTP over a Unix socket"
    [ "$(stat -c %a "$dir/http.sock")" = 600 ] || fail "the mode of the HTTP socket"
    finish
    [ ! -e "$dir/http.sock" ] || fail "the HTTP socket file is left"
fi
if command -v curl >/dev/null 2>&1 && command -v openssl >/dev/null 2>&1; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost >/dev/null 2>&1
    listen --set http.tls_cert="$dir/cert.pem" --set http.tls_key="$dir/key.pem"
    port=$(url_of | sed 's/.*://')
    curl -sf --cacert cert.pem "https://localhost:$port/health" | grep -q '"ok"' || fail "TLS"
    curl -sf --cacert cert.pem -H 'Content-Type: application/json' -d '{"prompt":"x","max_tokens":9,"stream":true}' \
        "https://localhost:$port/v1/completions" | grep -q 'DONE' || fail "TLS, streamed"
    if curl -sf "http://localhost:$port/health"; then fail "plain HTTP was answered beside TLS"; fi
    finish
fi

# IPv6: the address stands in brackets, in the log as well
if command -v curl >/dev/null 2>&1 && grep -q '^0*1 ' /proc/net/if_inet6 2>/dev/null; then
    start --listen '[::1]:0' --socket none
    url=$(url_of)
    case $url in 'http://[::1]:'*) ;; *) fail "the address in the log: $url" ;; esac
    curl -sfg "$url/health" | grep -q '"ok"' || fail "HTTP over IPv6"
    "$kentang" bench --server "$url" --requests 2 --clients 1 -n 2 --json | grep -q '"answered":2' || fail "bench over IPv6"
    [ "$(curl -sg -o /dev/null -w '%{http_code}' -H 'Host: [::2]:8000' "$url/health")" = 403 ] || fail "a foreign Host over IPv6"
    finish
fi

# the request that the guide of the Sahabat service times, as it is written there but for the port
if command -v curl >/dev/null 2>&1; then
    start --listen 127.0.0.1:0 --socket none --ctx 512
    curl -s -X POST "$(url_of)/v1/chat/completions" \
        -H "Content-Type: application/json" \
        -d '{
    "model": "Sahabat-AI/gemma2-9b-cpt-sahabatai-v1-instruct",
    "messages": [{"role": "user", "content": "Test"}],
    "max_tokens": 100
  }' >out
    grep -q '"object":"chat.completion"' out && grep -q '"finish_reason":"\(stop\|length\)"' out || fail "the request of Sahabat's guide: $(cat out)"
    finish
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
