/* Making a request from its parameters, and handing it to the engine.
 *
 * Owns: what is checked before anything is computed. Any thread. */
#ifndef KT_REQUESTS_SUBMIT_H
#define KT_REQUESTS_SUBMIT_H

#include "requests/submitted.h"

/* A request checked and made, with its prompt ids[n] and its conversation or NULL (both taken over in
 * any case). A sequence is lent to it until its answer has ended. */
kt_status kt__submit_create(kt_engine *engine, const kt_request_params *request, int32_t *ids,
                            size_t n, kt__conversation *conversation, kt__pictures *pictures,
                            kt__submitted **out, kt_error *err) KT_CHECKED;
/* Into the engine's queue. Where it is refused, the request is freed. */
kt_status kt__submit_enqueue(kt__submitted *sub, int64_t deadline_ms, kt_error *err) KT_CHECKED;

/* What the answers of a request are held to.
 *
 * Owns: putting together what the request asks for, the calls that its tools allow, and reasoning,
 * after which both come. Any thread. */

/* The constraint into sub->constraint, and into its conversation's notes what is not enforced. */
kt_status kt__hold_lend(kt__submitted *sub, const kt_request_params *request,
                        kt_error *err) KT_CHECKED;

#endif
