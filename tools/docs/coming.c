/* docs/COMING.md: what the options and variables of llama-server, llama-cli and Ollama mean here, from the rows of
 * term/other_names.def. */
#include "docs.h"

#include <string.h>

/* A bar would end a cell. */
static void put_cell(FILE *out, const char *text) {
    for (; *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void put_row(FILE *out, const char *command, const char *name, const char *what,
                    const char *more) {
    fprintf(out, "| %s | `%s%s` | %s", *command ? command : "all", strlen(name) > 2 ? "--" : "-",
            name, what);
    put_cell(out, more);
    fputs(" |\n", out);
}

static void put_setting(FILE *out, const char *command, const char *name, const char *key) {
    const char *equal = strchr(key, '=');
    char what[160];
    bool fixed = equal && !strchr(equal, '%');
    snprintf(what, sizeof what, "sets `%.*s`%s%s", equal ? (int)(equal - key) : (int)strlen(key),
             key, fixed ? " to " : "", fixed ? equal + 1 : "");
    put_row(out, command, name, what, "");
}

void write_coming(FILE *out) {
    fputs(
        "# Coming from llama-server, llama-cli or Ollama\n\n"
        "For those who have a command line or a set-up for one of these. `kentang serve` and `kentang run` take their options:\n"
        "with the same meaning where kentang has it by that name (`kentang serve --help`), else as this table says. It is made\n"
        "from the program's own table by `build/kt_docs --coming >docs/COMING.md`.\n\n"
        "| command | option | here |\n|---|---|---|\n",
        out);
#define SETS(command, name, key) put_setting(out, command, name, key);
#include "term/other_names.def"
#define IGNORED(command, name, value, why) put_row(out, command, name, "no effect: ", why);
#include "term/other_names.def"
#define INSTEAD(command, name, what) put_row(out, command, name, "refused; instead ", what);
#include "term/other_names.def"
    fputs(
        "\n## Variables of the environment\n\n`kentang serve` reads these as the options next to them; an option that is given "
        "wins.\n\n| variable | option |\n|---|---|\n",
        out);
#define VARIABLE(name, option, value) fprintf(out, "| `%s` | `--%s` |\n", name, option);
#include "term/other_names.def"
}
