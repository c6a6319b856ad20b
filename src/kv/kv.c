#include "kv/kv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/nodes.h"
#include "host/pages.h"

enum {
    CACHE_LINE = 64,
    SLAB_PAGES_MAX = 64,   /* 1024 positions */
    SLAB_BYTES = 16u << 20 /* slabs are smaller where a page is large, but hold a split */
};

struct kt__kv {
    kt__kv_shape shape;
    size_t k_head_bytes, v_head_bytes; /* one head's part of a page */
    size_t page_bytes;
    int slab_shift; /* log2 of the pages of a slab */
    uint8_t *base;
    size_t mapped_bytes;
    int64_t n_pages;
    _Atomic int64_t n_used; /* read from any thread, at any time */
    int32_t *refs;          /* [n_pages] holders of the page */
    bool *kept;             /* [n_pages] reclaim can give it back */
    int64_t n_kept;         /* such pages with no other holder */
    int32_t *free_ids;      /* stack of free pages; the lowest numbers on top */
    kt__kv_reclaim_fn *reclaim;
    void *reclaim_user;
};

static size_t k_head_bytes(const kt__kv_shape *s) {
    return kt__align_up((size_t)s->head_dim_k * KT__PAGE_POS * sizeof(kt__f16), CACHE_LINE);
}

static size_t v_head_bytes(const kt__kv_shape *s) {
    return kt__align_up((size_t)s->head_dim_v * KT__PAGE_POS * sizeof(kt__f16), CACHE_LINE);
}

size_t kt__kv_page_bytes(const kt__kv_shape *s) {
    return (k_head_bytes(s) + v_head_bytes(s)) * (size_t)s->n_head_kv * (size_t)s->n_layer;
}

/* The largest slab within SLAB_BYTES, but one attention split at least. */
static int slab_shift_for(size_t page_bytes) {
    int pages = SLAB_PAGES_MAX, shift = 0;
    while (pages > KT__SPLIT_PAGES && (size_t)pages * page_bytes > SLAB_BYTES) pages /= 2;
    while (1 << shift < pages) shift++;
    return shift;
}

static kt_status map_pages(kt__kv *kv, kt_error *err) {
    size_t bytes, slab = (size_t)1 << kv->slab_shift;
    size_t whole = ((size_t)kv->n_pages + slab - 1) / slab * slab;
    if (!kt__mul_size(kv->page_bytes, whole, &bytes)) {
        return kt__fail(err, KT_E_NOMEM, "the K/V store is too large for the address space");
    }
    void *p = kt__pages_alloc(bytes);
    if (!p) {
        return kt__fail(err, KT_E_NOMEM, "cannot reserve %zu bytes for the K/V store: %s", bytes,
                        strerror(errno));
    }
    kv->base = p;
    kv->mapped_bytes = bytes;
    return KT_OK;
}

kt_status kt__kv_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    if (n_pages < 1 || n_pages > (int64_t)1 << 30) {
        return kt__fail(err, KT_E_ARG, "a K/V store of %lld pages is out of range",
                        (long long)n_pages);
    }
    kt__kv *kv = kt__calloc(1, sizeof *kv);
    if (!kv) return kt__fail_nomem(err, "the K/V store", sizeof *kv);
    kv->shape = *shape;
    kv->k_head_bytes = k_head_bytes(shape);
    kv->v_head_bytes = v_head_bytes(shape);
    kv->page_bytes = kt__kv_page_bytes(shape);
    kv->slab_shift = slab_shift_for(kv->page_bytes);
    kv->n_pages = n_pages;
    kv->refs = kt__calloc((size_t)n_pages, sizeof *kv->refs);
    kv->free_ids = kt__calloc((size_t)n_pages, sizeof *kv->free_ids);
    kv->kept = kt__calloc((size_t)n_pages, sizeof *kv->kept);
    if (!kv->refs || !kv->free_ids || !kv->kept) {
        status = kt__fail_nomem(err, "the K/V page lists", (size_t)n_pages * 2 * sizeof(int32_t));
        goto out;
    }
    for (int64_t i = 0; i < n_pages; i++) kv->free_ids[i] = (int32_t)(n_pages - 1 - i);
    KT__TRY(map_pages(kv, err));
    *out = kv;
    kv = NULL;
out:
    kt__kv_destroy(kv);
    return status;
}

void kt__kv_destroy(kt__kv *kv) {
    if (!kv) return;
    kt__pages_free(kv->base, kv->mapped_bytes);
    kt__free(kv->refs);
    kt__free(kv->free_ids);
    kt__free(kv->kept);
    kt__free(kv);
}

void kt__kv_spread(kt__kv *kv, const kt__affinity *place) {
    kt__nodes_spread(kv->base, kv->mapped_bytes, place);
}

int64_t kt__kv_n_pages(const kt__kv *kv) {
    return kv->n_pages;
}
int64_t kt__kv_n_used(const kt__kv *kv) {
    return kv->n_used;
}

/* Where the K of a layer and head begins in a page's slab; the page's number in the slab in *index.
 */
static uint8_t *head_base(const kt__kv *kv, int32_t page, int layer, int head, size_t *index) {
    size_t slab = (size_t)page >> kv->slab_shift, n = (size_t)1 << kv->slab_shift;
    size_t row = (size_t)layer * (size_t)kv->shape.n_head_kv + (size_t)head;
    *index = (size_t)page & (n - 1);
    return kv->base + (slab * kv->page_bytes + row * (kv->k_head_bytes + kv->v_head_bytes)) * n;
}

kt__f16 *kt__kv_k(const kt__kv *kv, int32_t page, int layer, int head) {
    size_t index;
    uint8_t *base = head_base(kv, page, layer, head, &index);
    return (kt__f16 *)(void *)(base + index * kv->k_head_bytes);
}

kt__f16 *kt__kv_v(const kt__kv *kv, int32_t page, int layer, int head) {
    size_t index;
    uint8_t *base = head_base(kv, page, layer, head, &index);
    return (kt__f16 *)(void *)(base + (kv->k_head_bytes << kv->slab_shift) +
                               index * kv->v_head_bytes);
}

/* ---- a page as one block ---- */

const kt__kv_shape *kt__kv_get_shape(const kt__kv *kv) {
    return &kv->shape;
}

static size_t k_plain_bytes(const kt__kv_shape *s) {
    return (size_t)s->head_dim_k * KT__PAGE_POS * sizeof(kt__f16);
}

static size_t v_plain_bytes(const kt__kv_shape *s) {
    return (size_t)s->head_dim_v * KT__PAGE_POS * sizeof(kt__f16);
}

size_t kt__kv_block_bytes(const kt__kv_shape *s) {
    return (k_plain_bytes(s) + v_plain_bytes(s)) * (size_t)s->n_head_kv * (size_t)s->n_layer;
}

void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out) {
    uint8_t *at = out;
    size_t k_bytes = k_plain_bytes(&kv->shape), v_bytes = v_plain_bytes(&kv->shape);
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        for (int head = 0; head < kv->shape.n_head_kv; head++, at += k_bytes + v_bytes) {
            memcpy(at, kt__kv_k(kv, page, layer, head), k_bytes);
            memcpy(at + k_bytes, kt__kv_v(kv, page, layer, head), v_bytes);
        }
    }
}

void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block) {
    const uint8_t *at = block;
    size_t k_bytes = k_plain_bytes(&kv->shape), v_bytes = v_plain_bytes(&kv->shape);
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        for (int head = 0; head < kv->shape.n_head_kv; head++, at += k_bytes + v_bytes) {
            memcpy(kt__kv_k(kv, page, layer, head), at, k_bytes);
            memcpy(kt__kv_v(kv, page, layer, head), at + k_bytes, v_bytes);
        }
    }
}

/* ---- taking and giving back ---- */

void kt__kv_set_reclaim(kt__kv *kv, kt__kv_reclaim_fn *reclaim, void *user) {
    kv->reclaim = reclaim;
    kv->reclaim_user = user;
}

/* Whether n pages are free, after asking for them if they are not. */
static bool have_pages(kt__kv *kv, int64_t n) {
    int64_t short_by = n - (kv->n_pages - kv->n_used);
    if (short_by > 0 && kv->reclaim) kv->reclaim(kv->reclaim_user, short_by);
    return n <= kv->n_pages - kv->n_used;
}

static int32_t page_take(kt__kv *kv) {
    assert(kv->n_used < kv->n_pages);
    int32_t page = kv->free_ids[kv->n_pages - 1 - kv->n_used++];
    kv->refs[page] = 1;
    return page;
}

int32_t kt__kv_page_take(kt__kv *kv) {
    return have_pages(kv, 1) ? page_take(kv) : -1;
}

void kt__kv_page_ref(kt__kv *kv, int32_t page) {
    assert(kv->refs[page] > 0);
    if (kv->refs[page]++ == 1 && kv->kept[page]) kv->n_kept--;
}

int32_t kt__kv_page_refs(const kt__kv *kv, int32_t page) {
    return kv->refs[page];
}

void kt__kv_page_drop(kt__kv *kv, int32_t page) {
    assert(kv->refs[page] > 0);
    kv->refs[page]--;
    if (kv->refs[page] == 1 && kv->kept[page]) kv->n_kept++;
    if (kv->refs[page] == 0) kv->free_ids[kv->n_pages - 1 - --kv->n_used] = page;
}

void kt__kv_page_set_kept(kt__kv *kv, int32_t page, bool kept) {
    if (kv->kept[page] == kept) return;
    kv->kept[page] = kept;
    if (kv->refs[page] == 1) kv->n_kept += kept ? 1 : -1;
}

int64_t kt__kv_n_kept(const kt__kv *kv) {
    return kv->n_kept;
}

/* ---- tables ---- */

kt_status kt__kv_table_init(kt__kv_table *table, int64_t max_pos, kt_error *err) {
    int64_t cap = (max_pos + KT__PAGE_POS - 1) / KT__PAGE_POS;
    *table = (kt__kv_table){0};
    table->pages = kt__calloc((size_t)cap, sizeof *table->pages);
    if (!table->pages) return kt__fail_nomem(err, "a block table", (size_t)cap * sizeof(int32_t));
    table->cap = (int32_t)cap;
    return KT_OK;
}

void kt__kv_table_free(kt__kv *kv, kt__kv_table *table) {
    if (!table->pages) return;
    kt__kv_table_truncate(kv, table, 0);
    kt__free(table->pages);
    *table = (kt__kv_table){0};
}

static void page_copy(kt__kv *kv, int32_t from, int32_t to) {
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        for (int head = 0; head < kv->shape.n_head_kv; head++) {
            memcpy(kt__kv_k(kv, to, layer, head), kt__kv_k(kv, from, layer, head),
                   kv->k_head_bytes);
            memcpy(kt__kv_v(kv, to, layer, head), kt__kv_v(kv, from, layer, head),
                   kv->v_head_bytes);
        }
    }
}

/* Gives the table its own copy of the page that position n_old will share with earlier ones. */
static void unshare_last(kt__kv *kv, kt__kv_table *table, int32_t index) {
    int32_t old = table->pages[index];
    int32_t own = page_take(kv);
    page_copy(kv, old, own);
    table->pages[index] = own;
    kt__kv_page_drop(kv, old);
}

kt_status kt__kv_table_grow(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt_error *err) {
    int32_t need = (int32_t)((n_new + KT__PAGE_POS - 1) / KT__PAGE_POS);
    int32_t last = (int32_t)(n_old / KT__PAGE_POS);
    assert(need <= table->cap);
    bool copy = n_new > n_old && n_old % KT__PAGE_POS != 0 && kv->refs[table->pages[last]] > 1;
    int64_t take = (need > table->n_pages ? need - table->n_pages : 0) + (copy ? 1 : 0);
    if (!have_pages(kv, take)) {
        return kt__fail(err, KT_E_NOMEM,
                        "the K/V store is full: %lld of %lld pages of %d positions in use; close a "
                        "sequence or open the engine with a larger kv_bytes",
                        (long long)kv->n_used, (long long)kv->n_pages, KT__PAGE_POS);
    }
    if (copy) unshare_last(kv, table, last);
    while (table->n_pages < need) table->pages[table->n_pages++] = page_take(kv);
    return KT_OK;
}

void kt__kv_table_truncate(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int32_t keep = (int32_t)((n_pos + KT__PAGE_POS - 1) / KT__PAGE_POS);
    while (table->n_pages > keep) kt__kv_page_drop(kv, table->pages[--table->n_pages]);
}

void kt__kv_table_set(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page) {
    assert(index <= table->n_pages && index < table->cap);
    kt__kv_page_ref(kv, page);
    if (index == table->n_pages) {
        table->n_pages++;
    } else {
        kt__kv_page_drop(kv, table->pages[index]);
    }
    table->pages[index] = page;
}

void kt__kv_table_share(kt__kv *kv, const kt__kv_table *src, int64_t n_pos, kt__kv_table *dst) {
    int32_t n = (int32_t)((n_pos + KT__PAGE_POS - 1) / KT__PAGE_POS);
    assert(dst->n_pages == 0 && n <= src->n_pages && n <= dst->cap);
    for (int32_t i = 0; i < n; i++) {
        dst->pages[i] = src->pages[i];
        kt__kv_page_ref(kv, src->pages[i]);
    }
    dst->n_pages = n;
}
