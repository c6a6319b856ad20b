/* The context's insides: where limits come from, and how many threads there are now.
 *
 * Owns: kt_ctx's kernels, pool, log and limits; joining and leaving the processes that compute together. Does not
 * know models. */
#ifndef KT_CONTEXT_CTX_H
#define KT_CONTEXT_CTX_H

#include "context/types.h"

/* kt_ctx_open with another source (NULL: the machine). */
kt_status kt__ctx_open_from(const kt_ctx_params *params, const kt__limits_source *source,
                            kt_ctx **out, kt_error *err) KT_CHECKED;
/* The context's number of threads, after a new look at the limits if it is time. The pool's lock is
 * held. */
int kt__ctx_threads_now(kt_ctx *ctx);

/* A context as one of several processes that compute together.
 *
 * Joining, leaving, and what messages there are. The messages' contents are those who send and read them know:
 * context/adapter.h, answer/batch.h, engine/divide.h and engine/divide.h. */

/* Process 0 sends these. */
typedef enum kt__told {
    KT__TOLD_END,   /* its context is closed */
    KT__TOLD_SPLIT, /* shares of the model, before any engine */
    KT__TOLD_OPEN,  /* an engine */
    KT__TOLD_CLOSE, /* an engine */
    KT__TOLD_RUN,   /* a batch, or a part of it */
    KT__TOLD_COPY,  /* of a page */
    KT__TOLD_ADAPTER,
    KT__TOLD_ADAPTER_END,
    KT__TOLD_CACHE, /* of an engine, on each machine's disk */
    KT__TOLD_CACHE_END,
    KT__TOLD_STORE /* a call to it */
} kt__told;

/* In a process other than 0. */
kt_status kt__ctx_heard_split(kt_ctx *ctx, kt_error *err) KT_CHECKED;
/* Before a context is closed: the others close theirs. */
void kt__ctx_leave(kt_ctx *ctx);
/* KT_E_UNSUPPORTED where others have a part of what `what` (a plural) would need. */
kt_status kt__ctx_needs_whole(const kt_ctx *ctx, const char *what, kt_error *err) KT_CHECKED;

/* How much of a model each process of a job should have, by what each can do.
 *
 * Owns: the measurement. Every process calls it at the same time, and all get the same answer. */

/* shares[n] of n processes, from 1 to 100. Processes that differ by less than a tenth get the same. */
void kt__shares_of_speeds(const double *speeds, int n, int *shares);
kt_status kt__shares_measure(kt_ctx *ctx, int *shares, kt_error *err) KT_CHECKED;

/* The graphics processor of that name (kt__gpu_open), which all models of a context share: another
 * one, or one that failed while others have it, is KT_E_UNSUPPORTED. Any thread. */
kt_status kt__ctx_take_gpu(kt_ctx *ctx, const char *name, const char *kept, kt__gpu **out,
                           kt_error *err) KT_CHECKED;
void kt__ctx_drop_gpu(kt_ctx *ctx, kt__gpu *gpu); /* NULL allowed */

#endif
