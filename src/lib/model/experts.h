/* Layers whose feed-forward is a router and experts.
 *
 * Owns: their part of the layer program over kt__ops (choice, gate and up, down) and its scratch,
 * which one forward pass has for all its layers; and, where experts are read as they are needed, when that is said. Does not know batches, nor adapters, which change
 * no expert. One batch at a time; nothing is allocated after creation. */
#ifndef KT_MODEL_EXPERTS_H
#define KT_MODEL_EXPERTS_H

#include "gpu/gpu.h"
#include "model/expert_store.h"

typedef struct kt__experts kt__experts;

/* Bytes of the scratch for n_tok rows; 0 for a network without experts, for which create gives NULL.
 */
uint64_t kt__experts_plan_bytes(const kt__net *net, int n_tok);
/* store: where experts are read as they are needed, which is on for as long; NULL: they are in memory. */
kt_status kt__experts_create(const kt__net *net, kt__dev *dev, kt__expert_store *store, int n_tok,
                             kt__experts **out, kt_error *err) KT_CHECKED;
void kt__experts_destroy(kt__experts *experts);

/* The scratch, which stays where it is, with a device. */
kt_status kt__experts_share(const kt__experts *experts, kt__gpu_set *set, kt_error *err) KT_CHECKED;

/* What the architecture's features make of gate and up. */
kt__glu_kind kt__glu_kind_of(kt__features features);
/* The matrices that read the feed-forward's input: router, experts, shared expert. */
enum { KT__EXPERT_READERS = 6 };
int kt__experts_readers(const kt__layer *layer, const kt__weight *out[KT__EXPERT_READERS]);

/* Each row of acts chooses its experts; ops computes this and what follows of the layer. false: a router's logit is
 * not finite. */
bool kt__experts_choose(kt__experts *experts, const kt__ops *ops, const kt__layer *layer,
                        const kt__acts *acts);
/* Gate and up of the chosen. Fails where an expert cannot be read; so does the next one. */
kt_status kt__experts_up(kt__experts *experts, const kt__layer *layer, const kt__acts *acts,
                         kt_error *err) KT_CHECKED;
/* x += the experts' outputs by their shares; sum[n_tok][d_model]: room, and before that the shared
 * expert's output where the layer has one. x NULL: the experts' sum alone, in sum. */
kt_status kt__experts_add(kt__experts *experts, const kt__layer *layer, float *sum, float *x,
                          kt_error *err) KT_CHECKED;

#endif
