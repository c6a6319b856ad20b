/* A picture's rows on the engine's encoder.
 *
 * Owns: what surrounds it, as batch.h for batches: the pool's lock, the number of threads, the floating-point
 * environment, the look at the file. With the engine's turn. No allocation. */
#ifndef KT_ANSWER_SEE_H
#define KT_ANSWER_SEE_H

#include "context/types.h"

/* Until all rows of the view are there or the time has come, a tile after the other. What was begun continues with
 * the next call for the same view. KT_E_TRUNCATED: the encoder's file was cut; KT_E_NUMERIC. */
kt_status kt__engine_see(kt_engine *engine, kt__view *view, int64_t until_us, bool *done,
                         kt_error *err) KT_CHECKED;

#endif
