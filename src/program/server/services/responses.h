/* Answers of /v1/responses that clients come back to.
 *
 * Owns: their records by id, in a directory of files or in memory, bounded in bytes (the oldest go first), and
 * whose each is. A record is JSON: {"client", "input": [...], "response": {...}}, where "input" is all that the
 * model was given. Records are written to the directory by a worker; until then they are in memory. Knows nothing
 * of what is in a response. Any thread. */
#ifndef KT_SERVICES_RESPONSES_H
#define KT_SERVICES_RESPONSES_H

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

#include "services/workers.h"

typedef struct kt__responses kt__responses;

enum { KT__RESPONSE_ID = 48 }; /* bytes of an id with its end */

/* dir: made with mode 0700; NULL: in memory. KT_E_STATE: another server has it. */
kt_status KT_CHECKED kt__responses_open(const char *dir, uint64_t max_bytes, kt__responses **out,
                                        kt_error *err);
void kt__responses_close(
    kt__responses *responses); /* writes what is not yet on disk; NULL is allowed */
/* Copies record[len]. false: it is too long, or there is no memory; then it is not kept. */
bool kt__responses_put(kt__responses *responses, kt__workers *workers, const char *id,
                       const char *record, size_t len);
/* For json_decref; NULL: there is none, or it is another client's. */
json_t *kt__responses_get(kt__responses *responses, const char *id, const char *client);
bool kt__responses_delete(kt__responses *responses, const char *id, const char *client);

#endif
