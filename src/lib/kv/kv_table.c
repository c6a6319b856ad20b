#include <assert.h>

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

/* Where pages allow positions to be appended. */
static int64_t own_page_end(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int64_t end = (int64_t)table->n_pages * KT__PAGE_POS;
    if (!kv->copies && !kv->local_slots) return n_pos;
    if (end > n_pos) end = n_pos;
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
