/* Characters of strings and names, as they are written. */
#include <string.h>

#include "base/utf8.h"
#include "grammar/grammar_impl.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY };

/* ---- UTF-8 (Unicode, table 3-7) ---- */

static void expect_next(kt__gstate *s, uint32_t low, uint32_t high) {
    s->hex = low << 8 | high;
}

static bool begin_character(kt__gstate *s, uint8_t b) {
    if (b < 0x80) return true;
    if (b < 0xc2 || b > 0xf4) return false;
    s->lex = b < 0xe0 ? KT__L_CONT_1 : b < 0xf0 ? KT__L_CONT_2 : KT__L_CONT_3;
    expect_next(s,
                b == 0xe0   ? 0xa0
                : b == 0xf0 ? 0x90
                            : 0x80,
                b == 0xed   ? 0x9f
                : b == 0xf4 ? 0x8f
                            : 0xbf);
    return true;
}

bool kt__utf8_step(kt__gstate *s, uint8_t b) {
    if (s->lex == KT__L_PLAIN) return begin_character(s, b);
    if (b < s->hex >> 8 || b > (s->hex & 0xff)) return false;
    s->lex--;
    if (s->lex == KT__L_PLAIN)
        s->hex = 0;
    else
        expect_next(s, 0x80, 0xbf);
    return true;
}

/* ---- what is decoded ---- */

/* The name's text is kept for the set of names: 20 bytes in the state, the rest in chunks. */
static bool keep_byte(kt__grammar *g, kt__gstate *s, uint8_t b) {
    kt__gpool *p = &g->t.pool;
    if (s->n_text == sizeof s->text) {
        uint32_t chunk[7] = {s->chunk, s->chunk ? kt__g_arg(p, s->chunk, 1) + 1 : 1};
        if (chunk[1] > KT__GRAMMAR_NAME_BYTES / sizeof s->text) return false;
        memcpy(chunk + 2, s->text, sizeof s->text);
        s->chunk = kt__gpool_intern(p, KT__G_CHUNK, chunk, 7);
        if (p->failed) return false;
        memset(s->text, 0, sizeof s->text);
        s->n_text = 0;
    }
    s->text[s->n_text++] = b;
    return true;
}

/* A character once begun must find its end: whether a name has room for the longest. */
static bool has_room(const kt__grammar *g, const kt__gstate *s) {
    uint32_t n_chunks = s->chunk ? kt__g_arg(&g->t.pool, s->chunk, 1) : 0;
    return s->mode != KT__M_NAME ||
           n_chunks * sizeof s->text + s->n_text + 4 <= KT__GRAMMAR_NAME_BYTES;
}

static bool take_decoded(kt__grammar *g, kt__gstate *s, uint8_t b) {
    s->term = kt__term_step(&g->t, s->term, b);
    if (s->term == EMPTY) return false;
    if (s->patterns) s->patterns = kt__term_step(&g->t, s->patterns, b);
    if (s->mode == KT__M_NAME) {
        s->name = kt__strie_step(&g->schema, s->name, b);
        s->used = kt__names_step(&g->t.pool, s->used, b);
        return keep_byte(g, s, b);
    }
    if (s->hash) s->hash = kt__ghash_mix(s->hash, b) | 1;
    return true;
}

static bool take_character(kt__grammar *g, kt__gstate *s, uint32_t c) {
    char bytes[4];
    size_t n = kt__utf8_encode(c, bytes);
    for (size_t i = 0; i < n; i++)
        if (!take_decoded(g, s, (uint8_t)bytes[i])) return false;
    return true;
}

/* ---- escapes ---- */

/* Not by a number of characters alone. */
static bool is_limited(const kt__grammar *g, const kt__gstate *s) {
    const kt__gpool *p = &g->t.pool;
    kt__gid term = kt__svalue_must(&g->v, s->term);
    if (term == ANY) return false;
    return kt__g_kind(p, term) != KT__G_REP || kt__g_arg(p, term, 0) != g->t.any_char;
}

static bool fits_any(kt__grammar *g, const kt__gstate *s, uint8_t low, uint8_t high) {
    for (unsigned b = low; b <= high; b++)
        if (kt__term_step(&g->t, s->term, (uint8_t)b) != EMPTY) return true;
    return false;
}

static bool begin_escape(kt__grammar *g, kt__gstate *s) {
    s->lex = KT__L_ESCAPE;
    s->hex = 0;
    if (!is_limited(g, s) || fits_any(g, s, 0, 0x1f) || fits_any(g, s, 0x7f, 0x7f)) return true;
    return fits_any(g, s, '"', '"') || fits_any(g, s, '/', '/') || fits_any(g, s, '\\', '\\');
}

static bool simple_escape(kt__grammar *g, kt__gstate *s, uint8_t b) {
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    const char *hit = b ? strchr(names, b) : NULL;
    s->lex = KT__L_PLAIN;
    if (hit) return take_decoded(g, s, (uint8_t)codes[hit - names]);
    s->lex = KT__L_HEX_4;
    bool controls = !is_limited(g, s) || fits_any(g, s, 0, 0x1f) || fits_any(g, s, 0x7f, 0x7f);
    return b == 'u' && controls;
}

static int hex_of(uint8_t b) {
    if (b >= '0' && b <= '9') return b - '0';
    b |= 32;
    return b >= 'a' && b <= 'f' ? b - 'a' + 10 : -1;
}

/* In a limited string only control characters are written so, and only those that fit. */
static bool may_be_control(kt__grammar *g, const kt__gstate *s) {
    uint32_t c = s->hex & 0xffff;
    switch (s->lex) {
    case KT__L_HEX_3:
    case KT__L_HEX_2: return c == 0;
    case KT__L_HEX_1:
        if (c == 7) return fits_any(g, s, 0x7f, 0x7f);
        return c < 2 && fits_any(g, s, (uint8_t)(c * 16), (uint8_t)(c * 16 + 15));
    default: return c < 0x20 || c == 0x7f;
    }
}

/* A surrogate's first half waits in the upper bits for the second. */
static bool end_unicode(kt__grammar *g, kt__gstate *s) {
    uint32_t c = s->hex & 0xffff, high = s->hex >> 16;
    s->lex = KT__L_PLAIN;
    s->hex = 0;
    if (high) {
        if (c < 0xdc00 || c > 0xdfff) return false;
        return take_character(g, s, 0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00));
    }
    if (c >= 0xdc00 && c <= 0xdfff) return false;
    if (c < 0xd800 || c > 0xdbff) return take_character(g, s, c);
    s->hex = c << 16;
    s->lex = KT__L_LOW_BACKSLASH;
    return true;
}

/* The digits of a second half are kept within DC00..DFFF from the first on. */
static bool low_half_fits(const kt__gstate *s) {
    uint32_t c = s->hex & 0xffff;
    if (!(s->hex >> 16)) return true;
    if (s->lex == KT__L_HEX_3) return c == 0xd;
    return s->lex != KT__L_HEX_2 || (c >= 0xdc && c <= 0xdf);
}

/* The digits of a first half that is none stay out of DC00..DFFF. */
static bool is_lone_low_half(const kt__gstate *s) {
    uint32_t c = s->hex & 0xffff;
    return !(s->hex >> 16) && s->lex == KT__L_HEX_2 && c >= 0xdc && c <= 0xdf;
}

static bool hex_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    int digit = hex_of(b);
    if (digit < 0) return false;
    s->hex = (s->hex & 0xffff0000) | ((s->hex << 4 | (uint32_t)digit) & 0xffff);
    bool last = s->lex == KT__L_HEX_1;
    s->lex++;
    if (last) s->lex = KT__L_PLAIN;
    if (is_limited(g, s) && !may_be_control(g, s)) return false;
    if (last) return end_unicode(g, s);
    return low_half_fits(s) && !is_lone_low_half(s);
}

static bool low_backslash(kt__gstate *s, uint8_t b) {
    s->lex = KT__L_LOW_U;
    return b == '\\';
}

static bool low_u(kt__gstate *s, uint8_t b) {
    s->lex = KT__L_HEX_4;
    return b == 'u';
}

/* ---- all ---- */

bool kt__json_string_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    switch (s->lex) {
    case KT__L_PLAIN:
        if ((b == '\\' || b >= 0x80) && !has_room(g, s)) return false;
        if (b == '\\') return begin_escape(g, s);
        if (b < 0x20 || !begin_character(s, b)) return false;
        return take_decoded(g, s, b);
    case KT__L_CONT_1:
    case KT__L_CONT_2:
    case KT__L_CONT_3: return kt__utf8_step(s, b) && take_decoded(g, s, b);
    case KT__L_ESCAPE: return simple_escape(g, s, b);
    case KT__L_LOW_BACKSLASH: return low_backslash(s, b);
    case KT__L_LOW_U: return low_u(s, b);
    default: return hex_step(g, s, b);
    }
}
