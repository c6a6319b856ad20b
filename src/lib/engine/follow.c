/* kt_ctx_follow: a process that computes its part of what process 0's engines compute. */
#include <stdio.h>
#include <string.h>

#include "answer/batch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "context/ctx.h"
#include "context/model.h"
#include "engine/divide.h"

enum { ENGINES = 16 }; /* open at once */

typedef struct led_engine {
    int number; /* 0: this place is free */
    kt_model *model;
    kt_engine *engine;
    kt_cache *cache; /* NULL: none is open */
    kt__led_pass passes[2];
} led_engine;

typedef struct follower {
    kt_ctx *ctx;
    led_engine engines[ENGINES];
    kt__led_adapters adapters;
} follower;

static led_engine *engine_of(follower *f, int number) {
    for (int i = 0; i < ENGINES; i++)
        if (f->engines[i].number == number) return &f->engines[i];
    return NULL;
}

static bool is_used(const follower *f, const kt_model *model) {
    for (int i = 0; i < ENGINES; i++)
        if (f->engines[i].model == model) return true;
    return false;
}

static void close_led(follower *f, led_engine *led) {
    kt_model *model = led->model;
    kt__cache_close_here(led->cache);
    for (int i = 0; i < 2; i++) kt__led_pass_free(&led->passes[i]);
    kt_engine_close(led->engine);
    *led = (led_engine){0};
    if (model && !is_used(f, model)) kt_model_close(model);
}

/* ---- an engine is opened ---- */

/* Another engine's, of the same file: mapped once, it is in memory once. */
static kt_model *open_already(const follower *f, const kt__divide_told *asked) {
    uint8_t own[KT_FINGERPRINT_BYTES];
    for (int i = 0; i < ENGINES; i++) {
        kt_model *model = f->engines[i].model;
        if (model && !strcmp(model->info.path, asked->path) &&
            !memcmp(&model->params, &asked->model, sizeof model->params) &&
            kt__model_fingerprint(model, own, NULL) == KT_OK &&
            !memcmp(own, asked->fingerprint, sizeof own))
            return model;
    }
    return NULL;
}

static kt_status open_model(kt_ctx *ctx, const kt__divide_told *asked, kt_model **out,
                            kt_error *err) {
    uint8_t own[KT_FINGERPRINT_BYTES];
    if (!strcmp(asked->path, "(demo)"))
        KT__STEP(kt_model_open_demo(ctx, &asked->model, out, err));
    else
        KT__STEP(kt_model_open(ctx, asked->path, &asked->model, out, err));
    KT__STEP(kt__model_fingerprint(*out, own, err));
    if (!memcmp(own, asked->fingerprint, sizeof own)) return KT_OK;
    return kt__fail(err, KT_E_STATE,
                    "%.200s is another file than on process 0's machine: copy it from there",
                    asked->path);
}

static kt_status open_led(follower *f, led_engine *led, kt_error *err) {
    kt__divide_told asked;
    KT__STEP(kt__divide_heard(f->ctx, &asked, err));
    if (!led) return kt__fail(err, KT_E_STATE, "more than %d engines are open at once", ENGINES);
    led->model = open_already(f, &asked);
    if (!led->model) KT__STEP(open_model(f->ctx, &asked, &led->model, err));
    KT__STEP(kt__engine_open_led(led->model, &asked.plan, asked.number, &led->engine, err));
    const kt_engine *e = led->engine;
    KT__STEP(kt__led_pass_init(&led->passes[0], e->params.n_ubatch, e->n_out_max, err));
    KT__STEP(kt__led_pass_init(&led->passes[1], e->step_rows, e->step_rows, err));
    led->number = asked.number;
    return KT_OK;
}

/* What went wrong is reported to process 0, which closes the engine. */
static kt_status hear_open(follower *f, kt_error *err) {
    led_engine *led = engine_of(f, 0);
    kt_status status = open_led(f, led, err);
    if (status != KT_OK && led) close_led(f, led);
    if (kt__divide_agree(f->ctx, status, err) == KT_OK) return KT_OK;
    return kt__peers_check(f->ctx->split.peers, err);
}

/* ---- batches ---- */

/* A batch whose numbers are not finite, or that is cancelled, ends so in every process. */
static kt_status hear_run(const follower *f, led_engine *led, kt_error *err) {
    kt__batch_run run;
    bool done;
    KT__STEP(kt__batch_heard(led->engine, &f->adapters, led->passes, &run, err));
    kt_status status = kt__engine_run_batch(led->engine, &run, &done, err);
    return status == KT_E_NUMERIC || status == KT_E_CANCELLED ? KT_OK : status;
}

/* ---- its disk cache ---- */

static kt_status open_led_cache(led_engine *led, kt_error *err) {
    kt_cache_params params;
    KT__STEP(kt__cache_heard(&led->model->ctx->message, &params, err));
    if (led->cache) return kt__fail(err, KT_E_FORMAT, "process 0 opens an engine's cache twice");
    return kt__cache_open_here(led->engine, &params, &led->cache, err);
}

/* What went wrong is reported to process 0, which closes it. */
static kt_status hear_cache(led_engine *led, kt_error *err) {
    kt_ctx *ctx = led->model->ctx;
    if (kt__divide_agree(ctx, open_led_cache(led, err), err) == KT_OK) return KT_OK;
    return kt__peers_check(ctx->split.peers, err);
}

static kt_status hear_cache_end(led_engine *led) {
    kt__cache_close_here(led->cache);
    led->cache = NULL;
    return KT_OK;
}

/* Carries out process 0's message about its disk cache on this process's own, or on none. */
static kt_status hear_store(const led_engine *led, kt_error *err) {
    if (!led->cache) return kt__store_heard(led->engine, NULL, err);
    kt__kv_store store = kt__cache_store(led->cache);
    return kt__store_heard(led->engine, &store, err);
}

/* ---- all messages ---- */

static kt_status hear_of_engine(follower *f, int32_t kind, kt_error *err) {
    led_engine *led = engine_of(f, kt__message_take(&f->ctx->message, 1, INT32_MAX));
    if (kind == KT__TOLD_CLOSE) {
        if (led) close_led(f, led);
        return KT_OK;
    }
    if (!led) return kt__fail(err, KT_E_FORMAT, "process 0 uses an engine that is not open here");
    if (kind == KT__TOLD_RUN) return hear_run(f, led, err);
    if (kind == KT__TOLD_CACHE) return hear_cache(led, err);
    if (kind == KT__TOLD_CACHE_END) return hear_cache_end(led);
    if (kind == KT__TOLD_STORE) return hear_store(led, err);
    if (kind == KT__TOLD_COPY) return kt__batch_heard_copy(led->engine, err);
    return kt__fail(err, KT_E_FORMAT, "process 0 sent a message of an unknown kind, %d", (int)kind);
}

static kt_status hear_message(follower *f, int32_t kind, kt_error *err) {
    if (kind == KT__TOLD_SPLIT) return kt__ctx_heard_split(f->ctx, err);
    if (kind == KT__TOLD_OPEN) return hear_open(f, err);
    if (kind == KT__TOLD_ADAPTER) return kt__adapter_heard(&f->adapters, &f->ctx->message, err);
    if (kind != KT__TOLD_ADAPTER_END) return hear_of_engine(f, kind, err);
    kt__adapter_heard_end(&f->adapters, &f->ctx->message);
    return KT_OK;
}

static kt_status follow_to_end(follower *f, kt_error *err) {
    for (;;) {
        int32_t kind;
        KT__STEP(kt__message_receive(&f->ctx->message, f->ctx->split.peers, &kind, err));
        if (kind == KT__TOLD_END) return KT_OK;
        KT__STEP(hear_message(f, kind, err));
    }
}

/* The others see the job's end; this process says which it is. */
static kt_status fail_follow(kt_ctx *ctx, kt_status status, kt_error *err) {
    kt__peers_fail(ctx->split.peers, "this process cannot continue");
    if (!err) return status;
    char why[sizeof err->message];
    snprintf(why, sizeof why, "%s", err->message);
    return kt__fail(err, status, "process %d on %.80s: %.300s", ctx->split.rank,
                    kt__peers_host(ctx->split.peers, ctx->split.rank), why);
}

kt_status kt_ctx_follow(kt_ctx *ctx, kt_error *err) {
    kt__error_clear(err);
    if (!ctx->split.peers || ctx->split.rank == 0)
        return kt__fail(err, KT_E_STATE,
                        "only a process that joined another one's job can follow it");
    follower *f = kt__calloc(1, sizeof *f);
    if (!f) return kt__fail_nomem(err, "the engines of another process", sizeof *f);
    f->ctx = ctx;
    kt_status status = follow_to_end(f, err);
    if (status != KT_OK) status = fail_follow(ctx, status, err);
    for (int i = 0; i < ENGINES; i++) close_led(f, &f->engines[i]);
    kt__led_adapters_free(&f->adapters);
    kt__free(f);
    return status;
}
