/* The scheduler's policy: who runs, who waits, who is suspended, and for how long a prompt may be
 * computed before running answers get their next token.
 *
 * Owns: the order of tasks (task.h), clients and their shares, lanes, and the prompts' batch in
 * flight. Knows positions and times only: what a token is, where K/V pages lie and how a batch is
 * run is reached through kt__sched_ops, so that tests drive it with a clock and a model of their
 * own. sched_state.h says which file has what.
 *
 * Order: priority; then the client that was served least, in tokens (virtual token counters, Sheng
 * et al. 2024, "Fairness in serving large language models"); then arrival.
 *
 * One thread at a time (the engine's turn). No allocation after creation. */
#ifndef KT_SCHED_SCHED_H
#define KT_SCHED_SCHED_H

#include "sched/sched_forecast.h"
#include "sched/sched_ops.h"

enum { KT__SCHED_LANES_MAX = KT_PARALLEL_MAX };

typedef struct kt__sched kt__sched;

kt_status kt__sched_create(const kt__sched_params *params, const kt__sched_ops *ops, void *user,
                           kt__sched **out, kt_error *err) KT_CHECKED;
/* Releases (without an event) what is left. */
void kt__sched_destroy(kt__sched *sched);
/* Rows of the prompts' batches to come: from 1 to those it was made with. For measurements. */
void kt__sched_set_rows(kt__sched *sched, int n_rows);
/* The task stays the owner's, at its place, until `release`. */
void kt__sched_add(kt__sched *sched, kt__task *task);
/* One decode step and one slice of a prompts' batch, or less where there is less to do. false:
 * nothing could run. */
bool kt__sched_step(kt__sched *sched);
/* Sets finish of every task, and lets go of them; lent_too: those on sequences, too. */
void kt__sched_end_all(kt__sched *sched, kt_finish finish, bool lent_too);

void kt__sched_get_counts(const kt__sched *sched, kt__sched_counts *out);
int kt__sched_n_tasks(const kt__sched *sched);                        /* not ended */
void kt__sched_get_load(const kt__sched *sched, kt__sched_load *out); /* for predictions */

#endif
