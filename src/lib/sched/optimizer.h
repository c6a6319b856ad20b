/* The controller: how many answers are computed together, and how long a prompt may hold them up.
 *
 * Owns: targets with their defaults, what the scheduler allows itself at the moment, and the
 * decision, step by step, to allow less or more. How many answers memory holds is found elsewhere
 * (sched_state.h) and kept here. Knows figures only: no task, no clock. It looks at
 * ratios of times (a step to its target, so many lanes to so many others), so that it holds on a
 * processor whose speed changes. Changes no answer: batch mates and slices never do.
 *
 * Pure; no allocation. One user at a time. */
#ifndef KT_SCHED_OPTIMIZER_H
#define KT_SCHED_OPTIMIZER_H

#include <kentang.h>

typedef struct kt__optimizer_params {
    bool on;
    int n_most;          /* lanes */
    int64_t gap_most_us; /* pause of an answer for prompts' sake, at most */
    int64_t target_us;   /* between two tokens */
    double least_tok_s,  /* tokens a second that are wanted */
        memory;          /* share of pages that answers may have */
    int64_t n_pages;     /* the same by the memory contract; 0: no less */
} kt__optimizer_params;

typedef struct kt__optimizer {
    kt__optimizer_params p;
    int n_now;
    int64_t gap_now_us;
    int n_over, n_under;           /* steps in a row that took too long, that leave room */
    int64_t last_us, last_step_us; /* of the step before: with its slice, without */
    int64_t raised_us;             /* when the number of lanes was raised last; 0: never */
    int64_t not_before_us;         /* no raising until then */
    int64_t hold_us;               /* that a failed raising is not tried again */
    int n_room;                    /* answers that memory holds; 0: all */
    int64_t room_us;               /* when it held no more, last */
    uint64_t n_actions[KT_ACTION_COUNT];
} kt__optimizer;

/* One step of the scheduler in which answers got tokens. */
typedef struct kt__optimizer_step {
    int64_t now_us;
    int n_decoding;     /* answers in it */
    int64_t step_us;    /* it took */
    int64_t slice_us;   /* and what was computed of prompts before the next */
    bool waits;         /* somebody waits for a lane */
    double fixed, lane; /* a step's time as a line over its lanes, as it was lately, us */
} kt__optimizer_step;

/* The targets of an engine's parameters, defaults in place of zeros. */
kt__optimizer_params kt__optimizer_params_of(const kt_engine_params *params);
void kt__optimizer_init(kt__optimizer *optimizer, const kt__optimizer_params *params);
/* Whether another answer found room besides so many, each time that it was asked for. Returns what
 * it did, or KT_ACTION_COUNT. */
kt_action kt__optimizer_note_room(kt__optimizer *optimizer, int64_t now_us, int n_running,
                                  bool found);
/* Answers that may run. */
static inline int kt__optimizer_lanes(const kt__optimizer *o) {
    return o->n_room > 0 && o->n_room < o->n_now ? o->n_room : o->n_now;
}
/* After each step; may change n_now and gap_now_us. Returns what it did, or KT_ACTION_COUNT. */
kt_action kt__optimizer_note(kt__optimizer *optimizer, const kt__optimizer_step *step);

#endif
