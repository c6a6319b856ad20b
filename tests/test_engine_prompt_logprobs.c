/* engine: log-probabilities of a prompt's own tokens are those of kt_engine_eval's logits, bit for
 * bit, however the request was batched, sliced or preempted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "answer/answer.h"
#include "requests_world.h"

enum { TOP = 3, WIDTH = TOP + 1 };

static world w;
static kt_logprob *expected[PROMPTS];

static void begin_engine(int n_batch, int n_ubatch, int n_parallel, uint64_t kv_bytes) {
    kt_error err;
    kt_engine_params p = kt_engine_params_default();
    p.n_ctx = 256;
    p.n_batch = n_batch;
    p.n_ubatch = n_ubatch;
    p.n_parallel = n_parallel;
    p.kv_bytes = kv_bytes;
    MUST(kt_engine_open(w.model, &p, &w.engine, &err));
}

static void end_engine(void) {
    kt_engine_close(w.engine);
    w.engine = NULL;
}

/* The slow way: all logits of a sequence. */
static void expect_rows(int i) {
    kt_error err;
    kt_model_info info;
    kt_seq *seq;
    size_t n = w.n_ids[i];
    kt_model_get_info(w.model, &info);
    size_t n_vocab = (size_t)info.n_vocab;
    float *logits = calloc(n * n_vocab, sizeof *logits);
    MUST(kt_seq_open(w.engine, &seq, &err));
    const kt_eval_item item = {.seq = seq, .ids = w.ids[i], .n = n, .all_logits = logits};
    MUST(kt_engine_eval(w.engine, &item, 1, &err));
    expected[i] = calloc(n * WIDTH, sizeof *expected[i]);
    for (size_t k = 1; k < n; k++)
        kt__logprobs(logits + (k - 1) * n_vocab, info.n_vocab, w.ids[i][k], expected[i] + k * WIDTH,
                     TOP);
    kt_seq_close(seq);
    free(logits);
}

static int open_all(void **state) {
    (void)state;
    world_open(&w);
    begin_engine(0, 0, 0, 0);
    for (int i = 0; i < PROMPTS; i++) expect_rows(i);
    end_engine();
    return 0;
}

static int close_all(void **state) {
    (void)state;
    for (int i = 0; i < PROMPTS; i++) free(expected[i]);
    world_close(&w);
    return 0;
}

static kt_request *ask(int i, int32_t n_predict, int32_t n_choices) {
    kt_error err;
    kt_request *req;
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = w.ids[i];
    r.prompt.n_ids = w.n_ids[i];
    r.logprobs.n = TOP;
    r.logprobs.prompt = true;
    r.gen.n_predict = n_predict;
    r.gen.ignore_eog = true;
    r.n_choices = n_choices;
    MUST(kt_engine_submit(w.engine, &r, &req, &err));
    return req;
}

static void compare(kt_request *req, int i, int32_t n_predict) {
    kt_event event;
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind != KT_EVENT_FINISHED) continue;
        assert_int_equal(event.finish, KT_FINISH_LENGTH);
        assert_int_equal(event.report->n_generated, n_predict);
        assert_int_equal(event.n_prompt, w.n_ids[i]);
        assert_int_equal(event.prompt[0].id, w.ids[i][0]);
        assert_memory_equal(event.prompt + WIDTH, expected[i] + WIDTH,
                            (w.n_ids[i] - 1) * WIDTH * sizeof *event.prompt);
    }
    kt_request_close(req);
}

/* All prompts at once, twice: the second time their pages could be found. */
static void ask_all(int32_t n_predict, int32_t n_choices) {
    kt_request *reqs[PROMPTS];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PROMPTS; i++) reqs[i] = ask(i, n_predict, n_choices);
        for (int i = 0; i < PROMPTS; i++) compare(reqs[i], i, n_predict);
    }
}

static void test_rows(void **state) {
    (void)state;
    static const int batches[][3] = {{0, 0, 0}, {64, 16, 3}, {32, 32, 1}};
    for (size_t k = 0; k < 3; k++) {
        begin_engine(batches[k][0], batches[k][1], batches[k][2], 0);
        ask_all(0, 1);
        ask_all(1, 1);
        ask_all(9, 2);
        end_engine();
    }
}

/* Little room: requests are suspended, and their rows computed again. */
static void test_preempted(void **state) {
    kt_model_info info;
    (void)state;
    kt_model_get_info(w.model, &info);
    begin_engine(64, 16, 4, 272 * info.kv_bytes_per_token);
    ask_all(80, 1);
    kt_engine_stats stats;
    kt_engine_get_stats(w.engine, &stats);
    assert_true(stats.recomputed_tokens > 0);
    end_engine();
}

static void test_one_token(void **state) {
    kt_error err;
    kt_event event;
    kt_request *req;
    kt_request_params r = kt_request_params_default();
    (void)state;
    begin_engine(0, 0, 0, 0);
    r.prompt.ids = w.ids[0];
    r.prompt.n_ids = 1;
    r.logprobs.n = 0;
    r.logprobs.prompt = true;
    r.gen.n_predict = 0;
    MUST(kt_engine_submit(w.engine, &r, &req, &err));
    do assert_true(kt_request_next_event(req, &event, -1));
    while (event.kind != KT_EVENT_FINISHED);
    assert_int_equal(event.n_prompt, 1);
    kt_request_close(req);
    r.logprobs.n = -1;
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_ARG);
    r.logprobs.n = 0;
    r.embedding.pooling = KT_POOLING_MEAN;
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_ARG);
    end_engine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_preempted),
        cmocka_unit_test(test_one_token),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
