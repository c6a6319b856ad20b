#!/bin/sh
# scripts/demo and scripts/check with stand-ins for the tools: what they ask of them, and what they say when packages are missing.
set -eu
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "failed: $1" >&2
    cat "$dir/calls" "$dir/out" >&2 2>/dev/null || true
    exit 1
}

# A checkout with scripts alone; each tool writes down how it was called.
mkdir -p "$dir/checkout" "$dir/bin"
cp -r "$source/scripts" "$dir/checkout"
cd "$dir/checkout"
git init -q . 2>/dev/null || true
tool() { # NAME COMMANDS
    printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n%s\n' "$1" "$dir" "$2" >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
tool cmake ':'
tool ninja 'printf "#!/bin/sh\n" >build/kentang; chmod +x build/kentang; echo "[1/1] building"'
tool ctest ':'
tool clang-format-14 ':'
tool cc 'echo 12'
tool dpkg-query 'echo install ok installed'
tool sh 'case "$1" in *check_includes.sh) exit 0 ;; esac; exec /bin/sh "$@"'
run() { # SCRIPT: its output in out, without a terminal
    rm -rf build "$dir/calls"
    PATH="$dir/bin:$PATH" /bin/sh "scripts/$1" >"$dir/out" 2>&1
}

# demo builds the program with one tier, and then all that `cmake --install` installs, with the flags of check
run demo || fail "demo"
[ "$(grep -c '^ninja ' "$dir/calls")" = 2 ] && grep -q '^ninja .* kentang$' "$dir/calls" || fail "demo does not begin with the program alone"
grep '^ninja ' "$dir/calls" | tail -n 1 | grep -q 'kentang_install' || fail "demo leaves out what is installed"
demo_flags=$(grep '^cmake .*-B build ' "$dir/calls" | tail -n 1)
touch src.c
mkdir -p src
run check || fail "check"
[ "$(grep '^cmake .*-B build ' "$dir/calls")" = "$demo_flags" ] || fail "check configures otherwise than demo"
case "$demo_flags" in *-DKT_WERROR=ON*) ;; *) fail "warnings are not errors" ;; esac

# on a terminal ninja's own line is shown
if command -v script >/dev/null 2>&1; then
    rm -rf build
    PATH="$dir/bin:$PATH" script -qec "/bin/sh scripts/demo" /dev/null >"$dir/out" 2>&1 </dev/null || fail "demo on a terminal"
    grep -q '\[1/1\] building' "$dir/out" || fail "no sign of life while building"
fi

# a package is missing, and there is neither root nor sudo
tool dpkg-query 'case "$*" in *libedit-dev*) exit 1 ;; esac; echo install ok installed'
tool id 'echo 1000'
tool apt-get 'echo apt-get was called; exit 100'
mkdir -p "$dir/path"
for name in sh dirname cat grep cut mkdir printf head tail nproc rm; do
    found=$(command -v "$name") && case "$found" in /*) ln -sf "$found" "$dir/path/$name" ;; esac
done
if PATH="$dir/bin:$dir/path" /bin/sh scripts/demo >"$dir/out" 2>&1; then fail "packages are missing, but all is well"; fi
grep -q 'neither root nor sudo' "$dir/out" || fail "no reason is given"
grep -q 'apt-get install libedit-dev' "$dir/out" || fail "no remedy is given"
if grep -q '^apt-get' "$dir/calls"; then fail "apt-get was called all the same"; fi
