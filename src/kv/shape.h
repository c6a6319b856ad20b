/* What a store of keys and values is made for.
 *
 * Owns: its numbers. Any thread. */
#ifndef KT_KV_SHAPE_H
#define KT_KV_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/geometry.h"

typedef struct kt__kv_shape {
    int n_layer, n_head_kv, head_dim_k, head_dim_v;
    kt__kv_form k_form, v_form;
    size_t state_bytes; /* of a sequence's recurrent layers; 0: there are none */
} kt__kv_shape;

static inline bool kt__kv_is_sealing(const kt__kv_shape *shape) {
    return shape->k_form != KT__KV_F16 || shape->v_form != KT__KV_F16;
}

/* How many pages may be young at once: in all layers, and while they pass one layer; and how many
 * states there may be. */
typedef struct kt__kv_room {
    int32_t n_kept, n_staged, n_states;
} kt__kv_room;

#endif
