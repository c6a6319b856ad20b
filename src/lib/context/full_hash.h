/* A hash of every byte of a model's files, made in the background.
 *
 * Owns: one thread of the lowest priority that reads while nothing is computed in the context, and
 * what it found. Reads files next to their mapping (host/cold_reader.h): neither resident memory
 * nor the page cache grows. What the hash is used for is others' business. Any thread. */
#ifndef KT_CONTEXT_FULL_HASH_H
#define KT_CONTEXT_FULL_HASH_H

#include <stdatomic.h>

#include "gguf/gguf.h"

/* Whether something is computed, and until when something was. */
typedef struct kt__activity {
    atomic_int n_now;
    atomic_int_fast64_t ended_us;
} kt__activity;

void kt__activity_begin(kt__activity *activity);
void kt__activity_end(kt__activity *activity);
/* Microseconds until nothing was computed for idle_us, if nothing begins before; since_us counts as
 * an end. 0 or less: so it is. */
int64_t kt__activity_busy_us(const kt__activity *activity, int64_t idle_us, int64_t since_us);

enum { KT__HASH_IDLE_US = 250000 }; /* so long nothing was computed before it is read on */

typedef struct kt__full_hash kt__full_hash;

/* Nothing is read yet. gguf and activity outlive it. */
kt_status kt__full_hash_create(const kt__gguf *gguf, const kt__activity *activity,
                               kt__full_hash **out, kt_error *err) KT_CHECKED;
/* Within a piece of a file: a thread that reads is told to stop, and waited for. */
void kt__full_hash_destroy(kt__full_hash *hash);
kt_status kt__full_hash_start(kt__full_hash *hash, kt_error *err) KT_CHECKED;
void kt__full_hash_get(kt__full_hash *hash, kt_hash_info *out);

#endif
