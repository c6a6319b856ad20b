/* Where a prompt's recurrent state is worth keeping.
 *
 * Owns: the choice of positions at which a later prompt may depart from this one: the end of the first
 * message, the ends of the last ones, the prompt's own end, and every so many tokens. Keeps nothing
 * itself (kv/kv.h). Any thread. */
#ifndef KT_PROMPT_SNAPSHOTS_H
#define KT_PROMPT_SNAPSHOTS_H

#include "tokenizer/tokenizer.h"

enum {
    KT__SNAPSHOT_EVERY = 512, /* tokens */
    KT__SNAPSHOT_POINTS = 12  /* at most, of one slice */
};

/* Positions in (from, to] of a prompt of n_tok tokens, multiples of a page's, ascending; returns how
 * many. tok: or NULL. */
int kt__snapshot_points(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok,
                        int32_t from, int32_t to, int32_t out[KT__SNAPSHOT_POINTS]);

/* The end of the first message, a multiple of a page's; 0: there is none. */
int32_t kt__snapshot_first_border(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok);

#endif
