/* Speculation: what it proposes, when it is tried, and that it changes nothing but the time: tokens
 * and log-probabilities are those of plain decoding, greedy and drawn, with every kind of sampler
 * state, alone and beside others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "model_fixture.h"
#include "requests/speculator.h"
#include "requests_world.h"
#include "support.h"

/* ---- proposals ---- */

static void test_lookup(void **state) {
    (void)state;
    int32_t out[8];
    int match;
    const int32_t once[] = {1, 2, 3, 4, 5, 6, 7};
    assert_int_equal(kt__spec_lookup(once, 7, 8, out, &match), 0);
    /* the longest match wins, then the latest */
    const int32_t text[] = {9, 1, 2, 3, 50, 8, 2, 3, 60, 61, 7, 1, 2, 3};
    assert_int_equal(kt__spec_lookup(text, 14, 3, out, &match), 3);
    assert_int_equal(match, 3);
    assert_int_equal(out[0], 50);
    assert_int_equal(out[1], 8);
    assert_int_equal(out[2], 2);
    const int32_t twice[] = {2, 3, 50, 2, 3, 60, 2, 3};
    assert_int_equal(kt__spec_lookup(twice, 8, 1, out, &match), 1);
    assert_int_equal(out[0], 60);
    /* a loop goes on */
    const int32_t loop[] = {1, 2, 1, 2, 1, 2};
    assert_int_equal(kt__spec_lookup(loop, 6, 5, out, &match), 5);
    for (int i = 0; i < 5; i++) assert_int_equal(out[i], 1 + i % 2);
    assert_int_equal(kt__spec_lookup(loop, 6, 0, out, &match), 0);
    assert_int_equal(kt__spec_lookup(loop, 2, 5, out, &match), 0);
}

/* ---- the gate ---- */

static double roll(uint32_t *random) {
    return lcg_unit(random);
}

/* An answer of n tokens where proposals after a match are right with a given chance; returns its
 * time in plain steps. */
static double simulate(double per_row, double right, double matched, int n, uint32_t seed) {
    kt__spec_costs costs = {0};
    kt__spec_state state;
    double time = 0;
    kt__spec_init(&state);
    for (int got = 0; got < n;) {
        double tokens = 1;
        int match = 2 + (int)(roll(&seed) * 7), k = 0, accepted = 0;
        bool has = roll(&seed) < matched;
        if (has) k = kt__spec_choose(&costs, &state, match, 8, 1, &tokens);
        double cost = 1 + per_row * k;
        kt__spec_measure(&costs, 1 + k, (int64_t)(60000 * cost * (0.97 + 0.06 * roll(&seed))));
        while (accepted < k && roll(&seed) < right) accepted++;
        if (has) kt__spec_learn(&state, match, k, accepted);
        time += cost;
        got += 1 + accepted;
    }
    return time / n;
}

static void test_never_slower_by_more_than_a_hundredth(void **state) {
    (void)state;
    static const double per_row[] = {0.02, 0.1, 0.3, 1.0};
    static const double right[] = {0.0, 0.1, 0.3, 0.6, 0.95};
    for (size_t c = 0; c < 4; c++) {
        for (size_t q = 0; q < 5; q++) {
            double sum = 0;
            for (uint32_t seed = 1; seed <= 20; seed++)
                sum += simulate(per_row[c], right[q], 0.3, 2000, seed);
            if (sum / 20 > 1.01)
                fail_msg("cost %.2f, right %.2f: %.3f", per_row[c], right[q], sum / 20);
        }
    }
}

static void test_faster_where_it_pays(void **state) {
    (void)state;
    assert_true(simulate(0.05, 0.95, 0.9, 2000, 1) < 0.5);
    assert_true(simulate(0.1, 0.9, 0.6, 2000, 1) < 0.75);
}

static void test_costs_between_measurements(void **state) {
    (void)state;
    kt__spec_costs costs = {0};
    assert_true(kt__spec_cost(&costs, 3) == 0);
    kt__spec_measure(&costs, 2, 100);
    kt__spec_measure(&costs, 6, 180);
    assert_true(kt__spec_cost(&costs, 1) == 100);
    assert_true(kt__spec_cost(&costs, 2) == 100);
    assert_true(kt__spec_cost(&costs, 4) == 140);
    assert_true(kt__spec_cost(&costs, 10) == 260);
    assert_true(kt__spec_cost(&costs, 8) > 180);
    kt__spec_measure(&costs, 0, 5);
    kt__spec_measure(&costs, KT__SPEC_ROWS_MAX + 1, 5);
}

/* Plain steps in a slow second, and from then on only steps with a proposal: none is right, and the slow second is no reason to
 * continue. */
static void test_a_slow_second_is_forgotten(void **state) {
    (void)state;
    kt__spec_costs costs = {0};
    kt__spec_state spec;
    double tokens = 1;
    kt__spec_init(&spec);
    kt__spec_measure(&costs, 1, 90000);
    kt__spec_measure(&costs, 2, 40000);
    assert_true(kt__spec_cost(&costs, 1) <= 40000);
    spec.right[1] = 0.02;
    assert_int_equal(kt__spec_choose(&costs, &spec, 1, 1, 1, &tokens), 0);
}

/* One burst of a neighbour's in the first trial does not shut speculation off for good. */
static void test_a_dear_trial_is_forgotten(void **state) {
    (void)state;
    kt__spec_costs costs = {0};
    for (int i = 0; i < 10; i++) kt__spec_measure(&costs, 1, 1000);
    kt__spec_measure(&costs, 2, 4000); /* half of half as long again is believed */
    double dear = kt__spec_cost(&costs, 2);
    assert_true(dear > 1450 && dear < 1550);
    for (int i = 0; i < 4; i++) kt__spec_measure(&costs, 2, 1150); /* tried again, it is not dear */
    assert_true(kt__spec_cost(&costs, 2) < 1300);
    costs.us[2] = dear;
    for (int i = 0; i < 1500; i++) kt__spec_measure(&costs, 1, 1000);
    assert_true(kt__spec_cost(&costs, 2) < 1400);
}

/* A step that writes into new memory says only that it takes no longer than it took. */
static void test_new_memory_is_not_measured(void **state) {
    (void)state;
    kt__spec_costs costs = {0};
    assert_int_equal(kt__spec_measure_new(&costs, 1, 80000), 80000); /* nothing else is known */
    for (int i = 0; i < 10; i++) kt__spec_measure(&costs, 1, 20000);
    assert_in_range((int64_t)kt__spec_cost(&costs, 1), 19900, 20100);
    assert_in_range(kt__spec_measure_new(&costs, 2, 90000), 23000, 25000);
    assert_in_range((int64_t)kt__spec_cost(&costs, 2), 23000, 25000);
    assert_int_equal(kt__spec_measure_new(&costs, 2, 21000), 21000);
    assert_in_range((int64_t)kt__spec_cost(&costs, 2), 20900, 22600);
}

/* ---- the same answers ---- */

static const char repetitive[] = "one two three four one two three four one two three four one two "
                                 "three four one two three four one two";

static kt_model *draft_model; /* or NULL */

static void run_all(world *w, int n_draft, bool eager, answer *out, int n, kt_engine_stats *stats) {
    static int32_t ids[256];
    size_t n_ids;
    kt_error err;
    kt_engine_params ep = {.n_parallel = 4, .n_ctx = 512, .n_draft = n_draft, .n_ubatch = 64};
    ep.kv_bytes = 60 * page_bytes(w);
    ep.draft = draft_model;
    MUST(kt_tokenize(w->model, repetitive, strlen(repetitive), 0, ids, 256, &n_ids, &err));
    open_engine(w, &ep);
    kt__speculator_set_eager(w->engine->speculator, eager);
    for (int i = 0; i < n; i++) {
        kt_request_params r = request_of(w, i);
        r.gen.n_predict = 100;
        r.gen.ignore_eog = i % 3 == 0;
        r.logprobs.n = 5;
        if (i % 2) {
            r.prompt.ids = ids;
            r.prompt.n_ids = n_ids - (size_t)i;
        }
        submit_request(w, &r, &out[i]);
    }
    run_to_end(w, false);
    kt_engine_get_stats(w->engine, stats);
    expect_idle(w);
    close_engine(w);
}

static void test_answers_are_those_of_plain_decoding(void **state) {
    world *w = *state;
    static answer plain[12], eager[12], gated[12];
    kt_engine_stats stats;
    run_all(w, -1, false, plain, 12, &stats);
    assert_int_equal(stats.drafted_tokens, 0);
    run_all(w, 7, true, eager, 12, &stats);
    assert_true(stats.drafted_tokens > 100);
    assert_true(stats.accepted_tokens > 10 && stats.accepted_tokens < stats.drafted_tokens);
    run_all(w, 7, false, gated, 12, &stats);
    for (int i = 0; i < 12; i++) {
        const answer *others[] = {&eager[i], &gated[i]};
        for (int k = 0; k < 2; k++) {
            expect_same(i, &plain[i], others[k]);
            assert_memory_equal(plain[i].logprob, others[k]->logprob, sizeof plain[i].logprob);
            assert_memory_equal(plain[i].top, others[k]->top, sizeof plain[i].top);
        }
    }
}

/* A draft model that is always right when it is greedy, and one that knows nothing. */
static void test_a_draft_model_changes_nothing(void **state) {
    world *w = *state;
    static answer plain[12], drafted[12];
    kt_engine_stats stats;
    kt_error err;
    kt_model *drafts[2];
    kt_model_info info;
    char path[256];
    kt_model_get_info(w->model, &info);
    fixture_spec spec = {.arch = "llama",
                         .n_layer = 1,
                         .d_model = 32,
                         .d_ff = 32,
                         .n_head = 2,
                         .n_head_kv = 1,
                         .head_dim = 16,
                         .n_vocab = info.n_vocab,
                         .tied = true};
    snprintf(path, sizeof path, "%s/draft-%d.gguf", KT_BINARY_DIR, (int)getpid());
    MUST(fixture_write(&spec, path, &err));
    MUST(kt_model_open(w->ctx, path, NULL, &drafts[0], &err));
    MUST(kt_model_open_demo(w->ctx, NULL, &drafts[1], &err));
    run_all(w, -1, false, plain, 12, &stats);
    for (int i = 0; i < 4; i++) {
        draft_model = drafts[i / 2];
        run_all(w, 5, i % 2 == 0, drafted, 12, &stats);
        if (i == 2) assert_true(stats.accepted_tokens * 5 > stats.drafted_tokens * 2);
        if (i % 2 == 0) assert_true(stats.drafted_tokens > 500);
        for (int k = 0; k < 12; k++) {
            expect_same(k, &plain[k], &drafted[k]);
            assert_memory_equal(plain[k].logprob, drafted[k].logprob, sizeof plain[k].logprob);
        }
    }
    draft_model = NULL;
    kt_model_close(drafts[0]);
    spec.n_vocab--;
    MUST(fixture_write(&spec, path, &err));
    MUST(kt_model_open(w->ctx, path, NULL, &drafts[0], &err));
    kt_engine_params ep = {.draft = drafts[0]};
    kt_engine *engine;
    assert_int_equal(kt_engine_open(w->model, &ep, &engine, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "vocabulary"));
    kt_model_close(drafts[0]);
    kt_model_close(drafts[1]);
    remove(path);
}

/* ---- over sequences ---- */

/* The i-th request on a sequence, event by event, with requests beside it where `disturbed`. */
static void answer_by_events(world *w, int i, bool disturbed, kt_seq *seq, answer *out) {
    kt_error err;
    kt_request *req;
    kt_event event;
    static answer other;
    kt_request_params r = request_of(w, i);
    r.gen.n_predict = 80;
    r.seq = seq;
    r.seq_append = true;
    memset(out, 0, sizeof *out);
    MUST(kt_seq_truncate(seq, 0, &err));
    MUST(kt_engine_submit(w->engine, &r, &req, &err));
    assert_int_equal(kt_seq_truncate(seq, 0, &err), KT_E_STATE); /* it is lent */
    for (int k = 0; kt_request_next_event(req, &event, -1); k++) {
        note_event(out, &event);
        if (disturbed && k % 7 == 3) submit(w, 4, &other);
    }
    memcpy(out->ids, kt_seq_tokens(seq), kt_seq_len(seq) * sizeof *out->ids);
    kt_request_close(req);
    run_to_end(w, false);
}

/* A draft model remembers the end of a long text: its memory does not grow with the context, and it
 * proposes beyond what it remembers. */
static void test_a_text_longer_than_a_draft_remembers(void **state) {
    world *w = *state;
    enum { N_IDS = 4000, N_NEW = 200 };
    static int32_t ids[N_IDS];
    static answer answers[2];
    size_t n_ids;
    kt_error err;
    kt_engine_stats stats = {0};
    kt_mem_plan plans[2];
    MUST(kt_tokenize(w->model, repetitive, strlen(repetitive), 0, ids, N_IDS, &n_ids, &err));
    for (size_t i = n_ids; i < N_IDS; i++) ids[i] = ids[i - n_ids];
    for (int with_draft = 0; with_draft < 2; with_draft++) {
        kt_engine_params ep = {.n_parallel = 1, .n_ctx = 8192, .n_draft = with_draft ? 5 : -1};
        ep.draft = with_draft ? w->model : NULL;
        open_engine(w, &ep);
        kt__speculator_set_eager(w->engine->speculator, true);
        kt_request_params r = request_of(w, 0);
        r.prompt.ids = ids;
        r.prompt.n_ids = N_IDS;
        r.gen.n_predict = N_NEW;
        r.gen.ignore_eog = true;
        submit_request(w, &r, &answers[with_draft]);
        run_to_end(w, false);
        kt_engine_get_stats(w->engine, &stats);
        close_engine(w);
    }
    expect_same(0, &answers[0], &answers[1]);
    if (stats.accepted_tokens < N_NEW / 8)
        fail_msg("%llu of %llu right", (unsigned long long)stats.accepted_tokens,
                 (unsigned long long)stats.drafted_tokens);
    for (int i = 0; i < 2; i++) {
        kt_engine_params ep = {.n_parallel = 1, .n_ctx = i ? 32768 : 4096, .draft = w->model};
        MUST(kt_engine_plan(w->model, &ep, &plans[i], &err));
    }
    assert_true(plans[0].draft_bytes > 0 && plans[0].draft_bytes == plans[1].draft_bytes);
}

static void test_sequences_speculate_and_answer_the_same(void **state) {
    world *w = *state;
    static answer plain, other;
    kt_error err;
    kt_model *same;
    int n_drafted = 0, n_accepted = 0;
    MUST(kt_model_open_demo(w->ctx, NULL, &same, &err));
    for (int with_draft = 0; with_draft < 2; with_draft++) {
        kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512, .n_draft = -1, .n_seq_max = 2};
        kt_engine *engines[2];
        kt_seq *seqs[2], *second;
        for (int k = 0; k < 2; k++) {
            kv_types_of_test(&ep);
            MUST(kt_engine_open(w->model, &ep, &engines[k], &err));
            MUST(kt_seq_open(engines[k], &seqs[k], &err));
            ep.n_draft = 6;
            ep.draft = with_draft ? same : NULL;
        }
        kt__speculator_set_eager(engines[1]->speculator, true);
        for (int i = 0; i < 12; i++) {
            w->engine = engines[0];
            answer_by_events(w, i, false, seqs[0], &plain);
            assert_int_equal(plain.report.n_drafted, 0);
            w->engine = engines[1];
            w->n_open = 0;
            if (i == 6) MUST(kt_seq_open(engines[1], &second, &err));
            answer_by_events(w, i, i % 3 == 1, seqs[1], &other);
            for (int k = 0; k < w->n_open; k++) kt_request_close(w->open[k]);
            expect_same(i, &plain, &other);
            assert_int_equal(kt_seq_len(seqs[0]), kt_seq_len(seqs[1]));
            assert_memory_equal(plain.ids, other.ids, kt_seq_len(seqs[0]) * sizeof *plain.ids);
            assert_memory_equal(kt_seq_logits(seqs[0]), kt_seq_logits(seqs[1]),
                                (size_t)w->model->info.n_vocab * sizeof(float));
            n_drafted += other.report.n_drafted;
            n_accepted += other.report.n_accepted;
        }
        kt_seq_close(second);
        for (int k = 0; k < 2; k++) {
            kt_seq_close(seqs[k]);
            assert_true(engines[k]->n_seq == 0);
            kt_engine_close(engines[k]);
        }
        w->engine = NULL;
    }
    kt_model_close(same);
    if (n_accepted <= 100 || n_drafted <= n_accepted)
        fail_msg("%d of %d proposals right", n_accepted, n_drafted);
}

/* Stopped in the middle of what was right, the sequence is where plain decoding would be. */
static bool stop_at(void *user, const char *text, size_t len, int32_t id) {
    (void)text, (void)len, (void)id;
    return --*(int *)user > 0;
}

static void test_cancelled_among_proposals(void **state) {
    world *w = *state;
    kt_error err;
    kt_request_params r = request_of(w, 0);
    r.gen.n_predict = 60;
    for (int after = 1; after < 40; after += 6) {
        size_t len[2];
        for (int k = 0; k < 2; k++) {
            int left = after;
            kt_seq *seq;
            kt_request_report result;
            kt_engine_params ep = {
                .n_ctx = 512, .n_draft = k ? 6 : -1, .draft = k ? w->model : NULL};
            open_engine(w, &ep);
            kt__speculator_set_eager(w->engine->speculator, true);
            MUST(kt_seq_open(w->engine, &seq, &err));
            MUST(kt_generate(seq, r.prompt.ids, r.prompt.n_ids, &r.gen, stop_at, &left, &result,
                             &err));
            assert_int_equal(result.finish, KT_FINISH_CANCELLED);
            len[k] = kt_seq_len(seq);
            kt_seq_close(seq);
            expect_idle(w);
            close_engine(w);
        }
        assert_int_equal(len[0], len[1]);
    }
}

int main(void) {
    static world w;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_never_slower_by_more_than_a_hundredth),
        cmocka_unit_test(test_faster_where_it_pays),
        cmocka_unit_test(test_costs_between_measurements),
        cmocka_unit_test(test_a_slow_second_is_forgotten),
        cmocka_unit_test(test_new_memory_is_not_measured),
        cmocka_unit_test(test_a_dear_trial_is_forgotten),
        cmocka_unit_test_prestate(test_answers_are_those_of_plain_decoding, &w),
        cmocka_unit_test_prestate(test_a_draft_model_changes_nothing, &w),
        cmocka_unit_test_prestate(test_a_text_longer_than_a_draft_remembers, &w),
        cmocka_unit_test_prestate(test_sequences_speculate_and_answer_the_same, &w),
        cmocka_unit_test_prestate(test_cancelled_among_proposals, &w),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
