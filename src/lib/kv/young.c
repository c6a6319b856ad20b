#include "kv/young.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

enum { CACHE_LINE = 64, NONE = -1 };

struct kt__young {
    kt__kv_shape shape;
    size_t k_bytes, v_bytes, layer_bytes; /* of a head, of a head, of a layer's heads */
    kt__kv_room room;
    uint8_t *kept, *staged;
    size_t kept_bytes, staged_bytes;
    int32_t *piece_of;  /* [n_pages] NONE, a kept piece, or room.n_kept + a staged one */
    int32_t *n_holders; /* [n_pages] */
    int32_t *page_of;   /* [n_kept] pages of the kept pieces, or NONE */
    uint64_t *used_at;  /* [n_kept] when it was taken or let go, by clock */
    uint64_t clock;
    int32_t *free_kept; /* stacks; the lowest numbers on top */
    int32_t *free_staged;
    int32_t n_free_kept, n_free_staged;
    int32_t n_loose; /* kept pieces of pages that nobody holds */
};

static size_t part_bytes(int head_dim) {
    return kt__align_up((size_t)head_dim * KT__PAGE_POS * sizeof(kt__f16), CACHE_LINE);
}

size_t kt__young_staged_bytes(const kt__kv_shape *s) {
    return (part_bytes(s->head_dim_k) + part_bytes(s->head_dim_v)) * (size_t)s->n_head_kv;
}

size_t kt__young_kept_bytes(const kt__kv_shape *s) {
    return kt__young_staged_bytes(s) * (size_t)s->n_layer;
}

static int32_t *free_stack(int32_t n) {
    int32_t *ids = kt__calloc((size_t)n + 1, sizeof *ids);
    for (int32_t i = 0; ids && i < n; i++) ids[i] = n - 1 - i;
    return ids;
}

static kt_status map_pieces(size_t piece, int32_t n, uint8_t **out, size_t *bytes, kt_error *err) {
    if (!kt__mul_size(piece, (size_t)n, bytes)) *bytes = SIZE_MAX;
    if (*bytes == 0) return KT_OK;
    *out = *bytes < SIZE_MAX / 2 ? kt__pages_alloc(*bytes) : NULL;
    if (*out) return KT_OK;
    return kt__fail(err, KT_E_NOMEM, "cannot reserve %zu bytes for young K/V: %s", *bytes,
                    strerror(errno));
}

kt_status kt__young_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv_room room,
                           kt__young **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__young *y = kt__calloc(1, sizeof *y);
    if (!y) return kt__fail_nomem(err, "the young pages", sizeof *y);
    y->shape = *shape;
    y->k_bytes = part_bytes(shape->head_dim_k);
    y->v_bytes = part_bytes(shape->head_dim_v);
    y->layer_bytes = kt__young_staged_bytes(shape);
    y->room = room;
    y->piece_of = kt__malloc((size_t)n_pages * sizeof *y->piece_of);
    y->n_holders = kt__calloc((size_t)n_pages, sizeof *y->n_holders);
    y->page_of = kt__calloc((size_t)room.n_kept + 1, sizeof *y->page_of);
    y->used_at = kt__calloc((size_t)room.n_kept + 1, sizeof *y->used_at);
    y->free_kept = free_stack(room.n_kept);
    y->free_staged = free_stack(room.n_staged);
    if (!y->piece_of || !y->n_holders || !y->page_of || !y->used_at || !y->free_kept ||
        !y->free_staged) {
        status = kt__fail_nomem(err, "the lists of young pages", (size_t)n_pages * sizeof(int32_t));
        goto out;
    }
    for (int64_t i = 0; i < n_pages; i++) y->piece_of[i] = NONE;
    for (int32_t i = 0; i < room.n_kept; i++) y->page_of[i] = NONE;
    y->n_free_kept = room.n_kept;
    y->n_free_staged = room.n_staged;
    KT__TRY(map_pieces(kt__young_kept_bytes(shape), room.n_kept, &y->kept, &y->kept_bytes, err));
    KT__TRY(map_pieces(y->layer_bytes, room.n_staged, &y->staged, &y->staged_bytes, err));
    *out = y;
    y = NULL;
out:
    kt__young_destroy(y);
    return status;
}

void kt__young_destroy(kt__young *y) {
    if (!y) return;
    if (y->kept) kt__pages_free(y->kept, y->kept_bytes);
    if (y->staged) kt__pages_free(y->staged, y->staged_bytes);
    kt__free(y->piece_of);
    kt__free(y->n_holders);
    kt__free(y->page_of);
    kt__free(y->used_at);
    kt__free(y->free_kept);
    kt__free(y->free_staged);
    kt__free(y);
}

kt__youth kt__young_of(const kt__young *y, int32_t page) {
    if (y->piece_of[page] == NONE) return KT__YOUTH_NONE;
    return y->piece_of[page] < y->room.n_kept ? KT__YOUTH_KEPT : KT__YOUTH_STAGED;
}

int32_t kt__young_n_free(const kt__young *y, kt__youth kind) {
    return kind == KT__YOUTH_KEPT ? y->n_free_kept + y->n_loose : y->n_free_staged;
}

static bool is_loose(const kt__young *y, int32_t page) {
    return y->n_holders[page] == 0 && kt__young_of(y, page) == KT__YOUTH_KEPT;
}

/* Gives back the piece that is unused the longest. */
static int32_t drop_oldest(kt__young *y) {
    int32_t oldest = NONE;
    for (int32_t i = 0; i < y->room.n_kept; i++) {
        if (y->page_of[i] == NONE || !is_loose(y, y->page_of[i])) continue;
        if (oldest == NONE || y->used_at[i] < y->used_at[oldest]) oldest = i;
    }
    int32_t page = y->page_of[oldest];
    kt__young_drop(y, page);
    return page;
}

static void give_kept(kt__young *y, int32_t page, int32_t piece) {
    y->piece_of[page] = piece;
    y->page_of[piece] = page;
    y->used_at[piece] = ++y->clock;
    y->n_loose += y->n_holders[page] == 0;
}

int32_t kt__young_take(kt__young *y, int32_t page, kt__youth kind) {
    int32_t loser = NONE;
    assert(y->piece_of[page] == NONE && kt__young_n_free(y, kind) > 0);
    if (kind == KT__YOUTH_STAGED) {
        y->piece_of[page] = y->room.n_kept + y->free_staged[--y->n_free_staged];
        return loser;
    }
    if (y->n_free_kept == 0) loser = drop_oldest(y);
    give_kept(y, page, y->free_kept[--y->n_free_kept]);
    return loser;
}

void kt__young_drop(kt__young *y, int32_t page) {
    kt__youth kind = kt__young_of(y, page);
    if (kind == KT__YOUTH_KEPT) {
        y->n_loose -= y->n_holders[page] == 0;
        y->page_of[y->piece_of[page]] = NONE;
        y->free_kept[y->n_free_kept++] = y->piece_of[page];
    }
    if (kind == KT__YOUTH_STAGED)
        y->free_staged[y->n_free_staged++] = y->piece_of[page] - y->room.n_kept;
    y->piece_of[page] = NONE;
}

void kt__young_move(kt__young *y, int32_t from, int32_t to) {
    int32_t piece = y->piece_of[from];
    assert(kt__young_of(y, from) == KT__YOUTH_KEPT && y->piece_of[to] == NONE);
    y->n_loose -= y->n_holders[from] == 0;
    y->piece_of[from] = NONE;
    give_kept(y, to, piece);
}

void kt__young_hold(kt__young *y, int32_t page) {
    y->n_loose -= is_loose(y, page);
    y->n_holders[page]++;
}

void kt__young_let_go(kt__young *y, int32_t page) {
    assert(y->n_holders[page] > 0);
    y->n_holders[page]--;
    if (!is_loose(y, page)) return;
    y->n_loose++;
    y->used_at[y->piece_of[page]] = ++y->clock;
}

bool kt__young_is_held(const kt__young *y, int32_t page) {
    return y->n_holders[page] > 0;
}

/* Where the head's keys begin. */
static uint8_t *head_base(const kt__young *y, int32_t page, int layer, int head) {
    int32_t piece = y->piece_of[page];
    if (piece == NONE) return NULL;
    size_t in_layer = (size_t)head * (y->k_bytes + y->v_bytes);
    if (piece >= y->room.n_kept)
        return y->staged + (size_t)(piece - y->room.n_kept) * y->layer_bytes + in_layer;
    size_t index = (size_t)piece * (size_t)y->shape.n_layer + (size_t)layer;
    return y->kept + index * y->layer_bytes + in_layer;
}

kt__f16 *kt__young_k(const kt__young *y, int32_t page, int layer, int head) {
    uint8_t *base = head_base(y, page, layer, head);
    return (kt__f16 *)(void *)base;
}

kt__f16 *kt__young_v(const kt__young *y, int32_t page, int layer, int head) {
    uint8_t *base = head_base(y, page, layer, head);
    return base ? (kt__f16 *)(void *)(base + y->k_bytes) : NULL;
}
