#!/bin/sh
# One word for one thing: an option of a model or an engine that one command takes is taken by all, with the same help text, and it is
# the setting of kentang.toml and the environment as well.
# usage: test_cli_options.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
kentang=$build/kentang

fail() { echo "failed: $*" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir XDG_DATA_HOME=$dir XDG_CACHE_HOME=$dir HOME=$dir
cd "$dir"
cp "$source/src/lib/context/demo.gguf" draft.gguf

# options GROUP: their names
options() {
    tr '\n' ' ' <"$source/src/program/setup/settings.def" | grep -o "\.group = KT__OPTIONS_$1, *\.option = \"[a-z-]*\"" |
        sed 's/.*"\([a-z-]*\)"/\1/'
}
[ "$(options MODEL | wc -l)" -ge 15 ] && [ "$(options SIZES | wc -l)" -ge 9 ] || fail "the list of options"

# help COMMAND: its options with their help, a line each
help() {
    "$kentang" "$1" --help | awk '/^  +(-[a-zA-Z]+, )?--/ { if (line) print line; line = $0; next }
        /^ {30}/ { line = line " " $0; next } { if (line) print line; line = "" } END { if (line) print line }' |
        sed 's/  */ /g; s/^ *\(-[a-zA-Z]*, \)\{0,1\}//' >"$dir/$1"
}
for command in run serve batch embed agent mcp bench; do help $command; done

# takes COMMAND GROUP... [except NAME...]
takes() {
    command=$1 but=
    shift
    groups=
    while [ $# -gt 0 ] && [ "$1" != except ]; do groups="$groups $1"; shift; done
    [ $# -eq 0 ] || { shift; but=" $* "; }
    for group in $groups; do
        for name in $(options "$group"); do
            case "$but" in *" $name "*) continue ;; esac
            line=$(grep -E "^--(\[no-\])?$name( |$)" "$dir/$command") || fail "$command refuses --$name, which others take"
            same=$(grep -E "^--(\[no-\])?$name( |$)" "$dir/serve")
            [ "$line" = "$same" ] || fail "$command has another help of --$name: $line"
        done
    done
}
for command in run batch agent serve mcp; do takes $command MODEL SIZES CORES DRAFT CACHE; done
takes embed MODEL SIZES CORES
# bench has lists of these, makes its contexts itself, and would measure what tune or a preset chose
takes bench MODEL CORES SIZES except threads threads-batch ubatch kv ctx preset tuned kv-pressure
for name in threads ubatch kv; do grep -q "^--$name " "$dir/bench" || fail "bench: no --$name"; done

# what they are called elsewhere is taken, too, and the opposite
"$kentang" run -q --ctx-size 128 --batch-size 64 --ubatch-size 32 --no-mlock --mmap --no-tuned --draft 0 -n 1 -p Hi >/dev/null ||
    fail "second names in run"
"$kentang" bench --ubatch-size 32,64 --batch-size 64 -p 8 -n 0 -r 1 --no-limits >/dev/null 2>&1 || fail "second names in bench"
"$kentang" serve --check --no-env --socket none --ctx-size 384 --batch-size 64 -np 3 -md "$dir/draft.gguf" --no-mmap -ctk q8_0 >"$dir/toml" ||
    fail "second names in serve"
for line in "ctx = 128" "batch = 64" "parallel = 3" "draft_model = \"$dir/draft.gguf\"" "mmap = false" 'kv_keys = "q8_0"'; do
    grep -qxF "$line" "$dir/toml" || fail "serve --check lacks: $line"
done

# a mask and a range make one list; options go before the environment, and that before the file
mkdir kentang
printf 'threads = 1\nubatch = 64\n' >kentang/kentang.toml
KENTANG_THREADS=2 KENTANG_BATCH=128 "$kentang" serve --check --socket none -C 1 -Cr 0-0 -b 256 >"$dir/toml" || fail "three sources"
for line in "threads = 2" "ubatch = 64" "batch = 256" 'cpus = "0x1,0-0"'; do
    grep -qxF "$line" "$dir/toml" || fail "three sources: --check lacks: $line"
done

# near misses are named
for pair in model_path:model socket_path:socket.path ctx_size:ctx; do
    echo "${pair%:*} = 1" >wrong.toml
    "$kentang" serve --check --no-env --config wrong.toml >/dev/null 2>"$dir/said" && fail "${pair%:*} is taken"
    grep -q "did you mean \"${pair#*:}\"" "$dir/said" || fail "${pair%:*}: $(cat "$dir/said")"
done

# a wrong value is named with its option, in every command the same
for command in run serve; do
    "$kentang" $command --threads many </dev/null >/dev/null 2>"$dir/said" && fail "$command --threads many"
    grep -q -- "option --threads: expected a whole number from 0 to" "$dir/said" || fail "$command: $(cat "$dir/said")"
done

# words for numbers: auto is the lowest, all the highest one
for layers in auto all 5; do
    echo "gpu_layers = \"$layers\"" >words.toml
    [ $layers != 5 ] || echo "gpu_layers = 5" >words.toml
    "$kentang" serve --check --no-env --socket none --config words.toml >"$dir/said" || fail "gpu_layers = $layers"
    "$kentang" serve --check --no-config --no-env --socket none -ngl $layers | grep '^gpu_layers' >got
    grep '^gpu_layers' "$dir/said" | cmp - got || fail "-ngl $layers"
done
grep -q '^gpu_layers = 5$' "$dir/said" || fail "gpu_layers: $(grep gpu_layers "$dir/said")"
"$kentang" run -ngl many -p x </dev/null >/dev/null 2>"$dir/said" && fail "-ngl many"
grep -q "option -ngl: expected a whole number, auto or all" "$dir/said" || fail "-ngl many: $(cat "$dir/said")"

# keys and values are f16 but where memory is short for that and nothing was asked for: then the plan line says what they are, and what it costs
seen=""
for mem in $(seq 50 100); do
    "$kentang" run -p x -n 1 -v --mem ${mem}M >/dev/null 2>plan || continue
    "$kentang" run -p x -n 1 -v --mem ${mem}M --kv f16 >/dev/null 2>f16 || : >f16
    if grep -q 'in 8 bits (perplexity' f16; then fail "--kv f16 is not kept: $(cat f16)"; fi
    if grep -q 'keys and values in 8 bits (perplexity .*): f16 (--kv f16) leaves a context of 512' plan; then
        grep -q 'context 512' f16 && grep -q 'context 1024' plan || fail "a longer context: $(cat plan)"
        seen=yes
    fi
done
[ "$seen" ] || fail "memory was never short for f16"
