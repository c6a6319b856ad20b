/* The paged key/value store.
 *
 * Owns: pages of 16 positions (all layers of these positions), their reference counts, and block
 * tables that grow, shrink, share and copy on write. Knows layers, heads and positions only. Not
 * thread-safe: the engine that owns it serialises; while a batch runs, kernels write disjoint parts
 * of pages that no other table shares.
 *
 * Layout: pages lie in slabs of a power of two of them, at least one attention split's. In a slab,
 * for each layer and head: K of all its pages, f16 [page][head_dim_k][16], then V, f16
 * [page][16][head_dim_v], each page's part 64-byte aligned. A sequence that grows undisturbed takes
 * consecutive pages, so that a split's keys are one linear stream, and its values another. Memory
 * is reserved as address space and touched as pages are used. */
#ifndef KT_KV_KV_H
#define KT_KV_KV_H

#include <kentang.h>

#include "base/f16.h"
#include "base/geometry.h"
#include "host/affinity.h"

typedef struct kt__kv_shape {
    int n_layer, n_head_kv, head_dim_k, head_dim_v;
} kt__kv_shape;

typedef struct kt__kv kt__kv;

/* n_pages pages at most (1 <= n_pages <= 2^30). */
kt_status kt__kv_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv **out,
                        kt_error *err) KT_CHECKED;
void kt__kv_destroy(kt__kv *kv);
/* Before anything is stored: the pages will lie on the NUMA nodes of the place's threads in turn.
 */
void kt__kv_spread(kt__kv *kv, const kt__affinity *place);

size_t kt__kv_page_bytes(const kt__kv_shape *shape);
int64_t kt__kv_n_pages(const kt__kv *kv);
int64_t kt__kv_n_used(const kt__kv *kv);

/* One head's part of a page in a layer. */
kt__f16 *kt__kv_k(const kt__kv *kv, int32_t page, int layer, int head);
kt__f16 *kt__kv_v(const kt__kv *kv, int32_t page, int layer, int head);

/* A block: one page's content in one piece, for files. For each layer and head: K, f16 [head_dim_k]
 * [16 positions], then V, f16 [16 positions][head_dim_v], little-endian, without padding. */
const kt__kv_shape *kt__kv_get_shape(const kt__kv *kv);
size_t kt__kv_block_bytes(const kt__kv_shape *shape);
void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out);
void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block);

/* ---- pages, for those who keep them outside tables ---- */
int32_t kt__kv_page_take(kt__kv *kv); /* -1: none left; one reference */
void kt__kv_page_ref(kt__kv *kv, int32_t page);
void kt__kv_page_drop(kt__kv *kv, int32_t page);
int32_t kt__kv_page_refs(const kt__kv *kv, int32_t page);
/* A page marked as kept is one that reclaim may give back when it has no other holder. */
void kt__kv_page_set_kept(kt__kv *kv, int32_t page, bool kept);
int64_t kt__kv_n_kept(const kt__kv *kv); /* of these, now */
/* Called when n more pages are needed than are free, before anything is refused: gives back what it
 * can. */
typedef void kt__kv_reclaim_fn(void *user, int64_t n_pages);
void kt__kv_set_reclaim(kt__kv *kv, kt__kv_reclaim_fn *reclaim, void *user);

/* ---- block tables: position p lies in pages[p / 16], slot p % 16 ---- */
typedef struct kt__kv_table {
    int32_t *pages;
    int32_t n_pages, cap;
} kt__kv_table;

/* Room for at most max_pos positions; no page is taken yet. */
kt_status kt__kv_table_init(kt__kv_table *table, int64_t max_pos, kt_error *err) KT_CHECKED;
void kt__kv_table_free(kt__kv *kv, kt__kv_table *table);
/* Makes positions [n_old, n_new) writable: takes pages, and copies the one that holds n_old - 1 if
 * it is shared. KT_E_NOMEM when no page is left: the table is then as it was. No heap allocation.
 */
kt_status kt__kv_table_grow(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt_error *err) KT_CHECKED;
/* Returns the pages beyond those that hold the first n_pos positions. */
void kt__kv_table_truncate(kt__kv *kv, kt__kv_table *table, int64_t n_pos);
/* Puts page in place of table's index-th, or after its last one; the table holds a reference of its
 * own. */
void kt__kv_table_set(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page);
/* dst (initialised, empty) shares the pages of src's first n_pos positions. */
void kt__kv_table_share(kt__kv *kv, const kt__kv_table *src, int64_t n_pos, kt__kv_table *dst);

#endif
