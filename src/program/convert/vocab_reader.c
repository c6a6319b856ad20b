#include "convert/vocab_reader.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
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
    kt_status status = KT_OK;
    size_t n = r->v->n_merges;
    if (!kt__strmap_init(&r->ranks, n)) return kt__fail_nomem(r->err, "merges", n);
    for (size_t i = n; i-- > 0;) {
        kt__str key;
        KT__TRY(join_key(&r->kept, r->v->merge_parts[2 * i], r->v->merge_parts[2 * i + 1], &key,
                         r->err));
        (void)kt__strmap_put(&r->ranks, key, (int64_t)i);
    }
out:
    return status;
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
    kt_status status = KT_OK;
    for (size_t i = 0; i < *n; i++) KT__TRY(rate_pair(r, word, symbols, i, *n));
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
        KT__TRY(rate_pair(r, word, symbols, best, *n));
        if (best > 0) KT__TRY(rate_pair(r, word, symbols, best - 1, *n));
    }
out:
    return status;
}

/* word is in the file's alphabet. */
static kt_status read_word(kt__vocab_reader *r, kt__str word) {
    size_t n = 0;
    int64_t whole = r->whole_words ? kt__strmap_get(&r->v->ids, word) : -1;
    kt_status status = KT_OK;
    if (whole >= 0) return push_id(r, whole);
    word_symbol *symbols = kt__arena_calloc(&r->arena, word.len + 1, sizeof *symbols);
    if (!symbols) return kt__fail_nomem(r->err, "a word", word.len);
    KT__TRY(begin_symbols(r, word, symbols, &n));
    KT__TRY(merge_symbols(r, word, symbols, &n));
    for (size_t i = 0; i < n; i++) {
        int64_t id = symbols[i].id >= 0 || !r->v->spm ? symbols[i].id
                                                      : r->v->role_ids[KT__ROLE_UNK];
        KT__TRY(push_id(r, id));
    }
out:
    return status;
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
    kt_status status = KT_OK;
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
        KT__TRY(read_word(r, (kt__str){text + begin, i - begin}));
        begin = i;
    }
    KT__TRY(read_word(r, (kt__str){text + begin, n - begin}));
out:
    return status;
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
    kt_status status = KT_OK;
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
        KT__TRY(read_stretch(r, s + begin, end - begin));
        KT__TRY(push_id(r, id));
        i += r->added[token].len;
        while (r->v->strips[id] & KT__TOK_RSTRIP && i < len && is_blank(s + i, len - i, &n)) i += n;
        begin = i;
    }
    KT__TRY(read_stretch(r, s + begin, len - begin));
out:
    return status;
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
    kt_status status;
    r->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    r->by_space = type && strcmp(type, "Metaspace") == 0 &&
                  !json_is_false(json_object_get(pre, "split"));
    const kt__pretok *known = r->v->pre ? kt__pretok_find(r->v->pre, strlen(r->v->pre)) : NULL;
    r->nfc = known && known->nfc;
    KT__TRY(make_alphabet(r));
    KT__TRY(make_ranks(r));
    KT__TRY(collect_added(r));
    if (v->method == KT__VOCAB_UNIGRAM) KT__TRY(kt__vocab_reader_open_unigram(r));
out:
    return status;
}

void kt__vocab_reader_close(kt__vocab_reader *r) {
    kt__charsmap_free(&r->charsmap);
    kt__strmap_free(&r->ranks);
    kt__ids_free(&r->ids);
    kt__arena_free(&r->arena);
    kt__arena_free(&r->kept);
}
