/* Recurrent layers' kernels: the reference against double, and every tier against the reference, byte
 * for byte, at every size of tails. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels_data.h"

enum { MAX_N = 200, MAX_DIM = 256, MAX_ROWS = 19, MAX_TOK = 9, CASES = 150 };

static const kt__kernels *reference(void) {
    return kd_ref();
}

static void fill(kd_rng *rng, float *x, int n, float scale) {
    for (int i = 0; i < n; i++) x[i] = scale * kd_normal(rng);
}

/* ---- short convolutions, and gates ---- */

static void expect_softplus(const float *x, int n, int c) {
    float want[MAX_N], got[MAX_N];
    memcpy(want, x, sizeof want);
    reference()->softplus(want, n);
    for (int i = 0; i < n; i++) {
        double y = log1p(exp((double)x[i]));
        if (fabs(y - (double)want[i]) > 1e-37 + 3e-7 * y) fail_msg("softplus %d, %d", c, i);
    }
    for (const kt__kernels **at = kd_tiers(); *at; at++) {
        memcpy(got, x, sizeof got);
        (*at)->softplus(got, n);
        if (memcmp(want, got, sizeof got) != 0) fail_msg("softplus of %s, %d", (*at)->name, c);
    }
}

static void test_conv_and_gate(void **state) {
    (void)state;
    kd_rng rng = {1};
    for (int c = 0; c < CASES; c++) {
        float x[16][MAX_N], w[16 * MAX_N], want[MAX_N], got[MAX_N];
        const float *rows[16];
        int width = 2 + c % 15, n = 1 + c % MAX_N;
        for (int j = 0; j < 16; j++) {
            rows[j] = x[j];
            fill(&rng, x[j], MAX_N, c % 7 == 0 ? 40.0f : 1.0f);
        }
        fill(&rng, w, 16 * MAX_N, 1.0f);
        kt__conv conv = {rows, w, MAX_N, c % 3 ? NULL : x[15], width, n, c % 2 == 1, want};
        reference()->conv(&conv);
        for (int i = 0; i < n; i++) {
            double y = conv.bias ? (double)conv.bias[i] : 0.0;
            for (int j = 0; j < width; j++) y += (double)w[j * MAX_N + i] * (double)x[j][i];
            if (conv.silu) y = y / (1.0 + exp(-y));
            if (fabs(y - (double)want[i]) > 1e-3 + 1e-5 * fabs(y)) fail_msg("case %d, %d", c, i);
        }
        conv.out = got;
        for (const kt__kernels **at = kd_tiers(); *at; at++) {
            (*at)->conv(&conv);
            if (memcmp(want, got, (size_t)n * sizeof *got) != 0)
                fail_msg("conv of %s, case %d", (*at)->name, c);
        }
        expect_softplus(x[1], n, c);
        reference()->sigmoid_mul(x[0], x[1], n, want);
        for (int i = 0; i < n; i++) {
            double y = (double)x[0][i] / (1.0 + exp(-(double)x[1][i]));
            if (fabs(y - (double)want[i]) > 1e-5 + 1e-5 * fabs(y)) fail_msg("gate %d, %d", c, i);
        }
        for (const kt__kernels **at = kd_tiers(); *at; at++) {
            (*at)->sigmoid_mul(x[0], x[1], n, got);
            if (memcmp(want, got, (size_t)n * sizeof *got) != 0)
                fail_msg("sigmoid_mul of %s, case %d", (*at)->name, c);
        }
    }
}

/* ---- delta nets, and both kinds of Mamba ---- */

typedef enum state_kind { TAKES_BACK, ADDS, FADES, KINDS } state_kind;

typedef struct world {
    float q[MAX_TOK * MAX_DIM], k[MAX_TOK * MAX_DIM], v[MAX_TOK * MAX_ROWS];
    float decay[MAX_TOK], beta[MAX_TOK * MAX_ROWS], before[MAX_ROWS * MAX_DIM];
    float a[MAX_ROWS * MAX_DIM];
} world;

static void make_world(kd_rng *rng, world *w, int dim) {
    float length = 1.0f / sqrtf((float)dim);
    fill(rng, w->q, MAX_TOK * MAX_DIM, length);
    fill(rng, w->k, MAX_TOK * MAX_DIM, length);
    fill(rng, w->v, MAX_TOK * MAX_ROWS, 1.0f);
    fill(rng, w->before, MAX_ROWS * MAX_DIM, 1.0f);
    for (int t = 0; t < MAX_TOK; t++) w->decay[t] = (float)kd_below(rng, 1001) * 1e-3f;
    for (int i = 0; i < MAX_TOK * MAX_ROWS; i++) w->beta[i] = (float)kd_below(rng, 1001) * 1e-3f;
    for (int i = 0; i < MAX_ROWS * MAX_DIM; i++) w->a[i] = (float)kd_below(rng, 1001) * -0.1f;
}

static kt__delta delta_of(const world *w, state_kind kind, int dim, int n_row, int n_tok, float *s,
                          float *out) {
    memcpy(s, w->before, (size_t)(n_row * dim) * sizeof *s);
    return (kt__delta){.s = s,
                       .n_row = n_row,
                       .dim = dim,
                       .n_tok = n_tok,
                       .adds = kind != TAKES_BACK,
                       .a = kind == FADES ? w->a : NULL,
                       .q = w->q,
                       .k = w->k,
                       .ld_qk = MAX_DIM,
                       .v = w->v,
                       .ld_v = MAX_ROWS,
                       .decay = w->decay,
                       .beta = w->beta,
                       .ld_g = kind == FADES ? MAX_ROWS : 1,
                       .out = out,
                       .ld_out = MAX_ROWS};
}

static void expect_right(const world *w, const kt__delta *d) {
    for (int r = 0; r < d->n_row; r++) {
        double s[MAX_DIM];
        for (int i = 0; i < d->dim; i++) s[i] = (double)w->before[r * d->dim + i];
        for (int t = 0; t < d->n_tok; t++) {
            const float *k = w->k + t * MAX_DIM, *q = w->q + t * MAX_DIM;
            double known = 0, out = 0;
            double beta = (double)w->beta[d->a ? t * MAX_ROWS + r : t];
            for (int i = 0; i < d->dim; i++) {
                s[i] *= d->a ? exp(beta * (double)w->a[r * d->dim + i]) : (double)w->decay[t];
                known += s[i] * (double)k[i];
            }
            double change = beta * ((double)w->v[t * MAX_ROWS + r] - (d->adds ? 0.0 : known));
            for (int i = 0; i < d->dim; i++) out += (s[i] += (double)k[i] * change) * (double)q[i];
            if (fabs(out - (double)d->out[t * MAX_ROWS + r]) > 1e-4) fail_msg("row %d, %d", r, t);
        }
    }
}

static void test_delta(void **state) {
    (void)state;
    kd_rng rng = {2};
    static world w;
    static float s[2][MAX_ROWS * MAX_DIM], out[2][MAX_TOK * MAX_ROWS];
    for (int c = 0; c < CASES; c++) {
        int dim = 16 * (1 + c % 16), n_row = 1 + c % MAX_ROWS, n_tok = 1 + c % MAX_TOK;
        make_world(&rng, &w, dim);
        memset(out, 0, sizeof out);
        state_kind kind = c % KINDS;
        kt__delta d = delta_of(&w, kind, dim, n_row, n_tok, s[0], out[0]);
        reference()->delta(&d);
        expect_right(&w, &d);
        for (const kt__kernels **at = kd_tiers(); *at; at++) {
            kt__delta e = delta_of(&w, kind, dim, n_row, n_tok, s[1], out[1]);
            (*at)->delta(&e);
            if (memcmp(s[0], s[1], (size_t)(n_row * dim) * sizeof **s) != 0 ||
                memcmp(out[0], out[1], sizeof *out) != 0)
                fail_msg("delta of %s, case %d", (*at)->name, c);
        }
    }
}

/* Tokens one by one, and all at once. */
static void test_delta_by_slices(void **state) {
    (void)state;
    enum { DIM = 64, ROWS = 7 };
    kd_rng rng = {3};
    static world w;
    static float s[2][MAX_ROWS * MAX_DIM], out[2][MAX_TOK * MAX_ROWS];
    make_world(&rng, &w, DIM);
    for (state_kind kind = TAKES_BACK; kind < KINDS; kind++) {
        kt__delta d = delta_of(&w, kind, DIM, ROWS, MAX_TOK, s[0], out[0]);
        reference()->delta(&d);
        kt__delta e = delta_of(&w, kind, DIM, ROWS, 1, s[1], out[1]);
        for (int t = 0; t < MAX_TOK; t++) {
            e.q = w.q + t * MAX_DIM;
            e.k = w.k + t * MAX_DIM;
            e.v = w.v + t * MAX_ROWS;
            e.decay = w.decay + t;
            e.beta = w.beta + (size_t)t * e.ld_g;
            e.out = out[1] + t * MAX_ROWS;
            reference()->delta(&e);
        }
        assert_memory_equal(s[0], s[1], sizeof *s);
        assert_memory_equal(out[0], out[1], sizeof *out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_and_gate),
        cmocka_unit_test(test_delta),
        cmocka_unit_test(test_delta_by_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
