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

static const char *own_text(const other_name *row) {
    return row->text;
}

/* "top-k" and "top_k" are the same name. */
static bool is_same_name(const char *setting, const char *option) {
    for (; *setting && *option; setting++, option++)
        if (*setting != *option && !(*setting == '_' && *option == '-')) return false;
    return *setting == *option;
}

/* The setting of a row; options that have their setting's name share one text. */
static const char *setting_text(const other_name *row) {
    static const char sampling[] = "sampling.";
    size_t n = sizeof sampling - 1;
    if (is_same_name(row->text, row->name)) return "NAME";
    if (!strncmp(row->text, sampling, n) && is_same_name(row->text + n, row->name))
        return "sampling.NAME";
    return row->text;
}

static bool is_repeated(const other_name *rows, size_t i) {
    for (size_t j = 0; j < i; j++)
        if (!strcmp(rows[j].command, rows[i].command) && !strcmp(rows[j].name, rows[i].name))
            return true;
    return false;
}

/* How a table's rows are put together: by the text of each, and how that is written. */
typedef struct table_kind {
    const char *head;
    const char *(*text)(const other_name *row);
    void (*put)(FILE *out, const char *text);
} table_kind;

static bool is_alike(const table_kind *kind, const other_name *a, const other_name *b) {
    return !strcmp(a->command, b->command) && !strcmp(kind->text(a), kind->text(b));
}

static void put_names(FILE *out, const table_kind *kind, const other_name *rows, size_t n,
                      size_t first) {
    for (size_t i = first; i < n; i++)
        if (is_alike(kind, &rows[i], &rows[first]) && !is_repeated(rows, i))
            fprintf(out, " `%s%s`", strlen(rows[i].name) > 2 ? "--" : "-", rows[i].name);
}

/* A table of n rows: what is done, then the options that do it. */
static void put_table(FILE *out, const table_kind *kind, const other_name *rows, size_t n) {
    fprintf(out, "| %s | options |\n|---|---|\n", kind->head);
    for (size_t i = 0; i < n; i++) {
        bool done = is_repeated(rows, i);
        for (size_t j = 0; j < i && !done; j++) done = is_alike(kind, &rows[j], &rows[i]);
        if (done) continue;
        fputs("| ", out);
        kind->put(out, kind->text(&rows[i]));
        fputs(" |", out);
        if (strcmp(rows[i].command, "serve") != 0)
            fprintf(out, " %s:", *rows[i].command ? rows[i].command : "all");
        put_names(out, kind, rows, n, i);
        fputs(" |\n", out);
    }
}

void write_coming(FILE *out) {
    const table_kind sets = {"sets", setting_text, put_setting};
    const table_kind because = {"because", own_text, put_text};
    const table_kind instead = {"instead", own_text, put_text};
    fputs(
        "# Coming from llama-server, llama-cli or Ollama\n\n"
        "For those who have a command line or a set-up for one of these. `kentang serve` and `kentang run` take their options:\n"
        "with the same meaning where kentang has it by that name (`kentang serve --help`), else as these tables say: those of `serve`,\n"
        "unless another command or \"all\" is named. `build/kt_docs --coming >docs/COMING.md` makes this page.\n\n"
        "## Options that set something\n\nNAME is the option's own, with _ for -.\n\n",
        out);
    put_table(out, &sets, settings, sizeof settings / sizeof *settings);
    fputs("\n## Options without effect\n\nThey are accepted, with a line that names them.\n\n",
          out);
    put_table(out, &because, ignored, sizeof ignored / sizeof *ignored);
    fputs("\n## Options that are refused\n\n", out);
    put_table(out, &instead, replaced, sizeof replaced / sizeof *replaced);
    fputs(
        "\n## Variables of the environment\n\n`kentang serve` reads these as the options next to them; an option that is "
        "given wins.\n\n",
        out);
    fputs(variables, out);
}
