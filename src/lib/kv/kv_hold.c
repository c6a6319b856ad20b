#include "kv/kv_store.h"

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
