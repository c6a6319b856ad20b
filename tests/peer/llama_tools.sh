#!/bin/sh
# llama-quantize and llama-perplexity from the source that the npm package node-llama-cpp carries, linked with its built
# libraries: no network, a minute of compiling. They are run from the folder of the libraries, where they find their kernels.
#
#   KT_PEER_DIR=DIR tests/peer/llama_tools.sh OUT_DIR      makes OUT_DIR/llama-quantize, llama-perplexity (scripts)
set -eu
out=$(mkdir -p "${1:?usage: llama_tools.sh OUT_DIR}" && cd "$1" && pwd)
modules=${KT_PEER_DIR:?KT_PEER_DIR must name an installed copy of ../shared/peer}/node_modules
libs=$(cd "$modules/@node-llama-cpp/linux-x64/bins/linux-x64" && pwd)
[ -d "$out/source" ] || git clone -q "$modules/node-llama-cpp/llama/gitRelease.bundle" "$out/source" 2>/dev/null
cd "$out/source"
for tool in quantize perplexity; do
    # shellcheck disable=SC2086
    ${CXX:-g++} -O1 -std=c++17 -w -DNDEBUG -Iinclude -Iggml/include -Icommon -Ivendor -Itools/$tool tools/$tool/$tool.cpp \
        tools/$tool/main.cpp -o "$out/$tool" "$libs"/libllama-common.so "$libs"/libllama.v*.so "$libs"/libggml.v*.so \
        "$libs"/libggml-base.so -Wl,-rpath,"$libs" -pthread
    printf '#!/bin/sh\ncd "%s" && exec "%s" "$@"\n' "$libs" "$out/$tool" >"$out/llama-$tool"
    chmod +x "$out/llama-$tool"
done
