/* engine: a sequence saved and restored goes on with the same bytes, in another engine, with
 * another number of threads; a session of another model or with other options is refused by name,
 * and leaves the sequence as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/types.h"
#include "heap_watch.h"
#include "kv_types.h"
#include "model_fixture.h"
#include "support.h"

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
} world;

static char path[64];

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

static world world_open(const char *file, const kt_model_params *mp, int n_ctx, int n_threads) {
    kt_error err;
    world w;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    cp.n_threads = n_threads;
    ep.n_ctx = n_ctx;
    ep.n_seq_max = 3;
    ok(kt_ctx_open(&cp, &w.ctx, &err), &err);
    ok(file ? kt_model_open(w.ctx, file, mp, &w.model, &err)
            : kt_model_open_demo(w.ctx, mp, &w.model, &err),
       &err);
    kv_types_of_test(&ep);
    ok(kt_engine_open(w.model, &ep, &w.engine, &err), &err);
    ok(kt_seq_open(w.engine, &w.seq, &err), &err);
    return w;
}

static void world_close(world *w) {
    kt_seq_close(w->seq);
    kt_engine_close(w->engine);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static size_t n_vocab(const world *w) {
    kt_model_info info;
    kt_model_get_info(w->model, &info);
    return (size_t)info.n_vocab;
}

enum { N_IDS = 90 };

static void make_ids(int32_t *ids, int n) {
    uint32_t x = 7;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(lcg(&x) >> 16) % 256;
}

static void go_on(kt_seq *seq, char *text) {
    kt_error err;
    kt_gen_params gp = kt_gen_params_default();
    gp.sampling.seed = 5;
    gp.n_predict = 20;
    gp.ignore_eog = true;
    text[0] = '\0';
    ok(kt_generate(seq, NULL, 0, &gp, append_text, text, NULL, &err), &err);
}

static void test_goes_on_with_the_same_bytes(void **state) {
    (void)state;
    kt_error err;
    int32_t ids[N_IDS];
    char was[4096], is[4096];
    world a = world_open(NULL, NULL, 256, 1), b = world_open(NULL, NULL, 128, 2);
    make_ids(ids, N_IDS);
    ok(kt_seq_eval(a.seq, ids, N_IDS, &err), &err);
    ok(kt_seq_save(a.seq, path, &err), &err);
    float *logits = malloc(n_vocab(&a) * sizeof *logits);
    memcpy(logits, kt_seq_logits(a.seq), n_vocab(&a) * sizeof *logits);
    go_on(a.seq, was);
    ok(kt_seq_eval(b.seq, ids + 3, 40, &err), &err); /* what was there before is replaced */
    ok(kt_seq_restore(b.seq, path, &err), &err);
    assert_int_equal(kt_seq_len(b.seq), N_IDS);
    assert_memory_equal(kt_seq_tokens(b.seq), ids, sizeof ids);
    assert_memory_equal(kt_seq_logits(b.seq), logits, n_vocab(&a) * sizeof *logits);
    go_on(b.seq, is);
    assert_string_equal(is, was);
    /* without logits, after a truncation: the last token is computed again */
    ok(kt_seq_truncate(a.seq, 50, &err), &err);
    ok(kt_seq_save(a.seq, path, &err), &err);
    ok(kt_seq_restore(b.seq, path, &err), &err);
    assert_null(kt_seq_logits(b.seq));
    assert_int_equal(kt_seq_len(b.seq), 50);
    ok(kt_seq_eval(a.seq, ids + 50, 40, &err), &err);
    ok(kt_seq_eval(b.seq, ids + 50, 40, &err), &err);
    assert_memory_equal(kt_seq_logits(b.seq), kt_seq_logits(a.seq), n_vocab(&a) * sizeof *logits);
    assert_memory_equal(kt_seq_logits(b.seq), logits, n_vocab(&a) * sizeof *logits);
    free(logits);
    world_close(&a);
    world_close(&b);
}

/* A copy writes to pages that the file is written from: neither sees the other. */
static void test_saving_shares_pages_with_copies(void **state) {
    (void)state;
    kt_error err;
    int32_t ids[N_IDS];
    world a = world_open(NULL, NULL, 128, 1);
    kt_seq *copy, *third;
    make_ids(ids, N_IDS);
    ok(kt_seq_eval(a.seq, ids, 40, &err), &err);
    ok(kt_seq_copy(a.seq, &copy, &err), &err);
    ok(kt_seq_eval(copy, ids + 50, 20, &err), &err);
    ok(kt_seq_save(copy, path, &err), &err);
    kt_engine_info before, after;
    kt_engine_get_info(a.engine, &before);
    ok(kt_seq_save(a.seq, path, &err), &err);
    kt_engine_get_info(a.engine, &after);
    assert_int_equal(before.kv_bytes_used, after.kv_bytes_used);
    ok(kt_seq_open(a.engine, &third, &err), &err);
    ok(kt_seq_restore(third, path, &err), &err);
    ok(kt_seq_eval(a.seq, ids + 40, 1, &err), &err);
    ok(kt_seq_eval(third, ids + 40, 1, &err), &err);
    assert_memory_equal(kt_seq_logits(third), kt_seq_logits(a.seq), n_vocab(&a) * sizeof(float));
    kt_seq_close(third);
    kt_seq_close(copy);
    world_close(&a);
}

static void refused(const world *w, kt_status expected, const char *says) {
    kt_error err;
    size_t len = kt_seq_len(w->seq);
    kt_engine_info before, after;
    kt_engine_get_info(w->engine, &before);
    kt_status status = kt_seq_restore(w->seq, path, &err);
    if (status != expected || !strstr(err.message, says))
        fail_msg("%s: %s, expected %s and \"%s\"", kt_status_name(status), err.message,
                 kt_status_name(expected), says);
    assert_string_equal(err.where, path);
    assert_int_equal(kt_seq_len(w->seq), len);
    kt_engine_get_info(w->engine, &after);
    assert_int_equal(before.kv_bytes_used, after.kv_bytes_used);
}

static void test_sessions_of_something_else(void **state) {
    (void)state;
    kt_error err;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    world a = world_open(NULL, NULL, 128, 1);
    kt_model_params mp = kt_model_params_default();
    mp.rope_freq_base = 12345.0f;
    world stretched = world_open(NULL, &mp, 128, 1);
    mp = kt_model_params_default();
    mp.exact = true;
    world exact = world_open(NULL, &mp, 128, 1);
    world small = world_open(NULL, NULL, 64, 1);
    assert_int_equal(kt_seq_save(a.seq, path, &err), KT_E_ARG); /* empty */
    ok(kt_seq_eval(a.seq, ids, N_IDS, &err), &err);
    ok(kt_seq_save(a.seq, path, &err), &err);
    ok(kt_seq_eval(stretched.seq, ids, 9, &err), &err);
    refused(&stretched, KT_E_STATE, "other options");
    refused(&exact, KT_E_STATE, "other options");
    refused(&small, KT_E_CONTEXT_FULL, "90 positions");
    kt_seq *others[2];
    for (int i = 0; i < 2; i++) ok(kt_seq_copy(a.seq, &others[i], &err), &err);
    for (int i = 0; i < 2; i++) kt_seq_close(others[i]);
    unlink(path);
    refused(&a, KT_E_IO, "cannot open");
    world_close(&a);
    world_close(&stretched);
    world_close(&exact);
    world_close(&small);
}

/* Two models of the same shape: one weight makes another fingerprint, another name does not. */
static void test_fingerprints(void **state) {
    (void)state;
    kt_error err;
    static char names[3][64];
    static const fixture_spec spec = {.arch = "llama",
                                      .n_layer = 2,
                                      .d_model = 64,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .head_dim = 16,
                                      .d_ff = 96,
                                      .n_vocab = 256};
    uint8_t prints[3][KT_FINGERPRINT_BYTES];
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "/tmp/kentang-print-%ld-%d.gguf", (long)getpid(), i);
        ok(fixture_write(&spec, names[i], &err), &err);
    }
    FILE *f = fopen(names[2], "r+b"); /* all of the last tensor's bytes change a little */
    fseek(f, -4 * 64 * 96, SEEK_END);
    for (int i = 0; i < 64 * 96; i++) fwrite("\x01\x02\x03\x3c", 1, 4, f);
    fclose(f);
    for (int i = 0; i < 3; i++) {
        world w = world_open(names[i], NULL, 64, 1);
        ok(kt_model_fingerprint(w.model, prints[i], &err), &err);
        if (i == 0) ok(kt_seq_eval(w.seq, (int32_t[]){1, 2, 3}, 3, &err), &err);
        if (i == 0) ok(kt_seq_save(w.seq, path, &err), &err);
        if (i == 1) ok(kt_seq_restore(w.seq, path, &err), &err);
        if (i == 2) refused(&w, KT_E_STATE, "another model");
        world_close(&w);
        unlink(names[i]);
    }
    assert_memory_equal(prints[0], prints[1], KT_FINGERPRINT_BYTES);
    assert_memory_not_equal(prints[0], prints[2], KT_FINGERPRINT_BYTES);
}

#if HEAP_WATCHED
/* Each allocation of a save and a restore fails in turn: the sequence stays as it was. */
static void test_failing_allocations(void **state) {
    (void)state;
    kt_error err;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    world a = world_open(NULL, NULL, 128, 1);
    ok(kt_seq_eval(a.seq, ids, 40, &err), &err);
    for (long n = 1;; n++) {
        kt_engine_info before, after;
        kt_engine_get_info(a.engine, &before);
        heap_begin(n, n);
        kt_status status = kt_seq_save(a.seq, path, &err);
        if (status == KT_OK) status = kt_seq_restore(a.seq, path, &err);
        bool failed = heap.n_failed > 0;
        heap_end();
        kt_engine_get_info(a.engine, &after);
        assert_int_equal(kt_seq_len(a.seq), 40);
        assert_memory_equal(kt_seq_tokens(a.seq), ids, 40 * sizeof *ids);
        assert_int_equal(before.kv_bytes_used, after.kv_bytes_used);
        if (status == KT_OK) {
            if (!failed) break;
            continue;
        }
        assert_int_equal(status, KT_E_NOMEM);
        assert_int_equal(heap.n_live, 0);
        assert_true(n < 200);
    }
    world_close(&a);
    heap_sweep();
}
#endif

int main(void) {
    snprintf(path, sizeof path, "/tmp/kentang-session-%ld.kv", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on_with_the_same_bytes),
        cmocka_unit_test(test_saving_shares_pages_with_copies),
        cmocka_unit_test(test_sessions_of_something_else),
        cmocka_unit_test(test_fingerprints),
#if HEAP_WATCHED
        cmocka_unit_test(test_failing_allocations),
#endif
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
