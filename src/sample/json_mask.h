/* Which tokens may continue a JSON text, for a whole vocabulary at once.
 *
 * Owns: an index over the tokens' bytes, made once for a vocabulary, and the mask of logits that
 * follows from it and from where the text stands (json_state.h). The result is what feeding every
 * token to a copy of the state would give; tokens with a common beginning are fed once, and a
 * refused beginning excludes every token that has it. Immutable once made, so any thread may use
 * it.
 *
 * Inside a string nearly every token may follow, and usually for reasons that do not depend on what
 * surrounds the string: those are known beforehand. Anywhere else nearly none may. */
#ifndef KT_SAMPLE_JSON_MASK_H
#define KT_SAMPLE_JSON_MASK_H

#include "sample/json_state.h"
#include "sample/sample.h"

typedef struct kt__json_mask kt__json_mask;

/* vocab: the bytes of tokens that may be part of a text; no bytes for the rest. They stay in place
 * while the mask lives. About 8 bytes a vocabulary entry. */
kt_status KT_CHECKED kt__json_mask_create(const kt__sampler_vocab *vocab, int32_t n_vocab,
                                          kt__json_mask **out, kt_error *err);
void kt__json_mask_free(kt__json_mask *mask);
/* masked[n_vocab]: the logit of a token that may follow, else -infinity. */
void kt__json_mask_apply(const kt__json_mask *mask, const kt__json_state *state,
                         const float *logits, float *masked);

#endif
