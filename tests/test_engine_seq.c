/* Sequences and requests on the demo model: context limits, truncation, copies, cancel, stops,
 * budgets, threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kentang.h"

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
    kt_model_info info;
} world;

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

static world world_open(const kt_engine_params *ep) {
    kt_error err;
    world w;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 2;
    ok(kt_ctx_open(&cp, &w.ctx, &err), &err);
    ok(kt_model_open_demo(w.ctx, NULL, &w.model, &err), &err);
    ok(kt_engine_open(w.model, ep, &w.engine, &err), &err);
    ok(kt_seq_open(w.engine, &w.seq, &err), &err);
    kt_model_get_info(w.model, &w.info);
    return w;
}

static void world_close(world *w) {
    kt_seq_close(w->seq);
    kt_engine_close(w->engine);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static size_t encode(const world *w, const char *text, int32_t *ids, size_t cap) {
    kt_error err;
    size_t n;
    ok(kt_tokenize(w->model, text, strlen(text), 0, ids, cap, &n, &err), &err);
    return n;
}

typedef struct collected {
    char text[8192];
    size_t len;
    int stop_after; /* cancel after this many pieces; 0: never */
    int pieces;
} collected;

static bool collect(void *user, const char *text, size_t len, int32_t id) {
    collected *c = user;
    (void)id;
    assert_true(c->len + len < sizeof c->text);
    memcpy(c->text + c->len, text, len);
    c->len += len;
    c->text[c->len] = '\0';
    return !(c->stop_after && ++c->pieces >= c->stop_after);
}

static void test_context_is_never_overrun(void **state) {
    (void)state;
    kt_error err;
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 24;
    world w = world_open(&ep);
    int32_t ids[64];
    size_t n = encode(&w, "one two three four five six seven eight nine ten eleven twelve thirteen",
                      ids, 64);
    assert_true(n > 12);
    for (size_t i = n; i < 30; i++) ids[i] = ids[i % n];
    assert_int_equal(kt_seq_eval(w.seq, ids, 25, &err), KT_E_CONTEXT_FULL);
    assert_int_equal(kt_seq_len(w.seq), 0);
    kt_gen_params gp = kt_gen_params_default();
    gp.sampling.temperature = 0;
    gp.ignore_eog = true;
    kt_gen_result result;
    assert_int_equal(kt_generate(w.seq, ids, 25, &gp, NULL, NULL, &result, &err),
                     KT_E_CONTEXT_FULL);
    ok(kt_generate(w.seq, ids, 20, &gp, NULL, NULL, &result, &err), &err);
    assert_int_equal(result.finish, KT_FINISH_CONTEXT);
    assert_int_equal(result.n_generated,
                     5); /* four evaluated, one more sampled from the full context */
    assert_int_equal(kt_seq_len(w.seq), 24);
    world_close(&w);
}

static void test_bad_arguments_change_nothing(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    int32_t ids[4] = {5, 6, 7, 8}, wrong[2] = {5, w.info.n_vocab};
    ok(kt_seq_eval(w.seq, ids, 4, &err), &err);
    assert_int_equal(kt_seq_eval(w.seq, wrong, 2, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "token 1"));
    assert_int_equal(kt_seq_eval(w.seq, ids, 0, &err), KT_E_ARG);
    assert_int_equal(kt_seq_truncate(w.seq, 5, &err), KT_E_ARG);
    kt_eval_item twice[2] = {{.seq = w.seq, .ids = ids, .n = 1},
                             {.seq = w.seq, .ids = ids, .n = 1}};
    assert_int_equal(kt_engine_eval(w.engine, twice, 2, &err), KT_E_ARG);
    assert_int_equal(kt_seq_len(w.seq), 4);
    assert_memory_equal(kt_seq_tokens(w.seq), ids, sizeof ids);
    kt_gen_params gp = kt_gen_params_default();
    gp.sampling.top_p = 2.0f;
    assert_int_equal(kt_generate(w.seq, ids, 1, &gp, NULL, NULL, NULL, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "top_p"));
    world_close(&w);
}

static void test_truncate_and_copy_repeat_the_same_numbers(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    int32_t ids[200];
    size_t bytes = (size_t)w.info.n_vocab * sizeof(float);
    float *want = malloc(bytes);
    for (int i = 0; i < 200; i++) ids[i] = (i * 37 + 11) % w.info.n_vocab;
    ok(kt_seq_eval(w.seq, ids, 200, &err), &err);
    memcpy(want, kt_seq_logits(w.seq), bytes);
    kt_seq *copy;
    ok(kt_seq_copy(w.seq, &copy, &err), &err);
    assert_memory_equal(kt_seq_logits(copy), want, bytes);
    for (size_t keep = 0; keep < 200; keep += 37) {
        ok(kt_seq_truncate(w.seq, keep, &err), &err);
        assert_null(kt_seq_logits(w.seq));
        ok(kt_seq_eval(w.seq, ids, 3, &err), &err); /* writes into pages that the copy shares */
        ok(kt_seq_truncate(w.seq, keep, &err), &err);
        ok(kt_seq_eval(w.seq, ids + keep, 200 - keep, &err), &err);
        assert_memory_equal(kt_seq_logits(w.seq), want, bytes);
    }
    ok(kt_seq_truncate(copy, 199, &err), &err);
    ok(kt_seq_eval(copy, ids + 199, 1, &err), &err);
    assert_memory_equal(kt_seq_logits(copy), want, bytes);
    kt_seq_close(copy);
    free(want);
    world_close(&w);
}

static void test_seed_repeats_and_stop_strings_stop(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    kt_message message = {"user", "Tell me a short story about a cat."};
    kt_gen_params gp = kt_gen_params_default();
    gp.n_predict = 60;
    kt_gen_result first, second;
    collected a = {.len = 0}, b = {.len = 0}, c = {.len = 0};
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &a, &first, &err), &err);
    assert_true(a.len > 20);
    gp.sampling.seed = first.seed;
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &b, &second, &err), &err);
    assert_string_equal(a.text, b.text);
    assert_int_equal(second.seed, first.seed);
    assert_int_equal(second.n_cached,
                     second.n_prompt - 1); /* all but the token that gives the logits */

    char stop[9] = {0};
    memcpy(stop, a.text + 10, 8);
    const char *stops[] = {"\x01never", stop};
    gp.stop = stops;
    gp.n_stop = 2;
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &c, &second, &err), &err);
    assert_int_equal(second.finish, KT_FINISH_STOP);
    *strstr(a.text, stop) = '\0';
    assert_string_equal(c.text, a.text);
    world_close(&w);
}

static void test_cancel(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    int32_t ids[64];
    size_t n = encode(&w, "Once upon a time", ids, 64);
    kt_gen_params gp = kt_gen_params_default();
    gp.ignore_eog = true;
    kt_gen_result result;
    collected c = {.stop_after = 5};
    ok(kt_generate(w.seq, ids, n, &gp, collect, &c, &result, &err), &err);
    assert_int_equal(result.finish, KT_FINISH_CANCELLED);
    kt_engine_cancel(w.engine);
    size_t before = kt_seq_len(w.seq);
    assert_int_equal(kt_seq_eval(w.seq, ids, n, &err), KT_E_CANCELLED);
    assert_int_equal(kt_seq_len(w.seq), before);
    kt_engine_resume(w.engine);
    ok(kt_seq_eval(w.seq, ids, n, &err), &err);
    world_close(&w);
}

static void test_budgets_refuse_with_a_remedy(void **state) {
    (void)state;
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.mem_bytes = 1 << 20;
    cp.n_threads = 1;
    ok(kt_ctx_open(&cp, &ctx, &err), &err);
    ok(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    assert_int_equal(kt_engine_open(model, NULL, &engine, &err), KT_E_NOMEM);
    assert_non_null(strstr(err.message, "-c"));
    assert_null(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);

    kt_engine_params ep = kt_engine_params_default();
    ep.kv_bytes = 1; /* one page: 16 positions */
    world w = world_open(&ep);
    int32_t ids[20] = {0};
    ok(kt_seq_eval(w.seq, ids, 16, &err), &err);
    assert_int_equal(kt_seq_eval(w.seq, ids, 1, &err), KT_E_NOMEM);
    assert_int_equal(kt_seq_len(w.seq), 16);
    world_close(&w);
}

/* Several threads, each with its own sequence of one engine, and two engines of one context. */
typedef struct worker {
    world *w;
    kt_engine *engine;
    const char *want;
    int bad;
} worker;

static void *chat_thread(void *arg) {
    worker *job = arg;
    kt_error err;
    kt_seq *seq;
    kt_message message = {"user", "Who are you?"};
    kt_gen_params gp = kt_gen_params_default();
    gp.sampling.temperature = 0;
    gp.n_predict = 12;
    if (kt_seq_open(job->engine, &seq, &err) != KT_OK) {
        job->bad = 1;
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        collected c = {.len = 0};
        kt_gen_result result;
        if (kt_chat(seq, &message, 1, &gp, collect, &c, &result, &err) != KT_OK) job->bad = 1;
        if (strcmp(c.text, job->want) != 0) job->bad = 1;
    }
    kt_seq_close(seq);
    return NULL;
}

static void test_threads_share_engine_and_context(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    kt_engine *second;
    ok(kt_engine_open(w.model, NULL, &second, &err), &err);
    kt_message message = {"user", "Who are you?"};
    kt_gen_params gp = kt_gen_params_default();
    gp.sampling.temperature = 0;
    gp.n_predict = 12;
    collected want = {.len = 0};
    kt_gen_result result;
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &want, &result, &err), &err);
    enum { N = 4 };
    pthread_t threads[N];
    worker jobs[N];
    for (int i = 0; i < N; i++) {
        jobs[i] = (worker){&w, i % 2 ? second : w.engine, want.text, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, chat_thread, &jobs[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].bad, 0);
    }
    kt_engine_close(second);
    world_close(&w);
}

static void test_vocab_only_refuses_to_compute(void **state) {
    (void)state;
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    ok(kt_ctx_open(NULL, &ctx, &err), &err);
    kt_model_params mp = kt_model_params_default();
    mp.vocab_only = true;
    ok(kt_model_open_demo(ctx, &mp, &model, &err), &err);
    assert_int_equal(kt_engine_open(model, NULL, &engine, &err), KT_E_STATE);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context_is_never_overrun),
        cmocka_unit_test(test_bad_arguments_change_nothing),
        cmocka_unit_test(test_truncate_and_copy_repeat_the_same_numbers),
        cmocka_unit_test(test_seed_repeats_and_stop_strings_stop),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_budgets_refuse_with_a_remedy),
        cmocka_unit_test(test_threads_share_engine_and_context),
        cmocka_unit_test(test_vocab_only_refuses_to_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
