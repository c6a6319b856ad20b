/* WordPiece vocabularies ("bert"): words, and of each the longest piece that it begins with, again
 * and again; a word that no pieces make is unknown as a whole.
 *
 * A text is cleaned as BERT's is: control characters go, Chinese characters and punctuation are
 * words of their own, accents are taken off and letters made small where the vocabulary was made
 * so. In the vocabulary's bytes a piece that begins a word has a space before it. */
#include "tokenizer/tokenizer_impl.h"

#include <utf8proc.h>

#include "tokenizer/unicode.h"

enum { MAX_CHARACTERS = 100, MAX_BYTES = 1 + 4 * MAX_CHARACTERS }; /* of a word */

/* ---- characters ---- */

/* Characters that are words: CJK ideographs, as the published tokenizer lists them. */
static bool is_chinese(uint32_t cp) {
    static const struct {
        uint32_t first, last;
    } blocks[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                  {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    if (cp < 0x3400) return false;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (cp >= blocks[i].first && cp <= blocks[i].last) return true;
    return false;
}

/* Punctuation is also what ASCII has of symbols. */
static bool is_punctuation(uint32_t cp) {
    if (cp < 0x80) return cp > ' ' && cp < 0x7f && !(kt__unicode_class(cp) & (KT__UC_L | KT__UC_N));
    utf8proc_category_t category = utf8proc_category((int32_t)cp);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

static bool is_dropped(uint32_t cp) {
    if (cp == '\t' || cp == '\n' || cp == '\r') return false;
    if (cp < 0x80) return cp < ' ' || cp == 0x7f;
    utf8proc_category_t category = utf8proc_category((int32_t)cp);
    return cp == UINT32_MAX || cp == 0xfffd || category == UTF8PROC_CATEGORY_CC ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

/* ---- cleaning ---- */

/* The text without control characters and broken UTF-8, and with spaces around ideographs. */
static bool clean_text(const char *s, size_t len, kt__buf *out) {
    size_t n;
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(s + i, len - i, &n, &cp);
        if (is_dropped(cp)) continue;
        bool ok;
        if (cls & KT__UC_SPACE)
            ok = kt__buf_append(out, " ", 1);
        else if (is_chinese(cp))
            ok = kt__buf_append(out, " ", 1) && kt__buf_append(out, s + i, n) &&
                 kt__buf_append(out, " ", 1);
        else
            ok = kt__buf_append(out, s + i, n);
        if (!ok) return false;
    }
    return true;
}

/* ---- words ---- */

/* The word that is being read: a space, then its characters. */
typedef struct word {
    kt__encoder *enc;
    char bytes[MAX_BYTES];
    size_t len, n_chars; /* n_chars may exceed what is kept */
} word;

/* The longest piece that s[len] begins with; its length in *n. -1: none. */
static int32_t longest_piece(const kt__tokenizer *tok, const char *s, size_t len, size_t *n) {
    kt__piece_walk walk = {.index = &tok->pieces};
    int32_t best = -1;
    for (size_t i = 0; i < len && kt__piece_index_step(&walk, (unsigned char)s[i]); i++) {
        int32_t id = kt__piece_index_at(&walk);
        if (id < 0) continue;
        best = id;
        *n = i + 1;
    }
    return best;
}

static kt_status end_word(word *w) {
    kt__encoder *enc = w->enc;
    size_t before = enc->ids->len, n = 0;
    bool known = w->n_chars <= MAX_CHARACTERS;
    kt_status status = KT_OK;
    for (size_t at = 0; known && at < w->len && w->n_chars > 0; at += n) {
        int32_t id = longest_piece(enc->tok, w->bytes + at, w->len - at, &n);
        known = id >= 0;
        if (known) status = kt__ids_push(enc->ids, id, enc->err);
        if (status != KT_OK) return status;
    }
    if (!known) {
        enc->ids->len = before;
        status = kt__ids_push(enc->ids, enc->tok->role_ids[KT__ROLE_UNK], enc->err);
    }
    w->len = 1;
    w->n_chars = 0;
    return status;
}

static void add_character(word *w, uint32_t cp) {
    w->n_chars++;
    if (w->n_chars <= MAX_CHARACTERS) w->len += kt__utf8_encode(cp, w->bytes + w->len);
}

/* One character more in small letters; the one that two become is I with a dot. */
static void add_lower(word *w, uint32_t cp) {
    if (cp == 0x130) {
        add_character(w, 'i');
        add_character(w, 0x307);
    } else {
        add_character(w, (uint32_t)utf8proc_tolower((int32_t)cp));
    }
}

static kt_status read_character(word *w, uint32_t cp, uint8_t cls) {
    const kt__tokenizer *tok = w->enc->tok;
    kt_status status = KT_OK;
    bool mark = cp >= 0x80 && utf8proc_category((int32_t)cp) == UTF8PROC_CATEGORY_MN;
    if (tok->strip_accents && mark) return KT_OK;
    bool alone = is_punctuation(cp);
    if (alone || cls & KT__UC_SPACE) status = end_word(w);
    if (status != KT_OK || cls & KT__UC_SPACE) return status;
    if (tok->lowercase)
        add_lower(w, cp);
    else
        add_character(w, cp);
    return alone ? end_word(w) : KT_OK;
}

static kt_status encode_words(kt__encoder *enc, const char *s, size_t len) {
    word w = {.enc = enc, .bytes = " ", .len = 1};
    kt_status status = KT_OK;
    size_t n;
    for (size_t i = 0; i < len && status == KT_OK; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(s + i, len - i, &n, &cp);
        status = read_character(&w, cp, cls);
    }
    return status == KT_OK ? end_word(&w) : status;
}

kt_status kt__wordpiece_encode(kt__encoder *enc, const char *s, size_t len) {
    kt_status status;
    kt__buf clean;
    kt__buf_init(&clean, SIZE_MAX / 2);
    if (!clean_text(s, len, &clean)) {
        status = kt__fail_nomem(enc->err, "text", len);
        goto out;
    }
    const char *text = clean.data;
    size_t text_len = clean.len;
    if (enc->tok->strip_accents)
        KT__TRY(kt__unicode_nfd(&enc->arena, text, text_len, &text, &text_len, enc->err));
    status = encode_words(enc, text, text_len);
out:
    kt__buf_free(&clean);
    return status;
}
