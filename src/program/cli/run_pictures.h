/* Pictures of one prompt on the command line.
 *
 * Owns: reading their files, and the conversation that they are in: first the pictures, then the text. One thread. */
#ifndef KT_CLI_RUN_PICTURES_H
#define KT_CLI_RUN_PICTURES_H

#include <kentang.h>

#include "term/options.h"

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
