#include "setup/constraint_opts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "term/text_file.h"

enum { MAX_FILE_BYTES = 16 << 20 };

#define AT(member) offsetof(kt__constraint_opts, member)

static const kt__opt table[] = {
    {.name = "json-schema",
     .kind = KT__OPT_TEXT,
     .at = AT(schema),
     .arg = "FILE|TEXT",
     .help = "the answer is JSON that is valid by the schema in FILE, or by the text {...} itself"},
    {.name = "grammar",
     .also = "grammar-file",
     .kind = KT__OPT_TEXT,
     .at = AT(grammar),
     .arg = "FILE|TEXT",
     .help = "the answer is what the GBNF grammar in FILE takes, or the text with ::= itself"},
    {.name = "regex",
     .kind = KT__OPT_TEXT,
     .at = AT(regex),
     .arg = "PATTERN",
     .help = "the answer as a whole matches this regular expression"},
    {.name = "choice",
     .kind = KT__OPT_TEXTS,
     .at = AT(choices),
     .arg = "TEXT",
     .help = "the answer is this text; repeated: one of these"},
    {.name = "compact-json",
     .kind = KT__OPT_ON,
     .at = AT(compact),
     .help = "JSON has no white space between its parts; by default it has what models write by "
             "themselves"},
};

kt__opt_group kt__constraint_opts_group(kt__constraint_opts *opts) {
    return (kt__opt_group){"Form of the answer", table, KT__COUNT(table), opts};
}

/* A schema or a grammar in the command line, and no name of a file. */
static bool is_text(const kt__constraint_opts *opts) {
    if (opts->grammar) return strstr(opts->grammar, "::=") != NULL;
    const char *begin = opts->schema + strspn(opts->schema, " \t\r\n");
    return *begin == '{' || !strcmp(begin, "true") || !strcmp(begin, "false");
}

static kt_status read_form(kt__constraint_opts *opts, kt_error *err) {
    kt_form *form = &opts->form;
    const char *given = opts->schema ? opts->schema : opts->grammar;
    if (given) {
        form->kind = opts->schema ? KT_FORM_JSON_SCHEMA : KT_FORM_GRAMMAR;
        form->text = given;
        form->len = strlen(given);
        if (is_text(opts)) return KT_OK;
        kt_status status = kt__text_file_read(given, MAX_FILE_BYTES, false, &opts->text, &form->len,
                                              err);
        form->text = opts->text;
        return status;
    }
    form->kind = opts->regex ? KT_FORM_REGEX : KT_FORM_CHOICE;
    form->text = opts->regex;
    form->len = opts->regex ? strlen(opts->regex) : 0;
    form->choices = opts->choices.items;
    form->n_choices = opts->choices.n;
    return KT_OK;
}

kt_status kt__constraint_opts_finish(kt__constraint_opts *opts, kt_constraint *out, kt_error *err) {
    int n = (opts->schema != NULL) + (opts->grammar != NULL) + (opts->regex != NULL) +
            (opts->choices.n > 0);
    *out = (kt_constraint){0};
    if (n == 0) return KT_OK;
    if (n > 1)
        return kt__fail(err, KT_E_ARG,
                        "give one of --json-schema, --grammar, --regex and --choice");
    kt_status status = read_form(opts, err);
    if (status == KT_OK)
        *out = (kt_constraint){.forms = &opts->form, .n_forms = 1, .compact = opts->compact};
    return status;
}

void kt__constraint_opts_name_error(const kt__constraint_opts *opts, kt_error *err) {
    static const char form[] = "constraint.forms[0]";
    if (strncmp(err->where, form, sizeof form - 1) != 0) return;
    const char *option = opts->schema    ? "--json-schema"
                         : opts->grammar ? "--grammar"
                         : opts->regex   ? "--regex"
                                         : "--choice";
    char place[sizeof err->where];
    snprintf(place, sizeof place, "%s%.120s", option, err->where + sizeof form - 1);
    snprintf(err->where, sizeof err->where, "%s", place);
}

void kt__constraint_opts_free(kt__constraint_opts *opts) {
    kt__opt_texts_free(&opts->choices);
    kt__free(opts->text);
    opts->text = NULL;
}
