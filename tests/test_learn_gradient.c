/* Every gradient of an adapter's matrices against central differences of a plain evaluation in
 * double precision, for the architectures whose layers have a way back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "kernels/dispatch.h"
#include "learn/learner.h"
#include "learn/pass.h"
#include "model/lora.h"
#include "plain_forward.h"

enum { LEN_A = 23, LEN_B = 31, N_TOK = LEN_A + LEN_B, RANK = 3, TRIED = 5, N_LAYER_MAX = 8 };

#define DENSE .d_model = 32, .d_ff = 64, .n_head = 4, .head_dim = 8
static const fixture_spec specs[] = {
    {.arch = "llama", .n_layer = 2, DENSE, .n_head_kv = 2, .n_vocab = 50},
    {.arch = "llama", .n_layer = 2, DENSE, .n_head_kv = 2, .n_vocab = 50, .all_bias = true},
    {.arch = "qwen2",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 4,
     .n_vocab = 37,
     .qkv_bias = true,
     .tied = true},
    {.arch = "qwen3",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 2,
     .n_vocab = 37,
     .qk_norm = true,
     .tied = true},
    {.arch = "gemma2",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 2,
     .n_vocab = 41,
     .post_norm = true,
     .tied = true,
     .window = 12},
    {.arch = "gemma3",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 1,
     .n_vocab = 41,
     .post_norm = true,
     .qk_norm = true,
     .tied = true,
     .window = 9},
    {.arch = "phi3",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 2,
     .n_vocab = 37,
     .fused = true,
     .window = 17},
    {.arch = "glm4",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 2,
     .n_rot = 4,
     .n_vocab = 37,
     .post_norm = true,
     .fused_glu = true,
     .qkv_bias = true},
    {.arch = "granite",
     .n_layer = 2,
     DENSE,
     .n_head_kv = 2,
     .n_vocab = 50,
     .tied = true,
     .scales = {6.0f, 0.22f, 0.2f, 4.0f}},
    {.arch = "mistral3", .n_layer = 2, DENSE, .n_head_kv = 2, .n_vocab = 37, .temperature = 0.4f},
    {.arch = "exaone4",
     .n_layer = 5,
     DENSE,
     .n_head_kv = 2,
     .n_vocab = 41,
     .qk_norm = true,
     .post_norm = true,
     .no_pre_norm = true,
     .window = 20},
    {.arch = "smollm3", .n_layer = 4, DENSE, .n_head_kv = 2, .n_vocab = 37, .tied = true},
};

typedef struct world {
    const fixture_spec *s;
    kt__gguf *gguf;
    kt__net *net;
    kt__pool *pool;
    const kt__kernels *kernels;
    kt__pass *pass;
    kt__losses *losses;
    kt__factors *factors;
    plain plain, base;
    double *values; /* the factors', in double */
    int32_t ids[N_TOK];
    int at[3];
    int32_t out_rows[N_TOK];
    kt__loss_row rows[N_TOK];
    int n_out, n_kl;
    int n_shared; /* tokens that both sequences begin with, and that the library is given once */
} world;

static char path[64];

static double noise(uint32_t *state) {
    return (double)fixture_weight(state);
}

static void open_world(world *w, const fixture_spec *s, kt__learn_where where, uint64_t bytes_max) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    *w = (world){.s = s, .at = {0, LEN_A, N_TOK}};
    snprintf(path, sizeof path, "/tmp/kentang-learn-%d.gguf", (int)getpid());
    assert_int_equal(fixture_write(s, path, &err), KT_OK);
    kt__gguf_open_params op = {.use_mmap = true};
    assert_int_equal(kt__gguf_open(path, &op, &w->gguf, &err), KT_OK);
    assert_int_equal(kt__net_bind(w->gguf, NULL, &w->net, &err), KT_OK);
    kt__cpu_detect(&cpu);
    assert_int_equal(kt__kernels_select(&cpu, "ref", &w->kernels, why, sizeof why, &err), KT_OK);
    assert_int_equal(kt__pool_create(2, &w->pool, &err), KT_OK);
    kt__pass_params params = {
        .n_tok_max = N_TOK, .len_max = LEN_B, .rank_max = RANK, .bytes_max = bytes_max};
    assert_int_equal(kt__pass_create(w->net, w->pool, w->kernels, &params, &w->pass, &err), KT_OK);
    assert_int_equal(kt__losses_create(w->net, kt__pass_panels(w->pass), 16, &w->losses, &err),
                     KT_OK);
    assert_int_equal(kt__factors_make(w->net, where, RANK, 4.5f, 7, &w->factors, &err), KT_OK);
    plain_init(&w->plain, s);
    plain_init(&w->base, s);
    uint32_t state = 77;
    for (size_t i = 0; i < w->factors->n_value; i++) {
        float v = w->factors->values[i];
        w->factors->values[i] = v != 0.0f ? v : (float)noise(&state) * 0.4f; /* B is not zero */
    }
    w->values = malloc(w->factors->n_value * sizeof *w->values);
    for (size_t i = 0; i < w->factors->n_value; i++) w->values[i] = (double)w->factors->values[i];
    for (int i = 0; i < N_TOK; i++) {
        lcg(&state);
        w->ids[i] = (int32_t)((state >> 8) % (uint32_t)s->n_vocab);
    }
}

/* Rows of every kind of loss, those of KL last. */
static void choose_rows(world *w) {
    for (int t = 4; t < N_TOK - 1; t += 2) {
        if (t == LEN_A - 1 || (t >= LEN_A && t < LEN_A + w->n_shared)) continue;
        bool kl = t >= LEN_A + 5;
        kt__loss_kind kind = kl ? KT__LOSS_KL : t % 3 == 0 ? KT__LOSS_UNLIKE : KT__LOSS_LIKE;
        w->out_rows[w->n_out] = t;
        w->rows[w->n_out++] = (kt__loss_row){
            .target = w->ids[t + 1], .kind = kind, .weight = kl ? 0.7f : 0.3f};
        w->n_kl += kl;
    }
}

static void close_world(world *w) {
    plain_free(&w->plain);
    plain_free(&w->base);
    free(w->values);
    kt__factors_free(w->factors);
    kt__losses_destroy(w->losses);
    kt__pass_destroy(w->pass);
    kt__pool_destroy(w->pool);
    kt__net_free(w->net);
    kt__gguf_close(w->gguf);
    unlink(path);
}

/* ---- the plain loss ---- */

static void merge_factor(world *w, const kt__factor *of, double *to, const double *base) {
    double scale = (double)w->factors->scale;
    for (int r = 0; r < of->n_row; r++) {
        for (int c = 0; c < of->n_col; c++) {
            double sum = 0.0;
            for (int j = 0; j < RANK; j++)
                sum += w->values[of->b + (size_t)(r * RANK + j)] *
                       w->values[of->a + (size_t)(j * of->n_col + c)];
            size_t at = (size_t)r * (size_t)of->n_col + (size_t)c;
            to[at] = (base ? base[at] : 0.0) + scale * sum;
        }
    }
}

static void merge_all(world *w, double *hidden) {
    for (int i = 0; i < w->factors->n; i++) {
        const kt__factor *of = &w->factors->of[i];
        if (of->site == KT__SITE_HIDDEN) {
            merge_factor(w, of, hidden, NULL);
            w->plain.hidden = hidden;
            continue;
        }
        for (int t = 0; t < w->plain.n; t++)
            if (strcmp(w->plain.list[t].name, of->name) == 0)
                merge_factor(w, of, w->plain.data[t], w->base.data[t]);
    }
}

static double log_sum(const double *z, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += exp(z[i] - z[0]);
    return log(sum) + z[0];
}

static double row_loss(const kt__loss_row *row, const double *z, const double *zb, int n) {
    double lse = log_sum(z, n), loss = 0.0;
    if (row->kind == KT__LOSS_LIKE) return lse - z[row->target];
    if (row->kind == KT__LOSS_UNLIKE) return -log(1.0 - exp(z[row->target] - lse));
    double lse_b = log_sum(zb, n);
    for (int i = 0; i < n; i++) loss += exp(zb[i] - lse_b) * (zb[i] - lse_b - z[i] + lse);
    return loss;
}

/* zb[n_out][n_vocab]: the base's logits, made on the first call. */
static double plain_loss(world *w, double *zb, bool make_base) {
    static double z[MAX_DIM], hidden[MAX_DIM * MAX_DIM];
    double sum = 0.0;
    int i = 0, n = w->s->n_vocab;
    merge_all(w, hidden);
    for (int t = 0; t < N_TOK; t++) {
        int pos = t < LEN_A ? t : t - LEN_A;
        plain_token(make_base ? &w->base : &w->plain, w->ids[t], pos, z);
        if (i == w->n_out || w->out_rows[i] != t) continue;
        double *zb_row = zb + (size_t)i * (size_t)n;
        if (make_base)
            memcpy(zb_row, z, (size_t)n * sizeof *z);
        else
            sum += (double)w->rows[i].weight * row_loss(&w->rows[i], z, zb_row, n);
        i++;
    }
    return sum;
}

/* ---- the library's ---- */

static double library_loss(world *w, float *grads) {
    size_t ld = kt__pad(w->s->d_model);
    kt__pass_batch batch = {.n_tok = N_TOK,
                            .ids = w->ids,
                            .n_seq = 2,
                            .at = w->at,
                            .n_out = w->n_out,
                            .out_rows = w->out_rows};
    int32_t ids[N_TOK], out_rows[N_TOK];
    int at[3] = {w->n_shared, LEN_A, N_TOK - w->n_shared};
    if (w->n_shared) {
        memcpy(ids, w->ids, LEN_A * sizeof *ids);
        memcpy(ids + LEN_A, w->ids + LEN_A + w->n_shared,
               (size_t)(LEN_B - w->n_shared) * sizeof *ids);
        for (int i = 0; i < w->n_out; i++)
            out_rows[i] = w->out_rows[i] - (w->out_rows[i] < LEN_A ? 0 : w->n_shared);
        batch.n_tok = at[2];
        batch.ids = ids;
        batch.at = at;
        batch.out_rows = out_rows;
    }
    float *base = kt__aligned_alloc(64, (size_t)w->n_out * ld * sizeof *base);
    float *d_hidden = kt__aligned_alloc(64, (size_t)w->n_out * ld * sizeof *d_hidden);
    memset(d_hidden, 0, (size_t)w->n_out * ld * sizeof *d_hidden);
    const float *hidden = kt__pass_forward(w->pass, NULL, &batch);
    memcpy(base, hidden + (size_t)(w->n_out - w->n_kl) * ld, (size_t)w->n_kl * ld * sizeof *base);
    hidden = kt__pass_forward(w->pass, w->factors, &batch);
    kt__losses_run(w->losses, hidden, base, w->n_out, w->n_kl, w->rows, d_hidden);
    kt__pass_backward(w->pass, w->factors, &batch, d_hidden, grads);
    kt__free(base);
    kt__free(d_hidden);
    double sum = 0.0;
    for (int i = 0; i < w->n_out; i++) sum += (double)w->rows[i].weight * (double)w->rows[i].loss;
    return sum;
}

/* The relative error of some of a matrix's gradients, as vectors. */
static double matrix_error(world *w, double *zb, const float *grads, size_t first, size_t n) {
    const double h = 1e-4;
    double error = 0.0, size = 0.0;
    for (int i = 0; i < TRIED; i++) {
        size_t at = first + (size_t)i * (n - 1) / (TRIED - 1);
        double value = w->values[at], want;
        w->values[at] = value + h;
        want = plain_loss(w, zb, false);
        w->values[at] = value - h;
        want = (want - plain_loss(w, zb, false)) / (2.0 * h);
        w->values[at] = value;
        error += (want - (double)grads[at]) * (want - (double)grads[at]);
        size += want * want;
    }
    return sqrt(error / size);
}

static void check_gradients(const fixture_spec *s, kt__learn_where where, uint64_t bytes_max,
                            int n_shared) {
    world w;
    open_world(&w, s, where, bytes_max);
    w.n_shared = n_shared;
    memcpy(w.ids + LEN_A, w.ids, (size_t)n_shared * sizeof *w.ids);
    choose_rows(&w);
    double *zb = calloc((size_t)w.n_out * (size_t)s->n_vocab, sizeof *zb);
    float *grads = calloc(w.factors->n_value, sizeof *grads);
    (void)plain_loss(&w, zb, true);
    double want = plain_loss(&w, zb, false), got = library_loss(&w, grads), worst = 0.0;
    assert_true(fabs(got - want) < 1e-4 * fabs(want));
    for (int i = 0; i < w.factors->n; i++) {
        const kt__factor *of = &w.factors->of[i];
        double a = matrix_error(&w, zb, grads, of->a, (size_t)(RANK * of->n_col));
        double b = matrix_error(&w, zb, grads, of->b, (size_t)(RANK * of->n_row));
        if (!(a < 1e-3) || !(b < 1e-3))
            print_message("%s %s: A %g, B %g\n", s->arch, of->name, a, b);
        assert_true(a < 1e-3);
        assert_true(b < 1e-3);
        worst = a > worst ? a : worst;
        worst = b > worst ? b : worst;
    }
    print_message("%s: %d matrices, worst relative error %.1e\n", s->arch, 2 * w.factors->n, worst);
    free(zb);
    free(grads);
    close_world(&w);
}

static void test_gradients_of_all_layers(void **state) {
    check_gradients(*state, KT__LEARN_ALL, UINT64_MAX, 0);
}

/* Of what both sequences begin with, computed once: 17 tokens are more than a window of 12 sees. */
static void test_gradients_of_a_shared_beginning(void **state) {
    (void)state;
    check_gradients(&specs[2], KT__LEARN_ALL, UINT64_MAX, 5);
    check_gradients(&specs[4], KT__LEARN_ALL, 0, 17);
    check_gradients(&specs[9], KT__LEARN_LAST, UINT64_MAX, 9);
}

/* Without room for activations, which are computed again; the last layer and the hidden state. */
static void test_gradients_with_little_memory(void **state) {
    (void)state;
    check_gradients(&specs[3], KT__LEARN_ALL, 0, 0);
    check_gradients(&specs[4], KT__LEARN_ALL, 0, 0);
    check_gradients(&specs[0], KT__LEARN_LAST, 0, 0);
    check_gradients(&specs[6], KT__LEARN_LAST, UINT64_MAX, 0);
    check_gradients(&specs[4], KT__LEARN_HIDDEN, UINT64_MAX, 0);
}

/* The same bytes with other threads, and in another tier. */
static void test_gradients_have_one_answer(void **state) {
    (void)state;
    world w;
    float *first = NULL;
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        kt_error err;
        char why[64];
        kt__cpu cpu;
        open_world(&w, &specs[5], KT__LEARN_ALL, i == 1 ? 0 : UINT64_MAX);
        kt__cpu_detect(&cpu);
        if (i == 2) {
            kt__pass_params params = {
                .n_tok_max = N_TOK, .len_max = LEN_B, .rank_max = RANK, .bytes_keep = UINT64_MAX};
            kt__losses_destroy(w.losses);
            kt__pass_destroy(w.pass);
            kt__pool_destroy(w.pool);
            assert_int_equal(kt__kernels_select(&cpu, NULL, &w.kernels, why, sizeof why, &err),
                             KT_OK);
            assert_int_equal(kt__pool_create(1, &w.pool, &err), KT_OK);
            assert_int_equal(kt__pass_create(w.net, w.pool, w.kernels, &params, &w.pass, &err),
                             KT_OK);
            assert_int_equal(kt__losses_create(w.net, kt__pass_panels(w.pass), 64, &w.losses, &err),
                             KT_OK);
        }
        choose_rows(&w);
        float *grads = calloc(w.factors->n_value, sizeof *grads);
        (void)library_loss(&w, grads);
        bytes = w.factors->n_value * sizeof *grads;
        if (!first) {
            first = grads;
        } else {
            assert_memory_equal(first, grads, bytes);
            free(grads);
        }
        close_world(&w);
    }
    free(first);
}

/* The same bytes however many layers' activations there is room for. */
static void test_gradients_with_any_memory(void **state) {
    (void)state;
    world w;
    float *first = NULL;
    for (uint64_t bytes = 0; bytes <= 1200000; bytes += 40000) {
        open_world(&w, &specs[11], KT__LEARN_ALL, bytes);
        choose_rows(&w);
        float *grads = calloc(w.factors->n_value, sizeof *grads);
        (void)library_loss(&w, grads);
        if (first) assert_memory_equal(first, grads, w.factors->n_value * sizeof *grads);
        if (first)
            free(grads);
        else
            first = grads;
        close_world(&w);
    }
    free(first);
}

/* A token's products are the same bytes whether they are computed with few others or with many. */
static void test_products_of_few_tokens(void **state) {
    enum { MANY = 150, COLS = 32, ROWS = 64 };
    static const int parts[] = {1, 32, 100, 17};
    (void)state;
    world w;
    open_world(&w, &specs[0], KT__LEARN_ALL, UINT64_MAX);
    const kt__factors *f = w.factors;
    int row0;
    const kt__factor *of = kt__factors_find(f, 1, KT__SITE_GATE, &row0);
    const kt__merged m = {w.net->layers[1].gate, f->values + of->a, f->values + of->b, RANK,
                          f->scale};
    assert_true(m.w.n_col == COLS && m.w.n_row == ROWS);
    static _Alignas(64) float x[MANY * COLS], want[MANY * ROWS], got[MANY * ROWS], bias[ROWS];
    for (int i = 0; i < MANY * COLS; i++) x[i] = (float)((i * 37) % 101 - 50) / 64.0f;
    for (int i = 0; i < ROWS; i++) bias[i] = (float)i / 8.0f;
    kt__panels_forward(kt__pass_panels(w.pass), &m, x, MANY, bias, want);
    for (size_t i = 0, t = 0; i < sizeof parts / sizeof *parts; t += (size_t)parts[i++])
        kt__panels_forward(kt__pass_panels(w.pass), &m, x + t * COLS, parts[i], bias,
                           got + t * ROWS);
    assert_memory_equal(want, got, sizeof want);
    close_world(&w);
}

/* ---- sequences that grow ---- */

typedef struct growth {
    kt__pass *pass;
    const kt__factors *factors;
    const float *whole; /* hidden states of all rows, shared ones first */
    const int32_t *ids;
    int at[3], n_shared, n_vocab;
    size_t ld;
} growth;

/* The next n[s] rows of both sequences, and the shared ones before them; wrong: other tokens. Their states are those of the whole. */
static void grow(const growth *g, const int *n_old, const int *n, bool shared, bool wrong) {
    int32_t ids[N_TOK], out_rows[N_TOK];
    int from[N_TOK], n_tok = 0, n_seq = 0;
    kt__grown grown[3];
    if (shared) {
        grown[n_seq++] = (kt__grown){.n_new = g->n_shared};
        for (; n_tok < g->n_shared; n_tok++) from[n_tok] = n_tok;
    }
    for (int s = 0; s < 2; s++) {
        if (!n[s]) continue;
        grown[n_seq++] = (kt__grown){g->at[s], n_old[s], n[s], n_tok};
        for (int i = 0; i < n[s]; i++) from[n_tok++] = g->at[s] + n_old[s] + i;
    }
    for (int i = 0; i < n_tok; i++) {
        bool other = wrong && from[i] >= g->n_shared;
        ids[i] = other ? (g->ids[from[i]] + 1) % g->n_vocab : g->ids[from[i]];
        out_rows[i] = i;
    }
    const kt__pass_batch batch = {.n_tok = n_tok,
                                  .ids = ids,
                                  .n_seq = n_seq,
                                  .n_out = n_tok,
                                  .out_rows = out_rows,
                                  .grown = grown,
                                  .n_shared = g->n_shared};
    const float *hidden = kt__pass_forward(g->pass, g->factors, &batch);
    for (int i = 0; !wrong && i < n_tok; i++)
        assert_memory_equal(hidden + (size_t)i * g->ld, g->whole + (size_t)from[i] * g->ld,
                            g->ld * sizeof(float));
}

/* Computed in parts, each of which is guessed wrongly before, a sequence has the bytes that it has as a whole. n_tok: the most in a
 * batch. */
static void check_growth(const fixture_spec *s, int n_shared, int n_tok) {
    world w;
    kt_error err;
    open_world(&w, s, KT__LEARN_ALL, 0);
    memcpy(w.ids + LEN_A, w.ids, (size_t)n_shared * sizeof *w.ids);
    memmove(w.ids + LEN_A, w.ids + LEN_A + n_shared, (size_t)(LEN_B - n_shared) * sizeof *w.ids);
    growth g = {.factors = w.factors,
                .ids = w.ids,
                .at = {n_shared, LEN_A, N_TOK - n_shared},
                .n_shared = n_shared,
                .n_vocab = s->n_vocab,
                .ld = kt__pad(s->d_model)};
    int32_t all[N_TOK];
    for (int i = 0; i < N_TOK; i++) all[i] = i;
    const kt__pass_batch batch = {
        .n_tok = g.at[2], .ids = w.ids, .n_seq = 2, .at = g.at, .n_out = g.at[2], .out_rows = all};
    const float *hidden = kt__pass_forward(w.pass, w.factors, &batch);
    size_t bytes = (size_t)g.at[2] * g.ld * sizeof(float);
    float *whole = malloc(bytes);
    memcpy(whole, hidden, bytes);
    g.whole = whole;
    const kt__pass_params params = {.n_tok_max = n_tok, .len_max = N_TOK, .rank_max = RANK};
    assert_int_equal(kt__pass_create(w.net, w.pool, w.kernels, &params, &g.pass, &err), KT_OK);
    assert_true(kt__pass_grown_max(g.pass) >= N_TOK);
    int n_old[2] = {0}, step = 0;
    while (n_old[0] + n_old[1] + n_shared < g.at[2]) {
        int n[2];
        for (int i = 0; i < 2; i++) {
            int left = g.at[i + 1] - g.at[i] - n_old[i];
            n[i] = (step * 5 + i * 3) % 8;
            if (n[i] > left) n[i] = left;
        }
        if (n[0] + n[1]) grow(&g, n_old, n, step == 0 && n_shared, true);
        if (n[0] + n[1]) grow(&g, n_old, n, false, false);
        for (int i = 0; i < 2; i++) n_old[i] += n[i];
        step++;
    }
    assert_true(step >= 5);
    kt__pass_destroy(g.pass);
    free(whole);
    close_world(&w);
}

static void test_sequences_that_grow(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        check_growth(&specs[i], 0, N_TOK);
        check_growth(&specs[i], 7, N_TOK);
        check_growth(&specs[i], 14, N_TOK);
    }
    check_growth(&specs[2], 0,
                 20); /* as many heads of keys as of queries, and few rows: they need more room */
}

/* What a training writes is the adapter that it computed with, and reads back. */
static void test_factors_file(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__gguf *gguf = NULL;
    kt__lora_pack direct, read;
    kt__lora_part parts[64];
    char file[80];
    open_world(&w, &specs[6], KT__LEARN_LAST, UINT64_MAX);
    snprintf(file, sizeof file, "%s.lora", path);
    assert_int_equal(kt__factors_write(w.factors, "phi3", "v1", file, &err), KT_OK);
    kt__gguf_open_params op = {.use_mmap = true};
    assert_int_equal(kt__gguf_open(file, &op, &gguf, &err), KT_OK);
    assert_true(kt__lora_file_is(gguf));
    assert_int_equal(kt__lora_file_read(gguf, w.net, &read, &err), KT_OK);
    assert_true(w.factors->n < 64);
    kt__factors_parts(w.factors, parts);
    assert_int_equal(
        kt__lora_pack_make(w.net, parts, (size_t)w.factors->n, "trained", &direct, &err), KT_OK);
    assert_memory_equal(&direct.digest, &read.digest, sizeof direct.digest);
    assert_int_equal(direct.first_kv_layer, w.net->hp.n_layer); /* K/V stay valid */
    kt__factors *other = NULL;
    assert_int_equal(kt__factors_make(w.net, KT__LEARN_LAST, RANK, 4.5f, 9, &other, &err), KT_OK);
    assert_int_equal(kt__factors_read(other, gguf, &err), KT_OK);
    assert_memory_equal(other->values, w.factors->values, other->n_value * sizeof(float));
    kt__factors_free(other);
    assert_int_equal(kt__factors_make(w.net, KT__LEARN_ALL, RANK, 4.5f, 9, &other, &err), KT_OK);
    assert_int_equal(kt__factors_read(other, gguf, &err), KT_E_FORMAT);
    kt__factors_free(other);
    kt__lora_pack_free(&direct);
    kt__lora_pack_free(&read);
    kt__gguf_close(gguf);
    unlink(file);
    close_world(&w);
}

static void check_refusal(const fixture_spec *s) {
    kt_error err;
    kt__gguf *gguf = NULL;
    kt__net *net = NULL;
    kt__factors *f = NULL;
    snprintf(path, sizeof path, "/tmp/kentang-learn-%d.gguf", (int)getpid());
    assert_int_equal(fixture_write(s, path, &err), KT_OK);
    kt__gguf_open_params op = {.use_mmap = true};
    assert_int_equal(kt__gguf_open(path, &op, &gguf, &err), KT_OK);
    assert_int_equal(kt__net_bind(gguf, NULL, &net, &err), KT_OK);
    assert_int_equal(kt__factors_make(net, KT__LEARN_ALL, 4, 8.0f, 1, &f, &err), KT_E_UNSUPPORTED);
    assert_null(f);
    kt__net_free(net);
    kt__gguf_close(gguf);
    unlink(path);
}

static void test_other_layers_are_refused(void **state) {
    (void)state;
    const fixture_spec others[] = {{.arch = "cohere2",
                                    .n_layer = 2,
                                    DENSE,
                                    .n_head_kv = 2,
                                    .n_vocab = 41,
                                    .scales = {0, 0, 0, 0.5f},
                                    .parallel = true,
                                    .layer_norm = true,
                                    .tied = true,
                                    .window = 20},
                                   {.arch = "qwen3moe",
                                    .n_layer = 2,
                                    DENSE,
                                    .n_head_kv = 2,
                                    .n_vocab = 37,
                                    .qk_norm = true,
                                    .n_expert = 4,
                                    .n_used = 2,
                                    .ff_expert = 24}};
    check_refusal(&others[0]);
    check_refusal(&others[1]);
}

int main(void) {
    enum { N_SPECS = sizeof specs / sizeof *specs };
    struct CMUnitTest tests[N_SPECS + 6] = {
        cmocka_unit_test(test_gradients_with_little_memory),
        cmocka_unit_test(test_gradients_of_a_shared_beginning),
        cmocka_unit_test(test_gradients_have_one_answer),
        cmocka_unit_test(test_gradients_with_any_memory),
        cmocka_unit_test(test_products_of_few_tokens),
        cmocka_unit_test(test_sequences_that_grow),
        cmocka_unit_test(test_factors_file),
        cmocka_unit_test(test_other_layers_are_refused),
    };
    for (int i = 0; i < N_SPECS; i++)
        tests[i + 6] = (struct CMUnitTest){.name = specs[i].arch,
                                           .test_func = test_gradients_of_all_layers,
                                           .initial_state = (void *)(uintptr_t)&specs[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
