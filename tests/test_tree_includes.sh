#!/bin/sh
# scripts/check_includes.sh on small trees of its own: what it lets pass, and that it fails on each thing it is there for.
# And docs/ARCHITECTURE.svg is what scripts/architecture draws.
# usage: test_tree_includes.sh BUILD_DIR SOURCE_DIR
set -eu
source_dir=$2

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

# low <- high, high with two floors; two modules, a header alone, an .inc and a .def
new_tree() {
    rm -rf "$tree/src" "$tree/scripts"
    mkdir -p "$tree/src/low" "$tree/src/high" "$tree/scripts"
    cat >"$tree/scripts/rooms.txt" <<'TABLE'
room low:
room high: low
floor high ground: types part_*
floor high roof: house
allow low/odd.c high/types.h  the one exception
TABLE
    file low/number.h
    file low/number.c low/number.h low/rows.def
    file low/rows.def
    file low/odd.c high/types.h
    file high/types.h low/number.h
    file high/part_a.h high/types.h
    file high/part_a.c high/part_a.h high/body.inc
    file high/body.inc low/number.h
    file high/house.c high/part_a.h high/types.h kentang.h
}

check() {
    sh "$source_dir/scripts/check_includes.sh" --root "$tree" "$@"
}

# refuses WHAT TEXT: the check fails and says TEXT
refuses() {
    if check >"$tree/said"; then
        echo "$1: not refused"
        exit 1
    fi
    grep -q -- "$2" "$tree/said" || {
        echo "$1: \"$2\" is not in:"
        cat "$tree/said"
        exit 1
    }
}

new_tree
check || { echo "a tree without fault is refused"; exit 1; }
check --graph | grep -qx 'high/part_a -> low/number' || { echo "--graph: the .inc's arrow is not its includer's"; exit 1; }
[ "$(check --graph | wc -l)" -eq 6 ] || { echo "--graph:"; check --graph; exit 1; }

file low/other.h low/number.h
file low/number.c low/number.h low/other.h
refuses "two modules that include each other" "^circle of 2 modules"

new_tree
file low/a.h low/b.h
file low/b.c low/b.h low/c.inc
file low/b.h
file low/c.inc low/c.h
file low/c.h low/a.h
refuses "a circle of three, one arrow through an .inc" "^circle of 3 modules"

new_tree
file low/number.c low/number.h high/types.h
refuses "a room that includes one on its right" "src/low/number.c:2: includes \"high/types.h\", but low may include only"

new_tree
file high/house.h
file high/part_b.c high/house.h
refuses "an arrow up inside a room" "src/high/part_b.c:1: includes \"high/house.h\": runs up"

new_tree
file high/homeless.c high/types.h
refuses "a module that no floor names" "high/homeless stands on no floor"

new_tree
mkdir "$tree/src/shed"
file shed/tool.c low/number.h
refuses "a room that the table does not know" "room shed is not in"

new_tree
sed -i 's/^room low:/room low: high/' "$tree/scripts/rooms.txt"
refuses "a table whose rooms are out of order" "high does not stand above low"

# functions of two files that use each other, though one header declares both
new_tree
echo 'int kt__a(void); int kt__b(void);' >"$tree/src/low/number.h"
printf '#include "low/number.h"\nint kt__a(void) {\n    return kt__b();\n}\n' >"$tree/src/low/number.c"
printf '#include "low/number.h"\nint kt__b(void) {\n    return kt__a();\n}\n' >"$tree/src/low/number_b.c"
refuses "two files that use each other" '^circle of 2 modules: low/number'
