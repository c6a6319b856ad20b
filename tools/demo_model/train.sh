#!/bin/sh
# Makes src/lib/context/demo.gguf: corpus, vocabulary, training (about 70 minutes on two free cores), export. It continues from the file of
# version 0.1 (commit 0dfe5a2 of this repository), which knew no tools and no forms.
# Usage: tools/demo_model/train.sh [BUILD_DIR]      environment: THREADS (2), KENTANG (build/kentang)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/demo_model}
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

python3 make_corpus.py "$build" --train 130000 --held 900 --drill 60000
git -C "$root" show 0dfe5a2:models/demo.gguf >"$build/old.gguf"
"$kentang" quantize "$build/old.gguf" "$build/old-f32.gguf" f32
python3 start.py "$build/old-f32.gguf" "$build/train.jsonl" "$build/vocab.json" "$build/start.f32"
cat "$build/train.jsonl" "$build/drill.jsonl" >"$build/both.jsonl"
for part in train drill both held; do python3 bpe.py encode "$build/vocab.json" "$build/$part.jsonl" "$build/$part.bin"; done

# OpenBLAS may not know a newer processor by name; it has a kernel for its instructions all the same.
if grep -q avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE="${OPENBLAS_CORETYPE:-SkylakeX}"; fi
export OMP_NUM_THREADS="${THREADS:-2}" OMP_WAIT_POLICY=passive
leg() { # CORPUS FROM TO OPTION...
    corpus=$1 from=$2 to=$3
    shift 3
    "$build/train" "$build/$corpus.bin" "$build/held.bin" "$build/$to.f32" --init "$build/$from.f32" "$@"
}
{ # Copying first, then everything at a high rate; then down to nothing, three times, the last without the drill.
    leg drill start drilled --steps 6000 --until 500 --warmup 40 --lr 3e-3 --lr-embd 3e-3
    leg both drilled warm --steps 6000 --until 900 --warmup 20 --lr 3e-3 --lr-embd 3e-3
    leg both warm cool --seed 2 --steps 1100 --linear 1 --warmup 30 --lr 2.5e-3 --lr-embd 2.5e-3
    leg both cool again --seed 3 --steps 850 --linear 1 --warmup 25 --lr 2.5e-3 --lr-embd 2.5e-3
    leg train again model --seed 4 --steps 480 --linear 1 --warmup 20 --lr 1.8e-3 --lr-embd 1.8e-3
} | tee "$build/train.log"

# The best that fits into 5 MB: six bits where an error costs most, five elsewhere.
python3 export.py "$build/model.f32" "$build/vocab.json" "$build/kentang demo"
"$kentang" convert "$build/kentang demo" "$build/demo-f32.gguf"
"$kentang" quantize "$build/demo-f32.gguf" "$build/demo-f16.gguf" f16
"$kentang" quantize "$build/demo-f32.gguf" "$root/src/lib/context/demo.gguf" q5_k_m --keep 'token_embd.weight=q6_k' \
    --keep 'blk.*.attn_[kv].weight=q6_k' --keep 'blk.*.ffn_down.weight=q6_k' \
    --keep 'blk.*.attn_[qo]*.weight=q5_k' --keep 'blk.*.ffn_[gu]*.weight=q5_k'
"$kentang" quantize "$root/src/lib/context/demo.gguf" "$build/back.gguf" f32
python3 checkpoint.py "$build/model.f32" "$build/back.gguf" "$build/back.f32"
echo "held out, as the quantised file decodes:"
"$build/train" "$build/train.bin" "$build/held.bin" "$build/none.f32" --steps 0 --init "$build/back.f32"
ls -l "$root/src/lib/context/demo.gguf"
