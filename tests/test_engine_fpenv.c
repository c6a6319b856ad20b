/* engine: a caller whose thread rounds upwards, or flushes subnormal numbers to zero, gets the same
 * logits, and finds its environment as it was. */
#include <fenv.h>

#include "support.h"

enum { N_TOK = 40 };

/* The logits after N_TOK tokens of the demo model; the caller's environment holds for everything
 * from the evaluation on. */
static void logits_under(void (*enter)(void), bool (*still)(void), float *out, size_t n_vocab) {
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
    int32_t ids[N_TOK];
    uint32_t state = 5;
    kt_ctx_params params = kt_ctx_params_default();
    params.n_threads = 2;
    die_on(kt_ctx_open(&params, &ctx, &err), &err);
    die_on(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    die_on(kt_engine_open(model, NULL, &engine, &err), &err);
    die_on(kt_seq_open(engine, &seq, &err), &err);
    for (int i = 0; i < N_TOK; i++) ids[i] = (int32_t)lcg_below(&state, (uint32_t)n_vocab);
    enter();
    kt_status prompt = kt_seq_eval(seq, ids, N_TOK - 1, &err);
    kt_status token = prompt == KT_OK ? kt_seq_eval(seq, ids + N_TOK - 1, 1, &err) : prompt;
    bool kept = still();
    fesetenv(FE_DFL_ENV);
    die_on(token, &err);
    assert_true(kept);
    memcpy(out, kt_seq_logits(seq), n_vocab * sizeof *out);
    kt_seq_close(seq);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

static void enter_nothing(void) {}
static bool still_nothing(void) {
    return fegetround() == FE_TONEAREST;
}

static void enter_upwards(void) {
    assert_int_equal(fesetround(FE_UPWARD), 0);
}
static bool still_upwards(void) {
    return fegetround() == FE_UPWARD;
}

#if defined(__x86_64__)
enum { FLUSHING = 0x8040 }; /* FTZ, DAZ */
static void enter_flushing(void) {
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSHING);
}
static bool still_flushing(void) {
    return (__builtin_ia32_stmxcsr() & FLUSHING) == FLUSHING;
}
#endif

static size_t vocabulary(void) {
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_model_info info;
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    die_on(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    kt_model_get_info(model, &info);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return (size_t)info.n_vocab;
}

static void test_callers_environment_changes_nothing(void **state) {
    (void)state;
    size_t n = vocabulary(), bytes = n * sizeof(float);
    float *want = test_malloc(bytes), *got = test_malloc(bytes);
    logits_under(enter_nothing, still_nothing, want, n);
    logits_under(enter_upwards, still_upwards, got, n);
    assert_memory_equal(want, got, bytes);
#if defined(__x86_64__)
    logits_under(enter_flushing, still_flushing, got, n);
    assert_memory_equal(want, got, bytes);
#endif
    test_free(want);
    test_free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callers_environment_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
