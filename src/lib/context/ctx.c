/* kt_ctx: kernels, threads, log and memory budget. */
#include "context/ctx.h"

#include <kentang.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/noise.h"
#include "kernels/dispatch.h"

kt_ctx_params kt_ctx_params_default(void) {
    return (kt_ctx_params){.log_level = KT_LOG_WARN};
}

static kt_status choose_kernels(kt_ctx *ctx, const char *isa, kt_error *err) {
    const char *wanted = isa ? isa : getenv("KENTANG_ISA");
    kt__cpu_detect(&ctx->cpu);
    return kt__kernels_select(&ctx->cpu, wanted, &ctx->kernels, ctx->isa_why, sizeof ctx->isa_why,
                              err);
}

/* ---- threads ---- */

enum { LOOK_PERIOD_US = 1000000 };

static void machine_limits(void *user, kt__limits *out) {
    (void)user;
    kt__limits_read(out);
}

static const kt__limits_source machine = {kt__topology_detect, machine_limits, NULL,
                                          LOOK_PERIOD_US};

/* Reads the limits as they are on the context's processors. */
static void look_at_limits(kt_ctx *ctx) {
    kt__affinity_saved saved;
    kt__affinity_enter(&ctx->affinity, &saved);
    ctx->source.limits(ctx->source.user, &ctx->limits);
    kt__affinity_leave(&saved);
    ctx->limits_at_us = kt__now_us();
}

static int clamp_int(int n, int low, int high) {
    return n < low ? low : n > high ? high : n;
}

static kt_status check_threads(const char *name, int n, kt_error *err) {
    if (n >= 0 && n <= KT__POOL_MAX_THREADS) return KT_OK;
    return kt__fail(err, KT_E_ARG, "%s is %d, expected 0 (automatic) to %d", name, n,
                    KT__POOL_MAX_THREADS);
}

/* Where the number is ours to choose the pool has a thread for each physical core: limits may be
 * lifted while it lives, and a thread that is not used sleeps. */
static kt_status start_threads(kt_ctx *ctx, const kt_ctx_params *p, kt_error *err) {
    KT__STEP(check_threads("n_threads", p->n_threads, err));
    KT__STEP(check_threads("n_threads_max", p->n_threads_max, err));
    int n = p->n_threads, size = n;
    ctx->threads_auto = n == 0;
    if (ctx->threads_auto) {
        ctx->source.topology(&ctx->topology);
        n = kt__threads_default(&ctx->topology, &ctx->limits, ctx->threads_why,
                                sizeof ctx->threads_why);
        size = n > ctx->topology.n_physical ? n : ctx->topology.n_physical;
    } else {
        snprintf(ctx->threads_why, sizeof ctx->threads_why, "as asked");
    }
    if (size < p->n_threads_max) size = p->n_threads_max;
    size = clamp_int(size, 1, KT__POOL_MAX_THREADS);
    atomic_init(&ctx->n_threads, clamp_int(n, 1, size));
    return kt__pool_create_at(size, &ctx->affinity, &ctx->pool, err);
}

int kt__ctx_threads_now(kt_ctx *ctx) {
    int before = atomic_load_explicit(&ctx->n_threads, memory_order_relaxed);
    if (!ctx->threads_auto || kt__now_us() - ctx->limits_at_us < ctx->source.period_us)
        return before;
    char why[sizeof ctx->threads_why];
    look_at_limits(ctx);
    int n = kt__threads_default(&ctx->topology, &ctx->limits, why, sizeof why);
    n = clamp_int(n, 1, kt__pool_size(ctx->pool));
    if (n == before) return n;
    atomic_store_explicit(&ctx->n_threads, n, memory_order_relaxed);
    kt__log_line(&ctx->log, KT_LOG_INFO, "threads %d -> %d: %s", before, n, why);
    return n;
}

/* ---- life ---- */

kt_status kt_ctx_open(const kt_ctx_params *params, kt_ctx **out, kt_error *err) {
    return kt__ctx_open_from(params, NULL, out, err);
}

kt_status kt__ctx_open_from(const kt_ctx_params *params, const kt__limits_source *source,
                            kt_ctx **out, kt_error *err) {
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
    pthread_mutex_init(&ctx->gpu_lock, NULL);
    ctx->source = source ? *source : machine;
    KT__TRY(choose_kernels(ctx, p.isa, err));
    KT__TRY(kt__affinity_parse(p.cpus, p.priority, &ctx->affinity, err));
    look_at_limits(ctx);
    ctx->mem_given = p.mem_bytes > 0;
    ctx->mem_bytes = p.mem_bytes ? p.mem_bytes : kt__mem_budget_default(&ctx->limits);
    KT__TRY(start_threads(ctx, &p, err));
    kt__log_line(&ctx->log, KT_LOG_INFO, "kernels %s (%s), %d threads (%s)", ctx->kernels->name,
                 ctx->isa_why, kt_ctx_n_threads(ctx), ctx->threads_why);
    *out = ctx;
    ctx = NULL;
out:
    kt_ctx_close(ctx);
    return status;
}

/* The one that other models use, if that is what is asked for. */
static kt_status take_open_gpu(kt_ctx *ctx, const char *name, kt_error *err) {
    if (kt__gpu_is_lost(ctx->gpu))
        return kt__fail(err, KT_E_UNSUPPORTED, "%s failed, and other models are yet to be closed",
                        kt__gpu_get_info(ctx->gpu)->name);
    if (strcmp(name, ctx->gpu_name) != 0)
        return kt__fail(err, KT_E_UNSUPPORTED, "other models of this context use %s",
                        kt__gpu_get_info(ctx->gpu)->name);
    return KT_OK;
}

kt_status kt__ctx_take_gpu(kt_ctx *ctx, const char *name, const char *kept, kt__gpu **out,
                           kt_error *err) {
    const char *wanted = name ? name : "";
    *out = NULL;
    pthread_mutex_lock(&ctx->gpu_lock);
    kt_status status = ctx->gpu ? take_open_gpu(ctx, wanted, err)
                                : kt__gpu_open(name, kept, NULL, &ctx->gpu, err);
    if (status == KT_OK) {
        snprintf(ctx->gpu_name, sizeof ctx->gpu_name, "%s", wanted);
        ctx->n_gpu_users++;
        *out = ctx->gpu;
    }
    pthread_mutex_unlock(&ctx->gpu_lock);
    return status;
}

void kt__ctx_drop_gpu(kt_ctx *ctx, kt__gpu *gpu) {
    if (!gpu) return;
    pthread_mutex_lock(&ctx->gpu_lock);
    if (--ctx->n_gpu_users == 0) {
        kt__gpu_close(ctx->gpu);
        ctx->gpu = NULL;
    }
    pthread_mutex_unlock(&ctx->gpu_lock);
}

void kt_ctx_close(kt_ctx *ctx) {
    if (!ctx) return;
    pthread_mutex_destroy(&ctx->gpu_lock);
    kt__ctx_leave(ctx);
    kt__pool_destroy(ctx->pool);
    kt__log_free(&ctx->log);
    kt__free(ctx);
}

void kt_heat_read(kt_heat *out) {
    kt__heat_read_at("", out);
}

const char *kt_ctx_isa(const kt_ctx *ctx) {
    return ctx->kernels->name;
}
const char *kt_ctx_isa_why(const kt_ctx *ctx) {
    return ctx->isa_why;
}
int kt_ctx_n_threads(const kt_ctx *ctx) {
    return atomic_load_explicit(&ctx->n_threads, memory_order_relaxed);
}
const char *kt_ctx_n_threads_why(const kt_ctx *ctx) {
    return ctx->threads_why;
}

/* kt_struct_size, kt_abi: the sizes of kentang.h's structures as this library was compiled. */

size_t kt_struct_size(const char *name) {
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {
#define X(type) {#type, sizeof(type)},
        KT_STRUCT_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!strcmp(sizes[i].name, name)) return sizes[i].bytes;
    }
    return 0;
}

uint64_t kt_abi(void) {
    return kt_header_abi();
}
