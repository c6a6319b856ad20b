/* Why a prompt was not found as a whole: where it departs from an earlier one, in which message,
 * and what that costs.
 *
 * Owns: kt_cache_miss. With the engine's turn. */
#ifndef KT_REQUESTS_EXPLAIN_H
#define KT_REQUESTS_EXPLAIN_H

#include "requests/submitted.h"

/* After the choice's prompt was looked for. prefill_us_tok: what a token costs, 0: not known. */
void kt__explain_miss(kt__choice *choice, double prefill_us_tok);

#endif
