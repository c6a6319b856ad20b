/* Predictions: what is ahead of a request, and how long it will take. */
#include "engine/sched_impl.h"

enum { USUAL_ANSWER_TOK = 256 }; /* open-ended answers count as this much */

/* The group of a client at a priority; where there are too many, another of that priority. */
static kt__load_group *group_of(kt__sched_load *load, int32_t priority, uint64_t client) {
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

static int64_t answer_tok(int64_t n_predict) {
    return n_predict < 0 ? USUAL_ANSWER_TOK : n_predict;
}

static void add_load(kt__sched_load *out, const kt__task *t) {
    kt__load_group *g = group_of(out, t->priority, t->client->key);
    int64_t pending = t->n_tok - t->n_done;
    g->served = t->client->served;
    g->n_tasks++;
    if (pending > 1 && t->state != KT__TASK_SIBLING) g->n_prompt_tok += pending;
    if (!t->embed) g->n_answer_tok += answer_tok(t->n_predict);
}

void kt__sched_get_load(const kt__sched *s, kt__sched_load *out) {
    *out = (kt__sched_load){
        .n_parallel = s->p.n_parallel, .prefill_us_tok = s->prefill_us_tok, .gap_us = s->p.gap_us};
    kt__sched_step_line(s, &out->step_us, &out->step_us_lane);
    for (const kt__task *t = s->waiting.head; t; t = t->next) add_load(out, t);
    for (const kt__task *t = s->running.head; t; t = t->next) {
        out->n_running++;
        out->n_decoding += kt__task_wants_step(t);
        add_load(out, t);
    }
    if (!s->in_flight) return;
    double left = s->prefill_us_tok - (double)s->batch_us / (double)s->batch_rows;
    out->flight_us_tok = left > 0 ? left : 0;
    for (int i = 0; i < s->n_batch; i++) {
        const kt__task *t = s->batch[i].task;
        group_of(out, t->priority, t->client->key)->n_flight_tok += s->batch[i].n;
    }
}

/* Weighted tokens that a client was served; one that comes begins beside the least served. */
static uint64_t served_of(const kt__sched_load *load, uint64_t client) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < load->n_groups; i++) {
        if (load->groups[i].client == client) return load->groups[i].served;
        if (load->groups[i].served < least) least = load->groups[i].served;
    }
    return least == UINT64_MAX ? 0 : least;
}

void kt__sched_load_add(kt__sched_load *load, const kt__wish *wish) {
    uint64_t served = served_of(load, wish->client);
    kt__load_group *g = group_of(load, wish->priority, wish->client);
    if (g->n_tasks == 0) g->served = served;
    g->n_tasks++;
    g->n_prompt_tok += wish->n_prompt;
    g->n_answer_tok += answer_tok(wish->n_predict);
}

/* How much of a group's work comes before the wish: all, nothing, or, of another client at the same
 * priority, what it may have until it is served as much as the wish's client will be by then. */
static double share_before(const kt__load_group *g, const kt__wish *wish, uint64_t served) {
    if (g->priority != wish->priority) return g->priority > wish->priority ? 1 : 0;
    if (g->client == wish->client) return 1;
    double work = (double)(g->n_prompt_tok + KT__DECODE_WEIGHT * g->n_answer_tok);
    double until = (double)served + (double)wish->n_prompt +
                   (double)KT__DECODE_WEIGHT * (double)answer_tok(wish->n_predict);
    double share = work > 0 ? (until - (double)g->served) / work : 1;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Prompts first come in turn, then the answers of all share the lanes. */
kt__forecast kt__sched_predict(const kt__sched_load *load, const kt__wish *wish) {
    double tasks = 0, answers = 0, prompt_tok = (double)wish->n_prompt, flight_us = 0;
    uint64_t served = served_of(load, wish->client);
    for (int i = 0; i < load->n_groups; i++) {
        const kt__load_group *g = &load->groups[i];
        double share = share_before(g, wish, served);
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
    double all = first + step * (double)(wish->n_predict > 1 ? wish->n_predict - 1 : 0);
    return (kt__forecast){(int64_t)first, (int64_t)all};
}
