/* Answers that feedback may still come for.
 *
 * Owns: their tokens and keys for a while, bounded in bytes (the oldest go first) and time, found
 * by whose they are and the id that their client knows. Any thread. */
#ifndef KT_SERVICES_KEPT_ANSWERS_H
#define KT_SERVICES_KEPT_ANSWERS_H

#include <kentang.h>

#include "setup/namespaces.h"

typedef struct kt__kept_answers kt__kept_answers;

typedef struct kt__kept_answer {
    char id[48];     /* ours */
    char name[128];  /* its client's, or "" */
    char client[80]; /* whose it is */
    char taught_by[KT__NAMESPACE_BYTES];
    const char *model; /* as it is served; a constant */
    int32_t choice;    /* of the request's */
    kt_kept kept;      /* points after this */
} kt__kept_answer;

kt_status KT_CHECKED kt__kept_answers_create(uint64_t max_bytes, kt__kept_answers **out,
                                             kt_error *err);
void kt__kept_answers_free(kt__kept_answers *kept); /* NULL is allowed */
/* Copies it with what it points to; for keep_s seconds. Without memory it is not kept. */
void kt__kept_answers_add(kt__kept_answers *kept, const kt__kept_answer *answer, size_t d_model,
                          int64_t keep_s);
/* The latest such, held for kt__kept_answer_release; NULL: there is none (any more). */
kt__kept_answer *kt__kept_answers_find(kt__kept_answers *kept, const char *client, const char *id,
                                       int32_t choice);
/* How many choices it had; 0: there is no such answer (any more). */
int32_t kt__kept_answers_count(kt__kept_answers *kept, const char *client, const char *id);
void kt__kept_answer_release(kt__kept_answer *answer); /* NULL is allowed */

#endif
