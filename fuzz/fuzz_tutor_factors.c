/* libFuzzer: any bytes as an adapter that a training continues from, as a file of replay, and as the two of a training that was interrupted. */
#include <stdlib.h>

#include "context/model.h"
#include "learn/factors.h"
#include "learn/resume.h"
#include "tutor/kept_lesson.h"
#include "tutor/questions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static kt_model *demo(void) {
    static kt_ctx *ctx;
    static kt_model *model;
    kt_ctx_params params = kt_ctx_params_default();
    params.n_threads = 1;
    if (!model && (kt_ctx_open(&params, &ctx, NULL) != KT_OK ||
                   kt_model_open_demo(ctx, NULL, &model, NULL) != KT_OK))
        abort();
    return model;
}

static void read_as_factors(const uint8_t *data, size_t size) {
    static kt__factors *factors;
    kt__gguf *gguf;
    kt_error err;
    if (!factors &&
        kt__factors_make(demo()->net, KT__LEARN_HIDDEN, 2, 4.0f, 1, &factors, &err) != KT_OK)
        abort();
    if (kt__gguf_open_memory(data, size, false, &gguf, &err) != KT_OK) return;
    (void)kt__factors_read(factors, gguf, &err);
    kt__gguf_close(gguf);
}

static void read_as_replay(const uint8_t *data, size_t size) {
    static const uint8_t binding[KT__OWN_REPLAY_BINDING];
    kt__lesson lesson = {0};
    uint32_t n_vocab = (uint32_t)demo()->net->hp.n_vocab;
    kt_error err;
    int done;
    if (kt__own_replay_read(&lesson, binding, data, size, n_vocab, &done)) {
        if (kt__samples_check(lesson.samples, lesson.n, (int)n_vocab, 1 << 24, &err) != KT_OK)
            abort();
    } else if (lesson.n != 0) {
        abort();
    }
    kt__lesson_free(&lesson);
}

static void read_as_lesson(const uint8_t *data, size_t size) {
    static const uint8_t binding[KT__LESSON_BINDING];
    kt__lesson lesson = {0};
    uint32_t n_vocab = (uint32_t)demo()->net->hp.n_vocab;
    kt_error err;
    bool good = kt__lesson_parse(&lesson, n_vocab, binding, data, size);
    if (good ? kt__samples_check(lesson.samples, lesson.n, (int)n_vocab, 1 << 24, &err) != KT_OK
             : lesson.n != 0)
        abort();
    kt__lesson_free(&lesson);
}

static void read_as_state(const uint8_t *data, size_t size) {
    static const uint8_t binding[32];
    kt__adam adam;
    float values[4];
    kt__resume_state state = {.values = values, .adam = &adam};
    kt_error err;
    if (kt__adam_init(&adam, 4, &err) != KT_OK) abort();
    (void)kt__resume_parse(binding, data, size, &state);
    kt__adam_free(&adam);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_as_factors(data, size);
    read_as_replay(data, size);
    read_as_lesson(data, size);
    read_as_state(data, size);
    return 0;
}
