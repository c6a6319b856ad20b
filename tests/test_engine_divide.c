/* What another process says of an engine, as kentang of this version takes it: other versions and other numbers are
 * refused in words, whatever follows them, and bytes that are too few are. */
#include "support.h"

#include <string.h>

#include "context/types.h"
#include "engine/divide.h"

typedef struct sent_engine {
    const char *version;
    int32_t numerics, number;
    size_t n_plan;
} sent_engine;

/* As it lies in a message that came. */
static kt_status hear(kt_ctx *ctx, const sent_engine *t, kt__divide_told *out, kt_error *err) {
    const kt_model_params params = kt_model_params_default();
    const uint8_t fingerprint[KT_FINGERPRINT_BYTES] = {7};
    static const kt__plan plan = {.n_pages = 9};
    kt__message *m = &ctx->message;
    kt__message_begin(m, 1);
    kt__message_put_bytes(m, t->version, strlen(t->version) + 1);
    kt__message_put(m, t->numerics);
    kt__message_put(m, t->number);
    kt__message_put_bytes(m, "m.gguf", 6);
    kt__message_put_bytes(m, &params, sizeof params);
    kt__message_put_bytes(m, fingerprint, sizeof fingerprint);
    kt__message_put_bytes(m, &plan, t->n_plan);
    m->at = 2;
    return kt__divide_heard(ctx, out, err);
}

static void test_heard(void **state) {
    kt_ctx *ctx = *state;
    kt__divide_told out;
    kt_error err;
    const sent_engine same = {KT_VERSION, KENTANG_NUMERICS, 3, sizeof out.plan};
    assert_int_equal(hear(ctx, &same, &out, &err), KT_OK);
    assert_string_equal(out.path, "m.gguf");
    assert_int_equal(out.number, 3);
    assert_int_equal(out.plan.n_pages, 9);
    assert_int_equal(out.fingerprint[0], 7);
}

static void test_refused(void **state) {
    const struct {
        sent_engine sent;
        const char *words;
    } cases[] = {
        {{"0.0.1", KENTANG_NUMERICS, 3, sizeof(kt__plan)}, "0.0.1 in process 0"},
        {{"", KENTANG_NUMERICS, 3, sizeof(kt__plan)}, "one version on all machines"},
        {{KT_VERSION, KENTANG_NUMERICS + 1, 3, sizeof(kt__plan)}, "one version on all machines"},
        {{KT_VERSION, KENTANG_NUMERICS, 0, sizeof(kt__plan)}, "in another form"},
        {{KT_VERSION, KENTANG_NUMERICS, 3, sizeof(kt__plan) - 1}, "in another form"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__divide_told out;
        kt_error err;
        assert_int_not_equal(hear(*state, &cases[i].sent, &out, &err), KT_OK);
        assert_non_null(strstr(err.message, cases[i].words));
    }
}

static int open_ctx(void **state) {
    kt_ctx *ctx;
    kt_error err;
    int failed = kt_ctx_open(NULL, &ctx, &err);
    *state = ctx;
    return failed;
}

static int close_ctx(void **state) {
    kt_ctx *ctx = *state;
    kt__message_free(&ctx->message);
    kt_ctx_close(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heard, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(test_refused, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
