/* A process of kentang batch that answers requests which another one reads and whose results that one writes.
 *
 * Owns: its requests in its engine. One thread. */
#ifndef KT_CLI_BATCH_REPLICA_H
#define KT_CLI_BATCH_REPLICA_H

#include "cli/batch_share.h"
#include "setup/session.h"

/* Until process 0 says that there are no more. */
kt_status KT_CHECKED kt__batch_replica_run(kt__batch_share *share, kt__session *session,
                                           const kt_request_params *defaults, kt_error *err);

#endif
