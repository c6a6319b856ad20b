#!/bin/sh
# kentang.exe under Wine: what scripts/check --windows runs. Nothing of it is part of CI.
#   scripts/check_windows.sh BUILD LINUX    BUILD: a cross-build with tests (cmake/windows.cmake); LINUX: a Linux build
# KT_TRAINED_FILE: a trained GGUF file whose answers and speed are compared as well. Prints a line for each proof; exit 1 if any fails.
set -eu
build=$(cd "${1:?usage: scripts/check_windows.sh BUILD LINUX}" && pwd)
linux=$(cd "${2:?usage: scripts/check_windows.sh BUILD LINUX}" && pwd)/kentang
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
export WINEDEBUG=-all WINEPREFIX="${WINEPREFIX:-$build/wine}"
mkdir -p "$WINEPREFIX"
server=""
finish() {
    exec 9>&- || :
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || :
    [ "$(id -u)" -ne 0 ] || umount "$dir/small" 2>/dev/null || :
    rm -rf "$dir"
}
trap finish EXIT
failed=0
good() { printf 'ok    %s\n' "$*"; }
bad() { printf 'FAIL  %s\n' "$*"; failed=1; }
kentang() { wine "$build/kentang.exe" "$@"; }

# serve ARGUMENTS...: $server and $url; its process is one of Windows's: to kill it is TerminateProcess
serve() {
    wine "$build/kentang.exe" serve --listen 127.0.0.1:0 "$@" >"$dir/log" 2>&1 &
    server=$!
    url=""
    for _ in $(seq 300); do
        url=$(sed -n 's/.* ready .*http=\(http:[^ ]*\).*/\1/p' "$dir/log")
        [ -z "$url" ] || return 0
        sleep 0.1
    done
    cat "$dir/log"
    bad "the server is not ready"
    exit 1
}
end_server() {
    kill -9 "$server" 2>/dev/null || :
    wait "$server" 2>/dev/null || :
    server=""
}

# ---- answers ----

same_answer() { # WHAT ARGUMENTS...: of both programs
    what=$1
    shift
    kentang run --temp 0 "$@" >"$dir/windows" 2>"$dir/err" </dev/null || { cat "$dir/err"; bad "$what: no answer"; return; }
    "$linux" run --temp 0 "$@" >"$dir/linux" 2>/dev/null </dev/null
    if cmp -s "$dir/windows" "$dir/linux"; then good "$what: Linux's bytes"; else bad "$what: not Linux's bytes"; fi
}
same_answer "the demo model's answer" -n 40 -p "How do I run a GGUF file?"
same_answer "a prompt in UTF-8" -n 24 -p "Grüße aus 東京 – что это?"
for isa in ref sse41 avx2; do same_answer "tier $isa" --isa $isa -n 24 -p "Tell me a story."; done
[ -z "${KT_TRAINED_FILE:-}" ] || same_answer "$(basename "$KT_TRAINED_FILE")" -m "$KT_TRAINED_FILE" -n 64 -p "Warum ist der Himmel blau?"

# ---- files ----

mkdir -p "$dir/ein Ordner mit Ümlauten"
odd="$dir/ein Ordner mit Ümlauten/größeres Modell.gguf"
kentang quantize -q "$root/src/lib/context/demo.gguf" "$odd" q8_0 2>"$dir/err" || cat "$dir/err"
"$linux" quantize -q "$root/src/lib/context/demo.gguf" "$dir/linux.gguf" q8_0 2>/dev/null
if cmp -s "$odd" "$dir/linux.gguf"; then good "quantize: Linux's bytes, at a path with blanks and umlauts"; else bad "quantize differs"; fi
same_answer "a model at that path" -m "$odd" -n 16 -p "Tell me a story."
kentang run --temp 0 -m "Z:$(printf '%s' "$odd" | tr / '\\\\')" -n 16 -p "Tell me a story." >"$dir/slashes" 2>"$dir/err" </dev/null || cat "$dir/err"
if cmp -s "$dir/slashes" "$dir/windows"; then good "the same with Windows's slashes"; else bad "a path with Windows's slashes"; fi
head -c 100000 "$odd" >"$dir/cut.gguf"
if kentang run -m "$dir/cut.gguf" -p x >"$dir/out" 2>&1 </dev/null; then
    bad "a cut file is taken"
elif grep -q 'cut.gguf' "$dir/out"; then
    good "a cut file: $(head -1 "$dir/out" | cut -c1-70)..."
else
    bad "a cut file: $(cat "$dir/out")"
fi
if [ "$(id -u)" -eq 0 ] && mkdir -p "$dir/small" && mount -t tmpfs -o size=2m none "$dir/small" 2>/dev/null; then
    if kentang quantize -q "$odd" "$dir/small/o.gguf" f16 >"$dir/out" 2>&1; then
        bad "a full disk is not noticed"
    elif grep -q 'No space left' "$dir/out" && [ -z "$(ls "$dir/small")" ]; then
        good "a full disk: said, and nothing left on it"
    else
        bad "a full disk: $(cat "$dir/out")"
    fi
    umount "$dir/small"
else
    echo "not run: a full disk (needs root)"
fi

# ---- the server ----

serve -m "$odd"
if python3 "$root/tests/windows/load.py" "$url" 8 1000 >"$dir/out" 2>&1; then good "$(cat "$dir/out")"; else bad "$(cat "$dir/out")"; fi
if curl -s -m 20 "$url/" | grep -q . && curl -s -m 20 -H 'Accept: text/html' "$url/" | grep -qi '<html'; then good "the page"; else bad "the page"; fi
end_server

serve --learn --learn-dir "$dir/learned" --set 'learning.notes=off'
python3 "$root/tests/windows/teach.py" "$url" "$dir/taught" &
teacher=$!
sleep 5
end_server
wait $teacher || :
n=$(wc -l <"$dir/taught")
serve --learn --learn-dir "$dir/learned"
curl -s -m 30 "$url/v1/feedback?limit=1000" >"$dir/kept"
lost=0
tail -n 900 "$dir/taught" >"$dir/last"
while read -r line; do grep -qF "\"$line\"" "$dir/kept" || lost=$((lost + 1)); done <"$dir/last"
if [ "$n" -gt 3 ] && [ $lost -eq 0 ]; then good "killed while it was taught: $n corrections acknowledged, none lost"; else bad "killed while it was taught: $lost of $n lost"; fi
end_server

# ---- children ----

printf '{"mcpServers":{"own":{"command":"%s","args":["mcp"]}}}\n' "$build/kentang.exe" >"$dir/mcp.json"
kentang agent --mcp "$dir/mcp.json" --pins "$dir/pins.json" -c 4096 -m "$odd" -p "hi" -n 8 --transcript "$dir/transcript" >"$dir/out" 2>&1 </dev/null || :
if grep -q '"own__generate"' "$dir/transcript" 2>/dev/null; then good "an MCP server as a child: its tools are there"; else bad "an MCP server as a child: $(cat "$dir/out")"; fi

# ---- from a hub ----

mkdir -p "$dir/hub/Owner/Tale"
cp "$root/src/lib/context/demo.gguf" "$dir/hub/Owner/Tale/Tale-Q4_K_M.gguf"
echo '{}' >"$dir/hub/registry.json"
mkfifo "$dir/stdin"
python3 "$root/tests/store/hub_server.py" "$dir/hub" "$dir/hub.log" <"$dir/stdin" >"$dir/ports" &
exec 9>"$dir/stdin"
for _ in $(seq 100); do [ -s "$dir/ports" ] && break || sleep 0.1; done
read -r port _ <"$dir/ports"
if XDG_DATA_HOME="$dir/data" kentang pull --hub "http://127.0.0.1:$port/good" Owner/Tale >"$dir/out" 2>&1 &&
    cmp -s "$dir/data/kentang/models/Owner/Tale/Tale-Q4_K_M.gguf" "$root/src/lib/context/demo.gguf"; then
    good "pull"
else
    bad "pull: $(cat "$dir/out")"
fi
exec 9>&-

# ---- the library ----

if [ -f "$build/libkentang.dll" ]; then
    cp "$build/libkentang.dll" "$dir/"
    if x86_64-w64-mingw32-gcc-posix "$root/examples/embed.c" -I"$root/include" "$build/libkentang.dll.a" -o "$dir/embed.exe" 2>"$dir/err" &&
        wine "$dir/embed.exe" "" "Who are you?" 2>/dev/null | grep -q 'demo model'; then
        good "a program of its own with libkentang.dll"
    else
        bad "libkentang.dll: $(cat "$dir/err")"
    fi
fi

# ---- the C tests ----

if [ -f "$build/CTestTestfile.cmake" ]; then
    if (cd "$build" && ctest -j 2 >"$dir/ctest" 2>&1); then
        good "C tests: $(grep 'tests passed' "$dir/ctest")"
    else
        sed -n '/tests passed/,$p' "$dir/ctest"
        bad "C tests"
    fi
fi
exit $failed
