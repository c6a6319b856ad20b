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
    ep.kv_bytes = 144 * page_bytes(w);
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
        cmocka_unit_test(test_sequences_stay_as_they_are),
        cmocka_unit_test(test_it_is_refused_in_words),
    };
    if (!kv_is_f16()) return 0; /* other pages are not pressed */
    return cmocka_run_group_tests(tests, setup, teardown);
}
