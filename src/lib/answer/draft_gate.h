/* Whether asking a draft model pays: an account of time.
 *
 * Owns: what drafting has cost and saved, the measured time of the draft model's rows and steps,
 * and the choices that follow. Everything the draft model computes is paid from the account, its
 * own way through a text included; it is filled by a hundredth of the time that steps take, by
 * what right proposals save and, once, by a grant of four steps' time, for finding out what the
 * model is good for. So drafting can lose a hundredth of the time and those steps at most, whatever
 * prompts and answers are like.
 *
 * Nobody knows how long an answer will be. It is taken to continue for as long as it has been
 * running (at most for what is left to it), and only as much of its text is followed, from its end,
 * as that and the account are worth: a draft model that knows the last hundred tokens is often
 * right, too.
 *
 * Pure; no clock, no allocation. One user at a time. */
#ifndef KT_ANSWER_DRAFT_GATE_H
#define KT_ANSWER_DRAFT_GATE_H

#include "answer/spec.h"

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

#endif
