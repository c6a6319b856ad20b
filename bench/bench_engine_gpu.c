/* Processor time of a token that a graphics processor computes: what this thread spends on recording, submitting and
 * the parts that stay here (embedding, rotation, tables, the choice of experts), by its own clock, which stops while
 * the thread waits. Threads that a software driver computes with are not counted, as a card's would not be; the
 * driver's own recording is, Mesa's software driver's in place of the card's.
 *
 *   bench_engine_gpu MODEL.gguf [DEVICE [TOKENS]] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "context/types.h"
#include "gpu/steps.h"
#include "kentang.h"
#include "model/fwd_steps.h"

enum { WARM = 4, TOKENS = 16 };

static void die_on(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "bench_engine_gpu: %s\n", err->message);
    exit(1);
}

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static kt_engine *open_engine(kt_model *model) {
    kt_error err;
    kt_engine *engine;
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 512;
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
    return engine;
}

static kt_model *open_model(kt_ctx *ctx, const char *path, const char *device) {
    kt_error err;
    kt_model *model;
    kt_model_params mp = kt_model_params_default();
    mp.n_gpu_layers = INT32_MAX;
    mp.device = device;
    die_on(kt_model_open(ctx, path, &mp, &model, &err), &err);
    return model;
}

static void time_tokens(kt_engine *engine, int n) {
    kt_error err;
    kt_seq *seq;
    die_on(kt_seq_open(engine, &seq, &err), &err);
    kt__gpu *gpu = engine->model->gpu;
    const kt__gpu_tape *tape = &engine->step_fwd->gpu->tape;
    kt__gpu_use before = kt__gpu_get_use(gpu);
    uint64_t n_put = tape->n_put;
    double spent_us = 0, least_us = 1e12;
    for (int i = -WARM; i < n; i++) {
        const int32_t id = 5 + (i + WARM) % 40;
        if (i == 0) {
            before = kt__gpu_get_use(gpu);
            n_put = tape->n_put;
        }
        double begin_us = thread_us();
        die_on(kt_seq_eval(seq, &id, 1, &err), &err);
        double us = thread_us() - begin_us;
        if (i < 0) continue;
        spent_us += us;
        if (us < least_us) least_us = us;
    }
    kt__gpu_use after = kt__gpu_get_use(gpu);
    printf(
        "%d tokens on %s: of each %.0f us of this thread (least %.0f), %.1f operations in %.1f submissions, "
        "%.1f ms of waiting\n",
        n, kt__gpu_get_info(gpu)->name, spent_us / n, least_us, (double)(tape->n_put - n_put) / n,
        (double)(after.n_submits - before.n_submits) / n,
        (double)(after.wait_us - before.wait_us) / n / 1e3);
    printf("5%% of a core up to %.0f tok/s\n", 0.05 * 1e6 * n / spent_us);
    kt_seq_close(seq);
}

int main(int argc, char **argv) {
    kt_error err;
    kt_ctx *ctx;
    kt_ctx_params cp = kt_ctx_params_default();
    int n = argc > 3 ? atoi(argv[3]) : TOKENS;
    if (argc < 2 || n < 1) {
        fprintf(stderr, "usage: bench_engine_gpu MODEL.gguf [DEVICE [TOKENS]]\n");
        return 2;
    }
    cp.n_threads = 1; /* whose time is all that is spent here */
    die_on(kt_ctx_open(&cp, &ctx, &err), &err);
    kt_model *model = open_model(ctx, argv[1], argc > 2 ? argv[2] : NULL);
    kt_engine *engine = open_engine(model);
    if (!engine->step_fwd->gpu) {
        fprintf(stderr, "bench_engine_gpu: no layer is on a device\n");
        return 1;
    }
    printf("%d of %d layers%s\n", model->device->n, model->net->hp.n_layer,
           model->device->head ? " and the head" : "");
    time_tokens(engine, n);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return 0;
}
