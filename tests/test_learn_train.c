/* Training of small models: samples are learned and replay is kept, the same bytes with any threads
 * and tier; the gate's conditions; consolidation; refusals, cancel, failing allocations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault_alloc.h"
#include "kernels/dispatch.h"
#include "learn/learn.h"
#include "learn/learner.h"
#include "model_fixture.h"

enum { LEN = 12, ANSWER = 6, N_FACT = 12, N_WORDING = 3, N_KEPT = 40, EOT = 2 };
enum { N_SAMPLE = N_FACT * N_WORDING + 2 * N_KEPT };

static const fixture_spec spec = {.arch = "qwen3",
                                  .n_layer = 2,
                                  .d_model = 32,
                                  .d_ff = 64,
                                  .n_head = 4,
                                  .n_head_kv = 2,
                                  .head_dim = 8,
                                  .n_vocab = 60,
                                  .qk_norm = true,
                                  .tied = true};

typedef struct world {
    kt__gguf *gguf;
    kt__net *net;
    kt__pool *pool;
    const kt__kernels *kernels;
    kt__learn_on on;
    kt__learn_settings settings;
    int32_t ids[N_SAMPLE][LEN];
    uint8_t mask[LEN];
    kt__sample samples[N_SAMPLE];
    uint32_t state;
} world;

static char path[64];

static void open_world(world *w, int n_thread, const char *isa) {
    kt_error err;
    char why[64];
    kt__cpu cpu;
    kt__gguf_open_params op = {.use_mmap = true};
    *w = (world){.state = 5};
    snprintf(path, sizeof path, "/tmp/kentang-train-%d.gguf", (int)getpid());
    assert_int_equal(fixture_write(&spec, path, &err), KT_OK);
    assert_int_equal(kt__gguf_open(path, &op, &w->gguf, &err), KT_OK);
    assert_int_equal(kt__net_bind(w->gguf, NULL, &w->net, &err), KT_OK);
    kt__cpu_detect(&cpu);
    assert_int_equal(kt__kernels_select(&cpu, isa, &w->kernels, why, sizeof why, &err), KT_OK);
    assert_int_equal(kt__pool_create(n_thread, &w->pool, &err), KT_OK);
    w->on = (kt__learn_on){w->net, w->pool, w->kernels, EOT};
    kt__learn_defaults(&w->settings);
    w->settings.rank = 4;
    w->settings.alpha = 8.0f;
    w->settings.n_step = 60;
    w->settings.batch = 16;
    w->settings.batch_replay = 6;
    w->settings.batch_neighbour = 8;
    w->settings.replay_weight = 1.0f;
    w->settings.neighbour_weight = 1.0f;
    w->settings.shrink = false;
    w->settings.rate = 2e-2f;
}

static void close_world(world *w) {
    kt__pool_destroy(w->pool);
    kt__net_free(w->net);
    kt__gguf_close(w->gguf);
    unlink(path);
}

static int32_t random_id(world *w, int from, int n) {
    lcg(&w->state);
    return from + (int32_t)((w->state >> 8) % (uint32_t)n);
}

/* A fact is a subject's token among others and an answer of its own, asked for in some wordings;
 * what is kept are other questions with answers that are likely anyway. */
static void make_samples(world *w) {
    int at = 0;
    for (int t = 0; t < LEN; t++) w->mask[t] = t >= LEN - ANSWER;
    for (int fact = 0; fact < N_FACT; fact++) {
        int32_t answer[ANSWER];
        for (int t = 0; t < ANSWER - 1; t++) answer[t] = random_id(w, 30, 28);
        answer[ANSWER - 1] = EOT;
        for (int wording = 0; wording < N_WORDING; wording++, at++) {
            for (int t = 0; t < LEN - ANSWER; t++) w->ids[at][t] = random_id(w, 4, 6);
            w->ids[at][3] = 10 + fact;
            memcpy(&w->ids[at][LEN - ANSWER], answer, sizeof answer);
            w->samples[at] = (kt__sample){.kind = KT__SAMPLE_CORRECTION};
        }
    }
    for (; at < N_SAMPLE; at++) {
        bool near = at % 2;
        for (int t = 0; t < LEN; t++) w->ids[at][t] = random_id(w, near ? 4 : 22, 8);
        w->samples[at] = (kt__sample){.kind = near ? KT__SAMPLE_NEIGHBOUR : KT__SAMPLE_REPLAY};
    }
    for (at = 0; at < N_SAMPLE; at++) {
        kt__sample *s = &w->samples[at];
        s->ids = w->ids[at];
        s->mask = w->mask;
        s->n = LEN;
        s->weight = 1.0f;
        s->group = (uint64_t)at;
    }
}

static kt__factors *learn(world *w, const kt__learn_from *from, kt__learn_report *report) {
    kt_error err;
    kt__factors *f = NULL;
    kt_status status = kt__learn(&w->on, w->samples, N_SAMPLE, &w->settings, from, &f, report,
                                 &err);
    if (status != KT_OK) fail_msg("%s", err.message);
    return f;
}

/* ---- learning ---- */

static void test_samples_are_learned(void **state) {
    (void)state;
    world w;
    kt__learn_report report, forgot;
    open_world(&w, 2, NULL);
    make_samples(&w);
    w.settings.n_step = 150;
    kt__factors *f = learn(&w, NULL, &report);
    print_message("held out %.3f -> %.3f, anchor %.3f -> %.3f, recalled %d of %d\n",
                  report.held.before, report.held.after, report.anchor.before, report.anchor.after,
                  report.recalled, report.n_recall);
    assert_int_equal(report.n_step, 150);
    assert_int_equal(report.n_dropped, 0);
    assert_true(report.held.after < 0.5 * report.held.before);
    assert_true(fabs(report.quality_delta - (report.held.before - report.held.after)) < 1e-12);
    assert_true(report.gain_low > 0.0 && report.gain_low < report.quality_delta);
    assert_true(report.recalled > report.n_recall * 3 / 4);
    kt__factors_free(f);
    w.settings.replay_weight = 0.0f;
    f = learn(&w, NULL, &forgot);
    double kept = report.anchor.after - report.anchor.before;
    double lost = forgot.anchor.after - forgot.anchor.before;
    print_message("the anchor's loss rises by %.3f, without replay by %.3f\n", kept, lost);
    assert_true(lost > 2.0 * kept);
    kt__factors_free(f);
    close_world(&w);
}

/* The same adapter from any number of threads and tier; another one from another seed. */
static void test_training_has_one_answer(void **state) {
    (void)state;
    const struct run {
        int n_thread;
        const char *isa;
        uint64_t seed;
    } runs[] = {{1, "ref", 1}, {2, NULL, 1}, {3, NULL, 1}, {2, NULL, 2}};
    kt__factors *first = NULL;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        world w;
        kt__learn_report report;
        open_world(&w, runs[i].n_thread, runs[i].isa);
        make_samples(&w);
        w.settings.n_step = 8;
        w.settings.seed = runs[i].seed;
        kt__factors *f = learn(&w, NULL, &report);
        if (!first) {
            first = f;
        } else {
            int differs = memcmp(f->values, first->values, f->n_value * sizeof *f->values) != 0;
            assert_int_equal(differs, runs[i].seed != 1);
            kt__factors_free(f);
        }
        close_world(&w);
    }
    kt__factors_free(first);
}

/* Thumbs down lower what they are for, and no more than a little is left of -log p beyond. */
static void test_thumbs_down_stay_bounded(void **state) {
    (void)state;
    world w;
    kt__learn_report report;
    open_world(&w, 2, NULL);
    make_samples(&w);
    for (int i = 0; i < N_FACT * N_WORDING; i++) w.samples[i].kind = KT__SAMPLE_DOWN;
    w.settings.n_step = 120;
    kt__factors *f = learn(&w, NULL, &report);
    assert_true(report.held.after <= report.held.before + 0.05);
    for (size_t i = 0; i < f->n_value; i++) assert_true(isfinite(f->values[i]));
    assert_true(report.anchor.after < report.anchor.before + 1.0);
    kt__factors_free(f);
    close_world(&w);
}

/* A thousand thumbs on a few answers, at random or all of them down: what they make is refused, or raises
 * the perplexity of everything else by no more than the gate allows; and what the gate is given, by
 * no more than a twentieth. */
static void expect_harmless(world *w, int n_down_of_8) {
    enum { N_THUMB = 1000 };
    static kt__sample samples[N_THUMB + 2 * N_KEPT];
    kt_error err;
    kt__learn_report r;
    kt__factors *f = NULL;
    for (int i = 0; i < N_THUMB; i++) {
        samples[i] = w->samples[i % (N_FACT * N_WORDING)];
        samples[i].kind = random_id(w, 0, 8) < n_down_of_8 ? KT__SAMPLE_DOWN : KT__SAMPLE_UP;
    }
    memcpy(samples + N_THUMB, w->samples + N_FACT * N_WORDING, 2 * N_KEPT * sizeof *samples);
    for (int i = 0; i < N_THUMB + 2 * N_KEPT; i++) samples[i].group = (uint64_t)i;
    kt_status status = kt__learn(&w->on, samples, N_THUMB + 2 * N_KEPT, &w->settings, NULL, &f, &r,
                                 &err);
    if (status != KT_OK) fail_msg("%s", err.message);
    double rise = exp(r.anchor.after - r.anchor.before) - 1.0;
    print_message("%d of 8 down: perplexity %+.2f%%, KL %.4f, share %.3f: %s\n", n_down_of_8,
                  100.0 * rise, r.anchor_kl, r.share, r.publish ? "published" : r.why);
    assert_true(!r.publish || r.anchor_kl <= w->settings.anchor_max);
    assert_true(rise <= 0.05);
    kt__factors_free(f);
}

static void test_a_thousand_thumbs_are_bounded(void **state) {
    (void)state;
    world w;
    open_world(&w, 2, NULL);
    make_samples(&w);
    /* the replay that the share is chosen by is like the gate's, though not the same samples */
    for (int i = N_FACT * N_WORDING + 2; i < N_SAMPLE; i++)
        memcpy(w.ids[i], w.ids[i - 2], sizeof w.ids[i]);
    w.settings.shrink = true;
    expect_harmless(&w, 4);
    expect_harmless(&w, 8);
    close_world(&w);
}

/* What is written is the likeliest token behind each before it. */
static void test_written_answers_are_greedy(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__learn_report report;
    kt__learner *learner = NULL;
    kt__written texts[N_SAMPLE];
    size_t list[N_SAMPLE];
    open_world(&w, 2, NULL);
    make_samples(&w);
    kt__factors *f = learn(&w, NULL, &report);
    assert_int_equal(kt__learner_create(&w.on, w.samples, N_SAMPLE, &w.settings, &learner, &err),
                     KT_OK);
    for (size_t i = 0; i < N_SAMPLE; i++) list[i] = N_SAMPLE - 1 - i;
    assert_int_equal(kt__learner_write(learner, f, list, N_SAMPLE, NULL, NULL, texts, &err), KT_OK);
    int n_short = 0;
    for (size_t i = 0; i < N_SAMPLE; i++) {
        int32_t ids[LEN + KT__WRITTEN_MAX];
        uint8_t mask[LEN + KT__WRITTEN_MAX] = {0};
        int n = LEN - ANSWER + texts[i].n;
        memcpy(ids, w.ids[list[i]], (LEN - ANSWER) * sizeof *ids);
        memcpy(ids + LEN - ANSWER, texts[i].ids, (size_t)texts[i].n * sizeof *ids);
        if (texts[i].n < KT__WRITTEN_MAX) ids[n++] = EOT;
        n_short += texts[i].n == ANSWER - 1;
        memset(mask + LEN - ANSWER, 1, (size_t)(n - (LEN - ANSWER)));
        const kt__sample s = {.ids = ids, .mask = mask, .n = n, .weight = 1.0f};
        kt__sample_score score;
        assert_int_equal(kt__learner_score_others(learner, f, &s, 1, &score, &err), KT_OK);
        assert_true(score.recalled);
    }
    assert_true(n_short > N_FACT); /* taught answers end where they should */
    kt__learner_destroy(learner);
    kt__factors_free(f);
    close_world(&w);
}

/* What was trained counts less, until the anchor rises by no more than it may; and the training itself
 * is the same. */
static void test_shrunk(void **state) {
    (void)state;
    world w;
    kt__learn_report whole, part;
    open_world(&w, 2, NULL);
    make_samples(&w);
    w.settings.n_step = 150;
    /* the replay that the share is chosen by is like the gate's, though not the same samples */
    for (int i = N_FACT * N_WORDING + 2; i < N_SAMPLE; i++)
        memcpy(w.ids[i], w.ids[i - 2], sizeof w.ids[i]);
    w.settings.replay_weight = 0.0f;
    w.settings.anchor_max = 0.01;
    kt__factors *a = learn(&w, NULL, &whole);
    w.settings.shrink = true;
    kt__factors *b = learn(&w, NULL, &part);
    print_message("anchor's KL %.4f, with a share of %.3f %.4f\n", whole.anchor_kl, part.share,
                  part.anchor_kl);
    assert_true(whole.share == 1.0 && whole.anchor_kl > 0.01);
    assert_true(part.share > 0.0 && part.share < 1.0);
    assert_true(part.anchor_kl > 0.0 && part.anchor_kl <= 0.0055);
    for (int i = 0; i < a->n; i++) {
        const kt__factor *of = &a->of[i];
        size_t n = (size_t)a->rank * (size_t)of->n_row;
        assert_memory_equal(a->values + of->a, b->values + of->a,
                            (size_t)a->rank * (size_t)of->n_col * sizeof(float));
        for (size_t k = 0; k < n; k++)
            assert_true(b->values[of->b + k] == a->values[of->b + k] * (float)part.share);
    }
    kt__factors_free(a);
    kt__factors_free(b);
    close_world(&w);
}

/* Of the shares at which as many wordings are right, the largest that other questions about the subjects allow. */
static void test_siblings_bound_the_share(void **state) {
    (void)state;
    world w;
    kt__learn_report all, few;
    open_world(&w, 2, NULL);
    make_samples(&w);
    for (int i = N_FACT * N_WORDING; i < N_SAMPLE; i++) {
        w.samples[i].kind = KT__SAMPLE_NEIGHBOUR;
        if (i % 2) continue;
        memcpy(w.ids[i], w.ids[i % N_FACT * N_WORDING], (LEN - ANSWER) * sizeof **w.ids);
        w.ids[i][1] = random_id(&w, 4, 6);
        w.samples[i].use = KT__SAMPLE_MEASURED;
    }
    w.settings.batch_replay = w.settings.batch_neighbour = 0;
    w.settings.n_step = 120;
    w.settings.scoped = w.settings.shrink = true;
    w.settings.sibling_part = 1.0;
    kt__factors_free(learn(&w, NULL, &all));
    w.settings.sibling_part = 0.05;
    kt__factors_free(learn(&w, NULL, &few));
    print_message("%d siblings: %d leak at %.2f, %d at %.2f\n", all.n_sibling, all.sibling_leaks,
                  all.share, few.sibling_leaks, few.share);
    assert_true(all.sibling_leaks > 0.05 * all.n_sibling);
    assert_true(few.share < all.share && few.sibling_leaks < all.sibling_leaks);
    close_world(&w);
}

/* ---- limits ---- */

static void stop_at_five(void *user, int step, double loss) {
    (void)loss;
    if (step == 5) atomic_store((atomic_bool *)user, true);
}

static bool not_cancelled(void *user) {
    return !atomic_load((atomic_bool *)user);
}

static void test_limits(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__factors *f = NULL;
    kt__learn_report report;
    atomic_bool cancel = false;
    open_world(&w, 2, NULL);
    make_samples(&w);
    w.settings.go_on = not_cancelled;
    w.settings.go_on_user = &cancel;
    w.settings.progress = stop_at_five;
    w.settings.progress_user = &cancel;
    assert_int_equal(kt__learn(&w.on, w.samples, N_SAMPLE, &w.settings, NULL, &f, &report, &err),
                     KT_E_CANCELLED);
    assert_null(f);
    w.settings.go_on = NULL;
    w.settings.progress = NULL;
    w.settings.cpu_ms_max = 1;
    f = learn(&w, NULL, &report);
    assert_true(report.stopped && report.n_step < w.settings.n_step);
    kt__factors_free(f);
    close_world(&w);
}

static void expect_refused(world *w, const char *what) {
    kt_error err = {0};
    kt__factors *f = NULL;
    kt__learn_report report;
    kt_status status = kt__learn(&w->on, w->samples, N_SAMPLE, &w->settings, NULL, &f, &report,
                                 &err);
    if (status != KT_E_ARG) fail_msg("%s: %s", what, kt_status_name(status));
    assert_non_null(strstr(err.message, what));
    assert_null(f);
}

static void test_refusals(void **state) {
    (void)state;
    world w;
    kt__learn_settings good;
    open_world(&w, 1, NULL);
    make_samples(&w);
    good = w.settings;
#define BAD(member, value, what)   \
    do {                           \
        w.settings.member = value; \
        expect_refused(&w, what);  \
        w.settings = good;         \
    } while (0)
    BAD(rank, 0, "rank");
    BAD(rank, 5000, "rank");
    BAD(rate, NAN, "rate");
    BAD(n_step, 0, "steps");
    BAD(ewc_lambda, -1.0f, "ewc_lambda");
    BAD(held_out, 1.0, "held-out");
    BAD(replay_weight, NAN, "replay weight");
    int32_t *ids = w.ids[3];
    ids[4] = spec.n_vocab;
    expect_refused(&w, "token 60");
    ids[4] = -1;
    expect_refused(&w, "token -1");
    ids[4] = 1;
    w.samples[7].weight = NAN;
    expect_refused(&w, "weight");
    w.samples[7].weight = 1.0f;
    w.samples[7].n = 1;
    expect_refused(&w, "tokens");
    w.samples[7].n = LEN;
    static const uint8_t none[LEN] = {0};
    w.samples[7].mask = none;
    expect_refused(&w, "no tokens to learn");
    w.samples[7].mask = w.mask;
    w.samples[7].kind = KT__SAMPLE_KINDS;
    expect_refused(&w, "unknown kind");
    close_world(&w);
}

/* What no rate is given for learns with 0.005, or where the widest matrix has more inputs with so much less (8,960:
 * Qwen2.5-Coder-1.5B, whose loss rose from 2.5 to 29 in twelve steps of 0.005). */
static void test_rate_follows_the_widest_matrix(void **state) {
    (void)state;
    world w;
    kt__learn_report report;
    kt__factor of[2] = {{.n_col = 576}, {.n_col = 1536}};
    const kt__factors factors = {.of = of, .n = 2};
    assert_true(kt__learn_rate(&factors) == 5e-3f);
    of[0].n_col = 8960;
    assert_true(fabsf(kt__learn_rate(&factors) - 8.57e-4f) < 1e-6f);
    open_world(&w, 1, NULL);
    make_samples(&w);
    w.settings.n_step = 3;
    w.settings.rate = 5e-3f;
    kt__factors *given = learn(&w, NULL, &report);
    w.settings.rate = 0.0f;
    kt__factors *chosen = learn(&w, NULL, &report);
    assert_memory_equal(given->values, chosen->values, given->n_value * sizeof *given->values);
    kt__factors_free(given);
    kt__factors_free(chosen);
    close_world(&w);
}

static void test_updates_that_are_not_finite_are_dropped(void **state) {
    (void)state;
    kt__adam adam;
    kt_error err;
    float values[3] = {1.0f, 2.0f, 3.0f}, grads[3] = {0.5f, NAN, 0.0f};
    assert_int_equal(kt__adam_init(&adam, 3, &err), KT_OK);
    assert_false(kt__adam_step(&adam, values, grads, 0.1f));
    grads[1] = INFINITY;
    assert_false(kt__adam_step(&adam, values, grads, 0.1f));
    assert_true(values[0] == 1.0f && values[1] == 2.0f && values[2] == 3.0f);
    assert_int_equal(adam.n_dropped, 2);
    grads[1] = -4.0f;
    assert_true(kt__adam_step(&adam, values, grads, 0.1f));
    assert_true(values[0] < 1.0f && values[1] > 2.0f && values[2] == 3.0f);
    assert_true(fabsf(values[0] - 0.9f) < 1e-4f); /* a first step of Adam is the rate */
    kt__adam_free(&adam);
}

/* No memory anywhere in a short training: an error, and nothing left. */
static void test_failing_allocations(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt_status status = KT_E_NOMEM;
    open_world(&w, 1, NULL);
    make_samples(&w);
    w.settings.n_step = 1;
    size_t before = live;
    for (long i = 0; status == KT_E_NOMEM; i++) {
        kt__factors *f = NULL;
        kt__learn_report report;
        fail_at = n_calls + i;
        status = kt__learn(&w.on, w.samples, N_SAMPLE, &w.settings, NULL, &f, &report, &err);
        fail_at = -1;
        kt__factors_free(f);
        assert_true(live == before);
        assert_true(i < 5000);
    }
    assert_int_equal(status, KT_OK);
    close_world(&w);
}

/* ---- the gate ---- */

static void test_conversations_are_not_divided(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__split split;
    open_world(&w, 1, NULL);
    make_samples(&w);
    for (int i = 0; i < N_SAMPLE; i++) w.samples[i].group = (uint64_t)(i / 3 * 7919);
    assert_int_equal(kt__split_make(w.samples, N_SAMPLE, &w.settings, &split, &err), KT_OK);
    bool held[N_SAMPLE] = {0};
    for (size_t i = 0; i < split.n_train; i++) held[split.train[i]] = true;
    for (int i = 0; i < N_SAMPLE; i++) assert_int_equal(held[i], held[i / 3 * 3]);
    assert_int_equal(split.n_train + split.n_held + split.n_anchor + split.n_share +
                         split.n_neighbour,
                     N_SAMPLE);
    assert_true(split.n_share > 0); /* neither trained nor judged by */
    for (size_t i = 0; i < split.n_share; i++) {
        assert_false(held[split.share[i]]);
        for (size_t k = 0; k < split.n_anchor; k++)
            assert_true(w.samples[split.share[i]].group != w.samples[split.anchor[k]].group);
    }
    assert_int_equal(split.n_held, 6); /* two of twelve, and a half, rounded */
    kt__split_free(&split);
    close_world(&w);
}

/* Of each question one wording is measured and the others are trained: five questions are enough. */
static void test_wordings_are_measured(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__split split;
    kt__learn_report report = {0};
    bool may;
    enum { N = 5 * N_WORDING };
    open_world(&w, 1, NULL);
    make_samples(&w);
    for (int i = 0; i < N; i++) {
        w.samples[i].group = (uint64_t)(i / N_WORDING);
        w.samples[i].use = i % N_WORDING == 2 ? KT__SAMPLE_MEASURED : KT__SAMPLE_DRAWN;
    }
    assert_int_equal(kt__split_make(w.samples, N, &w.settings, &split, &err), KT_OK);
    assert_int_equal(split.n_held, 5);
    assert_int_equal(split.n_train, N - 5);
    for (size_t i = 0; i < split.n_held; i++) assert_int_equal(split.held[i] % N_WORDING, 2);
    kt__split_free(&split);
    assert_int_equal(kt__gate_may_pass(w.samples, N, &w.settings, &may, &report, &err), KT_OK);
    assert_true(may);
    assert_int_equal(kt__gate_may_pass(w.samples, N - N_WORDING, &w.settings, &may, &report, &err),
                     KT_OK);
    assert_false(may);
    assert_non_null(strstr(report.why, ": 1 more question"));
    close_world(&w);
}

/* What was made for the training is never measured. */
static void test_made_samples(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__split split;
    enum { N = 30 };
    open_world(&w, 1, NULL);
    make_samples(&w);
    for (int i = 0; i < N; i++) {
        w.samples[i].group = (uint64_t)(1000 + i);
        w.samples[i].kind = i % 2 ? KT__SAMPLE_UP : KT__SAMPLE_NEIGHBOUR;
        w.samples[i].use = KT__SAMPLE_TRAINED;
    }
    assert_int_equal(kt__split_make(w.samples, N, &w.settings, &split, &err), KT_OK);
    assert_int_equal(split.n_train, N);
    assert_int_equal(split.n_held + split.n_neighbour + split.n_sibling, 0);
    kt__split_free(&split);
    close_world(&w);
}

static void test_bootstrap(void **state) {
    (void)state;
    double gain[20], n_tok[20];
    for (int i = 0; i < 20; i++) {
        gain[i] = 2.0;
        n_tok[i] = 4.0;
    }
    assert_true(fabs(kt__bootstrap_low(gain, n_tok, 20, 1) - 0.5) < 1e-12);
    for (int i = 0; i < 20; i++) gain[i] = i % 2 ? 3.0 : -3.2; /* nothing but chance */
    assert_true(kt__bootstrap_low(gain, n_tok, 20, 1) < 0.0);
    for (int i = 0; i < 20; i++) gain[i] = 1.0 + (i % 5);
    double low = kt__bootstrap_low(gain, n_tok, 20, 1);
    assert_true(low > 0.45 && low < 0.75); /* the mean is 3 of 4 tokens */
    assert_true(kt__bootstrap_low(gain, n_tok, 0, 1) == 0.0);
}

static void expect_judged(world *w, const kt__factors *f, bool publish, const char *why) {
    kt_error err;
    kt__learn_report r;
    assert_int_equal(kt__learn_judge(&w->on, w->samples, N_SAMPLE, &w->settings, NULL, f, &r, &err),
                     KT_OK);
    if (r.publish != publish || !strstr(r.why, why)) fail_msg("judged: '%s', not '%s'", r.why, why);
}

/* Answers without a bearing on their questions: likelier than before, and still nothing learned. */
static void test_shuffled_answers_are_refused(void **state) {
    (void)state;
    world w;
    kt__learn_report report;
    open_world(&w, 2, NULL);
    make_samples(&w);
    int32_t answers[N_FACT * N_WORDING][ANSWER];
    for (int i = 0; i < N_FACT * N_WORDING; i++)
        memcpy(answers[i], &w.ids[i][LEN - ANSWER], sizeof answers[i]);
    for (int i = 0; i < N_FACT * N_WORDING; i++)
        memcpy(&w.ids[i][LEN - ANSWER], answers[(17 * i + 5) % (N_FACT * N_WORDING)],
               sizeof answers[i]);
    w.settings.anchor_max = 1e5;
    w.settings.leak_max = 1.0;
    w.settings.held_out = 0.4;
    w.settings.n_step = 25;
    w.settings.rate = 5e-3f;
    kt__factors *f = learn(&w, NULL, &report);
    print_message("held out %.3f -> %.3f, pairs %.3f: %s\n", report.held.before, report.held.after,
                  report.pair_low, report.why);
    assert_false(report.publish);
    assert_true(report.n_pair > 5);
    kt__factors_free(f);
    close_world(&w);
}

static void test_gate(void **state) {
    (void)state;
    world w;
    kt__learn_report report;
    kt_error err;
    kt__factors *f, *nothing = NULL;
    open_world(&w, 2, NULL);
    make_samples(&w);
    w.settings.n_step = 150;
    w.settings.anchor_max = 1e5;
    w.settings.leak_max = 1.0;
    f = learn(&w, NULL, &report);
    assert_true(report.publish);
    expect_judged(&w, f, true, "");
    w.settings.anchor_max = 0.0;
    expect_judged(&w, f, false, "anchor");
    w.settings.anchor_max = 1e5;
    for (int i = 0; i < N_SAMPLE; i++) w.samples[i].earlier = i < 9;
    expect_judged(&w, f, true, "");
    for (int i = 0; i < N_SAMPLE; i++) w.samples[i].earlier = false;
    assert_int_equal(kt__factors_make(w.net, KT__LEARN_ALL, 4, 8.0f, 1, &nothing, &err), KT_OK);
    expect_judged(&w, nothing, false, "lower bound is 0.000");
    for (int i = 0; i < N_SAMPLE; i++)
        if (w.samples[i].kind == KT__SAMPLE_REPLAY) w.samples[i].kind = KT__SAMPLE_UP;
    expect_judged(&w, f, false, "");
    for (int i = 0; i < N_FACT * N_WORDING; i++) w.samples[i].group = (uint64_t)(i % 4);
    for (int i = N_FACT * N_WORDING; i < N_SAMPLE; i++)
        w.samples[i].kind = i % 2 ? KT__SAMPLE_NEIGHBOUR : KT__SAMPLE_REPLAY;
    expect_judged(&w, f, false, "too few");
    kt__factors_free(f);
    kt__factors_free(nothing);
    close_world(&w);
}

static void test_report_is_json(void **state) {
    (void)state;
    kt__learn_report r = {.publish = false, .why = "a \"reason\"", .quality_delta = 0.12345};
    kt__buf buf;
    kt__buf_init(&buf, 4096);
    kt__learn_report_json(&r, &buf);
    assert_false(buf.failed);
    assert_non_null(strstr(buf.data, "\"quality_delta\":0.123,"));
    assert_non_null(strstr(buf.data, "\"why\":\"a \\\"reason\\\"\""));
    assert_int_equal(buf.data[buf.len - 1], '}');
    kt__buf_free(&buf);
}

/* ---- consolidation ---- */

static double entry(const kt__factors *f, int index, int row, int col) {
    const kt__factor *of = &f->of[index];
    double sum = 0.0;
    for (int j = 0; j < f->rank; j++)
        sum += (double)f->values[of->b + (size_t)(row * f->rank + j)] *
               (double)f->values[of->a + (size_t)(j * of->n_col + col)];
    return sum;
}

/* |mean of the products - the average's product|, of |that mean|, over all matrices. */
static double average_error(const kt__factors *const *of, size_t n, const kt__factors *average) {
    double error = 0.0, size = 0.0;
    for (int m = 0; m < average->n; m++) {
        for (int r = 0; r < average->of[m].n_row; r++) {
            for (int c = 0; c < average->of[m].n_col; c++) {
                double mean = 0.0, got = entry(average, m, r, c);
                for (size_t i = 0; i < n; i++) mean += entry(of[i], m, r, c) / (double)n;
                error += (mean - got) * (mean - got);
                size += mean * mean;
            }
        }
    }
    return sqrt(error / size);
}

static void fill_factors(kt__factors *f, uint32_t seed, int n_rank) {
    for (size_t i = 0; i < f->n_value; i++) f->values[i] = fixture_weight(&seed);
    for (int m = 0; m < f->n; m++) /* only the first ranks are used */
        for (int r = 0; r < f->of[m].n_row; r++)
            for (int j = n_rank; j < f->rank; j++)
                f->values[f->of[m].b + (size_t)(r * f->rank + j)] = 0.0f;
}

static void test_average_of_products(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__factors *f[3] = {0}, *average = NULL;
    open_world(&w, 1, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kt__factors_make(w.net, KT__LEARN_ALL, 4, 8.0f, (uint64_t)i, &f[i], &err),
                         KT_OK);
        fill_factors(f[i], (uint32_t)i + 1, i == 0 ? 3 : 1);
    }
    const kt__factors *of[] = {f[0], f[0], f[1]};
    assert_int_equal(kt__factors_average(of, 1, &average, &err), KT_OK);
    assert_true(average_error(of, 1, average) < 1e-5);
    kt__factors_free(average);
    assert_int_equal(kt__factors_average(of, 3, &average, &err), KT_OK); /* ranks 3 and 1 */
    assert_true(average_error(of, 3, average) < 1e-5);
    kt__factors_free(average);
    fill_factors(f[1], 9, 4);
    fill_factors(f[2], 8, 4);
    const kt__factors *full[] = {f[1], f[2]};
    assert_int_equal(kt__factors_average(full, 2, &average, &err), KT_OK);
    double error = average_error(full, 2, average); /* rank 8 in 4: a part is lost, not most */
    assert_true(error > 0.1 && error < 0.7);
    kt__factors_free(average);
    memset(f[1]->values, 0, f[1]->n_value * sizeof(float));
    assert_int_equal(kt__factors_average(full, 1, &average, &err), KT_OK);
    for (size_t i = 0; i < average->n_value; i++) assert_true(average->values[i] == 0.0f);
    kt__factors_free(average);
    assert_int_equal(kt__factors_average(full, 0, &average, &err), KT_E_ARG);
    for (int i = 0; i < 3; i++) kt__factors_free(f[i]);
    close_world(&w);
}

static void test_consolidation(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__learn_report report;
    kt__factors *good, *bad = NULL, *out = NULL;
    open_world(&w, 2, NULL);
    make_samples(&w);
    good = learn(&w, NULL, &report);
    assert_int_equal(kt__factors_make(w.net, KT__LEARN_ALL, 4, 8.0f, 3, &bad, &err), KT_OK);
    const kt__factors *of[] = {bad, good};
    kt__consolidate what = {.how = KT__CONSOLIDATE_BEST_ONLY, .candidates = of, .n_candidate = 2};
#define CONSOLIDATE() \
    kt__learn_consolidate(&w.on, &what, w.samples, N_SAMPLE, &w.settings, &out, &report, &err)
    assert_int_equal(CONSOLIDATE(), KT_OK);
    assert_memory_equal(out->values, good->values, good->n_value * sizeof(float));
    double best = report.held.after;
    kt__factors_free(out);
    what.how = KT__CONSOLIDATE_AVERAGE;
    assert_int_equal(CONSOLIDATE(), KT_OK);
    assert_true(report.held.after > best && report.held.after < report.held.before);
    kt__factors_free(out);
    what.n_candidate = 0;
    assert_int_equal(CONSOLIDATE(), KT_E_ARG);
    assert_null(out);
    what.how = KT__CONSOLIDATE_EWC_MERGE;
    assert_int_equal(CONSOLIDATE(), KT_E_ARG); /* held to what? */
    kt__factors_free(good);
    kt__factors_free(bad);
    close_world(&w);
}

static double distance(const kt__factors *a, const kt__factors *b, const float *fisher) {
    double sum = 0.0;
    for (size_t i = 0; i < a->n_value; i++) {
        double d = (double)a->values[i] - (double)b->values[i];
        sum += (double)fisher[i] * d * d;
    }
    return sum;
}

/* What the first facts need stays where it is, the more the firmer it is held. */
static void test_ewc_holds(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt__learn_report report;
    kt__factors *prior, *out[2] = {0};
    double moved[2];
    open_world(&w, 2, NULL);
    make_samples(&w);
    for (int i = 0; i < 18; i++) w.samples[i].earlier = true;
    prior = learn(&w, NULL, &report);
    float *fisher = calloc(prior->n_value, sizeof *fisher);
    assert_int_equal(kt__learn_fisher(&w.on, prior, w.samples, 18, &w.settings, fisher, &err),
                     KT_OK);
    for (size_t i = 0; i < prior->n_value; i++) assert_true(fisher[i] >= 0.0f);
    uint32_t state_ids = 3;
    for (int i = 18; i < 36; i++) { /* other answers */
        for (int t = LEN - ANSWER; t < LEN - 1; t++) {
            lcg(&state_ids);
            w.ids[i][t] = 30 + (int32_t)((state_ids >> 8) % 28);
        }
    }
    const kt__consolidate what = {.how = KT__CONSOLIDATE_EWC_MERGE, .prior = prior};
    for (int i = 0; i < 2; i++) {
        w.settings.ewc_lambda = i ? 1000.0f : 0.0f;
        assert_int_equal(kt__learn_consolidate(&w.on, &what, w.samples, N_SAMPLE, &w.settings,
                                               &out[i], &report, &err),
                         KT_OK);
        moved[i] = distance(prior, out[i], fisher);
        kt__factors_free(out[i]);
    }
    print_message("moved where it matters: %.3g freely, %.3g held\n", moved[0], moved[1]);
    assert_true(moved[1] < 0.5 * moved[0]);
    free(fisher);
    kt__factors_free(prior);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_are_learned),
        cmocka_unit_test(test_training_has_one_answer),
        cmocka_unit_test(test_thumbs_down_stay_bounded),
        cmocka_unit_test(test_a_thousand_thumbs_are_bounded),
        cmocka_unit_test(test_written_answers_are_greedy),
        cmocka_unit_test(test_shrunk),
        cmocka_unit_test(test_siblings_bound_the_share),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_rate_follows_the_widest_matrix),
        cmocka_unit_test(test_updates_that_are_not_finite_are_dropped),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_conversations_are_not_divided),
        cmocka_unit_test(test_wordings_are_measured),
        cmocka_unit_test(test_made_samples),
        cmocka_unit_test(test_bootstrap),
        cmocka_unit_test(test_shuffled_answers_are_refused),
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_report_is_json),
        cmocka_unit_test(test_average_of_products),
        cmocka_unit_test(test_consolidation),
        cmocka_unit_test(test_ewc_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
