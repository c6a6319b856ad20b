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
/* Of which each slab may be divided again, for pages of other forms: slabs of KT__SPLIT_PAGES places, numbered
 * (slab << KT__SLAB_SHIFT) + index, of layers without a window. */
enum { KT__SLAB_SHIFT = 6 };
kt_status kt__slabs_create_divisible(const kt__kv_shape *shape, int64_t n_places, kt__slabs **out,
                                     kt_error *err) KT_CHECKED;
/* Such slabs' places in another form, with the shape, which outlives them, and how many a slab has. */
kt_status kt__slabs_add_form(kt__slabs *slabs, kt__kv_form form, const kt__kv_shape *shape,
                             kt_error *err) KT_CHECKED;
int kt__slabs_places(const kt__slabs *slabs, kt__kv_form form);
/* How many such a slab, made for the shape, has of the other one's. */
int kt__slabs_divided(const kt__kv_shape *shape, const kt__kv_shape *other);
void kt__slabs_destroy(kt__slabs *slabs);
/* Before anything is stored: they will lie on the NUMA nodes of the place's threads in turn. */
void kt__slabs_spread(kt__slabs *slabs, const kt__affinity *place);

/* All of it. */
uint8_t *kt__slabs_memory(const kt__slabs *slabs, size_t *bytes);

/* Bytes of one place. */
size_t kt__slabs_place_bytes(const kt__kv_shape *shape, kt__slab_layers layers);
/* One head's keys, or its values, of a layer that is among them; form: 0, or one that was added. */
uint8_t *kt__slabs_k(const kt__slabs *slabs, kt__kv_form form, int32_t place, int layer, int head);
uint8_t *kt__slabs_v(const kt__slabs *slabs, kt__kv_form form, int32_t place, int layer, int head);

/* One head's part of a page, without padding. */
size_t kt__slabs_k_bytes(const kt__kv_shape *shape, int layer);
size_t kt__slabs_v_bytes(const kt__kv_shape *shape, int layer);

/* Slots of memory that pages have for a while.
 *
 * Owns: which page has which of a fixed number of slots, and who needs it to stay. A slot that
 * nobody holds stays with its page until another page needs one: first those that nobody will look
 * for, then the longest unused. Knows numbers only. Threads as kv/kv.h, its user's user. */

enum { KT__NO_SLOT = -1 };

typedef struct kt__slots kt__slots;

kt_status kt__slots_create(int64_t n_pages, int32_t n_slots, kt__slots **out,
                           kt_error *err) KT_CHECKED;
void kt__slots_destroy(kt__slots *slots);

int32_t kt__slots_n(const kt__slots *slots);
int32_t kt__slot_of(const kt__slots *slots, int32_t page); /* or KT__NO_SLOT */
/* Slots that may be taken: free ones, and those that nobody holds. */
int32_t kt__slots_n_free(const kt__slots *slots);
/* There is one, and the page has none. Returns the page that lost its own for that, or -1. */
int32_t kt__slot_take(kt__slots *slots, int32_t page);
void kt__slot_drop(kt__slots *slots, int32_t page); /* if it has one */
/* The page's slot becomes that of another page, which has none. */
void kt__slot_move(kt__slots *slots, int32_t from, int32_t to);
/* A page with more holds than releases keeps its slot, or the next one that it is given. */
void kt__slot_hold(kt__slots *slots, int32_t page);
/* spent: nobody will look for what is in it. */
void kt__slot_let_go(kt__slots *slots, int32_t page, bool spent);
/* Of slots that another process leads, which takes and drops: the page has that slot now, or
 * (KT__NO_SLOT) none. false: there is no such slot. */
bool kt__slot_put(kt__slots *slots, int32_t page, int32_t slot);
bool kt__slot_is_held(const kt__slots *slots, int32_t page);

#endif
