#include "kv/f16_copies.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"
#include "kv/slabs.h"

enum { CACHE_LINE = 64 };

struct kt__f16_copies {
    kt__kv_shape shape;
    size_t *kept_at, *staged_at;   /* [n_layer] where a layer's heads begin in a slot */
    size_t kept_slot, staged_slot; /* bytes */
    uint8_t *kept, *staged;
    size_t kept_bytes, staged_bytes;
    kt__slots *kept_slots, *staged_slots;
};

static size_t part_bytes(int head_dim) {
    return kt__align_up((size_t)head_dim * KT__PAGE_POS * sizeof(kt__f16), CACHE_LINE);
}

static size_t layer_bytes(const kt__kv_shape *s, int layer) {
    kt__kv_heads heads = kt__kv_heads_of(s, layer);
    return (part_bytes(heads.dim_k) + part_bytes(heads.dim_v)) * (size_t)heads.n;
}

/* The layers before those that are read again take turns. */
static int n_turns(const kt__kv_shape *s) {
    return s->n_layer - s->n_reread;
}

size_t kt__f16_copies_staged_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int i = 0; i < n_turns(s); i++)
        if (bytes < layer_bytes(s, i)) bytes = layer_bytes(s, i);
    for (int i = n_turns(s); i < s->n_layer; i++) bytes += layer_bytes(s, i);
    return bytes;
}

size_t kt__f16_copies_kept_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int i = 0; i < s->n_layer; i++) bytes += layer_bytes(s, i);
    return bytes;
}

/* Where each layer's part of a slot begins. */
static void place_layers(kt__f16_copies *copies) {
    const kt__kv_shape *s = &copies->shape;
    size_t kept = 0, end = copies->staged_slot;
    for (int i = 0; i < s->n_layer; kept += layer_bytes(s, i++)) copies->kept_at[i] = kept;
    for (int i = s->n_layer - 1; i >= n_turns(s); i--)
        copies->staged_at[i] = end -= layer_bytes(s, i);
}

static kt_status map_slots(size_t slot, int32_t n, uint8_t **out, size_t *bytes, kt_error *err) {
    if (!kt__mul_size(slot, (size_t)n, bytes)) *bytes = SIZE_MAX;
    if (*bytes == 0) return KT_OK;
    *out = *bytes < SIZE_MAX / 2 ? kt__pages_alloc(*bytes) : NULL;
    if (*out) return KT_OK;
    return kt__fail(err, KT_E_NOMEM, "cannot reserve %zu bytes for f16 K/V: %s", *bytes,
                    strerror(errno));
}

kt_status kt__f16_copies_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv_room room,
                                kt__f16_copies **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__f16_copies *copies = kt__calloc(1, sizeof *copies);
    if (!copies) return kt__fail_nomem(err, "the f16 pages", sizeof *copies);
    copies->shape = *shape;
    copies->kept_slot = kt__f16_copies_kept_bytes(shape);
    copies->staged_slot = kt__f16_copies_staged_bytes(shape);
    copies->kept_at = kt__calloc((size_t)shape->n_layer, sizeof *copies->kept_at);
    copies->staged_at = kt__calloc((size_t)shape->n_layer, sizeof *copies->staged_at);
    if (!copies->kept_at || !copies->staged_at) {
        status = kt__fail_nomem(err, "the layers of f16 pages", (size_t)shape->n_layer);
        goto out;
    }
    place_layers(copies);
    KT__TRY(kt__slots_create(n_pages, room.n_kept, &copies->kept_slots, err));
    KT__TRY(kt__slots_create(n_pages, room.n_staged, &copies->staged_slots, err));
    KT__TRY(map_slots(copies->kept_slot, room.n_kept, &copies->kept, &copies->kept_bytes, err));
    KT__TRY(
        map_slots(copies->staged_slot, room.n_staged, &copies->staged, &copies->staged_bytes, err));
    *out = copies;
    copies = NULL;
out:
    kt__f16_copies_destroy(copies);
    return status;
}

void kt__f16_copies_destroy(kt__f16_copies *copies) {
    if (!copies) return;
    if (copies->kept) kt__pages_free(copies->kept, copies->kept_bytes);
    if (copies->staged) kt__pages_free(copies->staged, copies->staged_bytes);
    kt__free(copies->kept_at);
    kt__free(copies->staged_at);
    kt__slots_destroy(copies->kept_slots);
    kt__slots_destroy(copies->staged_slots);
    kt__free(copies);
}

uint8_t *kt__f16_copies_memory(const kt__f16_copies *copies, bool staged, size_t *bytes) {
    *bytes = staged ? copies->staged_bytes : copies->kept_bytes;
    return staged ? copies->staged : copies->kept;
}

/* Staged slots are numbered after the kept ones. */
int32_t kt__f16_copy_slot(const kt__f16_copies *copies, int32_t page) {
    int32_t staged = kt__slot_of(copies->staged_slots, page);
    if (staged == KT__NO_SLOT) return kt__slot_of(copies->kept_slots, page);
    return kt__slots_n(copies->kept_slots) + staged;
}

bool kt__f16_copy_put(kt__f16_copies *copies, int32_t page, int32_t slot) {
    int32_t n_kept = kt__slots_n(copies->kept_slots);
    int32_t kept = slot < n_kept ? slot : KT__NO_SLOT;
    int32_t staged = slot < n_kept ? KT__NO_SLOT : slot - n_kept;
    return kt__slot_put(copies->kept_slots, page, kept) &&
           kt__slot_put(copies->staged_slots, page, staged);
}

kt__f16_copy_kind kt__f16_copy_of(const kt__f16_copies *copies, int32_t page) {
    if (kt__slot_of(copies->kept_slots, page) != KT__NO_SLOT) return KT__F16_COPY_KEPT;
    return kt__slot_of(copies->staged_slots, page) != KT__NO_SLOT ? KT__F16_COPY_STAGED
                                                                  : KT__F16_COPY_NONE;
}

static kt__slots *slots_of(const kt__f16_copies *copies, kt__f16_copy_kind kind) {
    return kind == KT__F16_COPY_KEPT ? copies->kept_slots : copies->staged_slots;
}

int32_t kt__f16_copies_n_free(const kt__f16_copies *copies, kt__f16_copy_kind kind) {
    return kt__slots_n_free(slots_of(copies, kind));
}

int32_t kt__f16_copy_take(kt__f16_copies *copies, int32_t page, kt__f16_copy_kind kind) {
    assert(kt__f16_copy_of(copies, page) == KT__F16_COPY_NONE);
    if (kind == KT__F16_COPY_KEPT) return kt__slot_take(copies->kept_slots, page);
    kt__slot_hold(copies->staged_slots, page);
    return kt__slot_take(copies->staged_slots, page);
}

void kt__f16_copy_drop(kt__f16_copies *copies, int32_t page) {
    kt__slot_drop(copies->kept_slots, page);
    if (kt__slot_of(copies->staged_slots, page) == KT__NO_SLOT) return;
    kt__slot_drop(copies->staged_slots, page);
    kt__slot_let_go(copies->staged_slots, page, true);
}

void kt__f16_copy_move(kt__f16_copies *copies, int32_t from, int32_t to) {
    kt__slot_move(copies->kept_slots, from, to);
}

void kt__f16_copy_hold(kt__f16_copies *copies, int32_t page) {
    kt__slot_hold(copies->kept_slots, page);
}

void kt__f16_copy_let_go(kt__f16_copies *copies, int32_t page) {
    kt__slot_let_go(copies->kept_slots, page, false);
}

bool kt__f16_copy_is_held(const kt__f16_copies *copies, int32_t page) {
    return kt__slot_is_held(copies->kept_slots, page);
}

/* Where the head's keys begin. */
static uint8_t *head_base(const kt__f16_copies *copies, int32_t page, int layer, int head) {
    int32_t kept = kt__slot_of(copies->kept_slots, page);
    int32_t staged = kt__slot_of(copies->staged_slots, page);
    kt__kv_heads heads = kt__kv_heads_of(&copies->shape, layer);
    size_t in_layer = (size_t)head * (part_bytes(heads.dim_k) + part_bytes(heads.dim_v));
    if (kept != KT__NO_SLOT)
        return copies->kept + (size_t)kept * copies->kept_slot + copies->kept_at[layer] + in_layer;
    if (staged == KT__NO_SLOT) return NULL;
    return copies->staged + (size_t)staged * copies->staged_slot + copies->staged_at[layer] +
           in_layer;
}

kt__f16 *kt__f16_copy_k(const kt__f16_copies *copies, int32_t page, int layer, int head) {
    uint8_t *base = head_base(copies, page, layer, head);
    return (kt__f16 *)(void *)base;
}

kt__f16 *kt__f16_copy_v(const kt__f16_copies *copies, int32_t page, int layer, int head) {
    uint8_t *base = head_base(copies, page, layer, head);
    size_t k_bytes = part_bytes(kt__kv_heads_of(&copies->shape, layer).dim_k);
    return base ? (kt__f16 *)(void *)(base + k_bytes) : NULL;
}
