#include "context/shares.h"

#include "base/error.h"
#include "ops/speed.h"

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
