#!/bin/sh
# A server of several processes over MPI: many clients at once get what one process answers, with clients that go away, a
# draft model, keys and values in 8 bits, an adapter, a disk cache that later jobs find prompts in, and a model that is unloaded
# and loaded again; it ends with SIGTERM, its own or mpirun's; what several processes cannot do yet is refused by name. Skipped where MPI is not installed.
# usage: test_serve_peers.sh BUILD_DIR SOURCE_DIR
set -eu
. "$(dirname "$0")/serve_shell.sh"
command -v mpirun >/dev/null 2>&1 && command -v python3 >/dev/null && [ -f "$1/libkentang-mpi.so" ] || exit 77
ask=$2/tests/peers/ask.py
unset XDG_RUNTIME_DIR
. "$(dirname "$0")/peers/env.sh"
cd "$dir"
mpirun="mpirun --oversubscribe -n"

# the process of the server's job that leads; the launcher starts it first
leader() {
    ps -o pid= --ppid "$server" | sort -n | head -1
}

# compare PROCESSES SERVE-ARGUMENTS...: with one process
compare() {
    n=$1
    shift
    launcher=""
    start "$@" --split-least 1 --listen 127.0.0.1:0
    python3 "$ask" "$(url_of)" >one || fail "one process"
    finish
    launcher="$mpirun $n"
    start "$@" --split-least 1 --listen 127.0.0.1:0
    python3 "$ask" "$(url_of)" --gone >many || fail "$n processes"
    grep -q '"status"' one && fail "an error: $(grep '"status"' one)"
    cmp one many || fail "$*: $n processes have other answers than one: $(diff one many | head -4)"
}

for preset in tiny-qwen2 tiny-gemma2 tiny-lfm2 tiny-qwen35; do
    "$kentang" synth --preset $preset --quant q4_k_m --seed 3 $preset.gguf >/dev/null || fail "synth $preset"
done

compare 2 -m tiny-qwen2.gguf -t 1 -c 512 --set idle_unload_s=1
for _ in $(seq 100); do
    grep -q 'unloaded' "$log" && break
    sleep 0.1
done
grep -q 'unloaded' "$log" || fail "an idle model is not unloaded"
python3 "$ask" "$(url_of)" >again || fail "after the model was unloaded"
cmp one again || fail "a model that was loaded again has other answers"
kill -TERM "$(leader)"
wait "$server" || fail "the exit code after SIGTERM"

compare 3 -m tiny-gemma2.gguf -t 1 -c 512 --kv q8 --draft-model tiny-gemma2.gguf
kill -TERM "$server"
wait "$server" || true
grep -q 'stopped' "$log" || fail "mpirun's end does not stop the server"

compare 2 -m tiny-lfm2.gguf -t 1 -c 512
kill -TERM "$(leader)"
wait "$server" || fail "the exit code after SIGTERM"
server=""
[ "$(grep -c 'process [01] on [^ ]*: at most [0-9.]* GB resident' "$log")" = 2 ] || fail "the processes' memory is not shown"

# end_leader: with exit code 0
end_leader() {
    kill -TERM "$(leader)"
    wait "$server" || fail "the exit code after SIGTERM"
    server=""
}
# again WHAT SERVE-ARGUMENTS...: a new job finds its prompts on disk and answers as before; sets found
again() {
    what=$1
    shift
    launcher="$mpirun $n"
    start "$@" --split-least 1 --listen 127.0.0.1:0
    python3 "$ask" "$(url_of)" >many || fail "$what"
    cmp one many || fail "$what: other answers: $(diff one many | head -4)"
    found=$(curl -s "$(url_of)/metrics" | sed -n 's/^kentang_prefix_cache_disk_hits_total[^ ]* //p')
    end_leader
}
while read -r preset n kv; do
    set -- -m $preset.gguf -t 1 -c 512 --kv "$kv" --cache-dir "cache-$preset-$kv"
    compare "$n" "$@"
    end_leader
    again "a new job" "$@"
    [ "$found" -gt 0 ] || fail "$preset, $kv: a new job finds no prompt on disk"
    rm -r "$(ls -d "cache-$preset-$kv"/*/ | tail -1)" # what one process has
    again "a cache of which one process lost its part" "$@"
    again "after that" "$@"
    [ "$found" -gt 0 ] || fail "$preset, $kv: what one process had lost is not kept again"
done <<'LIST'
tiny-qwen2 2 f16
tiny-gemma2 3 q8
tiny-qwen35 2 q4
LIST
"$kentang" synth --lora 8 --base tiny-qwen2.gguf adapter.gguf >/dev/null || fail "synth an adapter"
compare 2 -m tiny-qwen2.gguf -t 1 -c 512 --lora adapter.gguf
end_leader

# refused WORDS SERVE-ARGUMENTS...
refused() {
    words=$1
    shift
    timeout 60 $mpirun 2 "$kentang" serve --no-config --no-env -m tiny-qwen2.gguf --listen 127.0.0.1:0 "$@" >"$log" 2>&1 &&
        fail "$* is not refused"
    grep "$words" "$log" | grep -q 'without mpirun' || fail "$* is refused in other words than $words"
}
refused contexts --contexts 2
refused extreme --preset extreme
refused http.pull --set http.pull=true
printf '[[models]]\nname = "a"\npath = "tiny-qwen2.gguf"\n[[models]]\nname = "b"\npath = "tiny-lfm2.gguf"\n' >two.toml
timeout 60 $mpirun 2 "$kentang" serve --config two.toml --listen 127.0.0.1:0 >"$log" 2>&1 && fail "two models are not refused"
grep -q 'more than one model' "$log" || fail "two models are refused in other words"
exit 0
