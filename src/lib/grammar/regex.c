#include "grammar/notation.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/le.h"
#include "base/text.h"

enum { EMPTY = KT__GPOOL_EMPTY, ANY = KT__GPOOL_ANY, EPS = KT__GPOOL_EPS, MAX_NEST = 200 };

typedef enum piece_kind { P_TERM, P_CAT, P_ALT, P_REP, P_BEGIN, P_END, P_LOOK } piece_kind;

/* A node of the parsed pattern. */
typedef struct piece {
    piece_kind kind;
    bool negated;       /* P_LOOK */
    bool zero_width;    /* consumes nothing */
    bool context;       /* has anchors or look-ahead within: what it matches depends on its place */
    bool has_begin;     /* has ^ within */
    uint32_t kid, next; /* 0: none */
    uint32_t min, max;
    kt__gid term;
} piece;

typedef struct parser {
    kt__terms *t;
    const char *s;
    size_t len, at;
    piece *pieces;
    uint32_t n, cap;
    int nest;
    kt_status status;
    char *why;
    kt__charset *set, *named; /* scratch */
} parser;

static bool regex_fail(parser *p, kt_status status, const char *what) {
    if (p->status == KT_OK) {
        p->status = status;
        snprintf(p->why, KT__REGEX_WHY, "%s (byte %zu of the pattern)", what, p->at);
    }
    return false;
}

static bool at_char(const parser *p, char c) {
    return p->at < p->len && p->s[p->at] == c;
}

static bool take_char(parser *p, char c) {
    if (!at_char(p, c)) return false;
    p->at++;
    return true;
}

static bool take_text(parser *p, const char *text) {
    size_t n = strlen(text);
    if (p->len - p->at < n || memcmp(p->s + p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

static uint32_t new_piece(parser *p, piece_kind kind) {
    if (p->n == p->cap) {
        regex_fail(p, KT_E_LIMIT, "too many parts");
        return 0;
    }
    p->pieces[p->n] = (piece){.kind = kind};
    return p->n++;
}

/* ---- escapes ---- */

static bool take_hex(parser *p, int n_digits, uint32_t *out) {
    size_t at = p->at;
    *out = 0;
    for (int i = 0; i < n_digits; i++, at++) {
        int d = at < p->len ? kt__hex_digit(p->s[at]) : -1;
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    p->at = at;
    return true;
}

static bool unicode_escape(parser *p, uint32_t *c) {
    uint32_t low;
    if (take_char(p, '{')) {
        *c = 0;
        while (p->at < p->len && kt__hex_digit(p->s[p->at]) >= 0 && *c <= 0x10ffff)
            *c = *c << 4 | (uint32_t)kt__hex_digit(p->s[p->at++]);
        if (!take_char(p, '}') || *c > 0x10ffff) return regex_fail(p, KT_E_FORMAT, "\\u{...}");
        return true;
    }
    if (!take_hex(p, 4, c)) return regex_fail(p, KT_E_FORMAT, "\\u needs four digits");
    size_t back = p->at;
    if (*c < 0xd800 || *c > 0xdbff) return true;
    if (take_text(p, "\\u") && take_hex(p, 4, &low) && low >= 0xdc00 && low <= 0xdfff)
        *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    else
        p->at = back;
    return true;
}

/* After the backslash: one character; false where it is a class or nothing. */
static bool char_escape(parser *p, uint32_t *c) {
    static const char names[] = "tnvfr", codes[] = "\t\n\v\f\r";
    char e = p->s[p->at++];
    const char *hit = e ? strchr(names, e) : NULL;
    bool letter = (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z');
    if (hit) {
        *c = (uint8_t)codes[hit - names];
    } else if (e == 'x') {
        return take_hex(p, 2, c) || regex_fail(p, KT_E_FORMAT, "\\x needs two digits");
    } else if (e == 'u') {
        return unicode_escape(p, c);
    } else if (e == 'c' && p->at < p->len) {
        *c = (uint8_t)p->s[p->at++] % 32u;
    } else if (e == '0' && !(p->at < p->len && p->s[p->at] >= '0' && p->s[p->at] <= '9')) {
        *c = 0;
    } else if (e >= '0' && e <= '9') {
        return regex_fail(p, KT_E_UNSUPPORTED, "a back-reference is not supported");
    } else if (letter || (uint8_t)e >= 0x80) {
        return regex_fail(p, e == 'k' ? KT_E_UNSUPPORTED : KT_E_FORMAT,
                          e == 'k' ? "a back-reference is not supported" : "an unknown escape");
    } else {
        *c = (uint8_t)e;
    }
    return true;
}

/* \d and its like, \p{...}: adds to set. False and no failure: something else. */
static bool class_escape(parser *p, kt__charset *set) {
    char e = p->at < p->len ? p->s[p->at] : '\0';
    if (kt__charset_add_escape(set, e)) {
        p->at++;
        return true;
    }
    if ((e != 'p' && e != 'P') || p->at + 1 >= p->len || p->s[p->at + 1] != '{') return false;
    const char *name = p->s + p->at + 2, *end = memchr(name, '}', p->len - p->at - 2);
    p->named->n = 0;
    if (!end || !kt__charset_add_property(p->named, name, (size_t)(end - name)))
        return regex_fail(p, KT_E_UNSUPPORTED,
                          "a property that is no general category is not supported");
    if (e == 'P') kt__charset_invert(p->named);
    kt__charset_add_set(set, p->named);
    p->at = (size_t)(end - p->s) + 1;
    return true;
}

static bool plain_char(parser *p, uint32_t *c) {
    size_t n = kt__utf8_decode(p->s + p->at, p->len - p->at, c);
    if (n == 0) return regex_fail(p, KT_E_FORMAT, "not UTF-8");
    p->at += n;
    return true;
}

/* ---- classes ---- */

/* One member of [...]: *single when it is one character, which may begin a range. */
static bool class_member(parser *p, uint32_t *c, bool *single) {
    *single = true;
    if (!take_char(p, '\\')) return plain_char(p, c);
    if (p->at == p->len) return regex_fail(p, KT_E_FORMAT, "a backslash at the end");
    if (take_char(p, 'b')) {
        *c = '\b';
        return true;
    }
    if (class_escape(p, p->set)) {
        *single = false;
        return true;
    }
    return p->status == KT_OK && char_escape(p, c);
}

static bool class_range(parser *p) {
    uint32_t low, high;
    bool single, single_end;
    if (!class_member(p, &low, &single)) return false;
    bool range = p->at + 1 < p->len && p->s[p->at] == '-' && p->s[p->at + 1] != ']';
    if (!range) {
        if (single) kt__charset_add(p->set, low, low);
        return true;
    }
    p->at++;
    if (!class_member(p, &high, &single_end)) return false;
    if (single && single_end) {
        if (high < low) return regex_fail(p, KT_E_FORMAT, "a range that runs backwards");
        kt__charset_add(p->set, low, high);
        return true;
    }
    if (single) kt__charset_add(p->set, low, low);
    if (single_end) kt__charset_add(p->set, high, high);
    kt__charset_add(p->set, '-', '-');
    return true;
}

static uint32_t set_piece(parser *p) {
    if (p->set->failed) {
        regex_fail(p, KT_E_LIMIT, "a class of too many ranges");
        return 0;
    }
    uint32_t id = new_piece(p, P_TERM);
    if (id) p->pieces[id].term = kt__charset_term(p->t, p->set);
    return id;
}

static uint32_t parse_class(parser *p) {
    bool inverted = take_char(p, '^');
    p->set->n = 0;
    while (!at_char(p, ']')) {
        if (p->at == p->len) return regex_fail(p, KT_E_FORMAT, "a class without its end");
        if (!class_range(p)) return 0;
    }
    p->at++;
    if (inverted)
        kt__charset_invert(p->set);
    else
        kt__charset_normalize(p->set);
    return set_piece(p);
}

static uint32_t char_piece(parser *p, uint32_t c) {
    p->set->n = 0;
    kt__charset_add(p->set, c, c);
    return set_piece(p);
}

static uint32_t dot_piece(parser *p) {
    p->set->n = 0;
    kt__charset_add(p->set, '\n', '\n');
    kt__charset_add(p->set, '\r', '\r');
    kt__charset_add(p->set, 0x2028, 0x2029);
    kt__charset_invert(p->set);
    return set_piece(p);
}

static uint32_t escape_piece(parser *p) {
    uint32_t c;
    if (p->at == p->len) return regex_fail(p, KT_E_FORMAT, "a backslash at the end");
    if (at_char(p, 'b') || at_char(p, 'B'))
        return regex_fail(p, KT_E_UNSUPPORTED, "a word boundary is not supported");
    p->set->n = 0;
    if (class_escape(p, p->set)) {
        kt__charset_normalize(p->set);
        return set_piece(p);
    }
    if (p->status != KT_OK || !char_escape(p, &c)) return 0;
    return char_piece(p, c);
}

/* ---- structure ---- */

static uint32_t parse_alternatives(parser *p);

static bool skip_group_name(parser *p) {
    const char *end = memchr(p->s + p->at, '>', p->len - p->at);
    if (!end) return regex_fail(p, KT_E_FORMAT, "a group's name without its end");
    p->at = (size_t)(end - p->s) + 1;
    return true;
}

static uint32_t parse_group(parser *p) {
    bool ahead = false, negated = false;
    if (take_text(p, "?=")) {
        ahead = true;
    } else if (take_text(p, "?!")) {
        ahead = negated = true;
    } else if (take_text(p, "?<=") || take_text(p, "?<!")) {
        return regex_fail(p, KT_E_UNSUPPORTED, "look-behind is not supported");
    } else if (take_text(p, "?<") || take_text(p, "?P<")) {
        if (!skip_group_name(p)) return 0;
    } else if (!take_text(p, "?:") && at_char(p, '?')) {
        return regex_fail(p, KT_E_UNSUPPORTED,
                          "flags and other groups that begin with (? are not supported");
    }
    uint32_t kid = parse_alternatives(p);
    if (!kid) return 0;
    if (!take_char(p, ')')) return regex_fail(p, KT_E_FORMAT, "a group without its end");
    if (!ahead) return kid;
    uint32_t id = new_piece(p, P_LOOK);
    if (id) {
        p->pieces[id].kid = kid;
        p->pieces[id].negated = negated;
        p->pieces[id].has_begin = p->pieces[kid].has_begin;
        p->pieces[id].zero_width = p->pieces[id].context = true;
    }
    return id;
}

static uint32_t anchor_piece(parser *p, piece_kind kind) {
    uint32_t id = new_piece(p, kind);
    if (!id) return 0;
    p->pieces[id].zero_width = p->pieces[id].context = true;
    p->pieces[id].has_begin = kind == P_BEGIN;
    return id;
}

static uint32_t parse_atom(parser *p) {
    uint32_t c;
    switch (p->s[p->at]) {
    case '^': p->at++; return anchor_piece(p, P_BEGIN);
    case '$': p->at++; return anchor_piece(p, P_END);
    case '(': p->at++; return parse_group(p);
    case '[': p->at++; return parse_class(p);
    case '.': p->at++; return dot_piece(p);
    case '\\': p->at++; return escape_piece(p);
    case '*':
    case '+':
    case '?': return regex_fail(p, KT_E_FORMAT, "nothing to repeat");
    default: return plain_char(p, &c) ? char_piece(p, c) : 0;
    }
}

static bool take_number(parser *p, uint32_t *out) {
    size_t from = p->at;
    uint64_t n = 0;
    for (; p->at < p->len && p->s[p->at] >= '0' && p->s[p->at] <= '9'; p->at++)
        if (n < UINT32_MAX) n = n * 10 + (uint64_t)(p->s[p->at] - '0');
    *out = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX - 1;
    return p->at > from;
}

/* {n}, {n,}, {n,m}; anything else in braces is text. */
static bool take_braces(parser *p, uint32_t *min, uint32_t *max) {
    size_t back = p->at;
    if (take_char(p, '{') && take_number(p, min)) {
        *max = *min;
        if (take_char(p, ',') && !take_number(p, max)) *max = UINT32_MAX;
        if (take_char(p, '}')) return true;
    }
    p->at = back;
    return false;
}

static bool take_quantifier(parser *p, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = UINT32_MAX;
    if (take_char(p, '+'))
        *min = 1;
    else if (take_char(p, '?'))
        *max = 1;
    else if (!take_char(p, '*') && !take_braces(p, min, max))
        return false;
    take_char(p, '?');
    return true;
}

static uint32_t parse_repeated(parser *p) {
    uint32_t kid = parse_atom(p), min, max;
    while (kid && take_quantifier(p, &min, &max)) {
        if (max < min) return regex_fail(p, KT_E_FORMAT, "a count that runs backwards");
        uint32_t id = new_piece(p, P_REP);
        if (!id) return 0;
        piece *x = &p->pieces[id];
        x->kid = kid;
        x->min = min;
        x->max = max;
        x->zero_width = p->pieces[kid].zero_width;
        x->context = p->pieces[kid].context;
        x->has_begin = p->pieces[kid].has_begin;
        kid = id;
    }
    return kid;
}

static void add_kid(parser *p, uint32_t parent, uint32_t *last, uint32_t kid) {
    if (*last)
        p->pieces[*last].next = kid;
    else
        p->pieces[parent].kid = kid;
    *last = kid;
    p->pieces[parent].zero_width &= p->pieces[kid].zero_width;
    p->pieces[parent].context |= p->pieces[kid].context;
    p->pieces[parent].has_begin |= p->pieces[kid].has_begin;
}

static uint32_t parse_sequence(parser *p) {
    uint32_t id = new_piece(p, P_CAT), last = 0;
    if (!id) return 0;
    p->pieces[id].zero_width = true;
    while (p->at < p->len && !at_char(p, '|') && !at_char(p, ')')) {
        uint32_t kid = parse_repeated(p);
        if (!kid) return 0;
        add_kid(p, id, &last, kid);
    }
    return id;
}

static uint32_t parse_alternatives(parser *p) {
    if (++p->nest > MAX_NEST) return regex_fail(p, KT_E_LIMIT, "nested too deep");
    uint32_t id = new_piece(p, P_ALT), last = 0;
    if (!id) return 0;
    p->pieces[id].zero_width = true;
    do {
        uint32_t kid = parse_sequence(p);
        if (!kid) return 0;
        add_kid(p, id, &last, kid);
    } while (take_char(p, '|'));
    p->nest--;
    return id;
}

/* ---- terms ---- */

typedef enum place { AT_BEGIN, MAYBE_BEGIN, NOT_BEGIN } place;

/* The texts that match the piece and continue with rest. */
static kt__gid build_node(parser *p, uint32_t id, kt__gid rest, place where);

static place place_after(parser *p, uint32_t id, place where) {
    const piece *x = &p->pieces[id];
    if (x->zero_width || where == NOT_BEGIN) return where;
    bool empty = true;
    if (!x->context) empty = kt__term_nullable(p->t, build_node(p, id, EPS, NOT_BEGIN));
    return empty ? MAYBE_BEGIN : NOT_BEGIN;
}

/* From the last to the first, each with what follows as its rest. */
static kt__gid build_sequence(parser *p, uint32_t kid, kt__gid rest, place where) {
    if (!kid) return rest;
    uint32_t from = p->t->pool.n_scratch;
    for (; kid; kid = p->pieces[kid].next) {
        kt__gpool_push(&p->t->pool, kid);
        kt__gpool_push(&p->t->pool, where);
        if (p->pieces[kid].next) where = place_after(p, kid, where);
    }
    while (p->t->pool.n_scratch > from) {
        p->t->pool.n_scratch -= 2;
        const uint32_t *pair = p->t->pool.scratch + p->t->pool.n_scratch;
        rest = build_node(p, pair[0], rest, (place)pair[1]);
    }
    return rest;
}

static kt__gid build_alternatives(parser *p, uint32_t kid, kt__gid rest, place where) {
    uint32_t from = p->t->pool.n_scratch;
    for (; kid; kid = p->pieces[kid].next)
        kt__gpool_push(&p->t->pool, build_node(p, kid, rest, where));
    return kt__term_or(p->t, from);
}

/* With anchors or look-ahead within, each round needs its own rest. */
static kt__gid build_rounds(parser *p, const piece *x, kt__gid rest, place where) {
    if (x->max > 16) {
        regex_fail(p, KT_E_UNSUPPORTED,
                   "an anchor or look-ahead in an unbounded repetition is not supported");
        return EMPTY;
    }
    kt__gid all = x->min == 0 ? rest : EMPTY;
    for (uint32_t n = x->min > 0 ? x->min : 1; n <= x->max; n++) {
        kt__gid term = rest;
        for (uint32_t i = n; i > 0; i--)
            term = build_node(p, x->kid, term, i > 1 && where == AT_BEGIN ? MAYBE_BEGIN : where);
        all = kt__term_or2(p->t, all, term);
    }
    return all;
}

static kt__gid build_repeated(parser *p, const piece *x, kt__gid rest, place where) {
    if (x->context) return build_rounds(p, x, rest, where);
    kt__gid kid = build_node(p, x->kid, EPS, where);
    return kt__term_cat(p->t, kt__term_rep(p->t, kid, x->min, x->max), rest);
}

static kt__gid build_begin(parser *p, kt__gid rest, place where) {
    if (where == MAYBE_BEGIN)
        regex_fail(p, KT_E_UNSUPPORTED, "a ^ after what may be empty is not supported");
    return where == AT_BEGIN ? rest : EMPTY;
}

static kt__gid build_look(parser *p, const piece *x, kt__gid rest, place where) {
    kt__gid ahead = build_node(p, x->kid, ANY, where);
    return kt__term_and2(p->t, x->negated ? kt__term_not(p->t, ahead) : ahead, rest);
}

static kt__gid build_node(parser *p, uint32_t id, kt__gid rest, place where) {
    const piece *x = &p->pieces[id];
    if (p->status != KT_OK || rest == EMPTY || !kt__gpool_step(&p->t->pool)) return EMPTY;
    switch (x->kind) {
    case P_TERM: return kt__term_cat(p->t, x->term, rest);
    case P_CAT: return build_sequence(p, x->kid, rest, where);
    case P_ALT: return build_alternatives(p, x->kid, rest, where);
    case P_REP: return build_repeated(p, x, rest, where);
    case P_BEGIN: return build_begin(p, rest, where);
    case P_END: return kt__term_nullable(p->t, rest) ? EPS : EMPTY;
    case P_LOOK: return build_look(p, x, rest, where);
    }
    return EMPTY;
}

/* Anywhere in a text: from its beginning, or after anything. */
static kt__gid build_search(parser *p, uint32_t root) {
    kt__gid later = kt__term_cat(p->t, ANY, build_node(p, root, ANY, NOT_BEGIN));
    if (!p->pieces[root].has_begin) return later;
    return kt__term_or2(p->t, build_node(p, root, ANY, AT_BEGIN), later);
}

/* Reads the whole pattern into pieces, then builds the term of the texts that it fits: whole: all of a text fits (as
 * ^(?:...)$), else some part of it. p->why says what is wrong. */
static kt_status parse_regex(parser *p, bool whole, kt__gid *out) {
    uint32_t root = parse_alternatives(p);
    if (p->status == KT_OK && root && p->at < p->len)
        regex_fail(p, KT_E_FORMAT, "a ) without its beginning");
    if (p->status != KT_OK) return p->status;
    p->t->depth = 0;
    *out = whole ? build_node(p, root, EPS, AT_BEGIN) : build_search(p, root);
    if (p->t->pool.failed) regex_fail(p, KT_E_LIMIT, "too complex a pattern");
    return p->status;
}

kt_status kt__regex_term(kt__terms *t, const char *pattern, size_t len, bool whole, kt__gid *out,
                         char why[KT__REGEX_WHY]) {
    parser p = {.t = t, .s = pattern, .len = len, .why = why, .n = 1};
    *out = EMPTY;
    if (len > KT__REGEX_MAX_BYTES) {
        snprintf(why, KT__REGEX_WHY, "a pattern of %zu bytes", len);
        return KT_E_LIMIT;
    }
    p.cap = (uint32_t)(4 * len + 16);
    p.pieces = kt__calloc(p.cap, sizeof *p.pieces);
    p.set = kt__calloc(2, sizeof *p.set);
    if (p.pieces && p.set) {
        p.named = p.set + 1;
        p.status = parse_regex(&p, whole, out);
    } else {
        p.status = KT_E_NOMEM;
        snprintf(why, KT__REGEX_WHY, "no memory for the pattern");
    }
    kt__free(p.pieces);
    kt__free(p.set);
    return p.status;
}
