#include "sched/sched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sched/sched_batch.h"
#include "sched/sched_clients.h"
#include "sched/sched_costs.h"
#include "sched/sched_end.h"
#include "sched/sched_lanes.h"

/* ---- life ---- */

kt_status kt__sched_create(const kt__sched_params *params, const kt__sched_ops *ops, void *user,
                           kt__sched **out, kt_error *err) {
    *out = NULL;
    kt__sched *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "the scheduler", sizeof *s);
    s->p = *params;
    s->ops = *ops;
    s->user = user;
    kt__optimizer_params optimizer = params->optimizer;
    optimizer.n_most = params->n_parallel;
    optimizer.gap_most_us = params->gap_us;
    kt__optimizer_init(&s->optimizer, &optimizer);
    size_t n = (size_t)params->n_parallel;
    s->batch = kt__calloc(n, sizeof *s->batch);
    s->step = kt__calloc(n, sizeof *s->step);
    s->order = kt__calloc(n, sizeof *s->order);
    if (!s->batch || !s->step || !s->order || !kt__sched_add_nameless_client(s)) {
        kt__sched_destroy(s);
        return kt__fail_nomem(err, "the scheduler's lanes", n * sizeof *s->batch);
    }
    *out = s;
    return KT_OK;
}

void kt__sched_destroy(kt__sched *s) {
    if (!s) return;
    if (s->in_flight) s->ops.prefill_abort(s->user);
    while (s->running.head) kt__sched_release_task(s, &s->running, s->running.head);
    while (s->waiting.head) kt__sched_release_task(s, &s->waiting, s->waiting.head);
    kt__sched_free_clients(s);
    kt__free(s->batch);
    kt__free(s->step);
    kt__free(s->order);
    kt__free(s);
}

void kt__sched_set_rows(kt__sched *s, int n_rows) {
    s->p.n_rows = n_rows;
}

void kt__sched_add(kt__sched *s, kt__task *task) {
    task->state = task->first ? KT__TASK_SIBLING : KT__TASK_WAITING;
    task->serial = ++s->serial;
    task->since_us = task->arrival_us;
    kt__sched_join_client(s, task);
    kt__task_list_add(&s->waiting, task);
}

static void set_finish(const kt__task_list *list, kt_finish finish, bool lent_too) {
    for (kt__task *t = list->head; t; t = t->next) {
        if (t->finish == KT_FINISH_NONE && (lent_too || !t->lent)) t->finish = finish;
    }
}

void kt__sched_end_all(kt__sched *s, kt_finish finish, bool lent_too) {
    set_finish(&s->running, finish, lent_too);
    set_finish(&s->waiting, finish, lent_too);
    kt__sched_reap(s);
}

/* ---- decode steps ---- */

/* Those that get a token now, each with the page it needs. */
static int gather_step(kt__sched *s) {
    int n = 0;
    for (kt__task *t = s->running.head, *next; t; t = next) {
        next = t->next;
        if (!kt__task_wants_step(t)) continue;
        if (t->held) {
            kt__task_charge(t, KT__ACCOUNT_HELD, kt__sched_now(s));
            continue;
        }
        s->step[n++] = t;
    }
    return n;
}

static int reserve_step(kt__sched *s, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (kt__task_wants_step(s->step[i]))
            (void)kt__sched_make_room(s, s->step[i], s->step[i]->n_done + 1);
    }
    /* making room for one may have suspended another */
    for (int i = 0; i < n; i++) {
        kt__task *t = s->step[i];
        if (kt__task_wants_step(t) && s->ops.reserve(s->user, t, t->n_done + 1))
            s->step[kept++] = t;
    }
    return kept;
}

static bool has_left(const kt__sched *s) {
    for (int i = 0; i < s->n_step; i++) {
        if (!s->step[i]) return true;
    }
    return false;
}

static int decode_step(kt__sched *s) {
    int n = reserve_step(s, gather_step(s));
    kt__sched_end_finished(s);
    if (n == 0) return 0;
    int64_t begin_us = kt__sched_now(s);
    for (int i = 0; i < n; i++) {
        s->step[i]->client->served += KT__DECODE_WEIGHT;
        kt__task_charge(s->step[i], KT__ACCOUNT_WAIT, begin_us);
    }
    s->n_step = n;
    while (!s->ops.decode(s->user, s->step, n)) kt__sched_reap(s);
    int64_t took_us = kt__sched_now(s) - begin_us;
    if (!has_left(s)) kt__sched_measure_step(s, n, took_us);
    s->n_step = 0;
    s->counts.n_decode_batches++;
    s->counts.decode_us += took_us;
    kt__sched_end_finished(s);
    return n;
}

static void optimize(kt__sched *s, int n, int64_t step_us, int64_t slice_us) {
    kt__optimizer_step step = {.now_us = kt__sched_now(s),
                               .n_decoding = n,
                               .step_us = step_us,
                               .slice_us = slice_us,
                               .waits = s->waiting.n > 0};
    kt__sched_step_line(s, &step.fixed, &step.lane);
    kt_action action = kt__optimizer_note(&s->optimizer, &step);
    if (action == KT_ACTION_COUNT) return;
    kt__sched_keep_to_lanes(s);
    if (s->ops.adjusted) s->ops.adjusted(s->user, action, &s->optimizer);
}

bool kt__sched_step(kt__sched *s) {
    kt__sched_reap(s);
    kt__sched_admit(s);
    int64_t begin_us = kt__sched_now(s);
    int n = decode_step(s);
    int64_t between_us = kt__sched_now(s);
    bool prefilled = kt__sched_prefill_slice(s, n);
    if (s->optimizer.p.on && n > 0)
        optimize(s, n, between_us - begin_us, prefilled ? kt__sched_now(s) - between_us : 0);
    return n > 0 || prefilled;
}

/* ---- figures ---- */

int kt__sched_n_tasks(const kt__sched *s) {
    int n = s->waiting.n;
    for (const kt__task *t = s->running.head; t; t = t->next) n += t->state == KT__TASK_RUNNING;
    return n;
}

void kt__sched_get_counts(const kt__sched *s, kt__sched_counts *out) {
    *out = s->counts;
    out->n_running = kt__sched_n_tasks(s) - s->waiting.n;
    out->n_waiting = s->waiting.n;
    out->n_lanes = s->optimizer.n_now;
    out->gap_us = s->optimizer.gap_now_us;
    memcpy(out->n_actions, s->optimizer.n_actions, sizeof out->n_actions);
    out->n_held = out->n_clients = 0;
    for (const kt__task *t = s->running.head; t; t = t->next) out->n_held += t->held;
    for (const kt__client *c = s->clients; c; c = c->next) out->n_clients += c->n_tasks > 0;
}

static void add_task_load(kt__sched_load *out, const kt__task *t) {
    kt__load_group *g = kt__load_group_of(out, t->priority, t->client->key);
    int64_t pending = t->n_tok - t->n_done;
    g->served = t->client->served;
    g->n_tasks++;
    if (pending > 1 && t->state != KT__TASK_SIBLING) g->n_prompt_tok += pending;
    if (t->kind == KT__TASK_ANSWER) g->n_answer_tok += kt__load_answer_tok(t->n_predict);
}

void kt__sched_get_load(const kt__sched *s, kt__sched_load *out) {
    *out = (kt__sched_load){.n_parallel = s->optimizer.n_now,
                            .prefill_us_tok = s->prefill_us_tok,
                            .gap_us = s->optimizer.gap_now_us};
    kt__sched_step_line(s, &out->step_us, &out->step_us_lane);
    for (const kt__task *t = s->waiting.head; t; t = t->next) add_task_load(out, t);
    for (const kt__task *t = s->running.head; t; t = t->next) {
        out->n_running++;
        out->n_decoding += kt__task_wants_step(t);
        add_task_load(out, t);
    }
    if (!s->in_flight) return;
    double left = s->prefill_us_tok - (double)s->batch_us / (double)s->batch_rows;
    out->flight_us_tok = left > 0 ? left : 0;
    for (int i = 0; i < s->n_batch; i++) {
        const kt__task *t = s->batch[i].task;
        kt__load_group_of(out, t->priority, t->client->key)->n_flight_tok += s->batch[i].n;
    }
}
