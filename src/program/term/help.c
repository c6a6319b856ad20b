/* --help, made from a command's option tables. Alone in its file: tools/docs brings a
 * kt__cli_print_help of its own, which takes down the tables for manual pages and completions. */
#include <stdio.h>
#include <string.h>

#include "term/options.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 96 };

/* Prints text from the current column `at`, broken at spaces, every line beginning at HELP_COLUMN.
 */
static void print_wrapped(const char *text, int at) {
    while (*text) {
        size_t len = strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + (int)len > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        } else if (at > HELP_COLUMN) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)len, text);
        at += (int)len;
        text += len;
        while (*text == ' ') text++;
    }
    putchar('\n');
}

static void print_option(const kt__opt *opt) {
    char left[160];
    int len = snprintf(left, sizeof left, "  %s%s%s--%s%s", opt->brief ? "-" : "    ",
                       opt->brief ? opt->brief : "", opt->brief ? ", " : "",
                       kt__opt_negatable(opt) ? "[no-]" : "", opt->name);
    if (kt__opt_takes_value(opt)) {
        const char *arg = opt->arg ? opt->arg : opt->choices ? opt->choices : "VALUE";
        len += snprintf(left + len, sizeof left - (size_t)len, " %s", arg);
    }
    fputs(left, stdout);
    if (len < HELP_COLUMN) {
        printf("%*s", HELP_COLUMN - len, "");
    } else {
        printf("\n%*s", HELP_COLUMN, "");
    }
    print_wrapped(opt->help ? opt->help : "", HELP_COLUMN);
}

void kt__cli_print_help(const kt__syntax *syntax) {
    printf("Usage: kentang %s %s\n", syntax->command, syntax->usage ? syntax->usage : "");
    if (syntax->about) printf("\n%s\n", syntax->about);
    for (size_t g = 0; g < syntax->n_groups; g++) {
        printf("\n%s:\n", syntax->groups[g].title);
        for (size_t i = 0; i < syntax->groups[g].n_opts; i++) {
            print_option(&syntax->groups[g].opts[i]);
        }
    }
    printf("%s  -h, --help                  this text\n", syntax->n_groups ? "" : "\nOptions:\n");
    if (syntax->notes) printf("\n%s\n", syntax->notes);
    printf("\nExit codes: 0 success, 2 wrong usage, others are listed in kentang(1).\n");
}
