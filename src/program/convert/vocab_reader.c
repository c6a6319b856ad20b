#include "convert/vocab_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

/* ---- setting up ---- */

static kt_status make_alphabet(kt__vocab_reader *r) {
    kt__vocab_letter letters[256];
    kt__vocab_letters(letters);
    for (unsigned b = 0; b < 256; b++) {
        char *copy = kt__arena_strndup(&r->kept, letters[b].utf8, letters[b].n);
        if (!copy) return kt__fail_nomem(r->err, "an alphabet", 4);
        r->alphabet[b] = (kt__str){copy, letters[b].n};
    }
    return KT_OK;
}

static kt_status join_key(kt__arena *arena, kt__str left, kt__str right, kt__str *out,
                          kt_error *err) {
    char *key = kt__arena_alloc(arena, left.len + right.len + 1);
    if (!key) return kt__fail_nomem(err, "a merge", left.len + right.len);
    memcpy(key, left.s, left.len);
    key[left.len] = '\0';
    memcpy(key + left.len + 1, right.s, right.len);
    *out = (kt__str){key, left.len + right.len + 1};
    return KT_OK;
}

/* As in Hugging Face's map, the last of two equal merges counts. */
static kt_status make_ranks(kt__vocab_reader *r) {
    size_t n = r->v->n_merges;
    if (!kt__strmap_init(&r->ranks, n)) return kt__fail_nomem(r->err, "merges", n);
    for (size_t i = n; i-- > 0;) {
        kt__str key;
        KT__STEP(join_key(&r->kept, r->v->merge_parts[2 * i], r->v->merge_parts[2 * i + 1], &key,
                          r->err));
        (void)kt__strmap_put(&r->ranks, key, (int64_t)i);
    }
    return KT_OK;
}

static kt_status collect_added(kt__vocab_reader *r) {
    json_t *list = json_object_get(r->v->tokenizer, "added_tokens"), *token;
    size_t i, n = json_array_size(list);
    r->added = kt__arena_calloc(&r->kept, n + 1, sizeof *r->added);
    r->added_ids = kt__arena_calloc(&r->kept, n + 1, sizeof *r->added_ids);
    if (!r->added || !r->added_ids) return kt__fail_nomem(r->err, "added tokens", n);
    json_array_foreach(list, i, token) {
        const json_t *content = json_object_get(token, "content");
        int64_t id = json_integer_value(json_object_get(token, "id"));
        if (id < 0 || (uint64_t)id >= r->v->n_tokens) continue; /* it has no row */
        r->added[r->n_added] = (kt__str){json_string_value(content), json_string_length(content)};
        r->added_ids[r->n_added++] = (int32_t)id;
    }
    return KT_OK;
}

/* ---- words ---- */

/* A symbol is a stretch of the word that is a token. */
typedef struct word_symbol {
    size_t begin, end;
    int32_t id;
    int64_t rank; /* of the merge with the next one; -1: none */
} word_symbol;

static kt_status push_id(kt__vocab_reader *r, int64_t id) {
    return id < 0 ? KT_OK : kt__ids_push(&r->ids, (int32_t)id, r->err);
}

/* Characters as tokens; one that is none falls back to bytes, which no merge takes up. */
static kt_status begin_symbols(kt__vocab_reader *r, kt__str word, word_symbol *symbols, size_t *n) {
    *n = 0;
    for (size_t i = 0, step; i < word.len; i += step) {
        uint32_t cp;
        step = kt__utf8_decode(word.s + i, word.len - i, &cp);
        if (step == 0) step = 1;
        int64_t id = kt__strmap_get(&r->v->ids, (kt__str){word.s + i, step});
        if (id >= 0) {
            symbols[(*n)++] = (word_symbol){i, i + step, (int32_t)id, -1};
            continue;
        }
        for (size_t b = 0; b < step; b++) {
            char text[8];
            snprintf(text, sizeof text, "<0x%02X>", (unsigned char)word.s[i + b]);
            id = r->v->spm ? kt__strmap_get(&r->v->ids, (kt__str){text, 6}) : -1;
            symbols[(*n)++] = (word_symbol){SIZE_MAX, SIZE_MAX, (int32_t)id, -1};
        }
    }
    return KT_OK;
}

/* Symbol i and the one after it. */
static kt_status rate_pair(kt__vocab_reader *r, kt__str word, word_symbol *symbols, size_t i,
                           size_t n) {
    word_symbol *a = &symbols[i], *b = a + 1;
    kt__str key;
    a->rank = -1;
    if (i + 1 >= n || a->begin == SIZE_MAX || b->begin == SIZE_MAX) return KT_OK;
    kt_status status = join_key(&r->arena, (kt__str){word.s + a->begin, a->end - a->begin},
                                (kt__str){word.s + b->begin, b->end - b->begin}, &key, r->err);
    if (status == KT_OK) a->rank = kt__strmap_get(&r->ranks, key);
    return status;
}

/* Merges the pair of lowest rank, the leftmost of equals, until none has a rank. */
static kt_status merge_symbols(kt__vocab_reader *r, kt__str word, word_symbol *symbols, size_t *n) {
    for (size_t i = 0; i < *n; i++) KT__STEP(rate_pair(r, word, symbols, i, *n));
    for (;;) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < *n; i++)
            if (symbols[i].rank >= 0 && (best == SIZE_MAX || symbols[i].rank < symbols[best].rank))
                best = i;
        if (best == SIZE_MAX) return KT_OK;
        word_symbol *s = &symbols[best];
        s->end = s[1].end;
        s->id = (int32_t)kt__strmap_get(&r->v->ids,
                                        (kt__str){word.s + s->begin, s->end - s->begin});
        memmove(s + 1, s + 2, (*n - best - 2) * sizeof *s);
        (*n)--;
        KT__STEP(rate_pair(r, word, symbols, best, *n));
        if (best > 0) KT__STEP(rate_pair(r, word, symbols, best - 1, *n));
    }
    return KT_OK;
}

/* word is in the file's alphabet. */
static kt_status read_word(kt__vocab_reader *r, kt__str word) {
    size_t n = 0;
    int64_t whole = r->whole_words ? kt__strmap_get(&r->v->ids, word) : -1;
    if (whole >= 0) return push_id(r, whole);
    word_symbol *symbols = kt__arena_calloc(&r->arena, word.len + 1, sizeof *symbols);
    if (!symbols) return kt__fail_nomem(r->err, "a word", word.len);
    KT__STEP(begin_symbols(r, word, symbols, &n));
    KT__STEP(merge_symbols(r, word, symbols, &n));
    for (size_t i = 0; i < n; i++) {
        int64_t id = symbols[i].id >= 0 || !r->v->spm ? symbols[i].id
                                                      : r->v->role_ids[KT__ROLE_UNK];
        KT__STEP(push_id(r, id));
    }
    return KT_OK;
}

static kt_status read_byte_word(kt__vocab_reader *r, const char *s, size_t len) {
    char *mapped = kt__arena_alloc(&r->arena, 2 * len + 1);
    size_t n = 0;
    if (!mapped) return kt__fail_nomem(r->err, "a word", len);
    for (size_t i = 0; i < len; i++) {
        kt__str c = r->alphabet[(unsigned char)s[i]];
        memcpy(mapped + n, c.s, c.len);
        n += c.len;
    }
    return read_word(r, (kt__str){mapped, n});
}

/* ---- stretches between added tokens ---- */

static kt_status read_bytes(kt__vocab_reader *r, const char *s, size_t len) {
    kt__pretok_iter it;
    const char *word;
    size_t n;
    kt_status status = KT_OK;
    if (r->nfc) KT__TRY(kt__unicode_nfc(&r->arena, s, len, &s, &len, r->err));
    kt__pretok_begin(&it, r->v->family, s, len);
    while (status == KT_OK && kt__pretok_next(&it, &word, &n)) status = read_byte_word(r, word, n);
out:
    return status;
}

static const char low_line[] = "\xe2\x96\x81"; /* U+2581, a space */

static kt_status read_spaced(kt__vocab_reader *r, const char *s, size_t len) {
    char *text = kt__arena_alloc(&r->arena, 3 * len + 4);
    size_t n = 0, begin = 0;
    if (!text) return kt__fail_nomem(r->err, "a text", len);
    if (r->v->add_space_prefix > 0) n = (size_t)((char *)mempcpy(text, low_line, 3) - text);
    for (size_t i = 0; i < len; i++) {
        bool space = s[i] == ' ';
        if (space) memcpy(text + n, low_line, 3);
        if (!space) text[n] = s[i];
        n += space ? 3 : 1;
    }
    for (size_t i = 3; r->by_space && i + 3 <= n; i++) { /* Metaspace begins a word at each */
        if (memcmp(text + i, low_line, 3) != 0) continue;
        KT__STEP(read_word(r, (kt__str){text + begin, i - begin}));
        begin = i;
    }
    return read_word(r, (kt__str){text + begin, n - begin});
}

static kt_status read_stretch(kt__vocab_reader *r, const char *s, size_t len) {
    if (len == 0) return KT_OK;
    if (r->v->method == KT__VOCAB_UNIGRAM) return kt__vocab_reader_unigram(r, s, len);
    if (r->v->method == KT__VOCAB_WORDPIECE) return kt__vocab_reader_wordpiece(r, s, len);
    return r->v->spm ? read_spaced(r, s, len) : read_bytes(r, s, len);
}

/* The longest added token at s; SIZE_MAX: none. */
static size_t added_at(const kt__vocab_reader *r, const char *s, size_t len) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < r->n_added; i++) {
        kt__str t = r->added[i];
        if (t.len == 0 || t.len > len || memcmp(t.s, s, t.len) != 0) continue;
        if (best == SIZE_MAX || t.len > r->added[best].len) best = i;
    }
    return best;
}

static bool is_blank(const char *s, size_t len, size_t *n) {
    uint32_t cp;
    return kt__unicode_next(s, len, n, &cp) & KT__UC_SPACE;
}

/* Where the white space at the end of s[begin..end) begins. */
static size_t trim_end(const char *s, size_t begin, size_t end) {
    size_t last = begin, n;
    for (size_t i = begin; i < end; i += n)
        if (!is_blank(s + i, end - i, &n)) last = i + n;
    return last;
}

kt_status kt__vocab_reader_line(kt__vocab_reader *r, const char *s, size_t len) {
    size_t begin = 0;
    kt__arena_reset(&r->arena);
    r->ids.len = 0;
    for (size_t i = 0; i < len;) {
        size_t token = added_at(r, s + i, len - i);
        if (token == SIZE_MAX) {
            i++;
            continue;
        }
        int32_t id = r->added_ids[token];
        size_t n, end = r->v->strips[id] & KT__TOK_LSTRIP ? trim_end(s, begin, i) : i;
        KT__STEP(read_stretch(r, s + begin, end - begin));
        KT__STEP(push_id(r, id));
        i += r->added[token].len;
        while (r->v->strips[id] & KT__TOK_RSTRIP && i < len && is_blank(s + i, len - i, &n)) i += n;
        begin = i;
    }
    return read_stretch(r, s + begin, len - begin);
}

kt_status kt__vocab_reader_reached(kt__vocab_reader *r, int32_t id, bool *reached) {
    bool whole_words = r->whole_words;
    kt__arena_reset(&r->arena);
    r->ids.len = 0;
    r->whole_words = false;
    kt_status status = read_word(r, r->v->tokens[id]);
    r->whole_words = whole_words;
    *reached = r->ids.len == 1 && r->ids.data[0] == id;
    return status;
}

/* ---- opening ---- */

kt_status kt__vocab_reader_open(kt__vocab_reader *r, const kt__vocab *v, kt_error *err) {
    *r = (kt__vocab_reader){.v = v, .err = err};
    kt__arena_init(&r->arena, 1 << 16, 64 << 20);
    kt__arena_init(&r->kept, 1 << 20, 512 << 20);
    kt__ids_init(&r->ids, 1 << 20);
    const json_t *model = json_object_get(r->v->tokenizer, "model");
    const json_t *pre = json_object_get(r->v->tokenizer, "pre_tokenizer");
    const char *type = json_string_value(json_object_get(pre, "type"));
    r->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    r->by_space = type && strcmp(type, "Metaspace") == 0 &&
                  !json_is_false(json_object_get(pre, "split"));
    const kt__pretok *known = r->v->pre ? kt__pretok_find(r->v->pre, strlen(r->v->pre)) : NULL;
    r->nfc = known && known->nfc;
    KT__STEP(make_alphabet(r));
    KT__STEP(make_ranks(r));
    KT__STEP(collect_added(r));
    if (v->method == KT__VOCAB_UNIGRAM) KT__STEP(kt__vocab_reader_open_unigram(r));
    return KT_OK;
}

void kt__vocab_reader_close(kt__vocab_reader *r) {
    kt__charsmap_free(&r->charsmap);
    kt__strmap_free(&r->ranks);
    kt__ids_free(&r->ids);
    kt__arena_free(&r->arena);
    kt__arena_free(&r->kept);
}

/* The plain reading of unigram and WordPiece vocabularies. */

static kt_status room_for(kt__vocab_reader *r, size_t n, char **out) {
    *out = kt__arena_alloc(&r->arena, n + 1);
    return *out ? KT_OK : kt__fail_nomem(r->err, "a text", n);
}

static void put_text(kt__str *text, char *room, const char *s, size_t n) {
    if (n) memcpy(room + text->len, s, n);
    text->len += n;
}

/* ---- what is done to a text ---- */

/* The longest prefix that the map knows, again and again. */
static kt_status apply_charsmap(kt__vocab_reader *r, kt__str in, kt__str *out) {
    char *room;
    kt__str to;
    size_t n, size = 0;
    for (size_t i = 0; i < in.len; i += n) {
        n = kt__charsmap_match(&r->charsmap, in.s + i, in.len - i, &to);
        size += n ? to.len : 4;
        if (n == 0) n = 1;
    }
    kt_status status = room_for(r, size, &room);
    if (status != KT_OK) return status;
    *out = (kt__str){room, 0};
    for (size_t i = 0; i < in.len; i += n) {
        uint32_t cp;
        n = kt__charsmap_match(&r->charsmap, in.s + i, in.len - i, &to);
        if (n > 0) {
            put_text(out, room, to.s, to.len);
            continue;
        }
        (void)kt__unicode_next(in.s + i, in.len - i, &n, &cp);
        put_text(out, room, in.s + i, n);
    }
    return KT_OK;
}

static bool is_space(const char *s, size_t len, size_t *n) {
    uint32_t cp;
    return kt__unicode_next(s, len, n, &cp) & KT__UC_SPACE;
}

static kt__str strip_text(const kt__vocab_step *step, kt__str text) {
    size_t n, end = 0;
    while (step->left && text.len && is_space(text.s, text.len, &n)) {
        text.s += n;
        text.len -= n;
    }
    for (size_t i = 0; i < text.len; i += n)
        if (!is_space(text.s + i, text.len - i, &n)) end = i + n;
    if (step->right) text.len = end;
    return text;
}

/* Runs of at least `least` spaces become `with`. */
static kt_status replace_spaces(kt__vocab_reader *r, kt__str in, size_t least, kt__str with,
                                kt__str *out) {
    char *room;
    kt_status status = room_for(r, 3 * in.len, &room);
    if (status != KT_OK) return status;
    *out = (kt__str){room, 0};
    for (size_t i = 0, n; i < in.len; i += n) {
        for (n = 0; i + n < in.len && in.s[i + n] == ' ' && (least > 1 || n == 0); n++) {
        }
        if (n >= least) {
            put_text(out, room, with.s, with.len);
            continue;
        }
        if (n == 0) n = 1;
        put_text(out, room, in.s + i, n);
    }
    return KT_OK;
}

static bool begins_with_block(kt__str text) {
    return text.len >= 3 && memcmp(text.s, low_line, 3) == 0;
}

static kt_status prepend_text(kt__vocab_reader *r, kt__str in, kt__str *out) {
    char *room;
    kt_status status = room_for(r, in.len + 3, &room);
    if (status != KT_OK) return status;
    *out = (kt__str){room, 0};
    put_text(out, room, low_line, 3);
    put_text(out, room, in.s, in.len);
    return KT_OK;
}

static kt_status apply_step(kt__vocab_reader *r, const kt__vocab_step *step, kt__str *text) {
    static const kt__str block = {low_line, 3};
    switch (step->kind) {
    case KT__STEP_CHARSMAP: return apply_charsmap(r, *text, text);
    case KT__STEP_STRIP: *text = strip_text(step, *text); return KT_OK;
    case KT__STEP_JOIN_SPACES: return replace_spaces(r, *text, 2, step->text, text);
    case KT__STEP_REPLACE: return replace_spaces(r, *text, 1, block, text);
    case KT__STEP_PREPEND: return text->len ? prepend_text(r, *text, text) : KT_OK;
    case KT__STEP_SPLIT_SPACES: return KT_OK; /* the caller's */
    case KT__STEP_METASPACE: break;
    }
    KT__STEP(replace_spaces(r, *text, 1, block, text));
    if (step->left && !begins_with_block(*text)) KT__STEP(prepend_text(r, *text, text));
    return KT_OK;
}

/* ---- unigram ---- */

kt_status kt__vocab_reader_open_unigram(kt__vocab_reader *r) {
    const kt__vocab *v = r->v;
    KT__STEP(kt__vocab_steps_read(v->tokenizer, "tokenizer.json", &r->steps, r->err));
    KT__STEP(kt__charsmap_init(&r->charsmap, v->charsmap, "tokenizer.json", r->err));
    r->unknown_score = INFINITY;
    for (size_t i = 0; i < v->n_listed; i++) {
        double score = v->listed[i].number;
        if (score < r->unknown_score) r->unknown_score = score;
        if (v->tokens[i].len > r->longest) r->longest = v->tokens[i].len;
    }
    r->unknown_score -= 10.0;
    return KT_OK;
}

/* The best way to write a word up to a byte. */
typedef struct way {
    double sum;
    size_t begin; /* of its last piece; SIZE_MAX: there is no way */
    int64_t id;   /* -1: unknown */
} way;

static void offer_way(way *at, double sum, size_t begin, int64_t id) {
    if (at->begin == SIZE_MAX || sum > at->sum) *at = (way){sum, begin, id};
}

static void extend_ways(const kt__vocab_reader *r, kt__str word, size_t begin, size_t n_char,
                        way *ways) {
    bool single = false;
    for (size_t n = 1; n <= word.len - begin && n <= r->longest; n++) {
        int64_t id = kt__strmap_get(&r->v->ids, (kt__str){word.s + begin, n});
        if (id < 0 || (size_t)id >= r->v->n_listed) continue;
        double score = r->v->listed[id].number;
        offer_way(&ways[begin + n], ways[begin].sum + score, begin, id);
        single |= n == n_char;
    }
    if (!single) offer_way(&ways[begin + n_char], ways[begin].sum + r->unknown_score, begin, -1);
}

static kt_status push_bytes(kt__vocab_reader *r, const char *s, size_t len) {
    static const char digits[] = "0123456789ABCDEF";
    bool bytes = json_is_true(
        json_object_get(json_object_get(r->v->tokenizer, "model"), "byte_fallback"));
    int32_t unk = r->v->role_ids[KT__ROLE_UNK];
    size_t before = r->ids.len;
    for (size_t i = 0; bytes && i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        const char text[6] = {'<', '0', 'x', digits[c >> 4], digits[c & 15], '>'};
        int64_t id = kt__strmap_get(&r->v->ids, (kt__str){text, 6});
        bytes = id >= 0;
        if (bytes) KT__STEP(kt__ids_push(&r->ids, (int32_t)id, r->err));
    }
    if (bytes) return KT_OK;
    r->ids.len = before;
    return kt__ids_push(&r->ids, unk, r->err);
}

/* Unknown characters in a row are one. */
static kt_status push_ways(kt__vocab_reader *r, kt__str word, way *ways) {
    size_t *ends = kt__arena_calloc(&r->arena, word.len + 1, sizeof *ends);
    if (!ends) return kt__fail_nomem(r->err, "a word", word.len);
    for (size_t at = word.len; at > 0; at = ways[at].begin) ends[ways[at].begin] = at;
    for (size_t at = 0, begin; at < word.len;) {
        begin = at;
        int64_t id = ways[ends[at]].id;
        at = ends[at];
        while (id < 0 && at < word.len && ways[ends[at]].id < 0) at = ends[at];
        KT__STEP(id < 0 ? push_bytes(r, word.s + begin, at - begin)
                        : kt__ids_push(&r->ids, (int32_t)id, r->err));
    }
    return KT_OK;
}

static kt_status read_unigram_word(kt__vocab_reader *r, kt__str word) {
    way *ways = kt__arena_calloc(&r->arena, word.len + 1, sizeof *ways);
    if (!ways) return kt__fail_nomem(r->err, "a word", word.len);
    for (size_t i = 1; i <= word.len; i++) ways[i].begin = SIZE_MAX;
    for (size_t i = 0, n; i < word.len; i += n) {
        uint32_t cp;
        (void)kt__unicode_next(word.s + i, word.len - i, &n, &cp);
        if (ways[i].begin != SIZE_MAX) extend_ways(r, word, i, n, ways);
    }
    return push_ways(r, word, ways);
}

/* The steps from `first` on, then words at each U+2581 where the last step cuts so. */
static kt_status read_unigram_part(kt__vocab_reader *r, kt__str text, size_t first) {
    size_t begin = 0;
    bool cut = false;
    for (size_t i = first; i < r->steps.n; i++) {
        const kt__vocab_step *step = &r->steps.list[i];
        KT__STEP(apply_step(r, step, &text));
        cut = step->kind == KT__STEP_METASPACE && step->right;
    }
    for (size_t i = 1; cut && i + 3 <= text.len; i++) {
        if (memcmp(text.s + i, low_line, 3) != 0) continue;
        KT__STEP(read_unigram_word(r, (kt__str){text.s + begin, i - begin}));
        begin = i;
    }
    return read_unigram_word(r, (kt__str){text.s + begin, text.len - begin});
}

kt_status kt__vocab_reader_unigram(kt__vocab_reader *r, const char *s, size_t len) {
    kt__str text = {s, len};
    size_t split = 0, n;
    while (split < r->steps.n && r->steps.list[split].kind != KT__STEP_SPLIT_SPACES) split++;
    if (split == r->steps.n) return read_unigram_part(r, text, 0);
    for (size_t i = 0; i < split; i++) KT__STEP(apply_step(r, &r->steps.list[i], &text));
    for (size_t i = 0, begin = 0; i <= text.len; i += n) {
        bool end = i == text.len;
        n = 1;
        if (!end && !is_space(text.s + i, text.len - i, &n)) continue;
        kt__str word = {text.s + begin, i - begin};
        if (word.len) KT__STEP(read_unigram_part(r, word, split + 1));
        begin = i + n;
    }
    return KT_OK;
}

/* ---- WordPiece ---- */

/* Characters as the normaliser leaves them. */
typedef struct word_chars {
    kt__vocab_reader *r;
    char *word; /* of the text's size, times what small letters may add */
    size_t len, n_chars;
} word_chars;

static bool is_mark(uint32_t cp) {
    return utf8proc_category((int32_t)cp) == UTF8PROC_CATEGORY_MN;
}

static bool is_punctuation(uint32_t cp) {
    if (cp < 128) return strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)cp) && cp;
    utf8proc_category_t c = utf8proc_category((int32_t)cp);
    return c == UTF8PROC_CATEGORY_PC || c == UTF8PROC_CATEGORY_PD || c == UTF8PROC_CATEGORY_PS ||
           c == UTF8PROC_CATEGORY_PE || c == UTF8PROC_CATEGORY_PI || c == UTF8PROC_CATEGORY_PF ||
           c == UTF8PROC_CATEGORY_PO;
}

static bool is_ideograph(uint32_t cp) {
    return (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0x3400 && cp <= 0x4dbf) ||
           (cp >= 0x20000 && cp <= 0x2a6df) || (cp >= 0x2a700 && cp <= 0x2b81f) ||
           (cp >= 0x2b920 && cp <= 0x2ceaf) || (cp >= 0xf900 && cp <= 0xfaff) ||
           (cp >= 0x2f800 && cp <= 0x2fa1f);
}

/* Control characters go, but for those that are spaces. */
static bool is_control(uint32_t cp, uint8_t cls) {
    utf8proc_category_t c = utf8proc_category((int32_t)cp);
    if (cp == '\t' || cp == '\n' || cp == '\r') return false;
    return cp == 0 || cp == 0xfffd || c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_CO || (cls == 0 && cp == UINT32_MAX);
}

/* The id of the piece word[begin, end); -1: there is none. */
static int64_t piece_id(const word_chars *w, size_t begin, size_t end) {
    char text[512] = "##";
    size_t at = begin ? 2 : 0;
    if (end - begin + at >= sizeof text) return -1;
    memcpy(text + at, w->word + begin, end - begin);
    return kt__vocab_listed_id(w->r->v, text, at + end - begin);
}

static kt_status end_word(word_chars *w) {
    kt__ids *ids = &w->r->ids;
    size_t before = ids->len, end;
    bool known = w->n_chars <= 100;
    kt_status status = KT_OK;
    for (size_t at = 0; known && at < w->len; at = end) {
        int64_t id = -1;
        for (end = w->len; end > at && id < 0;) {
            id = piece_id(w, at, end);
            if (id >= 0) break;
            for (end--; end > at && ((unsigned char)w->word[end] & 0xc0) == 0x80;) end--;
        }
        known = id >= 0;
        if (known) KT__TRY(kt__ids_push(ids, (int32_t)id, w->r->err));
    }
    if (!known) {
        ids->len = before;
        status = kt__ids_push(ids, w->r->v->role_ids[KT__ROLE_UNK], w->r->err);
    }
out:
    w->len = w->n_chars = 0;
    return status;
}

static void add_character(word_chars *w, uint32_t cp) {
    w->len += kt__utf8_encode(cp, w->word + w->len);
    w->n_chars++;
}

static void add_small(word_chars *w, uint32_t cp) {
    bool two = cp == 0x130; /* the one letter whose small form has two characters */
    add_character(w, two ? 'i' : (uint32_t)utf8proc_tolower((int32_t)cp));
    if (two) add_character(w, 0x307);
}

static kt_status read_character(word_chars *w, uint32_t cp, uint8_t cls) {
    const kt__vocab *v = w->r->v;
    bool alone = is_punctuation(cp) || is_ideograph(cp);
    if (v->strip_accents && is_mark(cp)) return KT_OK;
    if (alone || cls & KT__UC_SPACE) KT__STEP(end_word(w));
    if (cls & KT__UC_SPACE) return KT_OK;
    if (v->lowercase)
        add_small(w, cp);
    else
        add_character(w, cp);
    if (alone) KT__STEP(end_word(w));
    return KT_OK;
}

kt_status kt__vocab_reader_wordpiece(kt__vocab_reader *r, const char *s, size_t len) {
    word_chars w = {.r = r};
    char *clean;
    size_t n_clean = 0, n;
    KT__STEP(room_for(r, len, &clean));
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(s + i, len - i, &n, &cp);
        if (is_control(cp, cls)) continue;
        memcpy(clean + n_clean, s + i, n);
        n_clean += n;
    }
    const char *text = clean;
    if (r->v->strip_accents)
        KT__STEP(kt__unicode_nfd(&r->arena, clean, n_clean, &text, &n_clean, r->err));
    KT__STEP(room_for(r, 4 * n_clean, &w.word));
    for (size_t i = 0; i < n_clean; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(text + i, n_clean - i, &n, &cp);
        KT__STEP(read_character(&w, cp, cls));
    }
    return end_word(&w);
}
