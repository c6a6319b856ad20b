/* A term with a bound on its characters. */
#include "grammar/term.h"

enum { EMPTY = KT__GPOOL_EMPTY, EPS = KT__GPOOL_EPS };

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
