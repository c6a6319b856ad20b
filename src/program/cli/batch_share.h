/* Requests of kentang batch shared among processes, each with a whole model.
 *
 * Owns: letters between process 0, which reads requests and writes results, and the others, which answer; how many
 * each process has and takes; and that one that is silent for too long ends the batch. Knows no files and no engine.
 * One thread. */
#ifndef KT_CLI_BATCH_SHARE_H
#define KT_CLI_BATCH_SHARE_H

#include <kentang.h>

#include "base/buf.h"
#include "peers/message.h"
#include "setup/session.h"

typedef struct kt__batch_share {
    kt__peers *peers; /* NULL: there are no others */
    int n, rank;      /* processes; this one's number */
    kt__message letter;
    struct {
        int32_t n_parallel, n_live, n_live_max; /* n_live_max 0: it is not ready */
        int64_t heard_us;
    } places[KT__PEERS_MAX]; /* process 0's: of all */
    int64_t said_us;         /* the others': their last letter */
} kt__batch_share;

/* A result as it travels; bytes: valid until the next letter. */
typedef struct kt__batch_result {
    uint64_t number; /* of its request's line */
    bool failed;
    kt_request_report report; /* its counts of tokens alone */
    const char *bytes;
    size_t len;
} kt__batch_result;

kt_status KT_CHECKED kt__batch_share_open(kt__batch_share *share, kt_error *err);
/* failed: the batch ends in all processes. One that was not opened is allowed. */
void kt__batch_share_close(kt__batch_share *share, bool failed);
/* This process is ready: it computes n_parallel together. Process 0 waits until all are. */
kt_status KT_CHECKED kt__batch_share_ready(kt__batch_share *share, int32_t n_parallel,
                                           int32_t n_queue_max, kt_error *err);

/* ---- process 0 ---- */

/* Who has the fewest in relation to what it computes together, this process n_here; -1: nobody has
 * room. */
int kt__batch_share_choose(const kt__batch_share *share, int32_t n_here);
kt_status KT_CHECKED kt__batch_share_send(kt__batch_share *share, int rank, uint64_t number,
                                          const char *line, size_t len, kt_error *err);
/* A result that has come, if one has. */
kt_status KT_CHECKED kt__batch_share_look(kt__batch_share *share, kt__batch_result *out, bool *any,
                                          kt_error *err);
/* There are no more requests. */
kt_status KT_CHECKED kt__batch_share_end(kt__batch_share *share, kt_error *err);

/* ---- the others ---- */

typedef enum kt__batch_heard {
    KT__BATCH_HEARD_NOTHING,
    KT__BATCH_HEARD_LINE, /* *line: valid until the next letter */
    KT__BATCH_HEARD_END
} kt__batch_heard;
kt_status KT_CHECKED kt__batch_share_hear(kt__batch_share *share, kt__batch_heard *heard,
                                          uint64_t *number, const char **line, size_t *len,
                                          kt_error *err);
kt_status KT_CHECKED kt__batch_share_answer(kt__batch_share *share, const kt__batch_result *result,
                                            kt_error *err);
/* It is alive, and has no result yet. */
kt_status KT_CHECKED kt__batch_share_nod(kt__batch_share *share, kt_error *err);

/* A process of kentang batch that answers requests which another one reads and whose results that one writes.
 *
 * Owns: its requests in its engine. One thread. */

/* Until process 0 says that there are no more. */
kt_status KT_CHECKED kt__batch_replica_run(kt__batch_share *share, kt__session *session,
                                           const kt_request_params *defaults, kt_error *err);

#endif
