#include "sched/sched_costs.h"

/* ---- decode steps ---- */

/* A step's time is the processor's speed now, which follows at once, times what so many lanes cost
 * beside others, which is learnt for longer: a processor that slows down makes no number of lanes
 * look dear. Least squares; with one number of lanes only, half of the time counts as fixed. false:
 * no step was measured. */
static bool relative_line(const kt__sched *s, double *fixed, double *per_lane) {
    *fixed = *per_lane = 0;
    if (s->sum_w <= 0) return false;
    double mean_n = s->sum_n / s->sum_w, mean_t = s->sum_t / s->sum_w;
    double var = s->sum_nn / s->sum_w - mean_n * mean_n;
    double cov = s->sum_nt / s->sum_w - mean_n * mean_t;
    *per_lane = var > 0.05 ? cov / var : mean_t / mean_n / 2;
    if (*per_lane < 0) *per_lane = 0;
    if (*per_lane > mean_t / mean_n) *per_lane = mean_t / mean_n;
    *fixed = mean_t - *per_lane * mean_n;
    return true;
}

/* Towards what this step says of it; a neighbour's burst is not the processor's speed. */
static void follow_speed(kt__sched *s, int n, double us) {
    const double rate = 0.25, most = 3;
    double fixed, per_lane;
    if (!relative_line(s, &fixed, &per_lane)) {
        s->step_speed = us;
        return;
    }
    double times = us / (s->step_speed * (fixed + per_lane * n));
    if (times > most) times = most;
    if (times > 0) s->step_speed *= 1 + rate * (times - 1);
}

void kt__sched_measure_step(kt__sched *s, int n, int64_t us) {
    const double keep = 0.95;
    if (us <= 0) return;
    follow_speed(s, n, (double)us);
    double x = (double)n, t = (double)us / s->step_speed;
    s->sum_w = s->sum_w * keep + 1;
    s->sum_n = s->sum_n * keep + x;
    s->sum_nn = s->sum_nn * keep + x * x;
    s->sum_t = s->sum_t * keep + t;
    s->sum_nt = s->sum_nt * keep + x * t;
}

void kt__sched_step_line(const kt__sched *s, double *fixed, double *per_lane) {
    (void)relative_line(s, fixed, per_lane);
    *fixed *= s->step_speed;
    *per_lane *= s->step_speed;
}

double kt__sched_step_us(const kt__sched *s, int n) {
    double fixed, per_lane;
    kt__sched_step_line(s, &fixed, &per_lane);
    return fixed + per_lane * n;
}

/* ---- prompts' batches ---- */

static void average(double *to, double us_tok, double weight) {
    *to = *to > 0 ? *to + weight * (us_tok - *to) : us_tok;
}

/* Small batches cost more a row and say little about large ones. */
static double weight_of_batch(const kt__sched *s) {
    return s->batch_rows >= s->p.n_rows / 4 ? 0.5 : 0.1;
}

void kt__sched_measure_unit(kt__sched *s) {
    double unit_us = (double)s->ops.prefill_unit_us(s->user);
    if (unit_us > 0) average(&s->unit_us_tok, unit_us / (double)s->batch_rows, weight_of_batch(s));
}

void kt__sched_measure_batch(kt__sched *s) {
    average(&s->prefill_us_tok, (double)s->batch_us / (double)s->batch_rows, weight_of_batch(s));
}
