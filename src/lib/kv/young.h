/* The young forms of pages: keys and values in f16, while their page is written or read so.
 *
 * Owns: the memory for them, and which page has which piece of it. A piece is of all layers (kept),
 * or of one, and used for each layer in turn (staged). A kept one that nobody holds stays with its
 * page until another page needs it, the longest unused first. A kept piece is the whole page; a
 * staged one is used for what is not f16 anyway.
 * Threads as kv/kv.h, its user. */
#ifndef KT_KV_YOUNG_H
#define KT_KV_YOUNG_H

#include <kentang.h>

#include "base/f16.h"
#include "kv/shape.h"

typedef struct kt__young kt__young;

kt_status kt__young_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv_room room,
                           kt__young **out, kt_error *err) KT_CHECKED;
void kt__young_destroy(kt__young *young);
/* Bytes of one kept or staged piece. */
size_t kt__young_kept_bytes(const kt__kv_shape *shape);
size_t kt__young_staged_bytes(const kt__kv_shape *shape);

typedef enum kt__youth { KT__YOUTH_NONE, KT__YOUTH_STAGED, KT__YOUTH_KEPT } kt__youth;
kt__youth kt__young_of(const kt__young *young, int32_t page);
/* Pieces that may be taken: of the kept ones those that nobody holds, too. */
int32_t kt__young_n_free(const kt__young *young, kt__youth kind);
/* There is a piece left of the kind, and the page has none. Returns the page that lost its own for
 * that, or -1. */
int32_t kt__young_take(kt__young *young, int32_t page, kt__youth kind);
void kt__young_drop(kt__young *young, int32_t page); /* if it has one */
/* The page's kept piece becomes that of another page, which has none. */
void kt__young_move(kt__young *young, int32_t from, int32_t to);
/* What is held as often as it was not yet let go keeps its piece, or the one that it will get. */
void kt__young_hold(kt__young *young, int32_t page);
void kt__young_let_go(kt__young *young, int32_t page);
bool kt__young_is_held(const kt__young *young, int32_t page);

/* NULL: it has none. */
kt__f16 *kt__young_k(const kt__young *young, int32_t page, int layer, int head);
kt__f16 *kt__young_v(const kt__young *young, int32_t page, int layer, int head);

#endif
