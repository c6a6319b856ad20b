#!/bin/sh
# Reports, and the web page, in Debian's chromium; the page against servers over the demo model. usage: run.sh KENTANG [PICTURES_DIR]; needs
# chromium, node and npm. With PICTURES_DIR the pictures of docs/ are made again.
set -eu
kentang=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
pictures=${2:+$(cd "$2" && pwd)}
work=${KT_BROWSER_DIR:-$(dirname "$kentang")/browser}
. "$here/../npm_packages.sh"
npm_packages "$here" "$work"
cp "$here/page.mjs" "$here/report.mjs" "$here/stand_in.mjs" "$work/"
cd "$work"
node report.mjs "$kentang" "$here/../../src/lib/context/demo.gguf" "$pictures"
KT_SOURCE_DIR=$here/../.. node page.mjs "$kentang" "$pictures"
