/* What a store of keys and values is made for.
 *
 * Owns: its numbers, and which pages a query reads in f16. Any thread. */
#ifndef KT_KV_SHAPE_H
#define KT_KV_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/geometry.h"

enum {
    KT__KV_LAYERS_MAX = 1024,
    KT__MIGRATION_PAGES = 4 /* that leave a tail together: 64 positions */
};

/* That hold the first n_pos positions. */
static inline int32_t kt__pages_of(int64_t n_pos) {
    return (int32_t)((n_pos + KT__PAGE_POS - 1) / KT__PAGE_POS);
}

/* A layer's heads. */
typedef struct kt__kv_heads {
    int n, dim_k, dim_v;
} kt__kv_heads;

typedef struct kt__kv_shape {
    int n_layer, n_head_kv, head_dim_k, head_dim_v;
    kt__kv_heads other;                      /* of some layers, if there are any: */
    uint64_t others[KT__KV_LAYERS_MAX / 64]; /* their bits */
    uint64_t locals[KT__KV_LAYERS_MAX / 64]; /* bits of layers with a sliding window */
    int n_window; /* pages before a query's own that it reads in those; 0: there are none */
    int n_reread; /* of the last layers: their f16 pages are read after the next layer's are written */
    kt__kv_form k_form, v_form;
    int n_tail;     /* pages before a query's own that it reads in f16 as well */
    bool first_f16; /* and page 0, always */
    uint64_t f16_keys[KT__KV_LAYERS_MAX / 64]; /* bits of layers whose keys are f16 anyway */
    size_t state_bytes; /* of a sequence's recurrent layers; 0: there are none */
} kt__kv_shape;

static inline bool kt__kv_has_others(const kt__kv_shape *shape, int layer) {
    return shape->others[layer / 64] >> (layer % 64) & 1;
}

static inline bool kt__kv_is_local(const kt__kv_shape *shape, int layer) {
    return shape->locals[layer / 64] >> (layer % 64) & 1;
}

static inline kt__kv_heads kt__kv_heads_of(const kt__kv_shape *shape, int layer) {
    if (kt__kv_has_others(shape, layer)) return shape->other;
    return (kt__kv_heads){shape->n_head_kv, shape->head_dim_k, shape->head_dim_v};
}

static inline bool kt__kv_is_quantised(const kt__kv_shape *shape) {
    return shape->k_form != KT__KV_F16 || shape->v_form != KT__KV_F16;
}

static inline kt__kv_form kt__kv_k_form(const kt__kv_shape *shape, int layer) {
    bool is_f16 = shape->f16_keys[layer / 64] >> (layer % 64) & 1;
    return is_f16 ? KT__KV_F16 : shape->k_form;
}

/* Whether pages have parts of their own in layers with a window: not where the tail, which is read
 * in f16 copies, is as long as the window. */
static inline bool kt__kv_has_local_parts(const kt__kv_shape *s) {
    bool any = !kt__kv_is_quantised(s) || s->n_window > s->n_tail || s->v_form == KT__KV_F16;
    for (int i = 0; i < s->n_layer && !any; i++)
        any = kt__kv_is_local(s, i) && kt__kv_k_form(s, i) == KT__KV_F16;
    return s->n_window > 0 && any;
}

/* The first page, page 0 aside, that a query at pos reads in f16; the last one is its own. */
static inline int32_t kt__kv_tail_from(const kt__kv_shape *shape, int64_t pos) {
    int64_t own = pos / KT__PAGE_POS;
    return own > shape->n_tail ? (int32_t)(own - shape->n_tail) : 0;
}

/* The first page that a query at pos reads in layers with a window. */
static inline int32_t kt__kv_window_from(const kt__kv_shape *shape, int64_t pos) {
    int64_t own = pos / KT__PAGE_POS;
    return own > shape->n_window ? (int32_t)(own - shape->n_window) : 0;
}

/* Whether a sequence that continues after a full page needs more of it than its quantised form. */
static inline bool kt__kv_reads_f16_ends(const kt__kv_shape *shape) {
    return shape->first_f16 || shape->n_tail > 0;
}

/* Of the pages of the first n_pos positions, how many a query after them reads in f16, and which
 * the i-th is. */
static inline int32_t kt__kv_n_end_pages(const kt__kv_shape *shape, int64_t n_pos) {
    int32_t from = kt__kv_tail_from(shape, n_pos);
    return kt__pages_of(n_pos) - from + (shape->first_f16 && from > 0);
}

static inline int32_t kt__kv_end_page(const kt__kv_shape *shape, int64_t n_pos, int32_t i) {
    int32_t from = kt__kv_tail_from(shape, n_pos);
    bool first = shape->first_f16 && from > 0;
    return first && i == 0 ? 0 : from + i - first;
}

/* How many pages may be f16 at once: in all layers, and while they pass one layer; how many states
 * there may be; and how many pages may have what layers with a window have of them. */
typedef struct kt__kv_room {
    int32_t n_kept, n_staged, n_states, n_local;
    bool presses; /* pages may be pressed, of a store in f16; f16_keys: layers whose keys are not */
    uint64_t f16_keys[KT__KV_LAYERS_MAX / 64];
} kt__kv_room;

#endif
