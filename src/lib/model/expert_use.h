/* How soon an expert is used again.
 *
 * Owns: the estimate. A pass goes through the layers in turn, and needs an expert of a layer in a share of the passes,
 * which its past tells. For a prompt, which needs all of them, that leaves the order of the layers: what was used last
 * is needed last. Pure. */
#ifndef KT_MODEL_EXPERT_USE_H
#define KT_MODEL_EXPERT_USE_H

#include <stdbool.h>

/* share: of the passes that needed it, the recent ones counting more. */
static inline float kt__expert_share(float share, bool needed) {
    return share + ((needed ? 1.0f : 0.0f) - share) / 64.0f;
}

/* Passes until it is needed again, of an expert whose layer comes `ahead` (1 to n_layer) layers from now. */
static inline float kt__expert_next_use(float share, int ahead, int n_layer) {
    float least = 1.0f / 4096.0f;
    return 1.0f / (share > least ? share : least) - 1.0f + (float)ahead / (float)n_layer;
}

#endif
