/* One batch on one of the engine's forward passes: the only place where the engine computes.
 *
 * Owns: what surrounds a batch: the pool's lock, the number of threads, the floating-point
 * environment, the profile, the look at the file before and after. With the engine's turn. No
 * allocation. */
#ifndef KT_ANSWER_BATCH_H
#define KT_ANSWER_BATCH_H

#include "context/types.h"

typedef struct kt__batch_run {
    kt__fwd *fwd;
    const kt__kv *kv;       /* of its tables; NULL: the engine's */
    const kt__batch *batch; /* to begin with; NULL: continue */
    bool decode;            /* counts as decoding, with its number of threads */
    int n_tok;
    int64_t until_us; /* INT64_MAX: done */
    const atomic_bool *cancel;
    const atomic_bool *pause; /* or NULL: as if the time had come */
    bool agreed;              /* of a batch that another process leads: kt__stop_at's */
} kt__batch_run;

/* Until the batch is done or the time has come. KT_E_CANCELLED by kt_engine_cancel or `cancel`. */
kt_status kt__engine_run_batch(kt_engine *engine, const kt__batch_run *run, bool *done,
                               kt_error *err) KT_CHECKED;
/* After a step that ended with `status`: pages of a file that was cut, which the fault guard replaced, make wrong numbers, or
 * numbers that are not finite, so that KT_E_TRUNCATED comes before what the step said. */
kt_status kt__batch_check_file(const kt__gguf *gguf, kt_status status, kt_error *err) KT_CHECKED;

#endif
