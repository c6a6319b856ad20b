/* Work of the lowest priority next to others on an engine: it waits where the queue is full, and ends when
 * its owner asks it to.
 *
 * Owns: that waiting, and the error of what was cancelled. One thread at a time. */
#ifndef KT_TUTOR_PATIENCE_H
#define KT_TUTOR_PATIENCE_H

#include "context/types.h"

/* Asked between computations; false: KT_E_CANCELLED. NULL: always. */
typedef struct kt__tutor_patience {
    bool (*go_on)(void *user);
    void *user;
} kt__tutor_patience;

kt_status kt__patience_check(const kt__tutor_patience *patience, kt_error *err) KT_CHECKED;
/* Whether a call that gave this status is to be made again: the queue was full, and was waited for. */
bool kt__patience_again(kt_engine *engine, kt_status status);
/* kt_engine_submit, so. */
kt_status kt__patience_submit(kt_engine *engine, const kt_request_params *request,
                              const kt__tutor_patience *patience, kt_request **out,
                              kt_error *err) KT_CHECKED;

#endif
