#include "setup/constraint_opts.h"

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
     .arg = "FILE",
     .help = "the answer is JSON that is valid by the schema in FILE"},
    {.name = "grammar",
     .also = "grammar-file",
     .kind = KT__OPT_TEXT,
     .at = AT(grammar),
     .arg = "FILE",
     .help = "the answer is what the GBNF grammar in FILE takes"},
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
};

kt__opt_group kt__constraint_opts_group(kt__constraint_opts *opts) {
    return (kt__opt_group){"Form of the answer", table, KT__COUNT(table), opts};
}

static kt_status read_form(kt__constraint_opts *opts, kt_error *err) {
    kt_form *form = &opts->form;
    const char *file = opts->schema ? opts->schema : opts->grammar;
    if (file) {
        form->kind = opts->schema ? KT_FORM_JSON_SCHEMA : KT_FORM_GRAMMAR;
        kt_status status = kt__text_file_read(file, MAX_FILE_BYTES, false, &opts->text, &form->len,
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
    if (status == KT_OK) *out = (kt_constraint){.forms = &opts->form, .n_forms = 1};
    return status;
}

void kt__constraint_opts_free(kt__constraint_opts *opts) {
    kt__opt_texts_free(&opts->choices);
    kt__free(opts->text);
    opts->text = NULL;
}
