#!/bin/sh
# Manual pages and completions name every command, option and setting, are clean to their readers, and complete.
set -eu
kentang=$1/kentang
source=$2
docs=$1/docs
[ -d "$docs" ] || docs=$(dirname "$1")/docs
fail() {
    echo "failed: $1" >&2
    exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# has FILE: each line of standard input occurs in it, as it stands
has() {
    [ -s "$1" ] || fail "there is no $1"
    awk 'NR == FNR { wanted[$0]; next }
        { for (text in wanted) if (index($0, text)) delete wanted[text] }
        END { for (text in wanted) { print text; bad = 1 } exit bad }' - "$1" >"$dir/lacks" ||
        fail "$(basename "$1") lacks: $(tr '\n' ' ' <"$dir/lacks")"
}
roff() { sed 's/-/\\-/g'; }

# every command and option
commands=$(sed -n 's/^X(\([a-z]*\),.*/\1/p' "$source/src/program/term/commands.def")
[ "$(echo "$commands" | wc -l)" -ge 15 ] || fail "the list of commands: $commands"
echo "$commands" | sed 's/.*/kentang\\-& (1)/' | has "$docs/man/man1/kentang.1"
for command in $commands; do
    "$kentang" "$command" --help >"$dir/help"
    [ "$command" != bench ] || "$kentang" bench --server x --help >>"$dir/help"
    sed 's/--\[no-\]\([a-z-]*\)/--\1\n      --no-\1/' "$dir/help" |
        sed -n 's/^  *\(-[a-zA-Z]*, \)\{0,1\}--\([a-z0-9-]*\).*/--\2/p' | sort -u >"$dir/options"
    roff <"$dir/options" | sed 's/.*/\\fB&\\fR/' | has "$docs/man/man1/kentang-$command.1"
    grep "^        $command) words=" "$docs/bash/kentang" >"$dir/bash" || fail "bash: no $command"
    sed 's/$/ /' "$dir/options" | has "$dir/bash"
    sed -n "/^    $command)/,/;;/p" "$docs/zsh/_kentang" >"$dir/zsh"
    sed 's/$/[/' "$dir/options" | has "$dir/zsh"
    grep "__fish_seen_subcommand_from $command'" "$docs/fish/kentang.fish" >"$dir/fish" || fail "fish: no $command"
    sed 's/^--\(.*\)/-l \1 /' "$dir/options" | has "$dir/fish"
done

# every setting
grep -o '\.key = "[^"]*"' "$source/src/program/setup/settings.def" | sed 's/.*"\(.*\)"/\1/' >"$dir/keys"
[ "$(wc -l <"$dir/keys")" -ge 40 ] || fail "the list of settings"
roff <"$dir/keys" | sed 's/^/.B /' | has "$docs/man/man5/kentang.toml.5"
for file in bash/kentang zsh/_kentang fish/kentang.fish; do sed 's/$/=/' "$dir/keys" | has "$docs/$file"; done

# the example has every setting as --check prints it, below four lines of its own
"$kentang" serve --check --no-config --no-env --socket none | diff - "$source/examples/kentang.toml" | grep '^[<>]' | tail -n +5 |
    grep . && fail "examples/kentang.toml is not what --check prints"

# clean to those who read them
for page in "$docs"/man/man*/*; do
    if command -v groff >/dev/null 2>&1; then
        warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1) || fail "groff: $page"
        [ -z "$warnings" ] || fail "$page: $warnings"
    fi
    if command -v mandoc >/dev/null 2>&1; then
        warnings=$(mandoc -T lint -W warning "$page" 2>&1 | grep -v 'missing date' || true)
        [ -z "$warnings" ] || fail "$page: $warnings"
    fi
done
if command -v zsh >/dev/null 2>&1; then zsh -n "$docs/zsh/_kentang" || fail "zsh cannot read its file"; fi
if command -v fish >/dev/null 2>&1; then
    fish -c "source $docs/fish/kentang.fish; complete -C 'kentang run --prese'" 2>&1 | grep -q '^--preset' || fail "fish does not complete"
fi

# bash completes: WORDS... is the line so far, the last one to be completed
command -v bash >/dev/null 2>&1 || exit 0
completions() {
    bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kentang; printf "%s " "${COMPREPLY[@]}"' \
        "$docs/bash/kentang" "$@"
}
completes() { # EXPECTED WORDS...
    expected=$1
    shift
    found=$(completions "$@")
    [ "$found" = "$expected " ] || fail "bash: $* gives \"$found\", expected \"$expected\""
}
cd "$source"
completes "run rm" kentang r
completes "serve stop search show schema synth" kentang s
completes --preset kentang run --preset
completes "potato" kentang run --preset p
completes "potato" kentang run --preset = p
completes "none potato extreme" kentang run --preset ""
completes "limits.queue=" kentang serve --set limits.qu
completes "README.md" kentang run -f READ
completes "README.md" kentang inspect READ
completes "" kentang run -n ""
completes "tokenize" kentang help tok
completes "--seed" kentang synth --se
