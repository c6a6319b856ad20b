/* kentang schema: whether texts fit a JSON Schema, a grammar or a regular expression; JSON lines. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "grammar/grammar.h" /* the constraint itself: kentang.h has it for answers only */
#include "grammar/mask.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { MAX_LINE_BYTES = 64 << 20, MAX_FILE_BYTES = 16 << 20 };

typedef struct schema_opts {
    bool unused, grammar, regex;
} schema_opts;

#define AT(member) offsetof(schema_opts, member)

static const kt__opt table[] = {
    {.name = "grammar", .kind = KT__OPT_ON, .at = AT(grammar), .help = "FILE is a GBNF grammar"},
    {.name = "regex",
     .kind = KT__OPT_ON,
     .at = AT(regex),
     .help = "FILE is a regular expression that the whole text has to match"},
};

/* Microseconds. */
typedef struct times {
    double *us;
    size_t n, cap;
    double compile, first;
} times;

typedef struct checker {
    kt__grammar *grammar;
    const kt_model *model; /* NULL: bytes only */
    kt__gvocab *vocab;
    uint64_t *bits;
    times masks;
} checker;

static double now_us(void) {
    return (double)kt__now_ns() / 1000.0;
}

/* ---- the vocabulary ---- */

/* Bytes of each token in the middle of a text. */
typedef struct token_bytes {
    const kt_model *model;
    char text[8192];
} token_bytes;

static const char *bytes_of(void *ctx, int32_t id, size_t *len) {
    token_bytes *t = ctx;
    const int32_t twice[2] = {id, id}; /* the first token of a text may lose a prefix space */
    size_t all = 0;
    *len = 0;
    if (kt_token_is_eog(t->model, id)) return t->text;
    if (kt_detokenize(t->model, twice, 2, 0, t->text, sizeof t->text, &all, NULL) != KT_OK)
        return t->text;
    *len = all - all / 2;
    return t->text + all / 2;
}

static kt_status prepare_vocab(checker *c, kt_error *err) {
    token_bytes *t = kt__calloc(1, sizeof *t);
    kt_model_info info;
    if (!t) return kt__fail_nomem(err, "a vocabulary", sizeof *t);
    kt_model_get_info(c->model, &info);
    t->model = c->model;
    const kt__gvocab_source source = {bytes_of, t, info.n_vocab};
    double start = now_us();
    kt_status status = kt__gvocab_create(&source, &c->vocab, err);
    kt__free(t);
    if (status != KT_OK) return status;
    fprintf(stderr, "vocabulary: %d tokens, %.0f ms, %.1f MB\n", (int)info.n_vocab,
            (now_us() - start) / 1000, (double)kt__gvocab_bytes(c->vocab) / 1e6);
    c->bits = kt__calloc(c->vocab->n_words, sizeof *c->bits);
    return c->bits ? KT_OK : kt__fail_nomem(err, "a set of tokens", c->vocab->n_words * 8u);
}

/* ---- one text ---- */

static bool add_time(times *t, double us) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        double *more = kt__realloc_array(t->us, cap, sizeof *more);
        if (!more) return false;
        t->us = more;
        t->cap = cap;
    }
    if (t->n == 0) t->first = us;
    t->us[t->n++] = us;
    return true;
}

static bool check_bytes(checker *c, const char *text, size_t len, size_t *at) {
    kt__gstate s;
    kt__grammar_start(c->grammar, &s);
    *at = len;
    return kt__grammar_feed(c->grammar, &s, text, at) && kt__grammar_accepts(c->grammar, &s);
}

/* One token: its mask, then its bytes. False: refused; *taken has the bytes that were not. */
static kt_status check_token(checker *c, kt__gstate *s, int32_t id, bool *fits, size_t *taken,
                             kt_error *err) {
    size_t len;
    double start = now_us();
    kt_status status = kt__gmask_fill(c->grammar, s, c->bits, err);
    if (status != KT_OK) return status;
    add_time(&c->masks, now_us() - start);
    bool allowed = c->bits[id / 64] >> id % 64 & 1;
    const char *bytes = kt__gvocab_token(c->vocab, id, &len);
    *taken = len;
    *fits = kt__grammar_feed(c->grammar, s, bytes, taken);
    if (*fits != allowed && len > 0)
        return kt__fail(err, KT_E_INTERNAL, "token %d: its mask and its bytes disagree", (int)id);
    return KT_OK;
}

static kt_status check_tokens(checker *c, const char *text, size_t len, bool *accepted, size_t *at,
                              kt_error *err) {
    kt__gstate s;
    kt_status status;
    size_t n = 0, cap = len + 8;
    bool fits = true;
    int32_t *ids = kt__calloc(cap, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", cap * sizeof *ids);
    kt__grammar_start(c->grammar, &s);
    *at = 0;
    KT__TRY(kt_tokenize(c->model, text, len, 0, ids, cap, &n, err));
    for (size_t i = 0; i < n && fits; i++) {
        size_t taken = 0;
        KT__TRY(check_token(c, &s, ids[i], &fits, &taken, err));
        *at += taken;
    }
    *accepted = fits && kt__grammar_accepts(c->grammar, &s);
    if (fits) *at = len;
out:
    kt__free(ids);
    return status;
}

static kt_status check_line(checker *c, const char *line, size_t len, kt_error *err) {
    json_error_t bad;
    bool accepted = false;
    size_t at = 0;
    kt_status status = KT_OK;
    json_t *root = json_loadb(line, len, JSON_ALLOW_NUL, &bad);
    const json_t *text = json_object_get(root, "text");
    if (!json_is_string(text))
        KT__TRY(kt__fail(err, KT_E_FORMAT, "expected an object with \"text\""));
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    if (c->vocab)
        KT__TRY(check_tokens(c, s, n, &accepted, &at, err));
    else
        accepted = check_bytes(c, s, n, &at);
    if (kt__grammar_status(c->grammar) != KT_OK)
        KT__TRY(kt__fail(err, KT_E_LIMIT, "the constraint is out of memory or steps"));
    printf("{\"accepted\": %s, \"at\": %zu}\n", accepted ? "true" : "false", at);
out:
    json_decref(root);
    return status;
}

/* ---- all ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(times *t, const kt__grammar *grammar) {
    fprintf(stderr, "compile: %.0f us; %.2f MB of %.1f reserved\n", t->compile,
            (double)kt__grammar_bytes_used(grammar) / 1e6,
            (double)kt__grammar_bytes(grammar) / 1e6);
    if (t->n == 0) return;
    qsort(t->us, t->n, sizeof *t->us, by_value);
    fprintf(stderr, "masks: %zu, first %.1f us, p50 %.1f, p90 %.1f, p99 %.1f, worst %.1f\n", t->n,
            t->first, t->us[t->n / 2], t->us[t->n * 9 / 10], t->us[t->n * 99 / 100],
            t->us[t->n - 1]);
}

static void print_json_member(const char *name, const char *text, const char *end) {
    json_t *value = json_string(text);
    char *dump = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    printf("\"%s\": %s%s", name, dump ? dump : "\"\"", end);
    free(dump);
    json_decref(value);
}

static int print_refusal(const kt__refusal *why, const kt_error *err) {
    putchar('{');
    print_json_member("refused", why->pointer, ", ");
    print_json_member("keyword", why->keyword, ", ");
    print_json_member("why", why->why[0] ? why->why : err->message, "}\n");
    return kt_status_exit_code(KT_E_UNSUPPORTED);
}

static int check_input(checker *c) {
    kt_error err = {0};
    char *line = NULL;
    size_t len = 0;
    int code = 0, got = 0;
    for (long number = 1;
         code == 0 && (got = kt__cli_read_line(stdin, MAX_LINE_BYTES, &line, &len, &err)) > 0;
         number++) {
        bool blank = strspn(line, " \t\r") == len;
        if (!blank && check_line(c, line, len, &err) != KT_OK)
            code = kt__cli_error("schema", err.code,
                                 err.code == KT_E_FORMAT ? "one {\"text\": ...} a line" : NULL,
                                 "line %ld: %s", number, err.message);
        kt__free(line);
    }
    return got < 0 ? kt__cli_fail("schema", &err) : code;
}

static int check_all(checker *c, const schema_opts *opts, const char *file) {
    kt_error err = {0};
    kt__refusal why = {0};
    char *text = NULL;
    size_t len = 0;
    if (kt__cli_read_file(file, MAX_FILE_BYTES, &text, &len, &err) != KT_OK)
        return kt__cli_fail("schema", &err);
    kt__grammar_source source = {
        .kind = KT__GRAMMAR_SCHEMA, .text = text, .len = len, .layout = KT__LAYOUT_ANY};
    if (opts->grammar) source.kind = KT__GRAMMAR_GBNF;
    if (opts->regex) {
        source.kind = KT__GRAMMAR_REGEX;
        while (source.len > 0 && text[source.len - 1] == '\n') source.len--;
    }
    double start = now_us();
    kt_status status = kt__grammar_create(&source, &c->grammar, &why, &err);
    c->masks.compile = now_us() - start;
    if (status == KT_OK && c->vocab) status = kt__gmask_attach(c->grammar, c->vocab, &err);
    int code = status == KT_E_UNSUPPORTED ? print_refusal(&why, &err)
               : status != KT_OK          ? kt__cli_fail("schema", &err)
                                          : check_input(c);
    if (status == KT_OK) {
        fputs(kt__grammar_notes(c->grammar), stderr);
        print_times(&c->masks, c->grammar);
    }
    kt__grammar_free(c->grammar);
    kt__free(text);
    return code;
}

static int schema_command(int argc, char **argv, kt__config *config) {
    schema_opts opts = {0};
    const kt__opt_group groups[] = {{"Schema", table, KT__COUNT(table), &opts},
                                    kt__setting_opts_one(config, "Model", KT__SETTING_model)};
    const kt__syntax syntax = {
        .command = "schema",
        .usage = "FILE [OPTIONS] < LINES.jsonl",
        .about =
            "Reads {\"text\": ...} a line and writes, for each, {\"accepted\": bool, \"at\": "
            "byte}: "
            "whether\n"
            "the text fits the JSON Schema in FILE, and how far it does. With -m it is read token "
            "by\ntoken, and the times of the masks go to stderr.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 1,
        .max_words = 1,
        .word = "FILE",
        .notes = "A schema that cannot be enforced exactly ends with code 6 and one line\n"
                 "  {\"refused\": JSON pointer, \"keyword\": ..., \"why\": ...}\n"};
    const char *file = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &file, &n_words);
    if (code >= 0) return code;
    if (opts.grammar && opts.regex)
        return kt__cli_usage_error("schema", "--grammar and --regex: give one of them");
    checker c = {0};
    kt_ctx *ctx = NULL;
    kt_model *model = NULL;
    kt_error err = {0};
    config->threads = 1;
    kt_status status = KT_OK;
    if (config->model) status = kt__command_open_model(config, true, &ctx, &model, &err);
    c.model = model;
    if (status == KT_OK && model) status = prepare_vocab(&c, &err);
    code = status == KT_OK ? check_all(&c, &opts, file) : kt__cli_fail("schema", &err);
    kt__gvocab_free(c.vocab);
    kt__free(c.bits);
    kt__free(c.masks.us);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return kt__cli_finish("schema", code);
}

int kt__cmd_schema(int argc, char **argv) {
    return kt__with_settings(argc, argv, schema_command);
}
