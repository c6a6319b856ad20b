/* Numbers, character by character. */
#include <string.h>

#include "grammar/grammar_impl.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY };

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

/* The next phase, or AT_START where the number cannot go on so. */
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

static void append(kt__gstate *s, uint8_t b) {
    uint8_t code = (uint8_t)(strchr(symbols, b == 'E' ? 'e' : b) - symbols);
    s->text[s->n_text / 2] |= (uint8_t)(s->n_text % 2 ? code << 4 : code);
    s->n_text++;
}

static size_t unpack(const kt__gstate *s, char out[KT__GRAMMAR_NUMBER_CHARS]) {
    for (size_t i = 0; i < s->n_text; i++) out[i] = symbols[s->text[i / 2] >> (i % 2 ? 4 : 0) & 15];
    return s->n_text;
}

/* Room is left for the digits that have to follow. */
static bool has_room(const kt__gstate *s, uint8_t b) {
    uint32_t after = is_digit(b) ? 0 : b == '.' ? 1 : 2;
    return s->n_text + 1u + after <= KT__GRAMMAR_NUMBER_CHARS;
}

/* The exponent has three digits at most. */
static bool exponent_ends(const kt__gstate *s) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    size_t n = unpack(s, text), digits = 0;
    while (digits < n && is_digit((uint8_t)text[n - 1 - digits])) digits++;
    return digits >= 3;
}

/* A whole number with a fraction or an exponent. */
static bool is_odd_integer(phase to) {
    return to == AFTER_DOT || to == AFTER_E;
}

/* Only a number that nothing else is asked of has an exponent: with one, a bound could not be kept
 * in sight. */
static bool may_take(kt__grammar *g, kt__gstate *s, phase to, uint8_t b) {
    bool free = kt__svalue_must(&g->v, s->value) == ANY;
    char text[KT__GRAMMAR_NUMBER_CHARS];
    if (to == AFTER_E && !free) return false;
    if (!has_room(s, b)) return false;
    if (g->compact && is_odd_integer(to) && kt__svalue_is_integer(&g->v, s->value)) return false;
    if (to == IN_EXPONENT && s->lex == IN_EXPONENT && exponent_ends(s)) return false;
    append(s, b);
    return free || kt__svalue_number_live(&g->v, s->value, text, unpack(s, text));
}

bool kt__json_number_step(kt__grammar *g, kt__gstate *s, uint8_t b, bool *ended) {
    phase to = next_phase((phase)s->lex, b);
    *ended = to == AT_START;
    if (*ended) return is_whole((phase)s->lex);
    if (!may_take(g, s, to, b)) return false;
    s->lex = (uint8_t)to;
    return true;
}

kt__gid kt__json_number_end(kt__grammar *g, const kt__gstate *s) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    if (!is_whole((phase)s->lex)) return EMPTY;
    return kt__svalue_number_end(&g->v, s->value, text, unpack(s, text));
}

uint64_t kt__json_number_hash(const kt__gstate *s) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    kt__decimal d;
    uint64_t h = 5;
    if (!kt__decimal_parse(text, unpack(s, text), &d)) return h;
    if (d.n > 0) h = kt__ghash_mix(h, d.negative);
    h = kt__ghash_mix(h, (uint32_t)d.exp);
    for (size_t i = 0; i < d.n; i++) h = kt__ghash_mix(h, d.d[i]);
    return h;
}
