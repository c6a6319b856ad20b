#include "sched/sched_forecast.h"

#include "sched/sched_state.h"

enum {
    USUAL_ANSWER_TOK = 256, /* open-ended answers count as this much */
    MIN_SLICE_US = 20000    /* however short the gap asked for, prompts advance */
};

kt__load_group *kt__load_group_of(kt__sched_load *load, int32_t priority, uint64_t client) {
    kt__load_group *other = NULL;
    for (int i = 0; i < load->n_groups; i++) {
        kt__load_group *g = &load->groups[i];
        if (g->priority == priority && g->client == client) return g;
        if (!other || g->priority == priority) other = g;
    }
    if (load->n_groups == KT__LOAD_GROUPS) return other;
    kt__load_group *g = &load->groups[load->n_groups++];
    *g = (kt__load_group){.priority = priority, .client = client};
    return g;
}

int64_t kt__load_answer_tok(int64_t n_predict) {
    return n_predict < 0 ? USUAL_ANSWER_TOK : n_predict;
}

double kt__sched_slice_between(double gap_us, double busy_us) {
    double slice = gap_us - busy_us;
    if (slice < busy_us / 2) slice = busy_us / 2;
    return slice < MIN_SLICE_US ? MIN_SLICE_US : slice;
}

/* Weighted tokens that a client was served; one that comes begins with a fair share. */
static uint64_t served_of(const kt__sched_load *load, uint64_t client) {
    for (int i = 0; i < load->n_groups; i++) {
        if (load->groups[i].client == client) return load->groups[i].served;
    }
    return load->fair_served;
}

void kt__sched_load_add(kt__sched_load *load, const kt__sched_request *request) {
    uint64_t served = served_of(load, request->client);
    kt__load_group *g = kt__load_group_of(load, request->priority, request->client);
    if (g->n_tasks == 0) g->served = served;
    g->n_tasks++;
    g->n_prompt_tok += request->n_prompt;
    g->n_answer_tok += kt__load_answer_tok(request->n_predict);
}

/* How much of a group's work comes before the request: all, nothing, or, of another client at the
 * same priority, what it may have until it is served as much as the request's client will be by
 * then. */
static double share_before(const kt__load_group *g, const kt__sched_request *request,
                           uint64_t served) {
    if (g->priority != request->priority) return g->priority > request->priority ? 1 : 0;
    if (g->client == request->client) return 1;
    double work = (double)(g->n_prompt_tok + KT__DECODE_WEIGHT * g->n_answer_tok);
    double until = (double)served + (double)request->n_prompt +
                   (double)KT__DECODE_WEIGHT * (double)kt__load_answer_tok(request->n_predict);
    double share = work > 0 ? (until - (double)g->served) / work : 1;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Prompts first come in turn, then the answers of all share the lanes. */
kt__forecast kt__sched_predict(const kt__sched_load *load, const kt__sched_request *request) {
    double tasks = 0, answers = 0, prompt_tok = (double)request->n_prompt, flight_us = 0;
    uint64_t served = served_of(load, request->client);
    for (int i = 0; i < load->n_groups; i++) {
        const kt__load_group *g = &load->groups[i];
        double share = share_before(g, request, served);
        tasks += share * g->n_tasks;
        answers += share * (double)g->n_answer_tok;
        prompt_tok += share * (double)g->n_prompt_tok;
        flight_us += (1 - share) * (double)g->n_flight_tok * load->flight_us_tok;
    }
    if (load->prefill_us_tok <= 0) return (kt__forecast){0, 0};
    double lanes = load->n_running + 1 < load->n_parallel ? load->n_running + 1 : load->n_parallel;
    double step = load->step_us + load->step_us_lane * lanes;
    double prompts = prompt_tok * load->prefill_us_tok + flight_us;
    if (load->n_decoding > 0 && load->gap_us > 0) {
        /* between two slices a decode step runs */
        double busy = load->step_us + load->step_us_lane * load->n_decoding;
        double slice = kt__sched_slice_between((double)load->gap_us, busy);
        prompts *= (slice + busy) / slice;
    }
    /* until enough of those before have ended, one after the other, for a lane to be free */
    double ends = tasks - load->n_parallel + 1, wait = 0;
    if (ends > 0) wait = ends * (answers / tasks) * step / load->n_parallel;
    double first = wait + prompts + step;
    double all = first + step * (double)(request->n_predict > 1 ? request->n_predict - 1 : 0);
    return (kt__forecast){(int64_t)first, (int64_t)all};
}

/* ---- room for another answer ---- */

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
    int64_t n = (int64_t)(p->memory * (double)s->ops.pages_most(s->user, NULL));
    return p->n_pages > 0 && p->n_pages < n ? p->n_pages : n;
}

static int64_t pages_left(const kt__sched *s) {
    int64_t more = s->ops.press ? s->ops.press(s->user, &s->running, &s->waiting, 0) : 0;
    return s->ops.pages_left(s->user) + more;
}

static bool holds_to_the_end(const kt__sched *s, const kt__task *task) {
    int64_t due = s->ops.pages_most(s->user, NULL) - pages_left(s) + pages_to_come(s, task);
    for (const kt__task *t = s->running.head; t; t = t->next) due += pages_to_come(s, t);
    return due <= pages_allowed(s);
}

bool kt__room_for(const kt__sched *s, const kt__task *task) {
    if (kt__sched_lanes_used(s) == 0 || task->state == KT__TASK_PARKED || task->lent) return true;
    if (kt__sched_pages_of(s, (int64_t)task->n_tok + 1) > pages_left(s)) return false;
    return !s->optimizer.p.on || holds_to_the_end(s, task);
}
