#include "sched/sched_forecast.h"

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
