/* Submitted requests: batched, cached, preempted, cut into slices, several choices, by callback, by
 * poll and by the engine's own thread: each answer is the one that the request gets alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "requests/plan.h"
#include "requests_world.h"

/* ---- equality with the request alone ---- */

static void compare(world *w, const kt_engine_params *ep, int n, bool threaded) {
    answer alone[MAX_REQUESTS], together[MAX_REQUESTS];
    for (int i = 0; i < n; i++) answer_alone(w, i, &alone[i]);
    open_engine(w, ep);
    submit_all(w, n, together);
    run_to_end(w, threaded);
    for (int i = 0; i < n; i++) expect_same(i, &alone[i], &together[i]);
    expect_idle(w);
    close_engine(w);
}

static void test_batched_answers_are_those_of_requests_alone(void **state) {
    world *w = *state;
    compare(w, &(kt_engine_params){.n_parallel = 6, .n_ctx = 512}, 12, false);
}

static void test_with_the_engines_own_thread(void **state) {
    world *w = *state;
    compare(w, &(kt_engine_params){.n_parallel = 4, .n_ctx = 512}, 8, true);
}

static void test_small_batches_and_slices(void **state) {
    world *w = *state;
    compare(w, &(kt_engine_params){.n_parallel = 3, .n_ctx = 512, .n_ubatch = 24, .gap_ms = 1}, 8,
            false);
}

/* Places for the longest of the first n requests and a page more. */
static uint64_t bytes_for_one(const world *w, const kt_engine_params *params, int n) {
    kt_engine_params p = *params;
    size_t longest = 0;
    kv_types_of_test(&p);
    for (int i = 0; i < n; i++) longest = w->n_ids[i] > longest ? w->n_ids[i] : longest;
    kt__kv_shape shape = kt__engine_kv_shape(w->model, &p);
    int64_t places = kt__plan_places(&shape, (int64_t)longest + w->n_predict) + 1;
    return (uint64_t)places * kt__kv_page_bytes(&shape);
}

/* Pages for little more than one request: the others are suspended again and again. */
static void test_preempted_and_resumed(void **state) {
    world *w = *state;
    kt_engine_stats stats;
    answer alone[MAX_REQUESTS], together[MAX_REQUESTS];
    w->ignore_eog = true; /* whatever the model says, they are too long for the pages */
    w->n_predict = kv_needs_ends() ? 160 : 60; /* longer than a tail */
    for (int i = 0; i < 8; i++) answer_alone(w, i, &alone[i]);
    kt_engine_params ep = {.n_parallel = 5, .n_ctx = 512};
    ep.kv_bytes = bytes_for_one(w, &ep, 8);
    open_engine(w, &ep);
    submit_all(w, 8, together);
    run_to_end(w, false);
    kt_engine_get_stats(w->engine, &stats);
    assert_true(stats.n_preempted > 0);
    for (int i = 0; i < 8; i++) expect_same(i, &alone[i], &together[i]);
    expect_idle(w);
    close_engine(w);
    w->ignore_eog = false;
    w->n_predict = 0;
}

static void test_a_prompt_seen_before_is_found(void **state) {
    world *w = *state;
    answer first, again;
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512};
    open_engine(w, &ep);
    submit(w, 3, &first);
    run_to_end(w, false);
    submit(w, 3, &again);
    run_to_end(w, false);
    expect_same(3, &first, &again);
    assert_int_equal(first.report.n_cached, 0);
    assert_true(again.report.n_cached >= kv_found_least(first.report.n_prompt - 1));
    assert_true(again.report.n_cached < first.report.n_prompt);
    assert_int_equal(kt_request_n_computed(again.req), kt_request_n_prompt(again.req));
    /* another client does not see it */
    kt_request_params r = request_of(w, 3);
    r.service.client = "somebody else";
    submit_request(w, &r, &again);
    run_to_end(w, false);
    expect_same(3, &first, &again);
    assert_int_equal(again.report.n_cached, 0);
    close_engine(w);
}

/* ---- choices ---- */

static void test_choices_share_the_prompt_and_differ(void **state) {
    world *w = *state;
    answer out[4];
    kt_engine_params ep = {.n_parallel = 3, .n_ctx = 512};
    kt_request_params r = request_of(w, 2);
    open_engine(w, &ep);
    r.n_choices = 4;
    submit_choices(w, &r, out, 4);
    run_to_end(w, false);
    bool differ = false;
    for (int i = 0; i < 4; i++) {
        answer alone;
        assert_int_equal(out[i].n_finished, 1);
        assert_int_equal(out[i].report.n_prompt, out[0].report.n_prompt);
        differ |= out[i].len != out[0].len || memcmp(out[i].text, out[0].text, out[0].len) != 0;
        if (i == 0) {
            answer_alone(w, 2, &alone);
            expect_same(2, &alone, &out[0]);
        }
    }
    assert_true(differ);
    assert_true(out[1].report.n_cached > 0);
    expect_idle(w);
    close_engine(w);
}

/* ---- cancel, deadlines, refusals ---- */

static void test_cancel_in_the_queue_and_while_running(void **state) {
    world *w = *state;
    answer out[4];
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = 512};
    open_engine(w, &ep);
    submit_all(w, 3, out);
    kt_request_cancel(out[2].req);
    step(w, 1);
    kt_request_cancel(out[0].req);
    run_to_end(w, false);
    assert_int_equal(out[0].finish, KT_FINISH_CANCELLED);
    assert_int_equal(out[2].finish, KT_FINISH_CANCELLED);
    assert_int_equal(out[2].n_tokens, 0);
    assert_true(out[1].finish != KT_FINISH_CANCELLED);
    for (int i = 0; i < 3; i++) assert_int_equal(out[i].n_finished, 1);
    expect_idle(w);
    close_engine(w);
}

static void test_closed_requests_are_forgotten(void **state) {
    world *w = *state;
    answer out[4];
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512};
    open_engine(w, &ep);
    submit_all(w, 4, out);
    step(w, 2);
    for (int i = 0; i < 4; i++) {
        close_request(w, &out[i]);
    }
    run_to_end(w, false);
    for (int i = 0; i < 4; i++) assert_int_equal(out[i].n_finished, 0);
    expect_idle(w);
    close_engine(w);
}

static void test_a_full_queue_refuses(void **state) {
    world *w = *state;
    answer out[4];
    kt_error err;
    kt_request *req;
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = 512, .n_queue_max = 3};
    open_engine(w, &ep);
    submit_all(w, 3, out);
    kt_request_params r = request_of(w, 0);
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_BUSY);
    assert_true(err.retry_ms > 0);
    assert_null(req);
    run_to_end(w, false);
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_OK);
    kt_request_close(req);
    close_engine(w);
}

static void test_deadlines(void **state) {
    world *w = *state;
    answer out[2];
    kt_error err;
    kt_request *req;
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = 2048};
    open_engine(w, &ep);
    submit_all(w, 2, out); /* rates are measured */
    run_to_end(w, false);
    kt_request_params r = request_of(w, 0);
    r.gen.n_predict = 1000000000;
    r.service.deadline_ms = 1;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_DEADLINE);
    assert_true(err.retry_ms > 1);
    assert_non_null(strstr(err.message, "deadline"));
    /* one that looked possible, for its first token, and then was not: however fast the machine is,
     * a whole context takes longer than a few tokens */
    r.gen.n_predict = -1;
    r.gen.ignore_eog = true;
    r.events.on_event = note_event;
    r.events.user = memset(&out[0], 0, sizeof out[0]);
    while (kt_engine_submit(w->engine, &r, &req, &err) == KT_E_DEADLINE)
        r.service.deadline_ms = 2 * err.retry_ms + 1;
    run_to_end(w, false);
    kt_request_close(req);
    assert_int_equal(out[0].finish, KT_FINISH_DEADLINE);
    expect_idle(w);
    close_engine(w);
}

static void test_bad_requests(void **state) {
    world *w = *state;
    kt_error err;
    kt_request *req;
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = 64};
    open_engine(w, &ep);
    static int32_t many[200], bad[1] = {1 << 30};
    kt_request_params r = kt_request_params_default();
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    r.prompt.ids = many;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    r.prompt.n_ids = 200;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_CONTEXT_FULL);
    r.prompt.ids = bad;
    r.prompt.n_ids = 1;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    r.prompt.ids = many;
    r.n_choices = 0;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    r.n_choices = 1;
    r.logprobs.n = 1000;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    r.logprobs.n = -1;
    r.service.priority = 101;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    r.service.priority = 0;
    r.prompt.text = "x";
    r.prompt.text_len = 1;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    kt_engine_stats stats;
    kt_engine_get_stats(w->engine, &stats);
    assert_int_equal(stats.n_refused_other, 8);
    close_engine(w);
}

/* ---- events ---- */

/* Nobody reads: the answer pauses, others go on, nothing is lost. */
static void test_a_slow_reader_pauses_its_own_answer(void **state) {
    world *w = *state;
    kt_error err;
    kt_request *req;
    kt_event event;
    kt_engine_stats stats;
    answer other, alone;
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 1024};
    open_engine(w, &ep);
    kt_request_params r = request_of(w, 1);
    r.gen.n_predict = 200;
    r.gen.ignore_eog = true;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_OK);
    submit(w, 4, &other);
    for (int i = 0; i < 400; i++) step(w, 1);
    assert_int_equal(other.n_finished, 1);
    kt_engine_get_stats(w->engine, &stats);
    assert_int_equal(stats.held, 1);
    assert_true(stats.generated_tokens < 200);
    answer read = {0};
    int n = 0;
    for (bool last = false; !last; n++) {
        while (!kt_request_next_event(req, &event, 0)) step(w, 1);
        note_event(&read, &event);
        last = event.kind == KT_EVENT_FINISHED && event.last;
    }
    assert_false(kt_request_next_event(req, &event, -1));
    assert_int_equal(read.report.n_generated, 200);
    assert_true(read.report.held_us >= 0);
    kt_request_close(req);
    close_engine(w);
    w->n_predict = 200;
    w->ignore_eog = true;
    answer_alone(w, 1, &alone);
    w->n_predict = 0;
    w->ignore_eog = false;
    expect_same(1, &alone, &read);
}

static void test_logprobs(void **state) {
    world *w = *state;
    answer out;
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512};
    open_engine(w, &ep);
    kt_request_params r = request_of(w, 0);
    r.logprobs.n = 5;
    r.gen.sampling.temperature = 0;
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_true(out.n_tokens > 2);
    for (int i = 0; i < out.n_tokens; i++) {
        double sum = 0;
        assert_int_equal(out.top[i][0].id, out.ids[i]);
        assert_true(out.top[i][0].logprob == out.logprob[i]);
        for (int k = 0; k < 5; k++) {
            sum += exp((double)out.top[i][k].logprob);
            if (k) assert_true(out.top[i][k].logprob <= out.top[i][k - 1].logprob);
        }
        assert_true(sum > 0 && sum < 1.0001);
    }
    close_engine(w);
}

/* Probabilities after the chain are those of what top_k has left, and sum to one; greedy is certain. */
static void test_post_sampling(void **state) {
    world *w = *state;
    answer out;
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512};
    open_engine(w, &ep);
    for (int greedy = 0; greedy < 2; greedy++) {
        kt_request_params r = request_of(w, 0);
        r.logprobs.n = 5;
        r.logprobs.post_sampling = true;
        r.gen.sampling.temperature = greedy ? 0.0f : 1.0f;
        r.gen.sampling.top_k = 3;
        r.gen.sampling.top_p = 1;
        r.gen.sampling.min_p = 0;
        submit_request(w, &r, &out);
        run_to_end(w, false);
        assert_true(out.n_tokens > 2);
        for (int i = 0; i < out.n_tokens; i++) {
            double sum = 0;
            int n = 0;
            while (n < 5 && out.top[i][n].id >= 0) sum += exp((double)out.top[i][n++].logprob);
            assert_int_equal(n, greedy ? 1 : 3);
            assert_true(fabs(sum - 1) < 1e-5);
            assert_true(out.logprob[i] <= 0 && out.logprob[i] > -INFINITY);
            if (greedy) assert_int_equal(out.top[i][0].id, out.ids[i]);
        }
    }
    close_engine(w);
}

/* Reported before the first token: what was found, then what is known after each batch, up to the whole. */
static void test_progress(void **state) {
    world *w = *state;
    kt_error err;
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = 512, .n_ubatch = 32};
    open_engine(w, &ep);
    for (int again = 0; again < 2; again++) {
        kt_request_params r = request_of(w, 3);
        kt_request *req;
        kt_event event;
        size_t n_last = 0, n_prompt = 0;
        int n = 0;
        bool token = false;
        r.events.progress = true;
        MUST(kt_engine_submit(w->engine, &r, &req, &err));
        while (kt_request_next_event(req, &event, -1) && event.kind != KT_EVENT_FINISHED) {
            token |= event.kind == KT_EVENT_TOKEN;
            if (event.kind != KT_EVENT_PROGRESS) continue;
            assert_false(token);
            if (!n++) assert_int_equal(event.n_computed, event.n_cached);
            if (n > 1) assert_true(event.n_computed > n_last);
            n_last = event.n_computed;
            n_prompt = event.n_prompt;
            assert_true(again ? event.n_cached > 0 : event.n_cached == 0);
        }
        assert_int_equal(n_last, n_prompt);
        assert_true(again ? n == 2 : n > 2);
        kt_request_close(req);
    }
    close_engine(w);
}

/* The likeliest token after ids[n], of a request that knows nothing else. */
static int32_t next_of(world *w, const int32_t *ids, size_t n) {
    answer out;
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    r.gen.n_predict = 1;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_int_equal(out.n_tokens, 1);
    return out.ids[0];
}

/* Where the context is full, the answer continues as that of the text which is left would. */
static void test_a_full_context_is_shifted(void **state) {
    world *w = *state;
    enum { N_CTX = 96, N_KEEP = 5, N_PREDICT = 260 };
    answer out, alone;
    int32_t known[N_CTX + 1];
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = N_CTX};
    open_engine(w, &ep);
    kt_request_params r = request_of(w, 0);
    bool begins = w->model->tok && kt__tokenizer_add_bos(w->model->tok);
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.loop_tokens = 0;
    r.overflow.n_keep = N_KEEP;
    submit_request(w, &r, &alone);
    run_to_end(w, false);
    assert_int_equal(alone.finish, KT_FINISH_CONTEXT);
    assert_int_equal(alone.report.n_dropped, 0);
    r.overflow.shift = true;
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_int_equal(out.finish, KT_FINISH_LENGTH);
    assert_int_equal(out.n_tokens, N_PREDICT);
    assert_memory_equal(out.ids, alone.ids, (size_t)alone.n_tokens * sizeof *out.ids);

    size_t n = r.prompt.n_ids, n_shifts = 0, n_dropped = 0, keep = N_KEEP + (size_t)begins;
    memcpy(known, r.prompt.ids, n * sizeof *known);
    for (int i = 0; i < out.n_tokens; i++) {
        known[n++] = out.ids[i];
        if (n < N_CTX || i + 1 == out.n_tokens) continue;
        size_t drop = (n - keep) / 2;
        memmove(known + keep, known + keep + drop, (n - keep - drop) * sizeof *known);
        n -= drop;
        n_dropped += drop;
        n_shifts++;
        assert_int_equal(next_of(w, known, n), out.ids[i + 1]);
    }
    assert_true(n_shifts >= 3);
    assert_int_equal(out.report.n_dropped, n_dropped);
    expect_idle(w);
    close_engine(w);
}

static void test_times_sum_to_the_whole(void **state) {
    world *w = *state;
    answer out[8];
    kt_engine_params ep = {.n_parallel = 3, .n_ctx = 512, .n_ubatch = 32};
    open_engine(w, &ep);
    submit_all(w, 8, out);
    run_to_end(w, false);
    for (int i = 0; i < 8; i++) {
        const kt_request_report *r = &out[i].report;
        int64_t sum = r->queue_us + r->tokenize_us + r->prefill_us + r->decode_us + r->sample_us +
                      r->wait_us + r->held_us;
        assert_true(sum == r->total_us);
        assert_true(r->first_token_us > 0 && r->first_token_us <= r->total_us);
        assert_non_null(r->bottleneck);
    }
    close_engine(w);
}

/* ---- embeddings ---- */

static void test_embeddings_do_not_depend_on_slices(void **state) {
    world *w = *state;
    kt_error err;
    kt_model_info info;
    kt_model_get_info(w->model, &info);
    size_t bytes = (size_t)info.d_model * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes);
    kt_request_params r = request_of(w, 5);
    for (int pooling = KT_POOLING_MEAN; pooling <= KT_POOLING_LAST; pooling++) {
        for (int pass = 0; pass < 2; pass++) {
            kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512, .n_ubatch = pass ? 7 : 512};
            open_engine(w, &ep);
            assert_int_equal(kt_embed(w->engine, r.prompt.ids, r.prompt.n_ids, (kt_pooling)pooling,
                                      true, pass ? b : a, &err),
                             KT_OK);
            close_engine(w);
        }
        double norm = 0;
        for (int i = 0; i < info.d_model; i++) norm += (double)a[i] * (double)a[i];
        assert_true(fabs(norm - 1) < 1e-4);
        assert_memory_equal(a, b, bytes);
    }
    free(a);
    free(b);
}

/* ---- beside sequences ---- */

static void test_sequences_and_requests_take_turns(void **state) {
    world *w = *state;
    kt_error err;
    kt_seq *seq;
    answer out[6], alone[6];
    kt_engine_params ep = {.n_parallel = 3, .n_ctx = 512, .n_ubatch = 16};
    for (int i = 0; i < 6; i++) answer_alone(w, i, &alone[i]);
    open_engine(w, &ep);
    assert_int_equal(kt_seq_open(w->engine, &seq, &err), KT_OK);
    submit_all(w, 5, out);
    assert_int_equal(kt_engine_start(w->engine, &err), KT_OK);
    kt_request_params r = request_of(w, 5);
    answer mine = {0};
    kt_request_report result;
    assert_int_equal(
        kt_generate(seq, r.prompt.ids, r.prompt.n_ids, &r.gen, note_text, &mine, &result, &err),
        KT_OK);
    assert_int_equal(mine.len, alone[5].len);
    assert_memory_equal(mine.text, alone[5].text, mine.len);
    kt_engine_stop(w->engine, -1);
    for (int i = 0; i < 5; i++) expect_same(i, &alone[i], &out[i]);
    kt_seq_close(seq);
    close_engine(w);
}

/* ---- a long evaluation beside answers ---- */

/* The evaluation of a sequence is cut into slices: an answer that runs gets its tokens meanwhile,
 * another prompt is answered, and the sequence is what it would be alone. */
static void test_a_long_evaluation_lets_answers_go_on(void **state) {
    world *w = *state;
    static answer a, b;
    static int32_t ids[1800];
    kt_error err;
    kt_seq *seq;
    kt_engine_params ep = {.n_parallel = 4, .n_ctx = 2048, .gap_ms = 1, .n_draft = -1};
    size_t bytes = (size_t)w->model->info.n_vocab * sizeof(float);
    float *alone = malloc(bytes);
    for (int i = 0; i < 1800; i++) ids[i] = w->ids[3][(size_t)i % w->n_ids[3]];
    for (int busy = 0; busy < 2; busy++) {
        int n_before = 0;
        open_engine(w, &ep);
        MUST(kt_seq_open(w->engine, &seq, &err));
        if (busy) {
            kt_request_params r = request_of(w, 0);
            r.gen.n_predict = 1900;
            r.gen.ignore_eog = true;
            submit_request(w, &r, &a);
            while (a.n_tokens < 2) (void)step(w, 1);
            n_before = a.n_tokens;
            submit(w, 4, &b);
            MUST(kt_engine_start(w->engine, &err));
        }
        MUST(kt_seq_eval(seq, ids, 1800, &err));
        if (busy) kt_engine_stop(w->engine, 0);
        if (!busy) memcpy(alone, kt_seq_logits(seq), bytes);
        assert_memory_equal(alone, kt_seq_logits(seq), bytes);
        if (busy) {
            if (a.n_tokens < n_before + 4) fail_msg("only %d tokens", a.n_tokens - n_before);
            assert_true(b.n_tokens > 0);
        }
        kt_seq_close(seq);
        close_engine(w);
    }
    free(alone);
}

/* ---- cancelled in a shared batch ---- */

/* As soon as it runs, its batch is to pause between two parts of a layer. */
static void pause_when_started(void *user, const kt_event *event) {
    note_event(user, event);
    if (event->kind == KT_EVENT_STARTED) atomic_store(&event->req->engine->cancel_pending, true);
}

/* Two prompts in one batch: the cancelled one's blocks are back at once, the other's answer stays
 * what it is. */
static void test_cancel_in_a_shared_batch_frees_its_blocks(void **state) {
    world *w = *state;
    static answer a, b, alone;
    kt_error err;
    kt_engine_stats stats;
    kt_engine_params ep = {.n_parallel = 4, .n_ctx = 2048};
    answer *both[] = {&a, &b};
    const int which[] = {10, 3};
    uint64_t blocks[2];
    answer_alone(w, 3, &alone);
    open_engine(w, &ep);
    for (int i = 0; i < 2; i++) {
        kt_request_params r = request_of(w, which[i]);
        memset(both[i], 0, sizeof *both[i]);
        r.events.on_event = pause_when_started;
        r.events.user = both[i];
        r.service.cache_scope = i ? "b" : "a";
        /* of quantised pages, full ones */
        blocks[i] = (r.prompt.n_ids + (kv_is_f16() ? KT__PAGE_POS - 1 : 0)) / KT__PAGE_POS;
        MUST(kt_engine_submit(w->engine, &r, &both[i]->req, &err));
        w->open[w->n_open++] = both[i]->req;
    }
    (void)step(w, 1);
    kt_engine_get_stats(w->engine, &stats);
    if (!kv_needs_ends()) assert_int_equal(stats.kv_blocks_used, blocks[0] + blocks[1]);
    assert_int_equal(a.n_tokens + b.n_tokens, 0);
    kt_request_cancel(a.req);
    (void)step(w, 1);
    kt_engine_get_stats(w->engine, &stats);
    assert_int_equal(a.finish, KT_FINISH_CANCELLED);
    if (!kv_needs_ends()) assert_true(stats.kv_blocks_used <= blocks[1] + 1);
    run_to_end(w, false);
    expect_same(3, &alone, &b);
    expect_idle(w);
    close_engine(w);
}

/* Who gives up while a long prompt is computed, and asks again, finds what was computed. */
static void test_what_a_cancelled_prompt_computed_is_found(void **state) {
    world *w = *state;
    static answer given_up, again, alone;
    static int32_t ids[900];
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 1024, .n_batch = 128, .n_draft = -1};
    for (int i = 0; i < 900; i++) ids[i] = w->ids[3][(size_t)i % w->n_ids[3]];
    kt_request_params r = request_of(w, 0);
    r.prompt.ids = ids;
    r.prompt.n_ids = 900;
    open_engine(w, &ep);
    submit_request(w, &r, &alone);
    run_to_end(w, false);
    close_engine(w);
    open_engine(w, &ep);
    submit_request(w, &r, &given_up);
    while (kt_request_n_computed(given_up.req) < 300) (void)step(w, 1);
    assert_int_equal(given_up.n_tokens, 0);
    kt_request_cancel(given_up.req);
    run_to_end(w, false);
    assert_int_equal(given_up.finish, KT_FINISH_CANCELLED);
    submit_request(w, &r, &again);
    run_to_end(w, false);
    assert_true(again.report.n_cached >= 256);
    expect_same(0, &alone, &again);
    close_engine(w);
}

/* ---- cancelled in the midst of a step ---- */

static kt_request *to_cancel;

/* It is admitted just before the step: this is noticed within it. */
static void cancel_another(void *user, const kt_event *event) {
    note_event(user, event);
    if (event->kind == KT_EVENT_STARTED) kt_request_cancel(to_cancel);
}

static void test_cancel_in_the_midst_of_a_step(void **state) {
    world *w = *state;
    static answer answers[3], alone;
    kt_error err;
    kt_engine_params ep = {.n_parallel = 4, .n_ctx = 2048};
    answer_alone(w, 3, &alone);
    open_engine(w, &ep);
    for (int i = 0; i < 3; i++) {
        kt_request_params r = request_of(w, i == 1 ? 3 : 10);
        memset(&answers[i], 0, sizeof answers[i]);
        r.events.on_event = i == 2 ? cancel_another : note_event;
        r.events.user = &answers[i];
        r.service.cache_scope = i == 0 ? "a" : "b";
        if (i == 2) {
            while (answers[0].n_tokens < 2 || answers[1].n_tokens < 2) (void)step(w, 1);
        }
        MUST(kt_engine_submit(w->engine, &r, &answers[i].req, &err));
        w->open[w->n_open++] = answers[i].req;
        if (i == 0) to_cancel = answers[0].req;
    }
    int before[] = {answers[0].n_tokens, answers[1].n_tokens};
    (void)step(w, 1);
    assert_int_equal(answers[0].finish, KT_FINISH_CANCELLED);
    assert_int_equal(answers[0].n_tokens, before[0]);
    assert_true(answers[1].n_tokens > before[1]);
    run_to_end(w, false);
    expect_same(3, &alone, &answers[1]);
    expect_idle(w);
    close_engine(w);
}

int main(void) {
    static world w;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_batched_answers_are_those_of_requests_alone, &w),
        cmocka_unit_test_prestate(test_with_the_engines_own_thread, &w),
        cmocka_unit_test_prestate(test_small_batches_and_slices, &w),
        cmocka_unit_test_prestate(test_preempted_and_resumed, &w),
        cmocka_unit_test_prestate(test_a_prompt_seen_before_is_found, &w),
        cmocka_unit_test_prestate(test_choices_share_the_prompt_and_differ, &w),
        cmocka_unit_test_prestate(test_cancel_in_the_queue_and_while_running, &w),
        cmocka_unit_test_prestate(test_closed_requests_are_forgotten, &w),
        cmocka_unit_test_prestate(test_a_full_queue_refuses, &w),
        cmocka_unit_test_prestate(test_deadlines, &w),
        cmocka_unit_test_prestate(test_bad_requests, &w),
        cmocka_unit_test_prestate(test_a_slow_reader_pauses_its_own_answer, &w),
        cmocka_unit_test_prestate(test_logprobs, &w),
        cmocka_unit_test_prestate(test_post_sampling, &w),
        cmocka_unit_test_prestate(test_progress, &w),
        cmocka_unit_test_prestate(test_a_full_context_is_shifted, &w),
        cmocka_unit_test_prestate(test_times_sum_to_the_whole, &w),
        cmocka_unit_test_prestate(test_embeddings_do_not_depend_on_slices, &w),
        cmocka_unit_test_prestate(test_sequences_and_requests_take_turns, &w),
        cmocka_unit_test_prestate(test_a_long_evaluation_lets_answers_go_on, &w),
        cmocka_unit_test_prestate(test_cancel_in_a_shared_batch_frees_its_blocks, &w),
        cmocka_unit_test_prestate(test_what_a_cancelled_prompt_computed_is_found, &w),
        cmocka_unit_test_prestate(test_cancel_in_the_midst_of_a_step, &w),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
