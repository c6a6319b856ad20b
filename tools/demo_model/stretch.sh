#!/bin/sh
# Stretches the committed file's context to 16,896 positions, for judging keys and values far from the end (tests/peer/kv_distance.py):
# 280 steps of 4,096 tokens, about 25 minutes of one core. Writes OUT_DIR/stretched.gguf, in F16. Usage: tools/demo_model/stretch.sh OUT_DIR
# environment: THREADS (2), KENTANG (build/kentang)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$1
kentang=${KENTANG:-$root/build/kentang}
[ -x "$kentang" ] || { echo "stretch.sh: $kentang is missing: build it first (scripts/demo), or set KENTANG" >&2; exit 1; }
mkdir -p "$build"
build=$(cd "$build" && pwd)
cd "$here"
gcc -std=gnu17 -O3 -march=native -ffast-math -fopenmp -Wall -Wextra train.c net.c optim.c -o "$build/train" -lopenblas -lm

python3 make_corpus.py "$build" --train 60000 --held 1200 --notes 0.3
"$kentang" quantize "$root/src/lib/context/demo.gguf" "$build/old-f32.gguf" f32
python3 start.py "$build/old-f32.gguf" "$build/held.jsonl" "$build/vocab.json" "$build/start.f32" --layers 8
for part in train held; do python3 bpe.py encode "$build/vocab.json" "$build/$part.jsonl" "$build/$part.bin"; done

export OMP_NUM_THREADS="${THREADS:-2}" OMP_WAIT_POLICY=passive
leg() { # FROM TO OPTION...
    from=$1 to=$2
    shift 2
    "$build/train" "$build/train.bin" "$build/held.bin" "$build/$to.f32" --init "$build/$from.f32" --layers 8 --linear 1 --micro 2 --micro-tok 2048 \
        --joined 1 --ctx 16896 --rope-base 200000 --eval-every 1000 "$@"
}
leg start warm --steps 900 --until 100 --warmup 30 --lr 2e-3 --lr-embd 2e-3
leg warm stretched --seed 2 --steps 180 --warmup 8 --lr 1.6e-3 --lr-embd 1.6e-3

python3 export.py "$build/stretched.f32" "$build/vocab.json" "$build/stretched demo"
"$kentang" convert "$build/stretched demo" "$build/stretched-f32.gguf"
"$kentang" quantize "$build/stretched-f32.gguf" "$build/stretched.gguf" f16
