#include "sample/json_state.h"

typedef enum where {
    AT_BEGIN,        /* before the object */
    AT_VALUE,        /* a value */
    AT_VALUE_OR_END, /* after "[" */
    AT_KEY,          /* after "," in an object */
    AT_KEY_OR_END,   /* after "{" */
    AT_COLON,
    AT_NEXT, /* after a value: "," or the end of the container */
    IN_KEY,
    IN_STRING,
    IN_KEY_ESCAPE,
    IN_ESCAPE,
    IN_LITERAL,
    NUM_MINUS,
    NUM_ZERO,
    NUM_INT,
    NUM_DOT,
    NUM_FRACTION,
    NUM_E,
    NUM_E_SIGN,
    NUM_EXPONENT,
    AT_END
} where;

void kt__json_state_init(kt__json_state *s) {
    *s = (kt__json_state){.where = AT_BEGIN};
}

bool kt__json_state_done(const kt__json_state *s) {
    return s->where == AT_END;
}

kt__json_place kt__json_state_place(const kt__json_state *s) {
    switch (s->where) {
    case IN_KEY:
    case IN_STRING: return s->count == 0 ? KT__JSON_IN_STRING : KT__JSON_IN_CHARACTER;
    case IN_KEY_ESCAPE:
    case IN_ESCAPE: return KT__JSON_IN_CHARACTER;
    default: return KT__JSON_OUTSIDE;
    }
}

static bool go(kt__json_state *s, where to) {
    s->where = (uint8_t)to;
    return true;
}

static bool open_container(kt__json_state *s, bool is_array) {
    if (s->depth == KT__JSON_DEPTH) return false;
    uint64_t bit = (uint64_t)1 << s->depth++;
    s->is_array = is_array ? s->is_array | bit : s->is_array & ~bit;
    return go(s, is_array ? AT_VALUE_OR_END : AT_KEY_OR_END);
}

static bool in_array(const kt__json_state *s) {
    return s->is_array >> (s->depth - 1) & 1;
}

static bool close_container(kt__json_state *s) {
    s->depth--;
    return go(s, s->depth == 0 ? AT_END : AT_NEXT);
}

static bool begin_value(kt__json_state *s, uint8_t c) {
    switch (c) {
    case '{': return open_container(s, false);
    case '[': return open_container(s, true);
    case '"': return go(s, IN_STRING);
    case '-': return go(s, NUM_MINUS);
    case '0': return go(s, NUM_ZERO);
    case 't': s->rest = "rue"; return go(s, IN_LITERAL);
    case 'f': s->rest = "alse"; return go(s, IN_LITERAL);
    case 'n': s->rest = "ull"; return go(s, IN_LITERAL);
    default: return c >= '1' && c <= '9' && go(s, NUM_INT);
    }
}

static bool after_value(kt__json_state *s, uint8_t c) {
    if (c == ',') return go(s, in_array(s) ? AT_VALUE : AT_KEY);
    return c == (in_array(s) ? ']' : '}') && close_container(s);
}

/* ---- strings: whole UTF-8 characters, no surrogates, nothing overlong (Unicode, table 3-7) ----
 */

static bool begin_character(kt__json_state *s, uint8_t c) {
    s->low = 0x80;
    s->high = 0xbf;
    if (c < 0x80) return c >= 0x20;
    if (c < 0xc2 || c > 0xf4) return false;
    s->count = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    if (c == 0xe0) s->low = 0xa0;
    if (c == 0xed) s->high = 0x9f;
    if (c == 0xf0) s->low = 0x90;
    if (c == 0xf4) s->high = 0x8f;
    return true;
}

static bool in_string(kt__json_state *s, uint8_t c) {
    bool key = s->where == IN_KEY;
    if (s->count > 0) {
        bool fits = c >= s->low && c <= s->high;
        s->low = 0x80;
        s->high = 0xbf;
        s->count--;
        return fits;
    }
    if (c == '"') return go(s, key ? AT_COLON : AT_NEXT);
    if (c == '\\') return go(s, key ? IN_KEY_ESCAPE : IN_ESCAPE);
    return begin_character(s, c);
}

static bool is_hex(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* count: hexadecimal digits to come, and one more, after "\u" */
static bool in_escape(kt__json_state *s, uint8_t c) {
    where back = s->where == IN_KEY_ESCAPE ? IN_KEY : IN_STRING;
    if (s->count > 0) {
        if (!is_hex(c)) return false;
        return --s->count > 0 || go(s, back);
    }
    switch (c) {
    case 'u': s->count = 4; return true;
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return go(s, back);
    default: return false;
    }
}

/* ---- numbers ---- */

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static bool feed_byte(kt__json_state *s, uint8_t c);

/* A byte that cannot continue the number is read as what follows it. */
static bool end_number(kt__json_state *s, uint8_t c) {
    (void)go(s, AT_NEXT);
    return feed_byte(s, c);
}

static bool in_number(kt__json_state *s, uint8_t c) {
    bool e = c == 'e' || c == 'E';
    switch (s->where) {
    case NUM_MINUS: return is_digit(c) && go(s, c == '0' ? NUM_ZERO : NUM_INT);
    case NUM_DOT: return is_digit(c) && go(s, NUM_FRACTION);
    case NUM_E:
        if (c == '+' || c == '-') return go(s, NUM_E_SIGN);
        return is_digit(c) && go(s, NUM_EXPONENT);
    case NUM_E_SIGN: return is_digit(c) && go(s, NUM_EXPONENT);
    case NUM_ZERO:
    case NUM_INT:
        if (c == '.') return go(s, NUM_DOT);
        if (e) return go(s, NUM_E);
        if (s->where == NUM_INT && is_digit(c)) return true;
        return end_number(s, c);
    case NUM_FRACTION:
        if (e) return go(s, NUM_E);
        return is_digit(c) || end_number(s, c);
    default: return is_digit(c) || end_number(s, c);
    }
}

/* ---- all ---- */

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool between_tokens(kt__json_state *s, uint8_t c) {
    if (is_space(c)) return ++s->spaces <= KT__JSON_SPACES;
    s->spaces = 0;
    switch (s->where) {
    case AT_BEGIN: return c == '{' && open_container(s, false);
    case AT_VALUE: return begin_value(s, c);
    case AT_VALUE_OR_END: return c == ']' ? close_container(s) : begin_value(s, c);
    case AT_KEY: return c == '"' && go(s, IN_KEY);
    case AT_KEY_OR_END: return c == '}' ? close_container(s) : c == '"' && go(s, IN_KEY);
    case AT_COLON: return c == ':' && go(s, AT_VALUE);
    case AT_NEXT: return after_value(s, c);
    default: return false;
    }
}

static bool in_literal(kt__json_state *s, uint8_t c) {
    if (c != (uint8_t)*s->rest) return false;
    return *++s->rest != '\0' || go(s, AT_NEXT);
}

static bool feed_byte(kt__json_state *s, uint8_t c) {
    switch (s->where) {
    case IN_KEY:
    case IN_STRING: return in_string(s, c);
    case IN_KEY_ESCAPE:
    case IN_ESCAPE: return in_escape(s, c);
    case IN_LITERAL: return in_literal(s, c);
    case NUM_MINUS:
    case NUM_ZERO:
    case NUM_INT:
    case NUM_DOT:
    case NUM_FRACTION:
    case NUM_E:
    case NUM_E_SIGN:
    case NUM_EXPONENT: return in_number(s, c);
    default: return between_tokens(s, c);
    }
}

bool kt__json_state_feed(kt__json_state *s, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!feed_byte(s, (uint8_t)bytes[i])) return false;
    }
    return true;
}
