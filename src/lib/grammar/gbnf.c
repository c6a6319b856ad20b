#include "grammar/notation.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum { EMPTY = KT__GPOOL_EMPTY, EPS = KT__GPOOL_EPS, MAX_NEST = 100 };

typedef struct rule_name {
    const char *s;
    size_t len;
    bool defined;
} rule_name;

typedef struct gbnf {
    kt__terms *t;
    const char *s;
    size_t len, at;
    rule_name *names; /* [KT__GBNF_MAX_RULES] */
    uint32_t *table, table_mask;
    kt__charset *set;
    int nest;
    kt_status status;
    char *why;
} gbnf;

static kt__gid gbnf_fail(gbnf *g, kt_status status, const char *what) {
    size_t line = 1;
    if (g->status != KT_OK) return EMPTY;
    for (size_t i = 0; i < g->at && i < g->len; i++) line += g->s[i] == '\n';
    g->status = status;
    snprintf(g->why, KT__GBNF_WHY, "%s (line %zu of the grammar)", what, line);
    return EMPTY;
}

/* ---- rules by name ---- */

static uint32_t rule_index(gbnf *g, const char *s, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)s[i]) * 16777619u;
    uint32_t slot = (h ^ h >> 15) & g->table_mask;
    for (; g->table[slot]; slot = (slot + 1) & g->table_mask) {
        const rule_name *name = &g->names[g->table[slot] - 1];
        if (name->len == len && memcmp(name->s, s, len) == 0) return g->table[slot] - 1;
    }
    if (g->t->n_rules == KT__GBNF_MAX_RULES) {
        gbnf_fail(g, KT_E_LIMIT, "too many rules");
        return 0;
    }
    g->names[g->t->n_rules] = (rule_name){s, len, false};
    g->t->rules[g->t->n_rules] = EMPTY;
    g->table[slot] = ++g->t->n_rules;
    return g->t->n_rules - 1;
}

/* ---- reading ---- */

static bool at_byte(const gbnf *g, char c) {
    return g->at < g->len && g->s[g->at] == c;
}

static bool take_byte(gbnf *g, char c) {
    if (!at_byte(g, c)) return false;
    g->at++;
    return true;
}

/* Blanks and comments; line ends only where a rule may continue after them. */
static void skip_space(gbnf *g, bool lines) {
    while (g->at < g->len) {
        char c = g->s[g->at];
        if (c == '#')
            while (g->at < g->len && g->s[g->at] != '\n') g->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            g->at++;
        else
            return;
    }
}

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

static size_t name_length(const gbnf *g) {
    size_t n = 0;
    while (g->at + n < g->len && is_name_byte(g->s[g->at + n])) n++;
    return n;
}

static int hex_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_code(gbnf *g, int digits, uint32_t *c) {
    *c = 0;
    for (int i = 0; i < digits; i++, g->at++) {
        int d = g->at < g->len ? hex_of(g->s[g->at]) : -1;
        if (d < 0) return false;
        *c = *c << 4 | (uint32_t)d;
    }
    return *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff);
}

/* One character of a literal or class. */
static bool read_char(gbnf *g, uint32_t *c) {
    static const char names[] = "nrt\"[]\\-/^.'", codes[] = "\n\r\t\"[]\\-/^.'";
    if (!take_byte(g, '\\')) {
        size_t n = g->at < g->len ? kt__utf8_decode(g->s + g->at, g->len - g->at, c) : 0;
        g->at += n;
        if (n == 0) gbnf_fail(g, KT_E_FORMAT, "expected a character of UTF-8");
        return n > 0;
    }
    char e = g->at < g->len ? g->s[g->at++] : '\0';
    const char *hit = e ? strchr(names, e) : NULL;
    bool ok = true;
    if (hit)
        *c = (uint8_t)codes[hit - names];
    else if (e == 'x' || e == 'u' || e == 'U')
        ok = read_code(g, e == 'x' ? 2 : e == 'u' ? 4 : 8, c);
    else
        ok = false;
    if (!ok) gbnf_fail(g, KT_E_FORMAT, "an unknown escape");
    return ok;
}

static kt__gid read_literal(gbnf *g) {
    uint32_t from = g->t->pool.n_scratch;
    while (g->status == KT_OK && !take_byte(g, '"')) {
        uint32_t c;
        char bytes[4];
        if (g->at == g->len || at_byte(g, '\n'))
            return gbnf_fail(g, KT_E_FORMAT, "a literal without its end");
        if (!read_char(g, &c)) return EMPTY;
        size_t n = kt__utf8_encode(c, bytes);
        for (size_t i = 0; i < n; i++) kt__gpool_push(&g->t->pool, (uint8_t)bytes[i]);
    }
    kt__gid term = EPS;
    while (g->t->pool.n_scratch > from) {
        uint32_t b = g->t->pool.scratch[--g->t->pool.n_scratch];
        term = kt__term_cat(g->t, kt__term_byte_range(g->t, b, b), term);
    }
    return term;
}

static kt__gid read_class(gbnf *g) {
    bool inverted = take_byte(g, '^');
    g->set->n = 0;
    while (!take_byte(g, ']')) {
        uint32_t low, high;
        if (g->at == g->len) return gbnf_fail(g, KT_E_FORMAT, "a class without its end");
        if (!read_char(g, &low)) return EMPTY;
        high = low;
        if (at_byte(g, '-') && g->at + 1 < g->len && g->s[g->at + 1] != ']') {
            g->at++;
            if (!read_char(g, &high)) return EMPTY;
        }
        if (high < low) return gbnf_fail(g, KT_E_FORMAT, "a range that runs backwards");
        kt__charset_add(g->set, low, high);
    }
    if (inverted)
        kt__charset_invert(g->set);
    else
        kt__charset_normalize(g->set);
    if (g->set->failed) return gbnf_fail(g, KT_E_LIMIT, "a class of too many ranges");
    return kt__charset_term(g->t, g->set);
}

static kt__gid read_alternatives(gbnf *g, bool lines);

static kt__gid read_group(gbnf *g) {
    kt__gid term = read_alternatives(g, true);
    skip_space(g, true);
    if (g->status == KT_OK && !take_byte(g, ')'))
        return gbnf_fail(g, KT_E_FORMAT, "a group without its end");
    return term;
}

static kt__gid read_atom(gbnf *g) {
    if (take_byte(g, '"')) return read_literal(g);
    if (take_byte(g, '[')) return read_class(g);
    if (take_byte(g, '(')) return read_group(g);
    if (take_byte(g, '.')) return g->t->any_char;
    size_t n = name_length(g);
    if (n == 0) return gbnf_fail(g, KT_E_FORMAT, "expected a literal, a class, a group or a rule");
    uint32_t rule = rule_index(g, g->s + g->at, n);
    g->at += n;
    return kt__term_call(g->t, rule);
}

static bool read_number(gbnf *g, uint32_t *out) {
    size_t from = g->at;
    uint64_t n = 0;
    for (; g->at < g->len && g->s[g->at] >= '0' && g->s[g->at] <= '9'; g->at++)
        if (n < 1u << 30) n = n * 10 + (uint64_t)(g->s[g->at] - '0');
    *out = n < 1u << 30 ? (uint32_t)n : 1u << 30;
    return g->at > from;
}

static kt__gid read_counts(gbnf *g, kt__gid term) {
    uint32_t min = 0, max;
    skip_space(g, false);
    bool has_min = read_number(g, &min);
    max = min;
    skip_space(g, false);
    if (take_byte(g, ',')) {
        skip_space(g, false);
        if (!read_number(g, &max)) max = UINT32_MAX;
        has_min = true;
    }
    skip_space(g, false);
    if (!has_min || !take_byte(g, '}') || max < min)
        return gbnf_fail(g, KT_E_FORMAT, "expected counts such as {2,5}");
    return kt__term_rep(g->t, term, min, max);
}

static kt__gid read_repeated(gbnf *g, bool lines) {
    kt__gid term = read_atom(g);
    for (;;) {
        skip_space(g, lines);
        if (g->status != KT_OK) return EMPTY;
        if (take_byte(g, '*'))
            term = kt__term_star(g->t, term);
        else if (take_byte(g, '+'))
            term = kt__term_cat(g->t, term, kt__term_star(g->t, term));
        else if (take_byte(g, '?'))
            term = kt__term_rep(g->t, term, 0, 1);
        else if (take_byte(g, '{'))
            term = read_counts(g, term);
        else
            return term;
    }
}

static kt__gid read_sequence(gbnf *g, bool lines) {
    uint32_t from = g->t->pool.n_scratch;
    for (;;) {
        skip_space(g, lines);
        bool end = g->at == g->len || at_byte(g, '|') || at_byte(g, ')') || at_byte(g, '\n') ||
                   at_byte(g, '\r');
        if (end || g->status != KT_OK) break;
        if (!kt__gpool_push(&g->t->pool, read_repeated(g, lines))) break;
    }
    kt__gid term = EPS;
    while (g->t->pool.n_scratch > from)
        term = kt__term_cat(g->t, g->t->pool.scratch[--g->t->pool.n_scratch], term);
    return term;
}

static kt__gid read_alternatives(gbnf *g, bool lines) {
    if (++g->nest > MAX_NEST) return gbnf_fail(g, KT_E_LIMIT, "groups nested too deep");
    uint32_t from = g->t->pool.n_scratch;
    do {
        kt__gpool_push(&g->t->pool, read_sequence(g, lines));
        size_t back = g->at;
        skip_space(g, true); /* an alternative may begin the next line */
        if (!at_byte(g, '|')) g->at = back;
    } while (g->status == KT_OK && take_byte(g, '|') && (skip_space(g, true), true));
    g->nest--;
    return kt__term_or(g->t, from);
}

static void read_rule(gbnf *g) {
    size_t n = name_length(g);
    if (n == 0) {
        gbnf_fail(g, KT_E_FORMAT, "expected a rule's name");
        return;
    }
    uint32_t rule = rule_index(g, g->s + g->at, n);
    g->at += n;
    skip_space(g, false);
    if (g->len - g->at < 3 || memcmp(g->s + g->at, "::=", 3) != 0) {
        gbnf_fail(g, KT_E_FORMAT, "expected ::= after a rule's name");
        return;
    }
    g->at += 3;
    skip_space(g, true);
    kt__gid body = read_alternatives(g, false);
    if (g->status != KT_OK) return;
    if (g->names[rule].defined) gbnf_fail(g, KT_E_FORMAT, "a rule that was defined before");
    g->names[rule].defined = true;
    g->t->rules[rule] = body;
    skip_space(g, false);
    if (g->at < g->len && !at_byte(g, '\n') && !at_byte(g, '\r'))
        gbnf_fail(g, KT_E_FORMAT, "expected the end of a rule");
}

/* ---- checks over all rules ---- */

typedef bool term_fact(const gbnf *g, kt__gid id, const bool *rules);

/* Of each part of a sequence; they are many in a row. */
static bool all_parts(const gbnf *g, kt__gid id, const bool *rules, term_fact *fact) {
    const kt__gpool *p = &g->t->pool;
    for (; kt__g_kind(p, id) == KT__G_CAT; id = kt__g_arg(p, id, 1))
        if (!kt__gpool_step(&g->t->pool) || !fact(g, kt__g_arg(p, id, 0), rules)) return false;
    return fact(g, id, rules);
}

/* Whether a term may be empty, as far as is known of the rules. */
static bool may_be_empty(const gbnf *g, kt__gid id, const bool *rules) {
    const kt__gpool *p = &g->t->pool;
    const uint32_t *a = kt__g_data(p, id);
    switch (kt__g_kind(p, id)) {
    case KT__G_EPS:
    case KT__G_ANY:
    case KT__G_STAR: return true;
    case KT__G_CAT: return all_parts(g, id, rules, may_be_empty);
    case KT__G_REP: return a[1] == 0 || may_be_empty(g, a[0], rules);
    case KT__G_CALL: return rules[a[0]];
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, id); i++)
            if (may_be_empty(g, a[i], rules)) return true;
        return false;
    default: return false;
    }
}

/* Whether any text fits, as far as is known of the rules. */
static bool fits_something(const gbnf *g, kt__gid id, const bool *rules) {
    const kt__gpool *p = &g->t->pool;
    const uint32_t *a = kt__g_data(p, id);
    switch (kt__g_kind(p, id)) {
    case KT__G_EMPTY: return false;
    case KT__G_CAT: return all_parts(g, id, rules, fits_something);
    case KT__G_REP: return a[1] == 0 || fits_something(g, a[0], rules);
    case KT__G_CALL: return rules[a[0]];
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, id); i++)
            if (fits_something(g, a[i], rules)) return true;
        return false;
    default: return true;
    }
}

/* The least set of rules with a fact that follows from itself. */
static bool *rules_with(gbnf *g, term_fact *fact) {
    bool *rules = kt__calloc(g->t->n_rules + 1, sizeof *rules), changed = rules != NULL;
    for (uint32_t round = 0; changed && round < 1000; round++) {
        changed = false;
        for (uint32_t i = 0; i < g->t->n_rules; i++) {
            if (rules[i] || !fact(g, g->t->rules[i], rules)) continue;
            rules[i] = changed = true;
        }
    }
    if (!rules && g->status == KT_OK) g->status = KT_E_NOMEM;
    if (g->t->pool.failed) gbnf_fail(g, KT_E_LIMIT, "too complex a grammar");
    return rules;
}

/* Rules that a term may begin with; 1 is under way, 2 done. */
static bool begins_with_itself(gbnf *g, kt__gid id, uint8_t *mark, int depth) {
    const kt__gpool *p = &g->t->pool;
    const uint32_t *a = kt__g_data(p, id);
    if (depth > 1000) {
        gbnf_fail(g, KT_E_LIMIT, "rules that begin with rules, too many in a row");
        return true;
    }
    switch (kt__g_kind(p, id)) {
    case KT__G_CALL: {
        if (mark[a[0]]) return mark[a[0]] == 1;
        mark[a[0]] = 1;
        bool loop = begins_with_itself(g, g->t->rules[a[0]], mark, depth + 1);
        mark[a[0]] = 2;
        return loop;
    }
    case KT__G_CAT:
        for (; kt__g_kind(p, id) == KT__G_CAT; id = kt__g_arg(p, id, 1)) {
            if (begins_with_itself(g, kt__g_arg(p, id, 0), mark, depth + 1)) return true;
            if (!kt__term_nullable(g->t, kt__g_arg(p, id, 0))) return false;
        }
        return begins_with_itself(g, id, mark, depth + 1);
    case KT__G_STAR:
    case KT__G_REP: return begins_with_itself(g, a[0], mark, depth + 1);
    case KT__G_OR:
        for (uint32_t i = 0; i < kt__g_n(p, id); i++)
            if (begins_with_itself(g, a[i], mark, depth + 1)) return true;
        return false;
    default: return false;
    }
}

static void check_rules(gbnf *g) {
    char what[80];
    for (uint32_t i = 0; i < g->t->n_rules && g->status == KT_OK; i++) {
        if (g->names[i].defined) continue;
        snprintf(what, sizeof what, "the rule %.*s is not defined",
                 (int)(g->names[i].len < 40 ? g->names[i].len : 40), g->names[i].s);
        gbnf_fail(g, KT_E_FORMAT, what);
    }
    if (g->status != KT_OK) return;
    bool *full = rules_with(g, fits_something);
    for (uint32_t i = 0; full && g->status == KT_OK && i < g->t->n_rules; i++)
        if (!full[i]) gbnf_fail(g, KT_E_FORMAT, "a rule that no text fits");
    kt__free(full);
    if (g->status != KT_OK) return;
    g->t->rule_nullable = rules_with(g, may_be_empty);
    uint8_t *mark = kt__calloc(g->t->n_rules, 1);
    if (!mark && g->status == KT_OK) g->status = KT_E_NOMEM;
    for (uint32_t i = 0; g->status == KT_OK && i < g->t->n_rules; i++)
        if (begins_with_itself(g, kt__term_call(g->t, i), mark, 0))
            gbnf_fail(g, KT_E_UNSUPPORTED, "left recursion: a rule that begins with itself");
    kt__free(mark);
}

static void read_rules(gbnf *g) {
    (void)rule_index(g, "root", 4); /* is 0 */
    skip_space(g, true);
    while (g->status == KT_OK && g->at < g->len && !g->t->pool.failed) {
        read_rule(g);
        skip_space(g, true);
    }
    if (g->t->pool.failed) gbnf_fail(g, KT_E_LIMIT, "too complex a grammar");
    if (g->status == KT_OK) check_rules(g);
}

kt_status kt__gbnf_read(kt__terms *t, const char *text, size_t len, kt__gid *root,
                        char why[KT__GBNF_WHY]) {
    gbnf g = {.t = t, .s = text, .len = len, .why = why, .table_mask = 4 * 8192 - 1};
    *root = EMPTY;
    if (len > KT__GBNF_MAX_BYTES) return gbnf_fail(&g, KT_E_LIMIT, "too long"), g.status;
    g.names = kt__calloc(KT__GBNF_MAX_RULES, sizeof *g.names);
    g.table = kt__calloc(g.table_mask + 1, sizeof *g.table);
    g.set = kt__calloc(1, sizeof *g.set);
    t->rules = kt__calloc(KT__GBNF_MAX_RULES, sizeof *t->rules);
    t->n_rules = 0;
    if (g.names && g.table && g.set && t->rules)
        read_rules(&g);
    else
        g.status = KT_E_NOMEM;
    if (g.status == KT_OK) *root = kt__term_call(t, 0);
    kt__free(g.names);
    kt__free(g.table);
    kt__free(g.set);
    return g.status;
}
