#include "requests/runner.h"

#include "context/model.h"
#include "kv/prefix.h"
#include "prompt/text.h"

bool kt__stored_is_used(const kt_engine *engine) {
    return kt__prefix_store(engine->prefix) && kt__kv_needs_ends(kt__kv_get_shape(engine->kv));
}

/* ---- loading ---- */

static void empty_table(kt__work *w) {
    kt__kv_table_truncate(w->engine->kv, &w->state->table, 0);
    w->cursor = (kt__prefix_cursor){w->root, 0};
    w->task.n_done = w->n_load = 0;
    w->task.loading = false;
}

bool kt__stored_begin(kt__work *w, size_t n_findable) {
    kt_engine *engine = w->engine;
    if (w->load_failed || !kt__stored_is_used(engine)) return true;
    int32_t n = kt__prefix_find_end(engine->prefix, w->root, w->state->tokens, n_findable,
                                    w->task.n_done / KT__PAGE_POS);
    if (n == 0) return true;
    int64_t n_pos = (int64_t)n * KT__PAGE_POS;
    empty_table(w);
    kt_status status = kt__kv_table_grow_as(engine->kv, &w->state->table, 0, n_pos,
                                            KT__GROW_QUANTISED, NULL);
    w->load_failed = status != KT_OK;
    if (w->load_failed) return false;
    (void)kt__kv_table_hold_end(engine->kv, &w->state->table, n_pos);
    w->n_load = n;
    w->task.loading = true;
    return true;
}

void kt__stored_load(kt__work *w) {
    if (!kt__prefix_load_part(w->engine->prefix, w->root, &w->cursor, w->state->tokens, w->n_load,
                              &w->state->table)) {
        empty_table(w);
        w->load_failed = true;
        return;
    }
    if (w->cursor.n_block < w->n_load) return;
    w->task.n_done = w->n_load * KT__PAGE_POS;
    w->stored = kt__prefix_cursor_at(
        w->root, w->state->tokens,
        kt__kv_tail_from(kt__kv_get_shape(w->engine->kv), w->task.n_done));
    w->task.loading = false;
    w->n_load = 0;
}

/* ---- keeping ---- */

void kt__stored_put_blocks(kt__work *w) {
    kt_engine *engine = w->engine;
    if (!kt__stored_is_used(engine) || !kt__kv_reads_f16_ends(kt__kv_get_shape(engine->kv))) return;
    if (w->stored.n_block == 0) w->stored = (kt__prefix_cursor){w->root, 0};
    kt__prefix_put_blocks(engine->prefix, &w->stored, w->state->tokens, w->task.n_done,
                          &w->state->table);
}

static void put_end(kt__work *w, int32_t from, int32_t n_pos) {
    int32_t n_block = n_pos / KT__PAGE_POS;
    if (n_block == 0 || n_block * KT__PAGE_POS <= from || n_block * KT__PAGE_POS > w->task.n_done)
        return;
    kt__prefix_put_end(w->engine->prefix, w->root, w->state->tokens, n_block, &w->state->table);
}

void kt__stored_put_ends(kt__work *w, int32_t from) {
    const kt__kv_table *table = &w->state->table;
    const kt__tokenizer *tok = w->engine->model->tok;
    if (!kt__stored_is_used(w->engine)) return;
    int32_t n_tok = w->n_base + w->n_prompt;
    if (tok) put_end(w, from, kt__snapshot_first_border(tok, w->state->tokens, n_tok));
    if (w->task.n_done < n_tok) return;
    for (int i = 0; i < 2; i++) put_end(w, 0, table->cuts[i] * KT__PAGE_POS);
    put_end(w, 0, n_tok - 1);
}

void kt__stored_put_last(kt__work *w) {
    if (kt__stored_is_used(w->engine)) put_end(w, 0, w->task.n_done);
}
