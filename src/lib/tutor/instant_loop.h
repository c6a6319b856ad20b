/* The instant loop of a learner: what learn/instant.h makes of a version's feedback.
 *
 * Owns: which feedback a version's steps are taken from (what acts, since the adapter that was published last: a
 * training has seen the rest, and continues from these steps), and the adapter that requests get. Nothing of it is on
 * disk: the journal has all that the steps depend on, so that undoing, deleting and a process that is killed need no
 * care of their own. With the learner's `changing`, or of a version that is nobody else's. */
#ifndef KT_TUTOR_INSTANT_LOOP_H
#define KT_TUTOR_INSTANT_LOOP_H

#include "tutor/learner_state.h"

/* The steps of all feedback that made `version`, in its order, and out->instant. loop->of stays NULL where the
 * learner has no such loop. After an error the loop is closed, and the caller closes *out, which has its bank. */
kt_status kt__loop_build(kt_learner *learner, uint32_t version, kt__loop *loop, kt_learned *out,
                         kt_error *err) KT_CHECKED;
/* One step more, of a feedback that is on disk and in next->bank; next->instant is another one. What cannot be done
 * is said in the log. */
void kt__loop_learn(kt_learner *learner, const kt__feedback_item *item, uint64_t id,
                    kt_learned *next);
void kt__loop_close(kt__loop *loop); /* also a zeroed one */

/* For the gate: what the loop makes of the feedbacks ids[n], with the learner's settings or the default ones. */
kt_status kt__loop_factors(kt_learner *learner, const uint64_t *ids, size_t n, kt__factors **out,
                           kt_error *err) KT_CHECKED;
/* The beginning of a training of the last layer and the final hidden state: what the loop has made of it so far,
 * among the first ranks of `into`. False: of other matrices, or there is nothing. */
bool kt__loop_consolidate(kt_learner *learner, kt__factors *into);

#endif
