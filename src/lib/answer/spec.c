#include "answer/spec.h"

#include <math.h> /* INFINITY only */

/* ---- costs ---- */

/* A row more costs this share of a step with few rows until measurements say otherwise: a guess on
 * the dear side. */
static const double row_share = 0.2;
enum { FIRST = 5 }; /* measurements of so many rows, after which they count as they come */

static int least_measured(const kt__spec_costs *costs) {
    int least = 1;
    while (costs->us[least] <= 0) least++;
    return least;
}

/* A plain step: what the next number of rows cost, which is not tried now, may have been a
 * neighbour's doing, and is believed ever less. */
static void fade_costs(kt__spec_costs *costs, int rows) {
    const double rate = 0.0015;
    int next = rows + 1;
    while (next <= costs->most && costs->us[next] <= 0) next++;
    if (next > costs->most) return;
    double guess = costs->us[rows] * (1 + row_share * (next - rows));
    costs->us[next] += rate * (guess - costs->us[next]);
}

/* The first steps with so many rows touch new memory, and a neighbour's second among them would say
 * that all are dear: the estimate counts as one of them, and each is held to half as long again. */
static void average_first(double *cost, int n, double t) {
    if (t > 1.5 * *cost) t = 1.5 * *cost;
    *cost = n == 0 && t < *cost ? t : *cost + (t - *cost) / (n + 2);
}

/* Fewer rows take no longer: what they took was a neighbour's doing, and is not measured again while proposals are made. */
static void bound_fewer(kt__spec_costs *costs, int rows) {
    for (int i = 1; i < rows; i++)
        if (costs->us[i] > costs->us[rows]) costs->us[i] = costs->us[rows];
}

void kt__spec_measure(kt__spec_costs *costs, int rows, int64_t us) {
    if (rows < 1 || rows > KT__SPEC_ROWS_MAX || us <= 0) return;
    double *cost = &costs->us[rows];
    double t = (double)us;
    if (*cost <= 0) *cost = kt__spec_cost(costs, rows); /* an estimate, or nothing is known */
    if (*cost <= 0) {
        *cost = t;
    } else if (costs->n[rows] < FIRST) {
        average_first(cost, costs->n[rows]++, t);
    } else { /* a neighbour's burst must not shut speculation off, nor one lucky step open it */
        if (t > 3 * *cost) t = 3 * *cost;
        *cost += 0.15 * (t - *cost);
    }
    bound_fewer(costs, rows);
    if (rows > costs->most) costs->most = rows;
    if (rows == least_measured(costs)) fade_costs(costs, rows);
}

int64_t kt__spec_measure_new(kt__spec_costs *costs, int rows, int64_t us) {
    double usual = kt__spec_cost(costs, rows);
    if (usual > 0 && (double)us > usual) return (int64_t)usual;
    kt__spec_measure(costs, rows, us);
    return us;
}

/* Beyond `most`, the most rows that were measured: as rows up to there, if several numbers were. */
static double cost_beyond(const kt__spec_costs *costs, int rows) {
    int least = least_measured(costs);
    double from = costs->us[least], to = costs->us[costs->most];
    double per_row = from * row_share;
    if (costs->most > least && to > from) per_row = (to - from) / (costs->most - least);
    return to + per_row * (rows - costs->most);
}

double kt__spec_guess(const kt__spec_costs *costs, int rows, int more) {
    return kt__spec_cost(costs, rows) * (1 + row_share * more);
}

double kt__spec_cost(const kt__spec_costs *costs, int rows) {
    int below = rows, above = rows;
    if (rows > KT__SPEC_ROWS_MAX) rows = KT__SPEC_ROWS_MAX;
    while (below > 0 && costs->us[below] <= 0) below--;
    while (above <= costs->most && costs->us[above] <= 0) above++;
    if (below == 0 && above > costs->most) return 0;
    if (above > costs->most) return cost_beyond(costs, rows);
    if (below == 0 || below == above) return costs->us[above];
    double share = (double)(rows - below) / (double)(above - below);
    return costs->us[below] + share * (costs->us[above] - costs->us[below]);
}

/* ---- proposals ---- */

void kt__spec_init(kt__spec_state *state) {
    *state = (kt__spec_state){0};
    for (int i = 0; i <= KT__SPEC_MATCH_MAX; i++) {
        state->right[i] = 0.1 * i; /* short matches have to prove themselves */
    }
    state->right[KT__SPEC_FORCED] = 0.9; /* only where the text is cut into tokens may differ */
}

int kt__spec_lookup(const int32_t *tokens, int32_t n, int max, int32_t *out, int *match) {
    int32_t best_at = -1;
    int best = 1;
    *match = 0;
    if (n < 4 || max <= 0) return 0;
    int32_t last = tokens[n - 1];
    for (int32_t at = n - 2; at > 0 && best < KT__SPEC_MATCH_MAX; at--) {
        if (tokens[at] != last) continue;
        int len = 1;
        while (len < KT__SPEC_MATCH_MAX && len <= at && tokens[at - len] == tokens[n - 1 - len])
            len++;
        if (len > best) best = len, best_at = at;
    }
    if (best_at < 0) return 0;
    int found = 0;
    /* where the match runs into the end it repeats itself */
    int32_t period = n - 1 - best_at;
    for (; found < max; found++) out[found] = tokens[best_at + 1 + found % period];
    *match = best;
    return found;
}

int kt__spec_choose(const kt__spec_costs *costs, const kt__spec_state *state, int match,
                    int n_proposed, int rows, double *tokens) {
    /* gains below this are within what measurements err */
    const double least_gain = 1.03;
    double base = kt__spec_cost(costs, rows), right = state->right[match];
    double best_rate, best_extra = 0, extra = 0, chance = 1;
    int best = 0;
    if (base <= 0) return 0;
    best_rate = *tokens / base * least_gain;
    for (int k = 1; k <= n_proposed; k++) {
        chance *= right;
        extra += chance;
        double rate = (*tokens + extra) / kt__spec_cost(costs, rows + k);
        if (rate <= best_rate) continue;
        best_rate = rate;
        best_extra = extra;
        best = k;
    }
    *tokens += best_extra;
    return best;
}

/* The share among those whose predecessors were right: n_accepted times right, at most once wrong.
 */
void kt__spec_learn(kt__spec_state *state, int match, int n_drafted, int n_accepted) {
    const double rate = 0.2, forget = 0.004;
    double *right = &state->right[match];
    for (int i = 0; i < n_accepted; i++) *right += rate * (1 - *right);
    if (n_accepted < n_drafted) *right -= rate * *right;
    /* what was not tried for long is tried again: texts change */
    if (n_drafted == 0) *right += forget * (0.5 - *right);
    state->n_drafted += n_drafted;
    state->n_accepted += n_accepted;
}

/* ---- the account of a draft model ---- */

/* Shares of the time that steps take, chosen so that drafting loses a hundredth at most (bench/speculation). */
static const double earned_share = 0.01; /* is credited for every step */
static const double first_share = 0.25;  /* instead, for each of the first GRANT_STEPS steps */
static const double max_credit_us = 1e7;
static const double min_speedup = 1.05; /* smaller ones are within the error of measurements */
static const double row_share_of_step =
    0.15; /* a prefilled row's time by a step's, until it is measured */
static const double fade_per_step =
    0.0015; /* by which an unused measurement nears its estimate with each step */
static const double follow_per_sample = 0.15; /* the weight of the latest measurement */

enum {
    LEAST_ROWS = 8,
    LEAST_TAIL = 48, /* tokens of a text, that are prefilled where not all of it is */
    GRANT_STEPS = 16,
    FIRST_DRAFTS = 5, /* are averaged with the estimate, each as 1.5 times it at most */
    LEAST_REST = 12,
    MOST_REST = 200
};

void kt__draft_gate_init(kt__draft_gate *g, double size) {
    *g = (kt__draft_gate){.size = size > 0 && size < 1 ? size : 1};
}

static double step_of(const kt__draft_gate *g, const kt__draft_step *step) {
    return g->step_us > 0 ? g->step_us : kt__spec_cost(step->costs, step->rows) * g->size;
}

/* The time of a step that verifies k proposals for each of n answers, the draft model's steps included. */
static double tried_us(const kt__draft_gate *g, const kt__draft_step *step, int n, int k) {
    return kt__spec_cost(step->costs, step->rows + n * k) + k * step_of(g, step);
}

/* The same, but after a rest (`hopes`) the estimate counts where it is lower than what was measured: the measurement
 * may be old. */
static double hoped_us(const kt__draft_gate *g, const kt__draft_step *step, int n, int k) {
    double us = tried_us(g, step, n, k);
    if (!g->hopes) return us;
    double guess = kt__spec_guess(step->costs, step->rows, n * k) +
                   k * g->size * kt__spec_cost(step->costs, step->rows);
    return guess < us ? guess : us;
}

static double row_of(const kt__draft_gate *g, const kt__draft_step *step) {
    return g->row_us > 0 ? g->row_us : step_of(g, step) * row_share_of_step;
}

/* The most proposals for each of n answers: steps grow by a few rows at a time, so that the cost of larger ones is
 * measured before much is staked on it. */
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
    double best_rate = base > 0 ? step->tokens / base * min_speedup : 0;
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
    if (g->credit_us > max_credit_us) g->credit_us = max_credit_us;
}

static void average_in(double *to, double us) {
    *to = *to > 0 ? *to + follow_per_sample * (us - *to) : us;
}

/* The first ones as kt__spec_measure takes them, where the guess is known. */
static void measure_step(kt__draft_gate *g, double us) {
    if (g->step_us <= 0) g->step_us = g->base_us * g->size;
    if (g->step_us <= 0 || g->n_drafted >= FIRST_DRAFTS) {
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
        g->step_us += fade_per_step * (us * g->size - g->step_us);
    }
    g->base_us = 0;
    earn_time(g, us * (g->n_steps < GRANT_STEPS ? first_share : earned_share));
    g->n_steps += g->n_steps < GRANT_STEPS;
}

/* ---- the rows of the head ---- */

enum {
    PARTS = KT__VOCAB_PARTS,
    LEAST_SEEN = 64,      /* tokens, before which all parts are computed */
    MOST_SEEN = 4096,     /* then the older half is forgotten */
    LARGE_VOCAB = 1 << 16 /* with fewer tokens a head is little of a model that is used */
};

void kt__common_tokens_count(kt__common_tokens *common, int n_vocab, const int32_t *tokens,
                             int32_t n) {
    if (n_vocab < LARGE_VOCAB) return;
    for (int32_t i = n > MOST_SEEN ? n - MOST_SEEN : 0; i < n; i++) {
        common->n_in[(int64_t)tokens[i] * PARTS / n_vocab]++;
        common->n_seen++;
    }
    if (common->n_seen <= MOST_SEEN) return;
    common->n_seen = 0;
    for (int i = 0; i < PARTS; i++) common->n_seen += common->n_in[i] /= 2;
}

int kt__common_tokens_rows(const kt__common_tokens *common, int n_vocab, double rest, double head) {
    const double row = 0.2; /* what the row that verifies adds to a step */
    int best = PARTS;
    double best_speed = 2 / (1 + row + rest + head), in = 0;
    if (common->n_seen < LEAST_SEEN) return 0;
    for (int i = 1; i < PARTS; i++) {
        in += common->n_in[i - 1];
        double speed = (1 + in / common->n_seen) / (1 + row + rest + head * i / PARTS);
        if (speed <= best_speed) continue;
        best_speed = speed;
        best = i;
    }
    return best == PARTS ? 0 : (int)((int64_t)n_vocab * best / PARTS);
}
