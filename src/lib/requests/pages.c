/* What a task need not compute: its pages found in the index, loaded from a store, shared with another task's; and what
 * becomes known of those that it has computed. */
#include "requests/runner.h"

#include <string.h>

#include "base/clock.h"
#include "context/model.h"
#include "kv/prefix.h"
#include "prompt/text.h"
#include "requests/plan.h"
#include "requests/speculator.h"

/* Positions that may be found: at least one is computed, for its logits. */
static size_t n_findable(const kt__task *task) {
    return (size_t)task->n_tok - 1;
}

static bool uses_cache(const kt__work *w) {
    return w->task.kind == KT__TASK_ANSWER && !w->no_cache;
}

/* Whether the engine has a store, and its shape needs ends to continue after what that has. */
static bool stored_is_used(const kt_engine *engine) {
    return kt__prefix_store(engine->prefix) && kt__kv_needs_ends(kt__kv_get_shape(engine->kv));
}

/* ---- a store of blocks with ends ---- */

static void empty_table(kt__work *w) {
    kt__kv_table_truncate(w->engine->kv, &w->state->table, 0);
    w->cursor = (kt__prefix_cursor){w->root, 0};
    w->task.n_done = w->n_load = 0;
    w->task.loading = false;
}

/* The index was asked, and task.n_done positions can be continued after. If the store can continue later, the table is
 * emptied and grown for that, n_load says how far, and the task is loading. false: it could not be grown; the index has to
 * be asked again. */
static bool stored_begin(kt__work *w, size_t most) {
    kt_engine *engine = w->engine;
    if (w->load_failed || !stored_is_used(engine)) return true;
    int32_t n = kt__prefix_find_end(engine->prefix, w->root, w->state->tokens, most,
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

/* Loads a part; the task is loading no longer when all is there (n_done says how far) or something is not, and then the
 * table is empty. */
static void stored_load(kt__work *w) {
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

/* task.n_done positions are computed: blocks that have become quantised. */
static void stored_put_blocks(kt__work *w) {
    kt_engine *engine = w->engine;
    if (!stored_is_used(engine) || !kt__kv_reads_f16_ends(kt__kv_get_shape(engine->kv))) return;
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

void kt__pages_put_ends(kt__work *w, int32_t from) {
    const kt__kv_table *table = &w->state->table;
    const kt__tokenizer *tok = w->engine->model->tok;
    if (!uses_cache(w) || !stored_is_used(w->engine)) return;
    int32_t n_tok = w->n_base + w->n_prompt;
    if (tok) put_end(w, from, kt__snapshot_first_border(tok, w->state->tokens, n_tok));
    if (w->task.n_done < n_tok) return;
    for (int i = 0; i < 2; i++) put_end(w, 0, table->cuts[i] * KT__PAGE_POS);
    put_end(w, 0, n_tok - 1);
}

/* ---- finding and loading ---- */

/* Where f16 copies are gone that rows after n_done read, or no state leads there, positions are
 * computed again from where they are there; for those who come after, they are kept then where this
 * prompt departs from an earlier one, and where it ends. */
static void own_end(kt__task *task) {
    kt__work *w = kt__work_of(task);
    kt__kv_table *table = &w->state->table;
    kt__kv_table_cut(table, (int64_t)n_findable(task));
    kt__kv_table_cut(table, task->n_done);
    task->n_done = (int32_t)kt__kv_table_own_end(w->engine->kv, table, task->n_done);
}

/* The index gets blocks from n_done on, which is before the cursor where they are computed
 * again. */
static void move_cursor_back(kt__work *w) {
    int32_t n_block = w->task.n_done / KT__PAGE_POS;
    if (n_block < w->cursor.n_block)
        w->cursor = kt__prefix_cursor_at(w->root, w->state->tokens, n_block);
}

/* After whole blocks, the beginning of one that was seen; recurrent states are at the ends of blocks alone. What is still
 * read from a store comes first. */
static int32_t share_part(kt__work *w) {
    kt__kv_table *table = &w->state->table;
    if (w->n_load > 0 || w->task.loading || kt__kv_has_states(w->engine->kv) ||
        w->task.n_done != w->cursor.n_block * KT__PAGE_POS)
        return 0;
    kt__kv_table_truncate(w->engine->kv, table, w->task.n_done);
    int32_t n = kt__prefix_match_part(w->engine->prefix, &w->cursor, w->state->tokens,
                                      n_findable(&w->task), w->takes_altered, table);
    w->task.n_done += n;
    return n;
}

static void ask_index(kt__work *w) {
    kt__task *task = &w->task;
    kt__prefix *prefix = w->engine->prefix;
    w->cursor = (kt__prefix_cursor){w->root, 0};
    kt__prefix_match(prefix, &w->cursor, w->state->tokens, n_findable(task), w->takes_altered,
                     &w->state->table);
    task->n_done = w->cursor.n_block * KT__PAGE_POS;
    bool with_ends = stored_is_used(w->engine);
    task->loading = kt__prefix_store(prefix) != NULL && !with_ends;
    if (!with_ends && !kt__kv_has_states(w->engine->kv)) return;
    own_end(task);
    move_cursor_back(w);
    if (!stored_begin(w, n_findable(task))) ask_index(w);
}

static void count_found(kt__work *w, bool asked) {
    kt__engine_counts *counts = &w->engine->counts;
    w->is_counted = true;
    w->n_cached = w->task.n_done > w->n_base ? w->task.n_done - w->n_base : 0;
    counts->n_prompt_tok += (uint64_t)w->n_prompt;
    counts->n_cached_tok += (uint64_t)w->n_cached;
    if (!uses_cache(w)) return;
    counts->n_queried_tok += (uint64_t)w->n_prompt;
    if (asked && !w->task.loading) w->ops->looked_up(w);
}

void kt__pages_tell_progress(kt__work *w) {
    if (w->ops->progressed && !w->task.loading && w->n_load == 0) w->ops->progressed(w);
}

/* An answer that continues where its sequence was evaluated has its first logits already. */
static void take_first(kt__work *w) {
    int32_t id;
    kt__row row = {.logits = w->state->logits};
    if (w->task.kind == KT__TASK_ANSWER && w->task.n_done == w->task.n_tok)
        (void)w->ops->take_logits(w, &row, w->task.n_done, &id);
}

void kt__pages_start(void *user, kt__task *task) {
    kt__work *w = kt__work_of(task);
    (void)user;
    if (!task->started) w->ops->started(w);
    bool asked = task->n_done == 0 && uses_cache(w);
    if (asked) ask_index(w);
    if (asked) (void)share_part(w);
    if (w->n_load == 0) own_end(task);
    if (!w->is_counted) count_found(w, asked);
    move_cursor_back(w);
    kt__pages_tell_progress(w);
    take_first(w);
    atomic_store(&w->n_computed, task->n_done);
}

static void count_loaded(kt__work *w, int32_t n) {
    if (w->task.n_preempted > 0) return;
    w->n_cached += n;
    w->engine->counts.n_cached_tok += (uint64_t)n;
    w->engine->counts.n_disk_tok += (uint64_t)n;
}

/* Nobody held the windows of what was loaded until now. */
static void own_loaded_end(kt__work *w) {
    own_end(&w->task);
    move_cursor_back(w);
}

/* With ends all or nothing is loaded; what memory has of it is used where something is missing. */
static void load_to_end(kt__work *w, int64_t until_us) {
    while (w->n_load > 0 && kt__now_us() < until_us) stored_load(w);
    if (w->n_load > 0) return;
    if (w->load_failed) ask_index(w);
    own_loaded_end(w);
    if (!w->load_failed) count_loaded(w, w->task.n_done);
}

static void load_blocks(kt__work *w, int64_t until_us) {
    kt__task *task = &w->task;
    while (task->loading && kt__now_us() < until_us) {
        task->loading = kt__prefix_load(w->engine->prefix, &w->cursor, w->state->tokens,
                                        n_findable(task), &w->state->table);
        if (!task->loading) break;
        task->n_done += KT__PAGE_POS;
        count_loaded(w, KT__PAGE_POS);
    }
    if (task->loading) return;
    int32_t n = share_part(w);
    if (task->n_preempted == 0) {
        w->n_cached += n;
        w->engine->counts.n_cached_tok += (uint64_t)n;
    }
    own_loaded_end(w);
}

void kt__pages_load(void *user, kt__task *task, int64_t until_us) {
    kt__work *w = kt__work_of(task);
    (void)user;
    if (w->n_load > 0) {
        load_to_end(w, until_us);
    } else {
        load_blocks(w, until_us);
    }
    atomic_store(&w->n_computed, task->n_done);
    if (!task->loading && task->n_preempted == 0) w->ops->looked_up(w);
    kt__pages_tell_progress(w);
}

void kt__pages_fork(void *user, const kt__task *src, kt__task *dst) {
    kt__work *w = kt__work_of(dst);
    (void)user;
    dst->n_done = dst->n_tok - 1;
    kt__kv_table_share(w->engine->kv, &kt__work_of(src)->state->table, dst->n_done,
                       &w->state->table);
    own_end(dst);
    move_cursor_back(w);
}

bool kt__pages_reserve(void *user, kt__task *task, int32_t n_pos) {
    kt__work *w = kt__work_of(task);
    kt__kv_table *table = &w->state->table;
    (void)user;
    return kt__kv_table_grow_as(w->engine->kv, table, task->n_done, n_pos, KT__GROW_STAGED, NULL) ==
           KT_OK;
}

/* ---- pages that are pressed ---- */

/* A batch in flight has read some layers of what came before it. */
static bool may_be_pressed(const kt__task *t) {
    return kt__work_of(t)->takes_altered && !t->in_batch && !t->loading &&
           t->n_done > KT__PRESS_TAIL;
}

static int32_t press_task(kt__kv *kv, const kt__task *t, kt__kv_form form, int64_t most,
                          bool only_count) {
    if (!may_be_pressed(t)) return 0;
    return kt__kv_table_press(kv, &kt__work_of(t)->state->table, t->n_done - KT__PRESS_TAIL, form,
                              most, only_count);
}

/* The oldest positions of all first: a split's pages of each in turn. */
static void press_in_turn(kt__kv *kv, const kt__task_list *const lists[2], kt__kv_form form,
                          int64_t n) {
    for (int64_t before = n + 1; n > 0 && n < before;) {
        before = n;
        for (int i = 0; i < 2; i++) {
            for (const kt__task *t = lists[i]->head; t && n > 0; t = t->next)
                n -= press_task(kv, t, form, n < KT__SPLIT_PAGES ? n : KT__SPLIT_PAGES, false);
        }
    }
}

static void begin_pressing(kt__kv *kv, const kt__task_list *const lists[2]) {
    kt__kv_press_begin(kv);
    for (int i = 0; i < 2; i++) {
        for (const kt__task *t = lists[i]->head; t; t = t->next)
            if (may_be_pressed(t)) kt__kv_press_allow(kv, &kt__work_of(t)->state->table);
    }
}

/* How many pages have to be pressed. */
static int64_t count_to_press(kt__kv *kv, const kt__task_list *const lists[2], kt__kv_form form,
                              int64_t missing) {
    int64_t most = 0;
    begin_pressing(kv, lists);
    for (int i = 0; i < 2; i++) {
        for (const kt__task *t = lists[i]->head; t; t = t->next)
            most += press_task(kv, t, form, INT64_MAX, true);
    }
    return kt__kv_press_how_many(kv, form, most, missing);
}

static void press_both(kt__kv *kv, const kt__task_list *const lists[2]) {
    begin_pressing(kv, lists);
    for (int i = 0; i < 2; i++) {
        for (const kt__task *t = lists[i]->head; t; t = t->next) {
            if (may_be_pressed(t) && kt__kv_table_press_both(kv, &kt__work_of(t)->state->table,
                                                             t->n_done - KT__PRESS_TAIL))
                return;
        }
    }
}

/* What could become free is counted in 8 bits: 4 are for those that run. */
int64_t kt__pages_press(kt_engine *engine, const kt__task_list *running,
                        const kt__task_list *waiting, int64_t wanted) {
    const kt__task_list *const lists[2] = {waiting, running};
    kt__kv *kv = engine->kv;
    if (engine->params.kv_pressure != KT_KV_PRESSURE_ALL) return 0;
    if (wanted == 0)
        return kt__kv_press_gain(kv, KT__KV_Q8, count_to_press(kv, lists, KT__KV_Q8, INT64_MAX));
    int64_t before = kt__kv_n_free(kv);
    for (kt__kv_form form = KT__KV_Q8; form <= KT__KV_Q4; form++) {
        int64_t missing = wanted - kt__kv_n_free(kv);
        if (missing <= 0) break; /* or it is not places that are short */
        press_in_turn(kv, lists, form, count_to_press(kv, lists, form, missing));
    }
    if (before < wanted && kt__kv_n_free(kv) <= before) press_both(kv, lists);
    return kt__kv_n_free(kv) - before;
}

int64_t kt__pages_most(const kt_engine *engine, bool narrow, bool has_pictures) {
    const kt_engine_params *p = &engine->params;
    int64_t n = kt__kv_n_pages_most(engine->kv), pressed = 0;
    if (narrow && p->kv_pressure == KT_KV_PRESSURE_ALL)
        pressed = kt__kv_n_pages_pressed(engine->kv,
                                         kt__plan_wide_pages(has_pictures ? p->n_ubatch : 0));
    return pressed > n ? pressed : n;
}

/* Before pages are given back: the report says it. */
static void note_pressed(kt__work *w) {
    int32_t n = KT__PAGE_POS * kt__kv_table_n_pressed(w->engine->kv, &w->state->table);
    if (n > w->n_pressed) w->n_pressed = n;
}

void kt__pages_drop(void *user, kt__task *task) {
    kt__work *w = kt__work_of(task);
    (void)user;
    note_pressed(w);
    kt__kv_table_truncate(w->engine->kv, &w->state->table, 0);
    w->cursor = w->stored = (kt__prefix_cursor){w->root, 0};
    w->n_load = 0;
    task->n_done = 0;
    atomic_store(&w->n_computed, 0);
    kt__speculator_trim(w->engine->speculator, &w->state->draft, 0);
}

/* ---- what was computed ---- */

/* What was computed becomes known to the index. */
void kt__pages_computed(kt__work *w, int32_t n) {
    kt__task *task = &w->task;
    task->n_done += n;
    atomic_store(&w->n_computed, task->n_done);
    kt__kv_table_settle(w->engine->kv, &w->state->table, task->n_done);
    if (!uses_cache(w) || task->n_done / KT__PAGE_POS <= w->cursor.n_block) return;
    kt__prefix_insert(w->engine->prefix, &w->cursor, w->state->tokens, task->n_done,
                      &w->state->table);
    stored_put_blocks(w);
}

/* Takes the tokens that a full context loses out of it. Those after them are computed again: their
 * keys and values were made from them, and at other positions. */
void kt__pages_drop_tokens(kt__work *w) {
    kt__task *task = &w->task;
    kt__seq_state *state = w->state;
    int32_t after = w->n_keep + w->n_drop, n_before = task->n_done;
    note_pressed(w);
    memmove(state->tokens + w->n_keep, state->tokens + after,
            (size_t)(task->n_tok - after) * sizeof *state->tokens);
    task->n_tok -= w->n_drop;
    task->n_begin -= w->n_drop;
    task->all_logits = false;
    task->n_done = w->n_keep;
    kt__kv_table_truncate(w->engine->kv, &state->table, w->n_keep);
    own_end(task);
    w->cursor = w->stored = kt__prefix_cursor_at(w->root, state->tokens,
                                                 task->n_done / KT__PAGE_POS);
    kt__speculator_trim(w->engine->speculator, &state->draft, 0);
    if (w->proposals) w->proposals->n_first = 0;
    task->n_recomputed += n_before - w->n_drop - task->n_done;
    atomic_store(&w->n_computed, task->n_done);
    w->n_dropped += w->n_drop;
    w->n_drop = 0;
}

void kt__pages_end(kt__work *w) {
    note_pressed(w);
    if (uses_cache(w) && stored_is_used(w->engine)) put_end(w, 0, w->task.n_done);
    kt__kv_table_rest(w->engine->kv, &w->state->table);
}
