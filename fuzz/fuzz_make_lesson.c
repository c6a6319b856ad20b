/* libFuzzer: any bytes as lines to learn from: they become samples that a training takes, or are refused
 * with the line's number. */
#include <stdlib.h>
#include <string.h>

#include "make/learn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static kt_engine *engine; /* one for all inputs */

static void open_engine_once(void) {
    kt_ctx *ctx;
    kt_model *model;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    cp.n_threads = 1;
    ep.n_ctx = 64; /* what the model writes itself stays short */
    if (kt_ctx_open(&cp, &ctx, NULL) != KT_OK) abort();
    if (kt_model_open_demo(ctx, NULL, &model, NULL) != KT_OK) abort();
    if (kt_engine_open(model, &ep, &engine, NULL) != KT_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt_error err = {0};
    kt__lesson lesson = {0};
    if (!engine) open_engine_once();
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (kt__lesson_read_text(&lesson, engine, "lines", text, &err) != KT_OK) {
        if (!err.message[0]) abort();
    } else if (kt__samples_check(lesson.samples, lesson.n, (int)kt__engine_n_vocab(engine), 1 << 24,
                                 &err) != KT_OK) {
        abort();
    }
    kt__lesson_free(&lesson);
    free(text);
    return 0;
}
