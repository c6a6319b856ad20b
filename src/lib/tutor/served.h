/* What is served, asked what was taught.
 *
 * Owns: how many of a namespace's corrections are answered word for word by a version, recall and adapter
 * together, as a client would get them. One thread; besides others that use the engine, or driving it where no
 * thread does. */
#ifndef KT_TUTOR_SERVED_H
#define KT_TUTOR_SERVED_H

#include "tutor/taught_keys.h"

typedef struct kt__served_count {
    int n_asked, n_right;
} kt__served_count;

/* Of the feedbacks ids[n] those that are corrections. KT_E_CANCELLED. */
kt_status kt__served_ask(kt_learner *learner, const kt_learned *with, const uint64_t *ids, size_t n,
                         const kt__tutor_patience *patience, kt__served_count *out,
                         kt_error *err) KT_CHECKED;

#endif
