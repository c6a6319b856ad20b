#!/bin/sh
# Teaches the committed file to use notes (README.md): corpus, training (about an hour on two free cores), export to OUT_DIR/notes.gguf, which is
# not committed by it. Usage: tools/demo_model/train_notes.sh [OUT_DIR]      environment: THREADS (2), KENTANG (build/kentang)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/demo_notes}
kentang=${KENTANG:-$root/build/kentang}
[ -x "$kentang" ] || { echo "train_notes.sh: $kentang is missing: build it first (scripts/demo), or set KENTANG" >&2; exit 1; }
mkdir -p "$build"
build=$(cd "$build" && pwd)
cd "$here"
gcc -std=gnu17 -O3 -march=native -ffast-math -fopenmp -Wall -Wextra train.c net.c optim.c -o "$build/train" -lopenblas -lm

python3 make_corpus.py "$build" --train 80000 --held 1200 --drill 32000 --notes 0.7
"$kentang" quantize "$root/src/lib/context/demo.gguf" "$build/old-f32.gguf" f32
python3 start.py "$build/old-f32.gguf" "$build/held.jsonl" "$build/vocab.json" "$build/start.f32" --layers 8
cat "$build/train.jsonl" "$build/drill.jsonl" >"$build/both.jsonl"
for part in train drill both held; do python3 bpe.py encode "$build/vocab.json" "$build/$part.jsonl" "$build/$part.bin"; done

if grep -q avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE="${OPENBLAS_CORETYPE:-SkylakeX}"; fi
export OMP_NUM_THREADS="${THREADS:-2}" OMP_WAIT_POLICY=passive
leg() { # CORPUS FROM TO OPTION...
    corpus=$1 from=$2 to=$3
    shift 3
    "$build/train" "$build/$corpus.bin" "$build/held.bin" "$build/$to.f32" --init "$build/$from.f32" --layers 8 "$@"
}
{ # All of it at a high rate, mostly notes, and twice down to nothing in a straight line.
    leg both start warm --steps 100000 --until 1300 --warmup 50 --lr 2.4e-3 --lr-embd 2.4e-3
    leg drill warm noted --seed 2 --steps 100000 --until 350 --warmup 10 --lr 2.2e-3 --lr-embd 2.2e-3
    leg both noted cool --seed 3 --steps 900 --linear 1 --warmup 15 --lr 2.2e-3 --lr-embd 2.2e-3
    leg train cool model --seed 4 --steps 600 --linear 1 --warmup 15 --lr 1.8e-3 --lr-embd 1.8e-3
} | tee "$build/train.log"

python3 export.py "$build/model.f32" "$build/vocab.json" "$build/kentang demo"
"$kentang" convert "$build/kentang demo" "$build/notes-f32.gguf"
"$kentang" quantize "$build/notes-f32.gguf" "$build/notes.gguf" q5_k_m --keep 'token_embd.weight=q6_k' --keep 'blk.*.attn_[kv].weight=q6_k' \
    --keep 'blk.*.ffn_down.weight=q6_k' --keep 'blk.*.attn_[qo]*.weight=q5_k' --keep 'blk.*.ffn_[gu]*.weight=q5_k'
"$kentang" learn probe -m "$build/notes.gguf"
ls -l "$build/notes.gguf"
