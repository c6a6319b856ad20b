/* Completions for bash, zsh and fish. */
#include <stdlib.h>
#include <string.h>

#include "docs.h"
#include "setup/config.h"

/* ---- what all three need ---- */

/* The pages of the command at *at, which moves behind them. */
static size_t take_command(const pages *all, size_t *at, const page **first) {
    size_t n = 0;
    *first = &all->items[*at];
    while (*at < all->n && !strcmp(all->items[*at].command, (*first)->command)) ++*at, n++;
    return n;
}

/* Whether an option of this name came before, on this page or an earlier one of the command. */
static bool came_before(const page *first, const page *p, size_t index, const char *name) {
    for (const page *q = first; q <= p; q++) {
        const kt__opt *opt;
        for (size_t i = 0; (q < p || i < index) && (opt = option_at(q, i)); i++) {
            if (!strcmp(opt->name, name)) return true;
        }
    }
    return false;
}

typedef void option_fn(FILE *out, const page *p, const kt__opt *opt);

/* Each option of a command once. */
static void each_option(FILE *out, const page *first, size_t n, option_fn *fn) {
    for (const page *p = first; p < first + n; p++) {
        const kt__opt *opt;
        for (size_t i = 0; (opt = option_at(p, i)); i++) {
            if (!came_before(first, p, i, opt->name)) fn(out, p, opt);
        }
    }
}

/* "none|potato" as "none potato" */
static void put_choices(FILE *out, const kt__opt *opt) {
    for (const char *c = opt->choices; *c; c++) putc(*c == '|' ? ' ' : *c, out);
}

static void put_setting_keys(FILE *out) {
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s%s=", i ? " " : "", settings[i].key);
}

static void put_commands(FILE *out, const pages *all) {
    const page *first;
    for (size_t at = 0; at < all->n;) {
        (void)take_command(all, &at, &first);
        fprintf(out, "%s ", first->command);
    }
    fputs("help", out);
}

/* The first words of a help text, without what would end a quotation or a bracket. */
static void put_short(FILE *out, const char *help) {
    enum { LONGEST = 64 };
    size_t len = strlen(help);
    const char *ends[] = {strstr(help, "; "), strstr(help, " ("), strstr(help, ": ")};
    for (size_t i = 0; i < KT__COUNT(ends); i++) {
        if (ends[i] && (size_t)(ends[i] - help) < len) len = (size_t)(ends[i] - help);
    }
    if (len > LONGEST) {
        len = LONGEST;
        while (len && help[len] != ' ') len--;
    }
    for (size_t i = 0; i < len; i++) {
        if (!strchr("'[]\\`$\"", help[i])) putc(help[i], out);
    }
}

/* ---- bash ---- */

static void bash_pattern(FILE *out, const char *command, const kt__opt *opt) {
    if (opt->brief) fprintf(out, "%s:-%s | ", command, opt->brief);
    if (opt->also) fprintf(out, "%s:--%s | ", command, opt->also);
    fprintf(out, "%s:--%s) ", command, opt->name);
}

static void bash_value(FILE *out, const page *p, const kt__opt *opt) {
    value_kind kind = kind_of_value(opt);
    if (kind == VALUE_NONE) return;
    fputs("    ", out);
    bash_pattern(out, p->command, opt);
    switch (kind) {
    case VALUE_FILE: fputs("_kentang_files \"$cur\"; return ;;\n", out); break;
    case VALUE_CHOICE:
        fputs("words='", out);
        put_choices(out, opt);
        fputs("' ;;\n", out);
        break;
    case VALUE_SETTING:
        fputs("words='", out);
        put_setting_keys(out);
        fputs("' ;;\n", out);
        break;
    default: fputs("return ;;\n", out);
    }
}

static void bash_word(FILE *out, const page *p, const kt__opt *opt) {
    (void)p;
    if (opt->brief) fprintf(out, "-%s ", opt->brief);
    fprintf(out, "--%s ", opt->name);
    if (opt->also) fprintf(out, "--%s ", opt->also);
}

static void write_bash(const pages *all, const char *folder) {
    FILE *out = open_document(folder, "bash/kentang");
    const page *first;
    fputs("# bash completion for kentang, made from its option tables by tools/docs\n"
          "_kentang_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -f -- \"$1\")\n"
          "}\n"
          "_kentang() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= "
          "words= i\n"
          "    local commands='",
          out);
    put_commands(out, all);
    fputs("'\n"
          "    COMPREPLY=()\n"
          "    if [[ $cur == = ]]; then # --name=VALUE is three words\n"
          "        cur=\n"
          "    elif [[ $prev == = && COMP_CWORD -gt 2 ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        if [[ ${COMP_WORDS[i]} != -* ]]; then\n"
          "            command=${COMP_WORDS[i]}\n"
          "            break\n"
          "        fi\n"
          "    done\n"
          "    [[ -n $command ]] || words=\"$commands --help --version\"\n"
          "    [[ $command != help ]] || words=$commands\n"
          "    case $command:$prev in\n",
          out);
    for (size_t at = 0; at < all->n;) {
        size_t n = take_command(all, &at, &first);
        each_option(out, first, n, bash_value);
    }
    fputs("    esac\n    if [[ -z $words && $cur == -* ]]; then\n        case $command in\n", out);
    for (size_t at = 0; at < all->n;) {
        size_t n = take_command(all, &at, &first);
        fprintf(out, "        %s) words='", first->command);
        each_option(out, first, n, bash_word);
        fputs("-h --help ' ;;\n", out);
    }
    fputs("        esac\n"
          "    fi\n"
          "    if [[ -n $words ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "        if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
          "    else\n"
          "        _kentang_files \"$cur\"\n"
          "    fi\n"
          "    return 0\n"
          "}\n"
          "complete -F _kentang kentang\n",
          out);
    close_document(out);
}

/* ---- zsh ---- */

static void zsh_action(FILE *out, const kt__opt *opt) {
    value_kind kind = kind_of_value(opt);
    if (kind == VALUE_NONE) return;
    fputc(':', out);
    put_short(out, opt->arg ? opt->arg : "value");
    fputc(':', out);
    if (kind == VALUE_FILE) fputs("_files", out);
    if (kind == VALUE_CHOICE) {
        fputc('(', out);
        put_choices(out, opt);
        fputc(')', out);
    } else if (kind == VALUE_SETTING) {
        fputs("{compadd -S \"\" -- ", out);
        put_setting_keys(out);
        fputs("}", out);
    }
}

static void zsh_option(FILE *out, const page *p, const kt__opt *opt) {
    (void)p;
    const char *names[] = {opt->brief, opt->name, opt->also};
    for (size_t i = 0; i < KT__COUNT(names); i++) {
        if (!names[i]) continue;
        fprintf(out, "            '%s%s%s[", opt->kind == KT__OPT_TEXTS ? "*" : "", i ? "--" : "-",
                names[i]);
        put_short(out, opt->help ? opt->help : "");
        fputc(']', out);
        zsh_action(out, opt);
        fputs("' \\\n", out);
    }
}

static void write_zsh(const pages *all, const char *folder) {
    FILE *out = open_document(folder, "zsh/_kentang");
    const page *first;
    fputs("#compdef kentang\n# zsh completion for kentang, made from its option tables by "
          "tools/docs\n"
          "_kentang() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (size_t at = 0; at < all->n;) {
        (void)take_command(all, &at, &first);
        fprintf(out, "        '%s:", first->command);
        put_short(out, first->summary);
        fputs("'\n", out);
    }
    fputs("        'help:the options of a command'\n"
          "    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n"
          "        [[ $PREFIX != -* ]] || compadd -- --help --version\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n"
          "    help) _describe command commands ;;\n",
          out);
    for (size_t at = 0; at < all->n;) {
        size_t n = take_command(all, &at, &first);
        fprintf(out, "    %s)\n        _arguments \\\n", first->command);
        each_option(out, first, n, zsh_option);
        fputs("            '(- *)-h[help]' '(- *)--help[help]' '*:file:_files'\n        ;;\n", out);
    }
    fputs("    esac\n}\n_kentang \"$@\"\n", out);
    close_document(out);
}

/* ---- fish ---- */

static void fish_option(FILE *out, const page *p, const kt__opt *opt) {
    value_kind kind = kind_of_value(opt);
    fprintf(out, "complete -c kentang -n '__fish_seen_subcommand_from %s' -l %s", p->command,
            opt->name);
    if (opt->brief) fprintf(out, " -%c %s", opt->brief[1] ? 'o' : 's', opt->brief);
    if (opt->also) fprintf(out, " -l %s", opt->also);
    if (kind == VALUE_FILE) fputs(" -r -F", out);
    if (kind == VALUE_FREE) fputs(" -x", out);
    if (kind == VALUE_CHOICE || kind == VALUE_SETTING) {
        fputs(" -x -a '", out);
        if (kind == VALUE_CHOICE) put_choices(out, opt);
        if (kind == VALUE_SETTING) put_setting_keys(out);
        fputc('\'', out);
    }
    fputs(" -d '", out);
    put_short(out, opt->help ? opt->help : "");
    fputs("'\n", out);
}

static void write_fish(const pages *all, const char *folder) {
    FILE *out = open_document(folder, "fish/kentang.fish");
    const page *first;
    fputs("# fish completion for kentang, made from its option tables by tools/docs\n"
          "complete -c kentang -n __fish_use_subcommand -f\n"
          "complete -c kentang -n __fish_use_subcommand -l help -s h -d 'the commands'\n"
          "complete -c kentang -n __fish_use_subcommand -l version -d 'the version'\n"
          "complete -c kentang -n __fish_use_subcommand -a help -d 'the options of a command'\n"
          "complete -c kentang -n '__fish_seen_subcommand_from help' -x -a '",
          out);
    put_commands(out, all);
    fputs("'\n", out);
    for (size_t at = 0; at < all->n;) {
        size_t n = take_command(all, &at, &first);
        fprintf(out, "complete -c kentang -n __fish_use_subcommand -a %s -d '", first->command);
        put_short(out, first->summary);
        fputs("'\n", out);
        each_option(out, first, n, fish_option);
        fprintf(out,
                "complete -c kentang -n '__fish_seen_subcommand_from %s' -l help -s h -d 'the "
                "options'\n",
                first->command);
    }
    close_document(out);
}

void write_completions(const pages *all, const char *folder) {
    write_bash(all, folder);
    write_zsh(all, folder);
    write_fish(all, folder);
}
