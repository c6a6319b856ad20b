#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/kv.h"
#include "kv/kv_store.h"

size_t kt__kv_page_bytes(const kt__kv_shape *s) {
    return (size_t)kt__kv_bytes(s, 1, 1);
}

uint64_t kt__kv_bytes(const kt__kv_shape *s, int64_t n_pages, int64_t n_local) {
    uint64_t n = (uint64_t)(n_local < n_pages ? n_local : n_pages);
    if (!kt__kv_has_local_parts(s)) n = 0;
    return (uint64_t)n_pages * kt__slabs_place_bytes(s, KT__SLAB_GLOBAL) +
           n * kt__slabs_place_bytes(s, KT__SLAB_LOCAL);
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
    if (!kv->pressing) kv->n_ids = quantising ? 2 * (kv->n_pages + room.n_kept) : kv->n_pages;
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
        for (size_t i = 0; ok && i < n; i++) kv->place_of[i] = KT__NO_PLACE;
    }
    return ok ? KT_OK : kt__fail_nomem(err, "the K/V page lists", n * 2 * sizeof(int32_t));
}

static kt_status make_local(kt__kv *kv, kt_error *err) {
    kt_status status = kt__slabs_create(&kv->shape, KT__SLAB_LOCAL, kv->n_local, &kv->local_slabs,
                                        err);
    if (status != KT_OK) return status;
    return kt__slots_create(kv->n_ids, kv->n_local, &kv->local_slots, err);
}

kt_status kt__kv_create(const kt__kv_shape *shape, int64_t n_pages, kt__kv **out, kt_error *err) {
    int32_t n = (int32_t)(n_pages & INT32_MAX);
    kt__kv_room all = {.n_kept = n, .n_states = n, .n_local = n};
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
    kv->n_pages = n_pages;
    kv->n_local = room.n_local;
    if (room.presses) {
        KT__TRY(kt__press_create(kv, &room, err));
    } else {
        KT__TRY(kt__slabs_create(&kv->shape, KT__SLAB_GLOBAL, n_pages, &kv->slabs, err));
    }
    KT__TRY(make_lists(kv, room, err));
    if (kt__kv_has_local_parts(shape)) KT__TRY(make_local(kv, err));
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
    kt__slabs_destroy(kv->slabs);
    kt__slabs_destroy(kv->local_slabs);
    kt__slots_destroy(kv->local_slots);
    kt__f16_copies_destroy(kv->copies);
    kt__states_destroy(kv->states);
    kt__press_destroy(kv->pressing);
    kt__free(kv->refs);
    kt__free(kv->free_ids);
    kt__free(kv->place_of);
    kt__free(kv->free_places);
    kt__free(kv->quantised);
    kt__free(kv->kept);
    kt__free(kv);
}

void kt__kv_spread(kt__kv *kv, const kt__affinity *place) {
    kt__slabs_spread(kv->slabs, place);
    if (kv->local_slabs) kt__slabs_spread(kv->local_slabs, place);
}

void kt__kv_get_memory(const kt__kv *kv, kt__kv_stretch out[KT__KV_MEMORY]) {
    for (int i = 0; i < KT__KV_MEMORY; i++) out[i] = (kt__kv_stretch){NULL, 0};
    out[0].data = kt__slabs_memory(kv->slabs, &out[0].bytes);
    if (kv->local_slabs) out[1].data = kt__slabs_memory(kv->local_slabs, &out[1].bytes);
    for (int staged = 0; kv->copies && staged < 2; staged++)
        out[2 + staged].data = kt__f16_copies_memory(kv->copies, staged, &out[2 + staged].bytes);
}

int64_t kt__kv_n_pages(const kt__kv *kv) {
    return kv->n_pages;
}
int64_t kt__kv_n_used(const kt__kv *kv) {
    return kv->n_used;
}

int64_t kt__kv_n_local(const kt__kv *kv) {
    return kv->n_local;
}

int64_t kt__kv_n_pages_most(const kt__kv *kv) {
    if (!kt__kv_reads_f16_ends(&kv->shape)) return kv->n_pages;
    return kv->n_pages + kv->shape.n_tail + kv->shape.first_f16;
}

/* Where the layer has the page's own parts, and the place there, which may be none. */
static const kt__slabs *slabs_of(const kt__kv *kv, int32_t page, int layer, int32_t *place) {
    bool local = kt__kv_is_local(&kv->shape, layer);
    *place = local ? KT__NO_PLACE : kt__store_place_of(kv, page);
    if (local && kv->local_slots) *place = kt__slot_of(kv->local_slots, page);
    return local ? kv->local_slabs : kv->slabs;
}

static uint8_t *part_of(const kt__kv *kv, const kt__slabs *slabs, int32_t place, int layer,
                        int head, bool values) {
    kt__kv_form form = slabs == kv->slabs ? kt__press_form_at(kv, place) : KT__KV_F16;
    return (values ? kt__slabs_v : kt__slabs_k)(slabs, form, place, layer, head);
}

/* The page's own parts, whatever their form; NULL: they have no place. */
static uint8_t *k_part(const kt__kv *kv, int32_t page, int layer, int head) {
    int32_t place;
    const kt__slabs *slabs = slabs_of(kv, page, layer, &place);
    return place == KT__NO_PLACE ? NULL : part_of(kv, slabs, place, layer, head, false);
}

static uint8_t *v_part(const kt__kv *kv, int32_t page, int layer, int head) {
    int32_t place;
    const kt__slabs *slabs = slabs_of(kv, page, layer, &place);
    return place == KT__NO_PLACE ? NULL : part_of(kv, slabs, place, layer, head, true);
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
    return kv->copies || kv->pressing ? k_part(kv, page, layer, head) : NULL;
}

uint8_t *kt__kv_quantised_v(const kt__kv *kv, int32_t page, int layer, int head) {
    return kv->copies || kv->pressing ? v_part(kv, page, layer, head) : NULL;
}

bool kt__kv_page_has_local(const kt__kv *kv, int32_t page) {
    return !kv->local_slots || kt__store_has_local(kv, page);
}

bool kt__kv_is_due(const kt__kv *kv, const kt__kv_table *table, int32_t index, int layer) {
    int most = index < table->quantise_due ? kv->shape.n_layer : table->quantise_layers;
    if (index < table->quantise_from || index >= table->quantise_to || layer >= most ||
        layer < kv->quantised[table->pages[index]] || (kv->shape.first_f16 && index == 0))
        return false;
    return !kt__kv_is_local(&kv->shape, layer) || kt__store_has_local(kv, table->pages[index]);
}

const kt__kv_shape *kt__kv_get_shape(const kt__kv *kv) {
    return &kv->shape;
}

bool kt__kv_page_has_place(const kt__kv *kv, int32_t page) {
    return kt__store_place_of(kv, page) != KT__NO_PLACE;
}

bool kt__kv_page_is_quantised(const kt__kv *kv, int32_t page) {
    return kt__store_is_quantised(kv, page);
}

bool kt__kv_page_has_f16(const kt__kv *kv, int32_t page) {
    return kv->copies && kt__f16_copy_of(kv->copies, page) == KT__F16_COPY_KEPT;
}

void kt__kv_f16_copy_drop(kt__kv *kv, int32_t page) {
    if (kv->copies) kt__f16_copy_drop(kv->copies, page);
}

/* ---- taking and giving back ---- */

void kt__kv_set_reclaim(kt__kv *kv, kt__kv_reclaim_fn *reclaim, void *user) {
    kv->reclaim = reclaim;
    kv->reclaim_user = user;
}

void kt__kv_set_lost(kt__kv *kv, kt__kv_lost_fn *lost) {
    kv->lost = lost;
}

/* A place for what layers with a window have of the page; another one may lose its own. */
void kt__store_give_local(kt__kv *kv, int32_t page) {
    if (kv->local_slots && !kt__store_has_local(kv, page))
        (void)kt__slot_take(kv->local_slots, page);
}

/* Whether n places are free, after asking for them if they are not. */
bool kt__store_have_places(kt__kv *kv, int64_t n) {
    int64_t short_by = n - (kv->n_pages - kv->n_used);
    if (short_by > 0) short_by = n - kt__kv_n_free(kv);
    if (short_by > 0 && kv->reclaim) kv->reclaim(kv->reclaim_user, short_by);
    return n <= kv->n_pages - kv->n_used;
}

/* A page, without a place but in the form f16. */
int32_t kt__store_page_take(kt__kv *kv) {
    assert(kv->n_taken < kv->n_ids);
    int32_t page = kv->free_ids[kv->n_ids - 1 - kv->n_taken++];
    kv->refs[page] = 1;
    if (kv->pressing) {
        kt__press_give_place(kv, page);
    } else if (!kv->copies) {
        kv->n_used++;
    }
    return page;
}

static bool is_only_kept(const kt__kv *kv, int32_t page) {
    return kv->kept[page] && kv->refs[page] == 1 && kt__store_place_of(kv, page) != KT__NO_PLACE;
}

/* Before and after anything that makes it so or not. */
static void count_kept(kt__kv *kv, int32_t page, int by) {
    if (!is_only_kept(kv, page)) return;
    kv->n_kept += by;
    if (kv->pressing) kt__press_count_kept(kv, page, by);
}

void kt__store_give_place(kt__kv *kv, int32_t page) {
    if (kv->place_of[page] != KT__NO_PLACE) return;
    kv->place_of[page] = kv->free_places[kv->n_pages - 1 - kv->n_used++];
    count_kept(kv, page, 1);
}

static void take_place_back(kt__kv *kv, int32_t page) {
    kv->quantised[page] = 0;
    if (kv->local_slots) kt__slot_drop(kv->local_slots, page);
    if (kv->place_of[page] == KT__NO_PLACE) return;
    count_kept(kv, page, -1);
    kv->free_places[kv->n_pages - 1 - --kv->n_used] = kv->place_of[page];
    kv->place_of[page] = KT__NO_PLACE;
}

/* What is quantised of one page becomes another's. */
void kt__store_move_place(kt__kv *kv, int32_t from, int32_t to) {
    uint16_t quantised = kv->quantised[from];
    take_place_back(kv, to);
    count_kept(kv, from, -1);
    kv->place_of[to] = kv->place_of[from];
    kv->quantised[to] = quantised;
    if (kt__store_has_local(kv, from)) kt__slot_move(kv->local_slots, from, to);
    kv->place_of[from] = KT__NO_PLACE;
    kv->quantised[from] = 0;
    count_kept(kv, to, 1);
}

int32_t kt__kv_page_take(kt__kv *kv) {
    if (!kt__store_have_places(kv, 1) || kv->n_taken == kv->n_ids) return -1;
    int32_t page = kt__store_page_take(kv);
    if (kv->copies) kt__store_give_place(kv, page);
    if (kv->local_slots && kt__slots_n_free(kv->local_slots) > 0) kt__store_give_local(kv, page);
    return page;
}

/* An f16 copy for the page; another one may lose its own, and with it what was not quantised. */
void kt__store_take_f16(kt__kv *kv, int32_t page, kt__f16_copy_kind kind) {
    int32_t loser = kt__f16_copy_take(kv->copies, page, kind);
    if (loser >= 0 && !kt__store_is_quantised(kv, loser) && kv->lost)
        kv->lost(kv->reclaim_user, loser);
}

void kt__kv_page_ref(kt__kv *kv, int32_t page) {
    assert(kv->refs[page] > 0);
    count_kept(kv, page, -1);
    kv->refs[page]++;
}

int32_t kt__kv_page_refs(const kt__kv *kv, int32_t page) {
    return kv->refs[page];
}

void kt__kv_page_drop(kt__kv *kv, int32_t page) {
    assert(kv->refs[page] > 0);
    count_kept(kv, page, -1);
    kv->refs[page]--;
    count_kept(kv, page, 1);
    if (kv->refs[page] > 0) return;
    if (kv->copies) {
        kt__f16_copy_drop(kv->copies, page);
        take_place_back(kv, page);
    } else {
        if (kv->local_slots) kt__slot_drop(kv->local_slots, page);
        if (kv->pressing) {
            kt__press_take_place_back(kv, page);
        } else {
            kv->n_used--;
        }
    }
    if (kv->states) kt__states_forget(kv->states, page);
    kv->free_ids[kv->n_ids - 1 - --kv->n_taken] = page;
}

void kt__kv_page_set_kept(kt__kv *kv, int32_t page, bool kept) {
    count_kept(kv, page, -1);
    kv->kept[page] = kept;
    count_kept(kv, page, 1);
}

int64_t kt__kv_n_kept(const kt__kv *kv) {
    return kv->pressing ? kt__press_n_kept(kv) : kv->n_kept;
}

/* ---- a store that another process leads ---- */

int64_t kt__kv_n_ids(const kt__kv *kv) {
    return kv->n_ids;
}

int32_t kt__kv_n_states(const kt__kv *kv) {
    return kv->states ? kt__states_n(kv->states) : 0;
}

int32_t kt__kv_states_used(const kt__kv *kv) {
    return kv->states ? kt__states_used(kv->states) : 0;
}

void kt__kv_set_copied(kt__kv *kv, kt__kv_copied_fn *copied, void *user) {
    kv->copied = copied;
    kv->copied_user = user;
}

kt__kv_where kt__kv_page_where(const kt__kv *kv, int32_t page) {
    kt__kv_where where = {.place = page, .slot = KT__NO_SLOT, .local = KT__NO_SLOT};
    if (kv->local_slots) where.local = kt__slot_of(kv->local_slots, page);
    if (!kv->copies) return where;
    where.place = kv->place_of[page];
    where.slot = kt__f16_copy_slot(kv->copies, page);
    where.quantised = kv->quantised[page];
    return where;
}

bool kt__kv_page_put(kt__kv *kv, int32_t page, kt__kv_where where) {
    if (page < 0 || page >= kv->n_ids) return false;
    if (kv->local_slots && !kt__slot_put(kv->local_slots, page, where.local)) return false;
    if (!kv->copies) return true;
    if (where.place < KT__NO_PLACE || where.place >= kv->n_pages) return false;
    if (where.quantised < 0 || where.quantised > kv->shape.n_layer) return false;
    kv->place_of[page] = where.place;
    kv->quantised[page] = (uint16_t)where.quantised;
    return kt__f16_copy_put(kv->copies, page, where.slot);
}

/* ---- kv blocks ---- */

/* ---- a page as one block ---- */

size_t kt__kv_block_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (kt__slabs_k_bytes(s, layer) + kt__slabs_v_bytes(s, layer)) *
                 (size_t)kt__kv_heads_of(s, layer).n;
    return bytes;
}

/* n bytes between a page's part, which may be nowhere, and a block. */
static void part_copy(void *part, void *block, size_t n, bool out) {
    if (!part && out) memset(block, 0, n);
    if (part) memcpy(out ? block : part, out ? part : block, n);
}

uint8_t *kt__kv_own_k(const kt__kv *kv, int32_t page, int layer, int head) {
    bool f16 = kt__kv_k_form(&kv->shape, layer) == KT__KV_F16;
    return f16 ? (uint8_t *)kt__kv_k(kv, page, layer, head)
               : kt__kv_quantised_k(kv, page, layer, head);
}

static void *block_v(const kt__kv *kv, int32_t page, int layer, int head) {
    bool f16 = kv->shape.v_form == KT__KV_F16;
    return f16 ? (void *)kt__kv_v(kv, page, layer, head)
               : kt__kv_quantised_v(kv, page, layer, head);
}

/* Between the page and a block: its own parts, or the f16 copy of what is f16 anyway. */
static void block_copy(const kt__kv *kv, int32_t page, uint8_t *at, bool local, bool out) {
    const kt__kv_shape *s = &kv->shape;
    for (int layer = 0; layer < s->n_layer; layer++) {
        size_t k_bytes = kt__slabs_k_bytes(s, layer), v_bytes = kt__slabs_v_bytes(s, layer);
        bool skipped = !local && kt__kv_is_local(s, layer);
        for (int head = 0; head < kt__kv_heads_of(s, layer).n; head++, at += k_bytes + v_bytes) {
            part_copy(skipped ? NULL : kt__kv_own_k(kv, page, layer, head), at, k_bytes, out);
            part_copy(skipped ? NULL : block_v(kv, page, layer, head), at + k_bytes, v_bytes, out);
        }
    }
}

void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out) {
    block_copy(kv, page, out, true, true);
}

void kt__kv_block_read_global(const kt__kv *kv, int32_t page, void *out) {
    block_copy(kv, page, out, false, true);
}

void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block) {
    block_copy(kv, page, (uint8_t *)(uintptr_t)block, true, false);
    if (kv->copies && kt__store_place_of(kv, page) != KT__NO_PLACE &&
        !kt__kv_page_has_f16(kv, page))
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
