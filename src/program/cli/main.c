/* kentang: finds the subcommand. */
#include <string.h>

#include "base/text.h"
#include "term/cli.h"
#include "term/options.h"
#include "term/terminal.h"

static const struct {
    const char *name, *group, *summary;
    bool shown;
    kt__cmd_fn *run;
} commands[] = {
#define X(name, function, group, shown, summary) {#name, group, summary, shown, function},
#include "term/commands.def"
#undef X
    {NULL, NULL, NULL, false, NULL}, /* the list's end, which may be all of it */
};
enum { N_COMMANDS = (int)KT__COUNT(commands) - 1 };

enum { HELP_WIDTH = 80 };

/* A line of --help: the group's title before its first command, then `left` and `right`. */
static void print_row(FILE *out, const char *title, const char *left, const char *right) {
    fprintf(out, "%-8s%-11s%s\n", title, left, right);
}

/* The names of a group's other commands, on a line of their own. */
static void print_names(FILE *out, const char *group, bool titled) {
    char line[HELP_WIDTH] = "";
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].group, group) != 0 || commands[i].shown) continue;
        size_t len = strlen(line);
        snprintf(line + len, sizeof line - len, "%s%s", len ? ", " : "", commands[i].name);
    }
    if (*line && titled) print_row(out, "", "and also", line);
    if (*line && !titled) fprintf(out, "%s: %s\n", group, line);
}

static void print_group(FILE *out, const char *group) {
    bool titled = false;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].group, group) != 0 || !commands[i].shown) continue;
        print_row(out, titled ? "" : group, commands[i].name, commands[i].summary);
        titled = true;
    }
    print_names(out, group, titled);
}

static void print_help(FILE *out) {
    fputs("kentang " KT_VERSION ": language models on small computers\n"
          "Usage: kentang COMMAND [OPTIONS]\n\n",
          out);
    for (int i = 0; i < N_COMMANDS; i++) {
        if (i == 0 || strcmp(commands[i].group, commands[i - 1].group) != 0)
            print_group(out, commands[i].group);
    }
    fputs("Options of a command: kentang help COMMAND    Version: kentang --version\n", out);
}

static int unknown_command(const char *name) {
    const char *names[N_COMMANDS + 1];
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    names[N_COMMANDS] = "help";
    const char *near = kt__nearest_name(name, strlen(name), names, N_COMMANDS + 1);
    if (!near) return kt__cli_usage_error(NULL, "unknown command \"%.80s\"", name);
    return kt__cli_usage_error(NULL, "unknown command \"%.80s\"; did you mean \"%s\"?", name, near);
}

static int run_command(const char *name, int argc, char **argv) {
    for (int i = 0; i < N_COMMANDS; i++) {
        if (!strcmp(commands[i].name, name)) {
            return kt__cli_finish(name, commands[i].run(argc, argv));
        }
    }
    return unknown_command(name);
}

/* `kentang learn status` is `kentang learned status`: a file to learn from has another name. */
static const char *command_meant(int argc, char **argv) {
    static const char *const words[] = {"status", "list",     "entries", "opens",  "edit",
                                        "export", "train",    "probe",   "freeze", "thaw",
                                        "delete", "rollback", "judge"};
    for (size_t i = 0; argc > 2 && !strcmp(argv[1], "learn") && i < KT__COUNT(words); i++) {
        if (!strcmp(argv[2], words[i])) return "learned";
    }
    return argv[1];
}

static int run_help(int argc, char **argv) {
    if (argc < 2) {
        print_help(stdout);
        return kt__cli_finish(NULL, 0);
    }
    char flag[] = "--help";
    char *args[] = {argv[1], flag, NULL};
    return run_command(argv[1], 2, args);
}

int main(int argc, char **argv) {
    kt__limits_fail_writes();
    if (argc < 2) {
        print_help(stderr);
        return KT__EXIT_USAGE;
    }
    const char *first = command_meant(argc, argv);
    if (!strcmp(first, "help") || !strcmp(first, "--help") || !strcmp(first, "-h")) {
        return run_help(argc - 1, argv + 1);
    }
    if (!strcmp(first, "--version") || !strcmp(first, "version")) {
        printf("kentang %s (numerics %d)\n", kt_version(), KENTANG_NUMERICS);
        return kt__cli_finish(NULL, 0);
    }
    if (first[0] == '-') {
        return kt__cli_usage_error(NULL, "unknown option %.80s; a command comes first", first);
    }
    return run_command(first, argc - 1, argv + 1);
}
