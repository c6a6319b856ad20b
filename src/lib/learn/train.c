#include "learn/learn.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "learn/resume.h"
#include "sample/rng.h"

/* Samples of one role, drawn in an order that is new each time all were drawn. */
typedef enum draw_role { DRAW_FEEDBACK, DRAW_REPLAY, DRAW_NEIGHBOUR, DRAW_ROLES } draw_role;

typedef struct draw {
    size_t *list;
    size_t n, next;
    uint32_t round;
} draw;

typedef struct trainer {
    kt__learner *learner;
    const kt__training *t;
    kt__factors *factors;
    kt__adam adam;
    draw draws[DRAW_ROLES];
    float *grads;
    size_t *picked;
    float *weights;
    size_t n_picked;
    kt__resume resume;
    int first; /* step: those before it were taken by a process that ended */
    kt__learn_report *report;
} trainer;

int64_t kt__train_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static draw_role role_of(const kt__sample *s) {
    return s->kind == KT__SAMPLE_REPLAY      ? DRAW_REPLAY
           : s->kind == KT__SAMPLE_NEIGHBOUR ? DRAW_NEIGHBOUR
                                             : DRAW_FEEDBACK;
}

static int batch_of(const kt__learn_settings *s, draw_role role) {
    if (role == DRAW_FEEDBACK) return s->batch;
    if (s->replay_weight == 0.0f) return 0;
    return role == DRAW_REPLAY ? s->batch_replay : s->batch_neighbour;
}

static void shuffle_draw(draw *d, uint64_t seed, draw_role role) {
    for (size_t i = d->n; i > 1; i--) {
        double u = kt__rng_uniform(seed, (uint32_t)role, i, d->round);
        size_t k = (size_t)(u * (double)i), swapped = d->list[k];
        d->list[k] = d->list[i - 1];
        d->list[i - 1] = swapped;
    }
    d->round++;
    d->next = 0;
}

static kt_status make_draws(trainer *r, kt_error *err) {
    const kt__training *t = r->t;
    for (int role = 0; role < DRAW_ROLES; role++) {
        draw *d = &r->draws[role];
        d->list = kt__calloc(t->n + 1, sizeof *d->list);
        if (!d->list) return kt__fail_nomem(err, "a training's order", t->n * sizeof *d->list);
        for (size_t i = 0; i < t->n; i++)
            if ((int)role_of(&t->samples[t->list[i]]) == role) d->list[d->n++] = t->list[i];
        shuffle_draw(d, t->settings->seed, (draw_role)role);
    }
    return KT_OK;
}

static kt_status take_memory(trainer *r, kt_error *err) {
    const kt__learn_settings *s = r->t->settings;
    size_t n = (size_t)s->batch + (size_t)s->batch_replay + (size_t)s->batch_neighbour;
    kt_status status;
    KT__TRY(kt__adam_init(&r->adam, r->factors->n_value, err));
    KT__TRY(make_draws(r, err));
    r->grads = kt__calloc(r->factors->n_value, sizeof *r->grads);
    r->picked = kt__calloc(n, sizeof *r->picked);
    r->weights = kt__calloc(n, sizeof *r->weights);
    if (!r->grads || !r->picked || !r->weights)
        status = kt__fail_nomem(err, "a training's gradients",
                                r->factors->n_value * sizeof *r->grads);
out:
    return status;
}

static void free_memory(trainer *r) {
    kt__adam_free(&r->adam);
    for (int role = 0; role < DRAW_ROLES; role++) kt__free(r->draws[role].list);
    kt__free(r->grads);
    kt__free(r->picked);
    kt__free(r->weights);
}

/* The step's samples of a role; the tokens of all of them together weigh `all`. */
static void pick_samples(trainer *r, draw_role role, float all) {
    draw *d = &r->draws[role];
    size_t first = r->n_picked, want = (size_t)batch_of(r->t->settings, role);
    double tokens = 0.0;
    if (d->n < want) want = d->n;
    for (size_t i = 0; i < want; i++) {
        if (d->next == d->n) shuffle_draw(d, r->t->settings->seed, role);
        r->picked[r->n_picked++] = d->list[d->next++];
    }
    for (size_t i = first; i < r->n_picked; i++) {
        const kt__sample *s = &r->t->samples[r->picked[i]];
        tokens += (double)s->weight * kt__sample_n_masked(s);
        r->report->n_token += s->n;
    }
    for (size_t i = first; i < r->n_picked; i++)
        r->weights[i] = tokens > 0.0 ? (float)((double)all *
                                               (double)r->t->samples[r->picked[i]].weight / tokens)
                                     : 0.0f;
}

/* lambda F (w - w*), the gradient of the penalty. */
static void add_penalty(trainer *r) {
    const kt__learn_from *from = r->t->from;
    float lambda = r->t->settings->ewc_lambda;
    if (!from || !from->centre || !from->fisher || lambda == 0.0f) return;
    for (size_t i = 0; i < r->factors->n_value; i++)
        r->grads[i] += lambda * from->fisher[i] * (r->factors->values[i] - from->centre->values[i]);
}

/* A step moves each value of A by the rate, so that what it adds to A x grows with the inputs that are summed: with 5e-3
 * SmolLM2-135M (1,536 inputs at most) learns, and Qwen2.5-Coder-1.5B (8,960) diverges, which learns with 1e-3. */
float kt__learn_rate(const kt__factors *factors) {
    const float highest = 5e-3f, inputs = 1536.0f;
    int widest = 0;
    for (int i = 0; i < factors->n; i++)
        if (factors->of[i].n_col > widest) widest = factors->of[i].n_col;
    return (float)widest > inputs ? highest * inputs / (float)widest : highest;
}

/* Up over the first twentieth, then down to 0 in a line. */
static float rate_at(const kt__learn_settings *s, int step) {
    int warm = s->n_step / 20 + 1;
    if (step < warm) return s->rate * (float)(step + 1) / (float)warm;
    return s->rate * (float)(s->n_step - step) / (float)(s->n_step - warm + 1);
}

static bool is_out_of_time(const trainer *r) {
    int64_t max_ms = r->t->settings->cpu_ms_max;
    return max_ms > 0 && kt__train_cpu_ns() - r->t->cpu_begin_ns > max_ms * 1000000;
}

static void pick_step(trainer *r) {
    const kt__learn_settings *s = r->t->settings;
    r->n_picked = 0;
    pick_samples(r, DRAW_FEEDBACK, 1.0f);
    pick_samples(r, DRAW_REPLAY, s->replay_weight);
    pick_samples(r, DRAW_NEIGHBOUR, s->neighbour_weight);
}

static kt_status take_step(trainer *r, int step, double *loss, kt_error *err) {
    const kt__learn_settings *s = r->t->settings;
    memset(r->grads, 0, r->factors->n_value * sizeof *r->grads);
    pick_step(r);
    KT__STEP(kt__learner_step(r->learner, r->factors, r->picked, r->weights, r->n_picked, r->grads,
                              loss, err));
    add_penalty(r);
    (void)kt__adam_step(&r->adam, r->factors->values, r->grads, rate_at(s, step));
    return KT_OK;
}

/* What an interrupted one has reached; the samples of its steps are drawn again. */
static void resume_steps(trainer *r) {
    kt__resume_state state = {.values = r->factors->values, .adam = &r->adam};
    r->resume.path = r->t->settings->resume;
    if (!r->resume.path) return;
    kt__resume_bind(&r->resume, r->t, r->factors);
    if (!kt__resume_read(&r->resume, &state)) return;
    r->first = state.n_step;
    r->report->train_loss = state.train_loss;
    r->report->n_resumed = r->first;
    for (int step = 0; step < r->first; step++) pick_step(r);
}

static void keep_step(trainer *r, int n_step) {
    const kt__resume_state state = {r->factors->values, &r->adam, n_step, r->report->train_loss};
    kt__resume_keep(&r->resume, &state, n_step == r->t->settings->n_step);
}

static kt_status run_steps(trainer *r, kt_error *err) {
    const kt__learn_settings *s = r->t->settings;
    int last = s->n_step - s->n_step / 10 - 1, n = r->first > last ? r->first - last : 0;
    /* the first step is kept at once: it says that all else is there */
    for (int step = r->first; step < s->n_step; step++) {
        double loss = 0.0;
        kt_status status = take_step(r, step, &loss, err);
        if (status != KT_OK) return status;
        if (s->progress) s->progress(s->progress_user, step + 1, loss);
        if (step >= last && ++n) r->report->train_loss += (loss - r->report->train_loss) / n;
        keep_step(r, step + 1);
        if (is_out_of_time(r)) {
            r->report->stopped = step + 1 < s->n_step;
            break;
        }
    }
    r->report->n_step = r->adam.n_step;
    r->report->n_dropped = r->adam.n_dropped;
    if (r->adam.n_step == 0)
        return kt__fail(err, KT_E_NUMERIC,
                        "every update of the training had numbers that are not finite");
    return KT_OK;
}

/* The base's states of those that will be drawn: the next ones of the order, or all where it begins anew. */
static kt_status keep_base(trainer *r, draw_role role, kt_error *err) {
    const draw *d = &r->draws[role];
    const kt__learn_settings *s = r->t->settings;
    size_t n = (size_t)(s->n_step - r->first) * (size_t)batch_of(s, role);
    if (n <= d->n - d->next) return kt__learner_keep_base(r->learner, d->list + d->next, n, err);
    return kt__learner_keep_base(r->learner, d->list, d->n, err);
}

kt_status kt__train(kt__learner *learner, const kt__training *training, kt__factors *factors,
                    kt__learn_report *report, kt_error *err) {
    trainer r = {.learner = learner, .t = training, .factors = factors, .report = report};
    kt_status status;
    KT__TRY(take_memory(&r, err));
    resume_steps(&r);
    KT__TRY(keep_base(&r, DRAW_REPLAY, err));
    KT__TRY(keep_base(&r, DRAW_NEIGHBOUR, err));
    KT__TRY(run_steps(&r, err));
out:
    free_memory(&r);
    return status;
}

/* ---- adam ---- */

static const float beta1 = 0.9f, beta2 = 0.99f, tiny = 1e-8f;

kt_status kt__adam_init(kt__adam *a, size_t n, kt_error *err) {
    *a = (kt__adam){.n = n};
    a->m = kt__calloc(n, sizeof *a->m);
    a->v = kt__calloc(n, sizeof *a->v);
    if (a->m && a->v) return KT_OK;
    kt__adam_free(a);
    return kt__fail_nomem(err, "the optimiser's moments", 2 * n * sizeof(float));
}

void kt__adam_free(kt__adam *a) {
    kt__free(a->m);
    kt__free(a->v);
    *a = (kt__adam){0};
}

bool kt__adam_step(kt__adam *a, float *values, float *grads, float rate) {
    double square = 0.0;
    for (size_t i = 0; i < a->n; i++) square += (double)grads[i] * (double)grads[i];
    if (!isfinite(square)) {
        a->n_dropped++;
        return false;
    }
    double norm = sqrt(square);
    float clip = norm > 1.0 ? (float)(1.0 / norm) : 1.0f;
    a->n_step++;
    float c1 = 1.0f, c2 = 1.0f;
    for (int i = 0; i < a->n_step && i < 4096; i++) c1 *= beta1, c2 *= beta2;
    c1 = 1.0f / (1.0f - c1), c2 = 1.0f / (1.0f - c2);
    for (size_t i = 0; i < a->n; i++) {
        float g = grads[i] * clip;
        a->m[i] = beta1 * a->m[i] + (1.0f - beta1) * g;
        a->v[i] = beta2 * a->v[i] + (1.0f - beta2) * g * g;
        values[i] -= rate * (a->m[i] * c1) / (sqrtf(a->v[i] * c2) + tiny);
    }
    return true;
}
