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
has() { # FILE TEXT...: each as it stands
    file=$1
    shift
    for text in "$@"; do
        grep -qF -e "$text" "$file" || fail "$(basename "$file") lacks $text"
    done
}
roff() { printf '%s' "$1" | sed 's/-/\\-/g'; }

# every command and option
commands=$("$kentang" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
[ "$(echo "$commands" | wc -l)" -ge 15 ] || fail "the list of commands: $commands"
for command in $commands; do
    page=$docs/man/man1/kentang-$command.1
    [ -s "$page" ] || fail "no manual page for $command"
    has "$docs/man/man1/kentang.1" "kentang\\-$command (1)"
    grep "^        $command) words=" "$docs/bash/kentang" >"$docs/words" || fail "bash: no $command"
    options=$("$kentang" "$command" --help | sed -n 's/^  *\(-[a-zA-Z]*, \)\{0,1\}--\([a-z0-9-]*\).*/\2/p')
    [ "$command" != bench ] || options="$options $("$kentang" bench --server x --help | sed -n 's/^ .*--\([a-z0-9-]*\) .*/\1/p')"
    for option in $options; do
        has "$page" "\\fB$(roff "--$option")\\fR"
        has "$docs/words" "--$option "
        [ "$option" = help ] || grep -q -e "'\\*\{0,1\}--$option\\[" "$docs/zsh/_kentang" || fail "zsh: $command --$option"
        grep "__fish_seen_subcommand_from $command'" "$docs/fish/kentang.fish" | grep -q -e "-l $option " || fail "fish: $command --$option"
    done
done
rm "$docs/words"

# every setting
keys=$(sed -n 's/^X([^"]*"\([^"]*\)".*/\1/p' "$source/src/serve/settings.def")
[ "$(echo "$keys" | wc -l)" -ge 40 ] || fail "the list of settings"
for key in $keys; do
    has "$docs/man/man5/kentang.toml.5" ".B $(roff "$key")"
    has "$docs/bash/kentang" "$key="
    has "$docs/zsh/_kentang" "$key="
    has "$docs/fish/kentang.fish" "$key="
done

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
completes run kentang r
completes "serve stop synth" kentang s
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
