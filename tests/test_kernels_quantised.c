/* Quantised pages of keys and values: the reference against double, and every tier against the
 * reference, byte for byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "amx_emulated.h"
#include "kernels/quantise_page_ref.h"
#include "kernels_data.h"

enum { MAX_DIM = 256, MAX_Q = 80, PAGE_F16 = MAX_DIM * KT__PAGE_POS };

static const int head_dims[] = {2, 6, 8, 16, 18, 32, 40, 64, 80, 96, 100, 128, 160, 192, 256};
enum { N_HEAD_DIM = sizeof head_dims / sizeof *head_dims };

#define FOR_TIERS(tier)                                                                  \
    for (const kt__kernels **tier##_at = kd_tiers(), *tier; (tier = *tier##_at) != NULL; \
         tier##_at++)

typedef struct scratch_room {
    _Alignas(64) uint8_t at[(MAX_DIM + 32) * KT__PAGE_POS * sizeof(float)];
} scratch_room;

static float ref_scratch[KT__SPLIT_POS * 2 * MAX_DIM];

static void expect_same(const char *what, const kt__kernels *tier, int dim, const void *want,
                        const void *got, size_t n) {
    const uint8_t *a = want, *b = got;
    for (size_t i = 0; i < n; i++) {
        if (a[i] != b[i])
            fail_msg("%s, tier %s, head of %d: byte %zu of %zu: want %d, got %d", what, tier->name,
                     dim, i, n, a[i], b[i]);
    }
}

/* A f16 page of keys or values; kind chooses what is in it. */
static void fill_page(kd_rng *rng, int kind, int dim, bool keys, kt__f16 *page) {
    float x[MAX_DIM];
    for (int slot = 0; slot < KT__PAGE_POS; slot++) {
        for (int d = 0; d < dim; d++) {
            x[d] = kd_normal(rng);
            if (kind == 1 && d % 7 == 3) x[d] *= 60.0f; /* outliers */
            if (kind == 2) x[d] *= 40000.0f;
            if (kind == 3 && slot % 3 == 0) x[d] = 0;
            if (kind == 4) x[d] *= 0x1p-20f;
            if (kind == 6) x[d] = slot % 2 ? -0.0f : (float)(d % 3 - 1); /* equal magnitudes */
        }
        if (kind == 5 && slot == 5) x[dim / 2] = NAN;
        if (keys) {
            kd_ref()->store_k(x, dim, slot, page);
        } else {
            kd_ref()->store_v(x, dim, slot, page);
        }
    }
}

static void test_every_tier_quantises_alike(void **state) {
    (void)state;
    static kt__f16 page[PAGE_F16];
    static uint8_t want[128 + PAGE_F16], got[128 + PAGE_F16];
    static scratch_room scratch;
    kd_rng rng = {31};
    for (int i = 0; i < N_HEAD_DIM * 28; i++) {
        int dim = head_dims[i % N_HEAD_DIM], kind = i / N_HEAD_DIM % 7;
        bool keys = i / N_HEAD_DIM / 7 % 2 == 0;
        kt__kv_form form = i / N_HEAD_DIM < 14 ? KT__KV_Q8 : KT__KV_Q4;
        size_t bytes = keys ? kt__quantised_k_bytes(form, dim) : kt__quantised_v_bytes(form, dim);
        fill_page(&rng, kind, dim, keys, page);
        memset(want, 0x5a, sizeof want);
        (keys ? kd_ref()->quantise_k : kd_ref()->quantise_v)[form](page, dim, want, scratch.at);
        FOR_TIERS(tier) {
            memset(got, 0x5a, sizeof got);
            memset(scratch.at, 0xff, sizeof scratch.at);
            (keys ? tier->quantise_k : tier->quantise_v)[form](page, dim, got, scratch.at);
            expect_same(keys ? "quantise_k" : "quantise_v", tier, dim, want, got, bytes + 64);
        }
    }
}

/* A number of 8 bits, and that which 4 bits made of it. */
static void expect_narrowed(const uint8_t *q8, const uint8_t *q4, int dim, bool keys, int slot,
                            int d) {
    const float *scale8 = (const float *)(const void *)q8;
    const kt__f16 *scale4 = (const kt__f16 *)(const void *)q4;
    size_t at8 = kt__quantised_codes(KT__KV_Q8), at4 = kt__quantised_codes(KT__KV_Q4);
    at8 += (size_t)(keys ? (d / 4 * 16 + slot) * 4 + d % 4 : (slot / 4 * dim + d) * 4 + slot % 4);
    at4 += (size_t)(keys ? (d / 8 * 16 + slot) * 4 + d % 4
                         : (slot % 8 / 4 * dim + d) * 4 + slot % 4);
    int code = q4[at4] >> ((keys ? d & 4 : slot >= 8) ? 4 : 0) & 15;
    float step = kt__f16_to_f32(scale4[slot]) * (keys ? (float)kt__rotation_block(dim) : 1.0f);
    float want = scale8[slot] * (float)(int8_t)q8[at8], got = step * (float)(code - 8);
    /* half a step; a whole one where the other sign's greatest has no code */
    assert_true(fabsf(got - want) <= fabsf(step) * (code == 15 ? 1.01f : 0.51f));
}

static void test_four_bits_are_made_of_eight(void **state) {
    (void)state;
    static kt__f16 page[PAGE_F16];
    static uint8_t q8[PAGE_F16], q4[PAGE_F16];
    static scratch_room scratch;
    kd_rng rng = {7};
    for (int i = 0; i < N_HEAD_DIM * 4; i++) {
        int dim = head_dims[i % N_HEAD_DIM];
        bool keys = i / N_HEAD_DIM % 2 == 0;
        fill_page(&rng, i / N_HEAD_DIM / 2, dim, keys, page);
        (keys ? kd_ref()->quantise_k : kd_ref()->quantise_v)[KT__KV_Q8](page, dim, q8, scratch.at);
        (keys ? kt__ref_narrow_k : kt__ref_narrow_v)(q8, dim, q4, scratch.at);
        for (int slot = 0; slot < KT__PAGE_POS; slot++)
            for (int d = 0; d < dim; d++) expect_narrowed(q8, q4, dim, keys, slot, d);
    }
}

static void test_every_tier_codes_queries_alike(void **state) {
    (void)state;
    float q[MAX_DIM];
    uint8_t want[2 * MAX_DIM], got[2 * MAX_DIM];
    static scratch_room scratch;
    kd_rng rng = {32};
    for (int i = 0; i < N_HEAD_DIM * 20; i++) {
        int dim = head_dims[i % N_HEAD_DIM], kind = i / N_HEAD_DIM;
        for (int d = 0; d < dim; d++) q[d] = kd_normal(&rng) * (kind % 4 == 1 ? 300.0f : 0.2f);
        if (kind == 2) memset(q, 0, sizeof q);
        if (kind == 3) q[dim - 1] = INFINITY;
        memset(want, 0x5a, sizeof want);
        kd_ref()->code_query(q, dim, want, scratch.at);
        FOR_TIERS(tier) {
            memset(got, 0x5a, sizeof got);
            memset(scratch.at, 0xff, sizeof scratch.at);
            tier->code_query(q, dim, got, scratch.at);
            expect_same("code_query", tier, dim, want, got, kt__query_code_bytes(dim) + 8);
        }
    }
}

/* ---- attention ---- */

typedef struct world {
    kt__f16 k[KT__SPLIT_PAGES][PAGE_F16], v[KT__SPLIT_PAGES][PAGE_F16];
    kd_guard quantised_k[KT__SPLIT_PAGES], quantised_v[KT__SPLIT_PAGES];
    float q[MAX_Q * MAX_DIM], want_o[MAX_Q * MAX_DIM], got_o[MAX_Q * MAX_DIM];
    float m[2][MAX_Q], l[2][MAX_Q];
    uint8_t codes[MAX_Q * 2 * MAX_DIM];
    int16_t lo[MAX_Q], hi[MAX_Q], own[MAX_Q];
    scratch_room scratch;
    kd_guard attn_scratch;
    kt__attn attn;
    kt__attn_quantised quantised;
} world;

static size_t attn_scratch_bytes(const kt__kernels *tier, int n_q, int dim_k, int dim_v) {
    return (tier->attn_scratch_bytes(n_q, dim_k, dim_v) + 63) / 64 * 64;
}

static bool tiles_emulated;

static world *open_world(void) {
    void *at = NULL;
    size_t most = 0;
    if (posix_memalign(&at, 64, sizeof(world)) != 0) abort();
    world *w = memset(at, 0, sizeof *w);
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        w->quantised_k[p] = kd_guard_open(kt__quantised_k_bytes(KT__KV_Q8, MAX_DIM));
        w->quantised_v[p] = kd_guard_open(kt__quantised_v_bytes(KT__KV_Q8, MAX_DIM));
    }
    FOR_TIERS(tier) {
        size_t bytes = attn_scratch_bytes(tier, MAX_Q, MAX_DIM, MAX_DIM);
        if (bytes > most) most = bytes;
    }
    w->attn_scratch = kd_guard_open(most);
    if (tiles_emulated) amxe_install(); /* here: cmocka takes the signal when a test begins */
    return w;
}

static void close_world(world *w) {
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        kd_guard_close(&w->quantised_k[p]);
        kd_guard_close(&w->quantised_v[p]);
    }
    kd_guard_close(&w->attn_scratch);
    free(w);
}

/* How a case's pages look. */
typedef struct attn_case {
    int dim_k, dim_v, n_q, group;
    kt__kv_form k_form, v_form;
    int pos;  /* the first query's slot in the split; one split further on where it is beyond */
    int from; /* the first page that is quantised */
    int tail; /* pages before a query's own that have their f16 copies as well */
    int window;
    float softcap;
    bool whole; /* all that is seen is read quantised */
    int odd;    /* fill_page's kind of page 3 */
} attn_case;

/* What is not read quantised is quantised anyway. */
static kt__kv_form made_as(kt__kv_form form) {
    return form == KT__KV_F16 ? KT__KV_Q8 : form;
}

static uint8_t *room_for(kd_guard *guard, size_t bytes) {
    return kd_guard_last(guard, (bytes + 3) / 4 * 4);
}

static void fill_world(world *w, const attn_case *c, kd_rng *rng) {
    w->quantised = (kt__attn_quantised){.k_form = c->k_form, .v_form = c->v_form, .from = c->from};
    w->attn = (kt__attn){.head_dim_k = c->dim_k, .head_dim_v = c->dim_v, .softcap = c->softcap};
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        uint8_t *sk = room_for(&w->quantised_k[p],
                               kt__quantised_k_bytes(made_as(c->k_form), c->dim_k));
        uint8_t *sv = room_for(&w->quantised_v[p],
                               kt__quantised_v_bytes(made_as(c->v_form), c->dim_v));
        fill_page(rng, p == 3 ? c->odd : p % 5 == 1, c->dim_k, true, w->k[p]);
        fill_page(rng, p == 3 ? c->odd : p % 5 == 2, c->dim_v, false, w->v[p]);
        kd_ref()->quantise_k[made_as(c->k_form)](w->k[p], c->dim_k, sk, w->scratch.at);
        kd_ref()->quantise_v[made_as(c->v_form)](w->v[p], c->dim_v, sv, w->scratch.at);
        w->attn.k[p] = w->k[p], w->attn.v[p] = w->v[p];
        w->quantised.k[p] = sk, w->quantised.v[p] = sv;
    }
}

static void fill_queries(world *w, const attn_case *c, kd_rng *rng) {
    size_t code_bytes = kt__query_code_bytes(c->dim_k);
    for (int i = 0; i < c->n_q; i++) {
        int pos = c->pos + i / c->group, end = pos + 1;
        int own = c->whole ? KT__SPLIT_PAGES : pos / KT__PAGE_POS - c->tail;
        float *q = w->q + i * c->dim_k;
        for (int d = 0; d < c->dim_k; d++) q[d] = kd_normal(rng) * 0.3f;
        kd_ref()->code_query(q, c->dim_k, w->codes + (size_t)i * code_bytes, w->scratch.at);
        w->hi[i] = (int16_t)(end < KT__SPLIT_POS ? end : KT__SPLIT_POS);
        w->lo[i] = (int16_t)(c->window && end > c->window ? end - c->window : 0);
        w->own[i] = (int16_t)(own < 0 ? 0 : own < KT__SPLIT_PAGES ? own : KT__SPLIT_PAGES);
    }
    w->quantised.q = w->codes, w->quantised.ld_q = code_bytes, w->quantised.own = w->own;
    w->attn.q = w->q, w->attn.ld_q = (size_t)c->dim_k, w->attn.n_q = c->n_q;
    w->attn.lo = w->lo, w->attn.hi = w->hi, w->attn.quantised = &w->quantised;
    w->attn.ld_o = (size_t)c->dim_v;
}

static bool any_reads_f16(const world *w, int page, kt__kv_form form) {
    if (form == KT__KV_F16 || page < w->quantised.from) return true;
    for (int i = 0; i < w->attn.n_q; i++) {
        if (page >= w->own[i] && page * KT__PAGE_POS < w->hi[i]) return true;
    }
    return false;
}

static bool any_reads_quantised(const world *w, int page, kt__kv_form form) {
    if (form == KT__KV_F16 || page < w->quantised.from) return false;
    for (int i = 0; i < w->attn.n_q; i++) {
        if (page < w->own[i]) return true;
    }
    return false;
}

/* What nobody reads is not there: with a tail of 0, f16 pages are few. */
static void take_away_unread(world *w) {
    for (int p = 0; p < KT__SPLIT_PAGES; p++) {
        if (!any_reads_f16(w, p, w->quantised.k_form)) w->attn.k[p] = NULL;
        if (!any_reads_f16(w, p, w->quantised.v_form)) w->attn.v[p] = NULL;
        if (!any_reads_quantised(w, p, w->quantised.k_form)) w->quantised.k[p] = NULL;
        if (!any_reads_quantised(w, p, w->quantised.v_form)) w->quantised.v[p] = NULL;
    }
}

static void check_case(world *w, const attn_case *c, kd_rng *rng) {
    size_t n_o = (size_t)c->n_q * (size_t)c->dim_v, n = (size_t)c->n_q * sizeof(float);
    fill_world(w, c, rng);
    fill_queries(w, c, rng);
    take_away_unread(w);
    w->attn.m = w->m[0], w->attn.l = w->l[0], w->attn.o = w->want_o;
    kd_ref()->attn(&w->attn, ref_scratch);
    kd_unify_nan(w->m[0], (size_t)c->n_q);
    kd_unify_nan(w->l[0], (size_t)c->n_q);
    kd_unify_nan(w->want_o, n_o);
    FOR_TIERS(tier) {
        w->attn.m = w->m[1], w->attn.l = w->l[1], w->attn.o = w->got_o;
        memset(w->got_o, 0x3c, sizeof w->got_o);
        size_t bytes = attn_scratch_bytes(tier, c->n_q, c->dim_k, c->dim_v);
        void *scratch = memset(kd_guard_last(&w->attn_scratch, bytes), 0xff, bytes);
        tier->attn(&w->attn, scratch);
        kd_unify_nan(w->m[1], (size_t)c->n_q);
        kd_unify_nan(w->l[1], (size_t)c->n_q);
        kd_unify_nan(w->got_o, n_o);
        expect_same("attn m", tier, c->dim_k, w->m[0], w->m[1], n);
        expect_same("attn l", tier, c->dim_k, w->l[0], w->l[1], n);
        expect_same("attn o", tier, c->dim_v, w->want_o, w->got_o, n_o * sizeof(float));
    }
}

static void test_every_tier_attends_alike(void **state) {
    (void)state;
    world *w = open_world();
    kd_rng rng = {33};
    static const kt__kv_form forms[][2] = {{KT__KV_Q8, KT__KV_Q8},  {KT__KV_F16, KT__KV_Q8},
                                           {KT__KV_Q8, KT__KV_F16}, {KT__KV_Q4, KT__KV_Q4},
                                           {KT__KV_Q8, KT__KV_Q4},  {KT__KV_Q4, KT__KV_F16},
                                           {KT__KV_Q4, KT__KV_Q8},  {KT__KV_F16, KT__KV_Q4}};
    for (int i = 0; i < 1400; i++) {
        attn_case c = {.dim_k = head_dims[i % N_HEAD_DIM],
                       .n_q = 1 + i % 31,
                       .group = 1 + i % 7,
                       .k_form = forms[i % 8][0],
                       .v_form = forms[i % 8][1],
                       .pos = kd_below(&rng, KT__SPLIT_POS - 40),
                       .from = i % 3 == 0,
                       .tail = i % 5 == 0 ? 3 : 0,
                       .softcap = i % 6 == 0 ? 50.0f : 0.0f};
        if (i % 9 == 0) c.pos += KT__SPLIT_POS;
        if (i % 8 == 0 && c.pos < KT__SPLIT_POS) c.window = 1 + kd_below(&rng, 80);
        c.dim_v = i % 11 == 0 ? head_dims[i / 11 % N_HEAD_DIM] : c.dim_k;
        if (!kd_left_out()) check_case(w, &c, &rng);
    }
    close_world(w);
}

/* A prompt's queries, which share what they read: whole splits, the causal edge, windows. */
static void test_every_tier_attends_alike_with_many_queries(void **state) {
    (void)state;
    world *w = open_world();
    kd_rng rng = {35};
    for (int i = 0; i < 900; i++) {
        attn_case c = {.dim_k = head_dims[i % N_HEAD_DIM],
                       .n_q = 12 + kd_below(&rng, MAX_Q - 11),
                       .group = 1 + kd_below(&rng, 8),
                       .k_form = i % 2 ? KT__KV_Q4 : KT__KV_Q8,
                       .v_form = i / 2 % 2 ? KT__KV_Q4 : KT__KV_Q8,
                       .pos = KT__SPLIT_POS,
                       .whole = true,
                       .softcap = i % 13 == 0 ? 50.0f : 0.0f,
                       .odd = i % 7 == 0    ? 2
                              : i % 17 == 0 ? 4
                              : i % 19 == 0 ? 5
                                            : 0};
        if (i % 5 == 0 && c.odd != 5) c.pos = kd_below(&rng, KT__SPLIT_POS);
        if (i % 4 == 0 && c.odd != 5)
            c.window = 1 + kd_below(&rng, c.pos == KT__SPLIT_POS ? 200 : 80);
        if (i % 11 == 0) c.dim_v = head_dims[i / 11 % N_HEAD_DIM];
        if (c.dim_v == 0) c.dim_v = c.dim_k;
        if (c.pos < KT__SPLIT_POS && c.pos + c.n_q > KT__SPLIT_POS) c.window = 0;
        while (c.window && c.pos + (c.n_q - 1) / c.group + 1 - c.window >= KT__SPLIT_POS)
            c.window++;
        if (!kd_left_out()) check_case(w, &c, &rng);
    }
    close_world(w);
}

/* ---- the reference ---- */

/* The output of one query over the whole split in double, of f16 pages. */
static void attend_in_double(const world *w, int i, double *out) {
    const kt__attn *a = &w->attn;
    double s[KT__SPLIT_POS], top = -INFINITY, sum = 0;
    for (int t = 0; t < a->hi[i]; t++) {
        s[t] = 0;
        for (int d = 0; d < a->head_dim_k; d++)
            s[t] += (double)a->q[i * a->head_dim_k + d] *
                    (double)kt__f16_to_f32(w->k[t / 16][d * 16 + t % 16]);
        if (s[t] > top) top = s[t];
    }
    memset(out, 0, (size_t)a->head_dim_v * sizeof *out);
    for (int t = 0; t < a->hi[i]; t++) {
        double p = exp(s[t] - top);
        sum += p;
        for (int d = 0; d < a->head_dim_v; d++)
            out[d] += p * (double)kt__f16_to_f32(w->v[t / 16][t % 16 * a->head_dim_v + d]);
    }
    for (int d = 0; d < a->head_dim_v; d++) out[d] /= sum;
}

static void quantise_plain_pages(world *w, const attn_case *c, kd_rng *rng) {
    for (int p = 0; p < KT__SPLIT_PAGES; p++) { /* without outliers */
        fill_page(rng, 0, c->dim_k, true, w->k[p]);
        kd_ref()->quantise_k[c->k_form](w->k[p], c->dim_k, (uint8_t *)(uintptr_t)w->quantised.k[p],
                                        w->scratch.at);
        fill_page(rng, 0, c->dim_v, false, w->v[p]);
        kd_ref()->quantise_v[c->v_form](w->v[p], c->dim_v, (uint8_t *)(uintptr_t)w->quantised.v[p],
                                        w->scratch.at);
    }
}

/* With 8 bits a number, what comes out is within some thousandths of what goes in; with 4 bits, a
 * tenth. */
static void expect_near(kt__kv_form form, double bound) {
    world *w = open_world();
    kd_rng rng = {34};
    for (int i = 0; i < N_HEAD_DIM; i++) {
        attn_case c = {.dim_k = head_dims[i],
                       .dim_v = head_dims[i],
                       .n_q = 4,
                       .group = 1,
                       .k_form = form,
                       .v_form = form,
                       .pos = 200};
        double want[MAX_DIM], wrong = 0, size = 0;
        fill_world(w, &c, &rng);
        quantise_plain_pages(w, &c, &rng);
        fill_queries(w, &c, &rng);
        w->attn.m = w->m[0], w->attn.l = w->l[0], w->attn.o = w->want_o;
        kd_ref()->attn(&w->attn, ref_scratch);
        for (int q = 0; q < c.n_q; q++) {
            attend_in_double(w, q, want);
            for (int d = 0; d < c.dim_v; d++) {
                double got = (double)w->want_o[q * c.dim_v + d] / (double)w->l[0][q];
                wrong += (got - want[d]) * (got - want[d]);
                size += want[d] * want[d];
            }
        }
        if (!(wrong <= bound * bound * size))
            fail_msg("head of %d: off by %g of %g", c.dim_k, sqrt(wrong), sqrt(size));
    }
    close_world(w);
}

static void test_the_reference_is_right(void **state) {
    (void)state;
    expect_near(KT__KV_Q8, 0.03);
    expect_near(KT__KV_Q4, 0.35);
}

/* A page that another rule made would be another answer: these are the recorded bytes. */
static void test_golden(void **state) {
    (void)state;
    kt__f16 page[8 * KT__PAGE_POS];
    uint8_t k[128 + 64] = {0}, q[32] = {0};
    static scratch_room scratch;
    const float first[4] = {36.0f / 127.0f, 4.0f / 127.0f, 16.0f / 127.0f, 36.0f / 127.0f};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, one[8] = {1},
          alternate[8] = {2, -2, 2, -2, 2, -2, 2, -2};
    memset(page, 0, sizeof page);
    kd_ref()->store_k(x, 8, 0, page);
    one[0] = 4;
    kd_ref()->store_k(one, 8, 1, page);
    kd_ref()->store_k(alternate, 8, 2, page);
    for (int d = 0; d < 8; d++) x[d] = -x[d];
    kd_ref()->store_k(x, 8, 3, page);
    kd_ref()->quantise_k[KT__KV_Q8](page, 8, k, scratch.at);
    assert_memory_equal(k, first, sizeof first);
    /* sums 36, -4, -8, 0, -16, 0, 0, 0 over 36 / 127; all equal; the second alone; the first's */
    const int8_t codes[2][16] = {
        {127, -14, -28, 0, 127, 127, 127, 127, 0, 127, 0, 0, -127, 14, 28, 0},
        {-56, 0, 0, 0, 127, 127, 127, 127, 0, 0, 0, 0, 56, 0, 0, 0}};
    assert_memory_equal(k + 64, codes[0], 16);
    assert_memory_equal(k + 128, codes[1], 16);
    kd_ref()->code_query(x, 8, q, scratch.at);
    float scale;
    int32_t sum;
    memcpy(&scale, q + 8, sizeof scale);
    memcpy(&sum, q + 12, sizeof sum);
    assert_true(scale == 36.0f / 127.0f / 8.0f);
    assert_int_equal(sum, -127 + 14 + 28 + 56);
    /* scales 36, 4 and 16 over -8 * 8, and -36 over 8 * -8: codes -8, 1, 2, 0, 4, 0, 0, 0 and so
     * on, each 8 more, the fifth dimension's next to the first's */
    uint8_t k4[32 + 64];
    kd_ref()->quantise_k[KT__KV_Q4](page, 8, k4, scratch.at);
    const kt__f16 scales[4] = {0xb880, 0xac00, 0xb400, 0x3880};
    const uint8_t halves[16] = {0xc0, 0x89, 0x8a, 0x88, 0x00, 0x00, 0x00, 0x00,
                                0x88, 0x80, 0x88, 0x88, 0xc0, 0x89, 0x8a, 0x88};
    assert_memory_equal(k4, scales, sizeof scales);
    assert_memory_equal(k4 + 32, halves, sizeof halves);
}

/* On a processor with AVX-512 and without tiles: the amx tier with these computed by a signal's handler. */
static void emulate_tiles(void) {
    kt__cpu cpu;
    int count, n = 0;
    const kt__tier *all = kt__tiers(&count);
    kt__cpu_detect(&cpu);
    while (kd_tiers()[n]) n++;
    for (int i = 1; i < count && !getenv("KT_TEST_TIER"); i++) {
        if (strcmp(all[i].name, "amx") != 0 || all[i].supported(&cpu) ||
            !all[i - 1].supported(&cpu))
            continue;
        kd_chosen[n] = all[i].kernels;
        kd_chosen[n + 1] = NULL;
        tiles_emulated = true;
        printf("AMX is emulated\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_the_reference_is_right),
        cmocka_unit_test(test_every_tier_quantises_alike),
        cmocka_unit_test(test_four_bits_are_made_of_eight),
        cmocka_unit_test(test_every_tier_codes_queries_alike),
        cmocka_unit_test(test_every_tier_attends_alike),
        cmocka_unit_test(test_every_tier_attends_alike_with_many_queries),
    };
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    emulate_tiles();
    kd_print_tiers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
