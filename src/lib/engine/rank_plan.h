/* What one of several processes that compute a model together would hold, read and send.
 *
 * Owns: finding out, by the code that would run there: an engine whose products are counted and not computed, and whose
 * messages go nowhere. So it is what happens, for every architecture. The context has no other engine, and has joined no
 * job; one thread. */
#ifndef KT_ENGINE_RANK_PLAN_H
#define KT_ENGINE_RANK_PLAN_H

#include "context/types.h"

typedef struct kt__rank_plan {
    uint64_t weight_bytes; /* held; but for tables of which tokens read rows */
    uint64_t kv_bytes; /* room for keys and values of kv_positions, and recurrent layers' states */
    int64_t kv_positions;
    /* of a token that is generated */
    uint64_t read_bytes; /* of weights */
    kt__traffic traffic;
} kt__rank_plan;

typedef struct kt__rank_asked {
    const kt_engine_params *params;
    const int *shares; /* [n] as kt__division_share has them */
    int n;
    uint64_t least_bytes; /* as kt_ctx_join has it */
} kt__rank_asked;

/* KT_E_ARG: other shares. */
kt_status kt__rank_plan_make(kt_model *model, const kt__rank_asked *asked, int rank,
                             kt__rank_plan *out, kt_error *err) KT_CHECKED;

#endif
