#!/bin/sh
# The Model Context Protocol's conformance suite against a running server, for both eras; what is not expected to fail must
# pass, and what is expected to must fail. usage: conformance.sh FOLDER URL, FOLDER with the packages of package.json.
set -eu
work=$1
url=$2
here=$(cd "$(dirname "$0")" && pwd)
node=node
if ! node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 22 ? 1 : 0)'; then # the suite needs node 22
    mkdir -p "$work/node22"
    [ -x "$work/node22/node_modules/.bin/node" ] || {
        echo '{"private":true}' >"$work/node22/package.json"
        (cd "$work/node22" && npm install --no-audit --no-fund --silent node@22)
    }
    node=$work/node22/node_modules/.bin/node
fi
for revision in 2025-11-25 2026-07-28; do
    "$node" "$work/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" --requirements "$revision" \
        --expected-failures "$here/conformance-$revision.yml" >"$work/conformance-$revision.log" 2>&1 || {
        sed -n '/SUMMARY/,$p' "$work/conformance-$revision.log" >&2
        exit 1
    }
    echo "ok mcp: conformance, the requirements of $revision but for those in conformance-$revision.yml"
done
