/* How fast steps are, and with how many threads they are fastest: short measurements.
 *
 * Owns: nothing between calls. Memory bandwidth is often used up by fewer threads than there are
 * cores, and those beyond that only get in each other's way. Any thread; takes a few steps' time. */
#ifndef KT_SETUP_STEP_THREADS_H
#define KT_SETUP_STEP_THREADS_H

#include <kentang.h>

/* Of n_most threads, three quarters and a half, the number with the fastest steps of one answer; the
 * larger where they differ by less than 3%. The model's context has a pool of n_most at least. */
kt_status KT_CHECKED kt__step_threads_find(kt_model *model, int n_most, int *out, kt_error *err);
/* Microseconds of a step of one answer with n_threads: the better of two, after one that warms up. */
kt_status KT_CHECKED kt__step_threads_time(kt_model *model, int n_threads, int64_t *us,
                                           kt_error *err);

#endif
