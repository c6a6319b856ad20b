/* engine: layers with a sliding window keep little more than their window, and nothing tells: in a
 * store in which windows give way to each other, answers, branches, sequences, files and cached
 * blocks are those of an engine that computes everything anew. */
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

enum { N_CTX = 640, N_PREDICT = 24, PAGES = 48, N_BASES = 3, N_ASKED = 16 };

static const char *const presets[] = {"tiny-gemma2", "tiny-gemma3", "tiny-gemma4", "tiny-gpt-oss",
                                      "tiny-exaone4-windows"};

static void open_preset(world *w, const char *preset) {
    kt_error err;
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s/windows-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant q4_k_m --seed 5 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, preset, path);
    assert_int_equal(system(command), 0);
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 1; /* as in test_engine_hybrids */
    MUST(kt_ctx_open(&cp, &w->ctx, &err));
    MUST(kt_model_open(w->ctx, path, NULL, &w->model, &err));
    remove(path);
}

static void close_preset(world *w) {
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

/* Few pages, and small batches, so that windows move on while a prompt is computed. */
static kt_engine_params small_store(const world *w, int lanes) {
    kt_engine_params ep = {.n_parallel = lanes, .n_seq_max = 3, .n_ctx = N_CTX, .n_ubatch = 32};
    ep.kv_bytes = PAGES * page_bytes(w);
    return ep;
}

static void fill(int32_t *ids, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)lcg_below(&seed, 900);
}

static kt_request_params request_over(const int32_t *ids, int n, bool no_cache) {
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = (size_t)n;
    r.logprobs.n = 5;
    r.service.no_cache = no_cache;
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.sampling.seed = 3;
    return r;
}

static void ask(world *w, const int32_t *ids, int n, bool no_cache, answer *out) {
    kt_request_params r = request_over(ids, n, no_cache);
    submit_request(w, &r, out);
    run_to_end(w, false);
    close_request(w, out);
}

static void expect_equal(const answer *a, const answer *b) {
    assert_int_equal(a->n_tokens, N_PREDICT);
    assert_int_equal(b->n_tokens, N_PREDICT);
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_memory_equal(a->top, b->top, sizeof a->top);
}

/* What an engine with room for everything says, which finds nothing. */
static void ask_alone(const world *w, const int32_t *ids, int n, answer *out) {
    world other = {.ctx = w->ctx, .model = w->model};
    kt_engine_params ep = {.n_parallel = 1, .n_ctx = N_CTX};
    open_engine(&other, &ep);
    ask(&other, ids, n, true, out);
    close_engine(&other);
}

static void expect_as_alone(const world *w, const int32_t *ids, int n, const answer *said) {
    static answer alone;
    ask_alone(w, ids, n, &alone);
    expect_equal(&alone, said);
}

/* ---- memory ---- */

static void check_plan(world *w) {
    kt_error err;
    kt_engine_params ep = small_store(w, 1);
    kt_mem_plan plan;
    kv_types_of_test(&ep);
    kt__kv_shape shape = kt__engine_kv_shape(w->model, &ep);
    assert_true(shape.n_window > 0);
    MUST(kt_engine_plan(w->model, &ep, &plan, &err));
    assert_true(plan.kv_bytes <= ep.kv_bytes);
    if (!kt__kv_has_local_parts(&shape)) return; /* the tail is as long as the window */
    assert_true(plan.kv_positions > PAGES * KT__PAGE_POS);
    assert_true(plan.kv_window_positions > shape.n_window * KT__PAGE_POS);
    assert_true(plan.kv_window_positions < plan.kv_positions / 2);
}

/* ---- conversations ---- */

/* Each turn computes what is new. */
static void take_turns(world *w) {
    static answer said;
    int32_t ids[N_CTX];
    kt_engine_params ep = small_store(w, 1);
    int n = 250;
    fill(ids, n, 7);
    open_engine(w, &ep);
    for (int turn = 0; turn < 4; turn++) {
        int found = turn == 0 ? 0 : (n - 20) / KT__PAGE_POS * KT__PAGE_POS - KT__PAGE_POS;
        ask(w, ids, n, false, &said);
        assert_in_range(said.report.n_cached, kv_needs_ends() ? 0 : found, n);
        expect_as_alone(w, ids, n, &said);
        memcpy(ids + n, said.ids, N_PREDICT * sizeof *ids);
        fill(ids + n + N_PREDICT, 20, (uint32_t)turn);
        n += N_PREDICT + 20;
    }
    expect_idle(w);
    close_engine(w);
}

/* Prompts that depart from earlier ones anywhere, two at once. */
static void branch_at_random(world *w) {
    static answer said[2];
    static int32_t bases[N_BASES][N_CTX], ids[2][N_CTX];
    kt_engine_params ep = small_store(w, 2);
    uint32_t seed = 11;
    for (int i = 0; i < N_BASES; i++) fill(bases[i], N_CTX, (uint32_t)(100 + i));
    open_engine(w, &ep);
    for (int i = 0; i < (kv_is_f16() ? N_ASKED : N_ASKED / 2); i += 2) {
        int n[2];
        for (int k = 0; k < 2; k++) {
            int kept = (int)lcg_below(&seed, 300);
            n[k] = kept + 1 + (int)lcg_below(&seed, 60);
            memcpy(ids[k], bases[lcg_below(&seed, N_BASES)], (size_t)kept * sizeof **ids);
            fill(ids[k] + kept, n[k] - kept, seed);
            kt_request_params r = request_over(ids[k], n[k], false);
            submit_request(w, &r, &said[k]);
        }
        run_to_end(w, false);
        for (int k = 0; k < 2; k++) {
            close_request(w, &said[k]);
            expect_as_alone(w, ids[k], n[k], &said[k]);
        }
    }
    expect_idle(w);
    close_engine(w);
}

/* ---- sequences and files ---- */

static size_t n_vocab(const world *w) {
    kt_model_info info;
    kt_model_get_info(w->model, &info);
    return (size_t)info.n_vocab;
}

/* The sequence after `more` further tokens, and one that was computed in one piece with room for
 * everything. */
static void expect_goes_on(world *w, kt_seq *seq, const int32_t *more, size_t n) {
    kt_error err;
    kt_engine *engine;
    kt_seq *alone;
    kt_engine_params ep = {.n_parallel = 1, .n_seq_max = 1, .n_ctx = N_CTX};
    kv_types_of_test(&ep);
    MUST(kt_seq_eval(seq, more, n, &err));
    MUST(kt_engine_open(w->model, &ep, &engine, &err));
    MUST(kt_seq_open(engine, &alone, &err));
    MUST(kt_seq_eval(alone, kt_seq_tokens(seq), kt_seq_len(seq), &err));
    assert_memory_equal(kt_seq_logits(seq), kt_seq_logits(alone), n_vocab(w) * sizeof(float));
    kt_seq_close(alone);
    kt_engine_close(engine);
}

/* Copied, cut back to before its window, saved and restored, one after the other in a store that has
 * no room for the windows of all. */
static void move_sequences(world *w) {
    kt_error err;
    kt_seq *seq, *copy, *other;
    int32_t ids[N_CTX], more[40];
    char path[256];
    kt_engine_params ep = small_store(w, 1);
    snprintf(path, sizeof path, "%s/windows-%d.session", KT_BINARY_DIR, (int)getpid());
    fill(ids, 300, 21);
    fill(more, 40, 22);
    open_engine(w, &ep);
    MUST(kt_seq_open(w->engine, &seq, &err));
    MUST(kt_seq_eval(seq, ids, 300, &err));
    MUST(kt_seq_copy(seq, &copy, &err));
    MUST(kt_seq_save(seq, path, &err));
    expect_goes_on(w, seq, more, 40);
    MUST(kt_seq_truncate(seq, 150, &err));
    expect_goes_on(w, seq, more + 10, 30);
    expect_goes_on(w, copy, more + 20, 20);
    kt_seq_close(copy);
    MUST(kt_seq_open(w->engine, &other, &err));
    MUST(kt_seq_restore(other, path, &err));
    expect_goes_on(w, other, more, 25);
    /* saved once more when another one's window has taken the place of this one's */
    expect_goes_on(w, seq, more, 40);
    MUST(kt_seq_save(other, path, &err));
    MUST(kt_seq_restore(seq, path, &err));
    expect_goes_on(w, seq, more, 25);
    kt_seq_close(other);
    kt_seq_close(seq);
    close_engine(w);
    remove(path);
}

/* ---- the disk cache ---- */

static void come_back(world *w) {
    static answer said[2];
    kt_error err;
    kt_cache *cache;
    kt_engine_stats stats;
    char dir[256], command[512];
    int32_t ids[N_CTX];
    snprintf(dir, sizeof dir, "%s/windows-%d.cache", KT_BINARY_DIR, (int)getpid());
    kt_cache_params cp = {.dir = dir};
    kt_engine_params ep = small_store(w, 1);
    fill(ids, 300, 31);
    for (int life = 0; life < 2; life++) {
        open_engine(w, &ep);
        MUST(kt_cache_open(w->engine, &cp, &cache, &err));
        ask(w, ids, 300, false, &said[life]);
        kt_engine_get_stats(w->engine, &stats);
        assert_int_equal(stats.disk_tokens, life ? 288 : 0);
        kt_cache_close(cache);
        close_engine(w);
    }
    expect_equal(&said[0], &said[1]);
    expect_as_alone(w, ids, 300, &said[0]);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void test_windows(void **state) {
    (void)state;
    size_t every = kv_is_f16() ? 1 : 2;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i += every) {
        world w = {0};
        open_preset(&w, presets[i]);
        check_plan(&w);
        take_turns(&w);
        branch_at_random(&w);
        move_sequences(&w);
        come_back(&w);
        close_preset(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
