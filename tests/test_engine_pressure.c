/* A store of keys and values that runs full and may press its pages: more answers end without being suspended; a request
 * that asked for f16 gets the bytes of an engine alone, whatever happens to the others; what is kept for later prompts is
 * pressed before it is given up, and found by those alone who take it so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "requests/runner.h"
#include "requests_world.h"
#include "support.h"

enum { LANES = 4, PAGES = 112, N_PREDICT = 480 };

static kt_engine_params params_of(const world *w, kt_kv_pressure pressure) {
    return (kt_engine_params){.n_parallel = LANES,
                              .n_ctx = 1024,
                              .n_ubatch = 64,
                              .n_draft = -1, /* they grow at one pace */
                              .kv_bytes = PAGES * page_bytes(w),
                              .kv_pressure = pressure};
}

/* One that has no stop strings, and ends by its length. */
static int endless(int i) {
    return i < 3 ? i : i + 1;
}

/* LANES requests at once, of which the first n_exact want f16. */
static kt_engine_stats run(world *w, kt_kv_pressure pressure, int n_exact, answer *out) {
    kt_engine_stats stats;
    kt_engine_params ep = params_of(w, pressure);
    open_engine(w, &ep);
    for (int i = 0; i < LANES; i++) {
        kt_request_params r = request_of(w, endless(i));
        r.service.exact_kv = i < n_exact;
        submit_request(w, &r, &out[i]);
    }
    run_to_end(w, false);
    expect_idle(w);
    kt_engine_get_stats(w->engine, &stats);
    for (int i = 0; i < LANES; i++) {
        assert_int_equal(out[i].finish, KT_FINISH_LENGTH);
        assert_int_equal(out[i].report.n_generated, N_PREDICT);
    }
    close_engine(w);
    return stats;
}

static void test_answers_end_without_being_suspended(void **state) {
    world *w = *state;
    static answer out[LANES];
    kt_engine_stats off = run(w, KT_KV_PRESSURE_OFF, 0, out);
    assert_true(off.n_preempted > 0);
    assert_int_equal(off.n_pressed_blocks[KT_KV_Q8_0], 0);
    kt_engine_stats cache = run(w, KT_KV_PRESSURE_CACHE, 0, out);
    assert_true(cache.n_preempted > 0); /* nothing is kept but what runs */
    kt_engine_stats all = run(w, KT_KV_PRESSURE_ALL, 0, out);
    assert_int_equal(all.n_preempted, 0);
    assert_int_equal(all.recomputed_tokens, 0);
    assert_true(all.n_pressed_blocks[KT_KV_Q8_0] >= 32);
}

static void test_exact_requests_get_what_they_get_alone(void **state) {
    world *w = *state;
    static answer alone[LANES], out[LANES];
    for (int i = 0; i < 2; i++) answer_alone(w, i, &alone[i]);
    kt_engine_stats all = run(w, KT_KV_PRESSURE_ALL, 2, out);
    assert_true(all.n_pressed_blocks[KT_KV_Q8_0] > 0);
    for (int i = 0; i < 2; i++) expect_same(i, &alone[i], &out[i]);
    all = run(w, KT_KV_PRESSURE_ALL, LANES, out);
    assert_true(all.n_preempted > 0);
    for (int i = 0; i < 2; i++) expect_same(i, &alone[i], &out[i]);
}

/* Where 8 bits are not enough, the splits between the first and the last ones get 4. */
static void test_long_answers_get_4_bits(void **state) {
    world *w = *state;
    static answer alone, out[LANES];
    kt_engine_stats stats;
    kt_engine_params ep = params_of(w, KT_KV_PRESSURE_ALL);
    ep.kv_bytes = 160 * page_bytes(w);
    w->n_predict = 900;
    answer_alone(w, 0, &alone);
    open_engine(w, &ep);
    for (int i = 0; i < LANES; i++) {
        kt_request_params r = request_of(w, endless(i));
        r.service.exact_kv = i == 0;
        submit_request(w, &r, &out[i]);
    }
    run_to_end(w, false);
    expect_idle(w);
    kt_engine_get_stats(w->engine, &stats);
    close_engine(w);
    w->n_predict = N_PREDICT;
    assert_true(stats.n_pressed_blocks[KT_KV_Q4_0] >= 16);
    expect_same(0, &alone, &out[0]);
    for (int i = 1; i < LANES; i++) assert_int_equal(out[i].report.n_generated, 900);
}

/* ---- what is kept ---- */

enum { N_PROMPT = 16 * 30, TEXTS = 4 };

static void ask(world *w, int text, bool exact, answer *out) {
    int32_t ids[N_PROMPT];
    uint32_t seed = 5 + (uint32_t)text;
    kt_request_params r = kt_request_params_default();
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)lcg_below(&seed, 200);
    r.prompt.ids = ids;
    r.prompt.n_ids = N_PROMPT;
    r.logprobs.n = 5;
    r.gen.n_predict = 8;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    r.service.exact_kv = exact;
    submit_request(w, &r, out);
    run_to_end(w, false);
    assert_int_equal(out->n_tokens, 8);
}

static uint64_t pressed_now(const world *w) {
    kt_engine_stats stats;
    kt_engine_get_stats(w->engine, &stats);
    return stats.kv_blocks_pressed[KT_KV_Q8_0];
}

static void test_what_is_kept_is_found_by_those_who_take_it(void **state) {
    world *w = *state;
    static answer fresh, pressed, exact, again;
    kt_engine_params ep = params_of(w, KT_KV_PRESSURE_CACHE);
    open_engine(w, &ep);
    ask(w, 0, true, &fresh);
    for (int i = 1; i < TEXTS; i++) ask(w, i, false, &again);
    assert_true(pressed_now(w) > 0);
    ask(w, 0, false, &pressed);
    assert_in_range(pressed.report.n_cached, N_PROMPT - 16, N_PROMPT - 1);
    /* what was computed after it is not what an exact request computes */
    assert_memory_not_equal(pressed.logprob, fresh.logprob, sizeof fresh.logprob);
    ask(w, 0, true, &exact);
    assert_int_equal(exact.report.n_cached, 0);
    assert_memory_equal(exact.ids, fresh.ids, sizeof fresh.ids);
    assert_memory_equal(exact.logprob, fresh.logprob, sizeof fresh.logprob);
    /* and took the place of the pressed one */
    ask(w, 0, true, &again);
    assert_in_range(again.report.n_cached, N_PROMPT - 16, N_PROMPT - 1);
    assert_memory_equal(again.logprob, fresh.logprob, sizeof fresh.logprob);
    close_engine(w);
    ep = params_of(w, KT_KV_PRESSURE_OFF);
    open_engine(w, &ep);
    for (int i = 0; i < TEXTS; i++) ask(w, i, false, &again);
    ask(w, 0, false, &again);
    assert_true(again.report.n_cached < N_PROMPT - 16); /* without it, it was given up */
    close_engine(w);
}

/* ---- prompts that are longer than the store in f16 ---- */

enum { SMALL = 112, LONG_CTX = 16384 };

static void open_small(world *w, kt_kv_pressure pressure) {
    kt_engine_params ep = params_of(w, pressure);
    ep.kv_bytes = SMALL * page_bytes(w);
    ep.n_ctx = LONG_CTX;
    ep.n_ubatch = 256;
    open_engine(w, &ep);
}

static kt_request_params long_request(int32_t *ids, size_t n, uint32_t seed) {
    kt_request_params r = kt_request_params_default();
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)lcg_below(&seed, 200);
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    r.gen.n_predict = 1;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    return r;
}

static void expect_refused(world *w, const kt_request_params *r, size_t n_ctx, const char *word) {
    kt_error err;
    kt_request *req;
    assert_int_equal(kt_engine_submit(w->engine, r, &req, &err), KT_E_CONTEXT_FULL);
    assert_int_equal(err.n_tokens, r->prompt.n_ids);
    assert_int_equal(err.n_ctx, n_ctx);
    if (!strstr(err.message, word)) fail_msg("%s", err.message);
}

/* The longest that fits where its older positions are in 8 and 4 bits is taken, and computed to its end, alone without
 * anything being computed twice; one token more is refused, and what is more than f16 holds where that was asked
 * for. */
static void test_prompts_longer_than_the_store(void **state) {
    world *w = *state;
    static int32_t ids[LONG_CTX];
    static answer out, again;
    kt_error err;
    kt_engine_stats stats;
    open_small(w, KT_KV_PRESSURE_ALL);
    size_t most = 16 * (size_t)kt__pages_most(w->engine, true, false),
           f16 = 16 * (size_t)kt__pages_most(w->engine, false, false);
    assert_true(most > 2 * f16 && most < LONG_CTX);
    kt_request_params r = long_request(ids, most + 1, 1);
    expect_refused(w, &r, most, "4 bits");
    r.service.exact_kv = true;
    r.prompt.n_ids = f16 + 1;
    expect_refused(w, &r, f16, "exact_kv");
    r.service.exact_kv = false;
    MUST(kt_seq_open(w->engine, &r.seq, &err));
    expect_refused(w, &r, f16, "sequence");
    kt_seq_close(r.seq);
    /* at the end, with other steps, and with what is kept of the one before */
    for (int i = 0; i < 3; i++) {
        r = long_request(ids, most - 7 * (size_t)i, i == 2 ? 1 : 1 + (uint32_t)i);
        submit_request(w, &r, &out);
        run_to_end(w, false);
        expect_idle(w);
        if (out.finish != KT_FINISH_LENGTH) fail_msg("%d: %s", i, out.error.message);
        assert_int_equal(out.n_tokens, 1);
        assert_int_equal(out.report.n_preempted, 0);
        assert_in_range(out.report.n_pressed, f16, most);
    }
    /* what is written after it ends where the store does */
    r.prompt.n_ids = most - 40;
    r.gen.n_predict = 400;
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_int_equal(out.finish, KT_FINISH_CONTEXT);
    assert_in_range(out.n_tokens, 40, 42);
    kt_engine_get_stats(w->engine, &stats);
    assert_true(stats.n_pressed_blocks[KT_KV_Q4_0] > 100);
    /* f16 is what it was */
    r = long_request(ids, f16 - 32, 9);
    r.service.exact_kv = true;
    r.gen.n_predict = 8;
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_int_equal(out.report.n_pressed, 0);
    close_engine(w);
    open_small(w, KT_KV_PRESSURE_OFF);
    submit_request(w, &r, &again);
    run_to_end(w, false);
    assert_memory_equal(again.ids, out.ids, sizeof out.ids);
    close_engine(w);
    open_small(w, KT_KV_PRESSURE_CACHE);
    r = long_request(ids, f16 + 1, 9);
    expect_refused(w, &r, f16, "K/V budget");
    close_engine(w);
}

/* Among others, some of which want f16, some of which are cancelled, with several answers, and twice: all end, and f16
 * is f16. */
static void test_long_prompts_among_others(void **state) {
    world *w = *state;
    static int32_t ids[3][LONG_CTX];
    static answer alone[2], exact[2], longs[3][2], brief[4];
    w->n_predict = 160; /* the long prompts alone fill the store */
    for (int i = 0; i < 2; i++) answer_alone(w, i, &alone[i]);
    for (int round = 0; round < 3; round++) {
        open_small(w, KT_KV_PRESSURE_ALL);
        size_t f16 = 16 * (size_t)kt__pages_most(w->engine, false, false);
        for (int i = 0; i < 3; i++) {
            kt_request_params r = long_request(ids[i], f16 * 3 / 2 + 100 * (size_t)i,
                                               i == 2 ? 4 : 3);
            r.gen.n_predict = 20;
            r.n_choices = i == 1 ? 2 : 1;
            r.service.priority = i == round;
            submit_choices(w, &r, longs[i], r.n_choices);
            if (i == 2) continue;
            step(w, 3 + 40 * round);
            r = request_of(w, i);
            r.service.exact_kv = true;
            r.service.priority = round == 2;
            submit_request(w, &r, &exact[i]);
        }
        for (int i = 0; i < 4; i++) submit(w, endless(i), &brief[i]);
        step(w, 60);
        if (round > 0) kt_request_cancel(longs[2][0].req);
        run_to_end(w, false);
        expect_idle(w);
        for (int i = 0; i < 2; i++) {
            expect_same(i, &alone[i], &exact[i]);
            assert_int_equal(exact[i].report.n_pressed, 0);
        }
        for (int i = 0; i < 3; i++) {
            if (round > 0 && i == 2) continue;
            for (int k = 0; k < (i == 1 ? 2 : 1); k++) {
                assert_int_equal(longs[i][k].finish, KT_FINISH_LENGTH);
                assert_int_equal(longs[i][k].n_tokens, 20);
                assert_true(longs[i][k].report.n_pressed > 0);
            }
        }
        close_engine(w);
    }
    w->n_predict = N_PREDICT;
}

/* A context that was asked for is given where it fits in fewer bits alone. */
static void test_a_context_that_fits_narrowed_is_planned(void **state) {
    world *w = *state;
    kt_error err;
    kt_mem_plan plan;
    kt_ctx *ctx;
    kt_model *model;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = {.n_ctx = 16384, .n_parallel = 2, .n_queue_max = 16, .n_seq_max = 1};
    cp.mem_bytes = 96u << 20;
    (void)w;
    MUST(kt_ctx_open(&cp, &ctx, &err));
    MUST(kt_model_open_demo(ctx, NULL, &model, &err));
    assert_int_equal(kt_engine_plan(model, &ep, &plan, &err), KT_E_NOMEM);
    ep.kv_pressure = KT_KV_PRESSURE_CACHE;
    assert_int_equal(kt_engine_plan(model, &ep, &plan, &err), KT_E_NOMEM);
    ep.kv_pressure = KT_KV_PRESSURE_ALL;
    MUST(kt_engine_plan(model, &ep, &plan, &err));
    assert_int_equal(plan.n_ctx, 16384);
    assert_in_range(plan.kv_positions, 16384 / 4, 131071);
    assert_true(plan.total_bytes <= plan.budget_bytes);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* A sequence is the caller's: nothing of it is pressed, and it is saved as it is. */
static void test_sequences_stay_as_they_are(void **state) {
    world *w = *state;
    static answer out[TEXTS];
    kt_error err;
    kt_seq *seq, *saved;
    int32_t ids[400];
    char path[256];
    kt_engine_params ep = params_of(w, KT_KV_PRESSURE_ALL);
    ep.n_seq_max = 4;
    for (int i = 0; i < 400; i++) ids[i] = i % 200;
    open_engine(w, &ep);
    MUST(kt_seq_open(w->engine, &seq, &err));
    MUST(kt_seq_eval(seq, ids, 400, &err));
    size_t n = (size_t)kt__engine_n_vocab(w->engine) * sizeof(float);
    float *logits = malloc(n);
    memcpy(logits, kt_seq_logits(seq), n);
    for (int i = 0; i < TEXTS; i++) ask(w, i, false, &out[i]);
    assert_true(pressed_now(w) > 0);
    snprintf(path, sizeof path, "%s/pressure-%d.kv", KT_BINARY_DIR, (int)getpid());
    MUST(kt_seq_save(seq, path, &err));
    MUST(kt_seq_open(w->engine, &saved, &err));
    MUST(kt_seq_restore(saved, path, &err));
    MUST(kt_seq_truncate(saved, 399, &err));
    MUST(kt_seq_eval(saved, ids + 399, 1, &err));
    assert_memory_equal(kt_seq_logits(saved), logits, n);
    kt_seq_close(saved);
    kt_seq_close(seq);
    free(logits);
    remove(path);
    close_engine(w);
}

static void test_it_is_refused_in_words(void **state) {
    world *w = *state;
    kt_error err;
    kt_engine *engine;
    kt_engine_params ep = params_of(w, KT_KV_PRESSURE_ALL);
    ep.kv_keys = KT_KV_Q8_0;
    assert_int_equal(kt_engine_open(w->model, &ep, &engine, &err), KT_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "kv_pressure"));
}

static int setup(void **state) {
    static world w;
    w = (world){.ignore_eog = true, .n_predict = N_PREDICT};
    world_open(&w);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_end_without_being_suspended),
        cmocka_unit_test(test_exact_requests_get_what_they_get_alone),
        cmocka_unit_test(test_long_answers_get_4_bits),
        cmocka_unit_test(test_what_is_kept_is_found_by_those_who_take_it),
        cmocka_unit_test(test_prompts_longer_than_the_store),
        cmocka_unit_test(test_long_prompts_among_others),
        cmocka_unit_test(test_a_context_that_fits_narrowed_is_planned),
        cmocka_unit_test(test_sequences_stay_as_they_are),
        cmocka_unit_test(test_it_is_refused_in_words),
    };
    if (!kv_is_f16()) return 0; /* other pages are not pressed */
    return cmocka_run_group_tests(tests, setup, teardown);
}
