#!/bin/sh
# Every differential test, against llama.cpp (../shared/peer, through node), Hugging Face's tokenizers and
# python3-jinja2, on the data of ../shared/data. One line a script, a summary, exit status 1 if one failed.
#
#   tests/peer/run.sh BUILD_DIR [NAME...]     NAME: only these (quant gguf synth lora logits tokenizer convert templates calls
#                                             walks toml kl pieces embed perplexity)
#
# KT_PEER_DIR   a folder where ../shared/peer is installed; else a copy is installed in BUILD_DIR/peer, once
# KT_HF_DIR     a folder with Hugging Face's `tokenizers`; else it is installed in BUILD_DIR/peer-hf, once
# KT_AJV_DIR    a node_modules with ajv and ajv-formats (tests/clients): walks are judged by it, too
# KT_KL_N       sequences a row of the divergence table (100)
# KT_TEMPLATES_N  generated templates (1500)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?usage: tests/peer/run.sh BUILD_DIR [NAME...]}" && pwd)
shift
shared=$root/../shared
logs=$build/peer-logs
mkdir -p "$logs"
failed='' passed=''

stop() {
    printf 'peer: %s\n  what to do: %s\n' "$1" "$2" >&2
    exit 2
}

[ -d "$shared/peer" ] && [ -d "$shared/data" ] || stop "no ../shared beside the repository" "run scripts/check without --peer"
command -v node >/dev/null || stop "no node" "install nodejs (18 or later) and npm"

# npm_here DIR PACKAGE...: installs into DIR what is not there yet
npm_here() {
    dir=$1
    shift
    echo "peer: npm install in $dir"
    (cd "$dir" && npm install --omit=optional --ignore-scripts --no-audit --no-fund "$@" >"$logs/npm.log" 2>&1) ||
        stop "npm could not install (log: $logs/npm.log)" "check the network and npm's registry"
}

if [ -z "${KT_PEER_DIR:-}" ]; then
    KT_PEER_DIR=$build/peer
    mkdir -p "$KT_PEER_DIR"
    cp -f "$shared"/peer/* "$KT_PEER_DIR"
    [ -d "$KT_PEER_DIR/node_modules/node-llama-cpp" ] || npm_here "$KT_PEER_DIR"
fi
export KT_PEER_DIR

# This package's native code lies in an optional dependency.
hugging_face() {
    if [ -n "${KT_HF_DIR:-}" ] || [ -d "$KT_PEER_DIR/node_modules/tokenizers" ]; then return; fi
    KT_HF_DIR=$build/peer-hf
    mkdir -p "$KT_HF_DIR"
    [ -d "$KT_HF_DIR/node_modules/tokenizers" ] || {
        [ -f "$KT_HF_DIR/package.json" ] || echo '{"private": true}' >"$KT_HF_DIR/package.json"
        echo "peer: npm install tokenizers in $KT_HF_DIR"
        (cd "$KT_HF_DIR" && npm install --ignore-scripts --no-audit --no-fund tokenizers@0.23.2 >"$logs/npm-hf.log" 2>&1) ||
            echo "peer: no Hugging Face tokenizers (log: $logs/npm-hf.log): that half is skipped"
    }
    export KT_HF_DIR
}

one() {
    case $1 in
    quant) sh "$root/tests/peer/quant.sh" ;;
    gguf) sh "$root/tests/peer/gguf.sh" "$build" ;;
    synth) node "$root/tests/peer/synth.mjs" --build "$build" ;;
    lora) node "$root/tests/peer/lora.mjs" --build "$build" ;;
    logits) node "$root/tests/peer/logits.mjs" --build "$build" ;;
    tokenizer) hugging_face; node "$root/tests/peer/tokenizer.mjs" --build "$build" ;;
    embed) node "$root/tests/peer/embed.mjs" --build "$build" ;;
    pieces) hugging_face; node "$root/tests/peer/pieces.mjs" --build "$build" ;;
    convert) hugging_face; node "$root/tests/peer/convert.mjs" --build "$build" ;;
    templates) sh "$root/tests/peer/templates.sh" "${KT_TEMPLATES_N:-1500}" ;;
    calls) sh "$root/tests/peer/calls.sh" "$build" ;;
    walks)
        sh "$root/tests/peer/walks.sh" "$shared/data/structured/maskbench.jsonl" "${KT_AJV_DIR:-}"
        sh "$root/tests/peer/walks.sh" numbers "${KT_AJV_DIR:-}"
        ;;
    toml) sh "$root/tests/peer/toml.sh" ;;
    perplexity)
        sh "$root/tests/peer/llama_tools.sh" "$build/peer-tools"
        python3 "$root/tests/peer/perplexity.py" "$build/kentang" "$build/peer-tools/llama-perplexity" \
            "$shared/data/models/stories260K.gguf" "$shared/data/text/tinystories_sample.txt"
        ;;
    kl) node "$root/tests/peer/kl.mjs" --build "$build" --n "${KT_KL_N:-100}" ;;
    *) stop "no comparison named $1" "quant gguf synth lora logits tokenizer convert templates calls walks toml kl pieces embed perplexity" ;;
    esac
}

[ $# -gt 0 ] || set -- quant gguf synth lora templates calls walks toml tokenizer pieces convert logits embed perplexity kl
for name in "$@"; do
    start=$(date +%s)
    if (set -e; one "$name") >"$logs/$name.log" 2>&1; then
        passed="$passed $name" word=PASS
    else
        failed="$failed $name" word=FAIL
    fi
    echo "$word peer/$name, $(($(date +%s) - start)) s: $(grep -v '^ *$' "$logs/$name.log" | tail -1)"
    [ $word = PASS ] || { grep -E 'FAIL|rror' "$logs/$name.log" | head -8 | sed 's/^/    /'; echo "    log: $logs/$name.log"; }
done
echo "peer: passed:${passed:- none}; failed:${failed:- none}"
[ -z "$failed" ]
