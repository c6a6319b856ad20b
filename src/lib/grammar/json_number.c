/* Numbers, character by character. */
#include <string.h>

#include "grammar/grammar_impl.h"

enum {
    EMPTY = KT__GPOOL_EMPTY,
    ANY = KT__GPOOL_ANY,
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
static bool has_room(const kt__gstate *s, uint8_t b, bool free) {
    uint32_t after = is_digit(b) ? 0 : b == '.' ? 1 : 2;
    return s->n_text + 1u + after <= (free ? KT__GRAMMAR_NUMBER_CHARS : LIMITED_CHARS);
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

/* The fraction of a compact number ends with an enum's longest; else with LONG_NUMBER digits, or a digit
 * behind the limits' own. */
static bool fraction_ends(kt__grammar *g, const kt__gstate *s, phase to) {
    char text[KT__GRAMMAR_NUMBER_CHARS] = "";
    size_t n = unpack(s, text), begin = text[0] == '-', whole = 0;
    while (begin + whole < n && is_digit((uint8_t)text[begin + whole])) whole++;
    int32_t more = whole < LONG_NUMBER ? LONG_NUMBER - (int32_t)whole : 0;
    int32_t most = kt__svalue_number_digits(&g->v, s->value, more);
    if (to == AFTER_DOT) return most == 0;
    return (int32_t)(n - begin - whole - 1) >= most;
}

/* The character's place, and what is known of the number without looking for one. Only a number that
 * nothing else is asked of has an exponent: with one, a bound could not be kept in sight. */
static bool append_if_fit(kt__grammar *g, kt__gstate *s, phase to, uint8_t b) {
    bool free = kt__svalue_must(&g->v, s->value) == ANY;
    char text[KT__GRAMMAR_NUMBER_CHARS];
    if (to == AFTER_E && !free) return false;
    if (!has_room(s, b, free)) return false;
    if (g->compact && is_odd_integer(to) && kt__svalue_is_integer(&g->v, s->value)) return false;
    bool fraction = to == IN_FRACTION || to == AFTER_DOT;
    if (g->compact && fraction && fraction_ends(g, s, to)) return false;
    if (to == IN_EXPONENT && s->lex == IN_EXPONENT && exponent_ends(s)) return false;
    append(s, b);
    s->lex = (uint8_t)to;
    return free || kt__svalue_number_live(&g->v, s->value, text, unpack(s, text));
}

/* The number may end so. */
static bool is_one(kt__grammar *g, const kt__gstate *s, kt__gid used) {
    char text[KT__GRAMMAR_NUMBER_CHARS];
    size_t n = unpack(s, text);
    if (!is_whole((phase)s->lex) || !kt__svalue_number_fits(&g->v, s->value, text, n)) return false;
    return !used || !kt__hashes_have(&g->t.pool, used, kt__json_number_hash(s));
}

/* Whether some number begins so, of those that are not used: looked for digit by digit, since a range
 * may have none that can be written, or none that is left. One that is not found within MAX_TRIES does
 * not count: so whatever is offered has a way to its end. */
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
    kt__gid used = kt__json_items_used(g, s);
    int tries = MAX_TRIES;
    if (!append_if_fit(g, s, to, b)) return false;
    bool free = kt__svalue_must(&g->v, s->value) == ANY;
    return free || has_number(g, s, used, &tries);
}

bool kt__json_number_left(kt__grammar *g, const kt__gstate *s, kt__gid formula) {
    kt__gstate begin = {.mode = KT__M_NUMBER, .lex = AT_START, .frame = s->frame, .value = formula};
    int tries = MAX_TRIES;
    if (kt__svalue_must(&g->v, formula) == ANY) return true;
    return has_number(g, &begin, kt__json_items_used(g, s), &tries);
}

bool kt__json_number_step(kt__grammar *g, kt__gstate *s, uint8_t b, bool *ended) {
    phase to = next_phase((phase)s->lex, b);
    *ended = to == AT_START;
    if (*ended) return is_whole((phase)s->lex);
    return may_take(g, s, to, b);
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
