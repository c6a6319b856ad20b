#include "sched/sched_batch.h"

#include "sched/sched_costs.h"
#include "sched/sched_end.h"
#include "sched/sched_forecast.h"
#include "sched/sched_lanes.h"

enum {
    IDLE_SLICE_US = 50000, /* without running answers: how often cancels are looked at */
    MIN_ROWS = 32,         /* of a batch that is cut small for the gap's sake */
    FIRST_ROWS = 128,      /* of the first batch: nothing is known of the machine */
    MOST_UNIT_US = 60000,  /* that a batch may not be able to stop for: cancels wait for it */
    MIN_CHUNK = 16         /* of a prompt, but its end */
};

/* ---- who is in it ---- */

static bool is_shorter(const kt__task *a, const kt__task *b) {
    int32_t left_a = a->n_tok - a->n_done, left_b = b->n_tok - b->n_done;
    return left_a != left_b ? left_a < left_b : a->serial < b->serial;
}

/* The tasks that want rows, as they take turns. Insertion sort: a few lanes. */
static int line_up(kt__sched *s, bool (*before)(const kt__task *, const kt__task *)) {
    int n = 0;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (!kt__task_wants_prefill(t)) continue;
        int at = n++;
        for (; at > 0 && before(t, s->order[at - 1]); at--) s->order[at] = s->order[at - 1];
        s->order[at] = t;
    }
    return n;
}

/* Rows of a batch: few enough that one indivisible part of it, which a slice may overrun by, is a
 * third of a slice at most, and that a cancel is not waited for. */
static int32_t rows_for(const kt__sched *s, bool others_wait, int64_t slice_us) {
    int32_t rows = s->p.n_rows;
    double unit_us = s->unit_us_tok > 0 ? s->unit_us_tok : s->prefill_us_tok * s->p.unit_share;
    if (unit_us <= 0) return rows < FIRST_ROWS ? rows : FIRST_ROWS;
    double most_us = others_wait && slice_us / 3 < MOST_UNIT_US ? (double)slice_us / 3
                                                                : MOST_UNIT_US;
    double most = most_us / unit_us;
    if (most < (double)rows) rows = (int32_t)most / MIN_CHUNK * MIN_CHUNK;
    int32_t least = s->p.n_rows < MIN_ROWS ? s->p.n_rows : MIN_ROWS;
    return rows < least ? least : rows;
}

static bool may_join(const kt__sched *s, const kt__task *task) {
    return s->n_batch == 0 ||
           kt__task_wants_logits(s->batch[0].task) == kt__task_wants_logits(task);
}

/* Rows of the batch that want a place for their logits. */
static int32_t n_out_rows(const kt__sched *s) {
    int32_t n = 0;
    for (int i = 0; i < s->n_batch; i++) {
        const kt__task *t = s->batch[i].task;
        if (kt__task_wants_all_logits(t)) {
            n += s->batch[i].n;
        } else {
            n += t->n_done + s->batch[i].n == t->n_tok;
        }
    }
    return n;
}

/* Rows of one task into the batch, as many as fit, none rather than a crumb. */
static void take_rows(kt__sched *s, kt__task *task, int32_t room) {
    int32_t n = task->n_tok - task->n_done;
    if (task->whole && (s->n_batch == 0 || n > room)) room = s->n_batch == 0 ? n : 0;
    if (task->in_batch || !kt__task_wants_prefill(task) || !may_join(s, task)) return;
    int32_t outs = s->p.n_out - n_out_rows(s);
    if (kt__task_wants_all_logits(task) && room > outs) room = outs;
    if (n > room) n = room;
    bool complete = task->n_done + n == task->n_tok;
    if (n <= 0 || (!complete && n < MIN_CHUNK && s->n_batch > 0)) return;
    if (complete && outs <= 0) return;
    if (!kt__sched_make_room(s, task, task->n_done + n)) return;
    task->in_batch = true;
    s->batch[s->n_batch++] = (kt__slice){task, n};
    s->batch_rows += n;
}

/* What is left over goes to the first again, behind its own rows. */
static void extend_first(kt__sched *s, int32_t room) {
    if (s->n_batch == 0 || room <= 0) return;
    kt__slice *first = &s->batch[0];
    kt__task *task = first->task;
    int32_t more = task->n_tok - task->n_done - first->n;
    if (more > room) more = room;
    bool complete = first->n + more == task->n_tok - task->n_done;
    if (more <= 0 || kt__task_wants_all_logits(task)) return;
    if (complete && n_out_rows(s) >= s->p.n_out) return;
    if (!s->ops.reserve(s->user, task, task->n_done + first->n + more)) return;
    first->n += more;
    s->batch_rows += more;
}

/* Calls on sequences are waited for, each by its owner: without others to consider, their batches
 * are as large as can be. */
static bool all_are_lent(const kt__sched *s, int n) {
    for (int i = 0; i < n; i++) {
        if (!s->order[i]->lent) return false;
    }
    return true;
}

/* Half of a batch belongs to the one whose turn it is, the rest to the shortest prompts: those do
 * not wait behind a long one, and it is not starved by them. */
static void pack_batch(kt__sched *s, bool others_wait, int64_t slice_us) {
    s->n_batch = 0;
    s->batch_rows = 0;
    s->batch_us = 0;
    int n = line_up(s, kt__task_goes_before);
    if (n == 0) return;
    bool whole = !others_wait && all_are_lent(s, n);
    int32_t rows = whole ? s->p.n_rows : rows_for(s, others_wait, slice_us);
    take_rows(s, s->order[0], n > 1 ? (rows + 1) / 2 : rows);
    n = line_up(s, is_shorter);
    for (int i = 0; i < n && s->n_batch < s->p.n_parallel; i++)
        take_rows(s, s->order[i], rows - s->batch_rows);
    extend_first(s, rows - s->batch_rows);
}

static void begin_batch(kt__sched *s, bool others_wait, int64_t slice_us) {
    pack_batch(s, others_wait, slice_us);
    if (s->n_batch == 0) return;
    s->in_flight = true;
    for (int i = 0; i < s->n_batch; i++)
        s->batch[i].task->client->served += (uint64_t)s->batch[i].n;
    s->ops.prefill_begin(s->user, s->batch, s->n_batch);
}

static void charge_batch(kt__sched *s, kt__account account) {
    int64_t t_us = kt__sched_now(s);
    for (int i = 0; i < s->n_batch; i++) kt__task_charge(s->batch[i].task, account, t_us);
}

static bool was_broken_off(const kt__sched *s) {
    for (int i = 0; i < s->n_batch; i++) {
        kt_finish finish = s->batch[i].task->finish;
        if (finish == KT_FINISH_CANCELLED || finish == KT_FINISH_ERROR) return true;
    }
    return false;
}

static void complete_batch(kt__sched *s) {
    if (!was_broken_off(s)) kt__sched_measure_batch(s);
    kt__sched_measure_unit(s);
    s->counts.n_prefill_batches++;
    s->counts.n_prefill_tok += (uint64_t)s->batch_rows;
    for (int i = 0; i < s->n_batch; i++) s->batch[i].task->in_batch = false;
    s->n_batch = 0;
    s->in_flight = false;
    kt__sched_end_finished(s);
}

static void run_batch(kt__sched *s, int64_t until_us) {
    charge_batch(s, KT__ACCOUNT_WAIT);
    int64_t begin_us = kt__sched_now(s);
    bool done = s->ops.prefill_run(s->user, until_us);
    int64_t took_us = kt__sched_now(s) - begin_us;
    s->batch_us += took_us;
    s->counts.prefill_us += took_us;
    if (done) {
        complete_batch(s);
    } else {
        charge_batch(s, KT__ACCOUNT_PREFILL);
    }
}

static bool load_some(kt__sched *s, int64_t until_us) {
    bool any = false;
    for (kt__task *t = s->running.head; t; t = t->next) {
        if (!t->loading || t->state != KT__TASK_RUNNING) continue;
        any = true;
        kt__task_charge(t, KT__ACCOUNT_WAIT, kt__sched_now(s));
        s->ops.load(s->user, t, until_us);
        kt__task_charge(t, KT__ACCOUNT_PREFILL, kt__sched_now(s));
        if (kt__sched_now(s) >= until_us) break;
    }
    return any;
}

static int64_t slice_beside(const kt__sched *s, int n_decoding) {
    if (n_decoding == 0) return IDLE_SLICE_US;
    return (int64_t)kt__sched_slice_between((double)s->optimizer.gap_now_us,
                                            kt__sched_step_us(s, n_decoding));
}

bool kt__sched_prefill_slice(kt__sched *s, int n_decoding) {
    int64_t slice_us = slice_beside(s, n_decoding);
    int64_t until_us = kt__sched_now(s) + slice_us;
    bool loaded = load_some(s, until_us);
    if (!s->in_flight) begin_batch(s, n_decoding > 0, slice_us);
    kt__sched_end_finished(s);
    if (!s->in_flight) return loaded;
    run_batch(s, until_us);
    return true;
}
