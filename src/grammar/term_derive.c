/* The empty text, derivatives and liveness of terms. */
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

/* ---- the empty text ---- */

static bool nullable_set(kt__terms *t, kt__gid id, kt__gkind kind) {
    uint32_t n = kt__g_n(&t->pool, id), n_true = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool one = kt__term_nullable(t, kt__g_arg(&t->pool, id, i));
        if (kind == KT__G_AND && !one) return false;
        if (kind == KT__G_OR && one) return true;
        n_true += one;
    }
    return kind == KT__G_AND || (kind == KT__G_ONE && n_true == 1);
}

static bool find_nullable(kt__terms *t, kt__gid id) {
    kt__gkind kind = kt__g_kind(&t->pool, id);
    const uint32_t *a = kt__g_data(&t->pool, id);
    switch (kind) {
    case KT__G_ANY:
    case KT__G_EPS:
    case KT__G_STAR: return true;
    case KT__G_AND:
    case KT__G_OR:
    case KT__G_ONE: return nullable_set(t, id, kind);
    case KT__G_NOT: return !kt__term_nullable(t, a[0]);
    case KT__G_VEC: return kt__term_nullable(t, a[0]);
    case KT__G_CAT: return kt__term_nullable(t, a[0]) && kt__term_nullable(t, a[1]);
    case KT__G_REP: return a[1] == 0 || kt__term_nullable(t, a[0]);
    case KT__G_CALL: return t->rule_nullable && t->rule_nullable[a[0]];
    default: return false;
    }
}

bool kt__term_nullable(kt__terms *t, kt__gid id) {
    uint32_t flags = kt__g_flags(&t->pool, id);
    if (flags & KT__GF_NULL_KNOWN) return flags & KT__GF_NULLABLE;
    if (!derive_enter(t)) return false;
    bool nullable = find_nullable(t, id);
    t->depth--;
    bool final = !t->rules || t->rule_nullable; /* else a grammar is still being read */
    if (final && !t->pool.failed)
        kt__g_set_flags(&t->pool, id, KT__GF_NULL_KNOWN | (nullable ? KT__GF_NULLABLE : 0u));
    return nullable;
}

/* ---- derivatives ---- */

/* A sequence goes on with what follows as long as its beginnings may be empty. */
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

static kt__gid derive_kind(kt__terms *t, kt__gid id, uint8_t b) {
    kt__gkind kind = kt__g_kind(&t->pool, id);
    switch (kind) {
    case KT__G_ANY: return ANY;
    case KT__G_BYTES: return kt__g_arg(&t->pool, id, b / 32u) >> b % 32 & 1 ? EPS : EMPTY;
    case KT__G_CAT: return derive_cat(t, id, b);
    case KT__G_STAR: return kt__term_cat(t, kt__term_derive(t, kt__g_arg(&t->pool, id, 0), b), id);
    case KT__G_REP: return derive_rep(t, id, b);
    case KT__G_CALL: return kt__term_derive(t, t->rules[kt__g_arg(&t->pool, id, 0)], b);
    case KT__G_NOT: return kt__term_not(t, kt__term_derive(t, kt__g_arg(&t->pool, id, 0), b));
    case KT__G_AND:
    case KT__G_OR:
    case KT__G_ONE:
    case KT__G_VEC: return derive_set(t, id, kind, b);
    default: return EMPTY;
    }
}

kt__gid kt__term_derive(kt__terms *t, kt__gid id, uint8_t b) {
    if (!derive_enter(t)) return EMPTY;
    kt__gid d = derive_kind(t, id, b);
    t->depth--;
    return t->pool.failed ? EMPTY : d;
}

/* ---- liveness ---- */

typedef struct search {
    kt__terms *t;
    uint32_t from;  /* of the scratch stack: pairs of a term and the index of the one before it */
    uint32_t steps; /* taken */
} search;

static bool was_seen(const search *s, kt__gid id) {
    const kt__gpool *p = &s->t->pool;
    for (uint32_t i = s->from; i < p->n_scratch; i += 2)
        if (p->scratch[i] == id) return true;
    return false;
}

static void mark_way_back(const search *s, uint32_t at) {
    kt__gpool *p = &s->t->pool;
    for (;;) {
        kt__g_set_flags(p, p->scratch[at], KT__GF_LIVE);
        if (at == s->from) return;
        at = p->scratch[at + 1];
    }
}

/* True: a text was found. Derivatives that are new are put at the stack's end. */
static bool look_beyond(search *s, uint32_t at) {
    kt__terms *t = s->t;
    kt__gid id = t->pool.scratch[at];
    for (uint32_t c = 0; c < t->n_classes; c++) {
        kt__gid d = kt__term_derive(t, id, t->first_of[c]);
        s->steps++;
        uint32_t flags = kt__g_flags(&t->pool, d);
        if (d == EMPTY || flags & KT__GF_DEAD) continue;
        if (flags & KT__GF_LIVE || !(flags & KT__GF_BOOLEAN) || kt__term_nullable(t, d)) {
            mark_way_back(s, at);
            return true;
        }
        if (was_seen(s, d)) continue;
        if (!kt__gpool_push(&t->pool, d) || !kt__gpool_push(&t->pool, at)) return true;
    }
    return false;
}

/* Breadth first, so that the shortest text is found. */
static bool search_text(kt__terms *t, kt__gid id) {
    search s = {t, t->pool.n_scratch, 0};
    uint32_t at = s.from;
    bool live = false;
    kt__gpool_push(&t->pool, id);
    kt__gpool_push(&t->pool, s.from);
    for (; at < t->pool.n_scratch && !live && s.steps < LIVE_STEPS && !t->pool.failed; at += 2)
        live = look_beyond(&s, at);
    bool all = at >= t->pool.n_scratch && !live;
    for (uint32_t i = s.from; all && i < t->pool.n_scratch; i += 2)
        kt__g_set_flags(&t->pool, t->pool.scratch[i], KT__GF_DEAD);
    if (!all) kt__g_set_flags(&t->pool, id, KT__GF_LIVE);
    t->pool.n_scratch = s.from;
    return !all;
}

bool kt__term_live(kt__terms *t, kt__gid id) {
    while (kt__g_kind(&t->pool, id) == KT__G_VEC) id = kt__g_arg(&t->pool, id, 0);
    uint32_t flags = kt__g_flags(&t->pool, id);
    if (id == EMPTY || flags & KT__GF_DEAD) return false;
    if (flags & KT__GF_LIVE || !(flags & KT__GF_BOOLEAN)) return true;
    return kt__term_nullable(t, id) || search_text(t, id);
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

kt__gid kt__term_step_slow(kt__terms *t, kt__gid id, uint8_t b) {
    if (id == ANY || id == EMPTY) return id;
    kt__gid d = kt__term_derive(t, id, b);
    if (!kt__term_live(t, d)) d = EMPTY;
    if (t->pool.failed) return EMPTY;
    uint32_t row = *kt__g_row(&t->pool, id);
    uint32_t *to = t->rows + (size_t)(row ? row - 1 : new_row(t, id)) * 256;
    for (unsigned other = 0; other < 256; other++)
        if (t->class_of[other] == t->class_of[b]) to[other] = d;
    return d;
}
