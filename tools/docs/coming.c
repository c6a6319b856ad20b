/* docs/COMING.md: what the options and variables of llama-server, llama-cli and Ollama mean here, from the rows of
 * term/other_names.def; options that mean the same share a row. */
#include "docs.h"

#include <stdbool.h>
#include <string.h>

/* An option of another program: the command that takes it ("": each), and what it does here. */
typedef struct other_name {
    const char *command, *name, *text;
} other_name;

static const other_name settings[] = {
#define SETS(command, name, key) {command, name, key},
#include "term/other_names.def"
};
static const other_name ignored[] = {
#define IGNORED(command, name, value, why) {command, name, why},
#include "term/other_names.def"
};
static const other_name replaced[] = {
#define INSTEAD(command, name, what) {command, name, what},
#include "term/other_names.def"
};

/* A line each; the blanks at its end break it on the page. */
static const char variables[] =
#define VARIABLE(name, option, value) "`" name "`: `--" option "`  \n"
#include "term/other_names.def"
    ;

/* A bar would end a cell. */
static void put_cell(FILE *out, const char *text) {
    for (; *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

/* "web=false": `web` to false; "seed": `seed`; "blas=%": `blas`. */
static void put_setting(FILE *out, const char *key) {
    size_t n = strcspn(key, "=");
    fprintf(out, "`%.*s`", (int)n, key);
    if (key[n] && !strchr(key + n, '%')) fprintf(out, " to %s", key + n + 1);
}

static void put_text(FILE *out, const char *text) {
    put_cell(out, text);
}

static bool is_alike(const other_name *a, const other_name *b) {
    return !strcmp(a->command, b->command) && !strcmp(a->text, b->text);
}

static bool is_repeated(const other_name *rows, size_t i) {
    for (size_t j = 0; j < i; j++)
        if (!strcmp(rows[j].command, rows[i].command) && !strcmp(rows[j].name, rows[i].name))
            return true;
    return false;
}

/* A table of n rows: what is done, then the options that do it. */
static void put_table(FILE *out, const char *what, const other_name *rows, size_t n,
                      void (*put)(FILE *, const char *)) {
    fprintf(out, "| %s | options |\n|---|---|\n", what);
    for (size_t i = 0; i < n; i++) {
        bool done = is_repeated(rows, i);
        for (size_t j = 0; j < i && !done; j++) done = is_alike(&rows[j], &rows[i]);
        if (done) continue;
        fputs("| ", out);
        put(out, rows[i].text);
        fputs(" |", out);
        if (strcmp(rows[i].command, "serve") != 0)
            fprintf(out, " %s:", *rows[i].command ? rows[i].command : "all");
        for (size_t j = i; j < n; j++)
            if (is_alike(&rows[j], &rows[i]) && !is_repeated(rows, j))
                fprintf(out, " `%s%s`", strlen(rows[j].name) > 2 ? "--" : "-", rows[j].name);
        fputs(" |\n", out);
    }
}

void write_coming(FILE *out) {
    fputs(
        "# Coming from llama-server, llama-cli or Ollama\n\n"
        "For those who have a command line or a set-up for one of these. `kentang serve` and `kentang run` take their options:\n"
        "with the same meaning where kentang has it by that name (`kentang serve --help`), else as these tables say: those of `serve`,\n"
        "unless another command or \"all\" is named. `build/kt_docs --coming >docs/COMING.md` makes this page.\n\n"
        "## Options that set something\n\n",
        out);
    put_table(out, "sets", settings, sizeof settings / sizeof *settings, put_setting);
    fputs("\n## Options without effect\n\nThey are accepted, with a line that names them.\n\n",
          out);
    put_table(out, "because", ignored, sizeof ignored / sizeof *ignored, put_text);
    fputs("\n## Options that are refused\n\n", out);
    put_table(out, "instead", replaced, sizeof replaced / sizeof *replaced, put_text);
    fputs(
        "\n## Variables of the environment\n\n`kentang serve` reads these as the options next to them; an option that is "
        "given wins.\n\n",
        out);
    fputs(variables, out);
}
