/* What is served of what was learned.
 *
 * Owns: where a version's adapter is used (everywhere, or where an entry of its bank opens); the keys of recall
 * computed with that adapter, and their file next to it; and how many of a namespace's corrections are answered right
 * by a version, recall and adapter together. One thread; besides others that use the engine, or driving it where no
 * thread does. */
#ifndef KT_TUTOR_SERVED_H
#define KT_TUTOR_SERVED_H

#include "base/buf.h"
#include "feedback/store.h"
#include "tutor/learner_state.h"
#include "tutor/lesson.h"

#include <kentang.h>

/* The adapter's scope: a pure function of texts and bank, of conversations (kt_learned_adapter of kentang.h) and of
 * feedbacks. Any thread. */

/* A correction with a subject: its question opens an entry. */
bool kt__item_opens(kt_bank *bank, const kt__feedback_item *item);
/* What an answer to a feedback's question is computed with: adapter, or NULL. */
kt_adapter *kt__adapter_for_item(kt_adapter *adapter, kt_bank *bank, const kt__feedback_item *item);

/* The keys of what was taught: a table by feedback. A feedback's own keys were computed with what was served when it
 * came; an adapter that is published later moves the states, so that recall would no longer find them. What is after
 * the adapter has the right keys itself. One thread a table. */

typedef struct kt__taught_key {
    uint64_t id; /* of the feedback */
    size_t n;
    int8_t *keys; /* [n][d_model] */
} kt__taught_key;

typedef struct kt__taught_keys {
    kt__taught_key *of; /* [n], ids ascend */
    size_t n, cap;
} kt__taught_keys;

void kt__taught_keys_free(kt__taught_keys *keys);
/* Of the feedbacks ids[n], in their order, those that a recall has room for and that are not in the table yet; with the
 * adapter where it is used (above). */
kt_status kt__taught_keys_add(kt__taught_keys *keys, kt_learner *learner, kt_adapter *adapter,
                              kt_bank *bank, const uint64_t *ids, size_t n,
                              const kt__tutor_patience *patience, kt_error *err) KT_CHECKED;
/* NULL: not in the table. */
const kt__taught_key *kt__taught_keys_find(const kt__taught_keys *keys, uint64_t id);
/* What the feedbacks of a version add to *out, with keys of the table where it has them; after an error the caller
 * closes it. */
kt_status kt__learned_build(kt_learner *learner, uint32_t version, const kt__taught_keys *keys,
                            kt_learned *out, kt_error *err) KT_CHECKED;
void kt__taught_keys_write(const kt__taught_keys *keys, size_t d_model, kt__buf *out);
/* False: data[n] is no such table for states of d_model numbers, and *keys is empty. */
bool kt__taught_keys_read(kt__taught_keys *keys, size_t d_model, const void *data, size_t n);

/* Corrections asked as a client would ask them, word for word. */

typedef struct kt__served_count {
    int n_asked, n_right;
} kt__served_count;

/* Of the feedbacks ids[n] those that are corrections. KT_E_CANCELLED. */
kt_status kt__served_ask(kt_learner *learner, const kt_learned *with, const uint64_t *ids, size_t n,
                         const kt__tutor_patience *patience, kt__served_count *out,
                         kt_error *err) KT_CHECKED;

#endif
