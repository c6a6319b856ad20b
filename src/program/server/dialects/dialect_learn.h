/* Feedback and versions, on HTTP and on the socket: docs/PROTOCOL.md.
 *
 * Owns: what these requests say and are answered. Each runs on a worker (job.h). */
#ifndef KT_DIALECTS_DIALECT_LEARN_H
#define KT_DIALECTS_DIALECT_LEARN_H

#include "jobs/job.h"

extern const kt__dialect kt__dialect_feedback, kt__dialect_said, kt__dialect_forget,
    kt__dialect_rollback, kt__dialect_train, kt__dialect_line_feedback, kt__dialect_line_said,
    kt__dialect_line_forget, kt__dialect_line_train;

/* What a path and its query say; texts are copied, NULL: not given. */
typedef struct kt__feedback_query {
    const char *id;             /* of kt__dialect_forget: which feedback */
    const char *name, *model;   /* the namespace, and what it is learned on */
    const char *before, *limit; /* of kt__dialect_said, as the next two */
    const char *text, *opens;   /* words of it; a message that opens it */
} kt__feedback_query;
/* Of kt__dialect_forget and kt__dialect_said. */
kt_status KT_CHECKED kt__dialect_feedback_begin(kt__job *job, const kt__feedback_query *query,
                                                kt_error *err);
/* The learned of GET /v1/adapters: ,"learned":[...] of those namespaces of the client that are open;
 * nothing where learning is off. */
void kt__dialect_write_learners(kt__shared *shared, const char *client, kt__buf *out);

#endif
