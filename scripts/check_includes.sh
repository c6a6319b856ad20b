#!/bin/sh
# A room of src/ may include only rooms to its left (DESIGN: the rooms). Prints each violation; exit 1 if any.
set -eu
cd "$(dirname "$0")/.."

# room: what it may include besides itself
allowed() {
    case "$1" in
    base) echo "" ;;
    host) echo "base" ;;
    gguf) echo "base host" ;;
    quant) echo "base gguf" ;;
    kernels) echo "base host quant" ;;
    kv) echo "base host quant kernels" ;;
    ops) echo "base host quant kernels kv" ;;
    tokenizer) echo "base gguf" ;;
    jinja) echo "base" ;;
    chat) echo "base gguf jinja" ;;
    sample) echo "base" ;;
    model) echo "base host gguf quant kernels kv ops" ;;
    engine) echo "base host gguf quant kernels kv ops model tokenizer jinja chat sample" ;;
    serve) echo "base" ;;
    cli) echo "base serve" ;;
    lab) echo "base host gguf quant kernels kv ops model tokenizer jinja chat sample engine serve cli" ;;
    *) echo "unknown" ;;
    esac
}

# file:include pairs that are allowed all the same, each with its reason in docs/DECISIONS.md
exception() {
    case "$1:$2" in
    src/gguf/*:quant/types.def) return 0 ;; # a data table without code: the sizes of types bound tensors
    src/cli/inspect*:* | src/cli/tuned.c:host/host.h) return 0 ;;
    src/cli/template.c:chat/chat_template.h) return 0 ;;
    esac
    return 1
}

bad=0
for file in src/*/*.c src/*/*.h src/*/*.inc src/*/*.def; do
    [ -f "$file" ] || continue
    room=$(basename "$(dirname "$file")")
    for include in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file"); do
        other=${include%%/*}
        case "$include" in */*) ;; *) other=$room ;; esac
        [ "$other" = "$room" ] && continue
        case " $(allowed "$room") " in *" $other "*) continue ;; esac
        exception "$file" "$include" && continue
        echo "$file includes \"$include\": $room may include only: $(allowed "$room")"
        bad=1
    done
done
exit $bad
