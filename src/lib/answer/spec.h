/* Speculation: which tokens may come next, and whether trying them pays.
 *
 * Owns: proposals from an answer's own tokens, the measured cost of steps by their number of rows, the account of
 * time that decides whether a draft model is asked, and how many rows of the head its proposals compute. Proposals
 * never change an answer: the model's logits after each are computed in one step, each token is drawn as ever, and
 * what follows a token that differs is thrown away. Only time is at stake.
 *
 * Pure: no clock, no allocation. One user at a time. */
#ifndef KT_ANSWER_SPEC_H
#define KT_ANSWER_SPEC_H

#include <kentang.h>
#include <stdint.h>

/* Proposals from an answer's own tokens (n-gram or prompt lookup: what followed the last time that the latest tokens
 * were seen; Saxena 2023), the cost of steps, and the choice of how many proposals to verify: one is made only where
 * measurements say that more tokens come out per second. */

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

/* The account of a draft model's time. Everything that the draft model computes is paid from the account, its prefill
 * of a text included. The account is filled by a hundredth of the time that steps take, by what accepted proposals
 * save and, once, by the time of four steps, to find out what the model is good for. So drafting can lose a hundredth
 * of the time and those steps at most, whatever prompts and answers are like.
 *
 * Nobody knows how long an answer will be. It is taken to continue for as long as it has been running (at most for
 * what is left to it), and only as much of its text is prefilled, from its end, as that and the account are worth: a
 * draft model that knows the last hundred tokens is often right, too. */

typedef struct kt__draft_gate {
    double credit_us; /* may be spent; below 0: lost, and to be earned again */
    double size; /* the draft model's bytes a token, as a share of the model's: first guesses */
    /* the first time its weights come into memory, which says nothing of the next */
    bool warm_rows, warm_steps;
    double row_us;   /* of a prompt that is followed; 0: not measured */
    double step_us;  /* with a row for each answer; 0: not measured */
    double token_us; /* what a right proposal saves */
    int n_steps;     /* of the first, which bring the grant */
    int n_drafted;   /* times, of the first */
    int resting;     /* steps without asking, as yet */
    int rest;        /* the last rest's steps */
    bool hopes;      /* after a rest: what was measured may have been a neighbour's doing */
    /* the step at hand, where it verifies proposals: its time without, and as expected; else 0 */
    double base_us, guess_us;
} kt__draft_gate;

/* The verifying step as it would be without proposals of the draft model. */
typedef struct kt__draft_step {
    const kt__spec_costs *costs;
    int rows;
    double tokens; /* expected */
} kt__draft_step;

/* An answer that the draft model has not followed. */
typedef struct kt__draft_lag {
    int32_t rows;   /* to follow */
    int32_t n_got;  /* tokens that the answer has got */
    int32_t n_left; /* that may come, at most */
    int most;       /* proposals at once */
    double right;   /* share of them that is expected to be right */
} kt__draft_lag;

void kt__draft_gate_init(kt__draft_gate *gate, double size);
/* Proposals for each of n answers that give the most tokens a second, of which `right` are expected
 * to be right; 0: none does, or the account does not cover their being wrong. */
int kt__draft_gate_choose(const kt__draft_gate *gate, const kt__draft_step *step, double right,
                          int n, int most);
/* The same if nothing could be lost: with false it is not worth asking for a while. */
bool kt__draft_gate_pays(const kt__draft_gate *gate, const kt__draft_step *step, double right,
                         int n, int most);
/* It does not pay: some steps pass without asking, ever more of them, and then one try is made
 * that pays by first guesses, if the account covers what it takes as measured. */
void kt__draft_gate_rest(kt__draft_gate *gate);
/* Whether this step is one of them. */
bool kt__draft_gate_rests(kt__draft_gate *gate);
/* Rows to follow that the account covers, and what is expected of the answer: all of them, or fewer
 * from the text's end, which is worth beginning anew there; 0: none. */
int32_t kt__draft_gate_covers(const kt__draft_gate *gate, const kt__draft_step *step,
                              const kt__draft_lag *lag);
/* Rows to follow in one step, so that no answer waits long for it; at most `most`. */
int kt__draft_gate_slice(const kt__draft_gate *gate, const kt__draft_step *step, int most);

/* What happened. */
void kt__draft_gate_followed(kt__draft_gate *gate, int rows, double us);
void kt__draft_gate_drafted(kt__draft_gate *gate, int steps, double us); /* proposals were made */
void kt__draft_gate_verify(kt__draft_gate *gate, const kt__draft_step *step, int n_proposed);
void kt__draft_gate_accepted(kt__draft_gate *gate, int n);
void kt__draft_gate_stepped(kt__draft_gate *gate, double us); /* the model's own step */

/* How many of the head's rows a proposal is worth (docs/decisions/speculation.md): the tokens of texts are counted by
 * parts of the vocabulary, whose tokens are numbered by how common they are, and proposals compute its first parts. A
 * token beyond them is a proposal that is wrong. */

enum { KT__VOCAB_PARTS = 32 }; /* by ids */

typedef struct kt__common_tokens {
    int n_in[KT__VOCAB_PARTS], n_seen;
} kt__common_tokens;

/* tokens[n] of a text, all below n_vocab. */
void kt__common_tokens_count(kt__common_tokens *common, int n_vocab, const int32_t *tokens,
                             int32_t n);
/* The first rows of the head that give the most tokens a second if a proposal is right wherever its
 * token is among them; 0: all. rest, head: the time of a proposal without the head and of all the
 * head, as shares of a step's. */
int kt__common_tokens_rows(const kt__common_tokens *common, int n_vocab, double rest, double head);

#endif
