#!/bin/sh
# Checks the include graph of src/: no circle of modules (X.c with X.h), also through .inc and .def files, and no arrow from a
# room to one that it may not include. The table is scripts/rooms.txt. With --objects also that no two objects of a build use
# each other's functions and tables, whatever they include: what a header, a macro or a table of functions hides from the
# first check. Files outside of host and term may not ask for the system, and at most 40 outside of host include headers
# that are none of ISO C: POSIX's or Linux's. Prints each violation; exit 1 if any.
#   --graph          prints the graph instead, one arrow a line
#   --objects BUILD  the symbols of a finished build's objects
#   --root DIR       another tree
set -eu
mode=check
root=$(dirname "$0")/..
while [ $# -gt 0 ]; do
    case "$1" in
    --graph) mode=graph ;;
    --objects) mode=calls; build=$(cd "${2:?"--objects needs a build folder"}" && pwd); shift ;;
    --root) root=${2:?"--root needs a folder"}; shift ;;
    *) sed -n '2,10s/^# //p' "$0" >&2; exit 2 ;;
    esac
    shift
done
awk_program=$(cd "$(dirname "$0")" && pwd)/check_includes.awk
cd "$root"

# The objects of rooms whose source still exists: a build folder keeps those of files that went.
objects() {
    find "$build/CMakeFiles" -path '*/kt_*.dir/*.o' | LC_ALL=C sort | while read -r object; do
        source=${object#*.dir/}
        source=${source%.o}
        [ ! -e "$source" ] && [ ! -e "$build/$source" ] || echo "$object"
    done
}

list=$(find src -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.def' | LC_ALL=C sort)
[ -n "$list" ] || { echo "no source files under $root/src" >&2; exit 2; }
case $mode in
calls) objects | xargs nm -A -P -g | awk -v mode=calls -f "$awk_program" scripts/rooms.txt - ;;
graph) # shellcheck disable=SC2086
    awk -v mode=graph -f "$awk_program" scripts/rooms.txt $list | LC_ALL=C sort ;;
*)
    # which system a file is compiled for is host's and term's to ask (docs/decisions/source.md)
    if grep -nE '_WIN32|_WIN64|__MINGW|__CYGWIN' $(printf '%s\n' "$list" | grep -vE '^src/(lib/host|program/term)/'); then
        echo "the lines above ask for the system: a file X_windows.c takes the place of X.c there" >&2
        exit 1
    fi
    # what more than one room asks the system for is base/system.h's (docs/decisions/source.md)
    posix='(arpa|linux|netinet|sys)/[a-z0-9_]+|aio|dirent|dlfcn|fcntl|fnmatch|ftw|glob|grp|ifaddrs|langinfo|libgen|netdb|poll|pthread|pwd|regex|sched|semaphore|signal|spawn|strings|syslog|termios|ucontext|unistd|wordexp'
    with_posix=$(grep -lE "^ *# *include *<($posix)\\.h>" $(printf '%s\n' "$list" | grep -v '^src/lib/host/') || :)
    n_posix=$(printf '%s\n' "$with_posix" | grep -c . || :)
    [ "$n_posix" -le 40 ] || {
        printf '%s\n' "$with_posix" "$n_posix files include the system's headers, at most 40: base/system.h has most calls"
        exit 1
    }
    # shellcheck disable=SC2086
    awk -v mode=check -f "$awk_program" scripts/rooms.txt $list ;;
esac
