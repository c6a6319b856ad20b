#include "kv/ends.h"

#include <assert.h>
#include <string.h>

static size_t f16_bytes(const kt__kv_shape *shape, int64_t n_pos) {
    return (size_t)kt__kv_n_end_pages(shape, n_pos) * kt__kv_f16_copy_bytes(shape);
}

size_t kt__kv_end_bytes(const kt__kv_shape *shape, int64_t n_pos) {
    return f16_bytes(shape, n_pos) + shape->state_bytes;
}

size_t kt__kv_end_bytes_most(const kt__kv_shape *shape) {
    return kt__kv_end_bytes(shape, (int64_t)KT__PAGE_POS * (shape->n_tail + 2));
}

static int32_t end_page(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos, int32_t i) {
    return table->pages[kt__kv_end_page(kt__kv_get_shape(kv), n_pos, i)];
}

bool kt__kv_has_end(kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    if (n_pos > (int64_t)table->n_pages * KT__PAGE_POS) return false;
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, n_pos); i++) {
        if (!kt__kv_page_has_f16(kv, end_page(kv, table, n_pos, i))) return false;
    }
    return !shape->state_bytes || kt__kv_table_state_at(kv, table, n_pos) != KT__NO_STATE;
}

kt__kv_end kt__kv_end_of(kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    bool has_state = kt__kv_get_shape(kv)->state_bytes > 0;
    return (kt__kv_end){.n_pos = n_pos,
                        .pages = table->pages,
                        .state = has_state ? kt__kv_table_state_at(kv, table, n_pos)
                                           : KT__NO_STATE};
}

void kt__kv_end_read(const kt__kv *kv, const kt__kv_end *end, void *out) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    uint8_t *at = out;
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, end->n_pos); i++) {
        kt__kv_f16_copy_read(kv, end->pages[kt__kv_end_page(shape, end->n_pos, i)], at);
        at += kt__kv_f16_copy_bytes(shape);
    }
    if (shape->state_bytes) memcpy(at, kt__kv_state_data(kv, end->state), shape->state_bytes);
}

kt__kv_end kt__kv_end_new(const kt__kv_table *table, int64_t n_pos) {
    return (kt__kv_end){.n_pos = n_pos, .pages = table->pages, .state = table->next};
}

void kt__kv_end_write(kt__kv *kv, const kt__kv_end *end, const void *bytes) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    const uint8_t *at = bytes;
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, end->n_pos); i++) {
        kt__kv_f16_copy_write(kv, end->pages[kt__kv_end_page(shape, end->n_pos, i)], at);
        at += kt__kv_f16_copy_bytes(shape);
    }
    if (shape->state_bytes) memcpy(kt__kv_state_data(kv, end->state), at, shape->state_bytes);
}

void kt__kv_end_take(kt__kv *kv, kt__kv_table *table, const kt__kv_end *end) {
    if (!kt__kv_get_shape(kv)->state_bytes) return;
    assert(table->next == end->state && end->state != KT__NO_STATE);
    table->next = KT__NO_STATE;
    kt__kv_table_set_state(kv, table, end->state, end->n_pos);
    kt__kv_table_keep(kv, table, end->state, end->n_pos, KT__SNAPSHOT_MARK);
}
