/* Where the parts of pages lie in memory.
 *
 * Owns: the memory of some of a store's layers, at a number of places, and the layout. Knows
 * neither which page has which place nor what is in it. Any thread.
 *
 * Places lie in slabs of a power of two of them, at least one attention split's. In a slab, for
 * each layer and head: K of all its places, f16 [place][head_dim_k][16] or quantised, then V, f16
 * [place][16][head_dim_v] or quantised, each part 64-byte aligned. Memory is reserved as address
 * space and touched as places are used. */
#ifndef KT_KV_SLABS_H
#define KT_KV_SLABS_H

#include <kentang.h>

#include "host/affinity.h"
#include "kv/shape.h"

typedef struct kt__slabs kt__slabs;

/* Layers with a window's ring (kt__kv_is_local), or the others. */
typedef enum kt__slab_layers { KT__SLAB_GLOBAL, KT__SLAB_LOCAL } kt__slab_layers;

/* The shape outlives them. */
kt_status kt__slabs_create(const kt__kv_shape *shape, kt__slab_layers layers, int64_t n_places,
                           kt__slabs **out, kt_error *err) KT_CHECKED;
void kt__slabs_destroy(kt__slabs *slabs);
/* Before anything is stored: they will lie on the NUMA nodes of the place's threads in turn. */
void kt__slabs_spread(kt__slabs *slabs, const kt__affinity *place);

/* Bytes of one place. */
size_t kt__slabs_place_bytes(const kt__kv_shape *shape, kt__slab_layers layers);
/* One head's keys, or its values, of a layer that is among them. */
uint8_t *kt__slabs_k(const kt__slabs *slabs, int32_t place, int layer, int head);
uint8_t *kt__slabs_v(const kt__slabs *slabs, int32_t place, int layer, int head);

/* One head's part of a page, without padding. */
size_t kt__slabs_k_bytes(const kt__kv_shape *shape, int layer);
size_t kt__slabs_v_bytes(const kt__kv_shape *shape, int layer);

#endif
