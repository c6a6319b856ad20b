#include "requests/runner.h"

#include <string.h>

#include "answer/batch.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "context/stage.h"
#include "prompt/pictures.h"
#include "prompt/text.h"
#include "requests/speculator.h"

/* Rows of a batch with adapters, and these, held until the batch is over. */
typedef struct adapted_rows {
    kt__lora_rows *rows; /* [n_parallel] */
    kt__adapters **held; /* [n_parallel] */
    int n;
} adapted_rows;

/* A batch and the lists that it points to. */
typedef struct batch_lists {
    kt__seg *segs;           /* [n_parallel] */
    const float **before;    /* [n_parallel] states before them, for the model's own block */
    int32_t *ids, *out_rows; /* [rows] */
    adapted_rows adapted;
    kt__state_list states;
    kt__batch batch;
} batch_lists;

struct kt__runner {
    kt_engine *engine;
    /* a decode step */
    batch_lists step; /* of step_rows */
    bool *listed;     /* [n_parallel] tasks whose rows have their place */
    /* the prompts' batch */
    batch_lists prompts; /* of n_ubatch rows */
    kt__slice *slices;   /* [n_parallel] */
    int n_slices;
    int *prompt_outs; /* [n_parallel] first row of a slice's logits */
    kt__given *given; /* [n_ubatch] rows of pictures; NULL: the model sees none */
    bool begun;
    kt__draft_slot *slots; /* [n_parallel] */
    bool no_drafts;        /* in this step */
    bool stepping;         /* a step has paused */
    int64_t step_us;       /* that it has taken so far */
    int32_t states_used;   /* kt__kv_states_used after the step before */
};

static bool init_adapted(adapted_rows *a, size_t lanes) {
    a->rows = kt__calloc(lanes, sizeof *a->rows);
    a->held = kt__calloc(lanes, sizeof *a->held);
    return a->rows && a->held;
}

static void release_adapted(adapted_rows *a) {
    for (int i = 0; i < a->n; i++) kt__adapters_release(a->held[i]);
    a->n = 0;
}

static void free_adapted(adapted_rows *a) {
    release_adapted(a);
    kt__free(a->rows);
    kt__free(a->held);
}

/* n rows from row0 on, after those listed so far. */
static void list_adapted(adapted_rows *a, kt__adapters *list, int row0, int n) {
    if (!list) return;
    if (a->n > 0 && a->rows[a->n - 1].row0 + a->rows[a->n - 1].n_tok == row0 &&
        kt__adapters_equal(a->held[a->n - 1], list)) {
        a->rows[a->n - 1].n_tok += n;
        return;
    }
    a->rows[a->n] = (kt__lora_rows){row0, n, list->uses, list->n};
    a->held[a->n++] = kt__adapters_hold(list);
}

static bool init_lists(batch_lists *l, const kt_engine *engine, size_t rows, size_t n_states) {
    size_t lanes = (size_t)engine->params.n_parallel;
    l->segs = kt__calloc(lanes, sizeof *l->segs);
    l->before = kt__calloc(lanes, sizeof *l->before);
    l->ids = kt__calloc(rows, sizeof *l->ids);
    l->out_rows = kt__calloc(rows, sizeof *l->out_rows);
    return init_adapted(&l->adapted, lanes) &&
           kt__state_list_init(&l->states, engine->kv, n_states) && l->segs && l->before &&
           l->ids && l->out_rows;
}

/* What was held for a batch that is over. */
static void release_lists(batch_lists *l) {
    release_adapted(&l->adapted);
    kt__state_list_release(&l->states);
}

static void free_lists(batch_lists *l) {
    free_adapted(&l->adapted);
    kt__state_list_free(&l->states);
    kt__free(l->segs);
    kt__free(l->before);
    kt__free(l->ids);
    kt__free(l->out_rows);
}

kt_status kt__runner_create(kt_engine *engine, kt__runner **out, kt_error *err) {
    kt_status status = KT_OK;
    size_t lanes = (size_t)engine->params.n_parallel, rows = (size_t)engine->step_rows;
    *out = NULL;
    kt__runner *r = kt__calloc(1, sizeof *r);
    if (!r) return kt__fail_nomem(err, "the batch lists", sizeof *r);
    r->engine = engine;
    r->slots = kt__calloc(lanes, sizeof *r->slots);
    r->listed = kt__calloc(lanes, sizeof *r->listed);
    r->slices = kt__calloc(lanes, sizeof *r->slices);
    r->prompt_outs = kt__calloc(lanes, sizeof *r->prompt_outs);
    if (engine->views) r->given = kt__calloc((size_t)engine->params.n_ubatch, sizeof *r->given);
    if (!init_lists(&r->step, engine, rows, rows) ||
        !init_lists(&r->prompts, engine, (size_t)engine->params.n_ubatch,
                    lanes * (KT__SNAPSHOT_POINTS + 1)) ||
        !r->listed || !r->slots || !r->slices || !r->prompt_outs || (engine->views && !r->given)) {
        status = kt__fail_nomem(err, "the batch lists", 0);
        goto out;
    }
    *out = r;
    r = NULL;
out:
    kt__runner_destroy(r);
    return status;
}

void kt__runner_destroy(kt__runner *r) {
    if (!r) return;
    free_lists(&r->step);
    free_lists(&r->prompts);
    kt__free(r->listed);
    kt__free(r->slots);
    kt__free(r->slices);
    kt__free(r->prompt_outs);
    kt__free(r->given);
    kt__free(r);
}

static int64_t op_now_us(void *user) {
    (void)user;
    return kt__now_us();
}

/* ---- pages (pages.c) ---- */

/* Rows of a picture that see each other are computed together: a slice ends before them, or after. */
static int32_t op_fit(void *user, const kt__task *task, int32_t n, int32_t most) {
    const kt__pictures *pictures = kt__work_of(task)->pictures;
    int32_t end = task->n_done + n;
    (void)user;
    if (!pictures || !pictures->spans) return n;
    const kt__sight *s = kt__pictures_from(pictures, end);
    if (!s || s->at >= end) return n;
    if (s->at > task->n_done) return s->at - task->n_done;
    return s->at + s->n - task->n_done <= most ? s->at + s->n - task->n_done : 0;
}

static int64_t op_press(void *user, const kt__task_list *running, const kt__task_list *waiting,
                        int64_t wanted) {
    return kt__pages_press(((kt__runner *)user)->engine, running, waiting, wanted);
}

static int64_t op_pages_left(void *user) {
    const kt__kv *kv = ((kt__runner *)user)->engine->kv;
    return kt__kv_n_pages_most(kv) - kt__kv_n_used(kv) + kt__kv_n_kept(kv);
}

static int64_t op_pages_most(void *user, const kt__task *task) {
    const kt_engine *engine = ((kt__runner *)user)->engine;
    if (!task) return kt__kv_n_pages_most(engine->kv);
    const kt__work *w = kt__work_of(task);
    return kt__pages_most(engine, w->takes_altered, w->pictures != NULL);
}

static void fail_work(kt__work *w, kt_status status, const kt_error *err) {
    if (status == KT_E_CANCELLED) {
        w->task.finish = KT_FINISH_CANCELLED;
    } else {
        w->task.finish = KT_FINISH_ERROR;
        w->error = *err;
    }
}

/* ---- the model's own block ---- */

/* The state before a segment that begins at n_pos; NULL: not known. */
static const float *state_before(const kt__work *w, int32_t n_pos) {
    const kt__draft_seq *draft = &w->state->draft;
    return draft->hidden && draft->n_hidden == n_pos ? draft->hidden : NULL;
}

/* That after what is computed now, of the row that was the last. */
static void keep_state(kt__work *w, const kt__fwd *fwd, int row) {
    kt__draft_seq *draft = &w->state->draft;
    size_t d = (size_t)kt__engine_hparams(w->engine)->d_model;
    if (!draft->hidden) return;
    memcpy(draft->hidden, kt__fwd_state(fwd, row), d * sizeof *draft->hidden);
    draft->n_hidden = w->task.n_done;
}

/* ---- decode steps ---- */

/* Tokens that may come after the one of this step. */
static int32_t left_for(const kt__runner *r, const kt__work *w) {
    const kt__task *task = &w->task;
    int32_t left = r->engine->params.n_ctx - task->n_done - 1;
    return w->cap - task->n_tok - 1 < left ? w->cap - task->n_tok - 1 : left;
}

static int32_t op_ahead(void *user, const kt__task *task) {
    const kt__runner *r = user;
    const kt__work *w = kt__work_of(task);
    int32_t left = left_for(r, w), most = r->engine->params.n_draft;
    if (r->engine->params.kv_pressure != KT_KV_PRESSURE_ALL || !w->takes_altered || !w->proposals)
        return 0;
    return left < 0 ? 0 : left < most ? left : most;
}

static void propose_tokens(kt__runner *r, kt__task *const *tasks, int n) {
    int k = 0, room = r->engine->params.n_draft;
    for (int i = 0; i < n; i++) {
        kt__work *w = kt__work_of(tasks[i]);
        if (!w->proposals) continue;
        int32_t left = left_for(r, w);
        r->slots[k++] = (kt__draft_slot){.to = w->proposals,
                                         .draft_seq = &w->state->draft,
                                         .table = &w->state->table,
                                         .tokens = w->state->tokens,
                                         .n_tok = tasks[i]->n_tok,
                                         .n_left = left,
                                         .most = room < left ? room : left};
    }
    int rows = r->no_drafts ? n : r->engine->step_rows;
    if (k > 0) kt__speculate(r->engine->speculator, r->slots, k, rows - (n - k));
}

/* States after each row that may be the last one, as many as there are pieces for. */
static int list_step_states(kt__runner *r, kt__seg *seg, kt__kv_table *table, int n) {
    kt__state_list *s = &r->step.states;
    kt__state_list_begin(s, seg);
    if (!kt__kv_has_states(r->engine->kv)) return n;
    int k = 0;
    while (k + 1 < n && kt__state_list_add(s, seg, k + 1, kt__kv_state_take(r->engine->kv), false))
        k++;
    seg->n_tok = k + 1;
    kt__state_list_add_last(s, seg, table, false);
    return k + 1;
}

/* The row of the known token, and those of the proposals, if there are pages for them. */
static int list_step_rows(kt__runner *r, kt__work *w, int rows) {
    const kt__task *task = &w->task;
    const kt__seq_state *state = w->state;
    int64_t n_pos = (int64_t)task->n_done + 1;
    kt__proposals *p = w->proposals;
    r->step.ids[rows] = state->tokens[task->n_done];
    if (!p || p->n == 0) return 1;
    if (kt__kv_table_grow(r->engine->kv, &w->state->table, task->n_done, n_pos + p->n, NULL) !=
        KT_OK)
        p->n = 0;
    memcpy(r->step.ids + rows + 1, p->ids, (size_t)p->n * sizeof *r->step.ids);
    return 1 + p->n;
}

/* Where the sequence's pictures are: what sees what, and positions of several axes. */
static void list_sights(const kt__work *w, kt__seg *seg) {
    if (!w->pictures) return;
    seg->spans = w->pictures->spans;
    seg->n_span = seg->spans ? (int)w->pictures->n : 0;
    seg->grids = w->pictures->grids;
    seg->n_grid = seg->grids ? (int)w->pictures->n : 0;
}

static int list_step_task(kt__runner *r, kt__task *const *tasks, int i, int rows) {
    kt__work *w = kt__work_of(tasks[i]);
    int own = list_step_rows(r, w, rows);
    kt__seg *seg = &r->step.segs[i];
    *seg = (kt__seg){.table = &w->state->table, .pos0 = tasks[i]->n_done, .row0 = rows};
    list_sights(w, seg);
    r->step.before[i] = state_before(w, tasks[i]->n_done);
    own = seg->n_tok = list_step_states(r, seg, &w->state->table, own);
    if (w->proposals && w->proposals->n > own - 1) w->proposals->n = own - 1;
    list_adapted(&r->step.adapted, w->adapters, rows, own);
    r->listed[i] = true;
    return rows + own;
}

/* Rows with the same adapters lie together, so that these are read once. */
static int list_step(kt__runner *r, kt__task *const *tasks, int n) {
    int rows = 0;
    release_lists(&r->step);
    memset(r->listed, 0, (size_t)n * sizeof *r->listed);
    for (int i = 0; i < n; i++) {
        const kt__adapters *list = kt__work_of(tasks[i])->adapters;
        for (int k = i; k < n; k++) {
            if (!r->listed[k] && kt__adapters_equal(kt__work_of(tasks[k])->adapters, list))
                rows = list_step_task(r, tasks, k, rows);
        }
    }
    return rows;
}

static void begin_step(kt__runner *r, kt__task *const *tasks, int n) {
    propose_tokens(r, tasks, n);
    int rows = list_step(r, tasks, n);
    for (int i = 0; i < rows; i++) r->step.out_rows[i] = i;
    r->step.batch = (kt__batch){.n_tok = rows,
                                .ids = r->step.ids,
                                .segs = r->step.segs,
                                .n_seg = n,
                                .before = r->step.before,
                                .lora = r->step.adapted.rows,
                                .n_lora = r->step.adapted.n,
                                .out_rows = r->step.out_rows,
                                .n_out = rows};
    r->step_us = 0;
}

/* Those that have ended have no pages any more; their rows stay in the batch, and their results are
 * discarded. Returns how many are left. */
static int drop_ended(kt__runner *r, kt__task *const *tasks, int n) {
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (!tasks[i]) r->step.segs[i].n_tok = 0;
        left += tasks[i] != NULL;
    }
    return left;
}

static void note_verified(kt__runner *r, kt__work *w, int n_verified, int n_accepted) {
    if (w->proposals)
        kt__speculator_learn(r->engine->speculator, w->proposals, &w->state->draft, n_verified,
                             n_accepted);
}

static void measure_step(kt__runner *r) {
    int32_t used = kt__kv_states_used(r->engine->kv);
    kt__speculator_measure(r->engine->speculator, r->step.batch.n_tok, r->step_us,
                           used > r->states_used);
    r->states_used = used;
}

/* Begins the step, or continues with it. pause: or NULL. */
static kt_status run_step(kt__runner *r, kt__task *const *tasks, int n, const atomic_bool *pause,
                          kt_error *err) {
    if (!r->stepping) begin_step(r, tasks, n);
    kt__batch_run run = {.fwd = r->engine->step_fwd,
                         .batch = r->stepping ? NULL : &r->step.batch,
                         .decode = true,
                         .n_tok = r->stepping ? 0 : r->step.batch.n_tok,
                         .until_us = INT64_MAX,
                         .pause = pause};
    bool done;
    int64_t begin_us = kt__now_us();
    kt_status status = kt__engine_run_batch(r->engine, &run, &done, err);
    r->step_us += kt__now_us() - begin_us;
    r->stepping = status == KT_OK && !done;
    if (!r->stepping) release_adapted(&r->step.adapted);
    if (status == KT_OK && done) measure_step(r);
    for (int i = 0; status != KT_OK && i < n; i++) {
        if (tasks[i]) note_verified(r, kt__work_of(tasks[i]), 0, 0);
    }
    return status;
}

static kt__row row_of(const kt__fwd *fwd, int i) {
    return (kt__row){kt__fwd_logits(fwd, i), kt__fwd_hidden(fwd, i)};
}

/* A page that an answer has filled keeps its state until the next one does, or, now and then, for
 * longer. */
static kt__snapshot kind_within_answer(int32_t n_done) {
    if (n_done % KT__PAGE_POS != 0) return KT__SNAPSHOT_NONE;
    return n_done % KT__SNAPSHOT_EVERY == 0 ? KT__SNAPSHOT_MARK : KT__SNAPSHOT_ROLLING;
}

static void fail_states(kt__work *w) {
    kt_error err;
    (void)kt__fail(&err, KT_E_NOMEM, "no room for a recurrent state: close a sequence");
    fail_work(w, KT_E_NOMEM, &err);
}

/* The rows of one task: the one that was due, and after each proposal that was right the next. */
static void take_verified(kt__runner *r, kt__work *w, const kt__seg *seg) {
    int accepted = 0, n = w->proposals ? w->proposals->n : 0, i = 0;
    for (;; i++) {
        int32_t id = -1;
        if (!kt__state_list_take(&r->step.states, seg, i, &w->state->table,
                                 kind_within_answer(w->task.n_done + 1))) {
            fail_states(w);
            return;
        }
        kt__pages_computed(w, 1);
        kt__pages_tell_progress(w); /* of a prompt's last token, where all before it was found */
        kt__row row = row_of(r->engine->step_fwd, seg->row0 + i);
        bool more = w->ops->take_logits(w, &row, w->task.n_done, &id);
        if (i == n || r->step.ids[seg->row0 + i + 1] != id) break;
        accepted++;
        if (!more) break;
    }
    keep_state(w, r->engine->step_fwd, seg->row0 + i);
    note_verified(r, w, n, accepted);
    if (n > 0) {
        r->engine->counts.n_drafts++;
        r->engine->counts.n_drafted += (uint64_t)n;
        r->engine->counts.n_accepted += (uint64_t)accepted;
        kt__kv_table_truncate(r->engine->kv, &w->state->table, w->task.n_done);
    }
    if (w->n_drop > 0) kt__pages_drop_tokens(w);
}

/* Those with adapters were in the batch together, for all of that time. */
static void charge_task(kt__task *task, kt__account account, int64_t t_us, int64_t lora_ns) {
    kt__work *w = kt__work_of(task);
    kt__task_charge(task, account, t_us);
    if (w->adapters) w->lora_ns += lora_ns;
}

static void charge_step(const kt__runner *r, kt__task *const *tasks, int n) {
    int64_t t_us = kt__now_us(), lora_ns = kt__fwd_take_lora_ns(r->engine->step_fwd);
    for (int i = 0; i < n; i++) {
        if (tasks[i]) charge_task(tasks[i], KT__ACCOUNT_DECODE, t_us, lora_ns);
    }
}

/* What comes out of a batch is taken between two laps: sampling and text have their own stages. */
static void lap_batch(const kt__runner *r) {
    kt__profile_lap(kt__engine_profile_on(r->engine), KT_PROFILE_BATCH);
}

static void begin_lap(const kt__runner *r) {
    kt__profile_begin(kt__engine_profile_on(r->engine));
}

static void end_step(kt__runner *r, kt__task *const *tasks, int n, kt_status status,
                     const kt_error *err) {
    if (status == KT_OK) charge_step(r, tasks, n);
    lap_batch(r);
    for (int i = 0; i < n; i++) {
        if (!tasks[i]) continue;
        if (status == KT_OK) {
            take_verified(r, kt__work_of(tasks[i]), &r->step.segs[i]);
        } else {
            fail_work(kt__work_of(tasks[i]), status, err);
        }
    }
    kt__state_list_release(&r->step.states);
    begin_lap(r);
}

/* Where one row spoils a step, the others' answers must not suffer: each runs alone. */
static void step_alone(kt__runner *r, kt__task *const *tasks, int n) {
    kt_error err;
    r->no_drafts = true;
    for (int i = 0; i < n; i++) {
        if (!tasks[i]) continue;
        kt_status status = run_step(r, &tasks[i], 1, NULL, &err);
        end_step(r, &tasks[i], 1, status, &err);
    }
    r->no_drafts = false;
}

static bool op_decode(void *user, kt__task *const *tasks, int n) {
    kt__runner *r = user;
    kt_error err;
    if (r->stepping && drop_ended(r, tasks, n) == 0) {
        r->stepping = false;
        release_lists(&r->step);
        return true;
    }
    kt_status status = run_step(r, tasks, n, &r->engine->cancel_pending, &err);
    if (r->stepping) {
        /* before the flags that it speaks of are read */
        atomic_store(&r->engine->cancel_pending, false);
        charge_step(r, tasks, n);
        return false;
    }
    if (status == KT_E_NUMERIC && r->step.batch.n_tok > 1) {
        step_alone(r, tasks, n);
    } else {
        end_step(r, tasks, n, status, &err);
    }
    return true;
}

/* ---- prompts ---- */

/* Whether the t-th of a slice's n rows has a place in what the batch gives out. */
static bool is_wanted(const kt__work *w, int32_t pos, bool complete, bool last) {
    bool ends = complete && last;
    if (w->task.kind == KT__TASK_EMBED) return w->mean || (w->first ? pos == 0 : ends);
    return kt__task_wants_all_logits(&w->task) || ends;
}

/* The states of a slice: where conversations may branch, and its end. */
static void list_states(kt__runner *r, const kt__task *task, kt__seg *seg) {
    kt__state_list *s = &r->prompts.states;
    kt_engine *engine = r->engine;
    const kt__work *w = kt__work_of(task);
    int32_t points[KT__SNAPSHOT_POINTS], end = task->n_done + seg->n_tok;
    kt__state_list_begin(s, seg);
    if (!kt__kv_has_states(engine->kv)) return;
    int n = kt__snapshot_points(engine->model->tok, w->state->tokens, task->n_tok, task->n_done,
                                end, points);
    bool last = n > 0 && points[n - 1] == end;
    for (int i = 0; i < n - last; i++)
        (void)kt__state_list_add(s, seg, points[i] - task->n_done, kt__kv_state_take(engine->kv),
                                 true);
    kt__state_list_add_last(s, seg, &w->state->table, last);
}

/* Of positions pos0..pos0 + n - 1, at row0 of the batch, those that take a picture's rows. */
static void list_given(kt__runner *r, const kt__work *w, int32_t pos0, int32_t n, int row0) {
    kt__batch *b = &r->prompts.batch;
    const kt__sight *s = kt__pictures_from(w->pictures, pos0);
    for (; s && s < w->pictures->list + w->pictures->n && s->at < pos0 + n; s++) {
        int32_t from = s->at > pos0 ? s->at : pos0, to = s->at + s->n;
        if (to > pos0 + n) to = pos0 + n;
        const kt__vision *v = s->view->vision;
        size_t row = (size_t)(s->row0 + from - s->at), d = (size_t)v->d_row;
        r->given[b->n_given++] = (kt__given){row0 + from - pos0, to - from, v->n_deep,
                                             s->view->rows + row * d};
    }
}

static void list_rows(kt__runner *r) {
    kt__batch *b = &r->prompts.batch;
    *b = (kt__batch){.ids = r->prompts.ids,
                     .segs = r->prompts.segs,
                     .out_rows = r->prompts.out_rows,
                     .before = r->prompts.before,
                     .given = r->given};
    b->no_head = !kt__task_wants_logits(r->slices[0].task);
    release_lists(&r->prompts);
    for (int i = 0; i < r->n_slices; i++) {
        const kt__task *task = r->slices[i].task;
        const kt__work *w = kt__work_of(task);
        int32_t n = r->slices[i].n;
        bool complete = task->n_done + n == task->n_tok;
        r->prompts.before[b->n_seg] = state_before(w, task->n_done);
        kt__seg *seg = &r->prompts.segs[b->n_seg++];
        *seg = (kt__seg){.table = &w->state->table,
                         .pos0 = task->n_done,
                         .row0 = b->n_tok,
                         .n_tok = n,
                         .pair_from = w->pair_from};
        list_states(r, task, seg);
        list_given(r, w, task->n_done, n, b->n_tok);
        list_sights(w, seg);
        memcpy(r->prompts.ids + b->n_tok, w->state->tokens + task->n_done,
               (size_t)n * sizeof *r->prompts.ids);
        list_adapted(&r->prompts.adapted, w->adapters, b->n_tok, n);
        r->prompt_outs[i] = b->n_out;
        for (int32_t t = 0; t < n; t++) {
            if (is_wanted(w, task->n_done + t, complete, t == n - 1))
                r->prompts.out_rows[b->n_out++] = b->n_tok + t;
        }
        b->n_tok += n;
    }
    b->lora = r->prompts.adapted.rows;
    b->n_lora = r->prompts.adapted.n;
}

static void op_prefill_begin(void *user, const kt__slice *slices, int n) {
    kt__runner *r = user;
    memcpy(r->slices, slices, (size_t)n * sizeof *slices);
    r->n_slices = n;
    r->begun = false;
    list_rows(r);
}

static void fail_slices(kt__runner *r, kt_status status, const kt_error *err) {
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task) fail_work(kt__work_of(r->slices[i].task), status, err);
    }
}

static bool take_states(kt__runner *r, kt__work *w, const kt__seg *seg) {
    kt__state_list *s = &r->prompts.states;
    if (!kt__kv_has_states(r->engine->kv)) return true;
    if (seg->n_states == 0 || seg->states[seg->n_states - 1].n_tok != seg->n_tok) return false;
    for (int i = 0; i < seg->n_states; i++) {
        bool keep = s->keep[seg->states - s->list + i];
        (void)kt__state_list_take(s, seg, i, &w->state->table,
                                  keep ? KT__SNAPSHOT_MARK : KT__SNAPSHOT_NONE);
    }
    return true;
}

/* Its rows' logits, or, of an embedding, nothing but that it is complete. */
static void complete_slice(kt__runner *r, int index) {
    kt__task *task = r->slices[index].task;
    kt__work *w = kt__work_of(task);
    int32_t id, n = r->slices[index].n, before = task->n_done;
    bool complete = before + n == task->n_tok;
    int row = r->prompt_outs[index];
    if (!take_states(r, w, &r->prompts.segs[index])) {
        fail_states(w);
        return;
    }
    kt__pages_computed(w, n);
    kt__pages_tell_progress(w);
    keep_state(w, r->engine->fwd, r->prompts.segs[index].row0 + n - 1);
    kt__pages_put_ends(w, before);
    if (task->kind == KT__TASK_EMBED) {
        if (complete) task->finish = KT_FINISH_LENGTH;
        return;
    }
    for (int32_t t = 0; t < n; t++) {
        if (!is_wanted(w, before + t, complete, t == n - 1)) continue;
        kt__row of = row_of(r->engine->fwd, row++);
        (void)w->ops->take_logits(w, &of, before + t + 1, &id);
    }
    if (w->n_drop > 0) kt__pages_drop_tokens(w);
}

static void complete_slices(kt__runner *r) {
    int64_t t_us = kt__now_us(), lora_ns = kt__fwd_take_lora_ns(r->engine->fwd);
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task) charge_task(r->slices[i].task, KT__ACCOUNT_PREFILL, t_us, lora_ns);
    }
    lap_batch(r);
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task) complete_slice(r, i); /* else it has left */
    }
    begin_lap(r);
}

/* A batch that cannot be computed ends all that are in it, unless one row may be to blame: then
 * they continue alone, as far as they get. */
static kt_status run_alone(kt__runner *r, int index, kt_error *err) {
    kt__slice only = r->slices[index];
    bool done;
    r->slices[0] = only;
    r->n_slices = 1;
    list_rows(r);
    kt__batch_run run = {.fwd = r->engine->fwd,
                         .batch = &r->prompts.batch,
                         .n_tok = r->prompts.batch.n_tok,
                         .until_us = INT64_MAX};
    return kt__engine_run_batch(r->engine, &run, &done, err);
}

static void run_each_alone(kt__runner *r) {
    kt_error err;
    int n = r->n_slices;
    for (int i = 0; i < n; i++) {
        kt__slice first = r->slices[0], mine = r->slices[i];
        if (!mine.task) continue;
        kt_status status = run_alone(r, i, &err);
        if (status == KT_OK) {
            complete_slices(r);
        } else {
            fail_slices(r, status, &err);
        }
        r->slices[0] = first;
    }
}

/* Has the encoder make the rows that the slices take, until the time has come; false: not all are there, or it
 * failed, and so do those who wait for it. */
static bool see_slices(kt__runner *r, int64_t until_us, kt_status *status, kt_error *err) {
    *status = KT_OK;
    for (int i = 0; i < r->n_slices; i++) {
        const kt__task *task = r->slices[i].task;
        const kt__pictures *pictures = task ? kt__work_of(task)->pictures : NULL;
        if (!pictures) continue;
        const kt__sight *s = kt__pictures_from(pictures, task->n_done);
        for (; s && s < pictures->list + pictures->n && s->at < task->n_done + r->slices[i].n;
             s++) {
            bool done;
            *status = kt__engine_see(r->engine, s->view, until_us, &done, err);
            if (*status != KT_OK || !done) return false;
        }
    }
    return true;
}

static bool op_prefill_run(void *user, int64_t until_us) {
    kt__runner *r = user;
    bool done;
    kt_error err;
    kt_status seen;
    if (!r->begun && r->given && !see_slices(r, until_us, &seen, &err)) {
        if (seen == KT_OK) return false;
        fail_slices(r, seen, &err);
        r->n_slices = 0;
        release_lists(&r->prompts);
        return true;
    }
    kt__batch_run run = {.fwd = r->engine->fwd,
                         .batch = r->begun ? NULL : &r->prompts.batch,
                         .n_tok = r->begun ? 0 : r->prompts.batch.n_tok,
                         .until_us = until_us,
                         .pause = &r->engine->cancel_pending};
    kt_status status = kt__engine_run_batch(r->engine, &run, &done, &err);
    r->begun = true;
    if (status == KT_OK && !done) return false;
    if (status == KT_OK) {
        complete_slices(r);
    } else if (status == KT_E_NUMERIC && r->n_slices > 1) {
        run_each_alone(r);
    } else {
        fail_slices(r, status, &err);
    }
    r->n_slices = 0;
    release_lists(&r->prompts);
    return true;
}

static void op_prefill_abort(void *user) {
    kt__runner *r = user;
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task)
            kt__kv_table_unstage(r->engine->kv, &kt__work_of(r->slices[i].task)->state->table);
    }
    r->n_slices = 0;
    release_lists(&r->prompts);
}

static int64_t op_prefill_unit_us(void *user) {
    return kt__fwd_longest_us(((kt__runner *)user)->engine->fwd);
}

/* What it has computed of the batch is lost; its rows stay, and their results are discarded. */
static void op_prefill_leave(void *user, kt__task *task) {
    kt__runner *r = user;
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task != task) continue;
        kt__kv_table_unstage(r->engine->kv, &kt__work_of(task)->state->table);
        r->slices[i].task = NULL;
        r->prompts.segs[i].n_tok = 0;
    }
}

void kt__runner_on_hidden(void *user, int row, float *hidden) {
    kt__runner *r = ((kt_engine *)user)->runner;
    if (!r || r->n_slices == 0 || !r->prompts.batch.no_head) return;
    int i = 0;
    while (i + 1 < r->n_slices && row >= r->prompts.segs[i + 1].row0) i++;
    if (!r->slices[i].task) return;
    kt__work *w = kt__work_of(r->slices[i].task);
    w->ops->take_hidden(w, hidden, r->slices[i].task->n_done + row - r->prompts.segs[i].row0);
}

/* ---- the controller ---- */

static void op_adjusted(void *user, kt_action action, const kt__optimizer *now) {
    kt__runner *r = user;
    kt__log_line(
        &r->engine->model->ctx->log, KT_LOG_INFO,
        "optimizer: %s: %d answers at once, at most %.0f ms for prompts between two tokens",
        kt_action_name(action), now->n_now, (double)now->gap_now_us / 1e3);
}

/* ---- the end ---- */

/* The scheduler says so by the finish alone. */
static void fail_pages(kt__work *w) {
    (void)kt__fail(&w->error, KT_E_NOMEM,
                   "the K/V store is full, and sequences hold it: close some, or open the engine "
                   "with a larger kv_bytes");
}

static void op_end(void *user, kt__task *task) {
    kt__work *w = kt__work_of(task);
    (void)user;
    if (task->finish == KT_FINISH_ERROR && w->error.code == KT_OK) fail_pages(w);
    kt__pages_end(w);
    w->ops->end(w);
}

static void op_release(void *user, kt__task *task) {
    (void)user;
    kt__work_of(task)->ops->release(kt__work_of(task));
}

const kt__sched_ops *kt__runner_ops(void) {
    static const kt__sched_ops ops = {
        .now_us = op_now_us,
        .start = kt__pages_start,
        .load = kt__pages_load,
        .fork = kt__pages_fork,
        .reserve = kt__pages_reserve,
        .fit = op_fit,
        .press = op_press,
        .ahead = op_ahead,
        .pages_left = op_pages_left,
        .pages_most = op_pages_most,
        .drop = kt__pages_drop,
        .decode = op_decode,
        .prefill_begin = op_prefill_begin,
        .prefill_run = op_prefill_run,
        .prefill_abort = op_prefill_abort,
        .prefill_unit_us = op_prefill_unit_us,
        .prefill_leave = op_prefill_leave,
        .adjusted = op_adjusted,
        .end = op_end,
        .release = op_release,
    };
    return &ops;
}
