#include "setup/step_threads.h"

#include "base/clock.h"
#include "base/error.h"

enum { DEPTH = 16, STEPS = 5 };

/* The fastest of n steps after `depth` tokens, in microseconds. */
static kt_status time_steps(kt_model *model, int n_threads, int depth, int n, int64_t *best_us,
                            kt_error *err) {
    kt_engine_params params = kt_engine_params_default();
    kt_engine *engine = NULL;
    kt_seq *seq = NULL;
    int32_t ids[DEPTH] = {0};
    kt_status status;
    params.n_ctx = DEPTH + STEPS + 1;
    params.n_ubatch = params.n_batch = DEPTH;
    params.n_seq_max = params.n_parallel = 1;
    params.n_queue_max = 1;
    params.n_draft = -1;
    params.n_threads = params.n_threads_batch = n_threads;
    *best_us = INT64_MAX;
    KT__TRY(kt_engine_open(model, &params, &engine, err));
    KT__TRY(kt_seq_open(engine, &seq, err));
    KT__TRY(kt_seq_eval(seq, ids, (size_t)depth, err));
    for (int i = 0; i < n; i++) {
        int64_t begin_us = kt__now_us();
        KT__TRY(kt_seq_eval(seq, ids, 1, err));
        int64_t us = kt__now_us() - begin_us;
        if (us < *best_us) *best_us = us;
    }
out:
    kt_seq_close(seq);
    kt_engine_close(engine);
    return status;
}

kt_status kt__step_threads_find(kt_model *model, int n_most, int *out, kt_error *err) {
    const int tries[] = {n_most, n_most - n_most / 4, (n_most + 1) / 2};
    int64_t best_us = INT64_MAX, us;
    *out = n_most;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        if (i && tries[i] == tries[i - 1]) continue;
        kt_status status = time_steps(model, tries[i], DEPTH, STEPS, &us, err);
        if (status != KT_OK) return status;
        if (i && (double)us > 0.97 * (double)best_us) continue;
        best_us = us;
        *out = tries[i];
    }
    return KT_OK;
}

kt_status kt__step_threads_time(kt_model *model, int n_threads, int64_t *us, kt_error *err) {
    return time_steps(model, n_threads, 1, 2, us, err);
}
