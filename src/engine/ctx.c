/* kt_ctx: kernels, threads, log and memory budget. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/engine.h"

kt_ctx_params kt_ctx_params_default(void) {
    return (kt_ctx_params){.log_level = KT_LOG_WARN};
}

static kt_status choose_kernels(kt_ctx *ctx, const char *isa, kt_error *err) {
    const char *wanted = isa ? isa : getenv("KENTANG_ISA");
    kt__cpu_detect(&ctx->cpu);
    return kt__kernels_select(&ctx->cpu, wanted, &ctx->kernels, ctx->isa_why, sizeof ctx->isa_why,
                              err);
}

static kt_status start_threads(kt_ctx *ctx, int wanted, kt_error *err) {
    int n = wanted;
    if (n < 0 || n > KT__POOL_MAX_THREADS) {
        return kt__fail(err, KT_E_ARG, "n_threads is %d, expected 0 (automatic) to %d", n,
                        KT__POOL_MAX_THREADS);
    }
    if (n == 0) {
        kt__topology_detect(&ctx->topology);
        n = kt__threads_default(&ctx->topology, &ctx->limits, ctx->threads_why,
                                sizeof ctx->threads_why);
    } else {
        snprintf(ctx->threads_why, sizeof ctx->threads_why, "as asked");
    }
    return kt__pool_create(n, &ctx->pool, err);
}

kt_status kt_ctx_open(const kt_ctx_params *params, kt_ctx **out, kt_error *err) {
    kt_status status;
    kt_ctx_params p = params ? *params : kt_ctx_params_default();
    *out = NULL;
    kt__error_clear(err);
    kt_ctx *ctx = kt__calloc(1, sizeof *ctx);
    if (!ctx) return kt__fail_nomem(err, "the context", sizeof *ctx);
    if (kt__log_init(&ctx->log, p.log, p.log_user, p.log_level) != KT_OK) {
        kt__free(ctx);
        return kt__fail_nomem(err, "the log", 0);
    }
    KT__TRY(choose_kernels(ctx, p.isa, err));
    kt__limits_read(&ctx->limits);
    ctx->mem_bytes = p.mem_bytes ? p.mem_bytes : kt__mem_budget_default(&ctx->limits);
    KT__TRY(start_threads(ctx, p.n_threads, err));
    kt__log_line(&ctx->log, KT_LOG_INFO, "kernels %s (%s), %d threads (%s)", ctx->kernels->name,
                 ctx->isa_why, kt__pool_size(ctx->pool), ctx->threads_why);
    *out = ctx;
    ctx = NULL;
out:
    kt_ctx_close(ctx);
    return status;
}

void kt_ctx_close(kt_ctx *ctx) {
    if (!ctx) return;
    kt__pool_destroy(ctx->pool);
    kt__log_free(&ctx->log);
    kt__free(ctx);
}

const char *kt_ctx_isa(const kt_ctx *ctx) {
    return ctx->kernels->name;
}
const char *kt_ctx_isa_why(const kt_ctx *ctx) {
    return ctx->isa_why;
}
int kt_ctx_n_threads(const kt_ctx *ctx) {
    return kt__pool_size(ctx->pool);
}
const char *kt_ctx_n_threads_why(const kt_ctx *ctx) {
    return ctx->threads_why;
}
void kt_free(void *data) {
    kt__free(data);
}
