/* What a deletion of feedback says in its path: /v1/feedback/ID?namespace=NAME */
#include <microhttpd.h>

#include "dialects/dialect_learn.h"
#include "transports/http_request.h"

kt_status kt__http_take_forget_head(kt__http_request *r, kt_error *err) {
    const char *name = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND,
                                                   "namespace");
    return kt__dialect_forget_begin(r->job, r->rest, name, err);
}
