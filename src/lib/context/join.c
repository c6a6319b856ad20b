#include "context/join.h"

#include "base/error.h"

kt_status kt_ctx_join(kt_ctx *ctx, kt_error *err) {
    kt__peers *peers = NULL;
    kt__error_clear(err);
    if (ctx->split.peers) return KT_OK;
    KT__STEP(kt__peers_open(&peers, err));
    if (!peers) return KT_OK;
    kt__division_init(&ctx->split, peers);
    kt__log_line(&ctx->log, KT_LOG_INFO, "process %d of %d, on %s", ctx->split.rank,
                 ctx->split.size, kt__peers_host(peers, ctx->split.rank));
    return KT_OK;
}

int kt_ctx_rank(const kt_ctx *ctx) {
    return ctx->split.rank;
}
int kt_ctx_n_ranks(const kt_ctx *ctx) {
    return ctx->split.peers ? ctx->split.size : 1;
}

void kt__ctx_leave(kt_ctx *ctx) {
    kt_error err;
    if (!ctx->split.peers) return;
    if (ctx->split.rank == 0) {
        kt__message_begin(&ctx->message, KT__TOLD_END);
        if (kt__message_send(&ctx->message, ctx->split.peers, &err) != KT_OK)
            kt__log_line(&ctx->log, KT_LOG_WARN, "%s", err.message);
    }
    kt__peers_close(ctx->split.peers);
    kt__message_free(&ctx->message);
}

kt_status kt__ctx_needs_whole(const kt_ctx *ctx, const char *what, kt_error *err) {
    if (!ctx->split.peers) return KT_OK;
    return kt__fail(
        err, KT_E_UNSUPPORTED,
        "%s cannot be used where %d processes compute a model together: start kentang without "
        "mpirun for that",
        what, ctx->split.size);
}
