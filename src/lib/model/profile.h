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
#include "model/hparams.h"

enum { KT__PHASE_PREFILL, KT__PHASE_DECODE, KT__PHASES };

typedef struct kt__phase_time {
    int64_t part_ns[KT_PROFILE_PARTS];
    int64_t layer_ns[KT__MAX_LAYERS]; /* waits at barriers included */
    int64_t
        busy_ns[KT__POOL_MAX_THREADS]; /* of threads: the calling one's, and others' in chunks */
    int64_t threads_ns;                /* time on the pool, times threads */
    uint64_t n_batches, n_tok;
} kt__phase_time;

typedef struct kt__profile {
    kt__phase_time phase[KT__PHASES];
    int now;        /* phase that laps count for */
    int64_t at_ns;  /* the last lap */
    kt__pool *pool; /* while the batch holds it, else NULL */
    int n_threads;
    int64_t pool_from_ns, waited_ns; /* since when, and the pool's counters: */
    int64_t busy_ns[KT__POOL_MAX_THREADS];
    int layer; /* that laps count for, from 1 on; 0: none */
} kt__profile;

/* All calls take NULL for "off". begin: a call that will run batches; batch: what comes is one of
 * n_tok tokens; pool: with this pool's lock held from now on, or (NULL) no longer. */
void kt__profile_begin(kt__profile *profile);
void kt__profile_batch(kt__profile *profile, int phase, int n_tok);
void kt__profile_pool(kt__profile *profile, kt__pool *pool, int n_threads);
void kt__profile_take(kt__profile *profile, kt_profile_part part);
/* Of a phase: time of the first n layers, and of the first n threads. */
void kt__profile_read_layers(const kt__profile *profile, int phase, double *ms, int n);
void kt__profile_read_threads(const kt__profile *profile, int phase, double *ms, int n);
void kt__profile_read(const kt__profile *profile, int phase, kt_profile_phase *out);

/* Laps from now on are of this layer, from 1 on, or (0) of none. */
static inline void kt__profile_layer(kt__profile *profile, int layer) {
    if (profile) profile->layer = layer;
}

static inline void kt__profile_lap(kt__profile *profile, kt_profile_part part) {
    if (profile) kt__profile_take(profile, part);
}

#endif
