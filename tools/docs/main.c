/* kt_docs FOLDER: writes the manual pages and completions of kentang below FOLDER; kt_docs --coming: docs/COMING.md on
 * standard output. Each command is
 * run with --help; kt__cli_print_help, which the program has from src/program/term/options.c, is here what
 * takes its tables down. */
#include "docs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "term/cli.h"

static pages all;
static const char *summary_now; /* of the command that is run */

static _Noreturn void die(const char *what, const char *name) {
    fprintf(stderr, "kt_docs: %s %s: %s\n", what, name, strerror(errno));
    exit(1);
}

static char *copy_text(const char *text) {
    char *copy = strdup(text ? text : "");
    if (!copy) die("no memory for", "a text");
    return copy;
}

/* Tables of settings end with their command, so that they are copied; what can be negated has a row of its own for that. */
static kt__opt_group copy_group(const kt__opt_group *group) {
    kt__opt_group copy = *group;
    kt__opt *opts = calloc(2 * group->n_opts + 1, sizeof *opts);
    if (!opts) die("no memory for", "a table");
    copy.n_opts = 0;
    for (size_t i = 0; i < group->n_opts; i++) {
        kt__opt *opt = &opts[copy.n_opts++];
        *opt = group->opts[i];
        if (!kt__opt_negatable(opt)) continue;
        char name[64], help[80];
        snprintf(name, sizeof name, "no-%s", opt->name);
        snprintf(help, sizeof help, "the opposite of --%s", opt->name);
        opts[copy.n_opts++] = (kt__opt){
            .name = copy_text(name), .kind = KT__OPT_ON, .help = copy_text(help)};
    }
    copy.opts = opts;
    return copy;
}

void kt__cli_print_help(const kt__syntax *syntax) {
    if (all.n == MAX_PAGES || syntax->n_groups > MAX_GROUPS) die("too many", "pages or groups");
    page *p = &all.items[all.n++];
    p->command = copy_text(syntax->command);
    p->summary = summary_now;
    p->usage = copy_text(syntax->usage);
    p->about = copy_text(syntax->about);
    p->notes = copy_text(syntax->notes);
    p->n_groups = syntax->n_groups;
    for (size_t i = 0; i < p->n_groups; i++) p->groups[i] = copy_group(&syntax->groups[i]);
}

const kt__opt *option_at(const page *p, size_t index) {
    for (size_t g = 0; g < p->n_groups; g++) {
        if (index < p->groups[g].n_opts) return &p->groups[g].opts[index];
        index -= p->groups[g].n_opts;
    }
    return NULL;
}

value_kind kind_of_value(const kt__opt *opt) {
    static const char *const files[] = {"FILE", "PATH", "DIR", "TEXT.txt"};
    if (!kt__opt_takes_value(opt)) return VALUE_NONE;
    if (opt->choices) return VALUE_CHOICE;
    if (!opt->arg) return VALUE_FREE;
    if (!strcmp(opt->arg, "KEY=VALUE")) return VALUE_SETTING;
    for (size_t i = 0; i < KT__COUNT(files); i++) {
        if (strstr(opt->arg, files[i]) || !strcmp(opt->name, "file")) return VALUE_FILE;
    }
    return VALUE_FREE;
}

static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) die("cannot make", path);
        *slash = '/';
    }
}

FILE *open_document(const char *folder, const char *name) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        die("too long:", name);
    make_folders(path);
    FILE *out = fopen(path, "w");
    if (!out) die("cannot write", path);
    return out;
}

void close_document(FILE *out) {
    if (fflush(out) != 0 || ferror(out)) die("cannot write", "a document");
    fclose(out);
}

/* Runs a command with words of its own before --help. */
static void look_at(kt__cmd_fn *command, const char *name, const char *option, const char *value) {
    char *words[] = {copy_text(name), copy_text(option), copy_text(value), copy_text("--help")};
    char *short_words[] = {words[0], words[3], NULL};
    size_t before = all.n;
    int code = option ? command(4, words) : command(2, short_words);
    if (code != 0 || all.n != before + 1) die("no --help of", name);
    for (size_t i = 0; i < KT__COUNT(words); i++) free(words[i]);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--coming")) {
        write_coming(stdout);
        return 0;
    }
    if (argc != 2) {
        fputs("usage: kt_docs FOLDER\n", stderr);
        return 2;
    }
#define X(name, function, group, shown, text) \
    summary_now = text;                       \
    look_at(function, #name, NULL, NULL);     \
    if (function == kt__cmd_bench) look_at(function, #name, "--server", "URL");
#include "term/commands.def"
#undef X
    write_man_pages(&all, argv[1]);
    write_completions(&all, argv[1]);
    return 0;
}
