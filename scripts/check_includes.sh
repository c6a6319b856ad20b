#!/bin/sh
# Checks the include graph of src/: no circle of modules (X.c with X.h), no arrow from a room to one on its right, none that
# runs up inside a room whose floors are declared; and no circle of files that use each other's functions, which one
# header may hide. The table is scripts/rooms.txt. Prints each violation; exit 1 if any.
#   --graph     prints the graph instead, one arrow a line
#   --calls     only the circles of files that use each other's functions, whatever they include
#   --root DIR  another tree
set -eu
mode=check
root=$(dirname "$0")/..
while [ $# -gt 0 ]; do
    case "$1" in
    --graph | --calls) mode=${1#--} ;;
    --root) root=${2:?"--root needs a folder"}; shift ;;
    *) sed -n '2,8s/^# //p' "$0" >&2; exit 2 ;;
    esac
    shift
done
awk_program=$(cd "$(dirname "$0")" && pwd)/check_includes.awk
cd "$root"

list=$(find src -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.def' | LC_ALL=C sort)
[ -n "$list" ] || { echo "no source files under $root/src" >&2; exit 2; }
# shellcheck disable=SC2086
if [ $mode = graph ]; then
    awk -v mode=graph -v prefix=src/ -f "$awk_program" scripts/rooms.txt $list | LC_ALL=C sort
else
    bad=0
    [ $mode = calls ] || awk -v mode=check -v prefix=src/ -f "$awk_program" scripts/rooms.txt $list || bad=1
    awk -v mode=calls -v prefix=src/ -f "$awk_program" scripts/rooms.txt $list || bad=1
    exit $bad
fi
