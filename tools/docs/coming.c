/* docs/COMING.md: what the options and variables of llama-server, llama-cli and Ollama mean here, from the rows of
 * term/other_names.def; options that mean the same share a row. */
#include "docs.h"

#include <ctype.h>
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

typedef struct variable {
    const char *name, *option;
} variable;

static const variable variables[] = {
#define VARIABLE(name, option, value) {name, option},
#include "term/other_names.def"
};

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

/* The length of the shortest beginning, of two words or more, that three options at least of rows[first]'s cell
 * have and no other row has; 0: there is none. */
static size_t shared_beginning(const table_kind *kind, const other_name *rows, size_t n,
                               size_t first, const char *name) {
    const char *dash = strchr(name, '-');
    while (dash && (dash = strchr(dash + 1, '-'))) {
        size_t len = (size_t)(dash - name) + 1, n_alike = 0, n_others = 0;
        for (size_t i = 0; i < n; i++) {
            if (strncmp(rows[i].name, name, len) != 0 || is_repeated(rows, i)) continue;
            *(is_alike(kind, &rows[i], &rows[first]) ? &n_alike : &n_others) += 1;
        }
        if (n_alike >= 3 && !n_others) return len;
    }
    return 0;
}

/* -hfr of --hf-repo, -td of --threads-draft: it begins alike, and its letters are in the other in their order. */
static bool is_short_for(const char *brief, const char *name) {
    if (strchr(brief, '-') || strlen(brief) > 6 || strlen(name) < 2 * strlen(brief)) return false;
    bool begins = *brief == *name;
    for (; *name && *brief; name++)
        if (*name == *brief) brief++;
    return begins && !*brief;
}

static bool has_long_form(const table_kind *kind, const other_name *rows, size_t n, size_t first,
                          const char *brief) {
    for (size_t i = first; i < n; i++)
        if (is_alike(kind, &rows[i], &rows[first]) && is_short_for(brief, rows[i].name))
            return true;
    return false;
}

/* Many of one beginning are written once, with a star; short forms are left out. */
static void put_names(FILE *out, const table_kind *kind, const other_name *rows, size_t n,
                      size_t first) {
    const char *star = "";
    for (size_t i = first; i < n; i++) {
        const char *name = rows[i].name;
        if (!is_alike(kind, &rows[i], &rows[first]) || is_repeated(rows, i)) continue;
        if (has_long_form(kind, rows, n, first, name)) continue;
        size_t len = shared_beginning(kind, rows, n, first, name);
        if (len && !strncmp(star, name, len)) continue;
        star = len ? name : "";
        fprintf(out, " `%s%.*s%s`", strlen(name) > 2 ? "--" : "-", (int)(len ? len : strlen(name)),
                name, len ? "*" : "");
    }
}

/* LLAMA_ARG_CTX_SIZE and ctx-size: the beginning apart, one name. */
static bool is_named_alike(const variable *v) {
    static const char head[] = "LLAMA_ARG_";
    size_t n = sizeof head - 1;
    if (strncmp(v->name, head, n) != 0 || strlen(v->name) - n != strlen(v->option)) return false;
    for (const char *a = v->name + n, *b = v->option; *a; a++, b++)
        if (tolower((unsigned char)*a) != *b && !(*a == '_' && *b == '-')) return false;
    return true;
}

/* Those that are named as their option after one another, the others with theirs, a line each: the blanks at its
 * end break it on the page. */
static void put_variables(FILE *out) {
    size_t n = sizeof variables / sizeof *variables;
    fputs("`LLAMA_ARG_` and the option's name in capitals, with _ for -:", out);
    for (size_t i = 0; i < n; i++)
        if (is_named_alike(&variables[i])) fprintf(out, " `--%s`", variables[i].option);
    fputs("\n\n", out);
    for (size_t i = 0; i < n; i++)
        if (!is_named_alike(&variables[i]))
            fprintf(out, "`%s`: `--%s`  \n", variables[i].name, variables[i].option);
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
        "unless another command or \"all\" is named. Short forms (-ngl of --n-gpu-layers) are left out here. `build/kt_docs --coming >docs/COMING.md` makes this page.\n\n"
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
    put_variables(out);
}
