/* Constraints of requests: made by the thread that submits, kept for those that ask for the same.
 *
 * Owns: a model's vocabulary for constraints, an engine's account of their memory, and the ones
 * that nobody uses at present: a request that asks for the same gets one of these, with what it
 * knows of masks by then. A constraint is lent to one request at a time. Any thread. */
#ifndef KT_REQUESTS_CONSTRAINTS_H
#define KT_REQUESTS_CONSTRAINTS_H

#include "context/types.h"
#include "sample/held.h"

typedef struct kt__constraints kt__constraints;

/* What all of them may take together. */
typedef struct kt__constraints_budget {
    uint64_t most,
        planned; /* bytes; what is more than planned is charged to ctx while it is there */
    kt_ctx *ctx; /* NULL: nothing is charged */
} kt__constraints_budget;

kt_status kt__constraints_create(const kt__constraints_budget *budget, kt__constraints **out,
                                 kt_error *err) KT_CHECKED;
void kt__constraints_free(kt__constraints *all);
/* *out NULL where nothing is held. KT_E_BUSY: there is no memory while others run; KT_E_NOMEM: nor
 * would there be without them. */
kt_status kt__constraints_lend(kt_engine *engine, const kt_constraint *what, kt__constraint **out,
                               kt_error *err) KT_CHECKED;
void kt__constraints_give_back(kt_engine *engine, kt__constraint *constraint); /* or NULL */

#endif
