#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "kv/kv_store.h"

/* Everything of a page that is written: its f16 copy, or its own parts in f16. */
void kt__kv_page_copy(kt__kv *kv, int32_t from, int32_t to) {
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
void kt__store_unshare_last(kt__kv *kv, kt__kv_table *table, int32_t index) {
    int32_t old = table->pages[index];
    int32_t own = kt__store_page_take(kv);
    if (kv->copies) kt__store_take_f16(kv, own, KT__F16_COPY_KEPT);
    if (!kv->copies) kt__store_give_local(kv, own);
    kt__kv_page_copy(kv, old, own);
    if (kv->copied) kv->copied(kv->copied_user, old, own);
    kt__store_move_holds(kv, table, index, own);
    table->pages[index] = own;
    kt__kv_page_drop(kv, old);
}

/* ---- what a table's batches quantise ---- */

static bool has_place_at(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages && kt__store_place_of(kv, table->pages[index]) != KT__NO_PLACE;
}

/* Places that the pages from..to-1 do not have yet. */
static int64_t places_missing(const kt__kv *kv, const kt__kv_table *table, int32_t from,
                              int32_t to) {
    int64_t n = 0;
    for (int32_t i = from; i < to; i++)
        n += !has_place_at(kv, table, i) && !(kv->shape.first_f16 && i == 0);
    return n;
}

/* The same of places in layers with a window, where pages before `first` need none. */
static int32_t local_missing(const kt__kv *kv, const kt__kv_table *table, int32_t first,
                             int32_t from, int32_t to) {
    int32_t n = 0;
    for (int32_t i = from < first ? first : from; i < to && kv->local_slots; i++)
        n += i >= table->n_pages || !kt__store_has_local(kv, table->pages[i]);
    return n;
}

static bool have_local(const kt__kv *kv, int32_t n) {
    return n == 0 || n <= kt__slots_n_free(kv->local_slots);
}

/* Such places of the pages from..to-1 that nobody holds: they count as free, and are not for others,
 * since the table will hold them. */
static int32_t local_loose(const kt__kv *kv, const kt__kv_table *table, int32_t from, int32_t to) {
    int32_t n = 0;
    for (int32_t i = from; i < to && i < table->n_pages && kv->local_slots; i++) {
        int32_t page = table->pages[i];
        n += kt__store_has_local(kv, page) && !kt__slot_is_held(kv->local_slots, page);
    }
    return n;
}

static void give_places(kt__kv *kv, const kt__kv_table *table, int32_t first, int32_t from,
                        int32_t to) {
    for (int32_t i = from; i < to; i++) {
        if (kv->shape.first_f16 && i == 0) continue;
        if (kv->copies) kt__store_give_place(kv, table->pages[i]);
        if (i >= first) kt__store_give_local(kv, table->pages[i]);
    }
}

/* Gives both where both are left. */
static bool try_places(kt__kv *kv, const kt__kv_table *table, int32_t from, int32_t to) {
    if (!have_local(kv, local_missing(kv, table, 0, from, to)) ||
        !kt__store_have_places(kv, places_missing(kv, table, from, to)))
        return false;
    give_places(kv, table, 0, from, to);
    return true;
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
    if (!try_places(kv, table, table->quantise_due, begin)) return;
    table->quantise_to = table->quantise_due = begin;
    if (done <= 0 || (int64_t)end * KT__PAGE_POS > n_old) return;
    if (!try_places(kv, table, begin, end)) return;
    table->quantise_to = end;
    table->quantise_layers = (int32_t)(done * kv->shape.n_layer / steps);
}

/* The first page that needs a place in layers with a window: of blocks that are written there, only
 * those that a query after them reads; in a batch each has readers. */
static int32_t first_local(const kt__kv *kv, int64_t n_new, kt__kv_growth how) {
    return how == KT__GROW_QUANTISED ? kt__kv_window_from(&kv->shape, n_new) : 0;
}

/* Positions from n_old on are written: what was quantised of their pages is so no longer. */
static void plan_quantising(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt__kv_growth how) {
    int32_t from = kt__kv_tail_from(&kv->shape, n_old), to = kt__kv_tail_from(&kv->shape, n_new);
    int32_t first = first_local(kv, n_new, how);
    for (int32_t i = (int32_t)(n_old / KT__PAGE_POS); i < table->n_pages; i++)
        kv->quantised[table->pages[i]] = 0;
    give_places(kv, table, first, from, to);
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
    if (index >= kt__kv_tail_from(&kv->shape, n_new) || kt__store_is_before_cut(kv, table, index))
        return KT__F16_COPY_KEPT;
    return how == KT__GROW_STAGED ? KT__F16_COPY_STAGED : KT__F16_COPY_NONE;
}

static kt__f16_copy_kind copy_at(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return index < table->n_pages ? kt__f16_copy_of(kv->copies, table->pages[index])
                                  : KT__F16_COPY_NONE;
}

/* Whether there is room for the f16 copies of positions n_old..n_new-1. One that a page has and nobody
 * holds counts as free, and is not for another page. */
static bool have_f16(const kt__kv *kv, const kt__kv_table *table, int64_t n_old, int64_t n_new,
                     kt__kv_growth how, bool copy) {
    int32_t kept = copy ? 1 : 0, staged = 0, first = (int32_t)(n_old / KT__PAGE_POS);
    for (int32_t i = first; (int64_t)i * KT__PAGE_POS < n_new; i++) {
        kt__f16_copy_kind has = copy_at(kv, table, i),
                          wants = copy_for(kv, table, how, i, n_old, n_new);
        bool loose = has == KT__F16_COPY_KEPT && !kt__f16_copy_is_held(kv->copies, table->pages[i]);
        kept += loose || (wants == KT__F16_COPY_KEPT && has != KT__F16_COPY_KEPT);
        staged += wants == KT__F16_COPY_STAGED && has == KT__F16_COPY_NONE;
    }
    return kept <= kt__f16_copies_n_free(kv->copies, KT__F16_COPY_KEPT) &&
           staged <= kt__f16_copies_n_free(kv->copies, KT__F16_COPY_STAGED);
}

/* The table has its pages. A kept form serves where a staged one would. They are held first: what is
 * taken for one page must not be another's. */
static void give_f16(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                     kt__kv_growth how) {
    kt__store_hold_f16(kv, table, kt__kv_tail_from(&kv->shape, n_old), kt__pages_of(n_new));
    for (int32_t i = (int32_t)(n_old / KT__PAGE_POS); (int64_t)i * KT__PAGE_POS < n_new; i++) {
        int32_t page = table->pages[i];
        kt__f16_copy_kind has = kt__f16_copy_of(kv->copies, page),
                          wants = copy_for(kv, table, how, i, n_old, n_new);
        if (has >= wants) continue;
        kt__f16_copy_drop(kv->copies, page);
        kt__store_take_f16(kv, page, wants);
    }
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

static kt_status fail_windows(const kt__kv *kv, kt_error *err) {
    return kt__fail(
        err, KT_E_NOMEM,
        "the windows of running sequences hold all but %d pages of the layers that have "
        "one: close a sequence, or open the engine for fewer answers at once",
        (int)kt__slots_n_free(kv->local_slots));
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
    int32_t need = kt__pages_of(n_new);
    int32_t last = (int32_t)(n_old / KT__PAGE_POS);
    assert(need <= table->cap);
    bool within = n_new > n_old && n_old % KT__PAGE_POS != 0;
    bool copy = within && kv->refs[table->pages[last]] > 1;
    int64_t take = (need > table->n_pages ? need - table->n_pages : 0) + (copy ? 1 : 0);
    /* pages that get places of their own */
    int32_t from = kv->copies ? kt__kv_tail_from(&kv->shape, n_old) : last;
    int32_t to = kv->copies ? kt__kv_tail_from(&kv->shape, n_new) : need;
    int64_t places = kv->copies ? places_missing(kv, table, from, to) : take;
    int32_t local = local_missing(kv, table, first_local(kv, n_new, how), from, to);
    if (n_new > n_old && !kt__store_hold_end(kv, table, n_old, true))
        return kt__fail(err, KT_E_STATE,
                        "position %lld is within or too near quantised pages of K/V",
                        (long long)n_old);
    if (!kt__store_have_places(kv, places) || take > kv->n_ids - kv->n_taken)
        return fail_full(kv, err);
    local += local_loose(kv, table, kt__kv_window_from(&kv->shape, n_old), need);
    if (!have_local(kv, local + (copy && kv->local_slots ? 1 : 0))) return fail_windows(kv, err);
    if (kv->states && n_new > n_old && !take_next(kv, table)) return fail_states(err);
    if (kv->copies && !have_f16(kv, table, n_old, n_new, how, copy)) {
        table->cuts[0] = table->cuts[1] = 0; /* those are for others */
        if (!have_f16(kv, table, n_old, n_new, how, copy)) return fail_f16(kv, err);
    }
    if (copy) kt__store_unshare_last(kv, table, last);
    while (table->n_pages < need) table->pages[table->n_pages++] = kt__store_page_take(kv);
    if (n_new > n_old)
        kt__store_hold_window(kv, table, kt__kv_window_from(&kv->shape, n_old), need);
    if (!kv->copies) give_places(kv, table, first_local(kv, n_new, how), from, to);
    if (!kv->copies) return KT_OK;
    give_f16(kv, table, n_old, n_new, how);
    plan_quantising(kv, table, n_old, n_new, how);
    return KT_OK;
}

kt_status kt__kv_table_grow(kt__kv *kv, kt__kv_table *table, int64_t n_old, int64_t n_new,
                            kt_error *err) {
    return kt__kv_table_grow_as(kv, table, n_old, n_new, KT__GROW_KEPT, err);
}

static bool is_wanted_f16(const kt__kv *kv, int32_t page) {
    return kt__f16_copy_is_held(kv->copies, page) || kt__store_is_shared(kv, page);
}

static int32_t clamp_page(int32_t x, int32_t least, int32_t most) {
    return x < least ? least : x > most ? most : x;
}

void kt__kv_table_settle(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int32_t from = table->f16_from, keep = kt__kv_tail_from(&kv->shape, n_pos);
    int32_t window = kt__kv_window_from(&kv->shape, n_pos);
    kt__store_hold_window(kv, table, clamp_page(window, table->window_from, table->window_to),
                          table->window_to);
    if (!kv->copies) return;
    note_quantised(kv, table, n_pos);
    keep = clamp_page(keep, from, table->f16_to);
    kt__store_hold_f16(kv, table, keep, table->f16_to);
    for (int32_t i = from; i < (int32_t)(n_pos / KT__PAGE_POS); i++) {
        int32_t page = table->pages[i];
        bool staged = kt__f16_copy_of(kv->copies, page) == KT__F16_COPY_STAGED;
        bool passed = i < keep && !is_wanted_f16(kv, page) &&
                      !kt__store_is_before_cut(kv, table, i);
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
