/* Answers of HTTP in one piece.
 *
 * Owns: the headers that every answer has, and bodies of errors in the words of whom the path
 * belongs to. The daemon's thread. */
#ifndef KT_TRANSPORTS_HTTP_ANSWER_H
#define KT_TRANSPORTS_HTTP_ANSWER_H

#include <microhttpd.h>

#include "transports/http_request.h"

void kt__http_add_header(struct MHD_Response *response, const char *name, const char *value);
/* Queues the response and gives it up. NULL: MHD_NO, which ends the connection. */
enum MHD_Result kt__http_queue(kt__http_request *r, struct MHD_Response *response, int status,
                               const char *type);
/* To a browser that asks what pages of r->cors may send. */
enum MHD_Result kt__http_answer_preflight(kt__http_request *r);
/* data is copied. type NULL: JSON */
enum MHD_Result kt__http_answer_bytes(kt__http_request *r, int status, const char *type, char *data,
                                      size_t len);
/* allowed: the Allow header of a 405, or NULL */
enum MHD_Result kt__http_answer_error(kt__http_request *r, int status, const char *allowed,
                                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
