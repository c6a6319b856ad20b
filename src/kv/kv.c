#include "kv/kv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/nodes.h"
#include "host/pages.h"
#include "kv/young.h"

enum {
    CACHE_LINE = 64,
    SLAB_PAGES_MAX = 64,   /* 1024 positions */
    SLAB_BYTES = 16u << 20 /* slabs are smaller where a page is large, but hold a split */
};

struct kt__kv {
    kt__kv_shape shape;
    size_t *layer_at;    /* [n_layer] where a layer begins, of the page's bytes */
    size_t v_head_bytes; /* one head's values of a page */
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
    kt__young *young;   /* NULL: keys and values are f16 */
    kt__states *states; /* NULL: no layer is recurrent */
};

/* One head's part of a page, without padding. */
static size_t k_plain_bytes(const kt__kv_shape *s, int layer) {
    kt__kv_form form = kt__kv_k_form(s, layer);
    if (form != KT__KV_F16) return kt__sealed_k_bytes(form, s->head_dim_k);
    return (size_t)s->head_dim_k * KT__PAGE_POS * sizeof(kt__f16);
}

static size_t v_plain_bytes(const kt__kv_shape *s) {
    if (s->v_form != KT__KV_F16) return kt__sealed_v_bytes(s->v_form, s->head_dim_v);
    return (size_t)s->head_dim_v * KT__PAGE_POS * sizeof(kt__f16);
}

/* Whole cache lines, but halves of them in 4 bits, where a head's scales take half a line. */
static size_t pad_part(kt__kv_form form, size_t bytes) {
    return kt__align_up(bytes, form == KT__KV_Q4 ? CACHE_LINE / 2 : CACHE_LINE);
}

static size_t k_head_bytes(const kt__kv_shape *s, int layer) {
    return pad_part(kt__kv_k_form(s, layer), k_plain_bytes(s, layer));
}

static size_t v_head_bytes(const kt__kv_shape *s) {
    return pad_part(s->v_form, v_plain_bytes(s));
}

static size_t layer_bytes(const kt__kv_shape *s, int layer) {
    return (k_head_bytes(s, layer) + v_head_bytes(s)) * (size_t)s->n_head_kv;
}

size_t kt__kv_page_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++) bytes += layer_bytes(s, layer);
    return bytes;
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
    int32_t n = (int32_t)(n_pages & INT32_MAX);
    kt__kv_room all = {n, 0, n};
    return kt__kv_create_with(shape, n_pages, all, out, err);
}

kt_status kt__kv_create_with(const kt__kv_shape *shape, int64_t n_pages, kt__kv_room room,
                             kt__kv **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    if (n_pages < 1 || n_pages > (int64_t)1 << 30) {
        return kt__fail(err, KT_E_ARG, "a K/V store of %lld pages is out of range",
                        (long long)n_pages);
    }
    kt__kv *kv = kt__calloc(1, sizeof *kv);
    if (!kv) return kt__fail_nomem(err, "the K/V store", sizeof *kv);
    kv->shape = *shape;
    kv->v_head_bytes = v_head_bytes(shape);
    kv->page_bytes = kt__kv_page_bytes(shape);
    kv->slab_shift = slab_shift_for(kv->page_bytes);
    kv->n_pages = n_pages;
    kv->refs = kt__calloc((size_t)n_pages, sizeof *kv->refs);
    kv->free_ids = kt__calloc((size_t)n_pages, sizeof *kv->free_ids);
    kv->kept = kt__calloc((size_t)n_pages, sizeof *kv->kept);
    kv->layer_at = kt__calloc((size_t)shape->n_layer, sizeof *kv->layer_at);
    if (!kv->refs || !kv->free_ids || !kv->kept || !kv->layer_at) {
        status = kt__fail_nomem(err, "the K/V page lists", (size_t)n_pages * 2 * sizeof(int32_t));
        goto out;
    }
    for (int64_t i = 0; i < n_pages; i++) kv->free_ids[i] = (int32_t)(n_pages - 1 - i);
    for (int i = 1; i < shape->n_layer; i++)
        kv->layer_at[i] = kv->layer_at[i - 1] + layer_bytes(shape, i - 1);
    KT__TRY(map_pages(kv, err));
    if (kt__kv_is_sealing(shape)) KT__TRY(kt__young_create(shape, n_pages, room, &kv->young, err));
    if (shape->state_bytes)
        KT__TRY(kt__states_create(shape->state_bytes, n_pages, room.n_states, &kv->states, err));
    *out = kv;
    kv = NULL;
out:
    kt__kv_destroy(kv);
    return status;
}

void kt__kv_destroy(kt__kv *kv) {
    if (!kv) return;
    kt__pages_free(kv->base, kv->mapped_bytes);
    kt__young_destroy(kv->young);
    kt__states_destroy(kv->states);
    kt__free(kv->refs);
    kt__free(kv->free_ids);
    kt__free(kv->kept);
    kt__free(kv->layer_at);
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

/* The page's own parts, whatever their form. Where the layer and head begin in the page's slab, the
 * keys of all its pages lie first. */
static uint8_t *own_part(const kt__kv *kv, int32_t page, int layer, int head, bool values) {
    size_t slab = (size_t)page >> kv->slab_shift, n = (size_t)1 << kv->slab_shift;
    size_t index = (size_t)page & (n - 1), k_bytes = k_head_bytes(&kv->shape, layer);
    size_t at = kv->layer_at[layer] + (size_t)head * (k_bytes + kv->v_head_bytes);
    uint8_t *base = kv->base + (slab * kv->page_bytes + at) * n;
    return values ? base + k_bytes * n + index * kv->v_head_bytes : base + index * k_bytes;
}

static uint8_t *k_part(const kt__kv *kv, int32_t page, int layer, int head) {
    return own_part(kv, page, layer, head, false);
}

static uint8_t *v_part(const kt__kv *kv, int32_t page, int layer, int head) {
    return own_part(kv, page, layer, head, true);
}

kt__f16 *kt__kv_k(const kt__kv *kv, int32_t page, int layer, int head) {
    if (kt__kv_k_form(&kv->shape, layer) != KT__KV_F16)
        return kt__young_k(kv->young, page, layer, head);
    return (kt__f16 *)(void *)k_part(kv, page, layer, head);
}

kt__f16 *kt__kv_v(const kt__kv *kv, int32_t page, int layer, int head) {
    if (kv->shape.v_form != KT__KV_F16) return kt__young_v(kv->young, page, layer, head);
    return (kt__f16 *)(void *)v_part(kv, page, layer, head);
}

uint8_t *kt__kv_sealed_k(const kt__kv *kv, int32_t page, int layer, int head) {
    if (kt__kv_k_form(&kv->shape, layer) == KT__KV_F16) return NULL;
    return k_part(kv, page, layer, head);
}

uint8_t *kt__kv_sealed_v(const kt__kv *kv, int32_t page, int layer, int head) {
    return kv->shape.v_form == KT__KV_F16 ? NULL : v_part(kv, page, layer, head);
}

/* ---- a page as one block ---- */

const kt__kv_shape *kt__kv_get_shape(const kt__kv *kv) {
    return &kv->shape;
}

size_t kt__kv_block_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (k_plain_bytes(s, layer) + v_plain_bytes(s)) * (size_t)s->n_head_kv;
    return bytes;
}

/* Between the page's own parts and a block. */
static void block_copy(const kt__kv *kv, int32_t page, uint8_t *at, bool out) {
    size_t v_bytes = v_plain_bytes(&kv->shape);
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        size_t k_bytes = k_plain_bytes(&kv->shape, layer);
        for (int head = 0; head < kv->shape.n_head_kv; head++, at += k_bytes + v_bytes) {
            void *k = k_part(kv, page, layer, head), *v = v_part(kv, page, layer, head);
            memcpy(out ? at : k, out ? k : at, k_bytes);
            memcpy(out ? at + k_bytes : v, out ? v : at + k_bytes, v_bytes);
        }
    }
}

void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out) {
    block_copy(kv, page, out, true);
}

void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block) {
    block_copy(kv, page, (uint8_t *)(uintptr_t)block, false);
}

/* ---- young forms ---- */

static size_t young_k_bytes(const kt__kv_shape *s, int layer) {
    if (kt__kv_k_form(s, layer) == KT__KV_F16) return 0;
    return (size_t)s->head_dim_k * KT__PAGE_POS * sizeof(kt__f16);
}

static size_t young_v_bytes(const kt__kv_shape *s) {
    if (s->v_form == KT__KV_F16) return 0;
    return (size_t)s->head_dim_v * KT__PAGE_POS * sizeof(kt__f16);
}

size_t kt__kv_young_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (young_k_bytes(s, layer) + young_v_bytes(s)) * (size_t)s->n_head_kv;
    return bytes;
}

bool kt__kv_page_is_young(const kt__kv *kv, int32_t page) {
    return kv->young && kt__young_of(kv->young, page) == KT__YOUTH_KEPT;
}

void kt__kv_young_drop(kt__kv *kv, int32_t page) {
    if (kv->young) kt__young_drop(kv->young, page);
}

/* Between the page's young form and one piece; the page is young. */
static void young_copy(const kt__kv *kv, int32_t page, uint8_t *piece, bool out) {
    size_t v_bytes = young_v_bytes(&kv->shape);
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        size_t k_bytes = young_k_bytes(&kv->shape, layer);
        for (int head = 0; head < kv->shape.n_head_kv; head++, piece += k_bytes + v_bytes) {
            void *k = kt__young_k(kv->young, page, layer, head);
            void *v = kt__young_v(kv->young, page, layer, head);
            if (k_bytes) memcpy(out ? piece : k, out ? k : piece, k_bytes);
            if (v_bytes) memcpy(out ? piece + k_bytes : v, out ? v : piece + k_bytes, v_bytes);
        }
    }
}

void kt__kv_young_read(const kt__kv *kv, int32_t page, void *out) {
    young_copy(kv, page, out, true);
}

void kt__kv_young_write(kt__kv *kv, int32_t page, const void *young) {
    young_copy(kv, page, (uint8_t *)(uintptr_t)young, false);
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
    if (kv->refs[page] > 0) return;
    kt__kv_young_drop(kv, page);
    if (kv->states) kt__states_forget(kv->states, page);
    kv->free_ids[kv->n_pages - 1 - --kv->n_used] = page;
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

/* ---- the young forms that a table holds ---- */

/* The pages from..to-1, which may be none, and page 0 if it is read young, instead of those so far.
 */
static void hold_young(kt__kv *kv, kt__kv_table *table, int32_t from, int32_t to) {
    if (!kv->young) return;
    bool first = kv->shape.first_young && from > 0;
    for (int32_t i = from; i < to; i++) kt__young_hold(kv->young, table->pages[i]);
    if (first) kt__young_hold(kv->young, table->pages[0]);
    for (int32_t i = table->young_from; i < table->young_to; i++)
        kt__young_let_go(kv->young, table->pages[i]);
    if (table->holds_first) kt__young_let_go(kv->young, table->pages[0]);
    table->young_from = from;
    table->young_to = to;
    table->holds_first = first;
}

static int32_t pages_of(int64_t n_pos) {
    return (int32_t)((n_pos + KT__PAGE_POS - 1) / KT__PAGE_POS);
}

static bool is_there_young(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages && kt__kv_page_is_young(kv, table->pages[index]);
}

/* Of the first n_pos positions, the last page that a query behind them reads young and that is not;
 * -1: there is none. */
static int32_t last_not_young(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    for (int32_t i = kt__kv_n_end_pages(&kv->shape, n_pos) - 1; i >= 0; i--) {
        int32_t index = kt__kv_end_page(&kv->shape, n_pos, i);
        if (!is_there_young(kv, table, index)) return index;
    }
    return -1;
}

bool kt__kv_table_hold_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    bool ready = kv->young && last_not_young(kv, table, n_pos) < 0;
    if (ready) hold_young(kv, table, kt__kv_tail_from(&kv->shape, n_pos), pages_of(n_pos));
    return ready;
}

bool kt__kv_table_holds_end(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    return kv->young && table->young_from <= kt__kv_tail_from(&kv->shape, n_pos) &&
           table->young_to >= pages_of(n_pos) && last_not_young(kv, table, n_pos) < 0;
}

void kt__kv_table_rest(kt__kv *kv, kt__kv_table *table) {
    hold_young(kv, table, 0, 0);
}

void kt__kv_table_cut(kt__kv_table *table, int64_t n_pos) {
    int32_t page = (int32_t)(n_pos / KT__PAGE_POS);
    if (table->cuts[0] == page || table->cuts[1] == page) return;
    table->cuts[1] = table->cuts[0];
    table->cuts[0] = page;
}

/* Whether somebody who goes on at one of the table's cuts will read the page young. */
static bool is_before_cut(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    if (kv->shape.first_young && index == 0) return true;
    for (int i = 0; i < 2; i++) {
        if (index < table->cuts[i] && index >= table->cuts[i] - kv->shape.n_tail) return true;
    }
    return false;
}

/* Everything of a page, with its young form where both have one. */
static void page_copy(kt__kv *kv, int32_t from, int32_t to) {
    bool young = kt__kv_page_is_young(kv, from);
    size_t v_bytes = young_v_bytes(&kv->shape);
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        size_t k_bytes = young_k_bytes(&kv->shape, layer);
        size_t own_bytes = k_plain_bytes(&kv->shape, layer);
        for (int head = 0; head < kv->shape.n_head_kv; head++) {
            memcpy(k_part(kv, to, layer, head), k_part(kv, from, layer, head), own_bytes);
            memcpy(v_part(kv, to, layer, head), v_part(kv, from, layer, head), kv->v_head_bytes);
            if (young && k_bytes)
                memcpy(kt__kv_k(kv, to, layer, head), kt__kv_k(kv, from, layer, head), k_bytes);
            if (young && v_bytes)
                memcpy(kt__kv_v(kv, to, layer, head), kt__kv_v(kv, from, layer, head), v_bytes);
        }
    }
}

/* Gives the table its own copy of the page that position n_old will share with earlier ones. */
static void unshare_last(kt__kv *kv, kt__kv_table *table, int32_t index) {
    int32_t old = table->pages[index];
    int32_t own = page_take(kv);
    if (kt__kv_page_is_young(kv, old)) kt__young_take(kv->young, own, KT__YOUTH_KEPT);
    page_copy(kv, old, own);
    if (table->young_from <= index && index < table->young_to) {
        kt__young_hold(kv->young, own);
        kt__young_let_go(kv->young, old);
    }
    table->pages[index] = own;
    kt__kv_page_drop(kv, old);
}

/* What the index-th page needs for positions n_old..n_new-1. */
static kt__youth youth_for(const kt__kv *kv, const kt__kv_table *table, kt__kv_growth how,
                           int32_t index, int64_t n_old, int64_t n_new) {
    int64_t begin = (int64_t)index * KT__PAGE_POS;
    bool filled = n_old <= begin && begin + KT__PAGE_POS <= n_new;
    if (how == KT__GROW_KEPT || !filled) return KT__YOUTH_KEPT;
    if (index >= kt__kv_tail_from(&kv->shape, n_new) || is_before_cut(kv, table, index))
        return KT__YOUTH_KEPT;
    return how == KT__GROW_STAGED ? KT__YOUTH_STAGED : KT__YOUTH_NONE;
}

static kt__youth youth_at(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages ? kt__young_of(kv->young, table->pages[index]) : KT__YOUTH_NONE;
}

/* Whether there is room for the young forms of positions n_old..n_new-1. */
static bool have_young(const kt__kv *kv, const kt__kv_table *table, int64_t n_old, int64_t n_new,
                       kt__kv_growth how, bool copy) {
    int32_t kept = copy ? 1 : 0, staged = 0, first = (int32_t)(n_old / KT__PAGE_POS);
    for (int32_t i = first; (int64_t)i * KT__PAGE_POS < n_new; i++) {
        kt__youth has = youth_at(kv, table, i), wants = youth_for(kv, table, how, i, n_old, n_new);
        kept += wants == KT__YOUTH_KEPT && has != KT__YOUTH_KEPT;
        staged += wants == KT__YOUTH_STAGED && has == KT__YOUTH_NONE;
    }
    return kept <= kt__young_n_free(kv->young, KT__YOUTH_KEPT) &&
           staged <= kt__young_n_free(kv->young, KT__YOUTH_STAGED);
}

/* The table has its pages. A kept form serves where a staged one would. */
static void give_young(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                       kt__kv_growth how) {
    for (int32_t i = (int32_t)(n_old / KT__PAGE_POS); (int64_t)i * KT__PAGE_POS < n_new; i++) {
        int32_t page = table->pages[i];
        kt__youth has = kt__young_of(kv->young, page),
                  wants = youth_for(kv, table, how, i, n_old, n_new);
        if (has >= wants) continue;
        kt__young_drop(kv->young, page);
        kt__young_take(kv->young, page, wants);
    }
    hold_young(kv, table, kt__kv_tail_from(&kv->shape, n_old), pages_of(n_new));
}

static kt_status fail_full(const kt__kv *kv, kt_error *err) {
    return kt__fail(err, KT_E_NOMEM,
                    "the K/V store is full: %lld of %lld pages of %d positions in use; close a "
                    "sequence or open the engine with a larger kv_bytes",
                    (long long)kv->n_used, (long long)kv->n_pages, KT__PAGE_POS);
}

static kt_status fail_young(const kt__kv *kv, kt_error *err) {
    return kt__fail(err, KT_E_NOMEM,
                    "too many pages of K/V are written at once: %d more may be, %d more for a "
                    "prompt's batch; close a sequence, or use f16",
                    (int)kt__young_n_free(kv->young, KT__YOUTH_KEPT),
                    (int)kt__young_n_free(kv->young, KT__YOUTH_STAGED));
}

static bool take_next(kt__kv *kv, kt__kv_table *table) {
    if (table->next == KT__NO_STATE) table->next = kt__states_take(kv->states);
    return table->next != KT__NO_STATE;
}

static kt_status fail_states(kt_error *err) {
    return kt__fail(err, KT_E_NOMEM,
                    "every recurrent state is in use: close a sequence, or open the engine for "
                    "fewer answers at once");
}

kt_status kt__kv_table_grow_as(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                               kt__kv_growth how, kt_error *err) {
    int32_t need = (int32_t)((n_new + KT__PAGE_POS - 1) / KT__PAGE_POS);
    int32_t last = (int32_t)(n_old / KT__PAGE_POS);
    assert(need <= table->cap);
    bool within = n_new > n_old && n_old % KT__PAGE_POS != 0;
    bool copy = within && kv->refs[table->pages[last]] > 1;
    int64_t take = (need > table->n_pages ? need - table->n_pages : 0) + (copy ? 1 : 0);
    if (kv->young && n_new > n_old && !kt__kv_table_hold_end(kv, table, n_old))
        return kt__fail(err, KT_E_STATE, "position %lld is within or too near sealed pages of K/V",
                        (long long)n_old);
    if (!have_pages(kv, take)) return fail_full(kv, err);
    if (kv->states && n_new > n_old && !take_next(kv, table)) return fail_states(err);
    if (kv->young && !have_young(kv, table, n_old, n_new, how, copy)) {
        table->cuts[0] = table->cuts[1] = 0; /* those are for others */
        if (!have_young(kv, table, n_old, n_new, how, copy)) return fail_young(kv, err);
    }
    if (copy) unshare_last(kv, table, last);
    while (table->n_pages < need) table->pages[table->n_pages++] = page_take(kv);
    if (kv->young) give_young(kv, table, n_old, n_new, how);
    return KT_OK;
}

kt_status kt__kv_table_grow(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt_error *err) {
    return kt__kv_table_grow_as(kv, table, n_old, n_new, KT__GROW_KEPT, err);
}

/* Whether other tables may go on behind the page. */
static bool is_wanted_young(const kt__kv *kv, int32_t page) {
    return kt__young_is_held(kv->young, page) || kv->refs[page] - kv->kept[page] > 1;
}

void kt__kv_table_settle(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int32_t from = table->young_from, keep = kt__kv_tail_from(&kv->shape, n_pos);
    if (!kv->young) return;
    if (keep > table->young_to) keep = table->young_to;
    if (keep < from) keep = from;
    hold_young(kv, table, keep, table->young_to);
    for (int32_t i = from; i < (int32_t)(n_pos / KT__PAGE_POS); i++) {
        int32_t page = table->pages[i];
        bool staged = kt__young_of(kv->young, page) == KT__YOUTH_STAGED;
        bool passed = i < keep && !is_wanted_young(kv, page) && !is_before_cut(kv, table, i);
        if (staged || passed) kt__young_drop(kv->young, page);
    }
}

void kt__kv_table_unstage(kt__kv *kv, const kt__kv_table *table) {
    for (int32_t i = 0; kv->young && i < table->n_pages; i++) {
        if (kt__young_of(kv->young, table->pages[i]) == KT__YOUTH_STAGED)
            kt__young_drop(kv->young, table->pages[i]);
    }
}

/* Where young forms allow to go on. */
static int64_t own_young_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int64_t end = (int64_t)table->n_pages * KT__PAGE_POS;
    if (!kv->young) return n_pos;
    if (end > n_pos) end = n_pos;
    for (int32_t at; (at = last_not_young(kv, table, end)) >= 0;) end = (int64_t)at * KT__PAGE_POS;
    (void)kt__kv_table_hold_end(kv, table, end);
    int32_t last = (int32_t)(end / KT__PAGE_POS);
    if (end % KT__PAGE_POS != 0 && kv->refs[table->pages[last]] > 1) {
        if (have_pages(kv, 1) && kt__young_n_free(kv->young, KT__YOUTH_KEPT) > 0) {
            unshare_last(kv, table, last);
        } else {
            end = (int64_t)last * KT__PAGE_POS;
        }
    }
    if (end == n_pos) return n_pos;
    kt__kv_table_truncate(kv, table, end);
    (void)kt__kv_table_hold_end(kv, table, end);
    return end;
}

/* Where a state allows to go on: the table's own, or the last snapshot of a page up to there. */
static int64_t own_state_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int64_t n = n_pos / KT__PAGE_POS, own = table->state == KT__NO_STATE ? 0 : table->n_state;
    int32_t piece = KT__NO_STATE;
    assert(own <= n_pos);
    if (own == n_pos) return n_pos;
    if (n > table->n_pages) n = table->n_pages;
    for (; n * KT__PAGE_POS > own; n--) {
        piece = kt__states_of(kv->states, table->pages[n - 1]);
        if (piece != KT__NO_STATE) break;
    }
    if (piece != KT__NO_STATE) {
        kt__states_ref(kv->states, piece);
        kt__kv_table_set_state(kv, table, piece, n * KT__PAGE_POS);
        own = n * KT__PAGE_POS;
    }
    kt__kv_table_truncate(kv, table, own);
    return own;
}

int64_t kt__kv_table_own_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    for (;;) {
        int64_t end = kv->states ? own_state_end(kv, table, n_pos) : n_pos;
        n_pos = own_young_end(kv, table, end);
        if (n_pos == end) return end;
    }
}

static void drop_states(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    kt__states_drop(kv->states, table->next);
    table->next = KT__NO_STATE;
    if (table->state == KT__NO_STATE || table->n_state <= n_pos) return;
    kt__states_drop(kv->states, table->state);
    table->state = KT__NO_STATE;
    table->n_state = 0;
}

void kt__kv_table_truncate(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    if (kv->states) drop_states(kv, table, n_pos);
    int32_t keep = pages_of(n_pos);
    bool some = table->young_from < keep;
    if (keep < table->young_to)
        hold_young(kv, table, some ? table->young_from : 0, some ? keep : 0);
    if (keep == 0) table->cuts[0] = table->cuts[1] = 0;
    while (table->n_pages > keep) kt__kv_page_drop(kv, table->pages[--table->n_pages]);
}

void kt__kv_table_adopt(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page) {
    int32_t own = table->pages[index];
    bool moves = is_there_young(kv, table, index) && !kt__kv_page_is_young(kv, page);
    bool held = kv->young && table->young_from <= index && index < table->young_to;
    held |= table->holds_first && index == 0;
    if (moves && kv->refs[own] > 1) return;
    if (moves) {
        kt__young_drop(kv->young, page);
        kt__young_move(kv->young, own, page);
    }
    if (held) {
        kt__young_hold(kv->young, page);
        kt__young_let_go(kv->young, own);
    }
    kt__kv_table_set(kv, table, index, page);
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
    assert(dst->n_pages == 0 && n <= dst->cap && (kv->young || kv->states || n <= src->n_pages));
    if (n > src->n_pages) n = src->n_pages; /* what is computed again before it is read */
    for (int32_t i = 0; i < n; i++) {
        dst->pages[i] = src->pages[i];
        kt__kv_page_ref(kv, src->pages[i]);
    }
    dst->n_pages = n;
    if (src->state == KT__NO_STATE || src->n_state > n_pos) return;
    kt__states_ref(kv->states, src->state);
    dst->state = src->state;
    dst->n_state = src->n_state;
}

/* ---- states of recurrent layers ---- */

bool kt__kv_has_states(const kt__kv *kv) {
    return kv->states != NULL;
}

float *kt__kv_state_data(const kt__kv *kv, int32_t piece) {
    return kt__states_data(kv->states, piece);
}

int32_t kt__kv_state_take(kt__kv *kv) {
    return kt__states_take(kv->states);
}

void kt__kv_state_drop(kt__kv *kv, int32_t piece) {
    if (kv->states) kt__states_drop(kv->states, piece);
}

void kt__kv_table_set_state(kt__kv *kv, kt__kv_table *table, int32_t piece, int64_t n_pos) {
    kt__states_drop(kv->states, table->state);
    table->state = piece;
    table->n_state = piece == KT__NO_STATE ? 0 : n_pos;
}

void kt__kv_table_keep(kt__kv *kv, const kt__kv_table *table, int32_t piece, int64_t n_pos,
                       kt__snapshot kind) {
    int64_t last = n_pos / KT__PAGE_POS - 1;
    assert(n_pos % KT__PAGE_POS == 0 && last >= 0 && last < table->n_pages);
    kt__states_keep(kv->states, table->pages[last], piece, kind);
    if (kind != KT__SNAPSHOT_ROLLING || last == 0) return;
    if (kt__states_kind(kv->states, table->pages[last - 1]) == KT__SNAPSHOT_ROLLING)
        kt__states_forget(kv->states, table->pages[last - 1]);
}

void kt__kv_snapshot_move(kt__kv *kv, int32_t from, int32_t to) {
    if (kv->states) kt__states_move(kv->states, from, to);
}

int32_t kt__kv_n_states_left(const kt__kv *kv) {
    return kv->states ? kt__states_n_free(kv->states) : 0;
}
