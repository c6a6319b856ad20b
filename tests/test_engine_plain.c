/* engine: attention by whole rows of scores gives the numbers of attention in parts but for
 * rounding, with windows, soft-caps, sinks and latent heads; it does not depend on
 * threads, and reads keys and values in f16 alone. */
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

#include "kentang.h"
#include "support.h"

enum { N_IDS = 300 };

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
} world;

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

static void make_model(const char *preset, char *path, size_t size) {
    char command[1024];
    snprintf(path, size, "%s/plain-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant f16 --seed 5 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, preset, path);
    assert_int_equal(system(command), 0);
}

static world world_open(const char *path, bool plain, int n_threads) {
    kt_error err;
    world w;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_model_params mp = kt_model_params_default();
    kt_engine_params ep = {.n_ctx = 512, .n_ubatch = 128, .n_seq_max = 1, .n_parallel = 1};
    cp.n_threads = n_threads;
    mp.plain_attention = plain;
    ok(kt_ctx_open(&cp, &w.ctx, &err), &err);
    ok(kt_model_open(w.ctx, path, &mp, &w.model, &err), &err);
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

/* Logits after a prompt and a step of one token. */
static float *logits_of(const char *path, bool plain, int n_threads, int *n) {
    kt_error err;
    kt_model_info info;
    int32_t ids[N_IDS];
    uint32_t seed = 3;
    world w = world_open(path, plain, n_threads);
    kt_model_get_info(w.model, &info);
    for (int i = 0; i < N_IDS; i++) ids[i] = (int32_t)lcg_below(&seed, (uint32_t)info.n_vocab);
    ok(kt_seq_eval(w.seq, ids, N_IDS - 1, &err), &err);
    ok(kt_seq_eval(w.seq, ids + N_IDS - 1, 1, &err), &err);
    float *out = malloc((size_t)info.n_vocab * sizeof *out);
    memcpy(out, kt_seq_logits(w.seq), (size_t)info.n_vocab * sizeof *out);
    world_close(&w);
    *n = info.n_vocab;
    return out;
}

static void test_rows_and_parts(void **state) {
    static const char *const presets[] = {"tiny-llama", "tiny-gemma2", "tiny-gemma3",
                                          "tiny-gpt-oss", "tiny-deepseek2"};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        char path[256];
        int n;
        double far = 0, most = 0;
        make_model(presets[i], path, sizeof path);
        float *parts = logits_of(path, false, 2, &n), *rows = logits_of(path, true, 2, &n);
        float *alone = logits_of(path, true, 1, &n);
        for (int k = 0; k < n; k++) {
            far = fmax(far, fabs((double)parts[k] - (double)rows[k]));
            most = fmax(most, fabs((double)parts[k]));
        }
        if (far > 2e-3 * most || far == 0)
            fail_msg("%s: %g apart, of %g at most", presets[i], far, most);
        assert_memory_equal(rows, alone, (size_t)n * sizeof *rows);
        free(parts);
        free(rows);
        free(alone);
        remove(path);
    }
}

static void test_quantised_keys_are_refused(void **state) {
    (void)state;
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_model_params mp = kt_model_params_default();
    kt_engine_params ep = {.kv_keys = KT_KV_Q8_0};
    mp.plain_attention = true;
    ok(kt_ctx_open(NULL, &ctx, &err), &err);
    ok(kt_model_open_demo(ctx, &mp, &model, &err), &err);
    assert_int_equal(kt_engine_open(model, &ep, &engine, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "-fa off"));
    kt_model_close(model);
    kt_ctx_close(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_parts),
        cmocka_unit_test(test_quantised_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
