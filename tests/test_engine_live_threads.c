/* engine: a quota or an affinity that changes while it runs changes the number of threads, and no
 * answer. The limits come from the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/ctx.h"
#include "support.h"

enum { N_STEPS = 24, N_PROMPT = 40 };

typedef struct fake {
    int n_affinity_cores;
    double quota_cpus;
    int looks;
} fake;

static void fake_topology(kt__topology *out) {
    *out = (kt__topology){.n_logical = 8, .n_physical = 4, .n_performance = 4, .n_numa = 1};
}

static void fake_limits(void *user, kt__limits *out) {
    fake *f = user;
    f->looks++;
    *out = (kt__limits){.n_affinity = 8,
                        .n_affinity_cores = f->n_affinity_cores,
                        .quota_cpus = f->quota_cpus,
                        .mem_total_bytes = UINT64_C(1) << 33,
                        .mem_available_bytes = UINT64_C(1) << 32,
                        .page_bytes = 4096};
}

typedef struct setup {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
    int n_vocab;
} setup;

static char model_path[256];

static int make_model(void **state) {
    char command[1024];
    (void)state;
    snprintf(model_path, sizeof model_path, "%s/live-threads-%d.gguf", KT_BINARY_DIR,
             (int)getpid());
    snprintf(command, sizeof command, "'%s/kentang' synth --preset tiny-qwen2 '%s' 2>/dev/null",
             KT_BINARY_DIR, model_path);
    return system(command);
}

static int remove_model(void **state) {
    (void)state;
    return unlink(model_path);
}

static setup open_with(fake *f, int64_t period_us, const kt_ctx_params *cp,
                       const kt_engine_params *ep) {
    setup s;
    kt_error err;
    kt_model_info info;
    kt__limits_source source = {fake_topology, fake_limits, f, period_us};
    die_on(kt__ctx_open_from(cp, &source, &s.ctx, &err), &err);
    die_on(kt_model_open(s.ctx, model_path, NULL, &s.model, &err), &err);
    die_on(kt_engine_open(s.model, ep, &s.engine, &err), &err);
    die_on(kt_seq_open(s.engine, &s.seq, &err), &err);
    kt_model_get_info(s.model, &info);
    s.n_vocab = info.n_vocab;
    return s;
}

static void close_all(setup *s) {
    kt_seq_close(s->seq);
    kt_engine_close(s->engine);
    kt_model_close(s->model);
    kt_ctx_close(s->ctx);
}

static int threads_of(const setup *s) {
    kt_engine_info info;
    kt_engine_get_info(s->engine, &info);
    return info.n_threads;
}

static void eval(setup *s, int first, int n) {
    int32_t ids[N_PROMPT];
    kt_error err;
    for (int i = 0; i < n; i++) ids[i] = (first + i * 37) % s->n_vocab;
    die_on(kt_seq_eval(s->seq, ids, (size_t)n, &err), &err);
}

/* Prompt and steps; the logits of each step one after the other in out, if the fake changes or not.
 */
static void run(setup *s, fake *f, bool change, float *out, int *n_threads) {
    static const fake course[] = {{4, 0, 0}, {1, 0, 0}, {4, 2.5, 0}, {2, 0.3, 0}, {3, 0, 0}};
    static const int want[] = {4, 1, 3, 1, 3};
    eval(s, 5, N_PROMPT);
    for (int i = 0; i < N_STEPS; i++) {
        size_t at = (size_t)i / 5 % 5;
        if (change) {
            f->n_affinity_cores = course[at].n_affinity_cores;
            f->quota_cpus = course[at].quota_cpus;
        }
        eval(s, 7 + i, 1 + i % 3);
        n_threads[i] = threads_of(s);
        if (change) assert_int_equal(n_threads[i], want[at]);
        memcpy(out + (size_t)i * (size_t)s->n_vocab, kt_seq_logits(s->seq),
               (size_t)s->n_vocab * sizeof *out);
    }
}

static void test_threads_follow_and_answers_stay(void **state) {
    (void)state;
    fake still = {4, 0, 0}, moving = {4, 0, 0};
    int n_threads[N_STEPS];
    setup a = open_with(&still, 0, NULL, NULL), b = open_with(&moving, 0, NULL, NULL);
    size_t bytes = (size_t)N_STEPS * (size_t)a.n_vocab * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    assert_non_null(want);
    assert_non_null(got);
    assert_int_equal(kt_ctx_n_threads(a.ctx), 4);
    run(&a, &still, false, want, n_threads);
    run(&b, &moving, true, got, n_threads);
    assert_memory_equal(want, got, bytes);
    free(want);
    free(got);
    close_all(&a);
    close_all(&b);
}

static void test_only_once_a_period(void **state) {
    (void)state;
    fake f = {2, 0, 0};
    setup s = open_with(&f, 3600 * (int64_t)1000000, NULL, NULL);
    assert_int_equal(f.looks, 1);
    f.n_affinity_cores = 1;
    for (int i = 0; i < 10; i++) eval(&s, i, 1);
    assert_int_equal(f.looks, 1);
    assert_int_equal(threads_of(&s), 2);
    close_all(&s);
}

static void test_what_was_asked_for_stays(void **state) {
    (void)state;
    fake f = {4, 0, 0};
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    ep.n_threads = 3;
    setup s = open_with(&f, 0, NULL, &ep); /* the engine's number, prefill by the context */
    f.n_affinity_cores = 1;
    eval(&s, 1, 8);
    kt_engine_info info;
    kt_engine_get_info(s.engine, &info);
    assert_int_equal(info.n_threads, 3);
    assert_int_equal(info.n_threads_batch, 1);
    close_all(&s);
    f = (fake){4, 0, 0};
    cp.n_threads = 2;
    cp.n_threads_max = 3;
    s = open_with(&f, 0, &cp, NULL);
    f.n_affinity_cores = 1;
    eval(&s, 1, 8);
    eval(&s, 1, 1);
    assert_int_equal(threads_of(&s), 2);
    assert_int_equal(f.looks, 1);
    assert_int_equal(kt__pool_size(s.ctx->pool), 3);
    close_all(&s);
}

static void test_pinned_context_gives_the_same(void **state) {
    (void)state;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_ctx *ctx;
    kt_error err;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    cp.cpus = "0";
    kt_status status = kt_ctx_open(&cp, &ctx, &err);
    if (!CPU_ISSET(0, &before)) {
        assert_int_equal(status, KT_E_ARG);
        return;
    }
    die_on(status, &err);
    assert_int_equal(kt_ctx_n_threads(ctx), 1); /* one processor, one thread */
    kt_ctx_close(ctx);
    fake f = {4, 0, 0};
    setup plain = open_with(&f, 0, NULL, NULL), pinned = open_with(&f, 0, &cp, NULL);
    eval(&plain, 3, N_PROMPT);
    eval(&pinned, 3, N_PROMPT);
    assert_memory_equal(kt_seq_logits(plain.seq), kt_seq_logits(pinned.seq),
                        (size_t)plain.n_vocab * sizeof(float));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    close_all(&plain);
    close_all(&pinned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_follow_and_answers_stay),
        cmocka_unit_test(test_only_once_a_period),
        cmocka_unit_test(test_what_was_asked_for_stays),
        cmocka_unit_test(test_pinned_context_gives_the_same),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
