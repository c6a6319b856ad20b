#include "context/ctx.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"
#include "ops/speed.h"

enum { END_MS = 5000, SHARES_TEXT = 200 };

/* ---- shares ---- */

static void log_split(kt_ctx *ctx) {
    const int *before = ctx->split.before;
    char text[SHARES_TEXT] = "";
    size_t len = 0;
    for (int r = 0; r < ctx->split.size && len < sizeof text; r++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", r ? "," : "",
                                before[r + 1] - before[r]);
    kt__log_line(&ctx->log, KT_LOG_INFO, "the model is divided %s", text);
}

static kt_status use_shares(kt_ctx *ctx, const int *shares, kt_error *err) {
    if (!kt__division_share(&ctx->split, shares))
        return kt__fail(err, KT_E_ARG, "split gives no process a part of the model");
    log_split(ctx);
    return KT_OK;
}

/* "auto" is no shares: everybody measures. */
static kt_status parse_split(const kt_ctx *ctx, const char *text, int *shares, int *n,
                             kt_error *err) {
    *n = strcmp(text, "auto") ? kt__division_parse(text, shares) : 0;
    if (*n == 0 || *n == ctx->split.size) return KT_OK;
    if (*n < 0)
        return kt__fail(err, KT_E_ARG,
                        "split is \"%.60s\", expected auto, or a number from 0 to %d for each of "
                        "the %d processes, such as 2,1,1",
                        text, KT__SHARE_MAX, ctx->split.size);
    return kt__fail(err, KT_E_ARG,
                    "split \"%.60s\" has numbers for %d processes, but the launcher started %d",
                    text, *n, ctx->split.size);
}

static kt_status tell_split(kt_ctx *ctx, const char *text, kt_error *err) {
    int shares[KT__PEERS_MAX], n = ctx->split.size;
    for (int r = 0; r < n; r++) shares[r] = 1;
    if (text && *text) KT__STEP(parse_split(ctx, text, shares, &n, err));
    if (n > 0) KT__STEP(use_shares(ctx, shares, err));
    kt__message_begin(&ctx->message, KT__TOLD_SPLIT);
    kt__message_put_64(&ctx->message, (int64_t)ctx->split.least_bytes);
    kt__message_put(&ctx->message, n);
    kt__message_put_words(&ctx->message, shares, (size_t)n);
    KT__STEP(kt__message_send(&ctx->message, ctx->split.peers, err));
    if (n > 0) return KT_OK;
    KT__STEP(kt__shares_measure(ctx, shares, err));
    return use_shares(ctx, shares, err);
}

kt_status kt__ctx_heard_split(kt_ctx *ctx, kt_error *err) {
    int shares[KT__PEERS_MAX];
    ctx->split.least_bytes = (uint64_t)kt__message_take_64(&ctx->message, 0, INT64_MAX);
    int n = kt__message_take(&ctx->message, 0, ctx->split.size);
    for (int r = 0; r < n; r++) shares[r] = kt__message_take(&ctx->message, 0, KT__SHARE_MAX);
    if (ctx->message.bad || (n > 0 && n != ctx->split.size))
        return kt__fail(err, KT_E_FORMAT, "process 0 divides the model in another form");
    if (n == 0) KT__STEP(kt__shares_measure(ctx, shares, err));
    return use_shares(ctx, shares, err);
}

/* ---- joining ---- */

kt_status kt_ctx_join(kt_ctx *ctx, const char *split, uint64_t least_bytes, kt_error *err) {
    kt__peers *peers = NULL;
    kt__error_clear(err);
    if (ctx->split.peers) return KT_OK;
    KT__STEP(kt__peers_open(&peers, err));
    if (!peers) return KT_OK;
    kt__division_init(&ctx->split, peers);
    kt__log_line(&ctx->log, KT_LOG_INFO, "process %d of %d, on %s", ctx->split.rank,
                 ctx->split.size, kt__peers_host(peers, ctx->split.rank));
    if (ctx->split.rank > 0) return KT_OK;
    if (least_bytes) ctx->split.least_bytes = least_bytes < INT64_MAX ? least_bytes : INT64_MAX;
    return tell_split(ctx, split, err);
}

int kt_launcher_rank(void) {
    return kt__peers_launched();
}

int kt_ctx_rank(const kt_ctx *ctx) {
    return ctx->split.rank;
}
int kt_ctx_n_ranks(const kt_ctx *ctx) {
    return ctx->split.peers ? ctx->split.size : 1;
}

kt_status kt_ctx_check_ranks(const kt_ctx *ctx, kt_error *err) {
    kt__error_clear(err);
    return ctx->split.peers ? kt__peers_check(ctx->split.peers, err) : KT_OK;
}

void kt_ctx_hurry_ranks(kt_ctx *ctx, int32_t ms) {
    if (ctx->split.peers) kt__peers_hurry(ctx->split.peers, ms);
}

/* ---- leaving ---- */

static int64_t peak_resident_kb(void) {
    kt__process_use use;
    return kt__process_used(&use) ? (int64_t)(use.peak_bytes >> 10) : 0;
}

/* What a process has used in its life. */
typedef struct used {
    int64_t resident_kb;
    kt__traffic traffic;
} used;

static void log_used(kt_ctx *ctx, const used *all) {
    for (int r = 0; ctx->split.rank == 0 && r < ctx->split.size; r++)
        kt__log_line(&ctx->log, KT_LOG_INFO,
                     "process %d on %s: at most %.2f GB resident; sent %llu messages, %.1f MB", r,
                     kt__peers_host(ctx->split.peers, r), (double)all[r].resident_kb * 1024 / 1e9,
                     (unsigned long long)all[r].traffic.messages,
                     (double)all[r].traffic.sent_bytes / 1e6);
}

/* Process 0 says so, and everybody says to everybody that they heard, and what they used: MPI's own end would
 * wait for a dead one. */
static kt_status end_job(kt_ctx *ctx, kt_error *err) {
    used all[KT__PEERS_MAX] = {0};
    size_t at[KT__PEERS_MAX + 1];
    for (int r = 0; r <= ctx->split.size; r++) at[r] = (size_t)r * sizeof *all;
    all[ctx->split.rank] = (used){peak_resident_kb(), kt__peers_traffic(ctx->split.peers)};
    kt__peers_hurry(ctx->split.peers, END_MS);
    kt__message_begin(&ctx->message, KT__TOLD_END);
    if (ctx->split.rank == 0) KT__STEP(kt__message_send(&ctx->message, ctx->split.peers, err));
    kt__peers_gather(ctx->split.peers, all, at);
    KT__STEP(kt__peers_check(ctx->split.peers, err));
    log_used(ctx, all);
    return KT_OK;
}

void kt__ctx_leave(kt_ctx *ctx) {
    kt_error err;
    if (!ctx->split.peers) return;
    bool was_reported = kt__peers_was_reported(ctx->split.peers);
    if (end_job(ctx, &err) != KT_OK && !was_reported)
        kt__log_line(&ctx->log, KT_LOG_ERROR, "%s", err.message);
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

/* ---- shares ---- */

enum { MEASURE_US = 60000, MOST = 100 };

static const double NEAR = 0.9;

void kt__shares_of_speeds(const double *speeds, int n, int *shares) {
    double most = 0, least = 0;
    for (int r = 0; r < n; r++) {
        if (speeds[r] > most) most = speeds[r];
        if (r == 0 || speeds[r] < least) least = speeds[r];
    }
    for (int r = 0; r < n; r++) {
        shares[r] = least >= NEAR * most ? 1 : (int)(MOST * speeds[r] / most + 0.5);
        if (shares[r] < 1) shares[r] = 1;
    }
}

/* All begin together, so that those of one machine share its memory as they will. */
kt_status kt__shares_measure(kt_ctx *ctx, int *shares, kt_error *err) {
    const kt__division *split = &ctx->split;
    double speeds[KT__PEERS_MAX] = {0};
    size_t at[KT__PEERS_MAX + 1];
    for (int r = 0; r <= split->size; r++) at[r] = (size_t)r * sizeof *speeds;
    kt__peers_gather(split->peers, speeds, at);
    KT__STEP(kt__peers_check(split->peers, err));
    speeds[split->rank] = kt__product_speed(ctx->pool, atomic_load(&ctx->n_threads), ctx->kernels,
                                            MEASURE_US);
    kt__peers_gather(split->peers, speeds, at);
    KT__STEP(kt__peers_check(split->peers, err));
    for (int r = 0; split->rank == 0 && r < split->size; r++)
        kt__log_line(&ctx->log, KT_LOG_INFO, "process %d on %s: products at %.1f GB/s", r,
                     kt__peers_host(split->peers, r), speeds[r] / 1e9);
    kt__shares_of_speeds(speeds, split->size, shares);
    return KT_OK;
}
