#include "model/profile.h"

#include "base/clock.h"

void kt__profile_begin(kt__profile *profile) {
    if (profile) profile->at_ns = kt__now_ns();
}

void kt__profile_batch(kt__profile *profile, int phase, int n_tok) {
    if (!profile) return;
    profile->now = phase;
    profile->phase[phase].n_batches += n_tok > 0; /* 0: the next slice of one */
    profile->phase[phase].n_tok += (uint64_t)n_tok;
}

static void leave_pool(kt__profile *profile) {
    kt__phase_time *phase = &profile->phase[profile->now];
    phase->helpers_ns += kt__pool_helpers_ns(profile->pool) - profile->helpers_ns;
    phase->threads_ns += (profile->at_ns - profile->pool_from_ns) * profile->n_threads;
    kt__pool_set_timed(profile->pool, false);
    profile->pool = NULL;
}

void kt__profile_pool(kt__profile *profile, kt__pool *pool, int n_threads) {
    if (!profile) return;
    kt__profile_take(profile, KT_PROFILE_BATCH);
    if (!pool) {
        leave_pool(profile);
        return;
    }
    kt__pool_set_timed(pool, true);
    profile->pool = pool;
    profile->n_threads = n_threads;
    profile->pool_from_ns = profile->at_ns;
    profile->waited_ns = kt__pool_waited_ns(pool);
    profile->helpers_ns = kt__pool_helpers_ns(pool);
}

void kt__profile_take(kt__profile *profile, kt_profile_part part) {
    int64_t now_ns = kt__now_ns(), waited_ns = 0;
    int64_t *part_ns = profile->phase[profile->now].part_ns;
    if (profile->pool) {
        int64_t total_ns = kt__pool_waited_ns(profile->pool);
        waited_ns = total_ns - profile->waited_ns;
        profile->waited_ns = total_ns;
    }
    part_ns[part] += now_ns - profile->at_ns - waited_ns;
    part_ns[KT_PROFILE_BARRIER] += waited_ns;
    profile->at_ns = now_ns;
}

void kt__profile_read(const kt__profile *profile, int phase, kt_profile_phase *out) {
    const kt__phase_time *in = &profile->phase[phase];
    int64_t sum_ns = 0;
    *out = (kt_profile_phase){.n_batches = in->n_batches, .n_tok = in->n_tok};
    for (int i = 0; i < KT_PROFILE_PARTS; i++) {
        out->part_ms[i] = (double)in->part_ns[i] * 1e-6;
        sum_ns += in->part_ns[i];
    }
    out->total_ms = (double)sum_ns * 1e-6;
    if (in->threads_ns <= 0) return;
    /* the calling thread works whenever it does not wait */
    int64_t caller_ns = sum_ns - in->part_ns[KT_PROFILE_BARRIER] - in->part_ns[KT_PROFILE_BATCH];
    out->busy_share = (double)(caller_ns + in->helpers_ns) / (double)in->threads_ns;
}
