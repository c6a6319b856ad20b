/* The keys of what was taught, computed with the adapter that a version serves.
 *
 * Owns: a table by feedback, and its file next to the adapter. A feedback's own keys were computed with what was
 * served when it came; an adapter that is published later moves the states, so that recall would no longer find
 * them. What is after the adapter has the right keys itself. One thread a table. */
#ifndef KT_TUTOR_TAUGHT_KEYS_H
#define KT_TUTOR_TAUGHT_KEYS_H

#include "base/buf.h"
#include "tutor/learner_state.h"
#include "tutor/lesson.h"

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
 * adapter where it is used (adapter_scope.h). */
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

#endif
