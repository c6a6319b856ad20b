#include "answer/draft_gate.h"

#include <math.h> /* INFINITY only */

static const double share = 0.01;       /* of steps' time, that may be lost */
static const double grant = 0.25;       /* of the first steps' time, once */
static const double most_us = 1e7;      /* that may be lost at one go */
static const double least_gain = 1.05;  /* gains below this are within what measurements err */
static const double row_of_step = 0.15; /* a row among many, as a share of a step: a first guess */
static const double fading = 0.0015;
static const double rate = 0.15; /* at which measurements follow */

enum {
    LEAST_ROWS = 8,
    LEAST_TAIL = 48,  /* of a text, that are followed where not all of it is */
    GRANT_STEPS = 16, /* that bring the grant, a quarter of their time each */
    FIRST = 5,        /* measurements, after which they count as they come */
    LEAST_REST = 12,
    MOST_REST = 200
};

void kt__draft_gate_init(kt__draft_gate *g, double size) {
    *g = (kt__draft_gate){.size = size > 0 && size < 1 ? size : 1};
}

static double step_of(const kt__draft_gate *g, const kt__draft_step *step) {
    return g->step_us > 0 ? g->step_us : kt__spec_cost(step->costs, step->rows) * g->size;
}

/* A step with k proposals for each of n answers, and what they take. After a rest it is hoped that
 * they take what is guessed, if that is less. */
static double tried_us(const kt__draft_gate *g, const kt__draft_step *step, int n, int k) {
    return kt__spec_cost(step->costs, step->rows + n * k) + k * step_of(g, step);
}

static double hoped_us(const kt__draft_gate *g, const kt__draft_step *step, int n, int k) {
    double us = tried_us(g, step, n, k);
    if (!g->hopes) return us;
    double guess = kt__spec_guess(step->costs, step->rows, n * k) +
                   k * g->size * kt__spec_cost(step->costs, step->rows);
    return guess < us ? guess : us;
}

static double row_of(const kt__draft_gate *g, const kt__draft_step *step) {
    return g->row_us > 0 ? g->row_us : step_of(g, step) * row_of_step;
}

/* Proposals at most: what rows of a step cost is found out by and by, not with many at one go. */
static int limit_rows(const kt__draft_step *step, int n, int most) {
    int tried = step->costs->most - step->rows;
    int more = 1 + 2 * (tried > 0 ? tried / n : 0);
    return most < more ? most : more;
}

typedef struct offer {
    int n;           /* proposals for each */
    double saved_us; /* the time that plain steps would take for the same tokens, less its own */
    double extra;    /* tokens expected of them */
} offer;

/* The number of proposals that gives the most tokens a second, if none of them being right would
 * cost no more than risk_us. */
static offer best_offer(const kt__draft_gate *g, const kt__draft_step *step, double right, int n,
                        int most, double risk_us) {
    double base = kt__spec_cost(step->costs, step->rows), extra = 0, chance = 1;
    double best_rate = base > 0 ? step->tokens / base * least_gain : 0;
    offer best = {0};
    if (base <= 0) return best;
    most = limit_rows(step, n, most);
    for (int k = 1; k <= most; k++) {
        double us = hoped_us(g, step, n, k);
        chance *= right;
        extra += chance * n;
        double tokens = step->tokens + extra;
        if (tried_us(g, step, n, k) - base > risk_us || tokens / us <= best_rate) continue;
        best_rate = tokens / us;
        best = (offer){k, tokens * base / step->tokens - us, extra};
    }
    return best;
}

int kt__draft_gate_choose(const kt__draft_gate *g, const kt__draft_step *step, double right, int n,
                          int most) {
    return best_offer(g, step, right, n, most, g->credit_us).n;
}

bool kt__draft_gate_pays(const kt__draft_gate *g, const kt__draft_step *step, double right, int n,
                         int most) {
    bool unknown = kt__spec_cost(step->costs, step->rows) <= 0;
    return unknown || best_offer(g, step, right, n, most, INFINITY).n > 0;
}

void kt__draft_gate_rest(kt__draft_gate *g) {
    g->rest = g->rest > 0 ? 2 * g->rest : LEAST_REST;
    if (g->rest > MOST_REST) g->rest = MOST_REST;
    g->resting = g->rest;
    g->hopes = false;
}

bool kt__draft_gate_rests(kt__draft_gate *g) {
    if (g->resting == 0) return false;
    g->hopes = --g->resting == 0;
    return true;
}

int32_t kt__draft_gate_covers(const kt__draft_gate *g, const kt__draft_step *step,
                              const kt__draft_lag *lag) {
    double row = row_of(g, step);
    int32_t to_come = lag->n_got < lag->n_left ? lag->n_got : lag->n_left;
    if (g->credit_us <= 0 || row <= 0) return 0;
    offer best = best_offer(g, step, lag->right, 1, lag->most, INFINITY);
    if (best.n == 0) return 0;
    double worth_us = best.saved_us / (1 + best.extra) * to_come;
    double rows = (worth_us < g->credit_us ? worth_us : g->credit_us) / row;
    if (rows >= lag->rows) return lag->rows;
    int32_t tail = (int32_t)(rows * 0.75); /* the answer continues meanwhile */
    return tail < LEAST_TAIL ? 0 : tail;
}

/* A step that takes half as long again goes unnoticed. */
int kt__draft_gate_slice(const kt__draft_gate *g, const kt__draft_step *step, int most) {
    double row = row_of(g, step);
    double rows = row > 0 ? kt__spec_cost(step->costs, step->rows) / 2 / row : LEAST_ROWS;
    if (g->row_us <= 0 || rows < LEAST_ROWS) rows = LEAST_ROWS; /* a guess is tried with few */
    return rows < most ? (int)rows : most;
}

/* ---- what happened ---- */

static void earn_time(kt__draft_gate *g, double us) {
    g->credit_us += us;
    if (g->credit_us > most_us) g->credit_us = most_us;
}

static void average_in(double *to, double us) {
    *to = *to > 0 ? *to + rate * (us - *to) : us;
}

/* The first ones as kt__spec_measure takes them, where the guess is known. */
static void measure_step(kt__draft_gate *g, double us) {
    if (g->step_us <= 0) g->step_us = g->base_us * g->size;
    if (g->step_us <= 0 || g->n_drafted >= FIRST) {
        average_in(&g->step_us, us);
        return;
    }
    if (us > 1.5 * g->step_us && g->n_drafted > 0) us = 1.5 * g->step_us;
    g->step_us += (us - g->step_us) / (g->n_drafted++ + 2);
}

void kt__draft_gate_followed(kt__draft_gate *g, int rows, double us) {
    g->credit_us -= us;
    if (rows >= LEAST_ROWS && g->warm_rows) average_in(&g->row_us, us / rows);
    g->warm_rows = true;
}

void kt__draft_gate_drafted(kt__draft_gate *g, int steps, double us) {
    g->credit_us -= us;
    if (steps > 0 && g->warm_steps) measure_step(g, us / steps);
    g->warm_steps = true;
}

void kt__draft_gate_verify(kt__draft_gate *g, const kt__draft_step *step, int n_proposed) {
    g->base_us = kt__spec_cost(step->costs, step->rows);
    g->guess_us = kt__spec_cost(step->costs, step->rows + n_proposed);
    g->token_us = g->base_us / step->tokens;
    if (!g->hopes) g->rest = 0; /* it pays as measured */
    g->hopes = false;
}

void kt__draft_gate_accepted(kt__draft_gate *g, int n) {
    earn_time(g, n * g->token_us);
}

void kt__draft_gate_stepped(kt__draft_gate *g, double us) {
    if (g->base_us > 0) {
        if (us > 3 * g->guess_us) us = 3 * g->guess_us; /* a neighbour's burst */
        g->credit_us -= us - g->base_us;
        us = g->base_us;
    } else if (g->step_us > 0) { /* not tried now: what was measured is believed ever less */
        g->step_us += fading * (us * g->size - g->step_us);
    }
    g->base_us = 0;
    earn_time(g, us * (g->n_steps < GRANT_STEPS ? grant : share));
    g->n_steps += g->n_steps < GRANT_STEPS;
}
