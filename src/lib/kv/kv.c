#include "kv/kv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/nodes.h"
#include "host/pages.h"
#include "kv/f16_copies.h"

enum {
    NO_PLACE = -1,
    CACHE_LINE = 64,
    SLAB_PAGES_MAX = 64,   /* 1024 positions */
    SLAB_BYTES = 16u << 20 /* slabs are smaller where a page is large, but hold a split */
};

struct kt__kv {
    kt__kv_shape shape;
    size_t *layer_at; /* [n_layer] where a layer begins, of the page's bytes */
    size_t page_bytes;
    int slab_shift; /* log2 of the pages of a slab */
    uint8_t *base;
    size_t mapped_bytes;
    int64_t n_pages;        /* places for pages' own parts; as many pages, where they are f16 */
    _Atomic int64_t n_used; /* such places; read from any thread, at any time */
    int64_t n_ids;          /* pages there may be: more than places, if f16 ones need none */
    int64_t n_taken;
    int32_t *refs;        /* [n_ids] holders of the page */
    bool *kept;           /* [n_ids] reclaim can give it back */
    int64_t n_kept;       /* such pages with a place and no other holder */
    int32_t *free_ids;    /* stack of free pages; the lowest numbers on top */
    int32_t *place_of;    /* [n_ids] where the page's own parts lie, or NO_PLACE; NULL: by number */
    int32_t *free_places; /* stack; the same way */
    uint16_t *quantised;  /* [n_ids] layers, from the first on, that are quantised */
    kt__kv_reclaim_fn *reclaim;
    kt__kv_lost_fn *lost;
    void *reclaim_user;
    kt__f16_copies *copies; /* NULL: keys and values are f16 */
    kt__states *states;     /* NULL: no layer is recurrent */
};

/* One head's part of a page, without padding. */
static size_t k_plain_bytes(const kt__kv_shape *s, int layer) {
    kt__kv_form form = kt__kv_k_form(s, layer);
    int dim = kt__kv_heads_of(s, layer).dim_k;
    if (form != KT__KV_F16) return kt__quantised_k_bytes(form, dim);
    return (size_t)dim * KT__PAGE_POS * sizeof(kt__f16);
}

static size_t v_plain_bytes(const kt__kv_shape *s, int layer) {
    int dim = kt__kv_heads_of(s, layer).dim_v;
    if (s->v_form != KT__KV_F16) return kt__quantised_v_bytes(s->v_form, dim);
    return (size_t)dim * KT__PAGE_POS * sizeof(kt__f16);
}

/* Whole cache lines, but halves of them in 4 bits, where a head's scales take half a line. */
static size_t pad_part(kt__kv_form form, size_t bytes) {
    return kt__align_up(bytes, form == KT__KV_Q4 ? CACHE_LINE / 2 : CACHE_LINE);
}

static size_t k_head_bytes(const kt__kv_shape *s, int layer) {
    return pad_part(kt__kv_k_form(s, layer), k_plain_bytes(s, layer));
}

static size_t v_head_bytes(const kt__kv_shape *s, int layer) {
    return pad_part(s->v_form, v_plain_bytes(s, layer));
}

static size_t layer_bytes(const kt__kv_shape *s, int layer) {
    size_t n = (size_t)kt__kv_heads_of(s, layer).n;
    return (k_head_bytes(s, layer) + v_head_bytes(s, layer)) * n;
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

static int32_t *number_stack(int64_t n) {
    int32_t *ids = kt__calloc((size_t)n, sizeof *ids);
    for (int64_t i = 0; ids && i < n; i++) ids[i] = (int32_t)(n - 1 - i);
    return ids;
}

/* The lists by page. A page that has its f16 copy has no place for its quantised form; one that was
 * neither quantised nor kept in f16 is still in the tables of sequences that will compute it
 * again. */
static kt_status make_lists(kt__kv *kv, kt__kv_room room, kt_error *err) {
    bool quantising = kt__kv_is_quantised(&kv->shape);
    kv->n_ids = quantising ? 2 * (kv->n_pages + room.n_kept) : kv->n_pages;
    size_t n = (size_t)kv->n_ids;
    kv->refs = kt__calloc(n, sizeof *kv->refs);
    kv->kept = kt__calloc(n, sizeof *kv->kept);
    kv->free_ids = number_stack(kv->n_ids);
    bool ok = kv->refs && kv->free_ids && kv->kept;
    if (quantising) {
        kv->place_of = kt__malloc(n * sizeof *kv->place_of);
        kv->free_places = number_stack(kv->n_pages);
        kv->quantised = kt__calloc(n, sizeof *kv->quantised);
        ok = ok && kv->place_of && kv->free_places && kv->quantised;
        for (size_t i = 0; ok && i < n; i++) kv->place_of[i] = NO_PLACE;
    }
    return ok ? KT_OK : kt__fail_nomem(err, "the K/V page lists", n * 2 * sizeof(int32_t));
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
    kv->page_bytes = kt__kv_page_bytes(shape);
    kv->slab_shift = slab_shift_for(kv->page_bytes);
    kv->n_pages = n_pages;
    KT__TRY(make_lists(kv, room, err));
    kv->layer_at = kt__calloc((size_t)shape->n_layer, sizeof *kv->layer_at);
    if (!kv->layer_at) {
        status = kt__fail_nomem(err, "the K/V layers' places", (size_t)shape->n_layer);
        goto out;
    }
    for (int i = 1; i < shape->n_layer; i++)
        kv->layer_at[i] = kv->layer_at[i - 1] + layer_bytes(shape, i - 1);
    KT__TRY(map_pages(kv, err));
    if (kt__kv_is_quantised(shape))
        KT__TRY(kt__f16_copies_create(shape, kv->n_ids, room, &kv->copies, err));
    if (shape->state_bytes)
        KT__TRY(kt__states_create(shape->state_bytes, kv->n_ids, room.n_states, &kv->states, err));
    *out = kv;
    kv = NULL;
out:
    kt__kv_destroy(kv);
    return status;
}

void kt__kv_destroy(kt__kv *kv) {
    if (!kv) return;
    kt__pages_free(kv->base, kv->mapped_bytes);
    kt__f16_copies_destroy(kv->copies);
    kt__states_destroy(kv->states);
    kt__free(kv->refs);
    kt__free(kv->free_ids);
    kt__free(kv->place_of);
    kt__free(kv->free_places);
    kt__free(kv->quantised);
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

int64_t kt__kv_n_pages_most(const kt__kv *kv) {
    if (!kt__kv_reads_f16_ends(&kv->shape)) return kv->n_pages;
    return kv->n_pages + kv->shape.n_tail + kv->shape.first_f16;
}

static int32_t place_of(const kt__kv *kv, int32_t page) {
    return kv->place_of ? kv->place_of[page] : page;
}

static bool is_quantised(const kt__kv *kv, int32_t page) {
    return !kv->copies || kv->quantised[page] == kv->shape.n_layer;
}

/* The page's own parts, whatever their form. Where the layer and head begin in the page's slab, the
 * keys of all its pages lie first. */
static uint8_t *own_part(const kt__kv *kv, int32_t page, int layer, int head, bool values) {
    if (place_of(kv, page) == NO_PLACE) return NULL;
    size_t place = (size_t)place_of(kv, page);
    size_t slab = place >> kv->slab_shift, n = (size_t)1 << kv->slab_shift;
    size_t index = place & (n - 1), k_bytes = k_head_bytes(&kv->shape, layer);
    size_t v_bytes = v_head_bytes(&kv->shape, layer);
    size_t at = kv->layer_at[layer] + (size_t)head * (k_bytes + v_bytes);
    uint8_t *base = kv->base + (slab * kv->page_bytes + at) * n;
    return values ? base + k_bytes * n + index * v_bytes : base + index * k_bytes;
}

static uint8_t *k_part(const kt__kv *kv, int32_t page, int layer, int head) {
    return own_part(kv, page, layer, head, false);
}

static uint8_t *v_part(const kt__kv *kv, int32_t page, int layer, int head) {
    return own_part(kv, page, layer, head, true);
}

/* Parts whose form is f16 lie in the page's f16 copy while it has one in all layers. */
static bool is_written_f16(const kt__kv *kv, int32_t page, kt__kv_form form) {
    if (!kv->copies) return false;
    return form != KT__KV_F16 || kt__f16_copy_of(kv->copies, page) == KT__F16_COPY_KEPT;
}

kt__f16 *kt__kv_k(const kt__kv *kv, int32_t page, int layer, int head) {
    if (is_written_f16(kv, page, kt__kv_k_form(&kv->shape, layer)))
        return kt__f16_copy_k(kv->copies, page, layer, head);
    return (kt__f16 *)(void *)k_part(kv, page, layer, head);
}

kt__f16 *kt__kv_v(const kt__kv *kv, int32_t page, int layer, int head) {
    if (is_written_f16(kv, page, kv->shape.v_form))
        return kt__f16_copy_v(kv->copies, page, layer, head);
    return (kt__f16 *)(void *)v_part(kv, page, layer, head);
}

uint8_t *kt__kv_quantised_k(const kt__kv *kv, int32_t page, int layer, int head) {
    return kv->copies ? k_part(kv, page, layer, head) : NULL;
}

uint8_t *kt__kv_quantised_v(const kt__kv *kv, int32_t page, int layer, int head) {
    return kv->copies ? v_part(kv, page, layer, head) : NULL;
}

bool kt__kv_is_due(const kt__kv *kv, const kt__kv_table *table, int32_t index, int layer) {
    int most = index < table->quantise_due ? kv->shape.n_layer : table->quantise_layers;
    return index >= table->quantise_from && index < table->quantise_to && layer < most &&
           layer >= kv->quantised[table->pages[index]] && !(kv->shape.first_f16 && index == 0);
}

/* ---- a page as one block ---- */

const kt__kv_shape *kt__kv_get_shape(const kt__kv *kv) {
    return &kv->shape;
}

size_t kt__kv_block_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (k_plain_bytes(s, layer) + v_plain_bytes(s, layer)) *
                 (size_t)kt__kv_heads_of(s, layer).n;
    return bytes;
}

/* n bytes between a page's part, which may be nowhere, and a block. */
static void part_copy(void *part, void *block, size_t n, bool out) {
    if (!part && out) memset(block, 0, n);
    if (part) memcpy(out ? block : part, out ? part : block, n);
}

/* Between the page and a block: its own parts, or the f16 copy of what is f16 anyway. */
static void block_copy(const kt__kv *kv, int32_t page, uint8_t *at, bool out) {
    const kt__kv_shape *s = &kv->shape;
    for (int layer = 0; layer < s->n_layer; layer++) {
        size_t k_bytes = k_plain_bytes(s, layer), v_bytes = v_plain_bytes(s, layer);
        int n = kt__kv_heads_of(s, layer).n;
        bool k_f16 = kt__kv_k_form(s, layer) == KT__KV_F16, v_f16 = s->v_form == KT__KV_F16;
        for (int head = 0; head < n; head++, at += k_bytes + v_bytes) {
            part_copy(k_f16 ? (void *)kt__kv_k(kv, page, layer, head)
                            : k_part(kv, page, layer, head),
                      at, k_bytes, out);
            part_copy(v_f16 ? (void *)kt__kv_v(kv, page, layer, head)
                            : v_part(kv, page, layer, head),
                      at + k_bytes, v_bytes, out);
        }
    }
}

void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out) {
    block_copy(kv, page, out, true);
}

void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block) {
    block_copy(kv, page, (uint8_t *)(uintptr_t)block, false);
    if (kv->copies && place_of(kv, page) != NO_PLACE && !kt__kv_page_has_f16(kv, page))
        kv->quantised[page] = (uint16_t)kv->shape.n_layer;
}

/* ---- f16 copies ---- */

static size_t f16_k_bytes(const kt__kv_shape *s, int layer) {
    if (kt__kv_k_form(s, layer) == KT__KV_F16) return 0;
    return (size_t)kt__kv_heads_of(s, layer).dim_k * KT__PAGE_POS * sizeof(kt__f16);
}

static size_t f16_v_bytes(const kt__kv_shape *s, int layer) {
    if (s->v_form == KT__KV_F16) return 0;
    return (size_t)kt__kv_heads_of(s, layer).dim_v * KT__PAGE_POS * sizeof(kt__f16);
}

size_t kt__kv_f16_copy_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (f16_k_bytes(s, layer) + f16_v_bytes(s, layer)) *
                 (size_t)kt__kv_heads_of(s, layer).n;
    return bytes;
}

bool kt__kv_page_has_place(const kt__kv *kv, int32_t page) {
    return place_of(kv, page) != NO_PLACE;
}

bool kt__kv_page_is_quantised(const kt__kv *kv, int32_t page) {
    return is_quantised(kv, page);
}

bool kt__kv_page_has_f16(const kt__kv *kv, int32_t page) {
    return kv->copies && kt__f16_copy_of(kv->copies, page) == KT__F16_COPY_KEPT;
}

void kt__kv_f16_copy_drop(kt__kv *kv, int32_t page) {
    if (kv->copies) kt__f16_copy_drop(kv->copies, page);
}

/* Between the page's f16 copy and one block of memory; the page has one. */
static void f16_copy(const kt__kv *kv, int32_t page, uint8_t *piece, bool out) {
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        size_t k_bytes = f16_k_bytes(&kv->shape, layer), v_bytes = f16_v_bytes(&kv->shape, layer);
        int n = kt__kv_heads_of(&kv->shape, layer).n;
        for (int head = 0; head < n; head++, piece += k_bytes + v_bytes) {
            void *k = kt__f16_copy_k(kv->copies, page, layer, head);
            void *v = kt__f16_copy_v(kv->copies, page, layer, head);
            if (k_bytes) memcpy(out ? piece : k, out ? k : piece, k_bytes);
            if (v_bytes) memcpy(out ? piece + k_bytes : v, out ? v : piece + k_bytes, v_bytes);
        }
    }
}

void kt__kv_f16_copy_read(const kt__kv *kv, int32_t page, void *out) {
    f16_copy(kv, page, out, true);
}

void kt__kv_f16_copy_write(kt__kv *kv, int32_t page, const void *f16) {
    f16_copy(kv, page, (uint8_t *)(uintptr_t)f16, false);
}

/* ---- taking and giving back ---- */

void kt__kv_set_reclaim(kt__kv *kv, kt__kv_reclaim_fn *reclaim, void *user) {
    kv->reclaim = reclaim;
    kv->reclaim_user = user;
}

void kt__kv_set_lost(kt__kv *kv, kt__kv_lost_fn *lost) {
    kv->lost = lost;
}

/* Whether n places are free, after asking for them if they are not. */
static bool have_places(kt__kv *kv, int64_t n) {
    int64_t short_by = n - (kv->n_pages - kv->n_used);
    if (short_by > 0 && kv->reclaim) kv->reclaim(kv->reclaim_user, short_by);
    return n <= kv->n_pages - kv->n_used;
}

/* A page, without a place but in the form f16. */
static int32_t page_take(kt__kv *kv) {
    assert(kv->n_taken < kv->n_ids);
    int32_t page = kv->free_ids[kv->n_ids - 1 - kv->n_taken++];
    kv->refs[page] = 1;
    if (!kv->copies) kv->n_used++;
    return page;
}

static bool is_only_kept(const kt__kv *kv, int32_t page) {
    return kv->kept[page] && kv->refs[page] == 1 && place_of(kv, page) != NO_PLACE;
}

static void give_place(kt__kv *kv, int32_t page) {
    if (kv->place_of[page] != NO_PLACE) return;
    kv->place_of[page] = kv->free_places[kv->n_pages - 1 - kv->n_used++];
    kv->n_kept += is_only_kept(kv, page);
}

static void take_place_back(kt__kv *kv, int32_t page) {
    kv->quantised[page] = 0;
    if (kv->place_of[page] == NO_PLACE) return;
    kv->n_kept -= is_only_kept(kv, page);
    kv->free_places[kv->n_pages - 1 - --kv->n_used] = kv->place_of[page];
    kv->place_of[page] = NO_PLACE;
}

/* What is quantised of one page becomes another's. */
static void move_place(kt__kv *kv, int32_t from, int32_t to) {
    uint16_t quantised = kv->quantised[from];
    take_place_back(kv, to);
    kv->n_kept -= is_only_kept(kv, from);
    kv->place_of[to] = kv->place_of[from];
    kv->quantised[to] = quantised;
    kv->place_of[from] = NO_PLACE;
    kv->quantised[from] = 0;
    kv->n_kept += is_only_kept(kv, to);
}

int32_t kt__kv_page_take(kt__kv *kv) {
    if (!have_places(kv, 1) || kv->n_taken == kv->n_ids) return -1;
    int32_t page = page_take(kv);
    if (kv->copies) give_place(kv, page);
    return page;
}

/* An f16 copy for the page; another one may lose its own, and with it what was not quantised. */
static void take_f16(kt__kv *kv, int32_t page, kt__f16_copy_kind kind) {
    int32_t loser = kt__f16_copy_take(kv->copies, page, kind);
    if (loser >= 0 && !is_quantised(kv, loser) && kv->lost) kv->lost(kv->reclaim_user, loser);
}

void kt__kv_page_ref(kt__kv *kv, int32_t page) {
    assert(kv->refs[page] > 0);
    kv->n_kept -= is_only_kept(kv, page);
    kv->refs[page]++;
}

int32_t kt__kv_page_refs(const kt__kv *kv, int32_t page) {
    return kv->refs[page];
}

void kt__kv_page_drop(kt__kv *kv, int32_t page) {
    assert(kv->refs[page] > 0);
    kv->n_kept -= is_only_kept(kv, page);
    kv->refs[page]--;
    kv->n_kept += is_only_kept(kv, page);
    if (kv->refs[page] > 0) return;
    if (kv->copies) {
        kt__f16_copy_drop(kv->copies, page);
        take_place_back(kv, page);
    } else {
        kv->n_used--;
    }
    if (kv->states) kt__states_forget(kv->states, page);
    kv->free_ids[kv->n_ids - 1 - --kv->n_taken] = page;
}

void kt__kv_page_set_kept(kt__kv *kv, int32_t page, bool kept) {
    kv->n_kept -= is_only_kept(kv, page);
    kv->kept[page] = kept;
    kv->n_kept += is_only_kept(kv, page);
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

/* ---- the f16 copies that a table holds ---- */

/* The pages from..to-1, which may be none, and page 0 if it is read in f16, instead of those so
 * far. / */
static void hold_f16(kt__kv *kv, kt__kv_table *table, int32_t from, int32_t to) {
    if (!kv->copies) return;
    bool first = kv->shape.first_f16 && from > 0;
    for (int32_t i = from; i < to; i++) kt__f16_copy_hold(kv->copies, table->pages[i]);
    if (first) kt__f16_copy_hold(kv->copies, table->pages[0]);
    for (int32_t i = table->f16_from; i < table->f16_to; i++)
        kt__f16_copy_let_go(kv->copies, table->pages[i]);
    if (table->holds_first) kt__f16_copy_let_go(kv->copies, table->pages[0]);
    table->f16_from = from;
    table->f16_to = to;
    table->holds_first = first;
}

static int32_t pages_of(int64_t n_pos) {
    return (int32_t)((n_pos + KT__PAGE_POS - 1) / KT__PAGE_POS);
}

static bool is_there_f16(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages && kt__kv_page_has_f16(kv, table->pages[index]);
}

/* Of the first n_pos positions, the last page that a query after them reads in f16 and that has no
 * copy; -1: there is none. */
static int32_t last_not_f16(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    for (int32_t i = kt__kv_n_end_pages(&kv->shape, n_pos) - 1; i >= 0; i--) {
        int32_t index = kt__kv_end_page(&kv->shape, n_pos, i);
        if (!is_there_f16(kv, table, index)) return index;
    }
    return -1;
}

bool kt__kv_table_hold_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    bool ready = kv->copies && last_not_f16(kv, table, n_pos) < 0;
    if (ready) hold_f16(kv, table, kt__kv_tail_from(&kv->shape, n_pos), pages_of(n_pos));
    return ready;
}

bool kt__kv_table_holds_end(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    return kv->copies && table->f16_from <= kt__kv_tail_from(&kv->shape, n_pos) &&
           table->f16_to >= pages_of(n_pos) && last_not_f16(kv, table, n_pos) < 0;
}

void kt__kv_table_rest(kt__kv *kv, kt__kv_table *table) {
    hold_f16(kv, table, 0, 0);
}

void kt__kv_table_cut(kt__kv_table *table, int64_t n_pos) {
    int32_t page = (int32_t)(n_pos / KT__PAGE_POS);
    if (table->cuts[0] == page || table->cuts[1] == page) return;
    table->cuts[1] = table->cuts[0];
    table->cuts[0] = page;
}

/* Whether a sequence that continues at one of the table's cuts will read the page in f16. */
static bool is_before_cut(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    if (kv->shape.first_f16 && index == 0) return true;
    for (int i = 0; i < 2; i++) {
        if (index < table->cuts[i] && index >= table->cuts[i] - kv->shape.n_tail) return true;
    }
    return false;
}

/* Everything of a page that is written: its f16 copy, or its own parts in f16. */
static void page_copy(kt__kv *kv, int32_t from, int32_t to) {
    size_t page_f16 = KT__PAGE_POS * sizeof(kt__f16);
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        kt__kv_heads heads = kt__kv_heads_of(&kv->shape, layer);
        size_t k_bytes = (size_t)heads.dim_k * page_f16, v_bytes = (size_t)heads.dim_v * page_f16;
        for (int head = 0; head < heads.n; head++) {
            memcpy(kt__kv_k(kv, to, layer, head), kt__kv_k(kv, from, layer, head), k_bytes);
            memcpy(kt__kv_v(kv, to, layer, head), kt__kv_v(kv, from, layer, head), v_bytes);
        }
    }
}

/* Gives the table its own copy of the page that position n_old will share with earlier ones. */
static void unshare_last(kt__kv *kv, kt__kv_table *table, int32_t index) {
    int32_t old = table->pages[index];
    int32_t own = page_take(kv);
    if (kv->copies) take_f16(kv, own, KT__F16_COPY_KEPT);
    page_copy(kv, old, own);
    if (table->f16_from <= index && index < table->f16_to) {
        kt__f16_copy_hold(kv->copies, own);
        kt__f16_copy_let_go(kv->copies, old);
    }
    table->pages[index] = own;
    kt__kv_page_drop(kv, old);
}

/* ---- what a table's batches quantise ---- */

static bool has_place_at(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages && place_of(kv, table->pages[index]) != NO_PLACE;
}

/* Places that the pages from..to-1 do not have yet. */
static int64_t places_missing(const kt__kv *kv, const kt__kv_table *table, int32_t from,
                              int32_t to) {
    int64_t n = 0;
    for (int32_t i = from; i < to; i++)
        n += !has_place_at(kv, table, i) && !(kv->shape.first_f16 && i == 0);
    return n;
}

static void give_places(kt__kv *kv, const kt__kv_table *table, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; i++) {
        if (!(kv->shape.first_f16 && i == 0)) give_place(kv, table->pages[i]);
    }
}

/* Besides what has to be quantised, pages that will be read quantised soon: with a tail they are
 * quantised in groups, each some layers at a time while the positions before that are computed, so
 * that no step takes noticeably longer than others. Where no place is left for that, they are
 * quantised when they have to be. */
static void quantise_ahead(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new) {
    int32_t group = kv->shape.n_tail > KT__MIGRATION_PAGES + 2 ? KT__MIGRATION_PAGES : 1;
    int32_t begin = (table->quantise_due + group - 1) / group * group, end = begin + group;
    int64_t steps = (int64_t)group * KT__PAGE_POS;
    int64_t done = n_new + steps - (int64_t)(begin + kv->shape.n_tail + 1) * KT__PAGE_POS;
    table->quantise_layers = 0;
    table->quantise_to = table->quantise_due;
    if (kv->shape.n_tail == 0 || (int64_t)begin * KT__PAGE_POS > n_old) return;
    if (!have_places(kv, places_missing(kv, table, table->quantise_due, begin))) return;
    give_places(kv, table, table->quantise_due, begin);
    table->quantise_to = table->quantise_due = begin;
    if (done <= 0 || (int64_t)end * KT__PAGE_POS > n_old) return;
    if (!have_places(kv, places_missing(kv, table, begin, end))) return;
    give_places(kv, table, begin, end);
    table->quantise_to = end;
    table->quantise_layers = (int32_t)(done * kv->shape.n_layer / steps);
}

/* Positions from n_old on are written: what was quantised of their pages is so no longer. */
static void plan_quantising(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt__kv_growth how) {
    int32_t from = kt__kv_tail_from(&kv->shape, n_old), to = kt__kv_tail_from(&kv->shape, n_new);
    for (int32_t i = (int32_t)(n_old / KT__PAGE_POS); i < table->n_pages; i++)
        kv->quantised[table->pages[i]] = 0;
    give_places(kv, table, from, to);
    table->quantise_from = table->quantise_due = table->quantise_to = 0;
    if (how == KT__GROW_QUANTISED) return;
    table->quantise_from = from;
    table->quantise_due = to;
    quantise_ahead(kv, table, n_old, n_new);
}

/* The batch is over, and the first n_pos positions stay. */
static void note_quantised(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int32_t n = (int32_t)(n_pos / KT__PAGE_POS);
    for (int32_t i = table->quantise_from; i < table->quantise_to && i < n && i < table->n_pages;
         i++) {
        uint16_t *quantised = &kv->quantised[table->pages[i]];
        int32_t now = i < table->quantise_due ? kv->shape.n_layer : table->quantise_layers;
        if (now > *quantised && !(kv->shape.first_f16 && i == 0)) *quantised = (uint16_t)now;
    }
    if (table->quantise_to > table->quantise_due) table->quantise_to = table->quantise_due;
}

/* What the index-th page needs for positions n_old..n_new-1. */
static kt__f16_copy_kind copy_for(const kt__kv *kv, const kt__kv_table *table, kt__kv_growth how,
                                  int32_t index, int64_t n_old, int64_t n_new) {
    int64_t begin = (int64_t)index * KT__PAGE_POS;
    bool filled = n_old <= begin && begin + KT__PAGE_POS <= n_new;
    if (how == KT__GROW_KEPT || !filled) return KT__F16_COPY_KEPT;
    if (index >= kt__kv_tail_from(&kv->shape, n_new) || is_before_cut(kv, table, index))
        return KT__F16_COPY_KEPT;
    return how == KT__GROW_STAGED ? KT__F16_COPY_STAGED : KT__F16_COPY_NONE;
}

static kt__f16_copy_kind copy_at(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages ? kt__f16_copy_of(kv->copies, table->pages[index])
                                  : KT__F16_COPY_NONE;
}

/* Whether there is room for the f16 copies of positions n_old..n_new-1. */
static bool have_f16(const kt__kv *kv, const kt__kv_table *table, int64_t n_old, int64_t n_new,
                     kt__kv_growth how, bool copy) {
    int32_t kept = copy ? 1 : 0, staged = 0, first = (int32_t)(n_old / KT__PAGE_POS);
    for (int32_t i = first; (int64_t)i * KT__PAGE_POS < n_new; i++) {
        kt__f16_copy_kind has = copy_at(kv, table, i),
                          wants = copy_for(kv, table, how, i, n_old, n_new);
        kept += wants == KT__F16_COPY_KEPT && has != KT__F16_COPY_KEPT;
        staged += wants == KT__F16_COPY_STAGED && has == KT__F16_COPY_NONE;
    }
    return kept <= kt__f16_copies_n_free(kv->copies, KT__F16_COPY_KEPT) &&
           staged <= kt__f16_copies_n_free(kv->copies, KT__F16_COPY_STAGED);
}

/* The table has its pages. A kept form serves where a staged one would. */
static void give_f16(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                     kt__kv_growth how) {
    for (int32_t i = (int32_t)(n_old / KT__PAGE_POS); (int64_t)i * KT__PAGE_POS < n_new; i++) {
        int32_t page = table->pages[i];
        kt__f16_copy_kind has = kt__f16_copy_of(kv->copies, page),
                          wants = copy_for(kv, table, how, i, n_old, n_new);
        if (has >= wants) continue;
        kt__f16_copy_drop(kv->copies, page);
        take_f16(kv, page, wants);
    }
    hold_f16(kv, table, kt__kv_tail_from(&kv->shape, n_old), pages_of(n_new));
}

static kt_status fail_full(const kt__kv *kv, kt_error *err) {
    return kt__fail(err, KT_E_NOMEM,
                    "the K/V store is full: %lld of %lld pages of %d positions in use; close a "
                    "sequence or open the engine with a larger kv_bytes",
                    (long long)kv->n_used, (long long)kv->n_pages, KT__PAGE_POS);
}

static kt_status fail_f16(const kt__kv *kv, kt_error *err) {
    return kt__fail(err, KT_E_NOMEM,
                    "too many pages of K/V are written at once: %d more may be, %d more for a "
                    "prompt's batch; close a sequence, or use f16",
                    (int)kt__f16_copies_n_free(kv->copies, KT__F16_COPY_KEPT),
                    (int)kt__f16_copies_n_free(kv->copies, KT__F16_COPY_STAGED));
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
    int64_t places = take;
    if (kv->copies)
        places = places_missing(kv, table, kt__kv_tail_from(&kv->shape, n_old),
                                kt__kv_tail_from(&kv->shape, n_new));
    if (kv->copies && n_new > n_old && !kt__kv_table_hold_end(kv, table, n_old))
        return kt__fail(err, KT_E_STATE,
                        "position %lld is within or too near quantised pages of K/V",
                        (long long)n_old);
    if (!have_places(kv, places) || take > kv->n_ids - kv->n_taken) return fail_full(kv, err);
    if (kv->states && n_new > n_old && !take_next(kv, table)) return fail_states(err);
    if (kv->copies && !have_f16(kv, table, n_old, n_new, how, copy)) {
        table->cuts[0] = table->cuts[1] = 0; /* those are for others */
        if (!have_f16(kv, table, n_old, n_new, how, copy)) return fail_f16(kv, err);
    }
    if (copy) unshare_last(kv, table, last);
    while (table->n_pages < need) table->pages[table->n_pages++] = page_take(kv);
    if (!kv->copies) return KT_OK;
    give_f16(kv, table, n_old, n_new, how);
    plan_quantising(kv, table, n_old, n_new, how);
    return KT_OK;
}

kt_status kt__kv_table_grow(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt_error *err) {
    return kt__kv_table_grow_as(kv, table, n_old, n_new, KT__GROW_KEPT, err);
}

/* Whether other tables may continue after the page. */
static bool is_wanted_f16(const kt__kv *kv, int32_t page) {
    return kt__f16_copy_is_held(kv->copies, page) || kv->refs[page] - kv->kept[page] > 1;
}

void kt__kv_table_settle(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int32_t from = table->f16_from, keep = kt__kv_tail_from(&kv->shape, n_pos);
    if (!kv->copies) return;
    note_quantised(kv, table, n_pos);
    if (keep > table->f16_to) keep = table->f16_to;
    if (keep < from) keep = from;
    hold_f16(kv, table, keep, table->f16_to);
    for (int32_t i = from; i < (int32_t)(n_pos / KT__PAGE_POS); i++) {
        int32_t page = table->pages[i];
        bool staged = kt__f16_copy_of(kv->copies, page) == KT__F16_COPY_STAGED;
        bool passed = i < keep && !is_wanted_f16(kv, page) && !is_before_cut(kv, table, i);
        if (staged || passed) kt__f16_copy_drop(kv->copies, page);
    }
}

void kt__kv_table_unstage(kt__kv *kv, kt__kv_table *table) {
    table->quantise_from = table->quantise_due = table->quantise_to = 0;
    for (int32_t i = 0; kv->copies && i < table->n_pages; i++) {
        if (kt__f16_copy_of(kv->copies, table->pages[i]) == KT__F16_COPY_STAGED)
            kt__f16_copy_drop(kv->copies, table->pages[i]);
    }
}

/* Of the first n_pos positions, the last page that a query after them reads quantised and that is
 * not, or the last that it reads in f16 and that has no copy; -1: there is none. */
static int32_t last_gone(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    int32_t f16 = last_not_f16(kv, table, n_pos);
    for (int32_t i = kt__kv_tail_from(&kv->shape, n_pos) - 1; i > f16; i--) {
        if (kv->shape.first_f16 && i == 0) break;
        if (i < table->n_pages && !is_quantised(kv, table->pages[i])) return i;
    }
    return f16;
}

/* Where f16 copies allow positions to be appended. */
static int64_t own_f16_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int64_t end = (int64_t)table->n_pages * KT__PAGE_POS;
    if (!kv->copies) return n_pos;
    if (end > n_pos) end = n_pos;
    for (int32_t at; (at = last_gone(kv, table, end)) >= 0;) end = (int64_t)at * KT__PAGE_POS;
    (void)kt__kv_table_hold_end(kv, table, end);
    int32_t last = (int32_t)(end / KT__PAGE_POS);
    if (end % KT__PAGE_POS != 0 && kv->refs[table->pages[last]] > 1) {
        if (kv->n_taken < kv->n_ids && kt__f16_copies_n_free(kv->copies, KT__F16_COPY_KEPT) > 0) {
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

/* Where a state allows to continue: the table's own, or the last snapshot of a page up to there. */
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
        n_pos = own_f16_end(kv, table, end);
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
    bool some = table->f16_from < keep;
    if (keep < table->f16_to) hold_f16(kv, table, some ? table->f16_from : 0, some ? keep : 0);
    if (keep == 0) table->cuts[0] = table->cuts[1] = 0;
    while (table->n_pages > keep) kt__kv_page_drop(kv, table->pages[--table->n_pages]);
}

void kt__kv_table_adopt(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page) {
    int32_t own = table->pages[index];
    bool moves = is_there_f16(kv, table, index) && !kt__kv_page_has_f16(kv, page);
    bool quantises = kv->copies && is_quantised(kv, own) && !is_quantised(kv, page);
    bool held = kv->copies && table->f16_from <= index && index < table->f16_to;
    held |= table->holds_first && index == 0;
    if ((moves || quantises) && kv->refs[own] > 1) return;
    if (quantises) move_place(kv, own, page);
    if (moves) {
        kt__f16_copy_drop(kv->copies, page);
        kt__f16_copy_move(kv->copies, own, page);
    }
    if (held) {
        kt__f16_copy_hold(kv->copies, page);
        kt__f16_copy_let_go(kv->copies, own);
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
    assert(dst->n_pages == 0 && n <= dst->cap && (kv->copies || kv->states || n <= src->n_pages));
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

int32_t kt__kv_table_state_at(kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    int64_t last = n_pos / KT__PAGE_POS - 1;
    if (table->state != KT__NO_STATE && table->n_state == n_pos) return table->state;
    return last < table->n_pages ? kt__states_of(kv->states, table->pages[last]) : KT__NO_STATE;
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
