/* One answer that wants proposals. Types only. */
#ifndef KT_REQUESTS_DRAFT_ASK_H
#define KT_REQUESTS_DRAFT_ASK_H

#include "context/types.h"

typedef struct kt__draft_ask {
    kt__draft_seq *seq;
    kt__kv_table *table; /* the answer's own pages */
    const int32_t *tokens;
    int32_t n_tok, n_got, n_left; /* known; of these, of the answer; that may come at most */
    int most;                     /* proposals that may be used */
    int32_t *ids;                 /* [most] out */
    int n;                        /* out */
    bool ready; /* who proposes sets it: the answer's text is followed up to its end */
} kt__draft_ask;

#endif
