#include "kv/slabs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "host/affinity.h"
#include "host/pages.h"

enum {
    CACHE_LINE = 64,
    SLAB_PLACES_MAX = 64,  /* 1024 positions */
    SLAB_BYTES = 16u << 20 /* slabs are smaller where a place is large, but hold a split */
};

/* How a slab is divided. */
typedef struct slab_layout {
    const kt__kv_shape *shape;
    size_t *layer_at; /* [n_layer] where a layer begins, of the place's bytes */
    size_t place_bytes, n_places;
} slab_layout;

struct kt__slabs {
    slab_layout forms[KT__KV_FORMS]; /* the first is that of the shape that they were made for */
    kt__slab_layers layers;
    int shift; /* log2 of the numbers that a slab's places may have */
    size_t slab_bytes;
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
    size_t bytes, n = slabs->forms[0].n_places, n_slabs = ((size_t)n_places + n - 1) / n;
    if (!kt__mul_size(slabs->slab_bytes, n_slabs, &bytes))
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

static kt_status lay_out(slab_layout *layout, const kt__kv_shape *shape, kt__slab_layers layers,
                         kt_error *err) {
    layout->shape = shape;
    layout->place_bytes = kt__slabs_place_bytes(shape, layers);
    layout->layer_at = kt__calloc((size_t)shape->n_layer, sizeof *layout->layer_at);
    if (!layout->layer_at)
        return kt__fail_nomem(err, "the K/V layers' places", (size_t)shape->n_layer);
    for (int i = 1; i < shape->n_layer; i++)
        layout->layer_at[i] = layout->layer_at[i - 1] + layer_bytes(shape, layers, i - 1);
    return KT_OK;
}

static kt_status create_slabs(const kt__kv_shape *shape, kt__slab_layers layers, int64_t n_places,
                              bool divisible, kt__slabs **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__slabs *slabs = kt__calloc(1, sizeof *slabs);
    if (!slabs) return kt__fail_nomem(err, "the K/V store", sizeof *slabs);
    slabs->layers = layers;
    KT__TRY(lay_out(&slabs->forms[0], shape, layers, err));
    slabs->shift = divisible ? KT__SLAB_SHIFT : shift_for(slabs->forms[0].place_bytes);
    slabs->forms[0].n_places = divisible ? KT__SPLIT_PAGES : (size_t)1 << slabs->shift;
    slabs->slab_bytes = slabs->forms[0].place_bytes * slabs->forms[0].n_places;
    KT__TRY(map_places(slabs, n_places, err));
    *out = slabs;
    slabs = NULL;
out:
    kt__slabs_destroy(slabs);
    return status;
}

kt_status kt__slabs_create(const kt__kv_shape *shape, kt__slab_layers layers, int64_t n_places,
                           kt__slabs **out, kt_error *err) {
    return create_slabs(shape, layers, n_places, false, out, err);
}

kt_status kt__slabs_create_divisible(const kt__kv_shape *shape, int64_t n_places, kt__slabs **out,
                                     kt_error *err) {
    return create_slabs(shape, KT__SLAB_GLOBAL, n_places, true, out, err);
}

kt_status kt__slabs_add_form(kt__slabs *slabs, kt__kv_form form, const kt__kv_shape *shape,
                             kt_error *err) {
    slab_layout *layout = &slabs->forms[form];
    KT__STEP(lay_out(layout, shape, slabs->layers, err));
    layout->n_places = (size_t)kt__slabs_divided(slabs->forms[0].shape, shape);
    return KT_OK;
}

int kt__slabs_divided(const kt__kv_shape *shape, const kt__kv_shape *other) {
    size_t bytes = kt__slabs_place_bytes(other, KT__SLAB_GLOBAL), n = 0;
    if (bytes) n = kt__slabs_place_bytes(shape, KT__SLAB_GLOBAL) * KT__SPLIT_PAGES / bytes;
    if (n > (size_t)1 << KT__SLAB_SHIFT) n = (size_t)1 << KT__SLAB_SHIFT;
    return (int)n / 2 * 2; /* parts of half lines stay at whole ones */
}

int kt__slabs_places(const kt__slabs *slabs, kt__kv_form form) {
    return (int)slabs->forms[form].n_places;
}

void kt__slabs_destroy(kt__slabs *slabs) {
    if (!slabs) return;
    kt__pages_free(slabs->base, slabs->mapped_bytes);
    for (int i = 0; i < KT__KV_FORMS; i++) kt__free(slabs->forms[i].layer_at);
    kt__free(slabs);
}

void kt__slabs_spread(kt__slabs *slabs, const kt__affinity *place) {
    kt__nodes_spread(slabs->base, slabs->mapped_bytes, place);
}

uint8_t *kt__slabs_memory(const kt__slabs *slabs, size_t *bytes) {
    *bytes = slabs->mapped_bytes;
    return slabs->base;
}

/* Where the layer and head begin in the place's slab, the keys of all its places lie first. */
static uint8_t *part_at(const kt__slabs *slabs, kt__kv_form form, int32_t place, int layer,
                        int head, bool values) {
    const slab_layout *l = &slabs->forms[form];
    size_t slab = (size_t)place >> slabs->shift, n = l->n_places;
    size_t index = (size_t)place & (((size_t)1 << slabs->shift) - 1);
    size_t k_bytes = k_head_bytes(l->shape, layer), v_bytes = v_head_bytes(l->shape, layer);
    size_t at = l->layer_at[layer] + (size_t)head * (k_bytes + v_bytes);
    uint8_t *base = slabs->base + slab * slabs->slab_bytes + at * n;
    return values ? base + k_bytes * n + index * v_bytes : base + index * k_bytes;
}

uint8_t *kt__slabs_k(const kt__slabs *slabs, kt__kv_form form, int32_t place, int layer, int head) {
    return part_at(slabs, form, place, layer, head, false);
}

uint8_t *kt__slabs_v(const kt__slabs *slabs, kt__kv_form form, int32_t place, int layer, int head) {
    return part_at(slabs, form, place, layer, head, true);
}

/* ---- slots ---- */

struct kt__slots {
    int32_t n;
    int32_t *slot_of;   /* [n_pages] or KT__NO_SLOT */
    int32_t *n_holders; /* [n_pages] */
    int32_t *page_of;   /* [n] or KT__NO_SLOT */
    uint64_t *used_at;  /* [n] when it was taken or let go, by clock; 0: it is spent */
    uint64_t clock;
    int32_t *free; /* stack; the lowest numbers on top */
    int32_t n_free;
    int32_t n_loose; /* slots of pages that nobody holds */
};

kt_status kt__slots_create(int64_t n_pages, int32_t n_slots, kt__slots **out, kt_error *err) {
    size_t n = (size_t)n_slots + 1; /* none is no size to allocate */
    *out = NULL;
    kt__slots *slots = kt__calloc(1, sizeof *slots);
    if (!slots) return kt__fail_nomem(err, "the slots of K/V pages", sizeof *slots);
    slots->slot_of = kt__malloc((size_t)n_pages * sizeof *slots->slot_of);
    slots->n_holders = kt__calloc((size_t)n_pages, sizeof *slots->n_holders);
    slots->page_of = kt__calloc(n, sizeof *slots->page_of);
    slots->used_at = kt__calloc(n, sizeof *slots->used_at);
    slots->free = kt__calloc(n, sizeof *slots->free);
    if (!slots->slot_of || !slots->n_holders || !slots->page_of || !slots->used_at ||
        !slots->free) {
        kt__slots_destroy(slots);
        return kt__fail_nomem(err, "the lists of K/V slots", (size_t)n_pages * sizeof(int32_t));
    }
    for (int64_t i = 0; i < n_pages; i++) slots->slot_of[i] = KT__NO_SLOT;
    for (int32_t i = 0; i < n_slots; i++) {
        slots->page_of[i] = KT__NO_SLOT;
        slots->free[i] = n_slots - 1 - i;
    }
    slots->n = slots->n_free = n_slots;
    *out = slots;
    return KT_OK;
}

void kt__slots_destroy(kt__slots *slots) {
    if (!slots) return;
    kt__free(slots->slot_of);
    kt__free(slots->n_holders);
    kt__free(slots->page_of);
    kt__free(slots->used_at);
    kt__free(slots->free);
    kt__free(slots);
}

int32_t kt__slots_n(const kt__slots *slots) {
    return slots->n;
}

int32_t kt__slot_of(const kt__slots *slots, int32_t page) {
    return slots->slot_of[page];
}

int32_t kt__slots_n_free(const kt__slots *slots) {
    return slots->n_free + slots->n_loose;
}

static bool is_loose(const kt__slots *slots, int32_t page) {
    return slots->n_holders[page] == 0 && slots->slot_of[page] != KT__NO_SLOT;
}

/* Gives back the slot that is unused the longest. */
static int32_t drop_oldest(kt__slots *slots) {
    int32_t oldest = KT__NO_SLOT;
    for (int32_t i = 0; i < slots->n; i++) {
        if (slots->page_of[i] == KT__NO_SLOT || !is_loose(slots, slots->page_of[i])) continue;
        if (oldest == KT__NO_SLOT || slots->used_at[i] < slots->used_at[oldest]) oldest = i;
        if (slots->used_at[oldest] == 0) break;
    }
    int32_t page = slots->page_of[oldest];
    kt__slot_drop(slots, page);
    return page;
}

static void give_slot(kt__slots *slots, int32_t page, int32_t slot) {
    slots->slot_of[page] = slot;
    slots->page_of[slot] = page;
    slots->used_at[slot] = ++slots->clock;
    slots->n_loose += slots->n_holders[page] == 0;
}

int32_t kt__slot_take(kt__slots *slots, int32_t page) {
    int32_t loser = -1;
    assert(slots->slot_of[page] == KT__NO_SLOT && kt__slots_n_free(slots) > 0);
    if (slots->n_free == 0) loser = drop_oldest(slots);
    give_slot(slots, page, slots->free[--slots->n_free]);
    return loser;
}

void kt__slot_drop(kt__slots *slots, int32_t page) {
    int32_t slot = slots->slot_of[page];
    if (slot == KT__NO_SLOT) return;
    slots->n_loose -= slots->n_holders[page] == 0;
    slots->page_of[slot] = KT__NO_SLOT;
    slots->free[slots->n_free++] = slot;
    slots->slot_of[page] = KT__NO_SLOT;
}

void kt__slot_move(kt__slots *slots, int32_t from, int32_t to) {
    int32_t slot = slots->slot_of[from];
    assert(slot != KT__NO_SLOT && slots->slot_of[to] == KT__NO_SLOT);
    slots->n_loose -= slots->n_holders[from] == 0;
    slots->slot_of[from] = KT__NO_SLOT;
    give_slot(slots, to, slot);
}

void kt__slot_hold(kt__slots *slots, int32_t page) {
    slots->n_loose -= is_loose(slots, page);
    slots->n_holders[page]++;
}

void kt__slot_let_go(kt__slots *slots, int32_t page, bool spent) {
    assert(slots->n_holders[page] > 0);
    slots->n_holders[page]--;
    if (!is_loose(slots, page)) return;
    slots->n_loose++;
    slots->used_at[slots->slot_of[page]] = spent ? 0 : ++slots->clock;
}

bool kt__slot_is_held(const kt__slots *slots, int32_t page) {
    return slots->n_holders[page] > 0;
}

static void forget_slot(kt__slots *slots, int32_t page) {
    if (slots->slot_of[page] != KT__NO_SLOT) slots->page_of[slots->slot_of[page]] = KT__NO_SLOT;
    slots->slot_of[page] = KT__NO_SLOT;
}

bool kt__slot_put(kt__slots *slots, int32_t page, int32_t slot) {
    if (slot < KT__NO_SLOT || slot >= slots->n) return false;
    if (slot == slots->slot_of[page]) return true;
    forget_slot(slots, page);
    if (slot == KT__NO_SLOT) return true;
    if (slots->page_of[slot] != KT__NO_SLOT) forget_slot(slots, slots->page_of[slot]);
    slots->slot_of[page] = slot;
    slots->page_of[slot] = page;
    return true;
}
