#!/bin/sh
# kentang pull, list, show, rm and names for -m, against a hub of our own that also drops, lies, changes files, sends on and serves garbage.
#   test_store_pull.sh BUILD_DIR SOURCE_DIR
set -eu
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
kentang=$1/kentang
source=$2
dir=$(mktemp -d)
cleanup() {
    exec 9>&- 2>/dev/null || true
    [ -z "${hub:-}" ] || kill "$hub" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
fail() {
    echo "failed: $1" >&2
    [ ! -f "$dir/err" ] || cat "$dir/err" >&2
    exit 1
}
unset HF_TOKEN HF_TOKEN_PATH HF_HOME HF_ENDPOINT XDG_CACHE_HOME KENTANG_HUB KENTANG_OFFLINE KENTANG_MODELS_DIR KENTANG_MODEL http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export KENTANG_CONFIG= HOME="$dir/home" XDG_CONFIG_HOME="$dir/config" XDG_DATA_HOME="$dir/data" NO_PROXY=127.0.0.1
models=$dir/data/kentang/models

# what the hub has
mkdir -p "$dir/hub/Owner/Repo-GGUF/big" "$dir/hub/Owner/Garbage" "$dir/hub/plain" "$dir/config/kentang"
"$kentang" quantize -q "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Repo-GGUF/Tale-F32.gguf" f32 2>/dev/null
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Repo-GGUF/Tale-Q4_K_M.gguf"
cp "$source/src/lib/context/demo.gguf" "$dir/hub/plain/a model.gguf"
head -c 300000 /dev/urandom >"$dir/hub/Owner/Garbage/garbage.gguf"
python3 - "$dir/hub" "$source" <<'PY'
import json, os, struct, sys
hub = sys.argv[1]
def text(s):
    return struct.pack("<Q", len(s)) + s.encode()
# a split set without tensors, and one whose second part is missing
for repo, n in (("Split", 3), ("Half", 2)):
    os.makedirs(f"{hub}/Owner/{repo}/sub")
    for i in range(3 if n == 3 else 1):
        keys = [text("split.no") + struct.pack("<IH", 2, i), text("split.count") + struct.pack("<IH", 2, n)]
        if i == 0:
            keys.append(text("general.architecture") + struct.pack("<I", 8) + text("llama"))
        head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys)
        with open(f"{hub}/Owner/{repo}/sub/m-{i + 1:05}-of-{n:05}.gguf", "wb") as f:
            f.write(head + bytes(-len(head) % 32))
# two folders of safetensors, one of them damaged
for repo, end in (("Folder", 4), ("Damaged", 400)):
    os.makedirs(f"{hub}/Owner/{repo}", exist_ok=True)
    head = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, end]}}).encode()
    with open(f"{hub}/Owner/{repo}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + bytes(4))
    for name in ("config.json", "tokenizer.json", "train.py"):
        with open(f"{hub}/Owner/{repo}/{name}", "w") as f:
            f.write("{}")
# an encoder with the folders that its modules.json names, one that has lost one of them, and one without the list
for repo in ("Encoder", "Lost", "Listless"):
    def put(name, text):
        path = f"{hub}/Owner/{repo}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "wb").write(text)
    head = json.dumps({"linear.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}}).encode()
    weights = struct.pack("<Q", len(head)) + head + bytes(4)
    for name in ("model.safetensors", "2_Dense/model.safetensors", "onnx/model.safetensors"):
        put(name, weights)
    for name in ("config.json", "tokenizer.json", "config_sentence_transformers.json", "onnx/config.json", "openvino/x.json"):
        put(name, b"{}")
    put("2_Dense/config.json", b'{"activation_function": "torch.nn.modules.linear.Identity"}')
    put("2_Dense/pytorch_model.bin", b"no")
    put("added_tokens.json", b"")
    put("additional_chat_templates/tool.jinja", b"{{ messages }}")
    put("additional_chat_templates/README.md", b"no")
    if repo != "Lost":
        put("1_Pooling/config.json", b'{"pooling_mode_cls_token": true}')
    if repo != "Listless":
        put("modules.json", json.dumps([{"type": f"sentence_transformers.models.{t}", "path": p} for t, p in (
            ("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"))]).encode())
PY
mkdir "$dir/hub/Owner/Weighed"
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Weighed/Tiny-Q8_0.gguf"
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Weighed/Tiny-imatrix.gguf"
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Weighed/imatrix_other.gguf"
echo notes >"$dir/hub/Owner/Repo-GGUF/README.md"
mkdir -p "$dir/hub/Owner/Sees/other"
for tag in Q4_K_M Q8_0; do cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Sees/Eye-$tag.gguf"; done
for name in mmproj-Eye-F32 mmproj-Eye-F16 other/mmproj-Eye-Q8_0; do cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Sees/$name.gguf"; done
mkdir "$dir/hub/Owner/Blurred"
cp "$source/src/lib/context/demo.gguf" "$dir/hub/Owner/Blurred/Eye-Q4_K_M.gguf"
cp "$dir/hub/Owner/Garbage/garbage.gguf" "$dir/hub/Owner/Blurred/mmproj-Eye-F16.gguf"
echo '{"library/tale:1b": "Owner/Repo-GGUF/Tale-Q4_K_M.gguf", "library/pieces:latest": "tensors"}' >"$dir/hub/registry.json"
mkfifo "$dir/stdin"
python3 "$source/tests/store/hub_server.py" "$dir/hub" "$dir/log" <"$dir/stdin" >"$dir/ports" 2>"$dir/hub.err" &
hub=$!
exec 9>"$dir/stdin"
for _ in $(seq 100); do
    [ -s "$dir/ports" ] && break
    sleep 0.05
done
read -r port other <"$dir/ports" || fail "the hub did not start"
base=http://127.0.0.1:$port
big=$dir/hub/Owner/Repo-GGUF/Tale-F32.gguf
f32=$models/Owner/Repo-GGUF/Tale-F32.gguf

pull() { # MODE NAME...: from the hub that behaves so
    mode=$1
    shift
    "$kentang" pull --hub "$base/$mode" "$@" >"$dir/out" 2>"$dir/err"
}
refused() { # PATTERN MODE NAME...
    pattern=$1
    shift
    if pull "$@"; then fail "taken: $*"; fi
    grep -Eq "$pattern" "$dir/err" || fail "$*: not said: $pattern"
    [ ! -e "$f32" ] || fail "$*: a file under its final name"
}
again() { # forget what was fetched
    rm -rf "$dir/data"
}

# whole, in ranges side by side, and a second time without a byte
pull good Owner/Repo-GGUF:f32 || fail "pull"
cmp -s "$big" "$f32" || fail "other bytes"
[ "$(cat "$dir/out")" = "$f32" ] || fail "the path on standard output"
[ "$(grep -c 'Tale-F32.gguf bytes=[0-9]*-[0-9]* ' "$dir/log")" -ge 5 ] || fail "no ranges"
[ ! -e "$models/.unfinished" ] || [ -z "$(ls -A "$models/.unfinished")" ] || fail "something unfinished is left"
: >"$dir/log"
pull good hf:Owner/Repo-GGUF/Tale-F32.gguf || fail "pull again"
grep -q 'there already' "$dir/err" || fail "there already"
if grep -q 'bytes=[1-9]' "$dir/log"; then fail "fetched again"; fi
# without a tag: the Q4_K_M; names that would leave the folder were passed over
pull good Owner/Repo-GGUF || fail "pull without a tag"
[ -f "$models/Owner/Repo-GGUF/Tale-Q4_K_M.gguf" ] || fail "Q4_K_M"
[ -z "$(find "$dir" -name 'escape*')" ] || fail "a file outside the folder"
refused_keeps() { # another file of that name is not replaced
    echo other >"$f32"
    if pull good Owner/Repo-GGUF:f32; then fail "replaced"; fi
    grep -q 'not replaced' "$dir/err" && [ "$(cat "$f32")" = other ] || fail "not replaced"
}
refused_keeps
again

# the part that sees comes with the model, once for all models of its folder, and goes with the last of them
sees=$models/Owner/Sees
pull good Owner/Sees || fail "pull with an mmproj file"
[ "$(cat "$dir/out")" = "$sees/Eye-Q4_K_M.gguf" ] || fail "the path of a model that sees"
cmp -s "$sees/mmproj-Eye-F16.gguf" "$dir/hub/Owner/Sees/mmproj-Eye-F16.gguf" || fail "no mmproj file"
[ "$(find "$sees" -name '*mmproj*.gguf' | wc -l)" = 1 ] || fail "several mmproj files"
: >"$dir/log"
pull good Owner/Sees:q8_0 || fail "a second model that sees"
if grep -q 'mmproj.*bytes=[1-9]' "$dir/log"; then fail "the mmproj file was fetched again"; fi
pull good Owner/Sees && grep -q 'there already' "$dir/err" || fail "a model that sees is there already"
"$kentang" list >"$dir/out" 2>"$dir/err"
if grep -q mmproj "$dir/out"; then fail "an mmproj file is listed as a model"; fi
"$kentang" rm Owner/Sees:q8_0 2>"$dir/err" && [ -f "$sees/mmproj-Eye-F16.gguf" ] || fail "the mmproj file went too early"
"$kentang" rm Owner/Sees 2>"$dir/err" && [ ! -e "$sees" ] || fail "the mmproj file stays"
pull good Owner/Sees/mmproj-Eye-F32.gguf && [ "$(cat "$dir/out")" = "$sees/mmproj-Eye-F32.gguf" ] || fail "an mmproj file alone"
refused 'not a GGUF|GGUF' good Owner/Blurred
[ ! -e "$models/Owner/Blurred/Eye-Q4_K_M.gguf" ] || fail "a model whose mmproj file is garbage"
again

# models of the hub that fit, before anything is fetched
: >"$dir/log"
"$kentang" search --hub "$base/good" sees >"$dir/out" 2>"$dir/err" || fail "search"
grep -Eq '^Owner/Sees:q4_k_m +0\.0[0-9] GB .* yes +1000$' "$dir/out" || { cat "$dir/out"; fail "search finds a model that sees"; }
grep -q '1 of 1 fit' "$dir/err" || fail "search counts"
if grep -q '/resolve/' "$dir/log"; then fail "search fetches"; fi
"$kentang" search --hub "$base/good" --json repo gguf >"$dir/out" 2>"$dir/err" || fail "search --json"
grep -q '"name":"Owner/Repo-GGUF:q4_k_m","bytes":[1-9][0-9]*,.*"fits":true,"sees":false' "$dir/out" || { cat "$dir/out"; fail "search --json"; }
"$kentang" search --hub "$base/good" nothing of that name >"$dir/out" 2>"$dir/err" || fail "search without a hit"
grep -q '0 of 0 models' "$dir/err" || fail "search without a hit says so"
if "$kentang" search --hub "$base/broken" x 2>"$dir/err"; then fail "a broken hub"; fi
if KENTANG_OFFLINE=true "$kentang" search x 2>"$dir/err"; then fail "search offline"; fi
grep -q offline "$dir/err" || fail "search says offline"

# what goes wrong on the way and is put right
for mode in drop redirect norange weak nosum pages; do
    pull $mode Owner/Repo-GGUF:f32 || fail "$mode"
    cmp -s "$big" "$f32" || fail "$mode: other bytes"
    [ $mode != nosum ] || grep -q 'no checksum' "$dir/err" || fail "no checksum is said"
    again
done
# what cannot be put right: refused by its reason, nothing under the final name
refused 'list says .* the server says' lie Owner/Repo-GGUF:f32
refused 'another part|sent more' shifted Owner/Repo-GGUF:f32
refused 'changed while it was fetched' change Owner/Repo-GGUF:f32
refused 'checksum .* expected' silent Owner/Repo-GGUF:f32
refused 'checksum .* expected' wrongsum Owner/Repo-GGUF:f32
refused 'redirections' loop Owner/Repo-GGUF:f32
refused 'more than 100 pages' pagesloop Owner/Repo-GGUF:f32
refused 'address that is not followed' pagesaway Owner/Repo-GGUF:f32
refused 'not followed' downgrade Owner/Repo-GGUF:f32
refused 'the connection' dead Owner/Repo-GGUF:f32
refused '500' broken Owner/Repo-GGUF:f32
refused 'has no "Nobody/Nothing"' good Nobody/Nothing
refused 'no model has that tag' good Owner/Repo-GGUF:q9_9
refused 'no model.s name' good '../x/y'
refused 'no model.s name' good "a/b/../../c.gguf"
refused 'no address of a hub' ../../.. --hub ftp://x/ Owner/Repo-GGUF
refused 'GGUF|magic' good Owner/Garbage
[ -z "$(find "$dir/data" -name '*.gguf' -size +0)" ] || fail "something is kept of what was refused"
again

# models of several files: all or none, the one that makes them a model last
pull good Owner/Split || fail "a split set"
[ "$(cat "$dir/out")" = "$models/Owner/Split/sub/m-00001-of-00003.gguf" ] || fail "the first part is the model"
[ "$("$kentang" list | grep -c '^Owner/Split/sub/m ')" = 1 ] || fail "list: a split set"
mv "$models/Owner/Split/sub/m-00001-of-00003.gguf" "$dir/first"
pull good Owner/Split || fail "a split set whose naming was cut short"
cmp -s "$dir/first" "$models/Owner/Split/sub/m-00001-of-00003.gguf" || fail "the first part again"
"$kentang" rm Owner/Split 2>/dev/null && [ ! -e "$models/Owner/Split" ] || fail "rm of a split set"
refused '1 of 2 parts' good Owner/Half
pull good Owner/Folder || fail "a folder"
[ "$(cat "$dir/out")" = "$models/Owner/Folder" ] && [ -f "$models/Owner/Folder/config.json" ] || fail "a folder's files"
[ ! -e "$models/Owner/Folder/train.py" ] || fail "a file that is no part of a model"
"$kentang" list | grep -q '^Owner/Folder .*folder' || fail "list: a folder"
"$kentang" rm Owner/Folder 2>/dev/null && [ ! -e "$models/Owner/Folder" ] || fail "rm of a folder"
refused 'model.safetensors|tensor' good Owner/Damaged
[ ! -e "$models/Owner/Damaged" ] || fail "a damaged folder is there"
again

# what Hugging Face's hub, a proxy and a mirror answer: empty files, small files without a length, long signed addresses, other names
encoder_is_whole() {
    (cd "$models/Owner/$1" && find . -type f ! -name '.*' | LC_ALL=C sort | tr '\n' ' ') >"$dir/files"
    [ "$(cat "$dir/files")" = "./1_Pooling/config.json ./2_Dense/config.json ./2_Dense/model.safetensors ./added_tokens.json \
./additional_chat_templates/tool.jinja ./config.json ./config_sentence_transformers.json ./model.safetensors ./modules.json ./tokenizer.json " ] ||
        fail "$1, $2: $(cat "$dir/files")"
    [ ! -s "$models/Owner/$1/added_tokens.json" ] || fail "$1, $2: an empty file"
    cmp -s "$dir/hub/Owner/Encoder/2_Dense/model.safetensors" "$models/Owner/$1/2_Dense/model.safetensors" || fail "$1, $2: other bytes"
    again
}
for mode in good hf longurl chunked norange pages; do
    pull $mode Owner/Encoder || fail "an encoder, $mode"
    encoder_is_whole Encoder $mode
done
pull hf Owner/Renamed || fail "a repository that was renamed"
encoder_is_whole Renamed hf
refused 'refuses \(401\): it is private, gated or not there' hf Owner/Nothing
refused 'cannot read.*1_Pooling/config.json' good Owner/Lost
refused 'the file is missing.*modules.json' good Owner/Listless
[ ! -e "$models/Owner/Lost" ] && [ ! -e "$models/Owner/Listless" ] || fail "a folder that is not whole is there"
again
pull good Owner/Weighed || fail "an importance matrix beside the model"
[ -f "$models/Owner/Weighed/Tiny-Q8_0.gguf" ] && [ ! -e "$models/Owner/Weighed/Tiny-imatrix.gguf" ] || fail "the model, not the matrix"
pull good Owner/Weighed/Tiny-imatrix.gguf || fail "an importance matrix by its name"
again

# killed in the middle, resumed: what is good stays
until_seen() { # COMMAND...: 30 seconds at most
    for _ in $(seq 600); do
        if "$@"; then return 0; fi
        sleep 0.05
    done
    fail "not seen: $*"
}
is_recorded() { # what the file's end tells of the parts that are there
    tail -qc "+$(($(wc -c <"$big") + 1))" "$models/.unfinished"/*/*.part "$models/.unfinished"/*/*/*.part 2>/dev/null | tr -d '\000' | grep -q .
}
"$kentang" pull --hub "$base/steady" -j 1 Owner/Repo-GGUF:f32 >"$dir/out" 2>"$dir/err" &
puller=$!
until_seen is_recorded
kill -9 $puller
wait $puller 2>/dev/null || true
[ ! -e "$f32" ] || fail "named while unfinished"
"$kentang" list >"$dir/out"
grep -q 'unfinished' "$dir/out" || fail "list tells of unfinished downloads"
: >"$dir/log"
pull good Owner/Repo-GGUF:f32 || fail "resume"
cmp -s "$big" "$f32" || fail "resume: other bytes"
if grep -q 'Tale-F32.gguf bytes=0-4194303' "$dir/log"; then fail "resume fetched the beginning again"; fi
again
# two at once: one fetches, the other says so or finds it done
: >"$dir/log"
"$kentang" pull --hub "$base/steady" Owner/Repo-GGUF:f32 >/dev/null 2>&1 &
puller=$!
until_seen grep -q 'steady.*bytes=[1-9]' "$dir/log"
pull steady Owner/Repo-GGUF:f32 || grep -q 'by another process' "$dir/err" || fail "two at once"
wait $puller || fail "the first of two"
cmp -s "$big" "$f32" || fail "two at once: other bytes"
again

# tokens: from a file for us alone, to the hub alone
token=$dir/config/kentang/hub-token
refused 'put a token of yours into .*hub-token' gated Owner/Repo-GGUF:f32
echo hub-token-for-tests >"$token"
chmod 644 "$token"
refused 'chmod 600' gated Owner/Repo-GGUF:f32
chmod 600 "$token"
pull gated Owner/Repo-GGUF:f32 || fail "gated"
again
: >"$dir/log"
pull redirect Owner/Repo-GGUF:f32 || fail "redirect with a token"
grep -q '^A .*Bearer_hub-token-for-tests' "$dir/log" || fail "the hub saw no token"
grep -q '^B ' "$dir/log" || fail "no other host"
if grep '^B ' "$dir/log" | grep -q Bearer; then fail "the other host saw the token"; fi
again
: >"$dir/log"
"$kentang" pull --hub "$base/good" "http://127.0.0.1:$other/good/Owner/Repo-GGUF/Tale-Q4_K_M.gguf" >"$dir/out" 2>"$dir/err" || fail "an address"
if grep -q Bearer "$dir/log"; then fail "an address of another host saw the token"; fi
rm "$token"
again
# what Hugging Face's own tools are told, after what is told us, and for their hub alone
hf() { # NAME...
    "$kentang" pull "$@" >"$dir/out" 2>"$dir/err"
}
if HF_ENDPOINT=$base/gated hf Owner/Repo-GGUF:f32; then fail "gated, without a token"; fi
HF_ENDPOINT=$base/gated/ HF_TOKEN=hub-token-for-tests hf Owner/Repo-GGUF:f32 || fail "HF_TOKEN"
again
mkdir -p "$HOME/.cache/huggingface" "$dir/hfhome"
echo hub-token-for-tests >"$HOME/.cache/huggingface/token"
HF_ENDPOINT=$base/gated hf Owner/Repo-GGUF:f32 || fail "the file that the hub's login leaves"
again
if HF_HOME=$dir/hfhome HF_ENDPOINT=$base/gated hf Owner/Repo-GGUF:f32; then fail "HF_HOME is another place"; fi
mv "$HOME/.cache/huggingface/token" "$dir/hfhome/token"
HF_HOME=$dir/hfhome HF_ENDPOINT=$base/gated hf Owner/Repo-GGUF:f32 || fail "HF_HOME"
again
if KENTANG_HUB=$base/gated HF_TOKEN=hub-token-for-tests hf Owner/Repo-GGUF:f32; then fail "HF_TOKEN went to a hub of our own"; fi
echo other >"$token" && chmod 600 "$token"
if HF_ENDPOINT=$base/gated HF_TOKEN=hub-token-for-tests hf Owner/Repo-GGUF:f32; then fail "hub-token comes first"; fi
grep -q 'the token is not good for it' "$dir/err" || fail "hub-token comes first: said"
HF_ENDPOINT=$base/broken hf --hub "$base/good" Owner/Repo-GGUF:q4_k_m || fail "--hub comes before HF_ENDPOINT"
rm "$token"
if HF_ENDPOINT=$base/gated HF_TOKEN='two words' hf Owner/Repo-GGUF; then fail "no token"; fi
grep -q 'one word.*HF_TOKEN' "$dir/err" || fail "no token: said"
again

# the other kinds of hubs
pull listing plain || fail "a list of links"
[ -f "$models/plain/a model.gguf" ] || fail "a name with a blank"
pull listing Owner/Repo-GGUF:q4_k_m || fail "a list of links, with a tag"
pull registry tale:1b || fail "a registry"
cmp -s "$source/src/lib/context/demo.gguf" "$models/tale/1b.gguf" || fail "a registry: other bytes"

refused 'single tensors in Ollama' registry pieces

# names: list, show, rm, run, serve's configuration
pull registry tale:1b --as story || fail "--as"
"$kentang" list >"$dir/out" || fail "list"
grep -q '^tale/1b .*llama' "$dir/out" || fail "list: $(cat "$dir/out")"
grep -q '^story .*further name' "$dir/out" || fail "list: the further name"
"$kentang" list --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)) == 4' || fail "list --json"
"$kentang" show tale:1b >"$dir/out" || fail "show"
grep -q "from .*registry/tale:1b" "$dir/out" || fail "show: $(cat "$dir/out")"
path=$(sed -n 's/^path *//p' "$dir/out")
"$kentang" show "$path" | grep -q '^name *tale/1b' || fail "show of a path in the folder of models"
cp "$path" "$dir/elsewhere.gguf"
"$kentang" show "$dir/elsewhere.gguf" >"$dir/out" || fail "show of a path"
grep -q "^is *llama" "$dir/out" || fail "show of a path: $(cat "$dir/out")"
for name in tale:1b tale story tale/1b hf:Owner/Repo-GGUF:q4_k_m Tale-q4_k_m; do
    "$kentang" run -q -m "$name" -n 4 --temp 0 -p Once >"$dir/out" 2>"$dir/err" || fail "run -m $name"
    "$kentang" run -q "$name" Once -n 4 --temp 0 >"$dir/out2" 2>"$dir/err" || fail "run $name"
    cmp -s "$dir/out" "$dir/out2" || fail "run $name: other text"
done
echo '{"prompt":"Once","max_tokens":2}' | "$kentang" batch -m story - --out "$dir/res" >/dev/null 2>"$dir/err" || fail "batch -m NAME"
"$kentang" tokenize -m tale:1b -p Once >/dev/null 2>"$dir/err" || fail "tokenize -m NAME"
if "$kentang" run -m storry -p x 2>"$dir/err"; then fail "an unknown name"; fi
grep -q 'did you mean "story"' "$dir/err" || fail "the nearest name"
cat >"$dir/kentang.toml" <<'TOML'
aliases = ["gpt=chat"]
[[models]]
name = "chat"
path = "tale:1b"
TOML
for name in chat gpt; do
    KENTANG_CONFIG=$dir/kentang.toml "$kentang" run -q -m $name -n 2 -p Once >/dev/null 2>"$dir/err" || fail "run -m $name of kentang.toml"
done
KENTANG_CONFIG=$dir/kentang.toml "$kentang" run -v -n 2 -p Once 2>&1 >/dev/null | grep -q '1b.gguf\|mapped' || fail "the default model of kentang.toml"
KENTANG_CONFIG=$dir/kentang.toml "$kentang" list | grep -q '^tale/1b.*default' || fail "list: the default"
"$kentang" serve --config "$dir/kentang.toml" --check >/dev/null 2>"$dir/err" || fail "serve --check with a name"
if KENTANG_MODEL=nothing "$kentang" serve --no-config --check >/dev/null 2>"$dir/err"; then fail "serve --check of nothing"; fi
# what only a hub has: fetched by run, unless offline
again
if KENTANG_OFFLINE=1 KENTANG_HUB=$base/good "$kentang" run -m hf:Owner/Repo-GGUF -p x 2>"$dir/err"; then fail "offline"; fi
grep -q offline "$dir/err" || fail "offline is said"
KENTANG_HUB=$base/good "$kentang" run -q -m hf:Owner/Repo-GGUF -n 2 -p Once >/dev/null 2>"$dir/err" || fail "run -m hf:"
KENTANG_OFFLINE=1 "$kentang" run -q -m hf:Owner/Repo-GGUF -n 2 -p Once >/dev/null 2>"$dir/err" || fail "run -m hf: when it is there"
pull good Owner/Repo-GGUF --as a/b || fail "--as with a folder"
"$kentang" rm a/b 2>"$dir/err" || fail "rm of a further name"
[ ! -e "$models/a" ] && [ -f "$models/Owner/Repo-GGUF/Tale-Q4_K_M.gguf" ] || fail "rm of a further name took the model"
"$kentang" rm Owner/Repo-GGUF 2>"$dir/err" || fail "rm"
[ ! -e "$models/Owner" ] || fail "rm left something: $(find "$models")"
if "$kentang" rm Owner/Repo-GGUF 2>/dev/null; then fail "rm of nothing"; fi

# the disk: too small, said before a byte comes; and full in the middle
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    mkdir -p "$models"
    unshare -m sh -c "mount -t tmpfs -o size=8m none '$models' && '$kentang' pull --hub $base/good Owner/Repo-GGUF:f32; code=\$?; find '$models' -name '*.gguf'; exit \$code" \
        >"$dir/out" 2>"$dir/err" && fail "a small disk"
    grep -q 'no room' "$dir/err" || fail "no room is said"
    [ ! -s "$dir/out" ] || fail "something under a final name on a small disk"
fi
(ulimit -f 8192; trap '' XFSZ; pull good Owner/Repo-GGUF:f32) && fail "a file over the limit"
grep -Eq 'no room|write' "$dir/err" || fail "the limit is said"
[ ! -e "$f32" ] || fail "a half file under the final name"
echo "pull: all as it should be"
