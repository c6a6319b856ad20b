/* The plain reading of unigram and WordPiece vocabularies. */
#include <math.h>
#include <string.h>

#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "convert/vocab_reader.h"
#include "tokenizer/unicode.h"

static const char low_line[] = "\xe2\x96\x81"; /* U+2581, a space */

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
    kt_status status = KT_OK;
    switch (step->kind) {
    case KT__STEP_CHARSMAP: return apply_charsmap(r, *text, text);
    case KT__STEP_STRIP: *text = strip_text(step, *text); return KT_OK;
    case KT__STEP_JOIN_SPACES: return replace_spaces(r, *text, 2, step->text, text);
    case KT__STEP_REPLACE: return replace_spaces(r, *text, 1, block, text);
    case KT__STEP_PREPEND: return text->len ? prepend_text(r, *text, text) : KT_OK;
    case KT__STEP_SPLIT_SPACES: return KT_OK; /* the caller's */
    case KT__STEP_METASPACE: break;
    }
    KT__TRY(replace_spaces(r, *text, 1, block, text));
    if (step->left && !begins_with_block(*text)) KT__TRY(prepend_text(r, *text, text));
out:
    return status;
}

/* ---- unigram ---- */

kt_status kt__vocab_reader_open_unigram(kt__vocab_reader *r) {
    const kt__vocab *v = r->v;
    kt_status status;
    KT__TRY(kt__vocab_steps_read(v->tokenizer, "tokenizer.json", &r->steps, r->err));
    KT__TRY(kt__charsmap_init(&r->charsmap, v->charsmap, "tokenizer.json", r->err));
    r->unknown_score = INFINITY;
    for (size_t i = 0; i < v->n_listed; i++) {
        double score = v->listed[i].number;
        if (score < r->unknown_score) r->unknown_score = score;
        if (v->tokens[i].len > r->longest) r->longest = v->tokens[i].len;
    }
    r->unknown_score -= 10.0;
out:
    return status;
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
    kt_status status = KT_OK;
    for (size_t i = 0; bytes && i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        const char text[6] = {'<', '0', 'x', digits[c >> 4], digits[c & 15], '>'};
        int64_t id = kt__strmap_get(&r->v->ids, (kt__str){text, 6});
        bytes = id >= 0;
        if (bytes) KT__TRY(kt__ids_push(&r->ids, (int32_t)id, r->err));
    }
    if (bytes) return KT_OK;
    r->ids.len = before;
    status = kt__ids_push(&r->ids, unk, r->err);
out:
    return status;
}

/* Unknown characters in a row are one. */
static kt_status push_ways(kt__vocab_reader *r, kt__str word, way *ways) {
    kt_status status = KT_OK;
    size_t *ends = kt__arena_calloc(&r->arena, word.len + 1, sizeof *ends);
    if (!ends) return kt__fail_nomem(r->err, "a word", word.len);
    for (size_t at = word.len; at > 0; at = ways[at].begin) ends[ways[at].begin] = at;
    for (size_t at = 0, begin; at < word.len;) {
        begin = at;
        int64_t id = ways[ends[at]].id;
        at = ends[at];
        while (id < 0 && at < word.len && ways[ends[at]].id < 0) at = ends[at];
        KT__TRY(id < 0 ? push_bytes(r, word.s + begin, at - begin)
                       : kt__ids_push(&r->ids, (int32_t)id, r->err));
    }
out:
    return status;
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
    kt_status status = KT_OK;
    for (size_t i = first; i < r->steps.n; i++) {
        const kt__vocab_step *step = &r->steps.list[i];
        KT__TRY(apply_step(r, step, &text));
        cut = step->kind == KT__STEP_METASPACE && step->right;
    }
    for (size_t i = 1; cut && i + 3 <= text.len; i++) {
        if (memcmp(text.s + i, low_line, 3) != 0) continue;
        KT__TRY(read_unigram_word(r, (kt__str){text.s + begin, i - begin}));
        begin = i;
    }
    status = read_unigram_word(r, (kt__str){text.s + begin, text.len - begin});
out:
    return status;
}

kt_status kt__vocab_reader_unigram(kt__vocab_reader *r, const char *s, size_t len) {
    kt__str text = {s, len};
    size_t split = 0, n;
    kt_status status = KT_OK;
    while (split < r->steps.n && r->steps.list[split].kind != KT__STEP_SPLIT_SPACES) split++;
    if (split == r->steps.n) return read_unigram_part(r, text, 0);
    for (size_t i = 0; i < split; i++) KT__TRY(apply_step(r, &r->steps.list[i], &text));
    for (size_t i = 0, begin = 0; i <= text.len; i += n) {
        bool end = i == text.len;
        n = 1;
        if (!end && !is_space(text.s + i, text.len - i, &n)) continue;
        kt__str word = {text.s + begin, i - begin};
        if (word.len) KT__TRY(read_unigram_part(r, word, split + 1));
        begin = i + n;
    }
out:
    return status;
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
    kt_status status = KT_OK;
    if (v->strip_accents && is_mark(cp)) return KT_OK;
    if (alone || cls & KT__UC_SPACE) KT__TRY(end_word(w));
    if (cls & KT__UC_SPACE) return KT_OK;
    if (v->lowercase)
        add_small(w, cp);
    else
        add_character(w, cp);
    if (alone) KT__TRY(end_word(w));
out:
    return status;
}

kt_status kt__vocab_reader_wordpiece(kt__vocab_reader *r, const char *s, size_t len) {
    word_chars w = {.r = r};
    kt_status status;
    char *clean;
    size_t n_clean = 0, n;
    KT__TRY(room_for(r, len, &clean));
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(s + i, len - i, &n, &cp);
        if (is_control(cp, cls)) continue;
        memcpy(clean + n_clean, s + i, n);
        n_clean += n;
    }
    const char *text = clean;
    if (r->v->strip_accents)
        KT__TRY(kt__unicode_nfd(&r->arena, clean, n_clean, &text, &n_clean, r->err));
    KT__TRY(room_for(r, 4 * n_clean, &w.word));
    for (size_t i = 0; i < n_clean; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(text + i, n_clean - i, &n, &cp);
        KT__TRY(read_character(&w, cp, cls));
    }
    status = end_word(&w);
out:
    return status;
}
