#!/bin/sh
# Makes models/demo.gguf from nothing: corpus, vocabulary, training (about 50 minutes on two free cores), export.
# Usage: tools/demo_model/train.sh [BUILD_DIR]      environment: HOT, COOL (steps), THREADS (2), KENTANG (build/kentang)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/demo_model}
hot=${HOT:-1800}
cool=${COOL:-3000}
kentang=${KENTANG:-$root/build/kentang}
[ -x "$kentang" ] || { echo "train.sh: $kentang is missing: build it first (scripts/demo), or set KENTANG" >&2; exit 1; }
mkdir -p "$build"
build=$(cd "$build" && pwd)

need() { # need COMMAND-OR-FILE PACKAGE...
    command -v "$1" >/dev/null 2>&1 || [ -e "$1" ] && return
    shift
    echo "train.sh: installing $*"
    if [ "$(id -u)" = 0 ]; then apt-get install -y -q "$@"; else sudo apt-get install -y -q "$@"; fi
}
need gcc gcc libc6-dev
need python3 python3
[ -n "$(find /usr/include -name cblas.h 2>/dev/null)" ] ||
    need /nonexistent libopenblas-dev libopenblas0-pthread

flags="-std=gnu17 -O3 -march=native -ffast-math -fopenmp -Wall -Wextra"
cd "$here"
gcc $flags train.c net.c optim.c -o "$build/train" -lopenblas -lm
gcc $flags logits.c net.c -o "$build/logits" -lopenblas -lm
gcc -std=gnu17 -O2 gradcheck.c net.c -o "$build/gradcheck" -lopenblas -lm
"$build/gradcheck"

python3 make_corpus.py "$build"
python3 bpe.py learn "$build/train.jsonl" "$build/vocab.json"
python3 bpe.py encode "$build/vocab.json" "$build/train.jsonl" "$build/train.bin"
python3 bpe.py encode "$build/vocab.json" "$build/held.jsonl" "$build/held.bin"

# OpenBLAS may not know a newer processor by name; it has a kernel for its instructions all the same.
if grep -q avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE="${OPENBLAS_CORETYPE:-SkylakeX}"; fi
export OMP_NUM_THREADS="${THREADS:-2}" OMP_WAIT_POLICY=passive
{ # Warm at a high rate, then cool in a straight line to nothing.
    "$build/train" "$build/train.bin" "$build/held.bin" "$build/hot.f32" --steps 7200 --until "$hot" --eval-every 350
    "$build/train" "$build/train.bin" "$build/held.bin" "$build/model.f32" --init "$build/hot.f32" --seed 2 \
        --steps "$cool" --linear 1 --warmup 50 --lr 3e-3 --lr-embd 3e-3 --eval-every 420
} | tee "$build/train.log"

# The best that fits into 4 MB: six bits where an error costs most, five elsewhere.
python3 export.py "$build/model.f32" "$build/vocab.json" "$build/kentang-demo"
"$kentang" convert "$build/kentang-demo" "$build/demo-f32.gguf"
"$kentang" quantize "$build/demo-f32.gguf" "$build/demo-f16.gguf" f16
"$kentang" quantize "$build/demo-f32.gguf" "$root/models/demo.gguf" q5_k_m --keep 'token_embd.weight=q6_k' \
    --keep 'blk.*.attn_[kv].weight=q6_k' --keep 'blk.*.ffn_down.weight=q6_k' \
    --keep 'blk.*.attn_[qo]*.weight=q5_k' --keep 'blk.*.ffn_[gu]*.weight=q5_k'
"$kentang" quantize "$root/models/demo.gguf" "$build/back.gguf" f32
python3 checkpoint.py "$build/model.f32" "$build/back.gguf" "$build/back.f32"
echo "held out, as the quantised file decodes:"
"$build/train" "$build/train.bin" "$build/held.bin" "$build/none.f32" --steps 0 --init "$build/back.f32"
ls -l "$root/models/demo.gguf"
