/* kentang: finds the subcommand. */
#include <signal.h>
#include <string.h>

#include "base/nearest.h"
#include "term/cli.h"
#include "term/options.h"

static const struct {
    const char *name, *summary;
    kt__cmd_fn *run;
} commands[] = {
#define X(name, function, summary) {#name, summary, function},
#include "term/commands.def"
#undef X
    {NULL, NULL, NULL}, /* the list's end, which may be all of it */
};
enum { N_COMMANDS = (int)KT__COUNT(commands) - 1 };

static const struct {
    int code;
    const char *text;
} exit_codes[] = {
#define X(name, exit_code, text) {exit_code, text},
    KT_STATUS_LIST(X)
#undef X
};

static void print_help(FILE *out) {
    fputs("kentang " KT_VERSION ": language models on small computers\n\n"
          "Usage: kentang COMMAND [OPTIONS]\n\nCommands:\n",
          out);
    for (int i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-14s%s\n", commands[i].name, commands[i].summary);
    }
    fputs("  help COMMAND  the options of a command (also: kentang COMMAND --help)\n\n"
          "Options:\n  -h, --help    this text\n  --version     the program's version\n\n"
          "Exit codes:\n  0   success\n",
          out);
    for (size_t i = 1; i < KT__COUNT(exit_codes); i++) {
        fprintf(out, "  %-4d%s\n", exit_codes[i].code, exit_codes[i].text);
    }
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
    static const char *const words[] = {"status", "list", "export", "rollback",
                                        "freeze", "thaw", "delete", "train"};
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
    signal(SIGXFSZ,
           SIG_IGN); /* a file over its limit is a failed write, which is told and cleaned up */
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
