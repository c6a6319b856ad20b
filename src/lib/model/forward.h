/* The forward pass.
 *
 * Owns: its scratch, and the layer cursor: a batch is begun, then run until a deadline, and yields
 * between the parts of a layer, so that time is sliced without making batches small. The layer
 * program is in mix_*.c, one file for each kind of mixer, and in feed_forward.c; head.c ends it.
 * Knows rows, sequences' block tables and positions; not requests. One batch at a time; the caller
 * holds the pool's lock while running. No allocation after creation. */
#ifndef KT_MODEL_FORWARD_H
#define KT_MODEL_FORWARD_H

#include <stdatomic.h>

#include "model/fwd_batch.h"
#include "model/profile.h"

typedef struct kt__fwd kt__fwd;

kt_status kt__fwd_create(const kt__net *net, kt__pool *pool, const kt__kernels *kernels,
                         const kt__fwd_params *params, kt__fwd **out, kt_error *err) KT_CHECKED;
void kt__fwd_destroy(kt__fwd *fwd);
/* Bytes of a pass' buffers, but for its device's, before anything is allocated. Touched as batches
 * need them. */
uint64_t kt__fwd_plan_bytes(const kt__net *net, const kt__fwd_params *params);

/* The batch that was begun. */
const kt__batch *kt__fwd_batch(const kt__fwd *fwd);
void kt__fwd_begin(kt__fwd *fwd, const kt__batch *batch, const kt__kv *kv, int n_threads);
/* Where lap times are added from now on; NULL: nowhere. */
void kt__fwd_set_profile(kt__fwd *fwd, kt__profile *profile);
/* What stops a run between layers. */
typedef struct kt__stop_at {
    int64_t deadline_us;          /* of kt__now_us; INT64_MAX: none */
    const atomic_bool *cancel[2]; /* or NULL */
    const atomic_bool *pause;     /* or NULL: as if the deadline had come */
    /* With a split: process 0 says before each layer whether all stop there; else nobody stops. */
    bool agreed;
} kt__stop_at;

/* Runs layers until done or stopped. *done is true when the logits are there; false with KT_OK when
 * the deadline has come, or is nearer than the next part of a layer usually takes: call again. At
 * least one part is run a call. KT_E_CANCELLED and KT_E_NUMERIC (names the layer) end the batch.
 */
kt_status kt__fwd_run(kt__fwd *fwd, const kt__stop_at *stop, bool *done, kt_error *err) KT_CHECKED;
/* Of the batch begun: one layer alone, x[n_tok][d_model] in and out; layer -1 makes x of the ids. For
 * a text whose layers are looked at one after the other; kt__fwd_run is not called for this batch.
 */
kt_status kt__fwd_run_layer(kt__fwd *fwd, int layer, float *x, kt_error *err) KT_CHECKED;
/* What the longest part of a layer takes in this batch, on average: a run may exceed its deadline
 * by as much. 0 where no run had a deadline. */
int64_t kt__fwd_longest_us(const kt__fwd *fwd);
/* What the calling thread has spent in adapters' terms since this was asked last. */
int64_t kt__fwd_take_lora_ns(kt__fwd *fwd);
/* [n_vocab] of the i-th wanted row; valid until the next begin. */
float *kt__fwd_logits(const kt__fwd *fwd, int i);
/* [d_model] of the same row: the normed state that the head took, of an assistant as a state of its host;
 * as long. */
const float *kt__fwd_hidden(const kt__fwd *fwd, int i);
/* [d_model] of any row, with kt__fwd_params.mtp or states: the normed state, without what adapters and hooks make
 * of it; as long. */
const float *kt__fwd_state(const kt__fwd *fwd, int row);

#endif
