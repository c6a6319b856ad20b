#!/bin/sh
# kentang batch after mpirun: with --replicas each process has a whole model and answers a share of the requests, with the
# results of one process, in the order of their requests; a batch of which a process was killed is resumed; without it one
# model is computed by all. Skipped where MPI is not installed.
# usage: test_cli_batch_replicas.sh BUILD_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
command -v mpirun >/dev/null 2>&1 && command -v python3 >/dev/null && [ -f "$1/libkentang-mpi.so" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/peers/env.sh"
cd "$dir"
fail() {
    echo "failed: $1" >&2
    tail -5 err >&2
    exit 1
}
"$kentang" synth --preset tiny-qwen2 --quant q4_k_m --seed 3 model.gguf >/dev/null 2>err || fail synth

python3 - <<'PY'
import json
lines = []
for i in range(60):
    lines.append(json.dumps({"id": f"r{i}", "prompt": f"once {i} " * (1 + i % 7), "max_tokens": 300 if i == 2 else 10 + i % 9,
                             "temperature": 0.9, "seed": i, "n": 1 + i % 2}))
lines[5] = json.dumps({"custom_id": "openai", "method": "POST", "url": "/v1/completions",
                       "body": {"prompt": "hello", "max_tokens": 7, "seed": 1}})
lines[9] = "no json"
lines[20] = lines[19]                                            # an id for the second time
lines[30] = json.dumps({"id": "long", "prompt": "a b c " * 3000})  # over the context
lines.insert(12, "")
open("requests", "w").write("\n".join(lines))
PY
# what does not depend on when it was computed
plain() {
    python3 -c '
import json, sys
def strip(x):
    if isinstance(x, dict):
        return {k: strip(v) for k, v in x.items() if k not in ("created", "prompt_tokens_details", "timings")}
    return [strip(v) for v in x] if isinstance(x, list) else x
rows = [json.dumps(strip(json.loads(line)), sort_keys=True) for line in open(sys.argv[1])]
print("\n".join(sorted(rows) if sys.argv[2:] else rows))' "$@"
}
batch() { # N, then arguments
    n=$1
    shift
    timeout 120 mpirun --oversubscribe -n "$n" "$kentang" batch -m model.gguf -t 1 -c 1024 -q requests "$@" 2>err
}

"$kentang" batch -m model.gguf -t 1 -c 1024 -q requests >one 2>err || fail "one process"
plain one sorted >one.sorted
[ "$(wc -l <one.sorted)" = 60 ] || fail "not 60 results"
"$kentang" batch -m model.gguf -t 1 -c 1024 -q --replicas requests >ordered 2>err || fail "--replicas without mpirun"
plain ordered >in_order
plain ordered sorted | cmp - one.sorted || fail "--replicas alone has other results"
head -12 in_order | grep -n '"line-10"' | grep -q '^10:' || fail "results are not in the order of their requests"

for n in 2 3; do
    batch $n --replicas >many || fail "$n replicas"
    grep -q "$n replicas" err || fail "$n replicas do not say so"
    plain many | cmp - in_order || fail "$n replicas have other results, or another order"
done

# resumed: after results that are there, and after a process was killed
head -17 ordered >part
printf '{"id": "torn' >>part
batch 2 --replicas --out part || fail "resuming"
grep -q '17 were there already' err || fail "results that are there are computed again"
plain part | cmp - in_order || fail "a resumed batch has other results"
mpirun --oversubscribe -n 2 "$kentang" batch -m model.gguf -t 1 -c 1024 -q requests --replicas --out killed 2>err &
job=$!
for _ in $(seq 200); do
    [ -s killed ] && break
    sleep 0.02
done
pid=$(ps -o pid= --ppid $job | sort -n | tail -1)
[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
wait $job || true
batch 2 --replicas --out killed || fail "resuming after a process was killed"
plain killed | cmp - in_order || fail "a batch of which a process was killed has other results"

# one model by all
batch 2 --out divided || fail "without --replicas"
plain divided sorted | cmp - one.sorted || fail "a divided model has other results"
exit 0
