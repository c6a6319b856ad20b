#include "kv/f16_copies.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

enum { CACHE_LINE = 64, NONE = -1 };

struct kt__f16_copies {
    kt__kv_shape shape;
    size_t *kept_at, *staged_at;   /* [n_layer] where a layer's heads begin in a slot */
    size_t kept_slot, staged_slot; /* bytes */
    kt__kv_room room;
    uint8_t *kept, *staged;
    size_t kept_bytes, staged_bytes;
    int32_t *slot_of;   /* [n_pages] NONE, a kept slot, or room.n_kept + a staged one */
    int32_t *n_holders; /* [n_pages] */
    int32_t *page_of;   /* [n_kept] pages of the kept slots, or NONE */
    uint64_t *used_at;  /* [n_kept] when it was taken or let go, by clock */
    uint64_t clock;
    int32_t *free_kept; /* stacks; the lowest numbers on top */
    int32_t *free_staged;
    int32_t n_free_kept, n_free_staged;
    int32_t n_loose; /* kept slots of pages that nobody holds */
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

static int32_t *free_stack(int32_t n) {
    int32_t *ids = kt__calloc((size_t)n + 1, sizeof *ids);
    for (int32_t i = 0; ids && i < n; i++) ids[i] = n - 1 - i;
    return ids;
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
    copies->room = room;
    copies->kept_at = kt__calloc((size_t)shape->n_layer, sizeof *copies->kept_at);
    copies->staged_at = kt__calloc((size_t)shape->n_layer, sizeof *copies->staged_at);
    copies->slot_of = kt__malloc((size_t)n_pages * sizeof *copies->slot_of);
    copies->n_holders = kt__calloc((size_t)n_pages, sizeof *copies->n_holders);
    copies->page_of = kt__calloc((size_t)room.n_kept + 1, sizeof *copies->page_of);
    copies->used_at = kt__calloc((size_t)room.n_kept + 1, sizeof *copies->used_at);
    copies->free_kept = free_stack(room.n_kept);
    copies->free_staged = free_stack(room.n_staged);
    if (!copies->slot_of || !copies->n_holders || !copies->page_of || !copies->used_at ||
        !copies->free_kept || !copies->free_staged || !copies->kept_at || !copies->staged_at) {
        status = kt__fail_nomem(err, "the lists of f16 pages", (size_t)n_pages * sizeof(int32_t));
        goto out;
    }
    place_layers(copies);
    for (int64_t i = 0; i < n_pages; i++) copies->slot_of[i] = NONE;
    for (int32_t i = 0; i < room.n_kept; i++) copies->page_of[i] = NONE;
    copies->n_free_kept = room.n_kept;
    copies->n_free_staged = room.n_staged;
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
    kt__free(copies->slot_of);
    kt__free(copies->n_holders);
    kt__free(copies->page_of);
    kt__free(copies->used_at);
    kt__free(copies->free_kept);
    kt__free(copies->free_staged);
    kt__free(copies);
}

kt__f16_copy_kind kt__f16_copy_of(const kt__f16_copies *copies, int32_t page) {
    if (copies->slot_of[page] == NONE) return KT__F16_COPY_NONE;
    return copies->slot_of[page] < copies->room.n_kept ? KT__F16_COPY_KEPT : KT__F16_COPY_STAGED;
}

int32_t kt__f16_copies_n_free(const kt__f16_copies *copies, kt__f16_copy_kind kind) {
    return kind == KT__F16_COPY_KEPT ? copies->n_free_kept + copies->n_loose
                                     : copies->n_free_staged;
}

static bool is_loose(const kt__f16_copies *copies, int32_t page) {
    return copies->n_holders[page] == 0 && kt__f16_copy_of(copies, page) == KT__F16_COPY_KEPT;
}

/* Gives back the slot that is unused the longest. */
static int32_t drop_oldest(kt__f16_copies *copies) {
    int32_t oldest = NONE;
    for (int32_t i = 0; i < copies->room.n_kept; i++) {
        if (copies->page_of[i] == NONE || !is_loose(copies, copies->page_of[i])) continue;
        if (oldest == NONE || copies->used_at[i] < copies->used_at[oldest]) oldest = i;
    }
    int32_t page = copies->page_of[oldest];
    kt__f16_copy_drop(copies, page);
    return page;
}

static void give_kept(kt__f16_copies *copies, int32_t page, int32_t slot) {
    copies->slot_of[page] = slot;
    copies->page_of[slot] = page;
    copies->used_at[slot] = ++copies->clock;
    copies->n_loose += copies->n_holders[page] == 0;
}

int32_t kt__f16_copy_take(kt__f16_copies *copies, int32_t page, kt__f16_copy_kind kind) {
    int32_t loser = NONE;
    assert(copies->slot_of[page] == NONE && kt__f16_copies_n_free(copies, kind) > 0);
    if (kind == KT__F16_COPY_STAGED) {
        copies->slot_of[page] = copies->room.n_kept + copies->free_staged[--copies->n_free_staged];
        return loser;
    }
    if (copies->n_free_kept == 0) loser = drop_oldest(copies);
    give_kept(copies, page, copies->free_kept[--copies->n_free_kept]);
    return loser;
}

void kt__f16_copy_drop(kt__f16_copies *copies, int32_t page) {
    kt__f16_copy_kind kind = kt__f16_copy_of(copies, page);
    if (kind == KT__F16_COPY_KEPT) {
        copies->n_loose -= copies->n_holders[page] == 0;
        copies->page_of[copies->slot_of[page]] = NONE;
        copies->free_kept[copies->n_free_kept++] = copies->slot_of[page];
    }
    if (kind == KT__F16_COPY_STAGED)
        copies->free_staged[copies->n_free_staged++] = copies->slot_of[page] - copies->room.n_kept;
    copies->slot_of[page] = NONE;
}

void kt__f16_copy_move(kt__f16_copies *copies, int32_t from, int32_t to) {
    int32_t slot = copies->slot_of[from];
    assert(kt__f16_copy_of(copies, from) == KT__F16_COPY_KEPT && copies->slot_of[to] == NONE);
    copies->n_loose -= copies->n_holders[from] == 0;
    copies->slot_of[from] = NONE;
    give_kept(copies, to, slot);
}

void kt__f16_copy_hold(kt__f16_copies *copies, int32_t page) {
    copies->n_loose -= is_loose(copies, page);
    copies->n_holders[page]++;
}

void kt__f16_copy_let_go(kt__f16_copies *copies, int32_t page) {
    assert(copies->n_holders[page] > 0);
    copies->n_holders[page]--;
    if (!is_loose(copies, page)) return;
    copies->n_loose++;
    copies->used_at[copies->slot_of[page]] = ++copies->clock;
}

bool kt__f16_copy_is_held(const kt__f16_copies *copies, int32_t page) {
    return copies->n_holders[page] > 0;
}

/* Where the head's keys begin. */
static uint8_t *head_base(const kt__f16_copies *copies, int32_t page, int layer, int head) {
    int32_t slot = copies->slot_of[page];
    if (slot == NONE) return NULL;
    kt__kv_heads heads = kt__kv_heads_of(&copies->shape, layer);
    size_t in_layer = (size_t)head * (part_bytes(heads.dim_k) + part_bytes(heads.dim_v));
    if (slot >= copies->room.n_kept)
        return copies->staged + (size_t)(slot - copies->room.n_kept) * copies->staged_slot +
               copies->staged_at[layer] + in_layer;
    return copies->kept + (size_t)slot * copies->kept_slot + copies->kept_at[layer] + in_layer;
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
