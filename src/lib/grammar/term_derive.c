/* Derivatives and liveness of terms, with a bound on their characters or without. */
#include <string.h>

#include "grammar/term.h"

enum {
    EMPTY = KT__GPOOL_EMPTY,
    ANY = KT__GPOOL_ANY,
    EPS = KT__GPOOL_EPS,
    MAX_DEPTH = 1500,
    LIVE_STEPS = 4000 /* derivatives that a search for a fitting text may take */
};

static bool derive_enter(kt__terms *t) {
    if (!kt__gpool_step(&t->pool)) return false;
    if (t->depth < MAX_DEPTH) {
        t->depth++;
        return true;
    }
    t->pool.failed = KT_E_LIMIT;
    return false;
}

/* ---- derivatives ---- */

/* A sequence continues with what follows as long as its beginnings may be empty. */
static kt__gid derive_cat(kt__terms *t, kt__gid id, uint8_t b) {
    uint32_t from = t->pool.n_scratch;
    for (;;) {
        bool is_cat = kt__g_kind(&t->pool, id) == KT__G_CAT;
        kt__gid first = is_cat ? kt__g_arg(&t->pool, id, 0) : id;
        kt__gid d = kt__term_derive(t, first, b);
        if (d != EMPTY && is_cat) d = kt__term_cat(t, d, kt__g_arg(&t->pool, id, 1));
        if (d != EMPTY && !kt__gpool_push(&t->pool, d)) break;
        if (!is_cat || !kt__gpool_step(&t->pool) || !kt__term_nullable(t, first)) break;
        id = kt__g_arg(&t->pool, id, 1);
    }
    return kt__term_or(t, from);
}

static kt__gid derive_rep(kt__terms *t, kt__gid id, uint8_t b) {
    kt__gid kid = kt__g_arg(&t->pool, id, 0), d = kt__term_derive(t, kid, b);
    if (d == EMPTY) return EMPTY;
    uint32_t min = kt__g_arg(&t->pool, id, 1), max = kt__g_arg(&t->pool, id, 2);
    min = min == 0 || kt__term_nullable(t, kid) ? 0 : min - 1;
    if (max != UINT32_MAX) max--;
    return kt__term_cat(t, d, kt__term_rep(t, kid, min, max));
}

static kt__gid derive_set(kt__terms *t, kt__gid id, kt__gkind kind, uint8_t b) {
    uint32_t n = kt__g_n(&t->pool, id), from = t->pool.n_scratch;
    for (uint32_t i = 0; i < n; i++) {
        kt__gid d = kt__term_derive(t, kt__g_arg(&t->pool, id, i), b);
        bool decided = (kind == KT__G_AND && d == EMPTY) || (kind == KT__G_OR && d == ANY) ||
                       (kind == KT__G_VEC && i == 0 && d == EMPTY);
        if (decided || !kt__gpool_push(&t->pool, d)) {
            t->pool.n_scratch = from;
            return d;
        }
    }
    switch (kind) {
    case KT__G_AND: return kt__term_and(t, from);
    case KT__G_OR: return kt__term_or(t, from);
    case KT__G_ONE: return kt__term_one(t, from);
    default: return kt__term_vec(t, from);
    }
}

/* What is left of an EACH when kid i has come, onto the stack and made. */
static kt__gid each_without(kt__terms *t, kt__gid id, uint32_t i) {
    kt__gpool *p = &t->pool;
    uint32_t from = p->n_scratch, n = kt__g_n(p, id);
    kt__gpool_push(p, kt__g_arg(p, id, 0));
    kt__gpool_push(p, 0);
    for (uint32_t k = 2; k < n; k++)
        if (k != i && k != i + 1) kt__gpool_push(p, kt__g_arg(p, id, k));
    return kt__term_each(t, from);
}

static kt__gid derive_each(kt__terms *t, kt__gid id, uint8_t b) {
    kt__gpool *p = &t->pool;
    uint32_t n = kt__g_n(p, id), from = p->n_scratch;
    kt__gid with = kt__g_arg(p, id, 1) ? EPS : kt__g_arg(p, id, 0);
    for (uint32_t i = 2; i < n && kt__gpool_step(p); i += 2) {
        kt__gid kid = kt__term_cat(t, with, kt__g_arg(p, id, i));
        kt__gid d = kt__term_derive(t, kid, b);
        if (d != EMPTY) d = kt__term_cat(t, d, each_without(t, id, i));
        if (d != EMPTY && !kt__gpool_push(p, d)) break;
    }
    return kt__term_or(t, from);
}

static kt__gid derive_kind(kt__terms *t, kt__gid id, uint8_t b) {
    kt__gkind kind = kt__g_kind(&t->pool, id);
    switch (kind) {
    case KT__G_ANY: return ANY;
    case KT__G_BYTES: return kt__g_arg(&t->pool, id, b / 32u) >> b % 32 & 1 ? EPS : EMPTY;
    case KT__G_CAT: return derive_cat(t, id, b);
    case KT__G_STAR: return kt__term_cat(t, kt__term_derive(t, kt__g_arg(&t->pool, id, 0), b), id);
    case KT__G_REP: return derive_rep(t, id, b);
    case KT__G_CALL: return kt__term_derive(t, t->rules[kt__g_arg(&t->pool, id, 0)], b);
    case KT__G_EACH: return derive_each(t, id, b);
    case KT__G_NOT: return kt__term_not(t, kt__term_derive(t, kt__g_arg(&t->pool, id, 0), b));
    case KT__G_AND:
    case KT__G_OR:
    case KT__G_ONE:
    case KT__G_VEC: return derive_set(t, id, kind, b);
    default: return EMPTY;
    }
}

/* What a row knows is not looked for again: the head of an unanchored pattern is part of every
 * state. */
kt__gid kt__term_derive(kt__terms *t, kt__gid id, uint8_t b) {
    uint32_t row = *kt__g_row(&t->pool, id);
    kt__gid known = row ? t->rows[(size_t)(row - 1) * 256 + b] : 0;
    if (known) return known;
    if (!derive_enter(t)) return EMPTY;
    kt__gid d = derive_kind(t, id, b);
    t->depth--;
    return t->pool.failed ? EMPTY : d;
}

/* ---- liveness ---- */

/* A depth-first search for a text that fits. What was seen lies on the scratch stack, a record of
 * three words each. */
typedef enum record { TERM, BEFORE, NEXT_CLASS, RECORD_WORDS } record;

typedef struct search {
    kt__terms *t;
    uint32_t from, top; /* top: the record to continue with */
    uint32_t steps;     /* taken */
} search;

static bool add_record(search *s, kt__gid id) {
    kt__gpool *p = &s->t->pool;
    const uint32_t words[RECORD_WORDS] = {id, s->top, 0};
    uint32_t at = p->n_scratch;
    for (int i = 0; i < RECORD_WORDS; i++)
        if (!kt__gpool_push(p, words[i])) return false;
    kt__g_set_flags(p, id, KT__GF_SEEN);
    s->top = at;
    return true;
}

static void mark_way_back(const search *s) {
    kt__gpool *p = &s->t->pool;
    for (uint32_t at = s->top;; at = p->scratch[at + BEFORE]) {
        kt__g_set_flags(p, p->scratch[at + TERM], KT__GF_LIVE);
        if (at == s->from) return;
    }
}

/* A JSON value may come next: some is taken to fit. */
static bool begins_json(const kt__gpool *p, kt__gid id) {
    if (kt__g_kind(p, id) == KT__G_CAT) id = kt__g_arg(p, id, 0);
    for (uint32_t i = 0; kt__g_kind(p, id) == KT__G_OR && i < kt__g_n(p, id); i++) {
        kt__gid kid = kt__g_arg(p, id, i);
        if (kt__g_kind(p, kid) == KT__G_CAT) kid = kt__g_arg(p, kid, 0);
        if (kt__g_kind(p, kid) == KT__G_JSON) return true;
    }
    return kt__g_kind(p, id) == KT__G_JSON;
}

/* One derivative of the record on top. True: it is known that a text fits. */
static bool search_step(search *s) {
    kt__terms *t = s->t;
    uint32_t c = t->pool.scratch[s->top + NEXT_CLASS]++;
    kt__gid d = kt__term_derive(t, t->pool.scratch[s->top + TERM], t->first_of[c]);
    s->steps++;
    uint32_t flags = kt__g_flags(&t->pool, d);
    if (d == EMPTY || flags & (KT__GF_DEAD | KT__GF_SEEN)) return false;
    bool live = flags & KT__GF_LIVE || !(flags & KT__GF_BOOLEAN) || kt__term_nullable(t, d) ||
                begins_json(&t->pool, d);
    if (!live) return !add_record(s, d);
    mark_way_back(s);
    return true;
}

/* No text fits what a search has gone through to its end. */
static void end_search(search *s, bool all_dead) {
    kt__gpool *p = &s->t->pool;
    for (uint32_t at = s->from; at < p->n_scratch; at += RECORD_WORDS) {
        kt__g_clear_flags(p, p->scratch[at + TERM], KT__GF_SEEN);
        if (all_dead) kt__g_set_flags(p, p->scratch[at + TERM], KT__GF_DEAD);
    }
    p->n_scratch = s->from;
}

static bool search_text(kt__terms *t, kt__gid id) {
    search s = {t, t->pool.n_scratch, t->pool.n_scratch, 0};
    bool live = !add_record(&s, id), done = false;
    while (!live && !done && s.steps < LIVE_STEPS && !t->pool.failed) {
        if (t->pool.scratch[s.top + NEXT_CLASS] < t->n_classes) {
            live = search_step(&s);
        } else {
            done = s.top == s.from;
            s.top = t->pool.scratch[s.top + BEFORE];
        }
    }
    if (!done) kt__g_set_flags(&t->pool, id, KT__GF_LIVE);
    end_search(&s, done);
    return !done;
}

bool kt__term_live(kt__terms *t, kt__gid id) {
    while (kt__g_kind(&t->pool, id) == KT__G_VEC) id = kt__g_arg(&t->pool, id, 0);
    uint32_t flags = kt__g_flags(&t->pool, id);
    if (id == EMPTY || flags & KT__GF_DEAD) return false;
    if (flags & KT__GF_LIVE || !(flags & KT__GF_BOOLEAN)) return true;
    if (kt__term_nullable(t, id) || begins_json(&t->pool, id)) return true;
    int known = kt__term_live_by_length(t, id);
    if (known >= 0) kt__g_set_flags(&t->pool, id, known ? KT__GF_LIVE : KT__GF_DEAD);
    return known >= 0 ? known > 0 : search_text(t, id);
}

/* ---- rows ---- */

static uint32_t new_row(kt__terms *t, kt__gid id) {
    uint32_t row = t->next_row;
    t->next_row = (row + 1) % t->n_rows;
    if (t->row_owner[row]) *kt__g_row(&t->pool, t->row_owner[row]) = 0;
    t->row_owner[row] = id;
    *kt__g_row(&t->pool, id) = row + 1;
    memset(t->rows + (size_t)row * 256, 0, 256 * sizeof *t->rows);
    return row;
}

static kt__gid if_live(kt__terms *t, kt__gid d) {
    return kt__term_live(t, d) ? d : EMPTY;
}

/* What follows a term whose first byte is plain to see; false: it is not. */
static bool first_bytes(const kt__terms *t, kt__gid id, const uint32_t **set, kt__gid *rest) {
    const kt__gpool *p = &t->pool;
    *rest = EPS;
    if (kt__g_kind(p, id) == KT__G_CAT) {
        *rest = kt__g_arg(p, id, 1);
        id = kt__g_arg(p, id, 0);
    }
    *set = kt__g_data(p, id);
    return kt__g_kind(p, id) == KT__G_BYTES;
}

/* All derivatives at once of alternatives that each begin with a set of bytes, as tries of names
 * are. False: some do not. */
static bool fill_row(kt__terms *t, kt__gid id, uint32_t *to) {
    const kt__gpool *p = &t->pool;
    bool is_or = kt__g_kind(p, id) == KT__G_OR;
    uint32_t n = is_or ? kt__g_n(p, id) : 1, by_class[256];
    const uint32_t *set;
    kt__gid rest;
    for (uint32_t c = 0; c < t->n_classes; c++) by_class[c] = EMPTY;
    for (uint32_t i = 0; i < n; i++) {
        kt__gid kid = is_or ? kt__g_arg(p, id, i) : id;
        if (kid != EPS && !first_bytes(t, kid, &set, &rest)) return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        kt__gid kid = is_or ? kt__g_arg(p, id, i) : id;
        if (kid == EPS || !first_bytes(t, kid, &set, &rest)) continue;
        for (uint32_t c = 0; c < t->n_classes; c++) {
            uint8_t b = t->first_of[c];
            if (!(set[b / 32] >> b % 32 & 1)) continue;
            by_class[c] = by_class[c] == EMPTY ? rest : kt__term_or2(t, by_class[c], rest);
        }
    }
    for (uint32_t c = 0; c < t->n_classes; c++) by_class[c] = if_live(t, by_class[c]);
    for (unsigned b = 0; b < 256; b++) to[b] = by_class[t->class_of[b]];
    return true;
}

kt__gid kt__term_step_slow(kt__terms *t, kt__gid id, uint8_t b) {
    if (id == ANY || id == EMPTY) return id;
    uint32_t row = *kt__g_row(&t->pool, id);
    uint32_t *to = t->rows + (size_t)(row ? row - 1 : new_row(t, id)) * 256;
    if (!row && fill_row(t, id, to) && !t->pool.failed) return to[b];
    kt__gid d = if_live(t, kt__term_derive(t, id, b));
    if (t->pool.failed) return EMPTY;
    for (unsigned other = 0; other < 256; other++)
        if (t->class_of[other] == t->class_of[b]) to[other] = d;
    return d;
}

/* ---- a term with a bound on its characters ---- */

bool kt__bounded_split(const kt__terms *t, kt__gid id, kt__bounded *out) {
    const kt__gpool *p = &t->pool;
    if (kt__g_kind(p, id) != KT__G_AND || kt__g_n(p, id) != 2) return false;
    kt__gid a = kt__g_arg(p, id, 0), b = kt__g_arg(p, id, 1);
    kt__gid length = kt__term_is_length(t, a) ? a : b, other = kt__term_is_length(t, a) ? b : a;
    if (!kt__term_is_length(t, length) || kt__g_flags(p, other) & KT__GF_BOOLEAN) return false;
    *out = (kt__bounded){other, kt__g_arg(p, length, 1), kt__g_arg(p, length, 2)};
    return true;
}

kt__gid kt__bounded_join(kt__terms *t, const kt__bounded *b) {
    if (b->min == 0 && b->max == UINT32_MAX) return b->term;
    return kt__term_and2(t, b->term, kt__term_rep(t, t->any_char, b->min, b->max));
}

/* After n_cont continuation bytes. */
static kt__gid join_behind(kt__terms *t, const kt__bounded *b, uint32_t n_cont) {
    kt__gid rest = kt__term_rep(t, t->any_char, b->min, b->max);
    while (n_cont-- > 0) rest = kt__term_cat(t, t->cont, rest);
    return kt__term_and2(t, b->term, rest);
}

bool kt__bounded_live(kt__terms *t, const kt__bounded *b, uint32_t n_cont, uint64_t least) {
    kt__gid last = b->term;
    bool exact = b->max == 0 || (b->min == 1 && b->max == 1); /* what is no bound any more */
    if (b->term == EMPTY || least > b->max) return false;
    if (exact) return kt__term_live(t, join_behind(t, b, n_cont));
    if (b->term == EPS) return b->min == 0;
    while (kt__g_kind(&t->pool, last) == KT__G_CAT && kt__g_arg(&t->pool, last, 0) == t->cont)
        last = kt__g_arg(&t->pool, last, 1);
    return !kt__term_is_length(t, last) || kt__g_arg(&t->pool, last, 2) >= b->min;
}
