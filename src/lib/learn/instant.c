#include "learn/instant.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "host/pages.h"
#include "learn/panel.h"
#include "sample/rng.h"

enum {
    RANK = KT__INSTANT_RANK,
    TOKENS = KT__INSTANT_TOKENS,
    CANDIDATES = KT__INSTANT_CANDIDATES,
    OTHERS = 32, /* tokens that neither answer has */
    WIDE = 16,   /* floats of a row of RANK numbers */
    SEED = 0x696e7374
};
static const float ALPHA = 2.0f * RANK;

struct kt__instant {
    const kt__net *net;
    const kt__kernels *kernels;
    kt__instant_params params;
    kt__factors *factors;
    int d, n_step;
    size_t ld; /* of rows of d numbers */
    float scale;
    double loss;
    /* [RANK][ld]: A, B turned round, their gradients, and the Fisher information of both */
    float *a, *b, *ga, *gb, *fa, *fb;
    /* a lesson: [TOKENS][ld] states; [CANDIDATES][ld] rows of the head; [TOKENS][CANDIDATES] logits, then slopes; and
     * [..][WIDE] products with A and with B */
    float *h, *rows, *z, *u, *wb;
    float *near;  /* [RANK][CANDIDATES], or [RANK][TOKENS]: an operand of a gradient */
    float *turns; /* [CANDIDATES] exponentials */
    uint8_t *scratch;
    void *memory;
    size_t memory_bytes;
    int32_t candidates[CANDIDATES];
    int at[TOKENS]; /* of the right token among the candidates */
    int n_tok, n_cand;
};

/* ---- memory ---- */

static size_t floats_of(size_t ld) {
    return ld * (6 * RANK + TOKENS + CANDIDATES) + (size_t)TOKENS * CANDIDATES +
           (size_t)(TOKENS + CANDIDATES) * WIDE + (size_t)(RANK + 1) * CANDIDATES;
}

static float *take_floats(float **at, size_t n) {
    float *here = *at;
    *at += n;
    return here;
}

static void lay_out(kt__instant *t) {
    float *at = t->memory;
    size_t rank = RANK * t->ld;
    t->a = take_floats(&at, rank);
    t->b = take_floats(&at, rank);
    t->ga = take_floats(&at, rank);
    t->gb = take_floats(&at, rank);
    t->fa = take_floats(&at, rank);
    t->fb = take_floats(&at, rank);
    t->h = take_floats(&at, TOKENS * t->ld);
    t->rows = take_floats(&at, CANDIDATES * t->ld);
    t->z = take_floats(&at, (size_t)TOKENS * CANDIDATES);
    t->u = take_floats(&at, (size_t)TOKENS * WIDE);
    t->wb = take_floats(&at, (size_t)CANDIDATES * WIDE);
    t->near = take_floats(&at, (size_t)RANK * CANDIDATES);
    t->turns = take_floats(&at, CANDIDATES);
    t->scratch = (uint8_t *)at;
}

static kt_status fail_norm(const kt__net *net, kt_error *err) {
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "learning.instant_lr: not for the %s architecture, whose last norm subtracts a "
                    "mean: set it to 0",
                    net->hp.arch);
}

kt_status kt__instant_open(const kt__net *net, const kt__kernels *kernels,
                           const kt__instant_params *params, kt__instant **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    if (net->hp.features & KT__F_CENTRED) return fail_norm(net, err);
    kt__instant *t = kt__calloc(1, sizeof *t);
    if (!t) return kt__fail_nomem(err, "the instant loop", sizeof *t);
    *t = (kt__instant){.net = net,
                       .kernels = kernels,
                       .params = *params,
                       .d = net->hp.d_model,
                       .ld = kt__pad(net->hp.d_model)};
    KT__TRY(kt__factors_make(net, KT__LEARN_HIDDEN, RANK, ALPHA, SEED, &t->factors, err));
    t->scale = t->factors->scale;
    t->memory_bytes = floats_of(t->ld) * sizeof(float) + kernels->mm_scratch_bytes;
    t->memory = kt__pages_alloc(t->memory_bytes); /* zeros */
    if (!t->memory) KT__TRY(kt__fail_nomem(err, "the instant loop", t->memory_bytes));
    lay_out(t);
    for (int j = 0; j < RANK; j++)
        memcpy(t->a + (size_t)j * t->ld, t->factors->values + (size_t)j * (size_t)t->d,
               (size_t)t->d * sizeof(float));
    *out = t;
    t = NULL;
out:
    kt__instant_close(t);
    return status;
}

void kt__instant_close(kt__instant *t) {
    if (!t) return;
    kt__factors_free(t->factors);
    if (t->memory) kt__pages_free(t->memory, t->memory_bytes);
    kt__free(t);
}

int kt__instant_n_step(const kt__instant *t) {
    return t->n_step;
}

double kt__instant_loss(const kt__instant *t) {
    return t->loss;
}

const kt__factors *kt__instant_factors(kt__instant *t) {
    const kt__factor *of = &t->factors->of[0];
    float *a = t->factors->values + of->a, *b = t->factors->values + of->b;
    for (int j = 0; j < RANK; j++)
        for (int i = 0; i < t->d; i++) {
            a[(size_t)j * (size_t)t->d + (size_t)i] = t->a[(size_t)j * t->ld + (size_t)i];
            b[(size_t)i * RANK + (size_t)j] = t->b[(size_t)j * t->ld + (size_t)i];
        }
    return t->factors;
}

/* ---- the lesson ---- */

/* Where the token is among the candidates; it is added where there is room. -1: there is none. */
static int candidate_of(kt__instant *t, int32_t id, int most) {
    int i = 0;
    while (i < t->n_cand && t->candidates[i] != id) i++;
    if (i < t->n_cand) return i;
    if (i == most) return -1;
    t->candidates[t->n_cand++] = id;
    return i;
}

static void choose_candidates(kt__instant *t, const kt__instant_lesson *lesson) {
    int n_vocab = t->net->hp.n_vocab, most = CANDIDATES - OTHERS;
    t->n_cand = 0;
    for (int i = 0; i < t->n_tok; i++) t->at[i] = candidate_of(t, lesson->ids[i], most);
    for (size_t i = 0; i < lesson->n_said; i++) (void)candidate_of(t, lesson->said[i], most);
    for (int i = 0; i < OTHERS; i++) {
        double u = kt__rng_uniform(SEED, 0, lesson->id, (uint32_t)i);
        (void)candidate_of(t, (int32_t)(u * (double)n_vocab), CANDIDATES);
    }
}

/* A key is a state divided by its largest number: as long as the last norm makes it, it is the state. */
static bool restore_state(const kt__instant *t, const int8_t *key, float *h) {
    const float *norm = t->net->out_norm;
    double square = 0.0;
    for (int i = 0; i < t->d; i++) {
        double w = norm ? (double)norm[i] : 1.0, x = w != 0.0 ? (double)key[i] / w : 0.0;
        square += x * x;
    }
    if (!(square > 0.0) || !isfinite(square)) return false;
    float to = (float)(1.0 / sqrt(square / (double)t->d));
    for (int i = 0; i < t->d; i++) h[i] = (float)key[i] * to;
    return true;
}

static bool read_lesson(kt__instant *t, const kt__instant_lesson *lesson) {
    const kt__weight *head = &t->net->head;
    size_t d = (size_t)t->d;
    t->n_tok = lesson->n < TOKENS ? (int)lesson->n : TOKENS;
    for (int i = 0; i < t->n_tok; i++)
        if (!restore_state(t, lesson->keys + (size_t)i * d, t->h + (size_t)i * t->ld)) return false;
    choose_candidates(t, lesson);
    for (int i = 0; i < t->n_cand; i++)
        kt__dequantize_row(head->type, head->data + (size_t)t->candidates[i] * head->row_bytes,
                           t->d, t->rows + (size_t)i * t->ld);
    return t->n_tok > 0;
}

/* ---- forward ---- */

/* out[k][r] = w[r] . x[k] for rows of ld numbers, zeros after the first d. */
static void multiply_rows(const kt__instant *t, const float *w, int n_row, const float *x, int n,
                          float *out, size_t ld_out) {
    const kt__mm_kernels *k = t->kernels->mm[KT__TYPE_F32];
    const kt__mm mm = {.type = KT__TYPE_F32,
                       .w = (const uint8_t *)w,
                       .w_row_bytes = t->ld * sizeof(float),
                       .n_row = n_row,
                       .n_col = t->d,
                       .act = (const uint8_t *)x,
                       .act_row_bytes = t->ld * sizeof(float),
                       .n_tok = n,
                       .out = out,
                       .ld_out = ld_out};
    (n >= k->gemm_min_tok ? k->gemm : k->rowdot)(&mm, t->scratch);
}

/* Logits of the candidates with the adapter, as the model has them. */
static void compute_logits(kt__instant *t) {
    const kt__hparams *hp = &t->net->hp;
    multiply_rows(t, t->rows, t->n_cand, t->h, t->n_tok, t->z, CANDIDATES);
    multiply_rows(t, t->a, RANK, t->h, t->n_tok, t->u, WIDE);
    multiply_rows(t, t->b, RANK, t->rows, t->n_cand, t->wb, WIDE);
    for (int i = 0; i < t->n_tok; i++) {
        float *z = t->z + (size_t)i * CANDIDATES;
        const float *u = t->u + (size_t)i * WIDE;
        for (int c = 0; c < t->n_cand; c++) {
            const float *wb = t->wb + (size_t)c * WIDE;
            float more = u[0] * wb[0];
            for (int j = 1; j < RANK; j++) more += u[j] * wb[j];
            z[c] += t->scale * more;
            if (t->net->head_bias) z[c] += t->net->head_bias[t->candidates[c]];
        }
        if (hp->logit_scale != 1.0f) t->kernels->scale(z, t->n_cand, hp->logit_scale);
        if (hp->final_softcap > 0.0f) t->kernels->softcap(z, t->n_cand, hp->final_softcap);
    }
}

/* Logits become the loss' slopes by them. */
static void compute_slopes(kt__instant *t) {
    const kt__hparams *hp = &t->net->hp;
    float cap = hp->final_softcap;
    t->loss = 0.0;
    for (int i = 0; i < t->n_tok; i++) {
        float *z = t->z + (size_t)i * CANDIDATES, most = z[0];
        double sum = 0.0;
        for (int c = 1; c < t->n_cand; c++) most = z[c] > most ? z[c] : most;
        kt__exp_weights(z, most, (size_t)t->n_cand, t->turns);
        for (int c = 0; c < t->n_cand; c++) sum += (double)t->turns[c];
        t->loss += ((double)most + kt__log(sum) - (double)z[t->at[i]]) / t->n_tok;
        for (int c = 0; c < t->n_cand; c++) {
            float p = (float)((double)t->turns[c] / sum) - (c == t->at[i] ? 1.0f : 0.0f);
            float slope = cap > 0.0f ? 1.0f - (z[c] / cap) * (z[c] / cap) : 1.0f;
            z[c] = p * slope * hp->logit_scale / (float)t->n_tok;
        }
    }
}

/* ---- back ---- */

/* out[j] = sum over k of near[j][k] rows[k] */
static void combine_rows(const kt__instant *t, int n, size_t ld_near, const float *rows,
                         float *out) {
    const kt__outer_mm mm = {.a = t->near,
                             .b = rows,
                             .a_row = ld_near,
                             .a_step = 1,
                             .ld_b = t->ld,
                             .ld_out = t->ld,
                             .n_row = RANK,
                             .n_step = n,
                             .n_col = t->d,
                             .out = out};
    t->kernels->outer_mm(&mm, t->scratch);
}

static void compute_gradients(kt__instant *t) {
    for (int j = 0; j < RANK; j++)
        for (int c = 0; c < t->n_cand; c++) {
            float sum = 0.0f;
            for (int i = 0; i < t->n_tok; i++)
                sum += t->z[(size_t)i * CANDIDATES + (size_t)c] *
                       t->u[(size_t)i * WIDE + (size_t)j];
            t->near[(size_t)j * CANDIDATES + (size_t)c] = t->scale * sum;
        }
    combine_rows(t, t->n_cand, CANDIDATES, t->rows, t->gb);
    for (int j = 0; j < RANK; j++)
        for (int i = 0; i < t->n_tok; i++) {
            float sum = 0.0f;
            for (int c = 0; c < t->n_cand; c++)
                sum += t->z[(size_t)i * CANDIDATES + (size_t)c] *
                       t->wb[(size_t)c * WIDE + (size_t)j];
            t->near[(size_t)j * TOKENS + (size_t)i] = t->scale * sum;
        }
    combine_rows(t, t->n_tok, TOKENS, t->h, t->ga);
}

static double square_of(const kt__instant *t, const float *g) {
    double square = 0.0;
    for (int j = 0; j < RANK; j++)
        for (int i = 0; i < t->d; i++) {
            double x = (double)g[(size_t)j * t->ld + (size_t)i];
            square += x * x;
        }
    return square;
}

/* Down the gradient, whose length is `from`, made `to` long: of all values that lower the loss to first order as
 * much, those nearest to what they were, where each counts by what it mattered so far (Kirkpatrick et al. 2017, with
 * each feedback as a task). */
static void move_values(const kt__instant *t, const float *g, double from, double to, float *f,
                        float *values) {
    float unit = (float)(1.0 / from), far = (float)to;
    for (int j = 0; j < RANK; j++)
        for (int i = 0; i < t->d; i++) {
            size_t at = (size_t)j * t->ld + (size_t)i;
            float direction = g[at] * unit;
            values[at] -= far * direction / (1.0f + t->params.ewc * f[at]);
            f[at] += (float)t->d * direction * direction;
        }
}

bool kt__instant_step(kt__instant *t, const kt__instant_lesson *lesson) {
    if (!read_lesson(t, lesson)) return false;
    compute_logits(t);
    compute_slopes(t);
    compute_gradients(t);
    double square = square_of(t, t->ga) + square_of(t, t->gb);
    if (!isfinite(square) || !(square > 1e-18)) return false;
    double from = sqrt(square), to = (double)t->params.rate * sqrt((double)t->d);
    move_values(t, t->ga, from, to, t->fa, t->a);
    move_values(t, t->gb, from, to, t->fb, t->b);
    t->n_step++;
    return true;
}
