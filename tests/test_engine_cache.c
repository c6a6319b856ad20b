/* engine: the disk cache below submitted requests. A new process finds what an earlier one computed
 * and answers with the same bytes; scopes, models and options keep apart; killed while it writes,
 * the answer is the same; a damaged directory costs time only. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "kentang.h"
#include "kv_types.h"
#include "support.h"

enum { N_IDS = 200, N_PREDICT = 12 };

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/kentang-cache-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static void shell(const char *format) {
    char command[512];
    snprintf(command, sizeof command, format, dir, dir);
    if (system(command) != 0) fail_msg("%s", command);
}

static int remove_dir(void **state) {
    (void)state;
    shell("rm -rf '%s'");
    return 0;
}

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_cache *cache;
    char text[1024]; /* of the last answer */
    kt_request_report report;
    kt_engine_stats stats;
} world;

static world world_open(bool cached, float freq_base) {
    kt_error err;
    world w = {0};
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    kt_model_params mp = kt_model_params_default();
    cp.n_threads = 1;
    ep.n_ctx = 512;
    ep.n_seq_max = 2;
    mp.rope_freq_base = freq_base;
    ok(kt_ctx_open(&cp, &w.ctx, &err), &err);
    ok(kt_model_open_demo(w.ctx, &mp, &w.model, &err), &err);
    kv_types_of_test(&ep);
    ok(kt_engine_open(w.model, &ep, &w.engine, &err), &err);
    kt_cache_params p = {.dir = dir};
    if (cached) ok(kt_cache_open(w.engine, &p, &w.cache, &err), &err);
    return w;
}

static void world_close(world *w) {
    kt_cache_close(w->cache);
    kt_engine_close(w->engine);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static void on_event(void *user, const kt_event *event) {
    world *w = user;
    if (event->kind == KT_EVENT_TOKEN) strncat(w->text, event->text, event->len);
    if (event->kind == KT_EVENT_FINISHED) w->report = *event->report;
}

static void ask(world *w, uint32_t seed, const char *scope, bool no_cache) {
    kt_error err;
    kt_request *req;
    int32_t ids[N_IDS], left = 1;
    kt_request_params r = kt_request_params_default();
    for (int i = 0; i < N_IDS; i++) ids[i] = (int32_t)(lcg(&seed) >> 16) % 256;
    r.prompt.ids = ids;
    r.prompt.n_ids = N_IDS;
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.sampling.seed = 3;
    r.service.cache_scope = scope;
    r.service.no_cache = no_cache;
    r.events.on_event = on_event;
    r.events.user = w;
    w->text[0] = '\0';
    ok(kt_engine_submit(w->engine, &r, &req, &err), &err);
    while (left) ok(kt_engine_step(w->engine, 1000000, &left, &err), &err);
    kt_request_close(req);
    kt_engine_get_stats(w->engine, &w->stats);
}

/* The answer without any cache. */
static void plain(uint32_t seed, char out[1024]) {
    world w = world_open(false, 0);
    ask(&w, seed, NULL, true);
    memcpy(out, w.text, sizeof w.text);
    world_close(&w);
}

static void test_found_by_the_next_process(void **state) {
    (void)state;
    char expected[1024];
    plain(1, expected);
    world w = world_open(true, 0);
    ask(&w, 1, NULL, false);
    assert_string_equal(w.text, expected);
    assert_int_equal(w.report.n_cached, 0);
    world_close(&w);
    w = world_open(true, 0);
    ask(&w, 1, NULL, false);
    assert_string_equal(w.text, expected);
    assert_int_equal(w.report.n_cached, (N_IDS - 1) / 16 * 16);
    assert_int_equal(w.stats.disk_tokens, (N_IDS - 1) / 16 * 16);
    kt_cache_stats s;
    kt_cache_get_stats(w.cache, &s);
    if (!kv_needs_ends()) assert_int_equal(s.n_found, (N_IDS - 1) / 16);
    assert_true(s.n_found > 0);
    assert_int_equal(s.n_damaged, 0);
    world_close(&w);
}

static void test_what_is_kept_apart(void **state) {
    (void)state;
    world w = world_open(true, 0);
    ask(&w, 1, "anna", false);
    world_close(&w);
    w = world_open(true, 0);
    ask(&w, 1, "bert", false);
    assert_int_equal(w.report.n_cached, 0);
    ask(&w, 2, "anna", false);
    assert_int_equal(w.report.n_cached, 0);
    ask(&w, 1, "anna", true);
    assert_int_equal(w.report.n_cached, 0);
    ask(&w, 1, "anna", false);
    assert_true(w.report.n_cached > 0);
    world_close(&w);
    w = world_open(true, 5000.0f);
    ask(&w, 1, "anna", false);
    assert_int_equal(w.report.n_cached, 0);
    world_close(&w);
}

static void test_bad_arguments(void **state) {
    (void)state;
    kt_error err;
    kt_cache *second;
    kt_cache_params p = {.dir = dir};
    world w = world_open(true, 0);
    assert_int_equal(kt_cache_open(w.engine, &p, &second, &err), KT_E_STATE);
    assert_null(second);
    kt_cache_close(w.cache);
    p.max_bytes = 1;
    assert_int_equal(kt_cache_open(w.engine, &p, &w.cache, &err), KT_E_ARG);
    p.dir = "";
    assert_int_equal(kt_cache_open(w.engine, &p, &w.cache, &err), KT_E_ARG);
    p.dir = "/proc/nowhere";
    p.max_bytes = 0;
    assert_int_equal(kt_cache_open(w.engine, &p, &w.cache, &err), KT_E_IO);
    assert_null(w.cache);
    ask(&w, 1, NULL, false); /* and the engine works without */
    world_close(&w);
}

static void test_a_damaged_directory(void **state) {
    (void)state;
    char expected[1024];
    plain(1, expected);
    const char *const damages[] = {
        "for f in '%s'/*/00000[3-6]*; do truncate -s 1000 \"$f\"; done",
        ("for f in '%s'/*/*.kv; do printf x | dd of=\"$f\" bs=1 seek=300 conv=notrunc status=none; "
         "done"),
        "for f in '%s'/*/*.kv; do cat /dev/null > \"$f\"; done",
        "rm '%s'/*/000004*",
        "for f in '%s'/*/000002*; do cp \"$f\" \"$(ls '%s'/*/000005*)\"; done",
    };
    const char *const of_ends[] = {
        "for f in '%s'/*/*.end; do truncate -s 1000 \"$f\"; done",
        ("for f in '%s'/*/*.end; do printf x | dd of=\"$f\" bs=1 seek=4000 conv=notrunc "
         "status=none; done"),
        "for f in '%s'/*/*.end; do cat /dev/null > \"$f\"; done",
        "rm '%s'/*/*.end",
        "for f in '%s'/*/00000b*.end; do for g in '%s'/*/00000c*.end; do cp $f $f.x; mv $g $f; mv "
        "$f.x $g; done; done",
    };
    _Static_assert(sizeof of_ends == sizeof damages, "as many");
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        world w = world_open(true, 0);
        ask(&w, 1, NULL, false);
        world_close(&w);
        shell(kv_needs_ends() ? of_ends[i] : damages[i]);
        w = world_open(true, 0);
        ask(&w, 1, NULL, false);
        assert_string_equal(w.text, expected);
        assert_true(w.report.n_cached < (N_IDS - 1) / 16 * 16);
        world_close(&w);
        w = world_open(true, 0); /* what was damaged has been written again */
        ask(&w, 1, NULL, false);
        assert_string_equal(w.text, expected);
        assert_int_equal(w.report.n_cached, (N_IDS - 1) / 16 * 16);
        world_close(&w);
    }
}

/* Killed at random moments of its life, with four prompts on their way to the disk. */
static void test_killed_while_it_computes_and_writes(void **state) {
    (void)state;
    enum { KILLS = 100, PROMPTS = 4 };
    static char expected[PROMPTS][1024];
    uint32_t x = (uint32_t)time(NULL);
    int n_cached = 0;
    print_message("seed %u\n", x);
    for (uint32_t p = 0; p < PROMPTS; p++) plain(p, expected[p]);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            world w = world_open(true, 0);
            for (uint32_t p = 0;; p++) ask(&w, p % PROMPTS + (p / PROMPTS) * 100, NULL, false);
        }
        lcg(&x);
        struct timespec t = {0, (long)(x >> 4) % 40000000};
        nanosleep(&t, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (i % 10 != 9) continue;
        world w = world_open(true, 0);
        for (uint32_t p = 0; p < PROMPTS; p++) {
            ask(&w, p, NULL, false);
            assert_string_equal(w.text, expected[p]);
            n_cached += w.report.n_cached;
        }
        kt_cache_stats s;
        kt_cache_get_stats(w.cache, &s);
        assert_int_equal(s.n_damaged, 0);
        world_close(&w);
        if (i % 20 == 19) shell("rm -rf '%s'/*");
    }
    print_message("%d tokens found\n", n_cached);
    assert_true(n_cached > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_found_by_the_next_process),
        TEST(test_what_is_kept_apart),
        TEST(test_bad_arguments),
        TEST(test_a_damaged_directory),
        TEST(test_killed_while_it_computes_and_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
