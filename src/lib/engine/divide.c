#include "engine/divide.h"

#include <stdio.h>
#include <string.h>

#include "answer/batch.h"
#include "base/error.h"
#include "context/ctx.h"
#include "context/model.h"

enum { ENGINES_MAX = 1 << 20, REPLY_TEXT = 508 };

static void put_plan(kt__message *m, const kt_engine *engine, const kt__plan *plan) {
    const kt_ctx *ctx = engine->model->ctx;
    kt__plan sent = *plan;
    sent.params.draft = NULL; /* proposes tokens in process 0 alone */
    if (!ctx->threads_auto && !sent.params.n_threads) sent.params.n_threads = kt_ctx_n_threads(ctx);
    if (!ctx->threads_auto && !sent.params.n_threads_batch)
        sent.params.n_threads_batch = kt_ctx_n_threads(ctx);
    kt__message_put_bytes(m, &sent, sizeof sent);
}

kt_status kt__divide_begin(kt_engine *engine, const kt__plan *plan, kt_error *err) {
    const kt_model *model = engine->model;
    kt_ctx *ctx = model->ctx;
    uint8_t fingerprint[KT_FINGERPRINT_BYTES];
    if (!kt__ctx_split(ctx)) return KT_OK;
    KT__STEP(kt__model_fingerprint(model, fingerprint, err));
    kt__pool_lock(ctx->pool);
    kt__message *m = &ctx->message;
    engine->divided = ++ctx->n_divided;
    kt__message_begin(m, KT__TOLD_OPEN);
    kt__message_put_bytes(m, KT_VERSION, sizeof KT_VERSION);
    kt__message_put(m, KENTANG_NUMERICS);
    kt__message_put(m, engine->divided);
    kt__message_put_bytes(m, model->info.path, strlen(model->info.path));
    kt__message_put_bytes(m, &model->params, sizeof model->params);
    kt__message_put_bytes(m, fingerprint, sizeof fingerprint);
    put_plan(m, engine, plan);
    kt_status status = kt__message_send(m, ctx->split.peers, err);
    kt__pool_unlock(ctx->pool);
    return status;
}

/* ---- replies ---- */

typedef struct reply {
    int32_t status;
    char text[REPLY_TEXT];
} reply;

kt_status kt__divide_agree(kt_ctx *ctx, kt_status here, kt_error *err) {
    const kt__division *split = kt__ctx_split(ctx);
    reply replies[KT__PEERS_MAX] = {0};
    size_t at[KT__PEERS_MAX + 1];
    if (!split) return here;
    for (int r = 0; r <= split->size; r++) at[r] = (size_t)r * sizeof *replies;
    replies[split->rank].status = here;
    if (here != KT_OK && err) snprintf(replies[split->rank].text, REPLY_TEXT, "%s", err->message);
    kt__pool_lock(ctx->pool);
    kt__peers_gather(split->peers, replies, at);
    kt__pool_unlock(ctx->pool);
    KT__STEP(kt__peers_check(split->peers, err));
    if (here != KT_OK) return here;
    for (int r = 0; r < split->size; r++) {
        if (replies[r].status == KT_OK) continue;
        replies[r].text[REPLY_TEXT - 1] = 0;
        return kt__fail(err, KT_E_STATE, "process %d on %s: %s", r, kt__peers_host(split->peers, r),
                        replies[r].text);
    }
    return KT_OK;
}

void kt__divide_end(kt_engine *engine) {
    kt_ctx *ctx = engine->model->ctx;
    if (!engine->divided || ctx->split.rank > 0) return;
    kt__pool_lock(ctx->pool);
    kt__message_begin(&ctx->message, KT__TOLD_CLOSE);
    kt__message_put(&ctx->message, engine->divided);
    (void)kt__message_notify(&ctx->message, ctx->split.peers, "an engine's end");
    kt__pool_unlock(ctx->pool);
}

/* ---- the others ---- */

kt_status kt__divide_heard(kt_ctx *ctx, kt__divide_told *out, kt_error *err) {
    kt__message *m = &ctx->message;
    const char *version = kt__message_take_bytes(m, 0);
    int32_t numerics = kt__message_take(m, 0, INT32_MAX);
    if (m->bad || strcmp(version, KT_VERSION) != 0 || numerics != KENTANG_NUMERICS)
        return kt__fail(
            err, KT_E_STATE,
            "kentang %s runs here and %.40s in process 0: install one version on all machines",
            KT_VERSION, m->bad ? "unknown" : version);
    out->number = kt__message_take(m, 1, ENGINES_MAX);
    out->path = kt__message_take_bytes(m, 0);
    const void *model = kt__message_take_bytes(m, sizeof out->model);
    const void *fingerprint = kt__message_take_bytes(m, sizeof out->fingerprint);
    const void *plan = kt__message_take_bytes(m, sizeof out->plan);
    if (m->bad) return kt__fail(err, KT_E_FORMAT, "process 0 describes an engine in another form");
    memcpy(&out->model, model, sizeof out->model);
    memcpy(out->fingerprint, fingerprint, sizeof out->fingerprint);
    memcpy(&out->plan, plan, sizeof out->plan);
    out->plan.params.draft = NULL;
    return KT_OK;
}
