/* Memory of submitted requests: no allocation for a token with sixteen live requests; every
 * allocation of submit fails in turn, and all of them while steps and cancels run; the process
 * stays within the budget it was given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "heap_watch.h"
#include "requests_world.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_BUILD 0
#else
#define PLAIN_BUILD 1
#endif

static answer answers[MAX_REQUESTS];

static void test_no_allocation_for_a_token(void **state) {
    world *w = *state;
    kt_engine_params ep = {.n_parallel = 16, .n_ctx = 512};
    if (!HEAP_WATCHED) skip();
    w->n_predict = 200;
    w->ignore_eog = true;
    open_engine(w, &ep);
    submit_all(w, MAX_REQUESTS, answers);
    step(w, 60);
    for (int i = 0; i < MAX_REQUESTS; i++) assert_true(answers[i].n_tokens > 0);
    int before = answers[15].n_tokens;
    heap_begin(0, 0);
    step(w, 100);
    heap_end();
    assert_true(answers[15].n_tokens >= before + 90);
    assert_int_equal(heap.n_calls, 0);
    assert_int_equal(heap.n_others, 0);
    w->n_predict = 0;
    w->ignore_eog = false;
    close_engine(w);
}

/* One that takes every way: messages, choices, logprobs, stops, kept events. */
static kt_request_params rich_request(void) {
    static const kt_message messages[] = {{"user", "Tell me a story about a goat."}};
    static const char *const stops[] = {"never said"};
    kt_request_params r = kt_request_params_default();
    r.prompt.messages = messages;
    r.prompt.n_messages = 1;
    r.n_choices = 2;
    r.logprobs.n = 3;
    r.service.client = "somebody";
    r.gen.n_predict = 12;
    r.gen.stop = stops;
    r.gen.n_stop = 1;
    r.gen.sampling.seed = 5;
    r.gen.sampling.dry_multiplier = 0.5f;
    return r;
}

static void test_each_allocation_of_submit_fails(void **state) {
    world *w = *state;
    kt_error err;
    kt_request *req = NULL;
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 256};
    kt_request_params r = rich_request();
    if (!HEAP_WATCHED) skip();
    open_engine(w, &ep);
    long fail_at = 1;
    for (;; fail_at++) {
        long live = heap.n_live;
        heap_begin(fail_at, fail_at);
        kt_status status = kt_engine_submit(w->engine, &r, &req, &err);
        bool failed = heap.n_failed > 0;
        heap_end();
        if (status == KT_OK && !failed) break;
        if (status == KT_OK) { /* one that was not needed */
            kt_request_close(req);
            run_to_end(w, false);
            continue;
        }
        if (status != KT_E_NOMEM) fail_msg("allocation %ld: %s", fail_at, kt_status_name(status));
        assert_null(req);
        if (heap.n_live != live) heap_print_live(0);
        assert_int_equal(heap.n_live, live);
    }
    assert_true(fail_at > 50);
    run_to_end(w, false);
    kt_request_close(req);
    close_engine(w);
}

/* No memory at all while it runs: what does not need any is as ever, and everything ends. */
static void test_steps_and_cancels_without_memory(void **state) {
    world *w = *state;
    answer alone;
    kt_engine_params ep = {.n_parallel = 3, .n_ctx = 256, .kv_bytes = 20 * page_bytes(w)};
    if (!HEAP_WATCHED) skip();
    open_engine(w, &ep);
    for (int round = 0; round < 3; round++) {
        submit_all(w, 6, answers);
        heap_begin(1, LONG_MAX);
        step(w, round);
        kt_request_cancel(answers[1].req);
        for (int i = 0; step(w, 1) > 0; i++) assert_true(i < 10000);
        heap_end();
        for (int i = 0; i < 6; i++) {
            assert_int_equal(answers[i].n_finished, 1);
            close_request(w, &answers[i]);
            if (i == 1) continue;
            assert_true(answers[i].finish != KT_FINISH_ERROR);
            answer_alone(w, i, &alone);
            expect_same(i, &alone, &answers[i]);
        }
    }
    close_engine(w);
}

/* ---- the budget ---- */

/* Long and short prompts, cancelled and read to the end, until pages were taken many times over. */
static int use_up(uint64_t budget) {
    world w = {0};
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    kt_engine_stats stats;
    int32_t ids[700];
    cp.n_threads = 2;
    cp.mem_bytes = budget;
    if (kt_ctx_open(&cp, &w.ctx, &err) != KT_OK) return 1;
    if (kt_model_open_demo(w.ctx, NULL, &w.model, &err) != KT_OK) return 2;
    if (kt_engine_open(w.model, &ep, &w.engine, &err) != KT_OK) return 3;
    uint32_t random = 1;
    int32_t left;
    kt_engine_get_stats(w.engine, &stats);
    /* on a busy machine fewer prompts get far in six steps */
    for (int i = 0; i < 150 || (stats.n_evicted_blocks == 0 && i < 5000); i++) {
        kt_request *req;
        kt_request_params r = kt_request_params_default();
        r.prompt.ids = ids;
        r.prompt.n_ids = 20 + (size_t)(random >> 8) % 600;
        for (size_t k = 0; k < r.prompt.n_ids; k++) {
            lcg(&random);
            ids[k] = 300 + (int32_t)((random >> 8) % 1000);
        }
        r.gen.n_predict = 8;
        if (kt_engine_submit(w.engine, &r, &req, &err) != KT_OK) return 4;
        for (int s = 0; s < 6; s++)
            if (kt_engine_step(w.engine, 0, &left, &err) != KT_OK) return 5;
        kt_request_close(req); /* maybe in the middle */
        kt_engine_get_stats(w.engine, &stats);
    }
    while (kt_engine_step(w.engine, 1000000, &left, &err) == KT_OK && left > 0) {
    }
    kt_engine_get_stats(w.engine, &stats);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t peak = (uint64_t)usage.ru_maxrss * 1024;
    if (stats.n_evicted_blocks == 0) return 6;
    if (peak > budget) {
        fprintf(stderr, "peak %.1f MiB of %.1f\n", (double)peak / 1048576.0,
                (double)budget / 1048576.0);
        return 7;
    }
    kt_engine_close(w.engine);
    kt_model_close(w.model);
    kt_ctx_close(w.ctx);
    return 0;
}

static void test_the_budget_is_kept(void **state) {
    (void)state;
    if (!PLAIN_BUILD) skip(); /* sanitizers have memory of their own */
    static const uint64_t budgets[] = {(uint64_t)72 << 20, (uint64_t)110 << 20};
    for (size_t i = 0; i < 2; i++) {
        char self[64], command[512];
        snprintf(self, sizeof self, "/proc/%d/exe", (int)getpid());
        snprintf(command, sizeof command, "exec %s budget %llu", self,
                 (unsigned long long)budgets[i]);
        int rc = system(command);
        if (rc != 0) fail_msg("a budget of %llu: %d", (unsigned long long)budgets[i], rc / 256);
    }
}

static void test_plans(void **state) {
    world *w = *state;
    kt_error err;
    kt_mem_plan plan, small;
    MUST(kt_engine_plan(w->model, NULL, &plan, &err));
    assert_int_equal(plan.n_ubatch, 512);
    assert_int_equal(plan.n_parallel, 16);
    assert_false(plan.weights_counted);
    assert_int_equal(plan.total_bytes, plan.kv_bytes + plan.scratch_bytes + plan.tables_bytes);
    /* what is left shrinks in turn, what was asked for stays */
    kt_ctx *ctx;
    kt_model *model;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.mem_bytes = (uint64_t)60 << 20;
    MUST(kt_ctx_open(&cp, &ctx, &err));
    MUST(kt_model_open_demo(ctx, NULL, &model, &err));
    MUST(kt_engine_plan(model, NULL, &small, &err));
    assert_true(small.weights_counted);
    assert_true(small.total_bytes <= cp.mem_bytes);
    assert_true(small.n_ubatch < 512);
    kt_engine_params ep = {.n_ubatch = 512};
    kt_status status = kt_engine_plan(model, &ep, &small, &err);
    assert_true(status == KT_E_NOMEM || small.n_ubatch == 512);
    /* two engines share one budget, and a third finds it taken */
    kt_engine *engines[40];
    int n = 0;
    kt_engine_params one = {.n_seq_max = 1, .n_ctx = 512, .n_ubatch = 64, .n_queue_max = 4};
    while (n < 40 && (status = kt_engine_open(model, &one, &engines[n], &err)) == KT_OK) n++;
    assert_int_equal(status, KT_E_NOMEM);
    assert_non_null(strstr(err.message, "--mem"));
    while (n > 0) kt_engine_close(engines[--n]);
    assert_int_equal(ctx->mem_used_bytes, 0);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* A disk cache's queue is part of the plan: opened when the budget is used up, it stays within. */
static void test_the_disk_queue_is_planned(void **state) {
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_cache *cache;
    char dir[64] = "/tmp/kentang-memory-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    kt_ctx_params cp = kt_ctx_params_default();
    for (uint64_t mib = 60; mib <= 75; mib += 5) {
        cp.mem_bytes = mib << 20;
        MUST(kt_ctx_open(&cp, &ctx, &err));
        MUST(kt_model_open_demo(ctx, NULL, &model, &err));
        MUST(kt_engine_open(model, NULL, &engine, &err));
        kt_cache_params p = {.dir = dir};
        MUST(kt_cache_open(engine, &p, &cache, &err));
        assert_true(ctx->mem_used_bytes <= cp.mem_bytes);
        kt_cache_close(cache);
        kt_engine_close(engine);
        assert_int_equal(ctx->mem_used_bytes, 0);
        kt_model_close(model);
        kt_ctx_close(ctx);
    }
    /* a default budget plans no queue: all of it is charged when it comes */
    MUST(kt_ctx_open(NULL, &ctx, &err));
    MUST(kt_model_open_demo(ctx, NULL, &model, &err));
    MUST(kt_engine_open(model, NULL, &engine, &err));
    kt_cache_params p = {.dir = dir, .queue_bytes = 8 << 20};
    uint64_t before = ctx->mem_used_bytes;
    MUST(kt_cache_open(engine, &p, &cache, &err));
    uint64_t taken = ctx->mem_used_bytes - before;
    assert_true(taken > (7 << 20) && taken <= (8 << 20));
    kt_engine_info info;
    kt_engine_stats stats;
    kt_engine_get_info(engine, &info);
    kt_engine_get_stats(engine, &stats);
    assert_int_equal(info.scratch_bytes, engine->plan.scratch_bytes);
    assert_int_equal(stats.mem_scratch_bytes, engine->plan.scratch_bytes);
    kt_cache_close(cache);
    assert_int_equal(ctx->mem_used_bytes, before);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    static world w;
    if (argc == 3) return use_up(strtoull(argv[2], NULL, 10));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_no_allocation_for_a_token, &w),
        cmocka_unit_test_prestate(test_each_allocation_of_submit_fails, &w),
        cmocka_unit_test_prestate(test_steps_and_cancels_without_memory, &w),
        cmocka_unit_test_prestate(test_the_budget_is_kept, &w),
        cmocka_unit_test_prestate(test_plans, &w),
        cmocka_unit_test(test_the_disk_queue_is_planned),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
