/* What kentang run takes into its prompt besides the question: documents and pictures. One thread. */
#ifndef KT_CLI_RUN_INPUTS_H
#define KT_CLI_RUN_INPUTS_H

#include "base/buf.h"
#include "setup/session.h"
#include "term/options.h"

#include <kentang.h>

/* The prompt of kentang run --read: documents, as much of them as fits and as there is time for, and the question.
 *
 * How many tokens those are, and what is said of it on standard error. One thread. */

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

/* Pictures of one prompt on the command line.
 *
 * Reading their files, and the conversation that they are in: first the pictures, then the text. One thread. */

typedef struct kt__run_pictures {
    kt_picture *list; /* [n] */
    size_t n;
    char *chat; /* the conversation, as kt_request_params.chat_json */
} kt__run_pictures;

/* system: NULL, or the system message. For kt__run_pictures_free in any case. */
kt_status KT_CHECKED kt__run_pictures_read(const kt__opt_texts *files, const char *system,
                                           const char *text, size_t len, kt__run_pictures *out,
                                           kt_error *err);
void kt__run_pictures_free(kt__run_pictures *pictures);

#endif
