/* engine: the hash of a whole model. It is made only while nothing is computed, stops at once,
 * leaves memory and page cache as they were, and tells models apart that differ in one byte which
 * the fingerprint does not look at: in sessions and in the disk cache. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "context/types.h"
#include "model_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_BUILD 0
#else
#define PLAIN_BUILD 1
#endif

static char names[3][64]; /* two with the same bytes, and one that differs in one of them */
static char session[64], dir[64];

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
    kt_cache *cache;
} world;

static world world_open(const char *file, bool use_mmap) {
    kt_error err;
    world w = {0};
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = {.n_ctx = 256, .n_seq_max = 2};
    kt_model_params mp = kt_model_params_default();
    cp.n_threads = 1;
    mp.use_mmap = use_mmap;
    ok(kt_ctx_open(&cp, &w.ctx, &err), &err);
    ok(kt_model_open(w.ctx, file, &mp, &w.model, &err), &err);
    ok(kt_engine_open(w.model, &ep, &w.engine, &err), &err);
    ok(kt_seq_open(w.engine, &w.seq, &err), &err);
    return w;
}

static void world_close(world *w) {
    kt_cache_close(w->cache);
    kt_seq_close(w->seq);
    kt_engine_close(w->engine);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static kt_hash_info hash_of(const world *w) {
    kt_hash_info info;
    kt_model_get_hash(w->model, &info);
    return info;
}

static kt_hash_info wait_for_hash(const world *w) {
    while (hash_of(w).state == KT_HASH_RUNNING) usleep(1000); /* as long as others are busy */
    return hash_of(w);
}

static world hashed_world(const char *file) {
    kt_error err;
    world w = world_open(file, true);
    ok(kt_model_start_hash(w.model, &err), &err);
    assert_int_equal(wait_for_hash(&w).state, KT_HASH_KNOWN);
    return w;
}

static void flip(const char *path, off_t at) {
    uint8_t c = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 1;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void fingerprint(const char *path, uint8_t out[KT_FINGERPRINT_BYTES]) {
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    ok(kt_ctx_open(NULL, &ctx, &err), &err);
    ok(kt_model_open(ctx, path, NULL, &model, &err), &err);
    ok(kt_model_fingerprint(model, out, &err), &err);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* One byte of the third file is another, where the fingerprint does not look. */
static int make_models(void **state) {
    (void)state;
    kt_error err;
    struct stat st;
    uint8_t a[KT_FINGERPRINT_BYTES], b[KT_FINGERPRINT_BYTES];
    static const fixture_spec spec = {.arch = "llama",
                                      .n_layer = 3,
                                      .d_model = 128,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .head_dim = 64,
                                      .d_ff = 512,
                                      .n_vocab = 300};
    snprintf(session, sizeof session, "/tmp/kentang-full-%ld.kv", (long)getpid());
    strcpy(dir, "/tmp/kentang-full-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "/tmp/kentang-full-%ld-%d.gguf", (long)getpid(), i);
        if (fixture_write(&spec, names[i], &err) != KT_OK) return -1;
    }
    fingerprint(names[0], a);
    if (stat(names[2], &st) != 0) return -1;
    for (off_t back = 1000;; back += 50000) {
        flip(names[2], st.st_size - back);
        fingerprint(names[2], b);
        if (memcmp(a, b, sizeof a) == 0) return 0;
        flip(names[2], st.st_size - back);
    }
}

static int remove_models(void **state) {
    (void)state;
    char command[128];
    for (int i = 0; i < 3; i++) unlink(names[i]);
    unlink(session);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* ---- the hash ---- */

static void test_of_all_bytes(void **state) {
    (void)state;
    kt_error err;
    kt_hash_info info[4];
    world w = world_open(names[0], true);
    assert_int_equal(hash_of(&w).state, KT_HASH_NONE); /* not by itself */
    world_close(&w);
    for (int i = 0; i < 4; i++) { /* the last: the first again, as a copy in memory */
        w = world_open(names[i % 3], i < 3);
        ok(kt_model_start_hash(w.model, &err), &err);
        ok(kt_model_start_hash(w.model, &err), &err); /* it runs already */
        info[i] = wait_for_hash(&w);
        assert_int_equal(info[i].state, KT_HASH_KNOWN);
        assert_int_equal(info[i].bytes_done, info[i].bytes_all);
        assert_int_equal(info[i].bytes_all, w.model->info.file_bytes);
        world_close(&w);
    }
    assert_memory_equal(info[0].hash, info[1].hash, KT_FINGERPRINT_BYTES);
    assert_memory_equal(info[0].hash, info[3].hash, KT_FINGERPRINT_BYTES);
    assert_memory_not_equal(info[0].hash, info[2].hash, KT_FINGERPRINT_BYTES);
}

/* While something is computed nothing is read, and for a quarter of a second after it. */
static void test_gives_way(void **state) {
    (void)state;
    kt_error err;
    world w = world_open(names[0], true);
    kt__activity_begin(&w.ctx->activity);
    ok(kt_model_start_hash(w.model, &err), &err);
    usleep(600000);
    assert_int_equal(hash_of(&w).bytes_done, 0);
    int64_t end_us = kt__now_us();
    kt__activity_end(&w.ctx->activity);
    while (hash_of(&w).bytes_done == 0) usleep(1000);
    assert_true(kt__now_us() - end_us >= KT__IDLE_US);
    assert_int_equal(wait_for_hash(&w).state, KT_HASH_KNOWN);
    world_close(&w);
    /* a batch counts as work, and its end is noted */
    w = world_open(names[0], true);
    assert_int_equal(w.ctx->activity.ended_us, 0);
    ok(kt_seq_eval(w.seq, (int32_t[]){1, 2, 3}, 3, &err), &err);
    assert_true(w.ctx->activity.ended_us > end_us);
    assert_int_equal(w.ctx->activity.n_now, 0);
    world_close(&w);
}

/* How long it is certain that somebody computes, or has just done so. */
static void test_busy_for(void **state) {
    (void)state;
    kt__activity a = {0};
    int64_t now_us = kt__now_us();
    assert_true(kt__activity_busy_us(&a, 1000, 0) <= 0);
    assert_true(kt__activity_busy_us(&a, 60000000, now_us) > 30000000);
    kt__activity_begin(&a);
    assert_int_equal(kt__activity_busy_us(&a, 1000, 0), 1000);
    kt__activity_end(&a);
    int64_t left_us = kt__activity_busy_us(&a, 60000000, 0);
    assert_true(left_us > 30000000 && left_us <= 60000000);
}

static void test_stops_at_any_time(void **state) {
    (void)state;
    kt_error err;
    for (int i = 0; i < 12; i++) {
        world w = world_open(names[0], true);
        ok(kt_model_start_hash(w.model, &err), &err);
        usleep((useconds_t)(i < 2 ? 0 : 248000 + i * 500));
        world_close(&w);
    }
}

/* Without changing what is computed, and computed while it reads. */
static void test_beside_a_computation(void **state) {
    (void)state;
    kt_error err;
    float was[300];
    world w = world_open(names[0], true);
    ok(kt_seq_eval(w.seq, (int32_t[]){1, 2, 3}, 3, &err), &err);
    memcpy(was, kt_seq_logits(w.seq), sizeof was);
    ok(kt_model_start_hash(w.model, &err), &err);
    for (int i = 0; i < 40; i++) {
        usleep(i % 8 == 7 ? 252000 : 1000);
        ok(kt_seq_truncate(w.seq, 0, &err), &err);
        ok(kt_seq_eval(w.seq, (int32_t[]){1, 2, 3}, 3, &err), &err);
        assert_memory_equal(was, kt_seq_logits(w.seq), sizeof was);
    }
    assert_int_equal(wait_for_hash(&w).state, KT_HASH_KNOWN);
    world_close(&w);
}

static void test_a_file_cut_short(void **state) {
    (void)state;
    kt_error err;
    char copy[80], command[256];
    struct stat st;
    snprintf(copy, sizeof copy, "%s.cut", names[0]);
    snprintf(command, sizeof command, "cp '%s' '%s'", names[0], copy);
    assert_int_equal(system(command), 0);
    world w = world_open(copy, true);
    kt__activity_begin(&w.ctx->activity);
    ok(kt_model_start_hash(w.model, &err), &err);
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(truncate(copy, st.st_size - 5000), 0);
    kt__activity_end(&w.ctx->activity);
    assert_int_equal(wait_for_hash(&w).state, KT_HASH_FAILED);
    world_close(&w);
    unlink(copy);
}

static size_t pages_in_cache(const char *path, size_t *n_all) {
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    size_t size = (size_t)st.st_size, n = 0;
    *n_all = (size + 4095) / 4096;
    unsigned char *present = calloc(*n_all, 1);
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    assert_int_equal(mincore(map, size, present), 0);
    for (size_t i = 0; i < *n_all; i++) n += present[i] & 1;
    munmap(map, size);
    free(present);
    close(fd);
    return n;
}

static long resident_pages(void) {
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(f, "%ld %ld", &all, &resident), 2);
    fclose(f);
    return resident;
}

/* What was in the page cache stays there, what was not is not afterwards; memory does not grow. (A
 * file system that lives in memory has nothing to drop.) */
static void test_leaves_no_trace(void **state) {
    (void)state;
    kt_error err;
    static char some[1 << 20];
    size_t n_all;
    int fd = open(names[1], O_RDONLY);
    assert_int_equal(fsync(fd), 0);
    world w = world_open(names[1], true);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    assert_int_equal(pread(fd, some, sizeof some, 2 << 20), sizeof some); /* another's */
    size_t before = pages_in_cache(names[1], &n_all);
    long resident = resident_pages();
    ok(kt_model_start_hash(w.model, &err), &err);
    assert_int_equal(wait_for_hash(&w).state, KT_HASH_KNOWN);
    resident = resident_pages() - resident;
    size_t after = pages_in_cache(names[1], &n_all);
    print_message("%zu of %zu pages before, %zu after; %ld more resident\n", before, n_all, after,
                  resident);
    assert_true(after <= before + 8);
    assert_true(after >= before - before / 4); /* the system may take back a few in this time */
    if (PLAIN_BUILD) assert_true(resident <= 128);
    world_close(&w);
    close(fd);
}

/* ---- what it is for ---- */

static void restore(const world *w, kt_status expected) {
    kt_error err;
    kt_status status = kt_seq_restore(w->seq, session, &err);
    if (status != expected) fail_msg("%s: %s", kt_status_name(status), err.message);
    if (status != KT_OK) assert_non_null(strstr(err.message, "another model"));
}

static void test_sessions(void **state) {
    (void)state;
    kt_error err;
    for (int known = 0; known < 2; known++) {
        world a = known ? hashed_world(names[0]) : world_open(names[0], true);
        ok(kt_seq_eval(a.seq, (int32_t[]){1, 2, 3}, 3, &err), &err);
        ok(kt_seq_save(a.seq, session, &err), &err);
        world_close(&a);
        for (int i = 0; i < 3; i++) {
            world w = world_open(names[i], true);
            restore(&w, KT_OK); /* whose hash is not known goes by the fingerprint */
            world_close(&w);
            w = hashed_world(names[i]);
            restore(&w, known && i == 2 ? KT_E_STATE : KT_OK);
            world_close(&w);
        }
    }
}

static void on_event(void *user, const kt_event *event) {
    if (event->kind == KT_EVENT_FINISHED) *(kt_request_report *)user = *event->report;
}

/* Tokens of a prompt that were found. */
static int ask(world *w) {
    kt_error err;
    kt_request *req;
    kt_request_report report = {0};
    int32_t ids[100], left = 1;
    for (int i = 0; i < 100; i++) ids[i] = 10 + i;
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = 100;
    r.gen.n_predict = 2;
    r.events.on_event = on_event;
    r.events.user = &report;
    ok(kt_engine_submit(w->engine, &r, &req, &err), &err);
    while (left) ok(kt_engine_step(w->engine, 1000000, &left, &err), &err);
    kt_request_close(req);
    assert_int_equal(report.finish, KT_FINISH_LENGTH);
    return report.n_cached;
}

/* Asks, and waits for the model's hash before or after. */
static int ask_anew(const char *name, bool hash_first, kt_cache_stats *stats) {
    kt_error err;
    world w = hash_first ? hashed_world(name) : world_open(name, true);
    const kt_cache_params p = {.dir = dir};
    ok(kt_cache_open(w.engine, &p, &w.cache, &err), &err);
    int n = ask(&w);
    kt_cache_get_stats(w.cache, stats);
    assert_int_not_equal(hash_of(&w).state, KT_HASH_NONE); /* the cache has asked for it */
    world_close(&w);
    return n;
}

static void test_the_disk_cache(void **state) {
    (void)state;
    kt_cache_stats s;
    assert_int_equal(ask_anew(names[0], false, &s), 0); /* blocks that say nothing */
    assert_int_equal(ask_anew(names[2], true, &s), 96);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(ask_anew(names[0], true, &s), 0); /* blocks of this model alone */
    assert_int_equal(ask_anew(names[1], true, &s), 96);
    assert_int_equal(ask_anew(names[2], false, &s), 96);
    assert_int_equal(ask_anew(names[2], true, &s), 0);
    assert_int_equal(s.n_damaged, 0);
    assert_true(s.n_missed > 0);
    assert_int_equal(ask_anew(names[2], true, &s), 96); /* written again, as its own */
    assert_int_equal(ask_anew(names[1], true, &s), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_all_bytes),
        cmocka_unit_test(test_gives_way),
        cmocka_unit_test(test_busy_for),
        cmocka_unit_test(test_stops_at_any_time),
        cmocka_unit_test(test_beside_a_computation),
        cmocka_unit_test(test_a_file_cut_short),
        cmocka_unit_test(test_leaves_no_trace),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_the_disk_cache),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
