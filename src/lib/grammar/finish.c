/* A short way to the end of a text: byte by byte, the one that looks shortest. */
#include <string.h>

#include "grammar/grammar.h"
#include "grammar/grammar_impl.h"

enum { STEPS = 400000 };

/* Bytes to try first where a text is between the parts of JSON or in a number: what ends
 * something, then short values. */
static const char *first_tries(const kt__gstate *s) {
    switch (s->mode) {
    case KT__M_VALUE: return "\"0nft123456789-[{";
    case KT__M_ITEM_OR_END: return "]\"0nft123456789-[{";
    case KT__M_KEY_OR_END: return "}\"";
    case KT__M_KEY:
    case KT__M_STRING:
    case KT__M_NAME: return "\"";
    case KT__M_COLON: return ":";
    case KT__M_AFTER: return "]},";
    case KT__M_NUMBER: return "]},0123456789.-e+";
    default: return "";
    }
}

static bool try_byte(kt__grammar *g, kt__gstate *s, uint8_t b) {
    kt__gstate next = *s;
    if (!kt__gstate_step(g, &next, b)) return false;
    *s = next;
    return true;
}

/* Of a text or a string: the byte that leaves the least to be written; of a name, one of the
 * schema's if there is one. */
static int best_byte(kt__grammar *g, const kt__gstate *s) {
    uint64_t least = UINT64_MAX;
    int best = -1;
    for (unsigned b = 0x20; b < 0x100 + 0x20; b++) {
        kt__gstate next = *s;
        uint8_t byte = (uint8_t)b;
        if (byte == '\\' && best >= 0) continue;
        if (!kt__gstate_step(g, &next, byte)) continue;
        if (next.mode != s->mode) return byte;
        uint64_t left = kt__term_min_chars(&g->t, next.term) * 2 + 1;
        if (s->mode == KT__M_NAME) left = next.name ? 0 : 2;
        if (kt__term_nullable(&g->t, next.term)) left /= 2;
        if (left >= least) continue;
        least = left;
        best = byte;
    }
    return best;
}

static int finishing_byte(kt__grammar *g, kt__gstate *s) {
    const uint8_t *after = (const uint8_t *)g->around + g->n_before;
    bool at_root = s->mode == KT__M_NUMBER && !s->frame && g->n_after > 0;
    if (at_root && try_byte(g, s, *after)) return *after;
    for (const char *b = first_tries(s); *b; b++)
        if (try_byte(g, s, (uint8_t)*b)) return (uint8_t)*b;
    bool by_length = s->mode == KT__M_TEXT || s->mode == KT__M_STRING || s->mode == KT__M_NAME;
    if (by_length) {
        int b = best_byte(g, s);
        return b >= 0 && try_byte(g, s, (uint8_t)b) ? b : -1;
    }
    for (unsigned b = 0; b < 256; b++)
        if (try_byte(g, s, (uint8_t)b)) return (int)b;
    return -1;
}

/* The name, whole, if it can be written as it is. */
static size_t try_name(kt__grammar *g, kt__gstate *s, const kt__gtext *name, char *out,
                       size_t cap) {
    kt__gstate next = *s;
    if (name->len + 1 > cap) return 0;
    for (size_t i = 0; i < name->len; i++) {
        char b = name->s[i];
        if (b == '"' || b == '\\' || !try_byte(g, &next, (uint8_t)b)) return 0;
        out[i] = b;
    }
    if (!try_byte(g, &next, '"')) return 0;
    out[name->len] = '"';
    *s = next;
    return name->len + 1;
}

/* A name begins: the first that something asks for and that may come. */
static size_t finish_name(kt__grammar *g, kt__gstate *s, char *out, size_t cap) {
    kt__gpool *p = &g->t.pool;
    uint32_t from = p->n_scratch;
    size_t n = 0;
    if (s->mode != KT__M_NAME || s->n_text || s->chunk || s->lex) return 0;
    kt__svalue_wanted(&g->v, kt__gframe_word(g, s->frame, KT__F_FORMULA));
    for (uint32_t i = from; i < p->n_scratch && !n; i++)
        n = try_name(g, s, &g->schema.names[p->scratch[i]], out, cap);
    p->n_scratch = from;
    return n;
}

bool kt__grammar_finish(kt__grammar *g, const kt__gstate *state, char *out, size_t cap, size_t *n) {
    kt__gstate s = *state;
    g->t.pool.steps = STEPS;
    for (*n = 0; !kt__grammar_accepts(g, &s);) {
        size_t name = finish_name(g, &s, out + *n, cap - *n);
        *n += name;
        if (name) continue;
        if (*n == cap || g->t.pool.failed) return false;
        int b = finishing_byte(g, &s);
        if (b < 0) return false;
        out[(*n)++] = (char)b;
    }
    return true;
}
