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
#include "kv_types.h"

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
    kt_engine_params with = ep ? *ep : kt_engine_params_default();
    kv_types_of_test(&with);
    ok(kt_engine_open(w.model, &with, &w.engine, &err), &err);
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
    kt_request_report result;
    assert_int_equal(kt_generate(w.seq, ids, 25, &gp, NULL, NULL, &result, &err),
                     KT_E_CONTEXT_FULL);
    ok(kt_generate(w.seq, ids, 20, &gp, NULL, NULL, &result, &err), &err);
    assert_int_equal(result.finish, KT_FINISH_CONTEXT);
    assert_int_equal(result.n_generated, 4); /* with the prompt they are the context */
    assert_int_equal(kt_seq_len(w.seq), 23); /* the last is not evaluated */
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
    kt_request_report first, second;
    collected a = {.len = 0}, b = {.len = 0}, c = {.len = 0};
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &a, &first, &err), &err);
    assert_true(a.len > 20);
    gp.sampling.seed = first.seed;
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &b, &second, &err), &err);
    assert_string_equal(a.text, b.text);
    assert_int_equal(second.seed, first.seed);
    /* all but the token that gives the logits */
    assert_in_range(second.n_cached, kv_found_least(second.n_prompt - 1), second.n_prompt - 1);

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
    kt_request_report result;
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
    size_t n = 16; /* besides quantised pages, as many as may be f16 */
    while (!kv_is_f16() && n < 800 && kt_seq_eval(w.seq, ids, 1, &err) == KT_OK) n++;
    assert_int_equal(kt_seq_eval(w.seq, ids, 1, &err), KT_E_NOMEM);
    assert_int_equal(kt_seq_len(w.seq), n);
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
        kt_request_report result;
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
    kt_request_report result;
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

/* ---- sequences as tasks of the scheduler ---- */

/* What one sequence left is found by the next, and by a request without a sequence; what is
 * evaluated is computed, whatever is there. */
static void test_prompts_are_found_by_other_sequences(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    kt_message message = {"user", "Tell me a short story about a cat, a dog and a horse."};
    kt_gen_params gp = kt_gen_params_default();
    gp.sampling.temperature = 0;
    gp.n_predict = 20;
    collected a = {.len = 0}, b = {.len = 0}, c = {.len = 0};
    kt_request_report first, second;
    kt_engine_stats before, after;
    ok(kt_chat(w.seq, &message, 1, &gp, collect, &a, &first, &err), &err);
    assert_int_equal(first.n_cached, 0);
    kt_seq *other;
    ok(kt_seq_open(w.engine, &other, &err), &err);
    ok(kt_chat(other, &message, 1, &gp, collect, &b, &second, &err), &err);
    assert_int_equal(second.n_prompt, first.n_prompt);
    assert_true(second.n_cached >= 16);
    assert_string_equal(a.text, b.text);
    kt_request_params r = kt_request_params_default();
    r.prompt.messages = &message;
    r.prompt.n_messages = 1;
    r.gen = gp;
    ok(kt_request_run(w.engine, &r, collect, &c, &second, &err), &err);
    assert_true(second.n_cached >= 16);
    assert_string_equal(a.text, c.text);
    size_t n = kt_seq_len(other);
    int32_t ids[256];
    memcpy(ids, kt_seq_tokens(other), n * sizeof *ids);
    ok(kt_seq_truncate(other, 0, &err), &err);
    kt_engine_get_stats(w.engine, &before);
    ok(kt_seq_eval(other, ids, n, &err), &err);
    kt_engine_get_stats(w.engine, &after);
    assert_int_equal(after.prefill_tokens - before.prefill_tokens, n);
    kt_seq_close(other);
    world_close(&w);
}

/* One answer is waited for, with every figure in microseconds; what it is asked for in vain is said
 * before anything is computed. */
static void test_running_a_request(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    kt_request_params r = kt_request_params_default();
    kt_request_report report;
    r.prompt.text = "Once upon a time";
    r.prompt.text_len = strlen(r.prompt.text);
    r.gen.n_predict = 8;
    r.gen.ignore_eog = true;
    ok(kt_request_run(w.engine, &r, NULL, NULL, &report, &err), &err);
    assert_int_equal(report.finish, KT_FINISH_LENGTH);
    assert_int_equal(report.n_generated, 8);
    assert_true(report.first_token_us > 0 && report.first_token_us <= report.total_us);
    int64_t parts_us = report.tokenize_us + report.queue_us + report.prefill_us + report.decode_us +
                       report.sample_us + report.wait_us + report.held_us;
    assert_true(parts_us <= report.total_us && parts_us > report.total_us / 2);
    r.n_choices = 2;
    assert_int_equal(kt_request_run(w.engine, &r, NULL, NULL, &report, &err), KT_E_ARG);
    r.seq = w.seq;
    kt_request *req;
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "one answer"));
    r.n_choices = 1;
    r.prompt.text = NULL;
    r.seq_append = true; /* nothing to go on from */
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "not evaluated"));
    ok(kt_seq_truncate(w.seq, 0, &err), &err); /* the refused request has not kept it */
    world_close(&w);
}

/* A request borrows its sequence until it has ended, or is closed. */
static void test_a_sequence_is_lent(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    int32_t ids[64];
    size_t n = encode(&w, "Once upon a time there was", ids, 64);
    kt_seq *copy;
    kt_request *req;
    kt_event event;
    kt_request_params r = kt_request_params_default();
    r.seq = w.seq;
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    r.gen.ignore_eog = true;
    ok(kt_engine_submit(w.engine, &r, &req, &err), &err);
    for (int i = 0; i < 3; i++) assert_true(kt_request_next_event(req, &event, -1));
    assert_int_equal(kt_seq_eval(w.seq, ids, 1, &err), KT_E_STATE);
    assert_int_equal(kt_seq_copy(w.seq, &copy, &err), KT_E_STATE);
    assert_int_equal(kt_seq_truncate(w.seq, 0, &err), KT_E_STATE);
    assert_int_equal(kt_generate(w.seq, ids, 1, NULL, NULL, NULL, NULL, &err), KT_E_STATE);
    kt_request_close(req);
    assert_true(kt_seq_len(w.seq) >= n);
    ok(kt_seq_eval(w.seq, ids, 1, &err), &err);
    assert_non_null(kt_seq_logits(w.seq));
    world_close(&w);
}

/* More sequences than lanes are evaluated one after the other; where one of them finds no page, all
 * are as they were. */
static void test_evaluations_share_lanes_and_pages(void **state) {
    (void)state;
    kt_error err;
    kt_engine_params ep = kt_engine_params_default();
    ep.n_parallel = 1;
    ep.n_seq_max = 3;
    ep.kv_bytes = 1;
    world w = world_open(&ep);
    kt_engine_info info;
    kt_engine_get_info(w.engine, &info);
    uint64_t page = info.kv_bytes_max;
    world_close(&w);
    ep.kv_bytes = kv_is_f16() ? 4 * page : page; /* the last pages of each need none */
    w = world_open(&ep);
    int32_t ids[40];
    kt_seq *seqs[3] = {w.seq};
    kt_eval_item items[3];
    for (int i = 0; i < 40; i++) ids[i] = 100 + i;
    for (int i = 0; i < 3; i++) {
        if (i) ok(kt_seq_open(w.engine, &seqs[i], &err), &err);
        items[i] = (kt_eval_item){.seq = seqs[i], .ids = ids, .n = 5};
    }
    ok(kt_engine_eval(w.engine, items, 3, &err), &err);
    for (int i = 0; i < 3; i++) assert_int_equal(kt_seq_len(seqs[i]), 5);
    for (int i = 0; i < 3; i++) items[i].n = i ? 30 : 3;
    if (!kv_needs_ends()) { /* else all of it has its f16 copy */
        assert_int_equal(kt_engine_eval(w.engine, items, 3, &err), KT_E_NOMEM);
        for (int i = 0; i < 3; i++) assert_int_equal(kt_seq_len(seqs[i]), 5);
    }
    for (int i = 0; i < 3; i++) items[i].n = 1;
    ok(kt_engine_eval(w.engine, items, 3, &err), &err);
    for (int i = 0; i < 3; i++) assert_non_null(kt_seq_logits(seqs[i]));
    for (int i = 1; i < 3; i++) kt_seq_close(seqs[i]);
    world_close(&w);
}

/* The engine's thread may end, and begin, while a caller waits: it then drives itself. */
static void *chat_long(void *arg) {
    worker *job = arg;
    kt_error err;
    collected c = {.len = 0};
    kt_gen_params gp = kt_gen_params_default();
    kt_request_report report;
    gp.sampling.temperature = 0;
    gp.n_predict = 400;
    gp.ignore_eog = true;
    kt_message message = {"user", "Who are you?"};
    if (kt_chat(job->w->seq, &message, 1, &gp, collect, &c, &report, &err) != KT_OK) job->bad = 1;
    if (report.finish != KT_FINISH_LENGTH) job->bad = 1;
    return NULL;
}

static void test_calls_outlive_the_driver(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(NULL);
    pthread_t thread;
    worker job = {.w = &w, .engine = w.engine};
    ok(kt_engine_start(w.engine, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, chat_long, &job), 0);
    for (int i = 0; i < 4; i++) {
        kt_engine_stop(w.engine, 0);
        ok(kt_engine_start(w.engine, &err), &err);
    }
    kt_engine_stop(w.engine, 0);
    pthread_join(thread, NULL);
    assert_int_equal(job.bad, 0);
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
        cmocka_unit_test(test_prompts_are_found_by_other_sequences),
        cmocka_unit_test(test_running_a_request),
        cmocka_unit_test(test_a_sequence_is_lent),
        cmocka_unit_test(test_evaluations_share_lanes_and_pages),
        cmocka_unit_test(test_calls_outlive_the_driver),
        cmocka_unit_test(test_vocab_only_refuses_to_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
