/* JSON texts, byte by byte: numbers, strings and names as they are written, structure, and what the
 * schema makes of it all. */
#include <string.h>

#include "base/text.h"
#include "grammar/grammar_impl.h"

enum {
    EMPTY = KT__GPOOL_EMPTY,
    ANY = KT__GPOOL_ANY,
    MAX_DEPTH = 500,
    STRING_HASH = 3,
    LITERAL_HASH = 13
};

static const char *const literals[] = {"null", "false", "true"};

/* ---- items that must differ: hashes of those so far; 0: none, or they may be equal ---- */

static kt__gid items_used(kt__grammar *g, const kt__gstate *s) {
    if (!s->frame || !(kt__gframe_word(g, s->frame, KT__F_META) & KT__FM_UNIQUE)) return 0;
    kt__gid formula = kt__gframe_word(g, s->frame, KT__F_FORMULA);
    kt__gid equal = kt__svalue_not_unique(&g->v, formula);
    return kt__svalue_must(&g->v, equal) == KT__GPOOL_EMPTY
               ? kt__gframe_word(g, s->frame, KT__F_SET)
               : 0;
}

/* ---- numbers, character by character ---- */

enum {
    LONG_NUMBER = 15, /* digits of a compact number that has a fraction: it cannot idle in them, and
                       * readers that keep numbers in doubles see what was meant */
    LIMITED_CHARS = 34, /* of a number that something is asked of: its arithmetic is exact */
    MAX_TRIES = 2000    /* beginnings, in search of a number */
};

typedef enum phase {
    AT_START,
    AFTER_MINUS,
    AFTER_ZERO,
    IN_INT,
    AFTER_DOT,
    IN_FRACTION,
    AFTER_E,
    AFTER_E_SIGN,
    IN_EXPONENT
} phase;

static const char symbols[] = "0123456789-+.e";

static bool is_digit(uint8_t b) {
    return b >= '0' && b <= '9';
}

/* The next phase, or AT_START where the number cannot continue so. */
static phase next_phase(phase at, uint8_t b) {
    bool digit = is_digit(b), e = b == 'e' || b == 'E';
    switch (at) {
    case AT_START:
        if (b == '-') return AFTER_MINUS;
        return digit ? b == '0' ? AFTER_ZERO : IN_INT : AT_START;
    case AFTER_MINUS: return digit ? b == '0' ? AFTER_ZERO : IN_INT : AT_START;
    case AFTER_ZERO: return b == '.' ? AFTER_DOT : e ? AFTER_E : AT_START;
    case IN_INT: return digit ? IN_INT : b == '.' ? AFTER_DOT : e ? AFTER_E : AT_START;
    case AFTER_DOT: return digit ? IN_FRACTION : AT_START;
    case IN_FRACTION: return digit ? IN_FRACTION : e ? AFTER_E : AT_START;
    case AFTER_E:
        if (b == '-' || b == '+') return AFTER_E_SIGN;
        return digit ? IN_EXPONENT : AT_START;
    case AFTER_E_SIGN: return digit ? IN_EXPONENT : AT_START;
    case IN_EXPONENT: return digit ? IN_EXPONENT : AT_START;
    }
    return AT_START;
}

static bool is_whole(phase at) {
    return at == AFTER_ZERO || at == IN_INT || at == IN_FRACTION || at == IN_EXPONENT;
}

static void append_char(kt__gstate *s, uint8_t b) {
    uint8_t code = (uint8_t)(strchr(symbols, b == 'E' ? 'e' : b) - symbols);
    s->text[s->n_text / 2] |= (uint8_t)(s->n_text % 2 ? code << 4 : code);
    s->n_text++;
}

static size_t unpack_number(const kt__gstate *s, char out[KT__GRAMMAR_NUMBER_CHARS]) {
    for (size_t i = 0; i < s->n_text; i++) out[i] = symbols[s->text[i / 2] >> (i % 2 ? 4 : 0) & 15];
    return s->n_text;
}

/* Room is left for the digits that have to follow. */
static bool number_has_room(const kt__gstate *s, uint8_t b, bool free) {
    uint32_t after = is_digit(b) ? 0 : b == '.' ? 1 : 2;
    return s->n_text + 1u + after <= (free ? KT__GRAMMAR_NUMBER_CHARS : LIMITED_CHARS);
}

/* The exponent has three digits at most. */
static bool exponent_ends(const kt__gstate *s) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    size_t n = unpack_number(s, text), digits = 0;
    while (digits < n && is_digit((uint8_t)text[n - 1 - digits])) digits++;
    return digits >= 3;
}

/* A whole number with a fraction or an exponent. */
static bool is_odd_integer(phase to) {
    return to == AFTER_DOT || to == AFTER_E;
}

/* The fraction of a compact number ends with an enum's longest; else with LONG_NUMBER digits, or a
 * digit after the limits' own. */
static bool fraction_ends(kt__grammar *g, const kt__gstate *s, phase to) {
    char text[KT__GRAMMAR_NUMBER_CHARS] = "";
    size_t n = unpack_number(s, text), begin = text[0] == '-', whole = 0;
    while (begin + whole < n && is_digit((uint8_t)text[begin + whole])) whole++;
    int32_t more = whole < LONG_NUMBER ? LONG_NUMBER - (int32_t)whole : 0;
    int32_t most = kt__svalue_number_digits(&g->v, s->value, more);
    if (to == AFTER_DOT) return most == 0;
    return (int32_t)(n - begin - whole - 1) >= most;
}

/* The character's place, and what is known of the number without looking for one. Only a number
 * that nothing else is asked of has an exponent: with one, a bound could not be kept in sight. */
static bool append_if_fit(kt__grammar *g, kt__gstate *s, phase to, uint8_t b) {
    bool free = kt__svalue_must(&g->v, s->value) == ANY;
    char text[KT__GRAMMAR_NUMBER_CHARS];
    if (to == AFTER_E && !free) return false;
    if (!number_has_room(s, b, free)) return false;
    if (g->layout != KT__LAYOUT_ANY && is_odd_integer(to) && kt__svalue_is_integer(&g->v, s->value))
        return false;
    bool fraction = to == IN_FRACTION || to == AFTER_DOT;
    if (g->layout != KT__LAYOUT_ANY && fraction && fraction_ends(g, s, to)) return false;
    if (to == IN_EXPONENT && s->lex == IN_EXPONENT && exponent_ends(s)) return false;
    append_char(s, b);
    s->lex = (uint8_t)to;
    return free || kt__svalue_number_live(&g->v, s->value, text, unpack_number(s, text));
}

static uint64_t number_hash(const kt__gstate *s) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    kt__decimal d;
    uint64_t h = 5;
    if (!kt__decimal_parse(text, unpack_number(s, text), &d)) return h;
    if (d.n > 0) h = kt__ghash_mix(h, d.negative);
    h = kt__ghash_mix(h, (uint32_t)d.exp);
    for (size_t i = 0; i < d.n; i++) h = kt__ghash_mix(h, d.d[i]);
    return h;
}

/* The number may end so. */
static bool is_one(kt__grammar *g, const kt__gstate *s, kt__gid used) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    size_t n = unpack_number(s, text);
    if (!is_whole((phase)s->lex) || !kt__svalue_number_fits(&g->v, s->value, text, n)) return false;
    return !used || !kt__hashes_have(&g->t.pool, used, number_hash(s));
}

/* Whether some number begins so, of those that are not used: looked for digit by digit, since a
 * range may have none that can be written, or none that is left. One that is not found within
 * MAX_TRIES does not count: so whatever is offered has a way to its end. */
static bool has_number(kt__grammar *g, const kt__gstate *s, kt__gid used, int *tries) {
    if (is_one(g, s, used)) return true;
    for (const char *b = "0123456789.-"; *b; b++) {
        phase to = next_phase((phase)s->lex, (uint8_t)*b);
        kt__gstate next = *s;
        if (to == AT_START) continue;
        if (--*tries < 0) return false;
        if (append_if_fit(g, &next, to, (uint8_t)*b) && has_number(g, &next, used, tries))
            return true;
    }
    return false;
}

static bool may_take(kt__grammar *g, kt__gstate *s, phase to, uint8_t b) {
    kt__gid used = items_used(g, s);
    int tries = MAX_TRIES;
    if (!append_if_fit(g, s, to, b)) return false;
    bool free = kt__svalue_must(&g->v, s->value) == ANY;
    return free || has_number(g, s, used, &tries);
}

static bool number_left(kt__grammar *g, const kt__gstate *s, kt__gid formula) {
    kt__gstate begin = {.mode = KT__M_NUMBER, .lex = AT_START, .frame = s->frame, .value = formula};
    int tries = MAX_TRIES;
    if (kt__svalue_must(&g->v, formula) == ANY) return true;
    return has_number(g, &begin, items_used(g, s), &tries);
}

static bool take_number_char(kt__grammar *g, kt__gstate *s, uint8_t b, bool *ended) {
    phase to = next_phase((phase)s->lex, b);
    *ended = to == AT_START;
    if (*ended) return is_whole((phase)s->lex);
    return may_take(g, s, to, b);
}

static kt__gid number_outcome(kt__grammar *g, const kt__gstate *s) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    if (!is_whole((phase)s->lex)) return EMPTY;
    return kt__svalue_number_end(&g->v, s->value, text, unpack_number(s, text));
}

/* ---- what is left for an item that must differ ----
 *
 * Of what items can be, what was used is taken away before one begins, where that is a list of
 * strings, null, false or true; of numbers, whether one is left is looked for. Others are found
 * equal at their end. */

static kt__gid without_used(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash, int depth);

static kt__gid last_bytes(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash) {
    kt__gpool *p = &g->t.pool;
    uint32_t set[8];
    for (uint32_t i = 0; i < 8; i++) set[i] = kt__g_arg(p, term, i);
    for (uint32_t b = 0; b < 256; b++)
        if (set[b / 32] >> b % 32 & 1 && kt__hashes_have(p, used, kt__ghash_mix(hash, b) | 1))
            set[b / 32] &= ~((uint32_t)1 << b % 32);
    return kt__term_bytes(&g->t, set);
}

/* The only byte of a set; -1: there are more. */
static int only_byte(const kt__gpool *p, kt__gid term) {
    int found = -1;
    if (kt__g_kind(p, term) != KT__G_BYTES) return -1;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t word = kt__g_arg(p, term, i);
        if (word == 0) continue;
        if (found >= 0 || (word & (word - 1)) != 0) return -1;
        found = (int)(i * 32) + __builtin_ctz(word);
    }
    return found;
}

static kt__gid rest_of(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash, int depth) {
    kt__gpool *p = &g->t.pool;
    kt__gid first = kt__g_arg(p, term, 0), rest = kt__g_arg(p, term, 1);
    int b = only_byte(p, first);
    if (b < 0) return term;
    rest = without_used(g, rest, used, kt__ghash_mix(hash, (uint64_t)b) | 1, depth + 1);
    return kt__term_cat(&g->t, first, rest);
}

static kt__gid without_used(kt__grammar *g, kt__gid term, kt__gid used, uint64_t hash, int depth) {
    kt__gpool *p = &g->t.pool;
    uint32_t from = p->n_scratch;
    if (depth > MAX_DEPTH) return term;
    switch (kt__g_kind(p, term)) {
    case KT__G_EPS: return kt__hashes_have(p, used, hash) ? EMPTY : term;
    case KT__G_BYTES: return last_bytes(g, term, used, hash);
    case KT__G_CAT: return rest_of(g, term, used, hash, depth);
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, term); i++)
            kt__gpool_push(p, without_used(g, kt__g_arg(p, term, i), used, hash, depth + 1));
        return kt__term_or(&g->t, from);
    default: return term;
    }
}

/* The same is asked at every place of a mask where an item may begin. */
static kt__gid strings_left(kt__grammar *g, const kt__gstate *s, kt__gid term) {
    kt__gid used = items_used(g, s);
    kt__gleft *known = &g->left[(term ^ used) % KT__GRAMMAR_LEFT];
    if (!used) return term;
    if (known->term == term && known->used == used && known->stamp == g->v.stamp)
        return known->left;
    kt__gid left = without_used(g, term, used, STRING_HASH, 0);
    if (!g->t.pool.failed) *known = (kt__gleft){term, used, g->v.stamp, left};
    return left;
}

static bool literal_left(kt__grammar *g, const kt__gstate *s, uint32_t which) {
    kt__gid used = items_used(g, s);
    return !used || !kt__hashes_have(&g->t.pool, used, LITERAL_HASH + which);
}

static bool type_left(kt__grammar *g, const kt__gstate *s, kt__gid inner, kt__vtype type) {
    kt__gid formula = kt__svalue_expand(&g->v, inner, type);
    if (kt__svalue_must(&g->v, formula) == EMPTY) return false;
    if (type == KT__V_STRING) return strings_left(g, s, formula) != EMPTY;
    if (type == KT__V_NUMBER) return number_left(g, s, formula);
    return type > KT__V_TRUE || literal_left(g, s, (uint32_t)type - KT__V_NULL);
}

static bool item_left(kt__grammar *g, const kt__gstate *s, kt__gid inner) {
    if (!items_used(g, s)) return true;
    for (int type = 0; type < KT__V_N; type++)
        if (type_left(g, s, inner, (kt__vtype)type)) return true;
    return false;
}

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
static bool name_has_room(const kt__grammar *g, const kt__gstate *s) {
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
        if ((b == '\\' || b >= 0x80) && !name_has_room(g, s)) return false;
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

/* ---- frames ---- */

static const uint32_t *frame_words(const kt__grammar *g, const kt__gstate *s) {
    return kt__g_data(&g->t.pool, s->frame);
}

static void copy_frame(const kt__grammar *g, const kt__gstate *s, uint32_t words[KT__F_N]) {
    memcpy(words, frame_words(g, s), KT__F_N * sizeof *words);
}

static bool set_frame(kt__grammar *g, kt__gstate *s, const uint32_t words[KT__F_N]) {
    s->frame = kt__gpool_intern(&g->t.pool, KT__G_FRAME, words, KT__F_N);
    return !g->t.pool.failed;
}

static bool frame_has(const kt__grammar *g, const kt__gstate *s, uint32_t flag) {
    return s->frame && kt__gframe_word(g, s->frame, KT__F_META) & flag;
}

static kt__gid frame_formula(const kt__grammar *g, const kt__gstate *s) {
    return kt__gframe_word(g, s->frame, KT__F_FORMULA);
}

/* Of nothing that was read within a value anything stays. */
static void enter_mode(kt__gstate *s, kt__gmode mode) {
    *s = (kt__gstate){.mode = (uint8_t)mode, .frame = s->frame, .rest = s->rest};
}

/* ---- a value begins ---- */

static bool is_known(kt__gid id) {
    return id == ANY || id == EMPTY;
}

/* Outcomes that are known from the value's type alone are handed on at once. */
static kt__gid settle_known(kt__grammar *g, kt__gstate *s, kt__gid vec) {
    kt__gpool *p = &g->t.pool;
    uint32_t words[KT__F_N], from = p->n_scratch, n = kt__g_n(p, vec), n_known = 0;
    for (uint32_t i = 1; i < n; i++) n_known += is_known(kt__g_arg(p, vec, i));
    if (n_known == 0 || !s->frame) return vec;
    copy_frame(g, s, words);
    kt__gid subs = words[KT__F_SUBS];
    words[KT__F_FORMULA] = kt__svalue_settle(&g->v, words[KT__F_FORMULA], subs, vec);
    if (kt__svalue_must(&g->v, words[KT__F_FORMULA]) == EMPTY) return EMPTY;
    kt__gpool_push(p, kt__g_arg(p, vec, 0));
    for (uint32_t i = 1; i < n; i++)
        if (!is_known(kt__g_arg(p, vec, i))) kt__gpool_push(p, kt__g_arg(p, vec, i));
    uint32_t sub_from = p->n_scratch;
    kt__gpool_push(p, ANY);
    for (uint32_t i = 1; i < n; i++)
        if (!is_known(kt__g_arg(p, vec, i))) kt__gpool_push(p, kt__g_arg(p, subs, i));
    kt__gid open = kt__term_vec(&g->t, sub_from);
    words[KT__F_SUBS] = open == ANY ? 0 : open;
    vec = kt__term_vec(&g->t, from);
    return set_frame(g, s, words) ? vec : EMPTY;
}

static bool begin_container(kt__grammar *g, kt__gstate *s, kt__gid formula, bool is_array) {
    uint32_t meta = s->frame ? kt__gframe_word(g, s->frame, KT__F_META) : 0;
    uint32_t depth = meta / KT__FM_DEPTH + 1;
    uint32_t flags = meta % KT__FM_DEPTH & ~(KT__FM_INDENT - 1u); /* the layout's */
    if (!s->frame) flags |= (uint32_t)s->n_text * KT__FM_BASE;
    flags |= meta & KT__FM_HASHES;
    if (depth > KT__GRAMMAR_DEPTH) return false;
    if (is_array) flags |= KT__FM_ARRAY;
    if (is_array && kt__svalue_wants_unique(&g->v, formula)) flags |= KT__FM_UNIQUE | KT__FM_HASHES;
    const uint32_t words[KT__F_N] = {[KT__F_PARENT] = s->frame,
                                     [KT__F_META] = depth * KT__FM_DEPTH | flags,
                                     [KT__F_FORMULA] = formula};
    enter_mode(s, is_array ? KT__M_ITEM_OR_END : KT__M_KEY_OR_END);
    return set_frame(g, s, words);
}

static bool begin_string(kt__grammar *g, kt__gstate *s, kt__gid term) {
    term = strings_left(g, s, term);
    if (!kt__term_live(&g->t, term)) return false;
    bool hashes = frame_has(g, s, KT__FM_HASHES);
    enter_mode(s, KT__M_STRING);
    s->term = term;
    s->hash = hashes ? STRING_HASH : 0;
    return true;
}

static bool begin_number(kt__grammar *g, kt__gstate *s, kt__gid formula, uint8_t b) {
    bool ended;
    enter_mode(s, KT__M_NUMBER);
    s->value = formula;
    return take_number_char(g, s, b, &ended) && !ended;
}

static bool begin_literal(kt__grammar *g, kt__gstate *s, kt__gid outcome, uint32_t which) {
    if (kt__svalue_must(&g->v, outcome) != ANY || !literal_left(g, s, which)) return false;
    enter_mode(s, KT__M_LITERAL);
    s->value = outcome;
    s->hex = which;
    s->lex = 1;
    return true;
}

static kt__vtype type_of_byte(uint8_t b) {
    switch (b) {
    case '{': return KT__V_OBJECT;
    case '[': return KT__V_ARRAY;
    case '"': return KT__V_STRING;
    case 'n': return KT__V_NULL;
    case 'f': return KT__V_FALSE;
    case 't': return KT__V_TRUE;
    default: return b == '-' || is_digit(b) ? KT__V_NUMBER : KT__V_N;
    }
}

static bool begin_value(kt__grammar *g, kt__gstate *s, uint8_t b) {
    kt__vtype type = type_of_byte(b);
    if (type == KT__V_N) return false;
    kt__gid formula = kt__svalue_expand(&g->v, s->value, type);
    if (kt__g_kind(&g->t.pool, formula) == KT__G_VEC) formula = settle_known(g, s, formula);
    if (kt__svalue_must(&g->v, formula) == EMPTY) return false;
    switch (type) {
    case KT__V_OBJECT: return begin_container(g, s, formula, false);
    case KT__V_ARRAY: return begin_container(g, s, formula, true);
    case KT__V_STRING: return begin_string(g, s, formula);
    case KT__V_NUMBER: return begin_number(g, s, formula, b);
    default: return begin_literal(g, s, formula, (uint32_t)type - KT__V_NULL);
    }
}

/* ---- a value ends ---- */

static uint64_t text_hash(const kt__gpool *p, kt__gid text) {
    uint64_t h = 11;
    for (uint32_t i = 0; text && i < kt__g_n(p, text); i++)
        h = kt__ghash_mix(h, kt__g_arg(p, text, i));
    return h;
}

/* Members count in any order, items in theirs. */
static void add_hash(const kt__grammar *g, uint32_t words[KT__F_N], uint64_t hash) {
    uint64_t h = (uint64_t)words[KT__F_HASH_HIGH] << 32 | words[KT__F_HASH_LOW];
    if (words[KT__F_META] & KT__FM_ARRAY)
        h = kt__ghash_mix(h + 1, hash);
    else
        h += kt__ghash_mix(text_hash(&g->t.pool, words[KT__F_KEY]), hash);
    words[KT__F_HASH_LOW] = (uint32_t)h;
    words[KT__F_HASH_HIGH] = (uint32_t)(h >> 32);
}

static bool note_item(kt__grammar *g, uint32_t words[KT__F_N], uint64_t hash) {
    kt__gpool *p = &g->t.pool;
    if (!kt__hashes_have(p, words[KT__F_SET], hash)) {
        words[KT__F_SET] = kt__hashes_add(p, words[KT__F_SET], hash);
        return !p->failed;
    }
    words[KT__F_FORMULA] = kt__svalue_not_unique(&g->v, words[KT__F_FORMULA]);
    return true;
}

static bool end_value(kt__grammar *g, kt__gstate *s, kt__gid outcome, uint64_t hash) {
    uint32_t words[KT__F_N];
    if (kt__svalue_must(&g->v, outcome) != ANY) return false;
    enter_mode(s, s->frame ? KT__M_AFTER : g->n_after ? KT__M_BEHIND : KT__M_END);
    if (!s->frame) return true;
    bool plain = !frame_has(g, s, KT__FM_HASHES) && !kt__gframe_word(g, s->frame, KT__F_SUBS);
    if (plain) return true;
    copy_frame(g, s, words);
    kt__gid subs = words[KT__F_SUBS];
    words[KT__F_SUBS] = 0;
    if (subs) words[KT__F_FORMULA] = kt__svalue_settle(&g->v, words[KT__F_FORMULA], subs, outcome);
    if (words[KT__F_META] & KT__FM_HASHES) add_hash(g, words, hash);
    if (words[KT__F_META] & KT__FM_UNIQUE && !note_item(g, words, hash)) return false;
    if (kt__svalue_must(&g->v, words[KT__F_FORMULA]) == EMPTY) return false;
    return set_frame(g, s, words);
}

static bool end_container(kt__grammar *g, kt__gstate *s) {
    const uint32_t *words = frame_words(g, s);
    uint64_t hash = (uint64_t)words[KT__F_HASH_HIGH] << 32 | words[KT__F_HASH_LOW];
    hash = kt__ghash_mix(hash, words[KT__F_META] & KT__FM_ARRAY ? 7 : 9);
    kt__gid parent = words[KT__F_PARENT], outcome = kt__svalue_end(&g->v, words[KT__F_FORMULA]);
    if (kt__svalue_must(&g->v, outcome) != ANY) return false;
    s->frame = parent;
    return end_value(g, s, outcome, hash);
}

/* ---- members ---- */

/* The name that was read, whole. */
static kt__gid name_text(kt__grammar *g, const kt__gstate *s) {
    kt__gpool *p = &g->t.pool;
    uint32_t words[KT__GRAMMAR_NAME_BYTES / 4 + 16] = {0};
    uint32_t n_chunks = s->chunk ? kt__g_arg(p, s->chunk, 1) : 0, len = n_chunks * 20 + s->n_text;
    kt__gid chunk = s->chunk;
    for (uint32_t i = n_chunks; i-- > 0; chunk = kt__g_arg(p, chunk, 0))
        memcpy((uint8_t *)(words + 1) + i * 20, kt__g_data(p, chunk) + 2, 20);
    memcpy((uint8_t *)(words + 1) + n_chunks * 20, s->text, s->n_text);
    words[0] = len;
    return kt__gpool_intern(p, KT__G_TEXT, words, 1 + (len + 3) / 4);
}

static bool begin_name(kt__grammar *g, kt__gstate *s, kt__gid names) {
    const uint32_t *words = frame_words(g, s);
    kt__gid used = words[KT__F_SET], formula = words[KT__F_FORMULA];
    if (names == EMPTY) return false;
    enter_mode(s, KT__M_NAME);
    s->term = names;
    s->name = g->schema.n_names > 1 ? 1 : 0;
    s->used = used;
    s->patterns = kt__svalue_patterns(&g->v, formula);
    return true;
}

static kt__gid names_after(kt__grammar *g, kt__gid formula, kt__gid used) {
    return g->ordered ? kt__svalue_names_in_order(&g->v, formula, used)
                      : kt__svalue_names(&g->v, formula, used);
}

/* A second name may come at all; its set of names has the one before. */
static bool next_member(kt__grammar *g, kt__gstate *s) {
    kt__gpool *p = &g->t.pool;
    uint32_t words[KT__F_N];
    copy_frame(g, s, words);
    kt__gid key = words[KT__F_KEY];
    if (key) {
        uint8_t name[KT__GRAMMAR_NAME_BYTES + 64];
        uint32_t len = kt__g_arg(p, key, 0);
        memcpy(name, kt__g_data(p, key) + 1, len);
        words[KT__F_SET] = kt__names_add(p, words[KT__F_SET], name, len);
    }
    words[KT__F_KEY] = 0;
    kt__gid names = names_after(g, words[KT__F_FORMULA], words[KT__F_SET]);
    if (names == EMPTY) return false;
    enter_mode(s, KT__M_KEY);
    s->term = names;
    return set_frame(g, s, words);
}

/* The patterns that the name fits, after the name's index. */
kt__gid kt__json_name_key(kt__grammar *g, const kt__gstate *s, uint32_t name) {
    kt__gpool *p = &g->t.pool;
    uint32_t from = p->n_scratch;
    kt__gpool_push(p, name);
    if (s->patterns) {
        kt__gid all = kt__svalue_patterns(&g->v, frame_formula(g, s));
        for (uint32_t i = 1; i < kt__g_n(p, all); i++)
            if (kt__term_nullable(&g->t, kt__g_arg(p, s->patterns, i)))
                kt__gpool_push(p, kt__g_arg(p, all, i));
    }
    kt__gid key = kt__gpool_intern(p, KT__G_KEY, p->scratch + from, p->n_scratch - from);
    p->n_scratch = from;
    return key;
}

static bool take_member(kt__grammar *g, kt__gstate *s, kt__gid key, kt__gid text) {
    uint32_t words[KT__F_N];
    copy_frame(g, s, words);
    kt__svalue_step step = kt__svalue_member(&g->v, words[KT__F_FORMULA], key);
    if (step.outer == EMPTY || !kt__svalue_possible(&g->v, step.inner)) return false;
    words[KT__F_FORMULA] = step.outer;
    words[KT__F_SUBS] = step.subs;
    words[KT__F_KEY] = text;
    enter_mode(s, KT__M_COLON);
    s->value = step.inner;
    return set_frame(g, s, words);
}

static bool close_name(kt__grammar *g, kt__gstate *s) {
    uint32_t name = s->name ? g->schema.trie[s->name].name : 0;
    if (!kt__term_nullable(&g->t, s->term) || kt__names_ends(&g->t.pool, s->used)) return false;
    kt__gid text = name_text(g, s), key = kt__json_name_key(g, s, name);
    return take_member(g, s, key, text);
}

bool kt__json_close_name_as(kt__grammar *g, kt__gstate *s, kt__gid key) {
    return take_member(g, s, key, 0);
}

bool kt__json_close_string(kt__grammar *g, kt__gstate *s) {
    kt__gpool *p = &g->t.pool;
    if (s->mode == KT__M_NAME) return close_name(g, s);
    if (!kt__term_nullable(&g->t, s->term)) return false;
    kt__gid outcome = ANY;
    if (kt__g_kind(p, s->term) == KT__G_VEC) {
        uint32_t from = p->n_scratch;
        for (uint32_t i = 0; i < kt__g_n(p, s->term); i++)
            kt__gpool_push(p, kt__term_nullable(&g->t, kt__g_arg(p, s->term, i)) ? ANY : EMPTY);
        outcome = kt__term_vec(&g->t, from);
    }
    return end_value(g, s, outcome, s->hash);
}

/* ---- items ---- */

static bool next_item(kt__grammar *g, kt__gstate *s) {
    uint32_t words[KT__F_N];
    copy_frame(g, s, words);
    kt__svalue_step step = kt__svalue_item(&g->v, words[KT__F_FORMULA]);
    if (step.outer == EMPTY || !kt__svalue_possible(&g->v, step.inner)) return false;
    words[KT__F_FORMULA] = step.outer;
    words[KT__F_SUBS] = step.subs;
    enter_mode(s, KT__M_VALUE);
    s->value = step.inner;
    return set_frame(g, s, words) && item_left(g, s, step.inner);
}

/* ---- between values ---- */

static bool after_value(kt__grammar *g, kt__gstate *s, uint8_t b) {
    bool is_array = frame_has(g, s, KT__FM_ARRAY);
    if (b == ',') return is_array ? next_item(g, s) : next_member(g, s);
    return b == (is_array ? ']' : '}') && end_container(g, s);
}

static bool between_step(kt__grammar *g, kt__gstate *s, uint8_t b);

/* Of what can come after white space: a part, or after one the bracket that ends the container. */
static bool part_can_follow(kt__grammar *g, const kt__gstate *s) {
    const char *begins = s->mode == KT__M_KEY_OR_END ? "\"" : "\"{[0123456789-ntf";
    if (s->mode == KT__M_AFTER) begins = frame_has(g, s, KT__FM_ARRAY) ? "]" : "}";
    for (; *begins; begins++) {
        kt__gstate next = *s;
        if (between_step(g, &next, (uint8_t)*begins)) return true;
    }
    return false;
}

static bool between_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    if (b == ' ' || b == '\n' || b == '\t' || b == '\r')
        return kt__layout_blank(g, s, b, part_can_follow);
    if (s->blanks && !kt__layout_part(g, s, b)) return false;
    switch (s->mode) {
    case KT__M_VALUE: return begin_value(g, s, b);
    case KT__M_ITEM_OR_END:
        if (b == ']') return end_container(g, s);
        return type_of_byte(b) != KT__V_N && next_item(g, s) && begin_value(g, s, b);
    case KT__M_KEY_OR_END:
        if (b == '}') return end_container(g, s);
        if (b != '"') return false;
        return begin_name(g, s, names_after(g, frame_formula(g, s), 0));
    case KT__M_KEY: return b == '"' && begin_name(g, s, s->term);
    case KT__M_COLON: s->mode = KT__M_VALUE; return b == ':';
    case KT__M_AFTER: return after_value(g, s, b);
    default: return false;
    }
}

static bool literal_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    const char *text = literals[s->hex];
    if (b != (uint8_t)text[s->lex]) return false;
    s->lex++;
    return text[s->lex] != '\0' || end_value(g, s, s->value, LITERAL_HASH + s->hex);
}

static bool number_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    bool ended;
    if (!take_number_char(g, s, b, &ended)) return false;
    if (!ended) return true;
    uint64_t hash = frame_has(g, s, KT__FM_HASHES) ? number_hash(s) : 0;
    return end_value(g, s, number_outcome(g, s), hash) && kt__gstate_step(g, s, b);
}

bool kt__json_step(kt__grammar *g, kt__gstate *s, uint8_t b) {
    switch (s->mode) {
    case KT__M_STRING:
    case KT__M_NAME:
        if (b == '"' && s->lex == KT__L_PLAIN) return kt__json_close_string(g, s);
        return kt__json_string_step(g, s, b);
    case KT__M_NUMBER: return number_step(g, s, b);
    case KT__M_LITERAL: return literal_step(g, s, b);
    default: return between_step(g, s, b);
    }
}

bool kt__json_accepts(kt__grammar *g, const kt__gstate *s) {
    if (s->mode == KT__M_END) return true;
    return s->mode == KT__M_NUMBER && !s->frame && g->n_after == 0 &&
           kt__svalue_must(&g->v, number_outcome(g, s)) == ANY;
}
