/* Manual pages in the man macros: kentang(1), one a command, kentang.toml(5). */
#include <string.h>

#include "base/buf.h"
#include "docs.h"
#include "setup/config.h"
#include "term/cli.h"

/* ---- text ---- */

/* Text as it stands: what roff would take for its own is escaped. */
static void put_chars(FILE *out, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        switch (text[i]) {
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '\'': fputs("\\(aq", out); break;
        case '`': fputs("\\(ga", out); break;
        case '^': fputs("\\(ha", out); break;
        case '~': fputs("\\(ti", out); break;
        default: putc(text[i], out);
        }
    }
}

static void put_text(FILE *out, const char *text) {
    if (*text == '.') fputs("\\&", out);
    put_chars(out, text, strlen(text));
}

/* "kentang-run", in bold or as an argument */
static void put_name(FILE *out, const char *command) {
    fputs("kentang", out);
    if (command) fputs("\\-", out), put_text(out, command);
}

static void begin_page(FILE *out, const char *title, int section, const char *name,
                       const char *summary) {
    fprintf(out, ".\\\" Made from the option and settings tables by tools/docs.\n.TH ");
    for (; *title; title++) {
        if (*title == '-') {
            fputs("\\-", out);
        } else {
            putc(*title >= 'a' && *title <= 'z' ? *title - 32 : *title, out);
        }
    }
    fprintf(out, " %d \"\" \"kentang %s\" \"kentang\"\n.SH NAME\n", section, KT_VERSION);
    put_text(out, name);
    fputs(" \\- ", out);
    put_text(out, summary);
    putc('\n', out);
}

static bool is_examples(const char *line, size_t len) {
    return (len == 9 && !memcmp(line, "Examples:", 9)) ||
           (len == 8 && !memcmp(line, "Example:", 8));
}

/* Lines of text: those that begin with two spaces stand as they are, an empty one begins a
 * paragraph, "Examples:" a section. */
static void put_block(FILE *out, const char *text) {
    bool literal = false;
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool indented = len > 2 && text[0] == ' ' && text[1] == ' ';
        if (indented && !literal) fputs(".RS 4\n.nf\n", out);
        if (!indented && literal) fputs(".fi\n.RE\n", out);
        literal = indented;
        if (is_examples(text, len)) {
            fputs(".SH EXAMPLES\n", out);
        } else if (!len && text[1] && !is_examples(text + 1, strcspn(text + 1, "\n"))) {
            fputs(".PP\n", out);
        } else if (len) {
            const char *from = indented ? text + 2 : text;
            if (*from == '.') fputs("\\&", out);
            put_chars(out, from, len - (size_t)(from - text));
            putc('\n', out);
        }
        text += len + (text[len] == '\n');
    }
    if (literal) fputs(".fi\n.RE\n", out);
}

/* ---- a command ---- */

static void put_option_name(FILE *out, const char *dashes, const char *name, const char *before) {
    if (!name) return;
    fputs(before, out);
    fputs("\\fB", out);
    put_text(out, dashes);
    put_text(out, name);
    fputs("\\fR", out);
}

static void put_option(FILE *out, const kt__opt *opt) {
    fputs(".TP\n", out);
    put_option_name(out, "-", opt->brief, "");
    put_option_name(out, "--", opt->name, opt->brief ? ", " : "");
    put_option_name(out, "--", opt->also, ", ");
    if (kt__opt_takes_value(opt)) {
        fputs(" \\fI", out);
        put_text(out, opt->arg ? opt->arg : opt->choices ? opt->choices : "VALUE");
        fputs("\\fR", out);
    }
    putc('\n', out);
    put_text(out, opt->help ? opt->help : "");
    fputs(opt->kind == KT__OPT_TEXTS && !strstr(opt->help, "repeat") ? "; may be repeated.\n"
                                                                     : ".\n",
          out);
}

static void put_synopsis(FILE *out, const page *p) {
    fputs(".B kentang ", out);
    put_text(out, p->command);
    putc('\n', out);
    put_text(out, p->usage);
    putc('\n', out);
}

/* Notes up to the examples; *rest: those. */
static void put_notes(FILE *out, const char *notes, const char **rest) {
    char before[4096];
    const char *at = strstr(notes, "Example");
    while (at && at != notes && at[-1] != '\n') at = strstr(at + 1, "Example");
    if (at && !is_examples(at, strcspn(at, "\n"))) at = NULL;
    size_t len = at ? (size_t)(at - notes) : strlen(notes);
    *rest = at ? at : "";
    if (!len) return;
    snprintf(before, sizeof before, "%.*s", (int)len, notes);
    fputs(".PP\n", out);
    put_block(out, before);
}

static void put_command_page(const page *const *parts, size_t n, const char *folder) {
    char name[128], file[160];
    const char *examples[4];
    snprintf(name, sizeof name, "kentang-%s", parts[0]->command);
    snprintf(file, sizeof file, "man/man1/%s.1", name);
    FILE *out = open_document(folder, file);
    begin_page(out, name, 1, name, parts[0]->summary);
    fputs(".SH SYNOPSIS\n", out);
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(".PP\n", out);
        put_synopsis(out, parts[i]);
    }
    fputs(".SH DESCRIPTION\n", out);
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(".PP\n", out);
        put_block(out, *parts[i]->about ? parts[i]->about : parts[i]->summary);
        put_notes(out, parts[i]->notes, &examples[i]);
    }
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < n; i++) {
        for (size_t g = 0; g < parts[i]->n_groups; g++) {
            fputs(".SS ", out);
            put_text(out, parts[i]->groups[g].title);
            putc('\n', out);
            for (size_t k = 0; k < parts[i]->groups[g].n_opts; k++)
                put_option(out, &parts[i]->groups[g].opts[k]);
        }
    }
    fputs(".SS Help\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nThe options, shorter.\n", out);
    for (size_t i = 0; i < n; i++) put_block(out, examples[i]);
    fputs(
        ".SH EXIT STATUS\n0 on success, 2 after wrong usage; the others are listed in\n.BR kentang "
        "(1).\n"
        ".SH SEE ALSO\n.BR kentang (1)",
        out);
    if (!strcmp(parts[0]->command, "serve")) fputs(",\n.BR kentang.toml (5)", out);
    putc('\n', out);
    close_document(out);
}

/* ---- kentang(1) ---- */

static const char *const environment[][2] = {
    {"KENTANG_ISA", "kernel tier, where --isa is not given"},
    {"KENTANG_CONFIG", "configuration file of kentang serve, where --config is not given"},
    {"KENTANG_SOCKET_PATH", "the Unix socket of serve, ps and stop, where --socket is not given"},
    {"KENTANG_*", "any setting of kentang serve; see kentang.toml(5)"},
    {"XDG_CONFIG_HOME",
     "holds kentang/kentang.toml and what kentang tune found (default: ~/.config)"},
    {"XDG_RUNTIME_DIR", "holds the Unix socket, kentang.sock"},
    {"TMPDIR", "where doctor and bench put the file that they measure reading with"},
};

static const struct {
    int code;
    const char *text;
} exit_codes[] = {
#define X(name, exit_code, text) {exit_code, text},
    KT_STATUS_LIST(X)
#undef X
};

static void put_main_page(const pages *all, const char *folder) {
    FILE *out = open_document(folder, "man/man1/kentang.1");
    begin_page(out, "kentang", 1, "kentang", "language models on small computers");
    fputs(
        ".SH SYNOPSIS\n.B kentang\n.I COMMAND\n[OPTIONS]\n.SH DESCRIPTION\n"
        "Runs language models in GGUF files on processors: a prompt or a conversation, files of "
        "requests, a server, and tools to look into models and machines. Answers go to standard "
        "output, everything else to standard error. The same model, prompt, options and seed give "
        "the same answer on every machine.\n.SH COMMANDS\n",
        out);
    for (size_t i = 0; i < all->n; i++) {
        if (i && !strcmp(all->items[i].command, all->items[i - 1].command)) continue;
        fputs(".TP\n.BR ", out);
        put_name(out, all->items[i].command);
        fputs(" (1)\n", out);
        put_text(out, all->items[i].summary);
        putc('\n', out);
    }
    fputs(".TP\n\\fBkentang help\\fR \\fICOMMAND\\fR\nThe options of a command.\n.SH OPTIONS\n"
          ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nThe commands.\n"
          ".TP\n\\fB\\-\\-version\\fR\nThe program\\(aqs version.\n.SH EXIT STATUS\n"
          ".TP\n0\nsuccess\n",
          out);
    for (size_t i = 1; i < KT__COUNT(exit_codes); i++) {
        fprintf(out, ".TP\n%d\n", exit_codes[i].code);
        put_text(out, exit_codes[i].text);
        putc('\n', out);
    }
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < KT__COUNT(environment); i++) {
        fputs(".TP\n.B ", out);
        put_text(out, environment[i][0]);
        putc('\n', out);
        put_text(out, environment[i][1]);
        putc('\n', out);
    }
    fputs(".SH SEE ALSO\n.BR kentang.toml (5)\n", out);
    close_document(out);
}

/* ---- kentang.toml(5) ---- */

static void put_default(FILE *out, const kt__config *config, const kt__setting *s) {
    kt__buf value;
    kt__buf_init(&value, 4096);
    kt__config_print_value(config, s, &value);
    fputs("Default: ", out);
    put_text(out, value.data ? value.data : "");
    kt__buf_free(&value);
    bool whole = s->kind == KT__SET_INT || s->kind == KT__SET_SIZE;
    if (s->kind == KT__SET_FLOAT || (whole && s->high > 0)) {
        fputs("; ", out);
        char range[96];
        snprintf(range, sizeof range, whole ? "%.0f to %.0f" : "%g to %g", s->low, s->high);
        put_text(out, range);
    }
    fputs(s->live ? "; a reload applies it.\n" : "; needs a restart.\n", out);
}

static void put_setting(FILE *out, const kt__config *config, const kt__setting *s) {
    fputs(".TP\n.B ", out);
    put_text(out, s->key);
    putc('\n', out);
    put_text(out, s->help);
    fputs(".\n", out);
    put_default(out, config, s);
}

static size_t table_len(const kt__setting *s) {
    const char *dot = strchr(s->key, '.');
    return dot ? (size_t)(dot - s->key) : 0;
}

static bool same_table(const kt__setting *a, const kt__setting *b) {
    return table_len(a) == table_len(b) && !memcmp(a->key, b->key, table_len(a));
}

/* Tables in the order in which the list first names them, each whole. */
static void put_settings(FILE *out, const kt__config *config) {
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = same_table(&settings[i], &settings[k]);
        if (seen) continue;
        fputs(".SS ", out);
        if (table_len(&settings[i])) {
            fprintf(out, "[%.*s]\n", (int)table_len(&settings[i]), settings[i].key);
        } else {
            fputs("Outside of tables\n", out);
        }
        for (size_t k = i; k < n; k++) {
            if (same_table(&settings[i], &settings[k])) put_setting(out, config, &settings[k]);
        }
    }
}

static void put_config_page(const char *folder) {
    kt_error err;
    kt__config *config;
    FILE *out = open_document(folder, "man/man5/kentang.toml.5");
    begin_page(out, "kentang.toml", 5, "kentang.toml", "configuration of kentang serve");
    fputs(
        ".SH DESCRIPTION\n"
        "A TOML file that\n.BR kentang\\-serve (1)\nlooks for in "
        "\\fI$XDG_CONFIG_HOME/kentang/\\fR (or \\fI\\(ti/.config/kentang/\\fR) and "
        "\\fI/etc/kentang/\\fR, or that \\-\\-config or KENTANG_CONFIG names. It is read again at "
        "SIGHUP.\n.PP\nLater wins: this file, the file \\fI.env\\fR in the working directory, the "
        "environment, options. In the environment a setting is called KENTANG_ and its key in "
        "capitals, with dots as underscores: KENTANG_HTTP_LISTEN is http.listen. "
        "\\fBkentang serve \\-\\-set\\fR \\fIKEY\\fR=\\fIVALUE\\fR sets any of them. "
        "\\fBkentang serve \\-\\-check\\fR prints the result.\n.PP\n"
        "Sizes are numbers of bytes or texts such as \"512M\" and \"3G\". Paths may begin with "
        "\\(ti/, the home directory. A list is an array of texts; in the environment its items "
        "are separated by commas.\n.PP\n"
        "Several models are served with a table each, \\fB[[models]]\\fR: \\fBname\\fR (what "
        "requests call it; default: from the file\\(aqs name), \\fBpath\\fR (the GGUF file; "
        "default: the demo model) and \\fBdraft_model\\fR.\n.SH SETTINGS\n",
        out);
    if (kt__config_create(&config, &err) == KT_OK) {
        put_settings(out, config);
        kt__config_free(config);
    }
    fputs(
        ".SH EXAMPLES\n.RS 4\n.nf\nctx = 8192\nmem = \"6G\"\n\n[http]\nlisten = \"0.0.0.0:8000\"\n"
        "keys = \"/etc/kentang/keys\"\n\n[[models]]\nname = \"small\"\n"
        "path = \"/srv/models/small.gguf\"\n.fi\n.RE\n.SH SEE ALSO\n.BR kentang (1),\n"
        ".BR kentang\\-serve (1)\n",
        out);
    close_document(out);
}

void write_man_pages(const pages *all, const char *folder) {
    put_main_page(all, folder);
    put_config_page(folder);
    for (size_t i = 0; i < all->n;) {
        const page *parts[4];
        size_t n = 0;
        const char *command = all->items[i].command;
        while (i < all->n && n < KT__COUNT(parts) && !strcmp(all->items[i].command, command))
            parts[n++] = &all->items[i++];
        put_command_page(parts, n, folder);
    }
}
