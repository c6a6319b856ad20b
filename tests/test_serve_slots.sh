#!/bin/sh
# llama-server's POST /slots/N?action=...: what a slot computed goes to a file, is found again by another server that
# restores it, with the same answer, and is gone once it is erased; what is refused, and in which words.
set -eu
. "$(dirname "$0")/serve_shell.sh"
command -v curl >/dev/null && command -v python3 >/dev/null || exit 77
unset XDG_RUNTIME_DIR
cd "$dir"
mkdir kept

post() { # PATH JSON
    curl -sS -w '\n%{http_code}' -H 'Content-Type: application/json' "$url$1" -d "$2"
}
answers() { # PATH JSON PYTHON-CONDITION on `v`
    post "$1" "$2" >said
    python3 - "$3" <<'PY' || fail "$1 $2: $3: $(cut -c1-400 said)"
import json, sys
body, status = open("said").read().rsplit("\n", 1)
v = json.loads(body)
sys.exit(not (status == "200" and eval(sys.argv[1])))
PY
}
refused() { # PATH JSON STATUS WORDS
    post "$1" "$2" >said
    [ "$(tail -1 said)" = "$3" ] || fail "$1 $2: $(cat said)"
    grep -q -- "$4" said || fail "$1 $2 does not say $4: $(cat said)"
}
story='{"prompt":"Once upon a time there was a cat who lived in a house by the sea and","n_predict":24,"temperature":0,"ignore_eos":true'

start --listen 127.0.0.1:0
url=$(url_of)
refused '/slots/0?action=save' '{"filename":"a"}' 501 'slot_save_path'
finish

start --listen 127.0.0.1:0 --parallel 2 --slot-save-path "$dir/kept"
url=$(url_of)
refused '/slots/1?action=save' '{"filename":"a.bin"}' 400 'nothing was computed'
answers /completion "$story,\"id_slot\":1}" 'v["timings"]["cache_n"] == 0 and v["timings"]["prompt_n"] > 16'
text=$(python3 -c 'import json; print(json.loads(open("said").read().rsplit("\n", 1)[0])["content"])')
answers '/slots/1?action=save' '{"filename":"a.bin"}' 'v["id_slot"] == 1 and v["n_saved"] > 40 and v["n_written"] > 1000'
[ "$(stat -c %s kept/a.bin)" -gt 1000 ] || fail "no file"
for name in '../a' '/tmp/a' '.a' '' 'a/b' 'a b'; do
    refused '/slots/1?action=save' "{\"filename\":\"$name\"}" 400 'filename: '
done
refused '/slots/1?action=save' '{}' 400 'filename: '
refused '/slots/2?action=save' '{"filename":"b"}' 400 'only 0 to 1'
refused '/slots/x?action=save' '{"filename":"b"}' 400 'id_slot: '
refused '/slots/1?action=copy' '{"filename":"b"}' 400 'expected save, restore or erase'
refused '/slots/0?action=restore' '{"filename":"none.bin"}' 400 'filename: none.bin: '
answers /completion "$story}" 'v["timings"]["prompt_n"] == 1'
answers '/slots/1?action=erase' '{}' 'v["n_erased"] > 40'
answers /completion "$story}" 'v["timings"]["cache_n"] == 0'
finish

start --listen 127.0.0.1:0 --parallel 2 --slot-save-path "$dir/kept"
url=$(url_of)
answers '/slots/0?action=restore' '{"filename":"a.bin"}' 'v["n_restored"] > 40 and v["n_read"] > 1000'
answers /completion "$story,\"id_slot\":0}" 'v["timings"]["prompt_n"] == 1'
[ "$(python3 -c 'import json; print(json.loads(open("said").read().rsplit("\n", 1)[0])["content"])')" = "$text" ] ||
    fail "another answer after restore"
printf 'nonsense' >kept/bad.bin
refused '/slots/0?action=restore' '{"filename":"bad.bin"}' 400 'filename: bad.bin: '
finish

# with keys a slot is of the client that filled it
printf 'anna:aaaaaaaaaaaaaaaaaaaa\nbert:bbbbbbbbbbbbbbbbbbbb\n' >keys
chmod 600 keys
start --listen 127.0.0.1:0 --parallel 2 --slot-save-path "$dir/kept" --set "http.keys=$dir/keys"
url=$(url_of)
post() { # PATH JSON, with the key in $key
    curl -sS -w '\n%{http_code}' -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$url$1" -d "$2"
}
key=aaaaaaaaaaaaaaaaaaaa
answers /completion "$story,\"id_slot\":1}" 'v["timings"]["cache_n"] == 0'
key=bbbbbbbbbbbbbbbbbbbb
refused '/slots/1?action=save' '{"filename":"c.bin"}' 400 'nothing was computed'
answers '/slots/1?action=erase' '{}' 'v["n_erased"] == 0'
key=aaaaaaaaaaaaaaaaaaaa
answers '/slots/1?action=save' '{"filename":"c.bin"}' 'v["n_saved"] > 40'
finish
