/* Trainings of what clients have said: one at a time, at a low priority, next to the answers.
 *
 * Owns: the thread that they run on, who is next, and what a training is told by the settings. One
 * begins because a client asks for it, or, in the background, because a namespace has enough
 * feedback that none has seen. Any thread. */
#ifndef KT_JOBS_TRAINER_H
#define KT_JOBS_TRAINER_H

#include "services/shared.h"

typedef struct kt__trainer kt__trainer;

/* What was asked for, as kt_train_params has it. */
typedef struct kt__train_asked {
    bool deep, everywhere, instant;
    bool by_itself; /* nobody asked: nothing is trained that requests with notes do not use */
    uint64_t seed;
} kt__train_asked;

typedef struct kt__trained {
    kt__served *served;
    const kt_model *model;
    kt_learner *learner;
} kt__trained;

kt_status KT_CHECKED kt__trainer_create(kt__shared *shared, kt__trainer **out, kt_error *err);
/* What runs is cancelled, what is queued is not begun; shared->stopping is set. NULL is allowed. */
void kt__trainer_stop(kt__trainer *trainer);
void kt__trainer_free(kt__trainer *trainer);

/* Runs item on the training thread, in turn: for a caller who waits; it calls kt__trainer_train.
 * false: too many wait. */
bool kt__trainer_add(kt__trainer *trainer, kt__work_item *item);
/* One training, on the training thread, of a learner of a model that is in use. name: for the log. */
kt_status KT_CHECKED kt__trainer_train(kt__trainer *trainer, const kt__trained *of,
                                       const char *name, kt__train_asked asked,
                                       kt_train_result *out, kt_error *err);
/* For which requests an adapter is used that was published: a phrase, constant. */
const char *kt__trainer_use(kt__trainer *trainer, const kt__trained *of);
/* The same in turn, for nobody who waits. name: of the namespace, as kt__namespace_of made it.
 * KT_E_BUSY: too many wait. */
kt_status KT_CHECKED kt__trainer_queue(kt__trainer *trainer, kt__served *served, const char *name,
                                       kt__train_asked asked, kt_error *err);
/* Called about ten times a second: looks, on the training thread, whether a namespace is due. */
void kt__trainer_tick(kt__trainer *trainer);

#endif
