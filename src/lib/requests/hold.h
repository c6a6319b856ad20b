/* What the answers of a request are held to.
 *
 * Owns: putting together what the request asks for, the calls that its tools allow, and reasoning,
 * after which both come. Any thread. */
#ifndef KT_REQUESTS_HOLD_H
#define KT_REQUESTS_HOLD_H

#include "requests/submitted.h"

/* The constraint into sub->constraint, and into its conversation's notes what is not enforced. */
kt_status kt__hold_lend(kt__submitted *sub, const kt_request_params *request,
                        kt_error *err) KT_CHECKED;

#endif
