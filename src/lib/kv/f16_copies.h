/* The f16 copies of pages: keys and values in f16, while their page is written or read so.
 *
 * Owns: their memory, and which page has which slot of it. A kept slot holds all layers of a page;
 * a staged one holds one layer, is used for each in turn, and only for what is not f16 anyway (the
 * layers that others read again have places of their own in it). A kept slot that nobody holds
 * stays with its page until another page needs it, the longest unused first. Threads as kv/kv.h, its user. */
#ifndef KT_KV_F16_COPIES_H
#define KT_KV_F16_COPIES_H

#include <kentang.h>

#include "base/math.h"
#include "kv/shape.h"

typedef struct kt__f16_copies kt__f16_copies;

kt_status kt__f16_copies_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv_room room,
                                kt__f16_copies **out, kt_error *err) KT_CHECKED;
void kt__f16_copies_destroy(kt__f16_copies *copies);
/* All kept or all staged ones. */
uint8_t *kt__f16_copies_memory(const kt__f16_copies *copies, bool staged, size_t *bytes);
/* Bytes of one kept or staged slot. */
size_t kt__f16_copies_kept_bytes(const kt__kv_shape *shape);
size_t kt__f16_copies_staged_bytes(const kt__kv_shape *shape);

typedef enum kt__f16_copy_kind {
    KT__F16_COPY_NONE,
    KT__F16_COPY_STAGED,
    KT__F16_COPY_KEPT
} kt__f16_copy_kind;
kt__f16_copy_kind kt__f16_copy_of(const kt__f16_copies *copies, int32_t page);
/* Slots that may be taken: of the kept ones those that nobody holds, too. */
int32_t kt__f16_copies_n_free(const kt__f16_copies *copies, kt__f16_copy_kind kind);
/* There is a slot left of the kind, and the page has none. Returns the page that lost its own for
 * that, or -1. */
int32_t kt__f16_copy_take(kt__f16_copies *copies, int32_t page, kt__f16_copy_kind kind);
void kt__f16_copy_drop(kt__f16_copies *copies, int32_t page); /* if it has one */
/* The page's kept slot becomes that of another page, which has none. */
void kt__f16_copy_move(kt__f16_copies *copies, int32_t from, int32_t to);
/* A page with more holds than releases keeps its slot, or the next one that it is given. */
void kt__f16_copy_hold(kt__f16_copies *copies, int32_t page);
void kt__f16_copy_let_go(kt__f16_copies *copies, int32_t page);
bool kt__f16_copy_is_held(const kt__f16_copies *copies, int32_t page);

/* The number of its slot, -1 without one; a store that another process leads takes it from there. false: there is no such
 * slot. */
int32_t kt__f16_copy_slot(const kt__f16_copies *copies, int32_t page);
bool kt__f16_copy_put(kt__f16_copies *copies, int32_t page, int32_t slot);

/* NULL: it has none. */
kt__f16 *kt__f16_copy_k(const kt__f16_copies *copies, int32_t page, int layer, int head);
kt__f16 *kt__f16_copy_v(const kt__f16_copies *copies, int32_t page, int layer, int head);

#endif
