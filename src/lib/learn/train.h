/* A training: steps over samples that are given, without any judgement of the result.
 *
 * Owns: the order of samples, their weights in a step, the rate's course, the penalty of EWC, and
 * the limits of time. Threads: as learn.h says. */
#ifndef KT_LEARN_TRAIN_H
#define KT_LEARN_TRAIN_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

#include "learn/learner.h"

typedef struct kt__training {
    const kt__sample *samples;
    const size_t *list; /* [n] those that are trained */
    size_t n;
    const kt__learn_settings *settings;
    const kt__learn_from *from; /* or NULL */
    int64_t cpu_begin_ns;       /* of kt__train_cpu_ns */
} kt__training;

/* Trains factors from their values on; fills the report's steps, tokens, loss, stopped. */
kt_status kt__train(kt__learner *learner, const kt__training *training, kt__factors *factors,
                    kt__learn_report *report, kt_error *err) KT_CHECKED;
/* Processor time of the process: next to an engine that answers, its time, too. */
int64_t kt__train_cpu_ns(void);

/* Adam (Kingma & Ba 2015), with the gradient's norm held to 1.
 *
 * Owns: the moments of an adapter's values. An update that is not finite is dropped, whole, and
 * counted. One user at a time. */

typedef struct kt__adam {
    size_t n;
    float *m, *v;
    int n_step, n_dropped;
} kt__adam;

kt_status kt__adam_init(kt__adam *adam, size_t n, kt_error *err) KT_CHECKED;
void kt__adam_free(kt__adam *adam); /* also of a zeroed one */
/* values[n] take a step of the given rate against grads[n], which is scaled. false: dropped. */
bool kt__adam_step(kt__adam *adam, float *values, float *grads, float rate);

#endif
