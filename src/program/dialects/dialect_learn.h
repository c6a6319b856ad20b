/* Feedback and versions, on HTTP and on the socket: docs/PROTOCOL.md.
 *
 * Owns: what these requests say and are answered. Each runs on a worker (job.h). */
#ifndef KT_DIALECTS_DIALECT_LEARN_H
#define KT_DIALECTS_DIALECT_LEARN_H

#include "jobs/job.h"

extern const kt__dialect kt__dialect_feedback, kt__dialect_forget, kt__dialect_rollback,
    kt__dialect_train, kt__dialect_line_feedback, kt__dialect_line_train;

/* Of kt__dialect_forget: which feedback, and of which namespace or NULL. */
kt_status KT_CHECKED kt__dialect_forget_begin(kt__job *job, const char *id, const char *name,
                                              kt_error *err);
/* The learned of GET /v1/adapters: ,"learned":[...] of those namespaces of the client that are open;
 * nothing where learning is off. */
void kt__dialect_write_learners(kt__shared *shared, const char *client, kt__buf *out);

#endif
