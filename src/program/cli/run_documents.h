/* The prompt of kentang run --read: documents, as much of them as fits and as there is time for, and the question.
 *
 * Owns: how many tokens those are, and what is said of it on standard error. One thread. */
#ifndef KT_CLI_RUN_DOCUMENTS_H
#define KT_CLI_RUN_DOCUMENTS_H

#include "base/buf.h"
#include "setup/session.h"
#include "term/options.h"

typedef struct kt__read_params {
    const kt__opt_texts *files;
    const char *question;
    const char *encoder; /* a model that makes vectors, which are looked at as well; or NULL */
    int32_t most_s;      /* for reading; 0: as long as it takes */
    int32_t n_predict;   /* below 0: not said */
    bool quiet;
} kt__read_params;

/* *out is for kt__buf_free, also after failure. */
kt_status kt__run_documents(kt__session *session, const kt__read_params *params, kt__buf *out,
                            kt_error *err) KT_CHECKED;

#endif
