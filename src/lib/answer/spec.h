/* Speculation: what may come next, and whether trying it pays.
 *
 * Owns: proposals from an answer's own tokens (n-gram or prompt lookup: what followed the last time
 * these tokens were seen; Saxena 2023), the measured cost of steps by their rows, and the choice of
 * how many proposals to verify. Proposals never change an answer: the model's logits after each are
 * computed in one step, each token is drawn as ever, and the rest is thrown away where one differs.
 * So nothing but time is at stake, and the gate is about time: a proposal is made only where
 * measurements say that more tokens come out per second.
 *
 * Pure; one user at a time. No allocation. */
#ifndef KT_ANSWER_SPEC_H
#define KT_ANSWER_SPEC_H

#include <kentang.h>

enum {
    KT__SPEC_ROWS_MAX = 1024,
    KT__SPEC_MATCH_MAX = 8,
    KT__SPEC_FORCED = KT__SPEC_MATCH_MAX + 1, /* in a match's place: by a constraint */
    KT__DRAFTS_MAX = KT_DRAFT_MAX + 1
};

/* What steps cost, by their number of rows. */
typedef struct kt__spec_costs {
    double us[KT__SPEC_ROWS_MAX + 1]; /* 0: not measured */
    int n[KT__SPEC_ROWS_MAX + 1];     /* times measured, the first ones */
    int most;                         /* rows measured at most */
} kt__spec_costs;

void kt__spec_measure(kt__spec_costs *costs, int rows, int64_t us);
/* The same of a step that may be the first to write into some memory, which says nothing of the next.
 * Returns what is to be charged for it. */
int64_t kt__spec_measure_new(kt__spec_costs *costs, int rows, int64_t us);
/* As measured, or estimated from what was; 0: nothing was. */
double kt__spec_cost(const kt__spec_costs *costs, int rows);
/* Of so many rows more, as if only fewer had been measured. */
double kt__spec_guess(const kt__spec_costs *costs, int rows, int more);

/* How proposals of an answer turned out. */
typedef struct kt__spec_state {
    double right[KT__SPEC_FORCED + 1]; /* share that was right, by the length of the match */
    int64_t n_drafted, n_accepted;
} kt__spec_state;

void kt__spec_init(kt__spec_state *state);

/* Tokens that followed the longest, latest earlier occurrence of the last tokens of tokens[n]: at
 * most max of them into out. Returns how many; *match: tokens that agreed (2 or more). */
int kt__spec_lookup(const int32_t *tokens, int32_t n, int max, int32_t *out, int *match);

/* How many of n_proposed to verify: `rows` are in the step already and bring `tokens` (expected).
 * The expected tokens of the answer's proposals are added to *tokens. */
int kt__spec_choose(const kt__spec_costs *costs, const kt__spec_state *state, int match,
                    int n_proposed, int rows, double *tokens);
/* n_drafted (0: it was not worth it) were verified after a match, the first n_accepted were right.
 */
void kt__spec_learn(kt__spec_state *state, int match, int n_drafted, int n_accepted);

#endif
