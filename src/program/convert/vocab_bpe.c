/* A BPE of tokenizer.json: its vocabulary and its merges. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "convert/vocab.h"

/* ---- the vocabulary ---- */

void kt__vocab_letters(kt__vocab_letter letters[256]) {
    uint32_t next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        letters[b].n = (uint8_t)kt__utf8_encode(printable ? b : next++, letters[b].utf8);
    }
}

bool kt__vocab_is_byte(kt__str s) {
    return s.len == 6 && memcmp(s.s, "<0x", 3) == 0 && s.s[5] == '>';
}

static kt_status largest_id(const kt__vocab *v, const char *path, int64_t *out, kt_error *err) {
    *out = -1;
    for (size_t i = 0; i < v->n_listed; i++) {
        const kt__vocab_entry *entry = &v->listed[i];
        if (!(entry->number >= 0 && entry->number < KT__TOK_MAX_VOCAB))
            return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                               "model.vocab: the id of '%.60s' is not a number from 0 to %d",
                               entry->text.s, KT__TOK_MAX_VOCAB - 1);
        if (entry->text.len > KT__TOK_MAX_TOKEN_BYTES)
            return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                               "model.vocab: token %lld has over %d bytes",
                               (long long)entry->number, KT__TOK_MAX_TOKEN_BYTES);
        if ((int64_t)entry->number > *out) *out = (int64_t)entry->number;
    }
    return KT_OK;
}

kt_status kt__vocab_read_ids(kt__vocab *v, const char *path, kt_error *err) {
    int64_t most = -1;
    if (v->listed_ids) KT__STEP(largest_id(v, path, &most, err));
    if (most < 0)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "model.vocab is missing or empty");
    KT__STEP(kt__vocab_reserve(v, (size_t)most + 1, err));
    for (size_t k = 0; k < v->n_listed; k++) {
        const kt__vocab_entry *entry = &v->listed[k];
        size_t i = (size_t)entry->number;
        if (v->tokens[i].s)
            return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                               "model.vocab: '%.60s' and '%.60s' have the same id %zu",
                               v->tokens[i].s, entry->text.s, i);
        v->tokens[i] = entry->text;
        bool byte = v->spm && kt__vocab_is_byte(v->tokens[i]);
        v->types[i] = byte ? KT__TOK_BYTE : KT__TOK_NORMAL;
    }
    return KT_OK;
}

/* ---- merges ---- */

/* A GGUF merge is one text with a space between: a space inside a part is written as the byte
 * alphabet writes it. */
static char *append_part(char *at, kt__str part) {
    for (size_t i = 0; i < part.len; i++) {
        if (part.s[i] == ' ') {
            memcpy(at, "\xc4\xa0", 2);
            at += 2;
        } else {
            *at++ = part.s[i];
        }
    }
    return at;
}

static kt_status join_merge(kt__vocab *v, size_t i, kt_error *err) {
    kt__str left = v->merge_parts[2 * i], right = v->merge_parts[2 * i + 1];
    char *text = kt__arena_alloc(&v->arena, 2 * (left.len + right.len) + 1);
    if (!text) return kt__fail_nomem(err, "merges", left.len + right.len);
    char *end = append_part(text, left);
    *end++ = ' ';
    end = append_part(end, right);
    v->merges[i] = (kt__str){text, (size_t)(end - text)};
    return KT_OK;
}

kt_status kt__vocab_read_merges(kt__vocab *v, const char *path, kt_error *err) {
    if (!v->has_merges)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "model.merges is not a list");
    if (v->spm && !v->by_merges) return KT_OK;
    v->merges = kt__arena_calloc(&v->arena, v->n_merges + 1, sizeof *v->merges);
    if (!v->merges) return kt__fail_nomem(err, "merges", v->n_merges * sizeof(kt__str));
    for (size_t i = 0; i < v->n_merges; i++) KT__STEP(join_merge(v, i, err));
    return KT_OK;
}

/* Variants of BPE that GGUF cannot say. */
static kt_status check_variant(const json_t *model, const char *path, kt_error *err) {
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *value = json_string_value(json_object_get(model, texts[i]));
        if (value && value[0])
            return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                               "model.%s is '%.40s', which GGUF cannot express", texts[i], value);
    }
    return KT_OK;
}

kt_status kt__vocab_read_bpe(kt__vocab *v, const char *path, kt_error *err) {
    json_t *model = json_object_get(v->tokenizer, "model");
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    KT__STEP(check_variant(model, path, err));
    KT__STEP(kt__vocab_read_ids(v, path, err));
    KT__STEP(kt__vocab_read_merges(v, path, err));
    for (size_t i = 0; unk && v->spm && i < v->n_tokens; i++) {
        if (!v->tokens[i].s || strcmp(v->tokens[i].s, unk) != 0) continue;
        v->types[i] = KT__TOK_UNKNOWN;
        v->role_ids[KT__ROLE_UNK] = (int32_t)i;
    }
    return KT_OK;
}

/* ---- scores ---- */

/* SentencePiece merges by the score of the result, best first. A token's score is minus the place
 * of the first merge that makes it, so the order is that of the list; what no merge makes comes
 * last. */
kt_status kt__vocab_score_merges(kt__vocab *v, kt_error *err) {
    kt__strmap made;
    kt_status status = KT_OK;
    size_t longest = 0;
    if (!kt__strmap_init(&made, v->n_tokens)) return kt__fail_nomem(err, "scores", v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++) {
        v->scores[i] = -(float)v->n_merges - 1.0f;
        if (v->tokens[i].s) (void)kt__strmap_put(&made, v->tokens[i], (int64_t)i);
        if (v->tokens[i].len > longest) longest = v->tokens[i].len;
    }
    char *joined = kt__malloc(longest + 1);
    if (!joined) status = kt__fail_nomem(err, "scores", longest);
    for (size_t i = v->n_merges; status == KT_OK && i-- > 0;) { /* the first merge counts */
        kt__str left = v->merge_parts[2 * i], right = v->merge_parts[2 * i + 1];
        if (left.len + right.len > longest) continue;
        memcpy(joined, left.s, left.len);
        memcpy(joined + left.len, right.s, right.len);
        int64_t id = kt__strmap_get(&made, (kt__str){joined, left.len + right.len});
        if (id >= 0) v->scores[id] = -(float)i;
    }
    kt__free(joined);
    kt__strmap_free(&made);
    return status;
}

/* The pre-tokenizer of tokenizer.json, recognised by its structure: what it does is compared with
 * what the families of tokenizer/pretok.h do, expression by expression. */

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
    if (!node || json_is_null(node)) return KT_OK;
    if (strcmp(type_of(node), "NFC") == 0) {
        p->nfc = true;
        return KT_OK;
    }
    if (strcmp(type_of(node), "Sequence") != 0) return refuse_shape(p, "normalizer", type_of(node));
    json_array_foreach(list, i, inner) { /* one level: files nest no further */
        if (strcmp(type_of(inner), "Sequence") == 0)
            return refuse_shape(p, "normalizer", "a sequence in a sequence");
        KT__STEP(read_normalizer(p, inner));
    }
    return KT_OK;
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
    if (strcmp(type_of(node), "Sequence") != 0) return read_step(p, node);
    json_array_foreach(list, i, inner) KT__STEP(read_step(p, inner));
    return KT_OK;
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
    KT__STEP(read_normalizer(&p, json_object_get(v->tokenizer, "normalizer")));
    KT__STEP(read_pretokenizer(&p, json_object_get(v->tokenizer, "pre_tokenizer")));
    return name_shape(v, &p, json_is_true(json_object_get(model, "ignore_merges")));
}
