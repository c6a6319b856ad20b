# npm_packages FOLDER WORK: what FOLDER/package.json names, in WORK; installed where that has changed. Read by run.sh of
# tests/clients and tests/browser.
npm_packages() {
    mkdir -p "$2"
    cmp -s "$1/package.json" "$2/package.json" || {
        cp "$1/package.json" "$2/package.json"
        (cd "$2" && npm install --no-audit --no-fund --silent)
    }
}
