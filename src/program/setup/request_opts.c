#include "setup/request_opts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "setup/config_set.h"

enum { MAX_FILE_BYTES = 4 << 20 };

/* How an option's text becomes a member's value. */
typedef enum member_kind {
    A_TEXT,
    A_FILE,      /* the text of the file that is named */
    A_JSON,      /* an object, written as JSON */
    A_JSON_FILE, /* the same of a file */
    A_SWITCH,
    A_NUMBER,
    A_LIST,  /* of the texts of all such options; "none" alone: an empty one */
    A_BIAS,  /* TOKEN+BIAS or TOKEN-BIAS, into an object */
    A_LEVEL, /* a text; "default" says nothing */
} member_kind;

typedef struct member_row {
    const char *member;
    member_kind kind;
} member_row;

/* Of the rows of `table`, by their number. */
static const member_row rows[] = {
    {"grammar", A_TEXT},
    {"grammar", A_FILE},
    {"json_schema", A_JSON},
    {"json_schema", A_JSON_FILE},
    {"ignore_eos", A_SWITCH},
    {"logit_bias", A_BIAS},
    {"stop", A_LIST},
    {"dry_sequence_breakers", A_LIST},
    {"chat_template_kwargs", A_JSON},
    {"reasoning_effort", A_LEVEL},
    {"reasoning_budget", A_NUMBER},
    {"n_keep", A_NUMBER},
    {"cache_prompt", A_SWITCH},
};

/* ---- values ---- */

static json_t *read_object(const char *text) {
    json_t *v = json_loads(text, 0, NULL);
    if (json_is_object(v)) return v;
    json_decref(v);
    return NULL;
}

/* NULL: err says why it cannot be read. */
static json_t *read_file(const char *path, bool is_object, kt_error *err) {
    kt__buf text;
    json_t *v = NULL;
    if (kt__config_file_read(path, "the file", MAX_FILE_BYTES, &text, NULL, err) == KT_OK) {
        const char *data = text.data ? text.data : "";
        v = is_object ? read_object(data) : json_string(data);
        if (!v) (void)kt__fail(err, KT_E_ARG, "%s has no JSON object", path);
    }
    kt__buf_free(&text);
    return v;
}

static json_t *read_number(const char *text) {
    char *end;
    long long n = strtoll(text, &end, 10);
    return end > text && !*end ? json_integer(n) : NULL;
}

/* The list of that member so far, with one more text. */
static json_t *longer_list(const json_t *members, const char *member, const char *text) {
    json_t *list = json_deep_copy(json_object_get(members, member));
    if (!list) list = json_array();
    if (list && strcmp(text, "none") != 0) json_array_append_new(list, json_string(text));
    return list;
}

/* "15043+1", "15043-0.5" */
static json_t *add_bias(const json_t *members, const char *member, const char *text) {
    char id[16], *end;
    size_t n = strspn(text, "0123456789");
    if (!n || n >= sizeof id || (text[n] != '+' && text[n] != '-')) return NULL;
    double bias = strtod(text + n, &end);
    if (end == text + n || *end) return NULL;
    json_t *all = json_deep_copy(json_object_get(members, member));
    if (!all) all = json_object();
    snprintf(id, sizeof id, "%.*s", (int)n, text);
    if (all) json_object_set_new(all, id, json_real(bias));
    return all;
}

static const char *expected_of(member_kind kind) {
    switch (kind) {
    case A_JSON: return "a JSON object";
    case A_NUMBER: return "a whole number";
    case A_BIAS: return "a token's id, + or -, and a number, such as 15043-1";
    default: return "a text";
    }
}

static json_t *value_of(const json_t *members, const member_row *row, const char *text,
                        kt_error *err) {
    switch (row->kind) {
    case A_FILE: return read_file(text, false, err);
    case A_JSON_FILE: return read_file(text, true, err);
    case A_JSON: return read_object(text);
    case A_SWITCH: return json_boolean(!strcmp(text, "true"));
    case A_NUMBER: return read_number(text);
    case A_LIST: return longer_list(members, row->member, text);
    case A_BIAS: return add_bias(members, row->member, text);
    default: return json_string(text);
    }
}

static bool keep_member(void *base, const kt__opt *opt, const char *text, char *expected,
                        size_t size) {
    kt__request_opts *opts = base;
    const member_row *row = &rows[opt->at];
    kt_error err = {0};
    if (row->kind == A_LEVEL && !strcmp(text, "default")) return true;
    if (!opts->members) opts->members = json_object();
    json_t *v = value_of(opts->members, row, text, &err);
    if (v && json_object_set_new(opts->members, row->member, v) == 0) return true;
    snprintf(expected, size, "%s", err.message[0] ? err.message : expected_of(row->kind));
    return false;
}

/* llama.cpp's letters of the sampler chain, to names with semicolons between them. */
static bool keep_sequence(void *base, const kt__opt *opt, const char *text, char *expected,
                          size_t size) {
    static const struct {
        char letter;
        const char *name;
    } steps[] = {{'e', "penalties"}, {'d', "dry"},         {'s', "top_n_sigma"},
                 {'k', "top_k"},     {'y', "typ_p"},       {'p', "top_p"},
                 {'m', "min_p"},     {'t', "temperature"}, {'x', "xtc"}};
    kt__request_opts *opts = base;
    (void)opt;
    opts->words[0] = '\0';
    for (; *text; text++) {
        size_t i = 0, n = strlen(opts->words);
        while (i < KT__COUNT(steps) && steps[i].letter != *text) i++;
        if (i == KT__COUNT(steps) || n + strlen(steps[i].name) + 2 > sizeof opts->words) {
            snprintf(expected, size, "some of the letters edskypmxt");
            return false;
        }
        snprintf(opts->words + n, sizeof opts->words - n, "%s%s", n ? ";" : "", steps[i].name);
    }
    opts->samplers = opts->words;
    return true;
}

/* ---- the table ---- */

static const kt__opt table[] = {
    {.name = "grammar",
     .kind = KT__OPT_TEXT,
     .at = 0,
     .keep = keep_member,
     .arg = "GBNF",
     .help = "a grammar of answers"},
    {.name = "grammar-file",
     .kind = KT__OPT_TEXT,
     .at = 1,
     .keep = keep_member,
     .arg = "FILE",
     .help = "the same, in a file"},
    {.name = "json-schema",
     .brief = "j",
     .kind = KT__OPT_TEXT,
     .at = 2,
     .keep = keep_member,
     .arg = "JSON",
     .help = "a JSON Schema of answers"},
    {.name = "json-schema-file",
     .brief = "jf",
     .kind = KT__OPT_TEXT,
     .at = 3,
     .keep = keep_member,
     .arg = "FILE",
     .help = "the same, in a file"},
    {.name = "ignore-eos",
     .kind = KT__OPT_ON,
     .at = 4,
     .keep = keep_member,
     .help = "answers do not end with the model's end of the text"},
    {.name = "logit-bias",
     .brief = "l",
     .kind = KT__OPT_TEXT,
     .at = 5,
     .keep = keep_member,
     .arg = "ID+BIAS",
     .help = "makes a token more or, with -, less probable; may be repeated"},
    {.name = "reverse-prompt",
     .brief = "r",
     .kind = KT__OPT_TEXT,
     .at = 6,
     .keep = keep_member,
     .arg = "TEXT",
     .help = "answers end before this text; may be repeated"},
    {.name = "dry-sequence-breaker",
     .kind = KT__OPT_TEXT,
     .at = 7,
     .keep = keep_member,
     .arg = "TEXT",
     .help = "a text that ends a repetition for DRY, in place of the usual ones; may be repeated; "
             "\"none\": no text does"},
    {.name = "chat-template-kwargs",
     .kind = KT__OPT_TEXT,
     .at = 8,
     .keep = keep_member,
     .arg = "JSON",
     .help = "variables of the chat template, an object"},
    {.name = "reasoning-effort",
     .kind = KT__OPT_TEXT,
     .at = 9,
     .keep = keep_member,
     .arg = "LEVEL",
     .help =
         "how much models think, if their template asks: none, minimal, low, medium, high, xhigh, "
         "max; \"default\": as they do"},
    {.name = "reasoning-budget",
     .kind = KT__OPT_TEXT,
     .at = 10,
     .keep = keep_member,
     .arg = "N",
     .help = "tokens of thinking at most; 0: none, -1: no limit"},
    {.name = "keep",
     .kind = KT__OPT_TEXT,
     .at = 11,
     .keep = keep_member,
     .arg = "N",
     .help = "tokens at the beginning that an answer which continues past the context keeps; -1: "
             "the prompt"},
    {.name = "cache-prompt",
     .kind = KT__OPT_ON,
     .at = 12,
     .keep = keep_member,
     .help = "prompts use what earlier ones computed (they do)"},
    {.name = "sampler-seq",
     .also = "sampling-seq",
     .kind = KT__OPT_TEXT,
     .keep = keep_sequence,
     .arg = "LETTERS",
     .help = "the sampler chain in llama.cpp's letters: edskypmxt"},
};

kt__opt_group kt__request_opts_group(kt__request_opts *opts) {
    return (kt__opt_group){"Requests that do not say it (request_defaults)", table,
                           KT__COUNT(table), opts};
}

void kt__request_opts_free(kt__request_opts *opts) {
    json_decref(opts->members);
    opts->members = NULL;
}

kt_status kt__request_opts_apply(const kt__request_opts *opts, kt__config *config, kt_error *err) {
    if (opts->samplers)
        KT__STEP(kt__config_set(config, "samplers", opts->samplers, "--sampler-seq", err));
    if (!opts->members) return KT_OK;
    json_t *all = config->request_defaults ? json_loads(config->request_defaults, 0, NULL) : NULL;
    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    char *text = all && json_object_update(all, opts->members) == 0 ? json_dumps(all, JSON_COMPACT)
                                                                    : NULL;
    kt_status status = text ? kt__config_copy_text(config, text, strlen(text),
                                                   &config->request_defaults, err)
                            : kt__fail_nomem(err, "the configuration", 0);
    free(text);
    json_decref(all);
    return status;
}
