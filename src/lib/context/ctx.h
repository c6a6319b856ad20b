/* The context's insides: where limits come from, and how many threads there are now.
 *
 * Owns: kt_ctx's kernels, pool, log and limits. Does not know models. */
#ifndef KT_CONTEXT_CTX_H
#define KT_CONTEXT_CTX_H

#include "context/types.h"

/* kt_ctx_open with another source (NULL: the machine). */
kt_status kt__ctx_open_from(const kt_ctx_params *params, const kt__limits_source *source,
                            kt_ctx **out, kt_error *err) KT_CHECKED;
/* The context's number of threads, after a new look at the limits if it is time. The pool's lock is
 * held. */
int kt__ctx_threads_now(kt_ctx *ctx);

#endif
