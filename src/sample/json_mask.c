#include "sample/json_mask.h"

#include <math.h> /* INFINITY only */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    MAX_COMMON = 63,  /* bytes that adjacent tokens have in common are counted up to this */
    NEVER_PLAIN = 255 /* for sorted.plain */
};

/* Tokens in the order of their bytes. */
typedef struct sorted {
    int32_t *id;     /* [n] */
    uint8_t *common; /* [n] bytes at its beginning that the token before begins with, too */
    uint8_t *plain;  /* [n] from this byte on it is whole characters that a string takes as they
                        are */
    size_t n;
} sorted;

struct kt__json_mask {
    kt__sampler_vocab vocab;
    int32_t n_vocab;
    sorted all;
    /* within a string, between two characters */
    sorted depends; /* end the string and go on: whether they may depends on what surrounds it */
    int32_t *never; /* [n_never] may not follow, or are no text */
    size_t n_never;
};

typedef struct token {
    const char *s;
    size_t len;
} token;

static token token_of(const kt__json_mask *m, int32_t id) {
    token t;
    t.s = m->vocab.bytes(m->vocab.ctx, id, &t.len);
    return t;
}

/* ---- the order ---- */

typedef struct sort_item {
    uint64_t begin; /* its first eight bytes, as a number */
    int32_t id;
} sort_item;

static uint64_t begin_of(token t) {
    uint64_t x = 0;
    for (size_t i = 0; i < 8; i++) x = x << 8 | (i < t.len ? (uint8_t)t.s[i] : 0);
    return x;
}

static int by_bytes(const void *a, const void *b, void *ctx) {
    const sort_item *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    token s = token_of(ctx, x->id), t = token_of(ctx, y->id);
    int order = memcmp(s.s, t.s, s.len < t.len ? s.len : t.len);
    if (order != 0) return order;
    if (s.len != t.len) return s.len < t.len ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint8_t n_common(token a, token b) {
    size_t n = 0;
    while (n < MAX_COMMON && n < a.len && n < b.len && a.s[n] == b.s[n]) n++;
    return (uint8_t)n;
}

/* ---- strings ---- */

static kt__json_state in_a_string(void) {
    kt__json_state s;
    kt__json_state_init(&s);
    (void)kt__json_state_feed(&s, "{\"a\":\"", 6);
    return s;
}

static uint8_t find_plain(token t) {
    kt__json_state begin = in_a_string(), s = begin;
    size_t from = 0;
    for (size_t i = 0; i < t.len; i++) {
        if (t.s[i] != '"' && t.s[i] != '\\' && kt__json_state_feed(&s, t.s + i, 1)) continue;
        s = begin;
        from = i + 1;
    }
    bool whole = kt__json_state_place(&s) == KT__JSON_IN_STRING;
    return whole && from < NEVER_PLAIN ? (uint8_t)from : NEVER_PLAIN;
}

typedef enum verdict { NEVER, ALWAYS, DEPENDS, N_VERDICTS } verdict;

/* Of a token that follows a whole character of a string. Keys and values take the same bytes. */
static verdict judge_token(token t) {
    kt__json_state s = in_a_string();
    for (size_t i = 0; i < t.len; i++) {
        if (!kt__json_state_feed(&s, t.s + i, 1)) return NEVER;
        if (kt__json_state_place(&s) == KT__JSON_OUTSIDE) return i + 1 == t.len ? ALWAYS : DEPENDS;
    }
    return ALWAYS;
}

/* ---- making ---- */

static bool sorted_init(sorted *list, size_t n) {
    list->id = kt__calloc(n, sizeof *list->id);
    list->common = kt__calloc(n, 1);
    list->plain = kt__calloc(n, 1);
    return list->id && list->common && list->plain;
}

static void sorted_free(sorted *list) {
    kt__free(list->id);
    kt__free(list->common);
    kt__free(list->plain);
}

static void sorted_add(const kt__json_mask *m, sorted *list, int32_t id) {
    token t = token_of(m, id);
    size_t at = list->n++;
    list->id[at] = id;
    list->plain[at] = find_plain(t);
    list->common[at] = at > 0 ? n_common(token_of(m, list->id[at - 1]), t) : 0;
}

static bool sort_all(kt__json_mask *m) {
    size_t n = 0;
    sort_item *items = kt__calloc((size_t)m->n_vocab, sizeof *items);
    if (!items) return false;
    for (int32_t id = 0; id < m->n_vocab; id++) {
        token t = token_of(m, id);
        if (t.len > 0) items[n++] = (sort_item){begin_of(t), id};
    }
    qsort_r(items, n, sizeof *items, by_bytes, m);
    bool ok = sorted_init(&m->all, n);
    for (size_t i = 0; ok && i < n; i++) sorted_add(m, &m->all, items[i].id);
    kt__free(items);
    return ok;
}

/* never in the order of ids, depends in that of bytes. */
static bool divide(kt__json_mask *m, const uint8_t *verdicts) {
    size_t n[N_VERDICTS] = {0};
    for (int32_t id = 0; id < m->n_vocab; id++) n[verdicts[id]]++;
    m->never = kt__calloc(n[NEVER], sizeof *m->never);
    if (!m->never || !sorted_init(&m->depends, n[DEPENDS])) return false;
    for (int32_t id = 0; id < m->n_vocab; id++) {
        if (verdicts[id] == NEVER) m->never[m->n_never++] = id;
    }
    for (size_t i = 0; i < m->all.n; i++) {
        if (verdicts[m->all.id[i]] == DEPENDS) sorted_add(m, &m->depends, m->all.id[i]);
    }
    return true;
}

static bool judge_all(kt__json_mask *m) {
    uint8_t *verdicts = kt__calloc((size_t)m->n_vocab, 1); /* NEVER: those without bytes */
    if (!verdicts) return false;
    for (size_t i = 0; i < m->all.n; i++) {
        int32_t id = m->all.id[i];
        bool plain = m->all.plain[i] == 0;
        verdicts[id] = (uint8_t)(plain ? ALWAYS : judge_token(token_of(m, id)));
    }
    bool ok = divide(m, verdicts);
    kt__free(verdicts);
    return ok;
}

kt_status kt__json_mask_create(const kt__sampler_vocab *vocab, int32_t n_vocab, kt__json_mask **out,
                               kt_error *err) {
    *out = NULL;
    if (n_vocab < 1) return kt__fail(err, KT_E_ARG, "a vocabulary of %d tokens", (int)n_vocab);
    kt__json_mask *m = kt__calloc(1, sizeof *m);
    if (!m) return kt__fail_nomem(err, "a mask of tokens", sizeof *m);
    m->vocab = *vocab;
    m->n_vocab = n_vocab;
    if (sort_all(m) && judge_all(m)) {
        *out = m;
        return KT_OK;
    }
    kt__json_mask_free(m);
    return kt__fail_nomem(err, "a mask of tokens", (size_t)n_vocab * 8);
}

void kt__json_mask_free(kt__json_mask *m) {
    if (!m) return;
    sorted_free(&m->all);
    sorted_free(&m->depends);
    kt__free(m->never);
    kt__free(m);
}

/* ---- applying ---- */

/* The states along the last token that was fed. */
typedef struct trail {
    kt__json_state after[MAX_COMMON + 1]; /* so many bytes */
    size_t n;                             /* after[0..n] are known */
    size_t refused;                       /* the byte that was; SIZE_MAX: none */
} trail;

/* common: bytes at t's beginning that are those of the last token. A token that begins a string and
 * continues with plain characters need not be fed byte by byte. */
static bool may_follow(trail *last, token t, size_t common, uint8_t plain_from) {
    size_t pos = common < last->n ? common : last->n;
    size_t plain = plain_from == NEVER_PLAIN ? SIZE_MAX : plain_from;
    kt__json_state s = last->after[pos];
    last->refused = SIZE_MAX;
    while (pos < t.len && !(pos >= plain && kt__json_state_place(&s) == KT__JSON_IN_STRING)) {
        if (!kt__json_state_feed(&s, t.s + pos, 1)) {
            last->refused = pos;
            break;
        }
        if (++pos <= MAX_COMMON) last->after[pos] = s;
    }
    last->n = pos < MAX_COMMON ? pos : MAX_COMMON;
    return last->refused == SIZE_MAX;
}

/* The logits of those that may follow. */
static void let_through(const kt__json_mask *m, const sorted *list, const kt__json_state *state,
                        const float *logits, float *masked) {
    trail last = {.refused = SIZE_MAX};
    last.after[0] = *state;
    for (size_t i = 0; i < list->n; i++) {
        if (list->common[i] > last.refused) continue; /* begins as what was refused */
        int32_t id = list->id[i];
        if (may_follow(&last, token_of(m, id), list->common[i], list->plain[i]))
            masked[id] = logits[id];
    }
}

static void forbid(const int32_t *ids, size_t n, float *masked) {
    for (size_t i = 0; i < n; i++) masked[ids[i]] = -INFINITY;
}

void kt__json_mask_apply(const kt__json_mask *m, const kt__json_state *state, const float *logits,
                         float *masked) {
    size_t n = (size_t)m->n_vocab;
    if (kt__json_state_place(state) == KT__JSON_IN_STRING) {
        memcpy(masked, logits, n * sizeof *masked);
        forbid(m->never, m->n_never, masked);
        forbid(m->depends.id, m->depends.n, masked);
        let_through(m, &m->depends, state, logits, masked);
    } else {
        for (size_t i = 0; i < n; i++) masked[i] = -INFINITY;
        let_through(m, &m->all, state, logits, masked);
    }
}
