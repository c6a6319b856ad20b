/* Memory and time of keys and values in all forms. By hand:
 *
 *     bench_measure_kv memory                       the tables of docs/MEMORY.md: K/V of one answer
 *     bench_measure_kv steps MODEL [DEPTH [STEPS]]  times of decode steps: f16, in which nothing is quantised,
 *                                           and forms in which something is, in turns
 *
 * MODEL is a file, "-" (the embedded one), or a preset of `kentang synth`, made in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kv/f16_copies.h"
#include "kv/kv.h"
#include "measure/bench_streams.h"
#include "measure/figures.h"
#include "requests/plan.h"
#include "synth/synth.h"

enum { ROUNDS = 4, MAX_STEPS = 4096, TURN = 64 };

static void check(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "bench_measure_kv: %s\n", err->message);
    exit(kt_status_exit_code(status));
}

/* ---- memory ---- */

typedef struct sized {
    const char *preset;
    int32_t n_ctx, tail;
    kt__kv_form keys, values;
    const char *name;
    int n_f16_keys; /* layers */
} sized;

static kt__kv_shape shape_of(const sized *s) {
    const kt__synth_preset *p;
    const kt__recipe *recipe;
    kt_error err;
    check(kt__synth_find(s->preset, "q4_0", &p, &recipe, &err), &err);
    kt__kv_shape shape = {.n_layer = p->n_layer,
                          .n_head_kv = p->n_head_kv,
                          .head_dim_k = p->head_dim,
                          .head_dim_v = p->head_dim,
                          .k_form = s->keys,
                          .v_form = s->values,
                          .n_tail = s->tail / KT__PAGE_POS,
                          .first_f16 = s->keys == KT__KV_Q4 || s->values == KT__KV_Q4};
    for (int i = 0; i < s->n_f16_keys; i++) shape.f16_keys[0] |= (uint64_t)1 << i;
    return shape;
}

/* One answer at full length: what the plan takes for it, without a copy of a page. */
static void print_memory(const sized *s, int32_t n_ubatch) {
    const double mb = 1e-6;
    kt__kv_shape shape = shape_of(s), plain = shape;
    plain.k_form = plain.v_form = KT__KV_F16;
    kt_engine_params p = {
        .n_ctx = s->n_ctx, .n_ubatch = n_ubatch, .n_parallel = 1, .n_seq_max = 1, .n_draft = 8};
    int64_t pages = kt__plan_places(&shape, s->n_ctx), all = s->n_ctx / KT__PAGE_POS;
    double quantised = (double)pages * (double)kt__kv_page_bytes(&shape) * mb;
    double f16 = (double)kt__plan_f16_copy_bytes(&shape, &p) * mb;
    printf("| %s | %d | %s | %d | %d | %.1f | %.1f | %.1f | %.1f |\n", s->preset, s->n_ctx, s->name,
           s->tail, n_ubatch, quantised, f16, quantised + f16,
           (double)all * (double)kt__kv_page_bytes(&plain) * mb);
}

static void bench_memory(void) {
    static const sized rows[] = {
        {"qwen2.5-7b", 4096, 0, KT__KV_Q8, KT__KV_Q8, "q8", 0},
        {"qwen2.5-7b", 4096, 256, KT__KV_Q8, KT__KV_Q4, "k8v4", 0},
        {"qwen2.5-7b", 4096, 256, KT__KV_Q4, KT__KV_Q4, "q4", 0},
        {"qwen2.5-7b", 4096, 256, KT__KV_Q4, KT__KV_Q4, "q4, keys of 2 layers f16", 2},
        {"qwen2.5-1.5b", 16384, 0, KT__KV_Q8, KT__KV_Q8, "q8", 0},
        {"qwen2.5-1.5b", 16384, 512, KT__KV_Q4, KT__KV_Q4, "document-qa (q4)", 0},
        {"qwen2.5-1.5b", 16384, 512, KT__KV_Q4, KT__KV_Q4, "document-qa, keys of 2 layers f16", 2},
    };
    static const int32_t ubatches[] = {64, 256, 512};
    printf(
        "| geometry | positions | form | tail | -ub | quantised MB | f16 copies MB | together MB | f16 MB "
        "|\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof ubatches / sizeof *ubatches; k++)
            print_memory(&rows[i], ubatches[k]);
}

/* ---- windows ---- */

typedef struct windowed {
    const char *preset;
    int32_t n_ctx;
    int every, of; /* layers with a window: all but each `every`-th; of so many positions */
} windowed;

/* One answer at full length, f16, where every layer keeps all of it, and where those with a window
 * keep as much as the plan says. */
static void print_windows(const windowed *s) {
    const double mb = 1e-6;
    const sized plain = {.preset = s->preset, .keys = KT__KV_F16, .values = KT__KV_F16};
    kt__kv_shape shape = shape_of(&plain);
    kt_engine_params p = {.n_ctx = s->n_ctx, .n_ubatch = 512, .n_parallel = 1, .n_draft = 8};
    int64_t pages = kt__plan_places(&shape, s->n_ctx);
    double all = (double)kt__kv_bytes(&shape, pages, pages) * mb;
    shape.n_window = (s->of + KT__PAGE_POS - 2) / KT__PAGE_POS;
    for (int i = 0; i < shape.n_layer; i++)
        if ((i + 1) % s->every) shape.locals[i / 64] |= (uint64_t)1 << (i % 64);
    int32_t local = kt__plan_local_pages(&shape, &p, pages);
    double with = (double)kt__kv_bytes(&shape, pages, local) * mb;
    printf("| %s | %d | %d | %d | %.0f | %.0f | %.0f%% |\n", s->preset, s->of, s->n_ctx,
           local * KT__PAGE_POS, all, with, 100 * with / all);
}

static void bench_windows(void) {
    static const windowed rows[] = {
        {"gemma-2-9b", 8192, 2, 4096},  {"gemma-3-4b", 8192, 6, 1024},
        {"gemma-3-4b", 32768, 6, 1024}, {"gemma-3-4b", 131072, 6, 1024},
        {"gpt-oss-20b", 32768, 2, 128},
    };
    printf(
        "| geometry | window | positions | of these in layers with a window | all MB | windows MB | |"
        "\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) print_windows(&rows[i]);
}

/* ---- steps ---- */

typedef struct subject {
    kt_ctx *ctx;
    kt_model *model;
    kt__synth_plan plan;
    kt__synth_image image;
} subject;

static void open_subject(const char *name, subject *s) {
    kt_error err;
    const kt__synth_preset *preset;
    const kt__recipe *recipe;
    kt_ctx_params cp = kt_ctx_params_default();
    check(kt_ctx_open(&cp, &s->ctx, &err), &err);
    if (!strcmp(name, "-")) {
        check(kt_model_open_demo(s->ctx, NULL, &s->model, &err), &err);
    } else if (kt__synth_find(name, "q4_0", &preset, &recipe, &err) == KT_OK) {
        check(kt__synth_plan_make(preset, recipe, 1, 0, &s->plan, &err), &err);
        check(kt__synth_image_make(&s->plan, kt_ctx_n_threads(s->ctx), &s->image, &err), &err);
        check(kt_model_open_memory(s->ctx, s->image.data, s->image.size, NULL, &s->model, &err),
              &err);
    } else {
        check(kt_model_open(s->ctx, name, NULL, &s->model, &err), &err);
    }
}

typedef struct form {
    const char *name;
    kt_kv_type type;
    int32_t tail;
    kt__bench_streams streams;
    double ms[MAX_STEPS];
    int n;
} form;

static void open_form(const subject *s, form *f, int depth, int n_steps) {
    kt_error err;
    kt_engine_params p = kt_engine_params_default();
    p.n_ctx = depth + n_steps + 1;
    p.n_seq_max = p.n_parallel = 1;
    p.kv_keys = p.kv_values = f->type;
    p.kv_tail = f->tail;
    check(kt__bench_streams_open(s->model, &p, NULL, &f->streams, &err), &err);
    check(kt__bench_streams_set_depth(&f->streams, depth, &err), &err);
}

static void time_steps(form *f, int n) {
    kt_error err;
    for (int i = 0; i < n; i++) {
        double seconds;
        check(kt__bench_streams_decode(&f->streams, 1, &seconds, &err), &err);
        f->ms[f->n++] = seconds * 1e3;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_form(form *f) {
    qsort(f->ms, (size_t)f->n, sizeof *f->ms, ascending);
    double p50 = f->ms[f->n / 2], p99 = f->ms[f->n * 99 / 100];
    printf("| %s | %d | %.3f | %.3f | %.3f | %.3f |\n", f->name, f->n, p50, p99, f->ms[f->n - 1],
           p99 / p50);
}

static void bench_steps(const char *model, int depth, int n_steps) {
    static form forms[] = {{.name = "f16"},
                           {.name = "q8", .type = KT_KV_Q8_0, .tail = -1},
                           {.name = "q8, tail 256", .type = KT_KV_Q8_0, .tail = 256},
                           {.name = "q4, tail 256", .type = KT_KV_Q4_0, .tail = 256}};
    enum { N = sizeof forms / sizeof *forms };
    subject s = {0};
    open_subject(model, &s);
    for (int i = 0; i < N; i++) open_form(&s, &forms[i], depth, n_steps);
    for (int at = 0; at < n_steps; at += TURN)
        for (int i = 0; i < N; i++)
            time_steps(&forms[i], n_steps - at < TURN ? n_steps - at : TURN);
    printf(
        "| K/V | steps | p50 ms | p99 ms | longest ms | p99 / p50 |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < N; i++) {
        print_form(&forms[i]);
        kt__bench_streams_close(&forms[i].streams);
    }
    kt_model_close(s.model);
    kt_ctx_close(s.ctx);
    kt__synth_image_free(&s.image);
    kt__synth_plan_free(&s.plan);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "memory")) {
        bench_memory();
        printf("\n");
        bench_windows();
        return 0;
    }
    int depth = argc > 3 ? atoi(argv[3]) : 1024, steps = argc > 4 ? atoi(argv[4]) : 512;
    if (argc < 3 || strcmp(argv[1], "steps") || depth < 1 || steps < 1 || steps > MAX_STEPS) {
        fprintf(stderr,
                "usage: bench_measure_kv memory | steps MODEL [DEPTH [STEPS (at most %d)]]\n",
                MAX_STEPS);
        return 2;
    }
    bench_steps(argv[2], depth, steps);
    return 0;
}
