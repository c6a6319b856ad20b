/* Where an engine's time goes outside batches, and kt_engine_profile_*.
 *
 * Owns: the engine's profile. Stages are added by any thread, batches with the engine's turn. */
#ifndef KT_CONTEXT_STAGE_H
#define KT_CONTEXT_STAGE_H

#include "context/types.h"

/* The time when a stage begins; 0 while nothing is profiled, and then its end does nothing. */
int64_t kt__stage_begin(const kt_engine *engine);
/* In a step, whose time is the total's. */
void kt__stage_end(kt_engine *engine, kt__stage stage, int64_t begin_ns);
/* Outside of steps: counts for the total, too. */
void kt__stage_end_outside(kt_engine *engine, kt__stage stage, int64_t begin_ns);
void kt__stage_add_outside(kt_engine *engine, kt__stage stage, int64_t ns);
/* The batches' profile or NULL; the engine's turn is the caller's. */
kt__profile *kt__engine_profile_on(kt_engine *engine);

#endif
