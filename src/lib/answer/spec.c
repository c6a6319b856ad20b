#include "answer/spec.h"

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
