/* The inside of a learner.
 *
 * Owns: its layout, and how what is served follows from its store. learner.c takes feedback in and
 * answers questions, learner_train.c trains. */
#ifndef KT_TUTOR_LEARNER_STATE_H
#define KT_TUTOR_LEARNER_STATE_H

#include "context/types.h"
#include "feedback/store.h"
#include "learn/instant.h"

/* What the instant loop has made of a version's feedback (instant_loop.h). */
typedef struct kt__loop {
    kt__instant *of; /* NULL: there is no loop */
    bool scoped;     /* all of it are corrections with a subject */
    int64_t last_us; /* that the last feedback's step took */
} kt__loop;

struct kt_learner {
    kt_engine *engine;
    kt_learner_params params; /* dir: ours */
    char *dir;
    kt__feedback *store;
    pthread_mutex_t changing; /* one change of the store and of what is served at a time */
    pthread_mutex_t training; /* one training at a time */
    pthread_mutex_t lock;     /* what is served, and the next members; a leaf */
    kt_learned served;
    kt__loop loop;      /* of what is served; with `changing` */
    int32_t n_instant;  /* of that loop, as it was when `served` was made: steps, and ... */
    int64_t instant_us; /* ... for how long the last feedback's took */
    bool instant_scoped;
    /* The last feedback that a training saw, and a deep one; 0: none since the learner was opened. */
    uint64_t tried, tried_deep;
    /* of the training that runs */
    kt_train_stage stage;
    int32_t stage_done, stage_total;
};

/* Serves the store's current version: one pointer swap, what runs keeps its own. With `changing`. */
kt_status kt__learned_serve(kt_learner *learner, kt_error *err) KT_CHECKED;

#endif
