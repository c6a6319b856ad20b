/* Where the time of batches goes.
 *
 * Owns: laps. Each lap gives the time since the last one to a part of the work, so that the parts
 * sum to the whole by construction; the calling thread's waits at barriers are taken out of the
 * part they happened in. Off is a NULL pointer: one test per operation. On costs a look at the
 * clock per operation. Written by the thread that runs the batch (the engine's lock is held). */
#ifndef KT_MODEL_PROFILE_H
#define KT_MODEL_PROFILE_H

#include <kentang.h>

#include "host/pool.h"

enum { KT__PHASE_PREFILL, KT__PHASE_DECODE, KT__PHASES };

typedef struct kt__phase_time {
    int64_t part_ns[KT_PROFILE_PARTS];
    int64_t helpers_ns; /* the other threads' time in chunks */
    int64_t threads_ns; /* time on the pool, times threads */
    uint64_t n_batches, n_tok;
} kt__phase_time;

typedef struct kt__profile {
    kt__phase_time phase[KT__PHASES];
    int now;        /* phase that laps count for */
    int64_t at_ns;  /* the last lap */
    kt__pool *pool; /* while the batch holds it, else NULL */
    int n_threads;
    int64_t pool_from_ns, waited_ns, helpers_ns; /* since when, and the pool's counters */
} kt__profile;

/* All calls take NULL for "off". begin: a call that will run batches; batch: what comes is one of
 * n_tok tokens; pool: with this pool's lock held from now on, or (NULL) no longer. */
void kt__profile_begin(kt__profile *profile);
void kt__profile_batch(kt__profile *profile, int phase, int n_tok);
void kt__profile_pool(kt__profile *profile, kt__pool *pool, int n_threads);
void kt__profile_take(kt__profile *profile, kt_profile_part part);
void kt__profile_read(const kt__profile *profile, int phase, kt_profile_phase *out);

static inline void kt__profile_lap(kt__profile *profile, kt_profile_part part) {
    if (profile) kt__profile_take(profile, part);
}

#endif
