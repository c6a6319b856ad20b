#include "sched/sched_room.h"

#include "sched/sched_forecast.h"

/* As answers ended until now, and in the same way as predictions before any has. */
static double usual_answer_tok(const kt__sched *s) {
    return s->answer_tok > 0 ? s->answer_tok : (double)kt__load_answer_tok(-1);
}

void kt__room_note_end(kt__sched *s, const kt__task *task) {
    const double weight = 0.125;
    double n = (double)(task->n_tok - task->n_begin);
    if (task->kind != KT__TASK_ANSWER || n < 1) return;
    s->answer_tok = s->answer_tok > 0 ? s->answer_tok + weight * (n - s->answer_tok) : n;
}

/* Its known tokens, and those that are expected besides: an answer that is longer than others
 * already may come to half as much again. */
static int64_t expected_tok(const kt__sched *s, const kt__task *t) {
    double so_far = (double)(t->n_tok - t->n_begin), end = usual_answer_tok(s);
    if (t->kind != KT__TASK_ANSWER) return t->n_tok;
    if (end < 1.5 * so_far) end = 1.5 * so_far;
    if (t->n_predict >= 0 && end > (double)t->n_predict) end = (double)t->n_predict;
    return t->n_begin + (end > so_far ? (int64_t)end : t->n_tok - t->n_begin);
}

static int64_t pages_to_come(const kt__sched *s, const kt__task *t) {
    int64_t n = kt__sched_pages_of(s, expected_tok(s, t) + 1) - kt__sched_pages_of(s, t->n_done);
    return n > 0 ? n : 0;
}

/* Of the store and of the memory contract, that answers may have. */
static int64_t pages_allowed(const kt__sched *s) {
    const kt__optimizer_params *p = &s->optimizer.p;
    int64_t n = (int64_t)(p->memory * (double)s->ops.pages_most(s->user));
    return p->n_pages > 0 && p->n_pages < n ? p->n_pages : n;
}

static bool holds_to_the_end(const kt__sched *s, const kt__task *task) {
    int64_t due = s->ops.pages_most(s->user) - s->ops.pages_left(s->user) + pages_to_come(s, task);
    for (const kt__task *t = s->running.head; t; t = t->next) due += pages_to_come(s, t);
    return due <= pages_allowed(s);
}

bool kt__room_for(const kt__sched *s, const kt__task *task) {
    if (kt__sched_lanes_used(s) == 0 || task->state == KT__TASK_PARKED || task->lent) return true;
    if (kt__sched_pages_of(s, (int64_t)task->n_tok + 1) > s->ops.pages_left(s->user)) return false;
    return !s->optimizer.p.on || holds_to_the_end(s, task);
}
