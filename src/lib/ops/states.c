/* Rows of recurrent heads' states through their segments' tokens, for delta nets and both kinds of
 * Mamba. A state is divided by heads and rows, each of which goes through its segment's tokens in
 * order. */
#include <string.h>

#include "ops/dev.h"

typedef struct walk_job {
    kt__dev *dev;
    const kt__state_walk *d;
    int per_head; /* items */
} walk_job;

/* From the state before the segment; after so many tokens as a mark says, it is kept. */
static void walk_rows(const walk_job *job, const kt__seg *seg, size_t at, kt__delta first) {
    const kt__kv *kv = job->d->kv;
    size_t bytes = (size_t)first.n_row * (size_t)first.dim * sizeof(float);
    const float *before = kt__state_before(kv, seg, at);
    if (before) {
        memcpy(first.s, before, bytes);
    } else {
        memset(first.s, 0, bytes);
    }
    for (int m = 0, done = 0; done < seg->n_tok; m++) {
        int end = m < seg->n_states ? seg->states[m].n_tok : seg->n_tok;
        size_t t = (size_t)(seg->row0 + done);
        kt__delta part = first;
        part.n_tok = end - done;
        part.q += t * part.ld_qk;
        part.k += t * part.ld_qk;
        part.v += t * part.ld_v;
        part.decay += t * part.ld_g;
        part.beta += t * part.ld_g;
        part.out += t * part.ld_out;
        job->dev->kernels->delta(&part);
        if (m < seg->n_states) memcpy(kt__state_after(kv, seg, m, at), first.s, bytes);
        done = end;
    }
}

static void walk_items(void *arg, int64_t begin, int64_t end, int worker) {
    const walk_job *job = arg;
    const kt__state_walk *d = job->d;
    int per_seg = job->per_head * d->n_head;
    for (int64_t item = begin; item < end; item++) {
        const kt__seg *seg = &d->segs[item / per_seg];
        int in_seg = (int)(item % per_seg), row0 = in_seg % job->per_head * KT__STATE_ROWS;
        int head = in_seg / job->per_head;
        if (seg->n_tok == 0) continue;
        kt__delta rows = d->rows(d->desc, head, row0);
        rows.s = kt__dev_kernel_scratch(job->dev, worker);
        rows.n_row = d->n_row - row0 < KT__STATE_ROWS ? d->n_row - row0 : KT__STATE_ROWS;
        size_t before = ((size_t)head * (size_t)d->n_row + (size_t)row0) * (size_t)rows.dim;
        walk_rows(job, seg, d->state_at + before, rows);
    }
}

void kt__cpu_walk_states(kt__dev *dev, const kt__state_walk *desc) {
    walk_job job = {dev, desc, (desc->n_row + KT__STATE_ROWS - 1) / KT__STATE_ROWS};
    kt__pool_run(dev->pool, (int64_t)desc->n_seg * desc->n_head * job.per_head, 1, walk_items,
                 &job);
}
