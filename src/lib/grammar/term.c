#include "grammar/term.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    EMPTY = KT__GPOOL_EMPTY,
    ANY = KT__GPOOL_ANY,
    EPS = KT__GPOOL_EPS,
    N_ROWS = 1024,
    MAX_DEPTH = 1500 /* of a recursion over terms: some 200 bytes of stack each */
};

static kt__gkind kind_of(const kt__terms *t, kt__gid id) {
    return kt__g_kind(&t->pool, id);
}

static kt__gid arg_of(const kt__terms *t, kt__gid id, uint32_t i) {
    return kt__g_arg(&t->pool, id, i);
}

static bool term_enter(kt__terms *t) {
    if (t->depth++ < MAX_DEPTH) return true;
    t->pool.failed = KT_E_LIMIT;
    return false;
}

/* ---- life ---- */

static kt__gid make_any_char(kt__terms *t) {
    kt__gid c = t->cont, cc = kt__term_cat(t, c, c), ccc = kt__term_cat(t, c, cc);
    uint32_t from = t->pool.n_scratch;
    kt__gpool_push(&t->pool, kt__term_byte_range(t, 0, 0x7f));
    kt__gpool_push(&t->pool, kt__term_cat(t, kt__term_byte_range(t, 0xc2, 0xdf), c));
    kt__gpool_push(&t->pool, kt__term_cat(t, kt__term_byte_range(t, 0xe0, 0xef), cc));
    kt__gpool_push(&t->pool, kt__term_cat(t, kt__term_byte_range(t, 0xf0, 0xf4), ccc));
    return kt__term_or(t, from);
}

kt_status kt__terms_init(kt__terms *t, size_t bytes, kt_error *err) {
    *t = (kt__terms){.n_rows = N_ROWS, .n_classes = 1};
    kt_status status = kt__gpool_init(&t->pool, bytes, err);
    if (status != KT_OK) return status;
    t->rows = kt__malloc((size_t)N_ROWS * 256 * sizeof *t->rows);
    t->row_owner = kt__calloc(N_ROWS, sizeof *t->row_owner);
    if (!t->rows || !t->row_owner) {
        kt__terms_free(t);
        return kt__fail_nomem(err, "a constraint", (size_t)N_ROWS * 1024);
    }
    t->cont = kt__term_byte_range(t, 0x80, 0xbf);
    t->any_char = make_any_char(t);
    return KT_OK;
}

void kt__terms_free(kt__terms *t) {
    kt__gpool_free(&t->pool);
    kt__free(t->rows);
    kt__free(t->row_owner);
    kt__free(t->rules);
    kt__free(t->rule_nullable);
    *t = (kt__terms){0};
}

static void clean_row(kt__terms *t, uint32_t row, uint32_t mark) {
    if (t->row_owner[row] >= mark) t->row_owner[row] = 0;
    if (t->row_owner[row] == 0) return;
    uint32_t *to = t->rows + (size_t)row * 256;
    for (int b = 0; b < 256; b++)
        if (to[b] >= mark) to[b] = 0;
}

void kt__terms_rollback(kt__terms *t, uint32_t mark) {
    if (mark >= t->pool.n) return;
    for (uint32_t row = 0; row < t->n_rows; row++) clean_row(t, row, mark);
    kt__gpool_rollback(&t->pool, mark);
}

/* ---- leaves and sequences ---- */

static kt__gid make_term(kt__terms *t, kt__gkind kind, const uint32_t *data, uint32_t n) {
    return kt__gpool_intern(&t->pool, kind, data, n);
}

/* Bytes that a set tells apart part their ways. */
static void refine_classes(kt__terms *t, const uint32_t set[8]) {
    int16_t inside[256], outside[256];
    memset(inside, -1, sizeof inside);
    memset(outside, -1, sizeof outside);
    uint32_t n = 0;
    for (unsigned b = 0; b < 256; b++) {
        int16_t *renamed = set[b / 32] >> b % 32 & 1 ? inside : outside;
        uint8_t old = t->class_of[b];
        if (renamed[old] < 0) {
            t->first_of[n] = (uint8_t)b;
            renamed[old] = (int16_t)n++;
        }
        t->class_of[b] = (uint8_t)renamed[old];
    }
    t->n_classes = n;
}

kt__gid kt__term_bytes(kt__terms *t, const uint32_t set[8]) {
    static const uint32_t none[8];
    if (memcmp(set, none, sizeof none) == 0) return EMPTY;
    uint32_t before = t->pool.n;
    kt__gid id = make_term(t, KT__G_BYTES, set, 8);
    if (t->pool.n != before) refine_classes(t, set);
    return id;
}

kt__gid kt__term_byte_range(kt__terms *t, unsigned low, unsigned high) {
    uint32_t set[8] = {0};
    for (unsigned b = low; b <= high; b++) set[b / 32] |= (uint32_t)1 << b % 32;
    return kt__term_bytes(t, set);
}

static kt__gid settle_term(kt__terms *t, uint32_t from, kt__gid id) {
    t->pool.n_scratch = from;
    return id;
}

static void inherit_boolean(kt__terms *t, kt__gid id, kt__gid kid) {
    kt__g_set_flags(&t->pool, id, kt__g_flags(&t->pool, kid) & KT__GF_BOOLEAN);
}

/* The node "first, then rest": neither is empty or itself simplified here (kt__term_cat does that). A part with Boolean
 * operators in it marks the whole as having some. EMPTY: the pool is full. */
static kt__gid cat_pair(kt__terms *t, kt__gid first, kt__gid rest) {
    kt__gid id = make_term(t, KT__G_CAT, (uint32_t[]){first, rest}, 2);
    if (id == EMPTY) return id;
    inherit_boolean(t, id, first);
    inherit_boolean(t, id, rest);
    return id;
}

/* A sequence leans to the right: its first part is none itself. */
kt__gid kt__term_cat(kt__terms *t, kt__gid first, kt__gid rest) {
    if (first == EMPTY || rest == EMPTY) return EMPTY;
    if (first == EPS) return rest;
    if (rest == EPS || (first == ANY && rest == ANY)) return first;
    uint32_t from = t->pool.n_scratch;
    for (; kind_of(t, first) == KT__G_CAT; first = arg_of(t, first, 1))
        if (!kt__gpool_push(&t->pool, arg_of(t, first, 0))) return EMPTY;
    kt__gid id = cat_pair(t, first, rest);
    while (t->pool.n_scratch > from) id = cat_pair(t, t->pool.scratch[--t->pool.n_scratch], id);
    return id;
}

kt__gid kt__term_star(kt__terms *t, kt__gid kid) {
    if (kid == EMPTY || kid == EPS) return EPS;
    if (kid == ANY || kind_of(t, kid) == KT__G_STAR) return kid;
    kt__gid id = make_term(t, KT__G_STAR, &kid, 1);
    if (id != EMPTY) inherit_boolean(t, id, kid);
    return id;
}

kt__gid kt__term_rep(kt__terms *t, kt__gid kid, uint32_t min, uint32_t max) {
    if (max == 0 || kid == EPS) return EPS;
    if (kid == EMPTY) return min > 0 ? EMPTY : EPS;
    if (min == 1 && max == 1) return kid;
    if (min == 0 && max == UINT32_MAX) return kt__term_star(t, kid);
    kt__gid id = make_term(t, KT__G_REP, (uint32_t[]){kid, min, max}, 3);
    if (id != EMPTY) inherit_boolean(t, id, kid);
    return id;
}

kt__gid kt__term_call(kt__terms *t, uint32_t rule) {
    return make_term(t, KT__G_CALL, &rule, 1);
}

kt__gid kt__term_json(kt__terms *t, uint32_t schema_node) {
    return make_term(t, KT__G_JSON, &schema_node, 1);
}

/* Kids that nothing fits are left out, and nothing fits where one of those must be. */
kt__gid kt__term_each(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    uint32_t n = from + 2;
    for (uint32_t i = from + 2; i < p->n_scratch; i += 2) {
        if (p->scratch[i] == EMPTY && p->scratch[i + 1]) return settle_term(t, from, EMPTY);
        if (p->scratch[i] == EMPTY) continue;
        p->scratch[n++] = p->scratch[i];
        p->scratch[n++] = p->scratch[i + 1];
    }
    p->n_scratch = n;
    kt__gid id = n == from + 2 ? EPS : make_term(t, KT__G_EACH, p->scratch + from, n - from);
    return settle_term(t, from, id);
}

kt__gid kt__term_literal(kt__terms *t, const char *s, size_t len, kt__gid rest) {
    while (len > 0) {
        uint8_t b = (uint8_t)s[--len];
        rest = kt__term_cat(t, kt__term_byte_range(t, b, b), rest);
    }
    return rest;
}

static kt__gid one_of_from(kt__terms *t, const kt__gtext *texts, size_t n, size_t at) {
    uint32_t from = t->pool.n_scratch;
    size_t i = 0;
    if (n > 0 && texts[0].len == at) {
        kt__gpool_push(&t->pool, EPS);
        i = 1;
    }
    if (!term_enter(t)) i = n;
    while (i < n) {
        size_t end = i + 1, same = at + 1;
        char c = texts[i].s[at];
        while (end < n && texts[end].s[at] == c) end++;
        while (same < texts[i].len && same < texts[end - 1].len &&
               texts[i].s[same] == texts[end - 1].s[same])
            same++;
        kt__gid rest = one_of_from(t, texts + i, end - i, same);
        kt__gpool_push(&t->pool, kt__term_literal(t, texts[i].s + at, same - at, rest));
        i = end;
    }
    t->depth--;
    return kt__term_or(t, from);
}

kt__gid kt__term_one_of(kt__terms *t, const kt__gtext *texts, size_t n) {
    return n > 0 ? one_of_from(t, texts, n, 0) : EMPTY;
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

/* None of the kids must be. */
static bool each_nullable(const kt__gpool *p, kt__gid id) {
    for (uint32_t i = 3; i < kt__g_n(p, id); i += 2)
        if (kt__g_arg(p, id, i)) return false;
    return true;
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
    case KT__G_EACH: return each_nullable(&t->pool, id);
    case KT__G_CALL: return t->rule_nullable && t->rule_nullable[a[0]];
    default: return false;
    }
}

bool kt__term_nullable(kt__terms *t, kt__gid id) {
    uint32_t flags = kt__g_flags(&t->pool, id);
    if (flags & KT__GF_NULL_KNOWN) return flags & KT__GF_NULLABLE;
    if (!term_enter(t)) return false;
    bool nullable = find_nullable(t, id);
    t->depth--;
    bool final = !t->rules || t->rule_nullable; /* else a grammar is still being read */
    if (final && !t->pool.failed)
        kt__g_set_flags(&t->pool, id, KT__GF_NULL_KNOWN | (nullable ? KT__GF_NULLABLE : 0u));
    return nullable;
}

/* ---- Boolean combinations ---- */

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The scratch stack from `from` on, in order; members that are sets of the same kind are opened. */
static void flatten_terms(kt__terms *t, uint32_t from, kt__gkind kind) {
    kt__gpool *p = &t->pool;
    uint32_t end = p->n_scratch, n = from;
    bool sorted = true;
    for (uint32_t i = from; i < end; i++) {
        kt__gid id = p->scratch[i];
        if (kind_of(t, id) != kind) {
            p->scratch[n++] = id;
            sorted = sorted && (n - 1 == from || p->scratch[n - 2] < id);
            continue;
        }
        for (uint32_t k = 0; k < kt__g_n(p, id); k++) (void)kt__gpool_push(p, arg_of(t, id, k));
        sorted = false;
    }
    memmove(p->scratch + n, p->scratch + end, (p->n_scratch - end) * sizeof *p->scratch);
    p->n_scratch -= end - n;
    if (!sorted && p->n_scratch > from + 1)
        qsort(p->scratch + from, p->n_scratch - from, sizeof *p->scratch, compare_ids);
}

/* Sorted kids without doubles and without `unit`. */
static void drop_doubles(kt__terms *t, uint32_t from, kt__gid unit) {
    kt__gpool *p = &t->pool;
    uint32_t n = from;
    for (uint32_t i = from; i < p->n_scratch; i++) {
        kt__gid id = p->scratch[i];
        if (id == unit || (n > from && p->scratch[n - 1] == id)) continue;
        p->scratch[n++] = id;
    }
    p->n_scratch = n;
}

static bool has_kid(const kt__gpool *p, uint32_t from, kt__gid id) {
    return bsearch(&id, p->scratch + from, p->n_scratch - from, sizeof id, compare_ids) != NULL;
}

/* A term and its complement are both there. */
static bool has_opposites(const kt__terms *t, uint32_t from) {
    const kt__gpool *p = &t->pool;
    for (uint32_t i = from; i < p->n_scratch; i++) {
        kt__gid id = p->scratch[i];
        if (kind_of(t, id) == KT__G_NOT && has_kid(p, from, arg_of(t, id, 0))) return true;
    }
    return false;
}

static kt__gid make_set(kt__terms *t, kt__gkind kind, uint32_t from, kt__gid unit) {
    kt__gpool *p = &t->pool;
    uint32_t n = p->n_scratch - from;
    kt__gid id = n == 0 ? unit : p->scratch[from];
    if (n > 1) {
        id = make_term(t, kind, p->scratch + from, n);
        for (uint32_t i = 0; i < n && id != EMPTY && kind != KT__G_AND; i++)
            inherit_boolean(t, id, p->scratch[from + i]);
        if (id != EMPTY && (kind == KT__G_AND || kind == KT__G_ONE))
            kt__g_set_flags(p, id, KT__GF_BOOLEAN);
    }
    p->n_scratch = from;
    return p->failed ? EMPTY : id;
}

/* Several bounds on the number of characters are one. */
static void merge_lengths(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    uint32_t min = 0, max = UINT32_MAX, n = from, n_lengths = 0;
    for (uint32_t i = from; i < p->n_scratch; i++)
        n_lengths += kt__term_is_length(t, p->scratch[i]);
    if (n_lengths < 2) return;
    for (uint32_t i = from; i < p->n_scratch; i++) {
        kt__gid id = p->scratch[i];
        if (!kt__term_is_length(t, id)) {
            p->scratch[n++] = id;
            continue;
        }
        if (arg_of(t, id, 1) > min) min = arg_of(t, id, 1);
        if (arg_of(t, id, 2) < max) max = arg_of(t, id, 2);
    }
    p->n_scratch = n;
    kt__gpool_push(p, min > max ? EMPTY : kt__term_rep(t, t->any_char, min, max));
    flatten_terms(t, from, KT__G_AND);
}

kt__gid kt__term_and(kt__terms *t, uint32_t from) {
    flatten_terms(t, from, KT__G_AND);
    drop_doubles(t, from, ANY);
    merge_lengths(t, from);
    if (has_kid(&t->pool, from, EMPTY) || has_opposites(t, from))
        return settle_term(t, from, EMPTY);
    if (has_kid(&t->pool, from, EPS)) {
        bool all = true;
        for (uint32_t i = from; i < t->pool.n_scratch && all; i++)
            all = kt__term_nullable(t, t->pool.scratch[i]);
        return settle_term(t, from, all ? EPS : EMPTY);
    }
    return make_set(t, KT__G_AND, from, ANY);
}

/* One set of bytes instead of several. */
static void merge_bytes(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    uint32_t set[8] = {0}, n = from, n_sets = 0;
    for (uint32_t i = from; i < p->n_scratch; i++)
        n_sets += kind_of(t, p->scratch[i]) == KT__G_BYTES;
    if (n_sets < 2) return;
    for (uint32_t i = from; i < p->n_scratch; i++) {
        kt__gid id = p->scratch[i];
        if (kind_of(t, id) != KT__G_BYTES)
            p->scratch[n++] = id;
        else
            for (uint32_t k = 0; k < 8; k++) set[k] |= arg_of(t, id, k);
    }
    p->n_scratch = n;
    kt__gpool_push(p, kt__term_bytes(t, set));
    flatten_terms(t, from, KT__G_OR);
}

/* The empty text need not be named besides what takes it. */
static void drop_eps(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    if (t->rules && !t->rule_nullable) return; /* a grammar is being read */
    if (!has_kid(p, from, EPS)) return;
    bool nullable = false;
    for (uint32_t i = from; i < p->n_scratch && !nullable; i++)
        nullable = p->scratch[i] != EPS && kt__term_nullable(t, p->scratch[i]);
    if (nullable) drop_doubles(t, from, EPS);
}

kt__gid kt__term_or(kt__terms *t, uint32_t from) {
    flatten_terms(t, from, KT__G_OR);
    drop_doubles(t, from, EMPTY);
    if (has_kid(&t->pool, from, ANY) || has_opposites(t, from)) return settle_term(t, from, ANY);
    merge_bytes(t, from);
    drop_eps(t, from);
    return make_set(t, KT__G_OR, from, EMPTY);
}

kt__gid kt__term_and2(kt__terms *t, kt__gid a, kt__gid b) {
    uint32_t from = t->pool.n_scratch;
    kt__gpool_push(&t->pool, a);
    kt__gpool_push(&t->pool, b);
    return kt__term_and(t, from);
}

kt__gid kt__term_or2(kt__terms *t, kt__gid a, kt__gid b) {
    uint32_t from = t->pool.n_scratch;
    kt__gpool_push(&t->pool, a);
    kt__gpool_push(&t->pool, b);
    return kt__term_or(t, from);
}

kt__gid kt__term_not(kt__terms *t, kt__gid kid) {
    if (kid == EMPTY) return t->pool.failed ? EMPTY : ANY;
    if (kid == ANY) return EMPTY;
    if (kind_of(t, kid) == KT__G_NOT) return arg_of(t, kid, 0);
    kt__gid id = make_term(t, KT__G_NOT, &kid, 1);
    if (id != EMPTY) kt__g_set_flags(&t->pool, id, KT__GF_BOOLEAN);
    return id;
}

/* What is there twice cannot be the one. The complements of such terms go to the stack's end. */
static uint32_t part_doubles(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    uint32_t end = p->n_scratch, n = from;
    for (uint32_t i = from, next; i < end; i = next) {
        kt__gid id = p->scratch[i];
        for (next = i + 1; next < end && p->scratch[next] == id;) next++;
        if (next == i + 1)
            p->scratch[n++] = id;
        else
            kt__gpool_push(p, kt__term_not(t, id));
    }
    memmove(p->scratch + n, p->scratch + end, (p->n_scratch - end) * sizeof *p->scratch);
    p->n_scratch -= end - n;
    return n;
}

kt__gid kt__term_one(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    uint32_t n_true = 0, n = from;
    for (uint32_t i = from; i < p->n_scratch; i++) {
        n_true += p->scratch[i] == ANY;
        if (p->scratch[i] != ANY && p->scratch[i] != EMPTY) p->scratch[n++] = p->scratch[i];
    }
    p->n_scratch = n;
    if (n_true > 1) return settle_term(t, from, EMPTY);
    if (n_true == 1) return kt__term_not(t, kt__term_or(t, from));
    qsort(p->scratch + from, n - from, sizeof *p->scratch, compare_ids);
    uint32_t nots = part_doubles(t, from);
    kt__gid no_doubles = kt__term_and(t, nots);
    return kt__term_and2(t, make_set(t, KT__G_ONE, from, EMPTY), no_doubles);
}

kt__gid kt__term_vec(kt__terms *t, uint32_t from) {
    kt__gpool *p = &t->pool;
    uint32_t n = p->n_scratch - from;
    kt__gid first = p->scratch[from];
    kt__gid id = n == 1 || first == EMPTY ? first : make_term(t, KT__G_VEC, p->scratch + from, n);
    if (id != EMPTY && n > 1) inherit_boolean(t, id, first);
    p->n_scratch = from;
    return id;
}
