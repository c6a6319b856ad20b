#include "kv/slabs.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/f16.h"
#include "host/nodes.h"
#include "host/pages.h"

enum {
    CACHE_LINE = 64,
    SLAB_PLACES_MAX = 64,  /* 1024 positions */
    SLAB_BYTES = 16u << 20 /* slabs are smaller where a place is large, but hold a split */
};

struct kt__slabs {
    const kt__kv_shape *shape;
    size_t *layer_at; /* [n_layer] where a layer begins, of the place's bytes */
    size_t place_bytes;
    int shift; /* log2 of the places of a slab */
    uint8_t *base;
    size_t mapped_bytes;
};

size_t kt__slabs_k_bytes(const kt__kv_shape *s, int layer) {
    kt__kv_form form = kt__kv_k_form(s, layer);
    int dim = kt__kv_heads_of(s, layer).dim_k;
    if (form != KT__KV_F16) return kt__quantised_k_bytes(form, dim);
    return (size_t)dim * KT__PAGE_POS * sizeof(kt__f16);
}

size_t kt__slabs_v_bytes(const kt__kv_shape *s, int layer) {
    int dim = kt__kv_heads_of(s, layer).dim_v;
    if (s->v_form != KT__KV_F16) return kt__quantised_v_bytes(s->v_form, dim);
    return (size_t)dim * KT__PAGE_POS * sizeof(kt__f16);
}

/* Whole cache lines, but halves of them in 4 bits, where a head's scales take half a line. */
static size_t pad_part(kt__kv_form form, size_t bytes) {
    return kt__align_up(bytes, form == KT__KV_Q4 ? CACHE_LINE / 2 : CACHE_LINE);
}

static size_t k_head_bytes(const kt__kv_shape *s, int layer) {
    return pad_part(kt__kv_k_form(s, layer), kt__slabs_k_bytes(s, layer));
}

static size_t v_head_bytes(const kt__kv_shape *s, int layer) {
    return pad_part(s->v_form, kt__slabs_v_bytes(s, layer));
}

/* 0 where the layer is not among these. */
static size_t layer_bytes(const kt__kv_shape *s, kt__slab_layers layers, int layer) {
    if (kt__kv_is_local(s, layer) != (layers == KT__SLAB_LOCAL)) return 0;
    size_t n = (size_t)kt__kv_heads_of(s, layer).n;
    return (k_head_bytes(s, layer) + v_head_bytes(s, layer)) * n;
}

size_t kt__slabs_place_bytes(const kt__kv_shape *s, kt__slab_layers layers) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++) bytes += layer_bytes(s, layers, layer);
    return bytes;
}

/* The largest slab within SLAB_BYTES, but one attention split at least. */
static int shift_for(size_t place_bytes) {
    int places = SLAB_PLACES_MAX, shift = 0;
    while (places > KT__SPLIT_PAGES && (size_t)places * place_bytes > SLAB_BYTES) places /= 2;
    while (1 << shift < places) shift++;
    return shift;
}

static kt_status map_places(kt__slabs *slabs, int64_t n_places, kt_error *err) {
    size_t bytes, slab = (size_t)1 << slabs->shift;
    size_t whole = ((size_t)n_places + slab - 1) / slab * slab;
    if (!kt__mul_size(slabs->place_bytes, whole, &bytes))
        return kt__fail(err, KT_E_NOMEM, "the K/V store is too large for the address space");
    if (bytes == 0) return KT_OK;
    void *p = kt__pages_alloc(bytes);
    if (!p) {
        return kt__fail(err, KT_E_NOMEM, "cannot reserve %zu bytes for the K/V store: %s", bytes,
                        strerror(errno));
    }
    slabs->base = p;
    slabs->mapped_bytes = bytes;
    return KT_OK;
}

kt_status kt__slabs_create(const kt__kv_shape *shape, kt__slab_layers layers, int64_t n_places,
                           kt__slabs **out, kt_error *err) {
    *out = NULL;
    kt__slabs *slabs = kt__calloc(1, sizeof *slabs);
    if (!slabs) return kt__fail_nomem(err, "the K/V store", sizeof *slabs);
    slabs->shape = shape;
    slabs->place_bytes = kt__slabs_place_bytes(shape, layers);
    slabs->shift = shift_for(slabs->place_bytes);
    slabs->layer_at = kt__calloc((size_t)shape->n_layer, sizeof *slabs->layer_at);
    kt_status status = slabs->layer_at
                           ? map_places(slabs, n_places, err)
                           : kt__fail_nomem(err, "the K/V layers' places", (size_t)shape->n_layer);
    for (int i = 1; status == KT_OK && i < shape->n_layer; i++)
        slabs->layer_at[i] = slabs->layer_at[i - 1] + layer_bytes(shape, layers, i - 1);
    if (status == KT_OK) {
        *out = slabs;
    } else {
        kt__slabs_destroy(slabs);
    }
    return status;
}

void kt__slabs_destroy(kt__slabs *slabs) {
    if (!slabs) return;
    kt__pages_free(slabs->base, slabs->mapped_bytes);
    kt__free(slabs->layer_at);
    kt__free(slabs);
}

void kt__slabs_spread(kt__slabs *slabs, const kt__affinity *place) {
    kt__nodes_spread(slabs->base, slabs->mapped_bytes, place);
}

/* Where the layer and head begin in the place's slab, the keys of all its places lie first. */
static uint8_t *part_at(const kt__slabs *slabs, int32_t place, int layer, int head, bool values) {
    size_t slab = (size_t)place >> slabs->shift, n = (size_t)1 << slabs->shift;
    size_t index = (size_t)place & (n - 1), k_bytes = k_head_bytes(slabs->shape, layer);
    size_t v_bytes = v_head_bytes(slabs->shape, layer);
    size_t at = slabs->layer_at[layer] + (size_t)head * (k_bytes + v_bytes);
    uint8_t *base = slabs->base + (slab * slabs->place_bytes + at) * n;
    return values ? base + k_bytes * n + index * v_bytes : base + index * k_bytes;
}

uint8_t *kt__slabs_k(const kt__slabs *slabs, int32_t place, int layer, int head) {
    return part_at(slabs, place, layer, head, false);
}

uint8_t *kt__slabs_v(const kt__slabs *slabs, int32_t place, int layer, int head) {
    return part_at(slabs, place, layer, head, true);
}
