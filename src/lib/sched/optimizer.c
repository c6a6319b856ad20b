#include "sched/optimizer.h"

enum {
    DEFAULT_LATENCY_MS = 100,
    DEFAULT_TOK_S = 50,
    LEAST_GAP_US = 20000, /* prompts advance, whatever the target */
    OVER_STEPS = 2,       /* in a row that have to be too long: one may be a neighbour's doing, */
    NOISY_STEPS = 6, /* and so may some, where steps of so many lanes are known to be shorter */
    UNDER_STEPS = 8  /* in a row that leave room, before more is allowed */
};
static const double default_memory = 0.9;
static const double aim = 0.9;           /* of the target: what is gone to when it is exceeded */
static const double room = 0.8;          /* of the target: below is room for more */
static const int64_t short_us = 2000000; /* between two raisings while throughput is short */
static const int64_t calm_us = 20000000; /* and while it is not */
static const int64_t hold_us = 60000000; /* after a raising that had to be taken back, at first */
static const int64_t most_hold_us = 960000000;

kt__optimizer_params kt__optimizer_params_of(const kt_engine_params *p) {
    return (kt__optimizer_params){
        .on = p->optimize,
        .n_most = p->n_parallel,
        .gap_most_us = (int64_t)p->gap_ms * 1000,
        .target_us = (int64_t)(p->target_latency_ms ? p->target_latency_ms : DEFAULT_LATENCY_MS) *
                     1000,
        .least_tok_s = p->min_throughput > 0 ? p->min_throughput : DEFAULT_TOK_S,
        .memory = p->memory_threshold > 0 ? p->memory_threshold : default_memory,
    };
}

void kt__optimizer_init(kt__optimizer *o, const kt__optimizer_params *params) {
    *o = (kt__optimizer){.p = *params,
                         .n_now = params->n_most,
                         .gap_now_us = params->gap_most_us,
                         .hold_us = hold_us};
    if (params->on && o->gap_now_us > params->target_us) o->gap_now_us = params->target_us;
    if (params->on && o->gap_now_us < LEAST_GAP_US && params->gap_most_us >= LEAST_GAP_US)
        o->gap_now_us = LEAST_GAP_US;
}

/* What a step of `n` lanes would take, from what its own number took. */
static double step_with(const kt__optimizer_step *step, int64_t step_us, int n) {
    double now = step->fixed + step->lane * step->n_decoding;
    if (now <= 0) return (double)step_us * n / step->n_decoding;
    return (double)step_us * (step->fixed + step->lane * n) / now;
}

/* What slices leave of the target to steps, half of it at least: prompts end, and lanes that were
 * taken for their sake would be missed for longer. */
static double target_of_steps(const kt__optimizer *o, const kt__optimizer_step *step) {
    double target = (double)o->p.target_us, left = target - (double)step->slice_us;
    return left > target / 2 ? left : target / 2;
}

static kt_action count_action(kt__optimizer *o, kt_action action) {
    o->n_over = o->n_under = 0;
    o->n_actions[action]++;
    return action;
}

/* ---- less ---- */

/* The slice goes first: it holds up everybody, and costs nobody a lane. */
static bool slice_can_shrink(const kt__optimizer *o, const kt__optimizer_step *step) {
    return step->slice_us > 0 && o->gap_now_us > LEAST_GAP_US && o->gap_now_us > step->step_us;
}

static kt_action shrink_slice(kt__optimizer *o, int64_t latency_us) {
    double share = aim * (double)o->p.target_us / (double)latency_us;
    o->gap_now_us = (int64_t)((double)o->gap_now_us * share);
    if (o->gap_now_us < LEAST_GAP_US) o->gap_now_us = LEAST_GAP_US;
    return count_action(o, KT_ACTION_REDUCE_PROMPT_SLICE);
}

/* A raising that has to be taken back is not tried again for a while, and each time for longer. */
static void note_reversal(kt__optimizer *o, int64_t now_us) {
    if (o->not_before_us < now_us + calm_us) o->not_before_us = now_us + calm_us;
    if (!o->raised_us) return;
    o->not_before_us = now_us + o->hold_us;
    if (o->hold_us < most_hold_us) o->hold_us *= 2;
    o->raised_us = 0;
}

/* By half at most: what came twice in a row may still be a neighbour's doing. */
static kt_action lower_lanes(kt__optimizer *o, const kt__optimizer_step *step, int64_t step_us) {
    double most_us = aim * target_of_steps(o, step);
    int n = step->n_decoding < o->n_now ? step->n_decoding : o->n_now, least = n / 2;
    for (n--; n > 1 && n > least && step_with(step, step_us, n) > most_us;) n--;
    o->n_now = n;
    note_reversal(o, step->now_us);
    return count_action(o, KT_ACTION_REDUCE_BATCH_SIZE);
}

static kt_action allow_less(kt__optimizer *o, const kt__optimizer_step *step, int64_t latency_us) {
    int64_t least_us = latency_us < o->last_us ? latency_us : o->last_us; /* of the last two */
    int64_t step_us = step->step_us < o->last_step_us ? step->step_us : o->last_step_us;
    if (slice_can_shrink(o, step)) return shrink_slice(o, least_us);
    bool over = (double)step_us > target_of_steps(o, step);
    if (over && o->n_now > 1 && step->n_decoding > 1) return lower_lanes(o, step, step_us);
    return KT_ACTION_COUNT;
}

/* ---- more ---- */

/* The most lanes, up to twice as many, that leave room within the target. */
static int more_lanes(const kt__optimizer *o, const kt__optimizer_step *step) {
    int n = 2 * o->n_now < o->p.n_most ? 2 * o->n_now : o->p.n_most;
    while (n > o->n_now && step_with(step, step->step_us, n) > room * target_of_steps(o, step)) n--;
    return n;
}

static kt_action allow_more(kt__optimizer *o, const kt__optimizer_step *step, int64_t latency_us) {
    double tok_s = latency_us > 0 ? (double)step->n_decoding * 1e6 / (double)latency_us : 0;
    bool is_short = tok_s < o->p.least_tok_s;
    bool wanted = step->waits && step->n_decoding >= o->n_now && o->n_now < o->p.n_most;
    int n = wanted && step->now_us >= o->not_before_us ? more_lanes(o, step) : 0;
    if (n > o->n_now) {
        o->n_now = n;
        o->raised_us = step->now_us;
        o->not_before_us = step->now_us + (is_short ? short_us : calm_us);
        return count_action(o, KT_ACTION_INCREASE_BATCH_SIZE);
    }
    if (step->slice_us > 0 && o->gap_now_us < o->p.gap_most_us &&
        o->gap_now_us < (int64_t)(aim * (double)o->p.target_us)) {
        o->gap_now_us += o->gap_now_us / 8 + 1;
        if (o->gap_now_us > o->p.gap_most_us) o->gap_now_us = o->p.gap_most_us;
        return count_action(o, KT_ACTION_INCREASE_PROMPT_SLICE);
    }
    return KT_ACTION_COUNT;
}

/* Steps too long in a row that are taken for the engine's own doing. */
static int over_steps(const kt__optimizer *o, const kt__optimizer_step *step) {
    double known_us = step->fixed + step->lane * step->n_decoding + (double)step->slice_us;
    return known_us > (double)o->p.target_us ? OVER_STEPS : NOISY_STEPS;
}

kt_action kt__optimizer_note(kt__optimizer *o, const kt__optimizer_step *step) {
    int64_t latency_us = step->step_us + step->slice_us;
    kt_action action = KT_ACTION_COUNT;
    if (!o->p.on || step->n_decoding < 1) return action;
    bool over = latency_us > o->p.target_us;
    bool under = (double)latency_us <= room * (double)o->p.target_us;
    o->n_over = over ? o->n_over + 1 : 0;
    o->n_under = under ? o->n_under + 1 : 0;
    if (o->n_over >= over_steps(o, step)) {
        action = allow_less(o, step, latency_us);
    } else if (o->n_under >= UNDER_STEPS) {
        action = allow_more(o, step, latency_us);
    }
    o->last_us = latency_us;
    o->last_step_us = step->step_us;
    return action;
}

/* ---- memory ---- */

kt_action kt__optimizer_note_room(kt__optimizer *o, int64_t now_us, int n_running, bool found) {
    if (!o->p.on) return KT_ACTION_COUNT;
    if (!found) {
        bool is_new = o->n_room == 0;
        o->n_room = n_running > 0 ? n_running : 1;
        o->room_us = now_us;
        return is_new ? count_action(o, KT_ACTION_REDUCE_BATCH_SIZE) : KT_ACTION_COUNT;
    }
    if (o->n_room == 0 || now_us < o->room_us + hold_us) return KT_ACTION_COUNT;
    o->n_room = 0;
    return count_action(o, KT_ACTION_INCREASE_BATCH_SIZE);
}

/* ---- recommendations ---- */

const char *kt_action_name(kt_action action) {
    static const char *const names[] = {
#define X(name, text) text,
        KT_ACTION_LIST(X)
#undef X
    };
    return (unsigned)action < KT_ACTION_COUNT ? names[action] : "none";
}

typedef struct advice {
    kt_recommendation *out;
    size_t n, cap;
} advice;

static void advise_action(advice *a, kt_action action, double value, double measured,
                          double target) {
    if (a->n < a->cap) a->out[a->n] = (kt_recommendation){action, (int32_t)value, measured, target};
    a->n++;
}

static void advise_latency(advice *a, const kt_engine_stats *s, const kt__optimizer_params *p) {
    double step_ms = s->decode_step_us / 1e3, target_ms = (double)p->target_us / 1e3;
    if (s->running > 1 && step_ms > target_ms) {
        double n = s->running * aim * target_ms / step_ms;
        advise_action(a, KT_ACTION_REDUCE_BATCH_SIZE, n < 1 ? 1 : n, step_ms, target_ms);
    }
    if (s->gap_ms_now > target_ms)
        advise_action(a, KT_ACTION_REDUCE_PROMPT_SLICE, target_ms, s->gap_ms_now, target_ms);
}

static void advise_throughput(advice *a, const kt_engine_stats *s, const kt__optimizer_params *p) {
    double step_ms = s->decode_step_us / 1e3, target_ms = (double)p->target_us / 1e3;
    double tok_s = step_ms > 0 ? s->running * 1e3 / step_ms : 0;
    if (s->running < 1 || tok_s >= p->least_tok_s || step_ms > room * target_ms) return;
    if (s->waiting > 0)
        advise_action(a, KT_ACTION_INCREASE_BATCH_SIZE, s->running + 1, tok_s, p->least_tok_s);
    if (s->gap_ms_now > 0 && s->gap_ms_now < aim * target_ms)
        advise_action(a, KT_ACTION_INCREASE_PROMPT_SLICE, target_ms, s->gap_ms_now, target_ms);
}

static void advise_memory(advice *a, const kt_engine_stats *s, const kt__optimizer_params *p) {
    double share = s->kv_blocks ? (double)s->kv_blocks_used / (double)s->kv_blocks : 0;
    if (share <= p->memory) return;
    advise_action(a, KT_ACTION_INCREASE_QUANTIZATION, 0, share, p->memory);
    if (s->running <= 1) advise_action(a, KT_ACTION_REDUCE_CONTEXT, 0, share, p->memory);
}

size_t kt_optimizer_recommend(const kt_engine_stats *stats, const kt_engine_params *targets,
                              kt_recommendation *out, size_t cap) {
    const kt_engine_params none = {0};
    kt__optimizer_params p = kt__optimizer_params_of(targets ? targets : &none);
    advice a = {out, 0, cap};
    advise_latency(&a, stats, &p);
    advise_memory(&a, stats, &p);
    advise_throughput(&a, stats, &p);
    return a.n;
}
