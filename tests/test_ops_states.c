/* Delta nets and Mamba-2 against a plain evaluation in double precision; the same bytes, answers and states, for any
 * number of threads and however a prompt is sliced. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/dispatch.h"
#include "ops/ops.h"
#include "support.h"

/* Heads of more rows than a worker takes at a time; the layer's part of a state is not its first. */
enum {
    N_TOK = 11,
    FIRST = 7, /* tokens of the first sequence, which has a state; the others are the second's */
    MARK = 3,
    N_GROUP = 2,
    N_HEAD = 4,
    DIM = 16,
    ROWS = 20,
    INNER = N_HEAD * ROWS,
    CHANNELS = INNER + 2 * N_GROUP * DIM,
    STATE = INNER * DIM,
    STATE_AT = 24,
    N_PIECES = 8
};
#define EPS 1e-6f

typedef struct layer {
    bool mamba, grouped, normed;
    float x[N_TOK *
            CHANNELS]; /* of a delta net queries, keys, values; of Mamba-2 values, keys, queries */
    float step[N_TOK * N_HEAD], beta[N_TOK * N_HEAD], gate[N_TOK * INNER];
    float a[N_HEAD], dt[N_HEAD], d[N_HEAD], norm[INNER];
    float before[STATE];
} layer;

typedef struct result {
    float out[N_TOK * INNER];
    float after_mark[STATE], after[2][STATE];
} result;

static kt__pool *pool;
static kt__dev *dev;
static kt__kv *kv;

static void open_device(int n_threads) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    const kt__kernels *kernels;
    const kt__dev_limits limits = {.n_tok = N_TOK,
                                   .n_col = CHANNELS,
                                   .head_dim_k = DIM,
                                   .head_dim_v = DIM,
                                   .n_head = 1,
                                   .n_head_kv = 1,
                                   .n_ctx = 512,
                                   .state_dim = DIM};
    const kt__kv_shape shape = {.n_layer = 1,
                                .n_head_kv = 1,
                                .head_dim_k = DIM,
                                .head_dim_v = DIM,
                                .state_bytes = (STATE_AT + STATE) * sizeof(float)};
    kt__cpu_detect(&cpu);
    die_on(kt__kernels_select(&cpu, NULL, &kernels, why, sizeof why, &err), &err);
    die_on(kt__pool_create(n_threads, &pool, &err), &err);
    die_on(kt__dev_create(pool, kernels, false, NULL, &limits, &dev, &err), &err);
    die_on(kt__kv_create(&shape, N_PIECES, &kv, &err), &err);
}

static void close_device(void) {
    kt__kv_destroy(kv);
    kt__dev_destroy(dev);
    kt__pool_destroy(pool);
}

static void fill_random(float *x, size_t n, float scale, uint32_t *seed) {
    for (size_t i = 0; i < n; i++) x[i] = scale * (float)(2.0 * lcg_unit(seed) - 1.0);
}

static void make_layer(layer *l, bool mamba, bool grouped, bool normed) {
    uint32_t seed = 11;
    l->mamba = mamba, l->grouped = grouped, l->normed = normed;
    fill_random(l->x, N_TOK * CHANNELS, 1.0f, &seed);
    fill_random(l->step, N_TOK * N_HEAD, 2.0f, &seed);
    fill_random(l->beta, N_TOK * N_HEAD, 2.0f, &seed);
    fill_random(l->gate, N_TOK * INNER, 2.0f, &seed);
    fill_random(l->dt, N_HEAD, 1.0f, &seed);
    fill_random(l->d, N_HEAD, 1.0f, &seed);
    fill_random(l->norm, INNER, 1.0f, &seed);
    fill_random(l->before, STATE, 0.5f, &seed);
    for (int h = 0; h < N_HEAD; h++) l->a[h] = -0.25f * (float)(h + 1);
}

/* ---- plainly ---- */

static double plain_silu(double x) {
    return x / (1.0 + exp(-x));
}

static void plain_norm(double *x, const float *w, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    for (int i = 0; i < n; i++) x[i] *= (double)w[i] / sqrt(sum / n + (double)EPS);
}

static double plain_length(const float *x) {
    double sum = 0;
    for (int i = 0; i < DIM; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* One head's rows meet token t. */
static void plain_head(const layer *l, double *state, int head, int t, double *out) {
    const float *x = l->x + t * CHANNELS;
    int group = l->mamba || l->grouped ? head / (N_HEAD / N_GROUP) : head % N_GROUP;
    const float *q = l->mamba ? x + INNER + (N_GROUP + group) * DIM : x + group * DIM;
    const float *k = l->mamba ? x + INNER + group * DIM : x + (N_GROUP + group) * DIM;
    const float *v = (l->mamba ? x : x + 2 * N_GROUP * DIM) + head * ROWS;
    double q_scale = l->mamba ? 1.0 : 1.0 / plain_length(q) / sqrt(DIM);
    double k_scale = l->mamba ? 1.0 : 1.0 / plain_length(k);
    double step = log(1.0 + exp((double)l->step[t * N_HEAD + head] + (double)l->dt[head]));
    double decay = exp(step * (double)l->a[head]);
    double beta = l->mamba ? step : 1.0 / (1.0 + exp(-(double)l->beta[t * N_HEAD + head]));
    for (int r = 0; r < ROWS; r++) {
        double *s = state + (head * ROWS + r) * DIM, known = 0;
        out[r] = 0;
        for (int i = 0; i < DIM; i++) known += (s[i] *= decay) * (double)k[i] * k_scale;
        double change = beta * ((double)v[r] - (l->mamba ? 0.0 : known));
        for (int i = 0; i < DIM; i++) s[i] += change * (double)k[i] * k_scale;
        for (int i = 0; i < DIM; i++) out[r] += s[i] * (double)q[i] * q_scale;
        if (l->mamba) out[r] += (double)l->d[head] * (double)v[r];
    }
}

static void plain_token(const layer *l, double *state, int t, double *out) {
    const float *gate = l->gate + t * INNER;
    for (int h = 0; h < N_HEAD; h++) plain_head(l, state, h, t, out + h * ROWS);
    for (int h = 0; !l->mamba && h < N_HEAD; h++) plain_norm(out + h * ROWS, l->norm, ROWS);
    for (int i = 0; i < INNER; i++) out[i] *= plain_silu((double)gate[i]);
    for (int g = 0; l->mamba && l->normed && g < N_GROUP; g++)
        plain_norm(out + g * INNER / N_GROUP, l->norm + g * INNER / N_GROUP, INNER / N_GROUP);
}

static void assert_near(const float *got, const double *want, int n) {
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-5 * (1.0 + fabs(want[i]))))
            fail_msg("%d: %g, not %g", i, (double)got[i], want[i]);
}

static void check_plainly(const layer *l, const result *got) {
    static double state[STATE];
    double out[INNER];
    for (int i = 0; i < STATE; i++) state[i] = (double)l->before[i];
    for (int t = 0; t < N_TOK; t++) {
        if (t == FIRST) memset(state, 0, sizeof state);
        plain_token(l, state, t, out);
        assert_near(got->out + t * INNER, out, INNER);
        if (t == MARK - 1) assert_near(got->after_mark, state, STATE);
        if (t == FIRST - 1) assert_near(got->after[0], state, STATE);
    }
    assert_near(got->after[1], state, STATE);
}

/* ---- as the operations do ---- */

/* Tokens of the layer's rows that the segments say, from the batch's row 0 at token t0 on. */
static void run_rows(const layer *l, int t0, int n_tok, const kt__seg *segs, int n_seg,
                     float *out) {
    static float x[N_TOK * CHANNELS], decay[N_TOK * N_HEAD], beta[N_TOK * N_HEAD];
    static float in[N_TOK * (INNER + N_HEAD)];
    const size_t floats = sizeof(float), ld = INNER + N_HEAD;
    memcpy(x, l->x + t0 * CHANNELS, (size_t)n_tok * CHANNELS * floats);
    memcpy(decay, l->step + t0 * N_HEAD, (size_t)n_tok * N_HEAD * floats);
    memcpy(beta, l->beta + t0 * N_HEAD, (size_t)n_tok * N_HEAD * floats);
    for (int t = 0; t < n_tok; t++) {
        memcpy(in + (size_t)t * ld, l->gate + (t0 + t) * INNER, INNER * floats);
        memcpy(in + (size_t)t * ld + INNER, l->step + (t0 + t) * N_HEAD, N_HEAD * floats);
    }
    const kt__delta_net net = {.qkv = x,
                               .decay = decay,
                               .beta = beta,
                               .a = l->a,
                               .dt = l->dt,
                               .z = l->gate + t0 * INNER,
                               .norm = l->norm,
                               .eps = EPS,
                               .n_key = N_GROUP,
                               .n_value = N_HEAD,
                               .dim_k = DIM,
                               .dim_v = ROWS,
                               .grouped = l->grouped,
                               .kv = kv,
                               .state_at = STATE_AT,
                               .segs = segs,
                               .n_seg = n_seg,
                               .n_tok = n_tok,
                               .out = out};
    const kt__mamba mamba = {.in = in,
                             .dt = in + INNER,
                             .ld_in = ld,
                             .x = x,
                             .decay = decay,
                             .step = beta,
                             .a = l->a,
                             .dt_bias = l->dt,
                             .d = l->d,
                             .norm = l->normed ? l->norm : NULL,
                             .eps = EPS,
                             .n_group = N_GROUP,
                             .n_head = N_HEAD,
                             .n_row = ROWS,
                             .dim = DIM,
                             .kv = kv,
                             .state_at = STATE_AT,
                             .segs = segs,
                             .n_seg = n_seg,
                             .n_tok = n_tok,
                             .out = out};
    if (l->mamba)
        kt__dev_ops(dev)->mamba(dev, &mamba);
    else
        kt__dev_ops(dev)->delta_net(dev, &net);
}

static float *state_of(int32_t piece) {
    return kt__kv_state_data(kv, piece) + STATE_AT;
}

/* All tokens in one batch, with a mark inside the first sequence's. */
static void run_whole(const layer *l, result *r) {
    const int32_t piece[] = {kt__kv_state_take(kv), kt__kv_state_take(kv), kt__kv_state_take(kv),
                             kt__kv_state_take(kv)};
    const kt__kv_table tables[] = {{.state = piece[0]}, {.state = KT__NO_STATE}};
    const kt__seg_state marks[] = {{MARK, piece[1]}, {FIRST, piece[2]}, {N_TOK - FIRST, piece[3]}};
    const kt__seg segs[] = {{.table = &tables[0], .n_tok = FIRST, .states = marks, .n_states = 2},
                            {.table = &tables[1],
                             .row0 = FIRST,
                             .n_tok = N_TOK - FIRST,
                             .states = marks + 2,
                             .n_states = 1}};
    memcpy(state_of(piece[0]), l->before, sizeof l->before);
    run_rows(l, 0, N_TOK, segs, 2, r->out);
    memcpy(r->after_mark, state_of(piece[1]), sizeof r->after_mark);
    for (int s = 0; s < 2; s++) memcpy(r->after[s], state_of(piece[2 + s]), sizeof r->after[s]);
    for (int i = 0; i < 4; i++) kt__kv_state_drop(kv, piece[i]);
}

/* A token at a time. */
static void run_tokens(const layer *l, result *r) {
    int32_t piece[] = {kt__kv_state_take(kv), kt__kv_state_take(kv)};
    memcpy(state_of(piece[0]), l->before, sizeof l->before);
    for (int t = 0; t < N_TOK; t++) {
        int s = t >= FIRST;
        const kt__kv_table table = {.state = t == FIRST ? KT__NO_STATE : piece[t % 2]};
        const kt__seg_state mark = {1, piece[1 - t % 2]};
        const kt__seg seg = {.table = &table, .n_tok = 1, .states = &mark, .n_states = 1};
        run_rows(l, t, 1, &seg, 1, r->out + t * INNER);
        if (t == MARK - 1) memcpy(r->after_mark, state_of(mark.piece), sizeof r->after_mark);
        memcpy(r->after[s], state_of(mark.piece), sizeof r->after[s]);
    }
    for (int i = 0; i < 2; i++) kt__kv_state_drop(kv, piece[i]);
}

static void check_layer(bool mamba, bool grouped, bool normed) {
    static layer l;
    static result want, got;
    make_layer(&l, mamba, grouped, normed);
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        open_device(n_threads);
        run_whole(&l, n_threads == 1 ? &want : &got);
        if (n_threads == 1) check_plainly(&l, &want);
        if (n_threads > 1) assert_memory_equal(&got, &want, sizeof got);
        run_tokens(&l, &got);
        assert_memory_equal(&got, &want, sizeof got);
        close_device();
    }
}

static void test_delta_nets(void **state) {
    (void)state;
    check_layer(false, false, true);
    check_layer(false, true, true);
}

static void test_mamba(void **state) {
    (void)state;
    check_layer(true, false, true);
    check_layer(true, false, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_delta_nets),
                                       cmocka_unit_test(test_mamba)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
