#include "setup/answer_opts.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "term/cli.h"

#define SAMPLING(member) offsetof(kt__sampling_opts, params.sampling.member)
#define TEXTS(option, other, member, value, text)                             \
    {                                                                         \
        .name = option, .also = other, .kind = KT__OPT_TEXTS,                 \
        .at = offsetof(kt__sampling_opts, member), .arg = value, .help = text \
    }

static const kt__opt sampling_table[] = {
    {.name = "seed",
     .brief = "s",
     .kind = KT__OPT_SEED,
     .at = SAMPLING(seed),
     .arg = "N",
     .help = "the same seed gives the same answer (default: random, and printed)"},
#define ARG_FLOAT "F"
#define ARG_INT "N"
#define NUMBER(type, member, value, low, high, option, second, text) \
    {.name = option,                                                 \
     .also = second,                                                 \
     .kind = KT__OPT_##type,                                         \
     .at = SAMPLING(member),                                         \
     .min = low,                                                     \
     .max = high,                                                    \
     .arg = ARG_##type,                                              \
     .help = text},
#include "sample/steps.def"
    {.name = "greedy",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__sampling_opts, greedy),
     .help = "always the most probable token: the same as --temp 0"},
    TEXTS(
        "dry-sequence-breaker", NULL, breakers, "TEXT",
        "DRY: a repetition does not reach over this; may be repeated; \"none\" for none (default: "
        "newline, colon, quote, asterisk)"),
    TEXTS("logit-bias", NULL, bias, "ID+F",
          "add F to a token's logit, as 15043+1.5 or 15043-inf; may be repeated"),
    {.name = "samplers",
     .kind = KT__OPT_TEXT,
     .at = SAMPLING(chain),
     .arg = "LIST",
     .help = "order of the chain, with ; between (default:"
#define STEP(KIND, name, ...) " " #name
#include "sample/steps.def"
             ")"},
    TEXTS("stop", "reverse-prompt", stop, "TEXT",
          "end the answer at this text, which is not shown; may be repeated"),
    {.name = "ignore-eos",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__sampling_opts, params.ignore_eog),
     .help = "continue past the end of the model's turn"},
};

kt__sampling_opts kt__sampling_opts_default(void) {
    return (kt__sampling_opts){.params = kt_gen_params_default()};
}

void kt__sampling_opts_free(kt__sampling_opts *opts) {
    kt__opt_texts_free(&opts->stop);
    kt__opt_texts_free(&opts->breakers);
    kt__opt_texts_free(&opts->bias);
    kt__free(opts->bias_items);
    opts->bias_items = NULL;
}

static const kt__opt length_table[] = {
    {.name = "predict",
     .brief = "n",
     .also = "n-predict",
     .kind = KT__OPT_INT,
     .at = offsetof(kt__sampling_opts, params.n_predict),
     .min = -1,
     .max = 1 << 30,
     .arg = "N",
     .help = "tokens to generate at most, where a request does not say (default -1: until the end "
             "of the turn)"},
};

kt__opt_group kt__sampling_opts_length_group(kt__sampling_opts *opts) {
    return (kt__opt_group){"Length", length_table, KT__COUNT(length_table), opts};
}

kt__opt_group kt__sampling_opts_group(kt__sampling_opts *opts) {
    return (kt__opt_group){"Sampling and stopping", sampling_table, KT__COUNT(sampling_table),
                           opts};
}

/* "15043+1.5", "15043-2", "15043-inf", "15043=0.5" */
static kt_status parse_bias(const char *text, kt_logit_bias *out, kt_error *err) {
    char *end;
    long long id = strtoll(text, &end, 10);
    const char *value = *end == '=' ? end + 1 : end;
    char *value_end = NULL;
    bool named = end != text && (*end == '+' || *end == '-' || *end == '=');
    double bias = named ? strtod(value, &value_end) : NAN;
    if (!named || value_end == value || *value_end || isnan(bias) || id < 0 || id > INT32_MAX) {
        return kt__fail(err, KT_E_ARG,
                        "--logit-bias \"%.60s\": expected a token id and a bias, as 15043+1.5 or "
                        "15043-inf",
                        text);
    }
    *out = (kt_logit_bias){(int32_t)id, (float)bias};
    return KT_OK;
}

kt_status kt__sampling_opts_finish(kt__sampling_opts *opts, kt_error *err) {
    kt_sampling *sampling = &opts->params.sampling;
    if (opts->greedy) sampling->temperature = 0.0f;
    opts->params.stop = opts->stop.items;
    opts->params.n_stop = opts->stop.n;
    if (opts->breakers.n) {
        sampling->dry_breakers = opts->breakers.items;
        sampling->n_dry_breakers = opts->breakers.n;
        if (opts->breakers.n == 1 && !strcmp(opts->breakers.items[0], "none")) {
            sampling->n_dry_breakers = 0;
        }
    }
    if (!opts->bias.n) return KT_OK;
    kt__free(opts->bias_items);
    opts->bias_items = kt__calloc(opts->bias.n, sizeof *opts->bias_items);
    if (!opts->bias_items)
        return kt__fail_nomem(err, "logit biases", opts->bias.n * sizeof *opts->bias_items);
    for (size_t i = 0; i < opts->bias.n; i++) {
        kt_status status = parse_bias(opts->bias.items[i], &opts->bias_items[i], err);
        if (status != KT_OK) return status;
    }
    sampling->logit_bias = opts->bias_items;
    sampling->n_logit_bias = opts->bias.n;
    return KT_OK;
}

/* ---- constraint opts ---- */

enum { MAX_FILE_BYTES = 16 << 20 };

#define AT(member) offsetof(kt__constraint_opts, member)

static const kt__opt constraint_table[] = {
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
    return (kt__opt_group){"Form of the answer", constraint_table, KT__COUNT(constraint_table),
                           opts};
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
