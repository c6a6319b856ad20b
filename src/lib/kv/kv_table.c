#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/kv_store.h"

kt_status kt__kv_table_init(kt__kv_table *table, int64_t max_pos, kt_error *err) {
    int32_t cap = kt__pages_of(max_pos);
    *table = (kt__kv_table){0};
    table->pages = kt__calloc((size_t)cap, sizeof *table->pages);
    if (!table->pages) return kt__fail_nomem(err, "a block table", (size_t)cap * sizeof(int32_t));
    table->cap = cap;
    return KT_OK;
}

void kt__kv_table_free(kt__kv *kv, kt__kv_table *table) {
    if (!table->pages) return;
    kt__kv_table_truncate(kv, table, 0);
    kt__free(table->pages);
    *table = (kt__kv_table){0};
}

/* Where pressed pages allow it: not within one, nor after one that cannot be read with those before it. */
static int64_t pressed_end(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    int32_t mixed = kt__press_first_mixed(kv, table), last = (int32_t)(n_pos / KT__PAGE_POS);
    if (mixed >= 0 && mixed < last) last = mixed;
    bool whole = n_pos % KT__PAGE_POS == 0 || last < n_pos / KT__PAGE_POS;
    if (!whole && last < table->n_pages && last != mixed &&
        kt__kv_page_form(kv, table->pages[last]) == KT__KV_F16)
        return n_pos;
    return (int64_t)last * KT__PAGE_POS;
}

/* Where pages allow positions to be appended. */
static int64_t own_page_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int64_t end = (int64_t)table->n_pages * KT__PAGE_POS;
    if (!kv->copies && !kv->local_slots && !kv->pressing) return n_pos;
    if (end > n_pos) end = n_pos;
    if (kv->pressing) end = pressed_end(kv, table, end);
    for (int32_t at; (at = kt__store_last_gone(kv, table, end)) >= 0;)
        end = (int64_t)at * KT__PAGE_POS;
    (void)kt__kv_table_hold_end(kv, table, end);
    int32_t last = (int32_t)(end / KT__PAGE_POS);
    if (kv->copies && end % KT__PAGE_POS != 0 && kv->refs[table->pages[last]] > 1) {
        if (kv->n_taken < kv->n_ids && kt__f16_copies_n_free(kv->copies, KT__F16_COPY_KEPT) > 0) {
            kt__store_unshare_last(kv, table, last);
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
        n_pos = own_page_end(kv, table, end);
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
    int32_t keep = kt__pages_of(n_pos);
    bool some = table->f16_from < keep;
    if (keep < table->f16_to)
        kt__store_hold_f16(kv, table, some ? table->f16_from : 0, some ? keep : 0);
    some = table->window_from < keep;
    if (keep < table->window_to)
        kt__store_hold_window(kv, table, some ? table->window_from : 0, some ? keep : 0);
    if (keep == 0) table->cuts[0] = table->cuts[1] = 0;
    while (table->n_pages > keep) kt__kv_page_drop(kv, table->pages[--table->n_pages]);
}

void kt__kv_table_adopt(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page) {
    int32_t own = table->pages[index];
    bool moves = kt__kv_page_has_f16(kv, own) && !kt__kv_page_has_f16(kv, page);
    bool quantises = kv->copies && kt__store_is_quantised(kv, own) &&
                     !kt__store_is_quantised(kv, page);
    bool local = kt__store_has_local(kv, own) && !kt__store_has_local(kv, page);
    if ((moves || quantises || local) && kv->refs[own] > 1) return;
    if (quantises) {
        kt__store_move_place(kv, own, page);
    } else if (local) {
        kt__slot_move(kv->local_slots, own, page);
    }
    if (moves) {
        kt__f16_copy_drop(kv->copies, page);
        kt__f16_copy_move(kv->copies, own, page);
    }
    kt__kv_table_set(kv, table, index, page);
}

void kt__kv_table_set(kt__kv *kv, kt__kv_table *table, int32_t index, int32_t page) {
    assert(index <= table->n_pages && index < table->cap);
    kt__kv_page_ref(kv, page);
    if (index == table->n_pages) {
        table->n_pages++;
    } else {
        kt__store_move_holds(kv, table, index, page);
        kt__kv_page_drop(kv, table->pages[index]);
    }
    table->pages[index] = page;
}

void kt__kv_table_share(kt__kv *kv, const kt__kv_table *src, int64_t n_pos, kt__kv_table *dst) {
    int32_t n = kt__pages_of(n_pos);
    assert(dst->n_pages == 0 && n <= dst->cap &&
           (kv->copies || kv->states || kv->local_slots || n <= src->n_pages));
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

void kt__kv_state_ref(kt__kv *kv, int32_t piece) {
    kt__states_ref(kv->states, piece);
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

/* ---- kv hold ---- */

/* ---- the f16 copies that a table holds ---- */

/* The pages from..to-1, which may be none, and page 0 if it is read in f16, instead of those so
 * far. */
void kt__store_hold_f16(kt__kv *kv, kt__kv_table *table, int32_t from, int32_t to) {
    if (!kv->copies || (from == table->f16_from && to == table->f16_to)) return;
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

/* ---- the windows that a table holds ---- */

/* Whether a sequence that continues at one of the table's cuts will read the page, which is among
 * the last n_back before that. */
static bool is_before_cut(const kt__kv_table *table, int32_t index, int n_back) {
    for (int i = 0; i < 2; i++) {
        if (index < table->cuts[i] && index >= table->cuts[i] - n_back) return true;
    }
    return false;
}

/* The pages from..to-1, which may be none, instead of those so far. */
void kt__store_hold_window(kt__kv *kv, kt__kv_table *table, int32_t from, int32_t to) {
    if (!kv->local_slots || (from == table->window_from && to == table->window_to)) return;
    for (int32_t i = from; i < to; i++) kt__slot_hold(kv->local_slots, table->pages[i]);
    for (int32_t i = table->window_from; i < table->window_to; i++) {
        int32_t page = table->pages[i];
        bool wanted = kt__store_is_shared(kv, page) || is_before_cut(table, i, kv->shape.n_window);
        kt__slot_let_go(kv->local_slots, page, i < from && !wanted);
    }
    table->window_from = from;
    table->window_to = to;
}

void kt__store_move_holds(kt__kv *kv, const kt__kv_table *table, int32_t index, int32_t page) {
    bool f16 = (table->f16_from <= index && index < table->f16_to) ||
               (table->holds_first && index == 0);
    bool window = table->window_from <= index && index < table->window_to;
    if (kv->local_slots && window) {
        kt__slot_hold(kv->local_slots, page);
        kt__slot_let_go(kv->local_slots, table->pages[index], false);
    }
    if (kv->copies && f16) {
        kt__f16_copy_hold(kv->copies, page);
        kt__f16_copy_let_go(kv->copies, table->pages[index]);
    }
}

/* After the last page that a query after n_pos positions reads in a place of a layer with a
 * window. */
static int32_t window_end(const kt__kv *kv, int64_t n_pos) {
    return kv->copies ? kt__kv_tail_from(&kv->shape, n_pos) : kt__pages_of(n_pos);
}

/* Of the pages that a query after the first n_pos positions reads there, the last that has no such
 * place; -1: there is none. */
static int32_t last_not_local(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    int32_t first = kt__kv_window_from(&kv->shape, n_pos);
    if (!kv->local_slots) return -1;
    if (first == 0 && kv->shape.first_f16) first = 1;
    for (int32_t i = window_end(kv, n_pos) - 1; i >= first; i--) {
        if (i >= table->n_pages || !kt__store_has_local(kv, table->pages[i])) return i;
    }
    return -1;
}

static int32_t later_page(int32_t a, int32_t b) {
    return a > b ? a : b;
}

bool kt__store_hold_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos, bool keep) {
    int32_t end = kt__pages_of(n_pos);
    bool ready = !kv->copies || last_not_f16(kv, table, n_pos) < 0;
    ready = ready && last_not_local(kv, table, n_pos) < 0;
    if (!ready) return false;
    kt__store_hold_f16(kv, table, kt__kv_tail_from(&kv->shape, n_pos),
                       keep ? later_page(end, table->f16_to) : end);
    kt__store_hold_window(kv, table, kt__kv_window_from(&kv->shape, n_pos),
                          keep ? later_page(end, table->window_to) : end);
    return true;
}

bool kt__kv_table_hold_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    return kt__store_hold_end(kv, table, n_pos, false);
}

static bool holds_f16_end(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    return table->f16_from <= kt__kv_tail_from(&kv->shape, n_pos) &&
           table->f16_to >= kt__pages_of(n_pos) && last_not_f16(kv, table, n_pos) < 0;
}

bool kt__kv_table_holds_window(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    return table->window_from <= kt__kv_window_from(&kv->shape, n_pos) &&
           table->window_to >= kt__pages_of(n_pos) && last_not_local(kv, table, n_pos) < 0;
}

bool kt__kv_table_holds_end(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    return (!kv->copies || holds_f16_end(kv, table, n_pos)) &&
           (!kv->local_slots || kt__kv_table_holds_window(kv, table, n_pos));
}

void kt__kv_table_rest(kt__kv *kv, kt__kv_table *table) {
    kt__store_hold_f16(kv, table, 0, 0);
    kt__store_hold_window(kv, table, 0, 0);
}

void kt__kv_table_pass(kt__kv *kv, const kt__kv_table *table) {
    int32_t index = kt__kv_window_from(&kv->shape, (int64_t)table->n_pages * KT__PAGE_POS) - 1;
    if (!kv->local_slots || index < 0) return;
    int32_t page = table->pages[index];
    if (!kt__slot_is_held(kv->local_slots, page) && !kt__store_is_shared(kv, page))
        kt__slot_drop(kv->local_slots, page);
}

void kt__kv_table_cut(kt__kv_table *table, int64_t n_pos) {
    int32_t page = (int32_t)(n_pos / KT__PAGE_POS);
    if (table->cuts[0] == page || table->cuts[1] == page) return;
    table->cuts[1] = table->cuts[0];
    table->cuts[0] = page;
}

/* The same of what it reads in f16. */
bool kt__store_is_before_cut(const kt__kv *kv, const kt__kv_table *table, int32_t index) {
    return (kv->shape.first_f16 && index == 0) || is_before_cut(table, index, kv->shape.n_tail);
}

/* Of the first n_pos positions, the last page that a query after them reads quantised and that is
 * not, that it reads in f16 and that has no copy, or that has no place in a layer with a window
 * where it is read; -1: there is none. */
int32_t kt__store_last_gone(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    int32_t local = last_not_local(kv, table, n_pos);
    if (!kv->copies) return local;
    int32_t f16 = last_not_f16(kv, table, n_pos), last = f16 > local ? f16 : local;
    for (int32_t i = kt__kv_tail_from(&kv->shape, n_pos) - 1; i > last; i--) {
        if (kv->shape.first_f16 && i == 0) break;
        if (i < table->n_pages && !kt__store_is_quantised(kv, table->pages[i])) return i;
    }
    return last;
}

/* ---- kv grow ---- */

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
    if (kv->pressing && n_new > n_old) kt__press_note_written(kv, table, n_old);
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
