/* Models with recurrent layers: their state is found again where conversations go on or branch, and
 * nothing that happens to it (snapshots, truncation, copies, sessions, rejected proposals,
 * suspension) changes a byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "kv_types.h"
#include "prompt/text.h"
#include "requests/speculator.h"
#include "requests_world.h"
#include "support.h"

enum { PAGE = KT__PAGE_POS, MAX_IDS = 900, N_PREDICT = 14, TURNS = 10 };

static const char *const presets[] = {"tiny-lfm2",      "tiny-qwen35", "tiny-granitehybrid-dense",
                                      "tiny-falconh1",  "tiny-mamba2", "tiny-mamba",
                                      "tiny-qwen35-mtp"};
enum { N_PRESETS = sizeof presets / sizeof *presets };

static char path[256];

static void open_world(world *w, const char *preset) {
    kt_error err;
    char command[1024];
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 1; /* that threads change nothing is seen in test_engine_one_answer */
    snprintf(path, sizeof path, "%s/hybrids-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant q8_0 --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, preset, path);
    assert_int_equal(system(command), 0);
    *w = (world){0};
    MUST(kt_ctx_open(&cp, &w->ctx, &err));
    MUST(kt_model_open(w->ctx, path, NULL, &w->model, &err));
}

static void close_world(world *w) {
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
    unlink(path);
}

/* ---- conversations ---- */

typedef struct talk {
    int32_t ids[MAX_IDS], begin, end; /* control tokens */
    int n;

    uint32_t seed;
} talk;

static int32_t control(const world *w, const char *text) {
    int32_t id;
    size_t n;
    kt_error err;
    MUST(kt_tokenize(w->model, text, strlen(text), KT_TOK_PARSE_SPECIAL, &id, 1, &n, &err));
    assert_int_equal(n, 1);
    return id;
}

static talk begin_talk(const world *w) {
    return (talk){.begin = control(w, "<|im_start|>"), .end = control(w, "<|im_end|>"), .seed = 77};
}

/* A message of n words. */
static void add_message(talk *t, int n) {
    t->ids[t->n++] = t->begin;
    for (int i = 0; i < n; i++) t->ids[t->n++] = (int32_t)lcg_below(&t->seed, 1500);
    t->ids[t->n++] = t->end;
}

static void begin_answer(talk *t) {
    t->ids[t->n++] = t->begin;
    t->ids[t->n++] = 40;
}

static void add_answer(talk *t, const answer *a) {
    for (int i = 0; i < a->n_tokens; i++) t->ids[t->n++] = a->ids[i];
    t->ids[t->n++] = t->end;
}

static void ask(world *w, const talk *t, bool no_cache, answer *out) {
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = t->ids;
    r.prompt.n_ids = (size_t)t->n;
    r.logprobs.n = 5;
    r.service.no_cache = no_cache;
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.sampling.seed = 3;
    submit_request(w, &r, out);
    run_to_end(w, false);
    if (out->finish != KT_FINISH_LENGTH) fail_msg("%s", out->error.message);
}

static void expect_equal(const answer *a, const answer *b) {
    assert_int_equal(a->n_tokens, N_PREDICT);
    assert_int_equal(b->n_tokens, N_PREDICT);
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_memory_equal(a->top, b->top, sizeof a->top);
}

/* What was computed of the prompt before: whole pages of what is the same. */
static void ten_turns(world *w) {
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 1024, .n_ubatch = 64};
    talk t = begin_talk(w);
    answer out, alone;
    int known = 0, computed = 0, least = 0;
    open_engine(w, &ep);
    add_message(&t, 40);
    for (int turn = 0; turn < TURNS; turn++) {
        add_message(&t, 9 + 2 * turn);
        begin_answer(&t);
        ask(w, &t, false, &out);
        assert_int_equal(out.report.n_cached, known / PAGE * PAGE);
        if (turn % 4 == 1) { /* as without anything that is known */
            ask(w, &t, true, &alone);
            expect_equal(&out, &alone);
        }
        computed += t.n - out.report.n_cached;
        least += t.n - known;
        known = t.n + N_PREDICT - 1; /* the answer's last token is not computed */
        add_answer(&t, &out);
    }
    print_message("ten turns: %d tokens of prompts, %d computed, %d new\n", t.n, computed, least);
    assert_true(computed <= least + (TURNS - 1) * (PAGE - 1));
    close_engine(w);
}

/* A template that drops what was thought: the last answer is gone, and so is what followed. */
static void edited_history(world *w) {
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 1024, .n_ubatch = 64};
    talk t = begin_talk(w), was;
    answer out, alone;
    int same = 0; /* tokens that this prompt and the one before begin with */
    open_engine(w, &ep);
    add_message(&t, 70);
    for (int turn = 0; turn < 4; turn++) {
        add_message(&t, 25 + turn);
        was = t;
        begin_answer(&t);
        ask(w, &t, false, &out);
        assert_int_equal(out.report.n_cached, same / PAGE * PAGE);
        same = was.n + 1;
        ask(w, &t, true, &alone);
        expect_equal(&out, &alone);
        t = was; /* without the answer, and another one in its place */
        add_message(&t, 9);
    }
    /* an early message is another one now: all behind the first message's end is computed again */
    t.ids[100] = t.ids[100] == 5 ? 6 : 5;
    begin_answer(&t);
    ask(w, &t, false, &out);
    assert_true(out.report.n_cached >= 70 / PAGE * PAGE || kv_needs_ends());
    assert_true(out.report.n_cached <= 100);
    ask(w, &t, true, &alone);
    expect_equal(&out, &alone);
    close_engine(w);
}

/* Each turn in an engine of its own: what the turns before computed comes from the disk. */
static void restarts(world *w) {
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 1024, .n_ubatch = 64};
    talk t = begin_talk(w);
    answer out, alone;
    kt_error err;
    kt_engine_stats stats;
    kt_cache *cache;
    char dir[300], command[400];
    int known = 0;
    snprintf(dir, sizeof dir, "%s.cache", path);
    const kt_cache_params cp = {.dir = dir};
    add_message(&t, 40);
    for (int turn = 0; turn < TURNS; turn++) {
        add_message(&t, 9 + 7 * turn);
        begin_answer(&t);
        open_engine(w, &ep);
        ask(w, &t, true, &alone);
        MUST(kt_cache_open(w->engine, &cp, &cache, &err));
        ask(w, &t, false, &out);
        expect_equal(&out, &alone);
        assert_int_equal(out.report.n_cached, known / PAGE * PAGE);
        kt_engine_get_stats(w->engine, &stats);
        assert_int_equal(stats.disk_tokens, out.report.n_cached);
        kt_cache_close(cache);
        close_engine(w);
        known = t.n + N_PREDICT - 1;
        add_answer(&t, &out);
    }
    /* another conversation after the same first message, which lies in a page of its own */
    t.n = 42;
    add_message(&t, 60);
    begin_answer(&t);
    open_engine(w, &ep);
    MUST(kt_cache_open(w->engine, &cp, &cache, &err));
    ask(w, &t, false, &out);
    assert_int_equal(out.report.n_cached, 42 / PAGE * PAGE);
    ask(w, &t, true, &alone);
    expect_equal(&out, &alone);
    kt_cache_close(cache);
    close_engine(w);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void test_conversations(void **state) {
    (void)state;
    for (int i = 0; i < N_PRESETS; i++) {
        world w;
        open_world(&w, presets[i]);
        ten_turns(&w);
        edited_history(&w);
        restarts(&w);
        close_world(&w);
    }
}

/* ---- sequences ---- */

enum { N_SEQ = 130 };

static const float *logits_after(kt_seq *seq, const int32_t *ids, size_t n) {
    kt_error err;
    MUST(kt_seq_eval(seq, ids, n, &err));
    return kt_seq_logits(seq);
}

static void sequences(world *w) {
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512, .n_ubatch = 64, .n_seq_max = 4};
    kt_error err;
    kt_model_info info;
    kt_seq *seq, *copy, *other;
    int32_t ids[N_SEQ + 10];
    char file[300];
    uint32_t seed = 5;
    kt_model_get_info(w->model, &info);
    size_t bytes = (size_t)info.n_vocab * sizeof(float);
    float *want = malloc(bytes), *middle = malloc(bytes);
    snprintf(file, sizeof file, "%s.session", path);
    for (int i = 0; i < N_SEQ + 10; i++) ids[i] = (int32_t)lcg_below(&seed, 1500);
    open_engine(w, &ep);
    MUST(kt_seq_open(w->engine, &seq, &err));
    memcpy(middle, logits_after(seq, ids, 60), bytes);
    memcpy(want, logits_after(seq, ids + 60, N_SEQ - 60), bytes);
    /* token by token */
    MUST(kt_seq_open(w->engine, &other, &err));
    for (int i = 0; i < N_SEQ; i++) MUST(kt_seq_eval(other, ids + i, 1, &err));
    assert_memory_equal(kt_seq_logits(other), want, bytes);
    /* back, within a page and at its end, near and far */
    static const size_t keep[] = {N_SEQ - 1, 121, 96, 70, 16, 0};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        MUST(kt_seq_truncate(other, keep[i], &err));
        if (keep[i] <= 60) {
            const float *at = logits_after(other, ids + keep[i], 60 - keep[i]);
            assert_memory_equal(at, middle, bytes);
            MUST(kt_seq_eval(other, ids + 60, N_SEQ - 60, &err));
        } else {
            MUST(kt_seq_eval(other, ids + keep[i], N_SEQ - keep[i], &err));
        }
        assert_memory_equal(kt_seq_logits(other), want, bytes);
    }
    kt_seq_close(other);
    /* a copy, a session, and the same further tokens */
    MUST(kt_seq_copy(seq, &copy, &err));
    MUST(kt_seq_save(seq, file, &err));
    MUST(kt_seq_open(w->engine, &other, &err));
    MUST(kt_seq_restore(other, file, &err));
    assert_memory_equal(kt_seq_logits(other), want, bytes);
    memcpy(want, logits_after(seq, ids + N_SEQ, 10), bytes);
    assert_memory_equal(logits_after(copy, ids + N_SEQ, 10), want, bytes);
    assert_memory_equal(logits_after(other, ids + N_SEQ, 10), want, bytes);
    /* a session of a sequence whose state is gone */
    MUST(kt_seq_truncate(copy, 51, &err));
    MUST(kt_seq_save(copy, file, &err));
    MUST(kt_seq_restore(other, file, &err));
    assert_memory_equal(logits_after(other, ids + 51, 9), middle, bytes);
    kt_seq_close(seq);
    kt_seq_close(copy);
    kt_seq_close(other);
    close_engine(w);
    unlink(file);
    free(want);
    free(middle);
}

static void test_sequences(void **state) {
    (void)state;
    for (int i = 0; i < N_PRESETS; i++) {
        world w;
        open_world(&w, presets[i]);
        sequences(&w);
        close_world(&w);
    }
}

/* ---- speculation, suspension ---- */

/* A text that repeats itself, so that there is something to propose. */
static talk repetitive(const world *w, int which) {
    talk t = begin_talk(w);
    add_message(&t, 20 + which);
    for (int i = 0; i < 6; i++) {
        t.seed = 40 + (uint32_t)which;
        add_message(&t, 12);
    }
    begin_answer(&t);
    return t;
}

/* A draft model has states, too: those of proposals that were wrong are gone, and what it proposes is as
 * often right as that of a model without. Returns the share of what was right. */
static double drafted_by_itself(world *w, float temperature) {
    enum { N = 3 };
    static answer plain[N], drafted[N];
    int n_drafted = 0, n_accepted = 0;
    for (int draft = 0; draft < 2; draft++) {
        kt_engine_params ep = {.n_parallel = N, .n_ctx = 512, .n_draft = draft ? 4 : -1};
        if (draft) ep.draft = w->model;
        open_engine(w, &ep);
        if (draft) kt__speculator_set_eager(w->engine->speculator, true);
        for (int i = 0; i < N; i++) {
            talk t = begin_talk(w);
            t.seed = 90 + (uint32_t)i;
            add_message(&t, 30 + i);
            begin_answer(&t);
            kt_request_params r = kt_request_params_default();
            r.prompt.ids = t.ids;
            r.prompt.n_ids = (size_t)t.n;
            r.gen.n_predict = 60;
            r.gen.ignore_eog = true;
            r.gen.sampling.temperature = temperature;
            r.gen.sampling.seed = (uint64_t)i;
            submit_request(w, &r, draft ? &drafted[i] : &plain[i]);
        }
        run_to_end(w, false);
        close_engine(w);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(plain[i].n_tokens, 60);
        assert_memory_equal(plain[i].ids, drafted[i].ids, sizeof plain[i].ids);
        n_drafted += drafted[i].report.n_drafted;
        n_accepted += drafted[i].report.n_accepted;
    }
    assert_true(n_drafted > 60);
    return (double)n_accepted / n_drafted;
}

static void speculation(world *w) {
    enum { N = 4 };
    static answer plain[N], eager[N];
    const kt_logit_bias few[] = {
        {50, 60.0f}, {51, 60.0f}, {52, 60.0f}}; /* they repeat themselves */
    for (int drafted = 0; drafted < 2; drafted++) {
        kt_engine_params ep = {.n_parallel = N, .n_ctx = 512, .n_draft = drafted ? 6 : -1};
        open_engine(w, &ep);
        if (drafted) kt__speculator_set_eager(w->engine->speculator, true);
        for (int i = 0; i < N; i++) {
            talk t = repetitive(w, i);
            kt_request_params r = kt_request_params_default();
            r.prompt.ids = t.ids;
            r.prompt.n_ids = (size_t)t.n;
            r.logprobs.n = 5;
            r.gen.n_predict = 40;
            r.gen.ignore_eog = true;
            r.gen.sampling.temperature = 2;
            r.gen.sampling.seed = (uint64_t)i;
            r.gen.sampling.logit_bias = few;
            r.gen.sampling.n_logit_bias = 3;
            submit_request(w, &r, drafted ? &eager[i] : &plain[i]);
        }
        run_to_end(w, false);
        close_engine(w);
    }
    int n_drafted = 0, n_accepted = 0;
    for (int i = 0; i < N; i++) {
        n_drafted += eager[i].report.n_drafted;
        n_accepted += eager[i].report.n_accepted;
    }
    assert_true(n_drafted > n_accepted); /* some were taken back */
    for (int i = 0; i < N; i++) {
        assert_int_equal(plain[i].n_tokens, 40);
        assert_memory_equal(plain[i].ids, eager[i].ids, sizeof plain[i].ids);
        assert_memory_equal(plain[i].logprob, eager[i].logprob, sizeof plain[i].logprob);
    }
}

static void suspension(world *w) {
    enum { N = 5 };
    static answer alone[N], together[N];
    kt_engine_stats stats;
    kt_engine_params types = {.n_draft = 1}; /* with the layer of a block that proposes tokens */
    kv_types_of_test(&types);
    kt__kv_shape shape = kt__engine_kv_shape(w->model, &types);
    /* those that are written need none where others are quantised, nor do those of a tail */
    uint64_t pages = kv_is_f16() ? 20 : kv_needs_ends() ? 6 : 16;
    for (int i = 0; i < N; i++) {
        kt_engine_params ep = {.n_parallel = 1, .n_ctx = 512};
        talk t = repetitive(w, i);
        open_engine(w, &ep);
        ask(w, &t, false, &alone[i]);
        close_engine(w);
    }
    kt_engine_params ep = {
        .n_parallel = 4, .n_ctx = 512, .kv_bytes = pages * kt__kv_page_bytes(&shape)};
    open_engine(w, &ep);
    for (int i = 0; i < N; i++) {
        talk t = repetitive(w, i);
        kt_request_params r = kt_request_params_default();
        r.prompt.ids = t.ids;
        r.prompt.n_ids = (size_t)t.n;
        r.logprobs.n = 5;
        r.gen.n_predict = N_PREDICT;
        r.gen.ignore_eog = true;
        r.gen.sampling.seed = 3;
        submit_request(w, &r, &together[i]);
    }
    run_to_end(w, false);
    kt_engine_get_stats(w->engine, &stats);
    assert_true(stats.n_preempted > 0);
    for (int i = 0; i < N; i++) expect_equal(&alone[i], &together[i]);
    close_engine(w);
}

static void test_a_draft_model_with_states(void **state) {
    (void)state;
    for (int i = 0; i < N_PRESETS; i++) {
        world w;
        open_world(&w, presets[i]);
        double greedy = drafted_by_itself(&w, 0.0f), drawn = drafted_by_itself(&w, 0.4f);
        print_message("%s: %.3f and %.3f of what it proposed were right\n", presets[i], greedy,
                      drawn);
        if (kv_is_f16()) assert_true(greedy > 0.9); /* the draft model's keys are f16 */
        assert_true(drawn > 0.2 && drawn < 1.0);
        close_world(&w);
    }
}

static void test_speculation_and_suspension(void **state) {
    (void)state;
    for (int i = 0; i < N_PRESETS; i++) {
        world w;
        open_world(&w, presets[i]);
        speculation(&w);
        suspension(&w);
        close_world(&w);
    }
}

/* The model's own block proposes: answers are as without, and where it agrees with the layers, all that it
 * proposes of the most likely tokens is right. Returns the share of what was right. */
static double drafted_by_own_block(world *w, bool eager, float temperature, int32_t n_predict) {
    enum { N = 3 };
    static answer plain[N], drafted[N];
    int n_drafted = 0, n_accepted = 0;
    for (int draft = 0; draft < 2; draft++) {
        kt_engine_params ep = {.n_parallel = N, .n_ctx = 512, .n_draft = draft ? 4 : -1};
        ep.draft_from = KT_DRAFT_MODEL;
        open_engine(w, &ep);
        if (draft) kt__speculator_set_eager(w->engine->speculator, eager);
        for (int i = 0; i < N; i++) {
            talk t = begin_talk(w);
            t.seed = 90 + (uint32_t)i;
            add_message(&t, 90 + i);
            begin_answer(&t);
            kt_request_params r = kt_request_params_default();
            r.prompt.ids = t.ids;
            r.prompt.n_ids = (size_t)t.n;
            r.logprobs.n = 5;
            r.gen.n_predict = n_predict;
            r.gen.ignore_eog = true;
            r.gen.sampling.temperature = temperature;
            r.gen.sampling.seed = (uint64_t)i;
            submit_request(w, &r, draft ? &drafted[i] : &plain[i]);
        }
        run_to_end(w, false);
        close_engine(w);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(plain[i].n_tokens, n_predict);
        assert_memory_equal(plain[i].ids, drafted[i].ids, sizeof plain[i].ids);
        assert_memory_equal(plain[i].logprob, drafted[i].logprob, sizeof plain[i].logprob);
        n_drafted += drafted[i].report.n_drafted;
        n_accepted += drafted[i].report.n_accepted;
    }
    if (eager) assert_true(n_drafted > n_predict);
    return n_drafted ? (double)n_accepted / n_drafted : 0.0;
}

static void test_own_block(void **state) {
    (void)state;
    static const char *const own[] = {"tiny-qwen35-mtp", "tiny-qwen35moe-mtp", "tiny-qwen3next-mtp",
                                      "tiny-deepseek2-mtp"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        world w;
        char agreeing[64];
        open_world(&w, own[i]);
        assert_true(drafted_by_own_block(&w, true, 0.0f, 60) < 0.5);
        (void)drafted_by_own_block(&w, false, 0.4f, 60);
        close_world(&w);
        snprintf(agreeing, sizeof agreeing, "%s --mtp-agrees", own[i]);
        open_world(&w, agreeing);
        assert_true(drafted_by_own_block(&w, true, 0.0f, 60) > 0.99);
        double drawn = drafted_by_own_block(&w, true, 0.8f, 60);
        print_message("%s: %.3f of what it proposed were right\n", own[i], drawn);
        assert_true(drawn > 0.1 && drawn < 1.0);
        close_world(&w);
    }
}

/* ---- choices, and the plan ---- */

static void test_choices_share_the_prompt(void **state) {
    (void)state;
    static answer out[3], alone;
    world w;
    open_world(&w, presets[0]);
    kt_engine_params ep = {.n_parallel = 4, .n_ctx = 512};
    talk t = repetitive(&w, 1);
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = t.ids;
    r.prompt.n_ids = (size_t)t.n;
    r.logprobs.n = 5;
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.sampling.seed = 3;
    r.n_choices = 3;
    open_engine(&w, &ep);
    submit_choices(&w, &r, out, 3);
    run_to_end(&w, false);
    close_engine(&w);
    open_engine(&w, &ep);
    ask(&w, &t, false, &alone);
    close_engine(&w);
    expect_equal(&alone, &out[0]);
    for (int i = 1; i < 3; i++) assert_int_equal(out[i].n_tokens, N_PREDICT);
    close_world(&w);
}

static void test_states_are_planned(void **state) {
    (void)state;
    kt_error err;
    world w;
    kt_mem_plan few, many;
    open_world(&w, presets[1]);
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = 512, .n_seq_max = 1, .n_draft = -1};
    MUST(kt_engine_plan(w.model, &ep, &few, &err));
    ep.n_parallel = 8;
    MUST(kt_engine_plan(w.model, &ep, &many, &err));
    assert_true(few.state_bytes > 0 && many.state_bytes > few.state_bytes);
    assert_true(few.total_bytes >= few.state_bytes + few.kv_bytes);
    close_world(&w);
    /* keys and values of a block that proposes, where it may */
    open_world(&w, "tiny-qwen35-mtp");
    MUST(kt_engine_plan(w.model, &ep, &few, &err));
    ep.n_draft = 3;
    MUST(kt_engine_plan(w.model, &ep, &many, &err));
    assert_int_equal(few.kv_draft_bytes, 0);
    assert_true(many.kv_draft_bytes > 0 && many.kv_bytes > few.kv_bytes);
    ep.draft_from = KT_DRAFT_TEXT;
    MUST(kt_engine_plan(w.model, &ep, &many, &err));
    assert_int_equal(many.kv_draft_bytes, 0);
    close_world(&w);
}

static void test_where_snapshots_are_kept(void **state) {
    (void)state;
    int32_t out[KT__SNAPSHOT_POINTS], ids[1200] = {0};
    assert_int_equal(kt__snapshot_points(NULL, ids, 40, 0, 40, out), 1);
    assert_int_equal(out[0], 32);
    assert_int_equal(kt__snapshot_points(NULL, ids, 1200, 0, 1200, out), 3);
    assert_int_equal(out[0], 512);
    assert_int_equal(out[1], 1024);
    assert_int_equal(out[2], 1184);
    assert_int_equal(kt__snapshot_points(NULL, ids, 1200, 512, 1024, out), 1);
    assert_int_equal(out[0], 1024);
    assert_int_equal(kt__snapshot_points(NULL, ids, 16, 0, 16, out), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_snapshots_are_kept),
        cmocka_unit_test(test_states_are_planned),
        cmocka_unit_test(test_own_block),
        cmocka_unit_test(test_conversations),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_speculation_and_suspension),
        cmocka_unit_test(test_a_draft_model_with_states),
        cmocka_unit_test(test_choices_share_the_prompt),
    };
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
