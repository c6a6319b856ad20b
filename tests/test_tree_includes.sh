#!/bin/sh
# scripts/check_includes.sh on small trees of its own: what it lets pass, and that it fails on each thing it is there for.
# And docs/ARCHITECTURE.svg is what scripts/architecture draws, and no objects of this build use each other in a circle.
# usage: test_tree_includes.sh BUILD_DIR SOURCE_DIR
set -eu
build_dir=$1 source_dir=$2

sh "$source_dir/scripts/check_includes.sh" --objects "$build_dir"

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

python3 "$source_dir/scripts/architecture" >"$tree/picture"
cmp -s "$tree/picture" "$source_dir/docs/ARCHITECTURE.svg" || {
    echo "the picture is not of this tree: scripts/architecture >docs/ARCHITECTURE.svg"
    exit 1
}

# file PATH [INCLUDE...]: a source file that includes these
file() {
    path=$tree/src/$1
    shift
    : >"$path"
    for name in "$@"; do echo "#include \"$name\"" >>"$path"; done
}

# the library's low, the program's high <- low; modules, a header alone, an .inc and a .def
new_tree() {
    rm -rf "$tree/src" "$tree/scripts"
    mkdir -p "$tree/src/lib/low" "$tree/src/program/high" "$tree/scripts"
    cat >"$tree/scripts/rooms.txt" <<'TABLE'
room low:
room high: low
allow low/odd.c high/types.h  the one exception
TABLE
    file lib/low/number.h
    file lib/low/number.c low/number.h low/rows.def
    file lib/low/rows.def
    file lib/low/odd.c high/types.h
    file program/high/types.h low/number.h
    file program/high/part_a.h high/types.h
    file program/high/part_a.c high/part_a.h high/body.inc
    file program/high/body.inc low/number.h
    file program/high/house.c high/part_a.h high/types.h kentang.h
}

check() {
    sh "$source_dir/scripts/check_includes.sh" --root "$tree" "$@"
}

# refuses WHAT TEXT [OPTION...]: the check fails and says TEXT
refuses() {
    what=$1 text=$2
    shift 2
    if check "$@" >"$tree/said"; then
        echo "$what: not refused"
        exit 1
    fi
    grep -q -- "$text" "$tree/said" || {
        echo "$what: \"$text\" is not in:"
        cat "$tree/said"
        exit 1
    }
}

new_tree
check || { echo "a tree without fault is refused"; exit 1; }
check --graph | grep -qx 'high/part_a -> low/number' || { echo "--graph: the .inc's arrow is not its includer's"; exit 1; }
[ "$(check --graph | wc -l)" -eq 6 ] || { echo "--graph:"; check --graph; exit 1; }

file lib/low/other.h low/number.h
file lib/low/number.c low/number.h low/other.h
refuses "two modules that include each other" "^circle of 2 modules"

new_tree
file lib/low/a.h low/b.h
file lib/low/b.c low/b.h low/c.inc
file lib/low/b.h
file lib/low/c.inc low/c.h
file lib/low/c.h low/a.h
refuses "a circle of three, one arrow through an .inc" "^circle of 3 modules"

new_tree
file lib/low/number.c low/number.h high/types.h
refuses "a room that includes one it may not" "src/lib/low/number.c:2: includes \"high/types.h\", but low may include only"

new_tree
mkdir "$tree/src/program/shed"
file program/shed/tool.c low/number.h
refuses "a room that the table does not know" "room shed is not in"

new_tree
sed -i 's/^room low:/room low: high/' "$tree/scripts/rooms.txt"
refuses "a table whose rooms are out of order" "high does not stand above low"

new_tree
mkdir "$tree/src/lib/attic"
file lib/attic/tool.c high/types.h
echo 'room attic: high' >>"$tree/scripts/rooms.txt"
refuses "a library that needs the program" "attic is of the library, and high of the program"

new_tree
echo '#ifdef _WIN32' >>"$tree/src/program/high/house.c"
refuses "a file that asks for the system" "house.c:4:#ifdef _WIN32"

new_tree
for n in $(seq 41); do echo '#include <unistd.h>' >"$tree/src/lib/low/asks_$n.c"; done
refuses "41 files with the system's headers" "41 files include the system's headers"
rm "$tree/src/lib/low/asks_1.c"
check || { echo "40 files with the system's headers are refused"; exit 1; }

# Objects: two files of a room that use each other, though one header declares both and comments with a star in them come
# before the use; one through a table, whose names a macro makes.
command -v cc >/dev/null 2>&1 || exit 0

# compile ROOM/NAME...: the objects of a build of these
compile() {
    for name in "$@"; do
        object=$tree/build/CMakeFiles/kt_${name%/*}.dir/src/lib/$name.c.o
        mkdir -p "${object%/*}"
        cc -I"$tree/src/lib" -c -o "$object" "$tree/src/lib/$name.c"
    done
}

new_tree
mkdir -p "$tree/build/CMakeFiles"
echo 'int kt__a(void); int kt__b(void); int kt__c(void);' >"$tree/src/lib/low/number.h"
printf '#include "low/number.h"\nint kt__a(void) {\n    return kt__b();\n}\n' >"$tree/src/lib/low/number.c"
printf '#include "low/number.h"\n/* *at is a star */\nint kt__b(void) {\n    return 1;\n}\n' >"$tree/src/lib/low/number_b.c"
compile low/number low/number_b
check --objects "$tree/build" || { echo "objects without a circle are refused"; exit 1; }

printf '#include "low/number.h"\n/* *at is a star */\nint kt__b(void) {\n    return kt__a();\n}\n' >"$tree/src/lib/low/number_b.c"
compile low/number_b
refuses "two files that use each other" '^circle of 2 modules: low/number' --objects "$tree/build"

echo 'circle low/number low/number_b' >>"$tree/scripts/rooms.txt"
check --objects "$tree/build" || { echo "a circle that the table allows is refused"; exit 1; }
sed -i '/^circle/d' "$tree/scripts/rooms.txt"

printf '#include "low/number.h"\nint kt__b(void) {\n    return 1;\n}\n' >"$tree/src/lib/low/number_b.c"
printf '#include "low/number.h"\n#define X(n) kt__##n\nint (*const kt__table[])(void) = {X(a), X(c)};\n' >"$tree/src/lib/low/table.c"
printf '#include "low/number.h"\nextern int (*const kt__table[])(void);\nint kt__c(void) {\n    return kt__table[0]();\n}\n' >"$tree/src/lib/low/number_c.c"
compile low/number_b low/table low/number_c
refuses "a circle through a table" '^circle of 2 modules: low/' --objects "$tree/build"
