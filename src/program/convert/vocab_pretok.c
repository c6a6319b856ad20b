/* The pre-tokenizer of tokenizer.json, recognised by its structure: what it does is compared with
 * what the families of tokenizer/pretok.h do, expression by expression. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "convert/vocab.h"

enum { MAX_STAGES = 6, MAX_PATTERN = 4096 };

static const struct {
    kt__pretok_family family;
    const char *stages[MAX_STAGES];
} patterns[] = {
#define X(family, ...) {KT__PRETOK_##family, {__VA_ARGS__}},
#include "convert/pretok_patterns.def"
#undef X
};

enum { BOS = 1, WHOLE = 2, NFC = 4 };
static const struct {
    const char *name;
    kt__pretok_family family;
    unsigned flags;
} names[] = {
#define X(name, family, flags) {name, KT__PRETOK_##family, flags},
#include "tokenizer/pretok.def"
#undef X
};

/* What a tokenizer.json says. */
typedef struct pretok_shape {
    char stages[MAX_STAGES][MAX_PATTERN];
    size_t n_stages;
    bool nfc;
    const char *path;
    kt_error *err;
} pretok_shape;

static kt_status refuse_shape(const pretok_shape *p, const char *what, const char *detail) {
    return kt__fail_at(p->err, KT_E_UNSUPPORTED, p->path, UINT64_MAX,
                       "%s: %.300s has no name in GGUF", what, detail);
}

static const char *type_of(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "";
}

/* ---- the normaliser ---- */

static kt_status read_normalizer(pretok_shape *p, const json_t *node) {
    json_t *list = json_object_get(node, "normalizers"), *inner;
    size_t i;
    kt_status status = KT_OK;
    if (!node || json_is_null(node)) return KT_OK;
    if (strcmp(type_of(node), "NFC") == 0) {
        p->nfc = true;
        return KT_OK;
    }
    if (strcmp(type_of(node), "Sequence") != 0) return refuse_shape(p, "normalizer", type_of(node));
    json_array_foreach(list, i, inner) { /* one level: files nest no further */
        if (strcmp(type_of(inner), "Sequence") == 0)
            return refuse_shape(p, "normalizer", "a sequence in a sequence");
        KT__TRY(read_normalizer(p, inner));
    }
out:
    return status;
}

/* ---- the pre-tokenizer ---- */

/* Line ends as \r and \n, however the file writes them. */
static kt_status add_stage(pretok_shape *p, const char *pattern) {
    size_t n = 0;
    if (p->n_stages == MAX_STAGES) return refuse_shape(p, "pre_tokenizer", "over six stages");
    char *out = p->stages[p->n_stages++];
    for (const char *s = pattern; *s; s++) {
        if (n + 3 > MAX_PATTERN) return refuse_shape(p, "pre_tokenizer", "a very long expression");
        bool line_end = *s == '\r' || *s == '\n';
        if (line_end) out[n++] = '\\';
        out[n++] = *s == '\r' ? 'r' : *s == '\n' ? 'n' : *s;
    }
    out[n] = '\0';
    return KT_OK;
}

/* Isolated matches; "Removed" of what is not matched is the same where an expression matches
 * everything. */
static kt_status read_split(pretok_shape *p, const json_t *node) {
    json_t *pattern = json_object_get(node, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *behavior = json_string_value(json_object_get(node, "behavior"));
    bool invert = json_is_true(json_object_get(node, "invert"));
    if (!regex || !behavior) return refuse_shape(p, "pre_tokenizer", "a Split without a Regex");
    if (strcmp(behavior, invert ? "Removed" : "Isolated") != 0)
        return refuse_shape(p, "pre_tokenizer: the behavior of Split", behavior);
    return add_stage(p, regex);
}

static const char byte_level[] = BYTELEVEL, each_digit[] = DIGITS, digit_runs[] = DIGIT_RUNS,
                  punctuation[] = PUNCTUATION;

static kt_status read_punctuation(pretok_shape *p, const json_t *node) {
    const char *behavior = json_string_value(json_object_get(node, "behavior"));
    if (!behavior || strcmp(behavior, "Contiguous") != 0)
        return refuse_shape(p, "pre_tokenizer: the behavior of Punctuation",
                            behavior ? behavior : "Isolated");
    return add_stage(p, punctuation);
}

static kt_status read_step(pretok_shape *p, const json_t *node) {
    const char *type = type_of(node);
    if (strcmp(type, "Split") == 0) return read_split(p, node);
    if (strcmp(type, "Digits") == 0)
        return add_stage(p, json_is_true(json_object_get(node, "individual_digits")) ? each_digit
                                                                                     : digit_runs);
    if (strcmp(type, "Punctuation") == 0) return read_punctuation(p, node);
    if (strcmp(type, "ByteLevel") == 0) {
        if (json_is_true(json_object_get(node, "add_prefix_space")))
            return refuse_shape(p, "pre_tokenizer", "ByteLevel with add_prefix_space");
        bool plain = json_is_false(json_object_get(node, "use_regex"));
        return plain ? KT_OK : add_stage(p, byte_level);
    }
    return refuse_shape(p, "pre_tokenizer", type);
}

static kt_status read_pretokenizer(pretok_shape *p, const json_t *node) {
    json_t *list = json_object_get(node, "pretokenizers"), *inner;
    size_t i;
    kt_status status = KT_OK;
    if (strcmp(type_of(node), "Sequence") != 0) return read_step(p, node);
    json_array_foreach(list, i, inner) KT__TRY(read_step(p, inner));
out:
    return status;
}

/* ---- the match ---- */

static bool stages_match(const pretok_shape *p, const char *const stages[MAX_STAGES]) {
    for (size_t i = 0; i < MAX_STAGES; i++) {
        if (!stages[i] || i >= p->n_stages) return !stages[i] && i >= p->n_stages;
        if (strcmp(stages[i], p->stages[i]) != 0) return false;
    }
    return true;
}

/* The first name with this family and these habits; BOS is written in any case. */
static const char *name_of(kt__pretok_family family, unsigned habits) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].family == family && (names[i].flags & (WHOLE | NFC)) == habits)
            return names[i].name;
    return NULL;
}

/* Where GGUF names the expression only with the other habit of whole words, that name is taken, and
 * vocab_check.c proves that the habit changes nothing. */
static kt_status name_shape(kt__vocab *v, const pretok_shape *p, bool whole) {
    unsigned habits = (whole ? WHOLE : 0u) | (p->nfc ? NFC : 0u);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!stages_match(p, patterns[i].stages)) continue;
        v->family = patterns[i].family;
        v->pre = name_of(v->family, habits);
        v->other_whole = !v->pre;
        if (!v->pre) v->pre = name_of(v->family, habits ^ WHOLE);
        if (v->pre) return KT_OK;
        return refuse_shape(p, "the combination of normalizer, expression and ignore_merges",
                            p->stages[0]);
    }
    return refuse_shape(p, "pre_tokenizer", p->n_stages ? p->stages[p->n_stages - 1] : "nothing");
}

kt_status kt__vocab_find_pretok(kt__vocab *v, const char *path, kt_error *err) {
    pretok_shape p = {.path = path, .err = err};
    json_t *model = json_object_get(v->tokenizer, "model");
    kt_status status;
    KT__TRY(read_normalizer(&p, json_object_get(v->tokenizer, "normalizer")));
    KT__TRY(read_pretokenizer(&p, json_object_get(v->tokenizer, "pre_tokenizer")));
    KT__TRY(name_shape(v, &p, json_is_true(json_object_get(model, "ignore_merges"))));
out:
    return status;
}
