/* The choice of experts, the tokens of each, and the order of a token's sum, against a plain
 * evaluation: the same bytes for any number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/math.h"
#include "kernels/dispatch.h"
#include "ops/ops.h"
#include "support.h"

enum { MAX_TOK = 300, N_EXPERT = 9, N_USED = 3, FF = 32, D = 96 };

static kt__pool *pool;
static kt__dev *dev;
static const kt__ops *ops;
static kt__routing routing;
static void *memory;
static float logits[MAX_TOK * N_EXPERT];

static void open_device(int n_threads) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    const kt__kernels *kernels;
    const kt__dev_limits limits = {.n_tok = MAX_TOK,
                                   .n_col = D,
                                   .head_dim_k = 32,
                                   .head_dim_v = 32,
                                   .n_head = 1,
                                   .n_head_kv = 1,
                                   .n_ctx = 512,
                                   .expert_cols = 256};
    kt__cpu_detect(&cpu);
    die_on(kt__kernels_select(&cpu, NULL, &kernels, why, sizeof why, &err), &err);
    die_on(kt__pool_create(n_threads, &pool, &err), &err);
    die_on(kt__dev_create(pool, kernels, false, NULL, &limits, &dev, &err), &err);
    ops = kt__dev_ops(dev);
    memory = malloc(kt__routing_bytes(MAX_TOK, N_EXPERT, N_USED));
    kt__routing_place(&routing, MAX_TOK, N_EXPERT, N_USED, memory);
}

static void close_device(void) {
    kt__dev_destroy(dev);
    kt__pool_destroy(pool);
    free(memory);
}

static float random_float(uint32_t *state) {
    return (float)lcg_below(state, 20001) / 10000.0f - 1.0f;
}

/* Ties among the first few, and for most tokens expert 4, so that its tokens are several pieces. */
static void make_logits(int n_tok) {
    uint32_t state = 5;
    for (int i = 0; i < n_tok * N_EXPERT; i++) logits[i] = random_float(&state) * 4.0f;
    for (int t = 0; t < n_tok; t++) {
        float *row = logits + t * N_EXPERT;
        if (t % 7 == 0) row[1] = row[2] = row[8] = 5.0f;
        if (t % 5) row[4] = 6.0f;
    }
}

static void check_token(int t, bool of_all) {
    const float *l = logits + t * N_EXPERT;
    const int32_t *chosen = routing.chosen + t * N_USED;
    float top = l[0], sum = 0;
    for (int e = 0; e < N_EXPERT; e++) {
        int larger = 0;
        bool in = false;
        for (int o = 0; o < N_EXPERT; o++) larger += l[o] > l[e] || (l[o] == l[e] && o < e);
        for (int k = 0; k < N_USED; k++) in |= chosen[k] == e;
        assert_int_equal(in, larger < N_USED);
        if (l[e] > top) top = l[e];
    }
    for (int e = 0, k = 0; e < N_EXPERT; e++) {
        bool in = k < N_USED && chosen[k] == e;
        if (in || of_all) sum += kt__expf(l[e] - top);
        k += in;
    }
    for (int k = 0; k < N_USED; k++) {
        float want = kt__expf(l[chosen[k]] - top) / sum * 2.5f;
        assert_memory_equal(&routing.share[t * N_USED + k], &want, sizeof want);
        assert_true(k == 0 || chosen[k] > chosen[k - 1]);
    }
}

/* Every slot once, in order; pieces cover them. */
static void check_slots(int n_tok) {
    int slot = 0;
    for (int e = 0; e < N_EXPERT; e++) {
        assert_int_equal(routing.first[e], slot);
        for (int i = 0; i < n_tok * N_USED; i++) {
            if (routing.chosen[i] != e) continue;
            assert_int_equal(routing.slot_tok[slot], i / N_USED);
            assert_true(routing.slot_share[slot++] == routing.share[i]);
        }
    }
    assert_int_equal(routing.n_slot, slot);
    int at = 0, before = 0;
    for (int p = 0; p < routing.n_piece; p++) {
        const kt__expert_piece *piece = &routing.pieces[p];
        assert_int_equal(piece->slot0, at);
        assert_in_range(piece->n_tok, 1, KT__EXPERT_TOKENS);
        at += piece->n_tok;
        assert_true(at <= routing.first[piece->expert + 1]);
        int n = routing.pieces[routing.by_size[p]].n_tok;
        assert_true(n >= before);
        before = n;
    }
    assert_int_equal(at, slot);
}

static void test_choice(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 9, 64, MAX_TOK};
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        open_device(n_threads);
        for (int i = 0; i < 10; i++) {
            int n_tok = counts[i / 2];
            make_logits(n_tok);
            kt__route route = {.logits = logits,
                               .n_tok = n_tok,
                               .shares = i % 2 ? KT__SHARES_OF_ALL : KT__SHARES_OF_CHOSEN,
                               .scale = 2.5f};
            assert_true(ops->route(dev, &route, &routing));
            for (int t = 0; t < n_tok; t++) check_token(t, i % 2);
            check_slots(n_tok);
        }
        logits[MAX_TOK * N_EXPERT / 2] = NAN;
        kt__route route = {.logits = logits, .n_tok = MAX_TOK, .scale = 1.0f};
        assert_false(ops->route(dev, &route, &routing));
        close_device();
    }
}

static float weights[3][N_EXPERT * FF * D], biases[3][N_EXPERT * D];
static float x[MAX_TOK * D], input[MAX_TOK * D], sums[MAX_TOK * D], expected[MAX_TOK * D];
static _Alignas(64) uint8_t rows[MAX_TOK * (D + 64) * 4], slot_rows[MAX_TOK * N_USED * 64 * 4];
static float room[KT__GLU_ROWWISE * N_USED * FF];

static kt__expert_weights experts_of(int i, int n_row, int n_col) {
    return (kt__expert_weights){
        .w = {(const uint8_t *)weights[i], KT__TYPE_F32, n_row, n_col, (size_t)n_col * 4},
        .stride = (size_t)n_row * (size_t)n_col * 4,
        .bias = biases[i],
        .bias_stride = (size_t)n_row};
}

static kt__acts f32_acts(uint8_t *data, int n_tok, int n_col) {
    kt__acts acts = {.n_tok = n_tok, .n_col = n_col, .kinds = 1u << KT__ACT_F32};
    acts.layout[KT__ACT_F32] = kt__act_layout_of(KT__ACT_F32, n_col);
    acts.data[KT__ACT_F32] = data;
    return acts;
}

static void product(const float *w, const float *bias, int n_row, int n_col, const float *in,
                    float *out) {
    for (int r = 0; r < n_row; r++) {
        float lane[16] = {0};
        for (int k = 0; k < n_col; k++) lane[k % 16] = fmaf(w[r * n_col + k], in[k], lane[k % 16]);
        for (int step = 8; step; step /= 2)
            for (int i = 0; i < step; i++) lane[i] += lane[i + step];
        out[r] = lane[0] + bias[r];
    }
}

/* x of one token, as NUMERICS.md has it; sums: the shared expert's output or NULL. */
static void plain_token(int t, const float *shared, float share) {
    float y[D], gate[FF], up[FF], out[D];
    for (int i = 0; i < D; i++) y[i] = shared ? shared[t * D + i] * share : 0.0f;
    for (int k = 0; k < N_USED; k++) {
        int e = routing.chosen[t * N_USED + k];
        product(weights[0] + e * FF * D, biases[0] + e * FF, FF, D, input + t * D, gate);
        product(weights[1] + e * FF * D, biases[1] + e * FF, FF, D, input + t * D, up);
        for (int i = 0; i < FF; i++) gate[i] = kt__siluf(gate[i]) * up[i];
        product(weights[2] + e * FF * D, biases[2] + e * D, D, FF, gate, out);
        for (int i = 0; i < D; i++) {
            float term = out[i] * routing.share[t * N_USED + k];
            y[i] = y[i] + term;
        }
    }
    for (int i = 0; i < D; i++) expected[t * D + i] = x[t * D + i] + y[i];
}

static void compute(int n_tok, bool shared) {
    static float got[MAX_TOK * D], share[MAX_TOK];
    kt__acts acts = f32_acts(rows, n_tok, D), slots = f32_acts(slot_rows, n_tok * N_USED, FF);
    make_logits(n_tok);
    for (int t = 0; t < n_tok; t++) share[t] = 0.01f * (float)t - 1.0f;
    kt__route route = {
        .logits = logits, .n_tok = n_tok, .scale = 1.0f, .shared_gate = shared ? share : NULL};
    assert_true(ops->route(dev, &route, &routing));
    for (int t = 0; t < n_tok; t++) plain_token(t, shared ? sums : NULL, share[t]);
    ops->quantize(dev, input, n_tok, &acts);
    const kt__experts_glu glu = {.routing = &routing,
                                 .gate = experts_of(0, FF, D),
                                 .up = experts_of(1, FF, D),
                                 .rows = room};
    ops->experts_glu(dev, &acts, &glu, &slots);
    static float sum[MAX_TOK * D];
    memcpy(sum, sums, sizeof sum);
    memcpy(got, x, sizeof got);
    const kt__experts_down down = {.routing = &routing,
                                   .down = experts_of(2, D, FF),
                                   .shared = shared,
                                   .shared_share = share,
                                   .sum = sum,
                                   .x = got};
    ops->experts_down(dev, &slots, &down);
    assert_memory_equal(got, expected, (size_t)n_tok * D * sizeof *got);
}

static void test_sum_is_in_order(void **state) {
    (void)state;
    uint32_t seed = 9;
    static const int counts[] = {1, 3, 63, 64, 200, MAX_TOK};
    for (int i = 0; i < 3 * N_EXPERT * FF * D; i++)
        weights[i / (N_EXPERT * FF * D)][i % (N_EXPERT * FF * D)] = random_float(&seed) * 0.3f;
    for (int i = 0; i < 3 * N_EXPERT * D; i++)
        biases[i / (N_EXPERT * D)][i % (N_EXPERT * D)] = random_float(&seed);
    for (int i = 0; i < MAX_TOK * D; i++) {
        x[i] = random_float(&seed);
        input[i] = random_float(&seed);
        sums[i] = random_float(&seed);
    }
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        open_device(n_threads);
        for (int i = 0; i < 12; i++) compute(counts[i / 2], i % 2);
        close_device();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_sum_is_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
