/* engine and command line: a model opened with blas answers nearly as one without, what it computed
 * is kept apart, and the figures say so. Skipped where OpenBLAS is not installed. */
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

#include "cli_process.h"
#include "context/kv_binding.h"
#include "support.h"

enum { LONG_PROMPT = KT__BLAS_MIN_TOK + 44 };

static char model_path[256];

static int make_model(void **state) {
    char command[1024];
    (void)state;
    snprintf(model_path, sizeof model_path, "%s/blas-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset tiny-qwen2 --quant f16 '%s' 2>/dev/null", KT_BINARY_DIR,
             model_path);
    return system(command);
}

static int remove_model(void **state) {
    (void)state;
    return unlink(model_path);
}

static void skip_without(void) {
    kt__blas *blas;
    kt_error err;
    if (kt__blas_open(NULL, &blas, &err) != KT_OK) {
        print_message("skipped: %s\n", err.message);
        skip();
    }
    kt__blas_close(blas);
}

typedef struct setup {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
    size_t n_vocab;
} setup;

static setup open_file(const char *path, bool blas, int n_threads) {
    setup s;
    kt_error err;
    kt_model_info info;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_model_params mp = kt_model_params_default();
    cp.n_threads = n_threads;
    mp.blas = blas;
    die_on(kt_ctx_open(&cp, &s.ctx, &err), &err);
    die_on(kt_model_open(s.ctx, path, &mp, &s.model, &err), &err);
    die_on(kt_engine_open(s.model, NULL, &s.engine, &err), &err);
    die_on(kt_seq_open(s.engine, &s.seq, &err), &err);
    kt_model_get_info(s.model, &info);
    s.n_vocab = (size_t)info.n_vocab;
    return s;
}

static setup open_with(bool blas, int n_threads) {
    return open_file(model_path, blas, n_threads);
}

static void close_all(setup *s) {
    kt_seq_close(s->seq);
    kt_engine_close(s->engine);
    kt_model_close(s->model);
    kt_ctx_close(s->ctx);
}

static const float *eval(setup *s, size_t n) {
    int32_t ids[LONG_PROMPT];
    kt_error err;
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)((5 + i * 37) % s->n_vocab);
    die_on(kt_seq_truncate(s->seq, 0, &err), &err);
    die_on(kt_seq_eval(s->seq, ids, n, &err), &err);
    return kt_seq_logits(s->seq);
}

/* The length of the difference over the length. */
static double distance(const float *a, const float *b, size_t n) {
    double diff = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)a[i] * a[i];
    }
    return sqrt(diff / size);
}

static void test_close_to_ours(void **state) {
    (void)state;
    skip_without();
    setup ours = open_with(false, 2);
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        setup theirs = open_with(true, n_threads);
        double d = distance(eval(&ours, LONG_PROMPT), eval(&theirs, LONG_PROMPT), ours.n_vocab);
        assert_true(d < 1e-3);
        size_t few = KT__BLAS_MIN_TOK - 1; /* not worth a call: ours, to the byte */
        assert_memory_equal(eval(&ours, few), eval(&theirs, few), ours.n_vocab * sizeof(float));
        close_all(&theirs);
    }
    close_all(&ours);
}

static void test_kept_apart(void **state) {
    (void)state;
    skip_without();
    uint8_t a[KT__KV_BINDING_BYTES], b[KT__KV_BINDING_BYTES];
    kt_error err;
    setup ours = open_with(false, 1), theirs = open_with(true, 1);
    die_on(kt__engine_kv_binding(ours.engine, NULL, a, &err), &err);
    die_on(kt__engine_kv_binding(theirs.engine, NULL, b, &err), &err);
    assert_memory_not_equal(a, b, sizeof a);
    close_all(&ours);
    close_all(&theirs);
}

static void test_not_with_exact(void **state) {
    (void)state;
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_model_params mp = kt_model_params_default();
    mp.blas = mp.exact = true;
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    assert_int_equal(kt_model_open(ctx, model_path, &mp, &model, &err), KT_E_ARG);
    assert_null(model);
    kt_ctx_close(ctx);
}

static void marked(const char *flag, bool plan, const char *json) {
    char arguments[512];
    snprintf(arguments, sizeof arguments, "run -m '%s' --raw -p Hello -n 2 --json %s", model_path,
             flag);
    process p = cli_run(arguments, NULL);
    assert_int_equal(p.code, 0);
    assert_int_equal(strstr(p.err, "answers not reproducible") != NULL, plan);
    assert_non_null(strstr(p.out, json));
    cli_free(&p);
}

static void test_marked(void **state) {
    (void)state;
    marked("", false, "\"reproducible\":true");
    skip_without();
    marked("--blas", true, "\"reproducible\":false");
}

/* The demo model's matrices are quantised: for a BLAS they are dequantised. */
static void test_quantised_weights(void **state) {
    (void)state;
    skip_without();
    static const char path[] = KT_SOURCE_DIR "/src/lib/context/demo.gguf";
    setup ours = open_file(path, false, 2), theirs = open_file(path, true, 2);
    double d = distance(eval(&ours, LONG_PROMPT), eval(&theirs, LONG_PROMPT), ours.n_vocab);
    assert_true(d > 0 && d < 0.05); /* ours has 8 bits of activations */
    close_all(&theirs);
    close_all(&ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_to_ours),     cmocka_unit_test(test_kept_apart),
        cmocka_unit_test(test_not_with_exact),    cmocka_unit_test(test_marked),
        cmocka_unit_test(test_quantised_weights),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
