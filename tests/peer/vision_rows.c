/* What kentang makes of a picture: its encoder's rows, and the most likely next tokens after a conversation with it, and
 * after the first of them.
 *   vision_rows MODEL MMPROJ PICTURE TEXT ROWS NEXT
 * ROWS: a file of floats, rows in the prompt's order. NEXT: a file of int32 id and float log-probability in pairs. Says what the
 * encoder took, in milliseconds. Links the library's insides; built by vision.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/host.h"
#include "kernels/dispatch.h"
#include "picture/picture.h"
#include "vision/vision.h"

static void check(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "vision_rows: %s\n", err->message);
    exit(1);
}

static void write_rows(const char *mmproj, const uint8_t *file, size_t len, const char *to) {
    const kt__gguf_open_params params = {.use_mmap = true};
    const kt__kernels *kernels;
    kt__picture picture;
    kt__tiling tiling;
    kt__vision *v;
    kt__pool *pool;
    kt__seer *seer;
    kt__cpu cpu;
    kt_error err;
    uint8_t *tiles;
    char why[64];
    kt__cpu_detect(&cpu);
    check(kt__vision_open(mmproj, &params, &v, &err), &err);
    check(kt__kernels_select(&cpu, NULL, &kernels, why, sizeof why, &err), &err);
    check(kt__pool_create(2, &pool, &err), &err);
    check(kt__seer_create(v, pool, kernels, false, &seer, &err), &err);
    check(kt__picture_decode(file, len, &picture, &err), &err);
    check(kt__vision_cut(v, &picture, &tiling, &tiles, &err), &err);
    size_t n = (size_t)tiling.n_rows * (size_t)v->d_row,
           pixels = (size_t)tiling.width * (size_t)tiling.height * 3;
    float *rows = kt__calloc((size_t)tiling.n_tile * n, sizeof *rows);
    int64_t begin_us = kt__now_us();
    for (int i = 0; i < tiling.n_tile; i++) {
        bool done;
        kt__seer_begin(seer, tiling.width, tiling.height, tiles + (size_t)i * pixels,
                       rows + (size_t)i * n, 2);
        check(kt__seer_run(seer, INT64_MAX, &done, &err), &err);
    }
    printf("%.0f\n", (double)(kt__now_us() - begin_us) / 1e3);
    FILE *out = fopen(to, "wb");
    fwrite(rows, sizeof *rows, (size_t)tiling.n_tile * n, out);
    fclose(out);
    kt__free(rows);
    kt__free(tiles);
    kt__picture_free(&picture);
    kt__seer_destroy(seer);
    kt__pool_destroy(pool);
    kt__vision_close(v);
}

static void write_next(char **argv, const uint8_t *file, size_t len) {
    kt_model_params params = kt_model_params_default();
    kt_request_params r = kt_request_params_default();
    const kt_picture picture = {file, len};
    char chat[4096];
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_request *req;
    kt_event event;
    kt_error err;
    params.mmproj = argv[2];
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 8192;
    check(kt_ctx_open(NULL, &ctx, &err), &err);
    check(kt_model_open(ctx, argv[1], &params, &model, &err), &err);
    check(kt_engine_open(model, &ep, &engine, &err), &err);
    snprintf(
        chat, sizeof chat,
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"%s\"}]}]",
        argv[4]);
    r.prompt.chat_json = chat;
    r.prompt.chat_json_len = strlen(chat);
    r.prompt.pictures = &picture;
    r.prompt.n_pictures = 1;
    r.logprobs.n = KT_LOGPROBS_MAX;
    r.gen.n_predict = 2;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    int32_t *ids;
    size_t n;
    check(kt_request_encode(model, &r, &ids, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0) fprintf(stderr, "%d ", ids[i]);
    fprintf(stderr, "\n");
    check(kt_engine_submit(engine, &r, &req, &err), &err);
    FILE *out = fopen(argv[6], "wb");
    while (kt_request_next_event(req, &event, -1) && event.kind != KT_EVENT_FINISHED) {
        for (size_t i = 0; event.kind == KT_EVENT_TOKEN && i < event.n_top; i++) {
            fwrite(&event.top[i].id, 4, 1, out);
            fwrite(&event.top[i].logprob, 4, 1, out);
        }
    }
    if (event.error) check(event.error->code, event.error);
    fclose(out);
    kt_request_close(req);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

int main(int argc, char **argv) {
    static uint8_t file[1 << 24];
    if (argc != 7) return 2;
    FILE *in = fopen(argv[3], "rb");
    size_t len = in ? fread(file, 1, sizeof file, in) : 0;
    write_rows(argv[2], file, len, argv[5]);
    write_next(argv, file, len);
    return 0;
}
