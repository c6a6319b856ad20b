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
    for (int i = 1; i < kt__pool_size(profile->pool); i++)
        phase->busy_ns[i] += kt__pool_busy_ns(profile->pool, i) - profile->busy_ns[i];
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
    for (int i = 1; i < kt__pool_size(pool); i++) profile->busy_ns[i] = kt__pool_busy_ns(pool, i);
}

void kt__profile_take(kt__profile *profile, kt_profile_part part) {
    int64_t now_ns = kt__now_ns(), waited_ns = 0;
    int64_t *part_ns = profile->phase[profile->now].part_ns;
    if (profile->pool) {
        int64_t total_ns = kt__pool_waited_ns(profile->pool);
        waited_ns = total_ns - profile->waited_ns;
        profile->waited_ns = total_ns;
    }
    bool on_pool = part != KT_PROFILE_BATCH && profile->pool;
    part_ns[part] += now_ns - profile->at_ns - waited_ns;
    /* the calling thread works whenever it does not wait */
    if (on_pool) profile->phase[profile->now].busy_ns[0] += now_ns - profile->at_ns - waited_ns;
    if (profile->layer > 0)
        profile->phase[profile->now].layer_ns[profile->layer - 1] += now_ns - profile->at_ns;
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
    int64_t busy_ns = 0;
    for (int i = 0; i < KT__POOL_MAX_THREADS; i++) busy_ns += in->busy_ns[i];
    if (in->threads_ns > 0) out->busy_share = (double)busy_ns / (double)in->threads_ns;
}

static void read_ms(const int64_t *ns, double *ms, int n) {
    for (int i = 0; i < n; i++) ms[i] = (double)ns[i] * 1e-6;
}

void kt__profile_read_layers(const kt__profile *profile, int phase, double *ms, int n) {
    read_ms(profile->phase[phase].layer_ns, ms, n);
}

void kt__profile_read_threads(const kt__profile *profile, int phase, double *ms, int n) {
    read_ms(profile->phase[phase].busy_ns, ms, n);
}
