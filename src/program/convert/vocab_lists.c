/* The long lists of a vocabulary, its tokens and merges, taken from a file's text without a tree of JSON
 * values; what is left of a tokenizer.json is short. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "convert/json_file.h"
#include "convert/vocab.h"

/* Bytes of a tokenizer.json without them: Gemma 3's 6,415 added tokens are 1.2 MB. */
enum { MAX_REST = 8 << 20 };

typedef struct list_reader {
    kt__vocab *v;
    const char *path, *text; /* the text's first byte */
    kt__json_scan scan;
    kt_error *err;
} list_reader;

static kt_status not_json(const list_reader *r) {
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, (uint64_t)(r->scan.at - r->text),
                       "not valid JSON: %s is expected", r->scan.wrong);
}

/* ---- the lists ---- */

void kt__vocab_hold(kt__vocab *v, char *text) {
    v->texts[v->n_texts++] = text;
}

/* Room for one more of n, which doubles. */
static bool grow_list(void **list, size_t n, size_t size) {
    if (n & (n - 1) && n) return true;
    void *more = kt__realloc_array(*list, n ? 2 * n : 1, size);
    if (more) *list = more;
    return more != NULL;
}

kt_status kt__vocab_list_token(kt__vocab *v, kt__str text, double number, const char *path,
                               kt_error *err) {
    if (v->n_listed == KT__VOCAB_MAX_TOKENS)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX, "over %d tokens",
                           KT__VOCAB_MAX_TOKENS);
    void *list = v->listed;
    if (!grow_list(&list, v->n_listed, sizeof *v->listed))
        return kt__fail_nomem(err, "tokens", v->n_listed * sizeof *v->listed);
    v->listed = list;
    v->listed[v->n_listed++] = (kt__vocab_entry){text, number};
    return KT_OK;
}

kt_status kt__vocab_list_merge(kt__vocab *v, kt__str left, kt__str right, const char *path,
                               kt_error *err) {
    if (v->n_merges == KT__VOCAB_MAX_MERGES)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX, "over %d merges",
                           KT__VOCAB_MAX_MERGES);
    void *list = v->merge_parts;
    if (!grow_list(&list, v->n_merges, 2 * sizeof *v->merge_parts))
        return kt__fail_nomem(err, "merges", v->n_merges * sizeof *v->merge_parts);
    v->merge_parts = list;
    v->merge_parts[2 * v->n_merges] = left;
    v->merge_parts[2 * v->n_merges + 1] = right;
    v->n_merges++;
    return KT_OK;
}

/* Of equal texts the last one's id counts, at the place of the first, as in Python's dictionary. */
kt_status kt__vocab_end_ids(kt__vocab *v, kt_error *err) {
    size_t n = 0;
    v->listed_ids = true;
    if (!kt__strmap_init(&v->listed_at, v->n_listed))
        return kt__fail_nomem(err, "tokens", v->n_listed);
    for (size_t i = 0; i < v->n_listed; i++) {
        const kt__vocab_entry *entry = &v->listed[i];
        if (kt__strmap_put(&v->listed_at, entry->text, (int64_t)n))
            v->listed[n++] = *entry;
        else
            v->listed[kt__strmap_get(&v->listed_at, entry->text)].number = entry->number;
    }
    v->n_listed = n;
    return KT_OK;
}

int64_t kt__vocab_listed_id(const kt__vocab *v, const char *text, size_t len) {
    int64_t at = v->listed_at.slots ? kt__strmap_get(&v->listed_at, (kt__str){text, len}) : -1;
    return at < 0 || !(v->listed[at].number >= 0) ? -1 : (int64_t)v->listed[at].number;
}

/* "left right" */
static bool split_merge(kt__str whole, kt__str *left, kt__str *right) {
    const char *space = whole.len ? memchr(whole.s, ' ', whole.len) : NULL;
    if (!space) return false;
    *left = (kt__str){whole.s, (size_t)(space - whole.s)};
    *right = (kt__str){space + 1, whole.len - left->len - 1};
    return left->len > 0 && right->len > 0 && !memchr(right->s, ' ', right->len);
}

kt_status kt__vocab_list_line(kt__vocab *v, kt__str line, const char *path, kt_error *err) {
    kt__str left, right;
    if (!split_merge(line, &left, &right))
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "model.merges[%zu] is neither \"left right\" nor a pair of texts",
                           v->n_merges);
    return kt__vocab_list_merge(v, left, right, path, err);
}

/* ---- from a text ---- */

/* {"text": id}; what is no whole number becomes an id that none is. */
static kt_status scan_ids(list_reader *r) {
    kt__json_scan *s = &r->scan;
    (void)kt__json_scan_enter(s, '{');
    for (size_t n = 0; kt__json_scan_more(s, '}', n); n++) {
        kt__str text;
        double id = NAN;
        bool whole = false;
        if (!kt__json_scan_key(s, &text)) break;
        char next = kt__json_scan_peek(s);
        if (next == '-' || (next >= '0' && next <= '9'))
            (void)kt__json_scan_number(s, &id, &whole);
        else
            (void)kt__json_scan_skip(s);
        if (s->wrong) break;
        KT__STEP(kt__vocab_list_token(r->v, text, whole ? id : NAN, r->path, r->err));
    }
    return s->wrong ? not_json(r) : kt__vocab_end_ids(r->v, r->err);
}

/* [["piece", score], ...] */
static kt_status scan_pieces(list_reader *r) {
    kt__json_scan *s = &r->scan;
    (void)kt__json_scan_enter(s, '[');
    for (size_t n = 0; kt__json_scan_more(s, ']', n); n++) {
        kt__str text;
        double score;
        bool whole;
        if (kt__json_scan_enter(s, '[') && kt__json_scan_text(s, &text) &&
            kt__json_scan_more(s, ']', 1) && kt__json_scan_number(s, &score, &whole) &&
            !kt__json_scan_more(s, ']', 2) && !s->wrong) {
            KT__STEP(kt__vocab_list_token(r->v, text, score, r->path, r->err));
            continue;
        }
        if (!s->wrong || *s->at)
            return kt__fail_at(r->err, KT_E_FORMAT, r->path, (uint64_t)(s->at - r->text),
                               "model.vocab[%zu] is not a text and a score", n);
        break;
    }
    return s->wrong ? not_json(r) : KT_OK;
}

/* All of vocab.json. */
static kt_status scan_file_ids(list_reader *r) {
    KT__STEP(scan_ids(r));
    if (kt__json_scan_peek(&r->scan) == 0 && r->scan.at == r->scan.end) return KT_OK;
    r->scan.wrong = "the end of the file";
    return not_json(r);
}

static kt_status scan_vocab(list_reader *r) {
    switch (kt__json_scan_peek(&r->scan)) {
    case '{': return scan_ids(r);
    case '[': return scan_pieces(r);
    default: return KT_OK; /* missing */
    }
}

/* ["left right", ["left", "right"], ...] */
static kt_status scan_merges(list_reader *r) {
    kt__json_scan *s = &r->scan;
    if (kt__json_scan_peek(s) != '[') return KT_OK;
    r->v->has_merges = kt__json_scan_enter(s, '[');
    for (size_t n = 0; kt__json_scan_more(s, ']', n); n++) {
        kt__str left, right, whole;
        bool pair = kt__json_scan_peek(s) == '[';
        bool good = pair ? kt__json_scan_enter(s, '[') && kt__json_scan_text(s, &left) &&
                               kt__json_scan_more(s, ']', 1) && kt__json_scan_text(s, &right) &&
                               !kt__json_scan_more(s, ']', 2) && !s->wrong
                         : kt__json_scan_text(s, &whole) && split_merge(whole, &left, &right);
        if (!good || left.len == 0 || right.len == 0)
            return kt__fail_at(r->err, KT_E_FORMAT, r->path, (uint64_t)(s->at - r->text),
                               "model.merges[%zu] is neither \"left right\" nor a pair of texts",
                               n);
        KT__STEP(kt__vocab_list_merge(r->v, left, right, r->path, r->err));
    }
    return s->wrong ? not_json(r) : KT_OK;
}

/* ---- tokenizer.json ---- */

typedef struct text_range {
    char *begin, *end;
} text_range;

static bool str_is(kt__str s, const char *text) {
    return s.len == strlen(text) && memcmp(s.s, text, s.len) == 0;
}

/* A key as it is written, of which an escape is no match: nothing changes. */
static bool pass_key(kt__json_scan *s, kt__str *key) {
    (void)kt__json_scan_peek(s);
    const char *at = s->at;
    if (*at != '"' || !kt__json_scan_skip(s)) return false;
    *key = (kt__str){at + 1, (size_t)(s->at - at) - 2};
    if (kt__json_scan_peek(s) != ':') return false;
    s->at++;
    return true;
}

static bool pass_value(kt__json_scan *s, text_range *range) {
    (void)kt__json_scan_peek(s);
    range->begin = s->at;
    bool good = kt__json_scan_skip(s);
    range->end = s->at;
    return good;
}

static bool find_in_model(kt__json_scan *s, text_range *vocab, text_range *merges) {
    *vocab = *merges = (text_range){NULL, NULL};
    if (kt__json_scan_peek(s) != '{') return kt__json_scan_skip(s);
    (void)kt__json_scan_enter(s, '{');
    for (size_t n = 0; kt__json_scan_more(s, '}', n); n++) {
        kt__str key;
        text_range value;
        if (!pass_key(s, &key) || !pass_value(s, &value)) return false;
        if (str_is(key, "vocab")) *vocab = value;
        if (str_is(key, "merges")) *merges = value;
    }
    return !s->wrong;
}

/* model.vocab and model.merges, the last of each; false: the text is no JSON object. */
static bool find_lists(char *text, size_t len, text_range *vocab, text_range *merges) {
    kt__json_scan s = {text, text + len, NULL};
    *vocab = *merges = (text_range){NULL, NULL};
    (void)kt__json_scan_enter(&s, '{');
    for (size_t n = 0; kt__json_scan_more(&s, '}', n); n++) {
        kt__str key;
        if (!pass_key(&s, &key)) return false;
        if (!(str_is(key, "model") ? find_in_model(&s, vocab, merges) : kt__json_scan_skip(&s)))
            return false;
    }
    return !s.wrong;
}

/* The text with `null` in place of two ranges in ascending order, which may be absent. */
static char *without_ranges(const char *text, size_t len, const text_range cut[2], size_t n) {
    char *rest = kt__malloc(n + 1), *to = rest;
    const char *at = text;
    for (int i = 0; rest && i < 2; i++) {
        if (!cut[i].begin) continue;
        memcpy(to, at, (size_t)(cut[i].begin - at));
        to += cut[i].begin - at;
        memcpy(to, "null", 4);
        to += 4;
        at = cut[i].end;
    }
    if (!rest) return NULL;
    memcpy(to, at, (size_t)(text + len - at));
    return rest;
}

static size_t length_without(size_t len, const text_range cut[2]) {
    for (int i = 0; i < 2; i++)
        if (cut[i].begin) len = len - (size_t)(cut[i].end - cut[i].begin) + 4;
    return len;
}

/* A place in that text as one of the whole. */
static uint64_t origin_of(uint64_t at, const char *text, const text_range cut[2]) {
    for (int i = 0; i < 2; i++)
        if (cut[i].begin && at > (uint64_t)(cut[i].begin - text))
            at += (uint64_t)(cut[i].end - cut[i].begin) - 4;
    return at;
}

static kt_status scan_range(kt__vocab *v, const char *text, text_range range, const char *path,
                            kt_status (*scan)(list_reader *r), kt_error *err) {
    list_reader r = {v, path, text, {range.begin, range.end, NULL}, err};
    if (!range.begin) return KT_OK;
    char after = *range.end;
    *range.end = '\0'; /* numbers end there */
    kt_status status = scan(&r);
    *range.end = after;
    return status;
}

kt_status kt__vocab_parse_tokenizer(kt__vocab *v, char *text, size_t len, const char *path,
                                    kt_error *err) {
    text_range vocab, merges;
    if (!find_lists(text, len, &vocab, &merges))
        vocab = merges = (text_range){NULL, NULL}; /* what is wrong is said below */
    bool turned = merges.begin && (!vocab.begin || merges.begin < vocab.begin);
    const text_range cut[2] = {turned ? merges : vocab, turned ? vocab : merges};
    size_t n = length_without(len, cut);
    if (n > MAX_REST)
        return kt__fail_at(
            err, KT_E_LIMIT, path, UINT64_MAX,
            "%zu bytes besides model.vocab and model.merges are over the limit of %d", n, MAX_REST);
    char *rest = without_ranges(text, len, cut, n);
    if (!rest) return kt__fail_nomem(err, path, n);
    kt_status status = kt__folder_parse_bounded(rest, n, MAX_REST, path, &v->tokenizer, err);
    kt__free(rest);
    if (status != KT_OK && err && err->offset != UINT64_MAX)
        err->offset = origin_of(err->offset, text, cut);
    if (status == KT_OK) status = scan_range(v, text, vocab, path, scan_vocab, err);
    return status == KT_OK ? scan_range(v, text, merges, path, scan_merges, err) : status;
}

kt_status kt__vocab_parse_ids(kt__vocab *v, char *text, size_t len, const char *path,
                              kt_error *err) {
    const text_range all = {text, text + len};
    return scan_range(v, text, all, path, scan_file_ids, err);
}

/* ---- from JSON values ---- */

static kt__str text_of(const json_t *value) {
    const char *s = json_string_value(value);
    return (kt__str){s, s ? json_string_length(value) : 0};
}

static kt_status list_vocab_values(kt__vocab *v, json_t *vocab, const char *path, kt_error *err) {
    const char *text;
    json_t *value;
    size_t i;
    json_object_foreach(vocab, text, value) {
        double id = json_is_integer(value) ? (double)json_integer_value(value) : NAN;
        KT__STEP(kt__vocab_list_token(v, (kt__str){text, strlen(text)}, id, path, err));
    }
    json_array_foreach(vocab, i, value) {
        const json_t *score = json_array_get(value, 1);
        kt__str piece = text_of(json_array_get(value, 0));
        if (!piece.s || !json_is_number(score))
            return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                               "model.vocab[%zu] is not a text and a score", i);
        KT__STEP(kt__vocab_list_token(v, piece, json_number_value(score), path, err));
    }
    return json_is_object(vocab) ? kt__vocab_end_ids(v, err) : KT_OK;
}

static kt_status list_merge_value(kt__vocab *v, const json_t *value, const char *path,
                                  kt_error *err) {
    kt__str left = text_of(json_array_get(value, 0)), right = text_of(json_array_get(value, 1));
    if (json_is_array(value) && json_array_size(value) == 2 && left.len && right.len)
        return kt__vocab_list_merge(v, left, right, path, err);
    return kt__vocab_list_line(v, text_of(value), path, err);
}

kt_status kt__vocab_list_values(kt__vocab *v, const char *path, kt_error *err) {
    const json_t *model = json_object_get(v->tokenizer, "model");
    const json_t *merges = json_object_get(model, "merges"), *value;
    size_t i;
    if (v->n_listed || v->has_merges) return KT_OK; /* taken from a text */
    v->has_merges = json_is_array(merges);
    json_array_foreach(merges, i, value) KT__STEP(list_merge_value(v, value, path, err));
    return list_vocab_values(v, json_object_get(model, "vocab"), path, err);
}
