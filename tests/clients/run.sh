#!/bin/sh
# The official npm clients against a server over the demo model. usage: run.sh KENTANG; needs node and npm. What
# they need is installed into a folder of the build tree, in the versions of package.json.
set -eu
kentang=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=${KT_CLIENTS_DIR:-$(dirname "$kentang")/clients}
. "$here/../npm_packages.sh"
npm_packages "$here" "$work"
cp "$here/clients.mjs" "$here/mcp.mjs" "$here/modern_server.mjs" "$work/"
: >"$work/log"
rm -rf "$work/batches"
"$kentang" serve --no-config --no-env --listen 127.0.0.1:0 --socket none --set log.level=info --set batches.dir="$work/batches" 2>"$work/log" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true' EXIT
url=""
for _ in $(seq 100); do
    url=$(sed -n 's/.* ready .*http=\(http:[^ ]*\).*/\1/p' "$work/log")
    [ -n "$url" ] && break
    sleep 0.1
done
[ -n "$url" ] || { cat "$work/log" >&2; exit 1; }
(cd "$work" && node clients.mjs "$url") || { tail -20 "$work/log" >&2; exit 1; }
(cd "$work" && node mcp.mjs "$kentang" "$url") || { tail -20 "$work/log" >&2; exit 1; }
sh "$here/conformance.sh" "$work" "$url/mcp"
KT_MCP_NPM=$work "$(dirname "$kentang")/test_agent_npm" >"$work/npm.log" 2>&1 || { cat "$work/npm.log" >&2; exit 1; }
echo "ok agent: server-everything, server-filesystem, a server of 2026-07-28"
if command -v promtool >/dev/null 2>&1; then
    curl -s "$url/metrics" | promtool check metrics || { echo "promtool has objections" >&2; exit 1; }
    echo "ok promtool check metrics"
fi
kill $server
wait $server
if command -v haproxy >/dev/null 2>&1; then
    sh "$here/haproxy.sh" "$kentang"
fi
