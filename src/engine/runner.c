#include "engine/runner.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/batch.h"
#include "engine/explain.h"
#include "engine/inbox.h"
#include "engine/logprobs.h"
#include "engine/seq.h"

struct kt__runner {
    kt_engine *engine;
    /* a decode step */
    kt__seg *segs;     /* [n_parallel] */
    int32_t *ids;      /* [step_rows] */
    int32_t *out_rows; /* [step_rows] */
    kt__batch step;
    /* the prompts' batch */
    kt__slice *slices; /* [n_parallel] */
    int n_slices;
    int *pre_outs;         /* [n_parallel] row of a slice's logits; -1: none */
    kt__seg *pre_segs;     /* [n_parallel] */
    int32_t *pre_ids;      /* [n_ubatch] */
    int32_t *pre_out_rows; /* [n_ubatch] */
    kt__batch batch;
    bool begun;
    kt__runner_counts counts;
    kt__draft_slot *asks; /* [n_parallel] */
    bool no_drafts;       /* in this step */
    bool stepping;        /* a step has paused */
    int64_t step_us;      /* that it has taken so far */
};

kt_status kt__runner_create(kt_engine *engine, kt__runner **out, kt_error *err) {
    kt_status status = KT_OK;
    size_t lanes = (size_t)engine->params.n_parallel, rows = (size_t)engine->step_rows;
    size_t pre_rows = (size_t)engine->params.n_ubatch;
    *out = NULL;
    kt__runner *r = kt__calloc(1, sizeof *r);
    if (!r) return kt__fail_nomem(err, "the batch lists", sizeof *r);
    r->engine = engine;
    r->segs = kt__calloc(lanes, sizeof *r->segs);
    r->ids = kt__calloc(rows, sizeof *r->ids);
    r->out_rows = kt__calloc(rows, sizeof *r->out_rows);
    r->asks = kt__calloc(lanes, sizeof *r->asks);
    r->slices = kt__calloc(lanes, sizeof *r->slices);
    r->pre_segs = kt__calloc(lanes, sizeof *r->pre_segs);
    r->pre_outs = kt__calloc(lanes, sizeof *r->pre_outs);
    r->pre_ids = kt__calloc(pre_rows, sizeof *r->pre_ids);
    r->pre_out_rows = kt__calloc(pre_rows, sizeof *r->pre_out_rows);
    if (!r->asks || !r->segs || !r->ids || !r->out_rows || !r->slices || !r->pre_segs ||
        !r->pre_outs || !r->pre_ids || !r->pre_out_rows) {
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
    kt__free(r->asks);
    kt__free(r->segs);
    kt__free(r->ids);
    kt__free(r->out_rows);
    kt__free(r->slices);
    kt__free(r->pre_segs);
    kt__free(r->pre_outs);
    kt__free(r->pre_ids);
    kt__free(r->pre_out_rows);
    kt__free(r);
}

const kt__runner_counts *kt__runner_get_counts(const kt__runner *r) {
    return &r->counts;
}

static int64_t now_us(void *user) {
    (void)user;
    return kt__now_us();
}

/* ---- pages ---- */

/* Positions that may be found: at least one is computed, for its logits. */
static size_t n_findable(const kt__task *task) {
    return (size_t)task->n_tok - 1;
}

static void ask_cache(kt__runner *r, kt__choice *c) {
    kt__task *task = &c->task;
    kt__prefix *prefix = r->engine->prefix;
    if (task->embed || c->sub->no_cache) return;
    c->cursor = (kt__prefix_cursor){c->sub->root, 0};
    kt__prefix_match(prefix, &c->cursor, c->tokens, n_findable(task), &c->table);
    task->n_done = c->cursor.n_block * KT__PAGE_POS;
    task->loading = kt__prefix_store(prefix) != NULL;
}

static void explain(kt__runner *r, kt__choice *c) {
    kt__explain_miss(c, kt__inbox_prefill_us_tok(r->engine->inbox));
}

static void count_found(kt__runner *r, kt__choice *c) {
    c->found = true;
    c->report.n_cached = c->task.n_done;
    r->counts.n_prompt_tok += (uint64_t)c->sub->n_prompt;
    r->counts.n_cached_tok += (uint64_t)c->task.n_done;
    if (c->sub->no_cache || c->task.embed) return;
    r->counts.n_queried_tok += (uint64_t)c->sub->n_prompt;
    if (!c->task.loading && c->index == 0) explain(r, c);
}

static void say_started(kt__choice *c) {
    kt__submitted *sub = c->sub;
    if (sub->started) return;
    sub->started = true;
    kt__inbox_note_started(sub->req.engine->inbox);
    kt_event event = {.kind = KT_EVENT_STARTED, .id = -1};
    kt__submitted_emit(c, &event);
}

static void start(void *user, kt__task *task) {
    kt__runner *r = user;
    kt__choice *c = kt__choice_of(task);
    say_started(c);
    if (task->n_done == 0) ask_cache(r, c);
    if (c->found) return;
    count_found(r, c);
    kt__proposals_init(r->engine->speculator, &c->proposals);
}

static void load(void *user, kt__task *task, int64_t until_us) {
    kt__runner *r = user;
    kt__choice *c = kt__choice_of(task);
    while (task->loading && kt__now_us() < until_us) {
        task->loading = kt__prefix_load(r->engine->prefix, &c->cursor, c->tokens, n_findable(task),
                                        &c->table);
        if (!task->loading) break;
        task->n_done += KT__PAGE_POS;
        if (task->n_preempted > 0) continue;
        c->report.n_cached += KT__PAGE_POS;
        r->counts.n_cached_tok += KT__PAGE_POS;
        r->counts.n_disk_tok += KT__PAGE_POS;
    }
    if (!task->loading && task->n_preempted == 0 && c->index == 0) explain(r, c);
}

static void fork_choice(void *user, const kt__task *src, kt__task *dst) {
    kt__runner *r = user;
    kt__choice *to = kt__choice_of(dst);
    dst->n_done = dst->n_tok - 1;
    kt__kv_table_share(r->engine->kv, &kt__choice_of(src)->table, dst->n_done, &to->table);
}

static bool reserve(void *user, kt__task *task, int32_t n_pos) {
    kt__runner *r = user;
    kt__choice *c = kt__choice_of(task);
    return kt__kv_table_grow(r->engine->kv, &c->table, task->n_done, n_pos, NULL) == KT_OK;
}

static int64_t pages_left(void *user) {
    const kt_engine *engine = ((kt__runner *)user)->engine;
    return kt__kv_n_pages(engine->kv) - kt__kv_n_used(engine->kv) + kt__kv_n_kept(engine->kv);
}

static int64_t pages_most(void *user) {
    return kt__kv_n_pages(((kt__runner *)user)->engine->kv);
}

static void drop(void *user, kt__task *task) {
    kt__runner *r = user;
    kt__choice *c = kt__choice_of(task);
    kt__kv_table_truncate(r->engine->kv, &c->table, 0);
    c->cursor = (kt__prefix_cursor){c->sub->root, 0};
    task->n_done = 0;
    kt__speculator_trim(r->engine->speculator, &c->draft_seq, 0);
}

/* What was computed becomes known to others. */
static void advance(kt__runner *r, kt__choice *c, int32_t n) {
    kt__task *task = &c->task;
    task->n_done += n;
    if (c->sub->no_cache || task->embed) return;
    if (task->n_done / KT__PAGE_POS > c->cursor.n_block)
        kt__prefix_insert(r->engine->prefix, &c->cursor, c->tokens, task->n_done, &c->table);
}

static void fail_task(kt__choice *c, kt_status status, const kt_error *err) {
    if (status == KT_E_CANCELLED) {
        c->task.finish = KT_FINISH_CANCELLED;
    } else {
        c->task.finish = KT_FINISH_ERROR;
        c->error = *err;
    }
}

/* ---- tokens ---- */

static void emit_token(kt__runner *r, kt__choice *c, int32_t id, const float *logits) {
    kt__submitted *sub = c->sub;
    kt_logprob own[KT_LOGPROBS_MAX + 1];
    int n = sub->n_logprobs;
    if (n >= 0) kt__logprobs(logits, r->engine->model->net->hp.n_vocab, id, own, n);
    kt__submitted_emit_text(c, id, n >= 0 ? own : NULL, n);
}

/* The next token from the logits after position n_done - 1; false: it was the last one. */
static bool take_token(kt__runner *r, kt__choice *c, const float *logits, int32_t *id) {
    kt__task *task = &c->task;
    kt_error err;
    kt__task_charge(task, KT__ACCOUNT_WAIT, kt__now_us());
    int64_t begin_us = task->since_us;
    kt_status status = kt__answer_sample(&c->answer, logits, (uint64_t)task->n_done, id, &err);
    if (status == KT_OK) status = kt__answer_push(&c->answer, *id, &err);
    if (status == KT_OK) {
        r->counts.n_generated++;
        if (c->report.first_token_us == 0)
            c->report.first_token_us = kt__now_us() - c->sub->submitted_us;
        emit_token(r, c, *id, logits);
        if (task->n_tok < c->cap) c->tokens[task->n_tok++] = *id;
        if (task->finish == KT_FINISH_NONE) task->finish = c->answer.finish;
        if (task->finish == KT_FINISH_NONE && task->n_done >= r->engine->params.n_ctx)
            task->finish = KT_FINISH_CONTEXT;
    } else {
        fail_task(c, status, &err);
    }
    kt__task_charge(task, KT__ACCOUNT_SAMPLE, kt__now_us());
    r->counts.sample_us += task->since_us - begin_us;
    return task->finish == KT_FINISH_NONE;
}

/* ---- decode steps ---- */

/* Tokens that may come behind the one of this step. */
static int32_t left_for(const kt__runner *r, const kt__choice *c) {
    const kt__task *task = &c->task;
    int32_t left = r->engine->params.n_ctx - task->n_done - 1;
    return c->cap - task->n_tok - 1 < left ? c->cap - task->n_tok - 1 : left;
}

static void propose(kt__runner *r, kt__task *const *tasks, int n) {
    for (int i = 0; i < n; i++) {
        kt__choice *c = kt__choice_of(tasks[i]);
        int32_t left = left_for(r, c), room = r->engine->params.n_draft;
        r->asks[i] = (kt__draft_slot){.to = &c->proposals,
                                      .draft_seq = &c->draft_seq,
                                      .tokens = c->tokens,
                                      .n_tok = tasks[i]->n_tok,
                                      .n_left = left,
                                      .most = room < left ? room : left};
    }
    kt__speculate(r->engine->speculator, r->asks, n, r->no_drafts ? n : r->engine->step_rows);
}

/* The row of the known token, and those of the proposals, if there are pages for them. */
static int list_step_rows(kt__runner *r, kt__choice *c, int rows) {
    const kt__task *task = &c->task;
    int64_t n_pos = (int64_t)task->n_done + 1;
    kt__proposals *p = &c->proposals;
    if (p->n > 0 &&
        kt__kv_table_grow(r->engine->kv, &c->table, task->n_done, n_pos + p->n, NULL) != KT_OK)
        p->n = 0;
    r->ids[rows] = c->tokens[task->n_done];
    memcpy(r->ids + rows + 1, p->ids, (size_t)p->n * sizeof *r->ids);
    return 1 + p->n;
}

static void begin_step(kt__runner *r, kt__task *const *tasks, int n) {
    int rows = 0;
    propose(r, tasks, n);
    for (int i = 0; i < n; i++) {
        kt__choice *c = kt__choice_of(tasks[i]);
        int own = list_step_rows(r, c, rows);
        r->segs[i] = (kt__seg){&c->table, tasks[i]->n_done, rows, own};
        rows += own;
    }
    for (int i = 0; i < rows; i++) r->out_rows[i] = i;
    r->step = (kt__batch){.n_tok = rows,
                          .ids = r->ids,
                          .segs = r->segs,
                          .n_seg = n,
                          .out_rows = r->out_rows,
                          .n_out = rows};
    r->step_us = 0;
    kt__engine_return_logits(r->engine);
}

/* Those that have ended have no pages any more; their rows are computed for nobody. Returns how
 * many are left. */
static int let_go(kt__runner *r, kt__task *const *tasks, int n) {
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (!tasks[i]) r->segs[i].n_tok = 0;
        left += tasks[i] != NULL;
    }
    return left;
}

/* Begins the step, or goes on with it. pause: or NULL. */
static kt_status run_step(kt__runner *r, kt__task *const *tasks, int n, const atomic_bool *pause,
                          kt_error *err) {
    if (!r->stepping) begin_step(r, tasks, n);
    kt__batch_run run = {.fwd = r->engine->step_fwd,
                         .batch = r->stepping ? NULL : &r->step,
                         .decode = true,
                         .n_tok = r->stepping ? 0 : r->step.n_tok,
                         .until_us = INT64_MAX,
                         .pause = pause};
    bool done;
    int64_t begin_us = kt__now_us();
    kt_status status = kt__engine_run_batch(r->engine, &run, &done, err);
    kt__speculator *speculator = r->engine->speculator;
    r->step_us += kt__now_us() - begin_us;
    r->stepping = status == KT_OK && !done;
    if (status == KT_OK && done) kt__speculator_measure(speculator, r->step.n_tok, r->step_us);
    for (int i = 0; status != KT_OK && i < n; i++) {
        if (!tasks[i]) continue;
        kt__choice *c = kt__choice_of(tasks[i]);
        kt__speculator_learn(speculator, &c->proposals, &c->draft_seq, 0, 0);
    }
    return status;
}

/* The tokens of one answer: the one that was due, and after each proposal that it equals the next.
 */
static void take_verified(kt__runner *r, kt__choice *c, const kt__seg *seg) {
    int accepted = 0, n = c->proposals.n;
    for (int i = 0;; i++) {
        int32_t id;
        advance(r, c, 1);
        bool more = take_token(r, c, kt__fwd_logits(r->engine->step_fwd, seg->row0 + i), &id);
        if (i == n || r->ids[seg->row0 + i + 1] != id) break;
        accepted++;
        if (!more) break;
    }
    kt__speculator_learn(r->engine->speculator, &c->proposals, &c->draft_seq, n, accepted);
    if (n == 0) return;
    r->counts.n_drafted += (uint64_t)n;
    r->counts.n_accepted += (uint64_t)accepted;
    kt__kv_table_truncate(r->engine->kv, &c->table, c->task.n_done);
}

static void charge_step(kt__task *const *tasks, int n) {
    int64_t t_us = kt__now_us();
    for (int i = 0; i < n; i++) {
        if (tasks[i]) kt__task_charge(tasks[i], KT__ACCOUNT_DECODE, t_us);
    }
}

static void take_tokens(kt__runner *r, kt__task *const *tasks, int n) {
    charge_step(tasks, n);
    for (int i = 0; i < n; i++) {
        if (tasks[i]) take_verified(r, kt__choice_of(tasks[i]), &r->segs[i]);
    }
}

static void end_step(kt__runner *r, kt__task *const *tasks, int n, kt_status status,
                     const kt_error *err) {
    if (status == KT_OK) take_tokens(r, tasks, n);
    for (int i = 0; status != KT_OK && i < n; i++) {
        if (tasks[i]) fail_task(kt__choice_of(tasks[i]), status, err);
    }
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

static bool decode(void *user, kt__task *const *tasks, int n) {
    kt__runner *r = user;
    kt_error err;
    if (r->stepping && let_go(r, tasks, n) == 0) {
        r->stepping = false;
        return true;
    }
    kt_status status = run_step(r, tasks, n, &r->engine->cancel_pending, &err);
    if (r->stepping) {
        /* before the flags that it speaks of are read */
        atomic_store(&r->engine->cancel_pending, false);
        charge_step(tasks, n);
        return false;
    }
    if (status == KT_E_NUMERIC && r->step.n_tok > 1) {
        step_alone(r, tasks, n);
    } else {
        end_step(r, tasks, n, status, &err);
    }
    return true;
}

/* ---- prompts ---- */

static void list_rows(kt__runner *r) {
    kt__batch *b = &r->batch;
    *b = (kt__batch){.ids = r->pre_ids, .segs = r->pre_segs, .out_rows = r->pre_out_rows};
    b->no_head = r->slices[0].task->embed;
    for (int i = 0; i < r->n_slices; i++) {
        const kt__task *task = r->slices[i].task;
        const kt__choice *c = kt__choice_of(task);
        int32_t n = r->slices[i].n;
        r->pre_segs[b->n_seg++] = (kt__seg){&c->table, task->n_done, b->n_tok, n};
        memcpy(r->pre_ids + b->n_tok, c->tokens + task->n_done, (size_t)n * sizeof *r->pre_ids);
        bool complete = task->n_done + n == task->n_tok;
        r->pre_outs[i] = complete && !task->embed ? b->n_out : -1;
        for (int32_t t = b->no_head ? 0 : n - 1; t < n; t++) {
            bool wanted = b->no_head
                              ? c->sub->pooling == KT_POOLING_MEAN || (complete && t == n - 1)
                              : complete;
            if (wanted) r->pre_out_rows[b->n_out++] = b->n_tok + t;
        }
        b->n_tok += n;
    }
}

static void prefill_begin(void *user, const kt__slice *slices, int n) {
    kt__runner *r = user;
    memcpy(r->slices, slices, (size_t)n * sizeof *slices);
    r->n_slices = n;
    r->begun = false;
    list_rows(r);
    kt__engine_return_logits(r->engine);
}

static void end_slices(kt__runner *r, kt_status status, const kt_error *err) {
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task) fail_task(kt__choice_of(r->slices[i].task), status, err);
    }
}

static void complete_slices(kt__runner *r) {
    int64_t t_us = kt__now_us();
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task) kt__task_charge(r->slices[i].task, KT__ACCOUNT_PREFILL, t_us);
    }
    for (int i = 0; i < r->n_slices; i++) {
        kt__task *task = r->slices[i].task;
        int row = r->pre_outs[i];
        int32_t id;
        if (!task) continue; /* has left */
        kt__choice *c = kt__choice_of(task);
        bool complete = task->n_done + r->slices[i].n == task->n_tok;
        advance(r, c, r->slices[i].n);
        if (row >= 0) (void)take_token(r, c, kt__fwd_logits(r->engine->fwd, row), &id);
        if (complete && task->embed) task->finish = KT_FINISH_LENGTH;
    }
}

/* A batch that cannot be computed ends all that are in it, unless one row may be to blame: then
 * they go on alone, as far as they get. */
static kt_status run_alone(kt__runner *r, int index, kt_error *err) {
    kt__slice only = r->slices[index];
    bool done;
    r->slices[0] = only;
    r->n_slices = 1;
    list_rows(r);
    kt__batch_run run = {
        .fwd = r->engine->fwd, .batch = &r->batch, .n_tok = r->batch.n_tok, .until_us = INT64_MAX};
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
            end_slices(r, status, &err);
        }
        r->slices[0] = first;
    }
}

static bool prefill_run(void *user, int64_t until_us) {
    kt__runner *r = user;
    bool done;
    kt_error err;
    kt__batch_run run = {.fwd = r->engine->fwd,
                         .batch = r->begun ? NULL : &r->batch,
                         .n_tok = r->begun ? 0 : r->batch.n_tok,
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
        end_slices(r, status, &err);
    }
    r->n_slices = 0;
    return true;
}

static void prefill_abort(void *user) {
    kt__runner *r = user;
    r->n_slices = 0;
}

static int64_t prefill_unit_us(void *user) {
    return kt__fwd_longest_us(((kt__runner *)user)->engine->fwd);
}

/* What it has computed of the batch is lost; its row of logits is computed for nobody. */
static void prefill_leave(void *user, kt__task *task) {
    kt__runner *r = user;
    for (int i = 0; i < r->n_slices; i++) {
        if (r->slices[i].task != task) continue;
        r->slices[i].task = NULL;
        r->pre_segs[i].n_tok = 0;
    }
}

void kt__runner_on_hidden(void *user, int row, float *hidden) {
    kt__runner *r = ((kt_engine *)user)->runner;
    if (!r || r->n_slices == 0 || !r->batch.no_head) return;
    int i = 0;
    while (i + 1 < r->n_slices && row >= r->pre_segs[i + 1].row0) i++;
    if (!r->slices[i].task) return;
    kt__submitted *sub = kt__choice_of(r->slices[i].task)->sub;
    size_t d = (size_t)r->engine->model->net->hp.d_model;
    for (size_t k = 0; k < d; k++) sub->embedding[k] += hidden[k];
}

/* ---- the end ---- */

static void end(void *user, kt__task *task) {
    (void)user;
    kt__submitted_end(kt__choice_of(task));
}

static void release(void *user, kt__task *task) {
    (void)user;
    kt__submitted_release(kt__choice_of(task));
}

static const kt__sched_ops ops = {
    .now_us = now_us,
    .start = start,
    .load = load,
    .fork = fork_choice,
    .reserve = reserve,
    .pages_left = pages_left,
    .pages_most = pages_most,
    .drop = drop,
    .decode = decode,
    .prefill_begin = prefill_begin,
    .prefill_run = prefill_run,
    .prefill_abort = prefill_abort,
    .prefill_unit_us = prefill_unit_us,
    .prefill_leave = prefill_leave,
    .end = end,
    .release = release,
};

const kt__sched_ops *kt__runner_ops(void) {
    return &ops;
}
