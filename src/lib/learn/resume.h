/* A training that is resumed where it was when its process ended.
 *
 * Owns: the file of it: after which step it was written, the adapter's values and Adam's moments by then, bound to the
 * samples, the settings and the values that the training began with. Its bytes come from outside: a file of another
 * training, or a damaged one, is none. The order of samples follows from the seed, so that a training that was
 * interrupted gives the same bytes as one that was not. One thread. */
#ifndef KT_LEARN_RESUME_H
#define KT_LEARN_RESUME_H

#include "base/hash.h"
#include "learn/learn.h"

typedef struct kt__resume {
    const char *path; /* NULL: nothing is kept */
    uint8_t binding[32];
    int64_t kept_us; /* when it was written last */
} kt__resume;

/* What has been reached: values[n], and of Adam. */
typedef struct kt__resume_state {
    float *values;
    kt__adam *adam;
    int n_step;
    double train_loss; /* kt__learn_report's, so far */
} kt__resume_state;

void kt__resume_bind(kt__resume *resume, const kt__training *training, const kt__factors *begin);
/* False: the training begins; state is as it was. */
bool kt__resume_read(const kt__resume *resume, kt__resume_state *state);
/* Every twenty seconds, and where it is the last step. What cannot be written is no error. */
void kt__resume_keep(kt__resume *resume, const kt__resume_state *state, bool last);
/* The same from bytes; state->adam->n is how many values there are. */
bool kt__resume_parse(const uint8_t binding[32], const void *data, size_t n,
                      kt__resume_state *state);

#endif
