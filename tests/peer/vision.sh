#!/bin/sh
# An encoder's rows and the tokens after a picture, next to those of llama.cpp's mtmd on the same files:
#   vision.sh BUILD LLAMA_SOURCE LLAMA_BIN FOLDER FAMILY TEXT_MODEL.gguf MMPROJ.gguf PICTURE
# TEXT_MODEL has the family's tokens and chat template (vision_models.py text). FOLDER: for what is built and written.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 source=$2 bin=$3 out=$4 family=$5 model=$6 mmproj=$7 picture=$8
libs=$(for room in engine requests answer prompt context sched calls sample grammar chat jinja tokenizer vision model gpu ops kv kernels gguf quant \
    picture peers host bank base; do echo "$build/libkt_$room.a"; done)
# shellcheck disable=SC2086
cc -O2 -D_GNU_SOURCE -I"$here/../../include" -I"$here/../../src/lib" "$here/vision_rows.c" -o "$out/vision_rows" -Wl,--start-group $libs \
    -Wl,--end-group $(pkg-config --libs hwloc libutf8proc) -lm -lpthread -ldl
cc -O2 -I"$source/include" -I"$source/ggml/include" -I"$source/tools/mtmd" "$here/vision_mtmd.c" -o "$out/vision_mtmd" -L"$bin" -lmtmd \
    -lllama -lggml -lggml-base -lggml-cpu -Wl,-rpath,"$bin"
text="What is this?"
case "$family" in
idefics3) prompt="<|im_start|>User:<__media__>$text<end_of_utterance>
Assistant:" ;;
gemma3) prompt="<start_of_turn>user


<__media__>

$text<end_of_turn>
<start_of_turn>model
" ;;
qwen*) prompt="<|im_start|>user
<__media__>$text<|im_end|>
<|im_start|>assistant
" ;;
esac
echo "kentang: $("$out/vision_rows" "$model" "$mmproj" "$picture" "$text" "$out/rows-k" "$out/next-k" 2>"$out/ids-k") ms in the encoder"
echo "mtmd: $("$out/vision_mtmd" "$model" "$mmproj" "$picture" "$prompt" "$out/rows-m" "$out/logits-m" 2>"$out/ids-m") ms in the encoder"
/usr/bin/python3 - "$out" <<'PY'
import sys
import numpy as np
f = sys.argv[1] + "/"
k, m = (np.fromfile(f + "rows-" + x, "<f4").astype("f8") for x in "km")
assert k.size == m.size, (k.size, m.size)
print(f"rows: relative error {np.linalg.norm(k - m) / np.linalg.norm(m):.3g}, of the largest difference to the largest number "
      f"{np.abs(k - m).max() / np.abs(m).max():.3g}")
ids = lambda name: [int(x) for x in open(f + name).read().replace("rows]", "").split() if x.lstrip("-").isdigit()]
a = ids("ids-k")
b = [int(x) for line in open(f + "ids-m").read().split("[") for x in line.split("]")[-1].split() if x.isdigit()]
print("text tokens", "agree" if a == b else f"differ:\n {a}\n {b}")
logits = np.fromfile(f + "logits-m", "<f4").astype("f8").reshape(2, -1)
for p, pairs in zip(logits, np.fromfile(f + "next-k", dtype=[("id", "<i4"), ("lp", "<f4")]).reshape(2, -1)):
    p = p - p.max()
    p -= np.log(np.exp(p).sum())
    order = np.argsort(-p)[:len(pairs)]
    print(f"next token: of the first {len(pairs)} of kentang {len(set(order) & set(pairs['id']))} are among mtmd's; the largest difference of "
          f"log-probabilities {np.abs(p[pairs['id']] - pairs['lp']).max():.3g}, the first is {'the same' if order[0] == pairs['id'][0] else 'another'}")
PY
