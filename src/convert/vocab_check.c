/* The proof of a vocabulary: a plain reading of tokenizer.json encodes a test text, and so does the
 * tokenizer that will read the GGUF file. The reading follows Hugging Face's rules one by one
 * (added tokens, normaliser, words, merges by rank, byte fallback) and shares with the tokenizer
 * only the cut into words, whose expressions were compared letter by letter. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "convert/vocab.h"
#include "tokenizer/unicode.h"

enum { MAX_LINE = 256, SAMPLED_TOKENS = 1500 };

/* What tokenizers disagree on: contractions, digits, spaces, line ends, cases, marks, scripts. */
static const char *const lines[] = {
    "Halo, apa kabar? Saya baik-baik saja; 1234567 orang, 3,14 dan 50% lebih.",
    "I'm sure they'LL say we've DON'T it'd 'S 'Re, naïve café déjà-vu ﬁne œuvre",
    "  two spaces   three    four\ttab\t\ttabs \n line\r\nCRLF\n\n\nthree lines   \n  end  ",
    "for (int i=0; i<n; ++i) { x[i] = a*b + c/d; } // ok? #include <stdio.h>\n\t\treturn 0;",
    "HTTPServer2024Error camelCase snake_case SCREAMING_CASE kebab-case iPhone15 a1b2c3",
    "你好，世界！今天是2024年。こんにちは、世界。안녕하세요 세계 Привет, мир! Γειά σου Κόσμε",
    "مرحبا بالعالم ١٢٣ नमस्ते दुनिया १२३ ภาษาไทย ꦲꦏ꧀ꦱꦫ שלום עולם",
    "e\xcc\x81 a\xcc\x88o\xcc\x82 \xe2\x80\x8b\xe2\x80\x8d \xc2\xa0nbsp \xe3\x80\x80wide",
    "😀👩‍👩‍👧‍👦🇮🇩 ½ ² Ⅷ ㊿ ∑∫√ ≤≥ → «q» “q” "
    "‘q’ "
    "… "
    "— "
    "– "
    "· "
    "•",
    "!!!???...---===+++***&&&|||~~~```\"\"\"''' (((([[[[{{{{<<<<>>>>}}}}]]]]))))",
    "'ſ K \xc7\x85\xc7\x88 ǅǈ ſs İi ıI ß ẞ ﷺ \xf0\x90\x90\x80\xf0\x90\x90\xa8",
};
enum { N_LINES = sizeof lines / sizeof *lines };

typedef struct vocab_reader {
    const kt__vocab *v;
    kt__arena arena; /* of a line */
    kt__arena kept;
    kt__strmap ranks; /* left NUL right */
    kt__str alphabet[256];
    kt__str *added;
    int32_t *added_ids;
    size_t n_added;
    bool whole_words, nfc, by_space;
    kt__ids ids;
    kt_error *err;
} vocab_reader;

/* ---- setting up ---- */

/* GPT-2's alphabet: printable Latin-1 as itself, the other bytes from U+0100 up. */
static kt_status make_alphabet(vocab_reader *r) {
    uint32_t next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        char utf8[4];
        size_t n = kt__utf8_encode(printable ? b : next++, utf8);
        char *copy = kt__arena_strndup(&r->kept, utf8, n);
        if (!copy) return kt__fail_nomem(r->err, "an alphabet", 4);
        r->alphabet[b] = (kt__str){copy, n};
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
static kt_status make_ranks(vocab_reader *r) {
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

static kt_status collect_added(vocab_reader *r) {
    json_t *list = json_object_get(r->v->tokenizer, "added_tokens"), *token;
    size_t i, n = json_array_size(list);
    r->added = kt__arena_calloc(&r->kept, n + 1, sizeof *r->added);
    r->added_ids = kt__arena_calloc(&r->kept, n + 1, sizeof *r->added_ids);
    if (!r->added || !r->added_ids) return kt__fail_nomem(r->err, "added tokens", n);
    json_array_foreach(list, i, token) {
        const json_t *content = json_object_get(token, "content");
        r->added[i] = (kt__str){json_string_value(content), json_string_length(content)};
        r->added_ids[i] = (int32_t)json_integer_value(json_object_get(token, "id"));
    }
    r->n_added = n;
    return KT_OK;
}

/* ---- words ---- */

/* A symbol is a stretch of the word that is a token. */
typedef struct word_symbol {
    size_t begin, end;
    int32_t id;
    int64_t rank; /* of the merge with the next one; -1: none */
} word_symbol;

static kt_status push_id(vocab_reader *r, int64_t id) {
    return id < 0 ? KT_OK : kt__ids_push(&r->ids, (int32_t)id, r->err);
}

/* Characters as tokens; one that is none falls back to bytes, which no merge takes up. */
static kt_status begin_symbols(vocab_reader *r, kt__str word, word_symbol *symbols, size_t *n) {
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
static kt_status rate_pair(vocab_reader *r, kt__str word, word_symbol *symbols, size_t i,
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
static kt_status merge_symbols(vocab_reader *r, kt__str word, word_symbol *symbols, size_t *n) {
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
static kt_status read_word(vocab_reader *r, kt__str word) {
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

static kt_status read_byte_word(vocab_reader *r, const char *s, size_t len) {
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

static kt_status read_bytes(vocab_reader *r, const char *s, size_t len) {
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

static kt_status read_spaced(vocab_reader *r, const char *s, size_t len) {
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

static kt_status read_stretch(vocab_reader *r, const char *s, size_t len) {
    if (len == 0) return KT_OK;
    return r->v->spm ? read_spaced(r, s, len) : read_bytes(r, s, len);
}

/* The longest added token at s; SIZE_MAX: none. */
static size_t added_at(const vocab_reader *r, const char *s, size_t len) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < r->n_added; i++) {
        kt__str t = r->added[i];
        if (t.len == 0 || t.len > len || memcmp(t.s, s, t.len) != 0) continue;
        if (best == SIZE_MAX || t.len > r->added[best].len) best = i;
    }
    return best;
}

static kt_status read_line(vocab_reader *r, const char *s, size_t len) {
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
        KT__TRY(read_stretch(r, s + begin, i - begin));
        KT__TRY(push_id(r, r->added_ids[token]));
        begin = i += r->added[token].len;
    }
    KT__TRY(read_stretch(r, s + begin, len - begin));
out:
    return status;
}

/* ---- the comparison ---- */

typedef struct comparison {
    vocab_reader *reader;
    kt__tokenizer *tok;
    kt__ids ids;
    size_t n_lines, n_wrong;
    char first_wrong[MAX_LINE + 4];
} comparison;

static kt_status compare_line(comparison *c, const char *s, size_t len, kt_error *err) {
    kt_status status;
    c->ids.len = 0;
    KT__TRY(read_line(c->reader, s, len));
    KT__TRY(kt__tokenizer_encode(c->tok, s, len, KT_TOK_PARSE_SPECIAL, &c->ids, err));
    const kt__ids *want = &c->reader->ids;
    c->n_lines++;
    if (c->ids.len == want->len &&
        (want->len == 0 || memcmp(c->ids.data, want->data, want->len * sizeof *want->data) == 0))
        goto out;
    if (c->n_wrong++ == 0)
        snprintf(c->first_wrong, sizeof c->first_wrong, "%.*s", (int)(len < 80 ? len : 80), s);
out:
    return status;
}

/* Texts of tokens in a row, which is where a wrong order of merges shows. */
static kt_status compare_tokens(comparison *c, kt_error *err) {
    const kt__vocab *v = c->reader->v;
    size_t step = v->n_tokens / SAMPLED_TOKENS + 1, n = 0;
    char line[MAX_LINE];
    kt_status status = KT_OK;
    for (size_t i = 0; i < v->n_tokens; i += step) {
        kt__str bytes = kt__tokenizer_token_bytes(c->tok, (int32_t)i);
        uint32_t cp;
        if (v->types[i] != KT__TOK_NORMAL || bytes.len == 0 || bytes.len > MAX_LINE / 4) continue;
        if (kt__utf8_decode(bytes.s, bytes.len, &cp) == 0) continue; /* half a character */
        if (kt__utf8_incomplete_tail(bytes.s, bytes.len) != 0) continue;
        memcpy(line + n, bytes.s, bytes.len);
        n += bytes.len;
        if (n < MAX_LINE / 2) continue;
        KT__TRY(compare_line(c, line, n, err));
        n = 0;
    }
out:
    return status;
}

/* A wrong cut or order of byte-level BPE is refused; a SentencePiece vocabulary has rules that
 * tokenizer.json need not follow, and says so. */
static kt_status judge(const comparison *c, const char *path, const kt__convert_notes *notes,
                       kt_error *err) {
    if (c->n_wrong == 0) return KT_OK;
    if (!c->reader->v->spm)
        return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                           "as GGUF's '%s' this tokenizer encodes %zu of %zu test lines otherwise, "
                           "first \"%.100s\"",
                           c->reader->v->pre, c->n_wrong, c->n_lines, c->first_wrong);
    kt__convert_note(notes,
                     "tokenizer.json encodes %zu of %zu test lines otherwise than %s in GGUF, "
                     "first \"%.100s\"",
                     c->n_wrong, c->n_lines,
                     c->reader->v->made_scores ? "scores made from its merges" : "tokenizer.model",
                     c->first_wrong);
    return KT_OK;
}

static kt_status open_reader(vocab_reader *r) {
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
out:
    return status;
}

kt__tok_vocab kt__vocab_view(const kt__vocab *v) {
    kt__tok_vocab view;
    kt__tok_vocab_init(&view);
    view.model = v->spm ? "llama" : "gpt2";
    view.pre = v->pre;
    view.tokens = v->tokens;
    view.n_tokens = v->n_tokens;
    view.scores = v->spm ? v->scores : NULL;
    view.types = v->types;
    view.merges = v->spm ? NULL : v->merges;
    view.n_merges = v->spm ? 0 : v->n_merges;
    memcpy(view.role_ids, v->role_ids, sizeof view.role_ids);
    view.add_bos = v->add_bos;
    view.add_eos = v->add_eos;
    view.add_space_prefix = v->add_space_prefix;
    return view;
}

kt_status kt__vocab_check(const kt__vocab *v, const char *path, const kt__convert_notes *notes,
                          kt_error *err) {
    vocab_reader r = {.v = v, .err = err};
    comparison c = {.reader = &r};
    kt__tok_vocab view = kt__vocab_view(v);
    kt_status status;
    kt__arena_init(&r.arena, 1 << 16, 64 << 20);
    kt__arena_init(&r.kept, 1 << 20, 512 << 20);
    kt__ids_init(&r.ids, 1 << 20);
    kt__ids_init(&c.ids, 1 << 20);
    KT__TRY(kt__tokenizer_new(&view, &c.tok, err));
    KT__TRY(open_reader(&r));
    for (int i = 0; i < N_LINES; i++) KT__TRY(compare_line(&c, lines[i], strlen(lines[i]), err));
    KT__TRY(compare_tokens(&c, err));
    KT__TRY(judge(&c, path, notes, err));
out:
    kt__tokenizer_free(c.tok);
    kt__strmap_free(&r.ranks);
    kt__ids_free(&r.ids);
    kt__ids_free(&c.ids);
    kt__arena_free(&r.arena);
    kt__arena_free(&r.kept);
    return status;
}
