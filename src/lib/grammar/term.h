/* Terms: sets of texts, and how they continue after a byte.
 *
 * Owns: building and simplifying terms (regular expressions with intersection, complement, counted
 * repetition and calls of rules), whether a term takes the empty text, its derivative by a byte
 * (Brzozowski 1964), and whether any text fits at all. The Boolean combinations serve formulas over
 * other atoms as well (schema_value.h). A derivative is computed when it is first asked for and
 * kept in rows of 256 ids for the terms that were used last. Bytes of a text are UTF-8 when they
 * come here; who feeds them has checked that. One user at a time. */
#ifndef KT_GRAMMAR_TERM_H
#define KT_GRAMMAR_TERM_H

#include "grammar/pool.h"

typedef struct kt__terms {
    kt__gpool pool;
    uint32_t *rows;     /* [n_rows][256] derivatives, 0: not known yet */
    kt__gid *row_owner; /* [n_rows] */
    uint32_t n_rows, next_row;
    uint8_t class_of[256], first_of[256]; /* bytes that no term so far tells apart */
    uint32_t n_classes;
    kt__gid *rules; /* [n_rules] bodies of KT__G_CALL */
    bool *rule_nullable;
    uint32_t n_rules;
    kt__gid any_char, cont; /* one character; a byte 80..bf */
    uint32_t depth;         /* of the recursion under way */
} kt__terms;

kt_status KT_CHECKED kt__terms_init(kt__terms *t, size_t bytes, kt_error *err);
void kt__terms_free(kt__terms *t);
void kt__terms_rollback(kt__terms *t, uint32_t mark);

/* ---- building; each gives KT__GPOOL_EMPTY where the pool is full ---- */

kt__gid kt__term_bytes(kt__terms *t, const uint32_t set[8]);
kt__gid kt__term_byte_range(kt__terms *t, unsigned low, unsigned high);
kt__gid kt__term_cat(kt__terms *t, kt__gid first, kt__gid rest);
kt__gid kt__term_star(kt__terms *t, kt__gid kid);
/* max UINT32_MAX: no bound */
kt__gid kt__term_rep(kt__terms *t, kt__gid kid, uint32_t min, uint32_t max);
kt__gid kt__term_call(kt__terms *t, uint32_t rule);
/* A JSON value: it has no derivative, a reader of the text follows it otherwise. */
kt__gid kt__term_json(kt__terms *t, uint32_t schema_node);
/* The words of a KT__G_EACH on the scratch stack from `from` on; they are taken off. */
kt__gid kt__term_each(kt__terms *t, uint32_t from);
kt__gid kt__term_literal(kt__terms *t, const char *s, size_t len, kt__gid rest);
/* Kids are those on the scratch stack from `from` on; they are taken off. */
kt__gid kt__term_and(kt__terms *t, uint32_t from);
kt__gid kt__term_or(kt__terms *t, uint32_t from);
kt__gid kt__term_one(kt__terms *t, uint32_t from);
kt__gid kt__term_vec(kt__terms *t, uint32_t from);
kt__gid kt__term_and2(kt__terms *t, kt__gid a, kt__gid b);
kt__gid kt__term_or2(kt__terms *t, kt__gid a, kt__gid b);
kt__gid kt__term_not(kt__terms *t, kt__gid kid);
/* One of n literals; sorted by bytes, without equal ones. */
typedef struct kt__gtext {
    const char *s;
    size_t len;
} kt__gtext;
kt__gid kt__term_one_of(kt__terms *t, const kt__gtext *texts, size_t n);

/* ---- reading ---- */

/* Of a VEC: its first. */
bool kt__term_nullable(kt__terms *t, kt__gid id);
kt__gid kt__term_derive(kt__terms *t, kt__gid id, uint8_t byte);
/* Whether any text fits. What cannot be found out within a few thousand steps is taken to be so. */
bool kt__term_live(kt__terms *t, kt__gid id);

/* ---- term_length.c: how many characters ---- */

/* Any text of some number of characters. */
static inline bool kt__term_is_length(const kt__terms *t, kt__gid id) {
    return kt__g_kind(&t->pool, id) == KT__G_REP && kt__g_arg(&t->pool, id, 0) == t->any_char;
}

/* A lower bound on the characters of a text that fits. */
uint64_t kt__term_min_chars(const kt__terms *t, kt__gid id);
/* After some characters of a text that fits, so many more at most are needed to end it: an upper
 * bound, KT__TERM_UNBOUNDED where none is known. */
enum { KT__TERM_UNBOUNDED = 1 << 30 };
uint64_t kt__term_way_out(const kt__terms *t, kt__gid id);
/* Whether an AND of a bound on the number of characters and one term without Boolean parts can be
 * met; -1: it is something else. */
int kt__term_live_by_length(const kt__terms *t, kt__gid id);

/* ---- bounds on the number of characters ---- */

/* Such an AND in its parts: min to max characters (UINT32_MAX: no bound) next to the term. */
typedef struct kt__bounded {
    kt__gid term;
    uint32_t min, max;
} kt__bounded;
bool kt__bounded_split(const kt__terms *t, kt__gid id, kt__bounded *out);
kt__gid kt__bounded_join(kt__terms *t, const kt__bounded *b);
/* A character begins; false: there is no room for it. */
static inline bool kt__bounded_count(kt__bounded *b) {
    if (b->max == 0) return false;
    if (b->max != UINT32_MAX) b->max--;
    if (b->min > 0) b->min--;
    return true;
}
/* What kt__term_live says of the joined term, with so many continuation bytes of a character before
 * what is left. least: kt__term_min_chars of the term. */
bool kt__bounded_live(kt__terms *t, const kt__bounded *b, uint32_t n_cont, uint64_t least);

kt__gid kt__term_step_slow(kt__terms *t, kt__gid id, uint8_t byte);
/* The derivative, or KT__GPOOL_EMPTY where nothing fits any more. */
static inline kt__gid kt__term_step(kt__terms *t, kt__gid id, uint8_t byte) {
    if (id == KT__GPOOL_ANY) return id;
    uint32_t row = *kt__g_row(&t->pool, id);
    if (row) {
        kt__gid known = t->rows[(size_t)(row - 1) * 256 + byte];
        if (known) return known;
    }
    return kt__term_step_slow(t, id, byte);
}

#endif
