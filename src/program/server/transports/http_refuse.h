/* Whether a request of HTTP is answered at all, by its head.
 *
 * Owns: the order of the checks and what each says; access.h has the decisions about texts. The
 * daemon's thread. */
#ifndef KT_TRANSPORTS_HTTP_REFUSE_H
#define KT_TRANSPORTS_HTTP_REFUSE_H

#include "transports/http_answer.h"

/* What the checks look at besides the request. */
typedef struct kt__http_head {
    const char *method, *path, *version; /* as the library keeps them */
    const char *allowed; /* the path's method, where another one was used; else NULL */
} kt__http_head;

/* false: continue; r->client is who asks. Else the refusal was queued, with *result. */
bool kt__http_refuse(kt__http_request *r, const kt__http_head *head, enum MHD_Result *result);

#endif
