/* Any bytes as a request of kt_call_json: it is answered or refused. */
#include <kentang.h>
#include <stdlib.h>

static kt_engine *engine; /* one for all inputs */

static bool take_event(void *user, const char *json, size_t len) {
    (void)user;
    if (len == 0 || json[0] != '{' || json[len - 1] != '}') abort();
    return false; /* a token of an answer is enough */
}

static void open_engine_once(void) {
    kt_ctx *ctx;
    kt_model *model;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    cp.n_threads = 1;
    ep.n_ctx = 64;
    if (kt_ctx_open(&cp, &ctx, NULL) != KT_OK) abort();
    if (kt_model_open_demo(ctx, NULL, &model, NULL) != KT_OK) abort();
    if (kt_engine_open(model, &ep, &engine, NULL) != KT_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt_error err;
    if (!engine) open_engine_once();
    kt_status status = kt_call_json(engine, (const char *)data, size, take_event, NULL, &err);
    if (status != KT_OK && !err.message[0]) abort();
    return 0;
}
