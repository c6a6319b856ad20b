/* Proposals of the model's own block (model/mtp.h) or its assistant (model/assistant.h).
 *
 * Owns: the batches that it runs for that, and an assistant's forward pass. A block's keys and values
 * lie in the answers' own pages and are kept up with them; here it continues, a token of each answer at
 * a time, on positions whose keys and values the step that verifies writes again. An assistant reads
 * those pages at the position that comes next, for every proposal. With the engine's turn. No
 * allocation after creation. */
#ifndef KT_REQUESTS_DRAFT_BLOCK_H
#define KT_REQUESTS_DRAFT_BLOCK_H

#include "requests/draft_ask.h"

typedef struct kt__draft_block kt__draft_block;

kt_status kt__draft_block_create(kt_engine *engine, kt__draft_block **out,
                                 kt_error *err) KT_CHECKED;
void kt__draft_block_destroy(kt__draft_block *block);
/* The bytes that a proposal reads, as a share of a step's. */
double kt__draft_block_size(const kt_engine *engine);
/* Of the assistant resolved->draft, without its weights. */
uint64_t kt__draft_block_plan_bytes(const kt_model *model, const kt_engine_params *resolved);
/* Whether the state before an answer's last token is known. */
bool kt__draft_block_knows(const kt__draft_ask *ask);
/* k proposals, or fewer, for each of the asks[n] that are ready. Returns how many each got. */
int kt__draft_block_propose(kt__draft_block *block, kt__draft_ask *asks, int n, int k);

#endif
