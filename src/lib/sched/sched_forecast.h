/* Predictions: how long a request would take that is submitted now.
 *
 * Owns: the picture of how busy the engine is, in numbers of tokens, and what follows from it.
 * Plain data and pure functions: any thread, on a copy of its own. */
#ifndef KT_SCHED_SCHED_FORECAST_H
#define KT_SCHED_SCHED_FORECAST_H

#include <kentang.h>

enum { KT__DECODE_WEIGHT = 2 }; /* a sampled token counts as so many prompt tokens */

/* What one client has to do at one priority. */
typedef struct kt__load_group {
    int32_t priority;
    uint64_t client, served; /* kt__client_key; tokens, weighted */
    int n_tasks;
    int64_t n_prompt_tok; /* not computed yet */
    int64_t n_flight_tok; /* of these, in the batch in flight */
    int64_t n_answer_tok; /* that may come; open ends counted as usual ones */
} kt__load_group;

enum { KT__LOAD_GROUPS = 32 }; /* further clients are added to others of their priority */

/* How busy it is: enough to predict. Plain data. */
typedef struct kt__sched_load {
    int n_parallel, n_running, n_decoding;
    double prefill_us_tok, step_us,
        step_us_lane; /* a decode step takes step_us + n * step_us_lane */
    int64_t gap_us;
    uint64_t fair_served; /* where a client begins that has nothing to do yet */
    double flight_us_tok; /* what is left of the batch in flight, per token */
    kt__load_group groups[KT__LOAD_GROUPS];
    int n_groups;
} kt__sched_load;

/* A request: what will be asked for. */
typedef struct kt__sched_request {
    int32_t priority;
    uint64_t client; /* kt__client_key */
    int64_t n_prompt, n_predict;
} kt__sched_request;

/* The group of a client at a priority; where there are too many, another of that priority. */
kt__load_group *kt__load_group_of(kt__sched_load *load, int32_t priority, uint64_t client);
/* n_predict, open ends counted as usual ones. */
int64_t kt__load_answer_tok(int64_t n_predict);
/* One more that waits. */
void kt__sched_load_add(kt__sched_load *load, const kt__sched_request *request);

/* Microseconds until a request submitted now would have its first token and all of n_predict
 * tokens, by what would run before it: the batch in flight, what has a higher priority, what its
 * client asked for earlier, and of other clients what fair shares let them have until then. 0 while
 * nothing was measured. */
typedef struct kt__forecast {
    int64_t first_us, all_us;
} kt__forecast;
kt__forecast kt__sched_predict(const kt__sched_load *load, const kt__sched_request *request);
/* A slice between decode steps of busy_us: what they leave of the gap between tokens, and where
 * they leave little half a step at least, so that prompts have a third of the time. */
double kt__sched_slice_between(double gap_us, double busy_us);

#endif
