#!/bin/sh
# Runs llama.cpp's own test suite of its server against `kentang serve`: the folder tools/server/tests of its sources, unmodified.
# usage: run.sh KENTANG FOLDER [pytest arguments]      environment: KT_SUITE_DATA, folder with stories260K.gguf (../shared/data/models)
# With llama-server in place of KENTANG it says what llama-server itself passes here; KT_SUITE_SYNTH then names kentang, which makes models.
# Only where models come from is ours: its models are on a hub, so a wrapper puts files that are here in place of --hf-repo and
# --hf-file, and leaves every other option as the suite has it. Tests of pictures, of the router and of large models are left out,
# as the suite does offline. Prints pytest's summary; the log of each test is in suite.log of the working folder.
set -eu
kentang=$(realpath "$1")
suite=$(realpath "$2")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
data=${KT_SUITE_DATA:-$here/../../../../shared/data/models}
work=${KT_SUITE_WORK:-$(mktemp -d)}
mkdir -p "$work/models"
[ -x "$work/venv/bin/pytest" ] || {
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install -q pytest pytest-timeout pytest-xdist filelock numpy openai prometheus-client requests wget aiohttp
}
cp "$data/stories260K.gguf" "$work/models/stories.gguf"
# made here: geometries of the suite's models with random weights, so texts that only trained weights give differ
"${KT_SUITE_SYNTH:-$kentang}" synth --preset tiny-bert "$work/models/bert.gguf" >/dev/null 2>&1
"${KT_SUITE_SYNTH:-$kentang}" synth --preset tiny-bert-reranker "$work/models/reranker.gguf" >/dev/null 2>&1
cat >"$work/llama-server" <<EOF
#!/bin/sh
exec python3 "$here/with_local_models.py" "$kentang" "$work/models" "\$@"
EOF
chmod +x "$work/llama-server"
# as deep as in its sources, since it finds templates by a path relative to itself
rm -rf "$work/tree"
mkdir -p "$work/tree/tools/server"
cp -r "$suite" "$work/tree/tools/server/tests"
chmod -R u+w "$work/tree"
[ ! -d "$suite/../../../models" ] || ln -s "$(realpath "$suite/../../../models")" "$work/tree/models"
cd "$work/tree/tools/server/tests"
# A seed's texts are llama.cpp's with its random numbers, which are a setting here: with them the whole way from a prompt to a
# drawn token is compared. All else is as `kentang serve` is without any setting.
export KENTANG_SAMPLING_MT19937=1
export PYTHONPATH="$here" LLAMA_SERVER_BIN_PATH="$work/llama-server" KENTANG_CONFIG= XDG_RUNTIME_DIR="$work"
exec "$work/venv/bin/pytest" -p no:cacheprovider -p no_presets -q --timeout 120 -m "not slow" "$@"
