/* The learners of a model that is served.
 *
 * Owns: those that were asked for so far, by namespace, each opened once; and counts of the feedback
 * they took. A learner stays open while it is used; of those that are not, the ones used last do, until
 * the table is cleared, before its engine is closed. A table from any thread; opening one reads its
 * folder. */
#ifndef KT_SERVICES_LEARNERS_H
#define KT_SERVICES_LEARNERS_H

#include <kentang.h>

#include "setup/config.h"
#include "setup/learn_config.h"
#include "setup/slog.h"

typedef struct kt__learner_table kt__learner_table;

typedef struct kt__learner_counts {
    uint64_t n_taken, n_refused, n_pairs;
    uint64_t keys_us, update_us;
    uint64_t n_published, n_not_published, n_failed; /* trainings */
    uint64_t train_us;
    int32_t n_training;        /* running now */
    uint64_t n_noted, n_notes; /* prompts with notes, and these */
} kt__learner_counts;

kt_status KT_CHECKED kt__learner_table_create(kt__learner_table **out, kt_error *err);
void kt__learner_table_free(kt__learner_table *table);
/* Before the engine is closed; nobody uses one any more. Counts stay. */
void kt__learner_table_clear(kt__learner_table *table);
/* *out NULL: nothing was ever taught there, and make is false. Valid until it is done with, the engine
 * being in use. KT_E_LIMIT: a client's names are as many as they may be. */
kt_status KT_CHECKED kt__learner_table_get(kt__learner_table *table, const kt__config *config,
                                           const char *model_name, kt_engine *engine,
                                           const char *name, bool make, kt_learner **out,
                                           kt_error *err);
void kt__learner_table_done(kt__learner_table *table, const kt_learner *learner); /* or NULL */
/* Adds to the counts; status: how the learner's feedback ended. */
void kt__learner_table_count(kt__learner_table *table, const kt_learner *learner, kt_status status,
                             const kt_feedback_result *result);
/* What becomes of corrections that a conversation opens: as the configuration says, else as the model was measured, else as is
 * presumed of it; looked up once until the table is cleared, and then said in the log. */
kt__notes_mode kt__learner_table_notes(kt__learner_table *table, const kt__config *config,
                                       const char *model_name, const kt_model *model,
                                       kt__slog *log);
/* Nothing is left to measure, as far as it was looked up. */
bool kt__learner_table_settled(kt__learner_table *table, const kt__config *config);
/* Whether it depends on a measurement that is not whole; so_far: what was counted. */
bool kt__learner_table_unprobed(kt__learner_table *table, const kt__config *config,
                                const char *model_name, const kt_model *model, kt__slog *log,
                                kt_probe_result *so_far);
/* More of it, or all, which the log says. */
void kt__learner_table_probed(kt__learner_table *table, const char *model_name,
                              const kt_probe_result *result, kt__slog *log);
/* It cannot be measured: not tried again until the table is cleared. */
void kt__learner_table_unmeasurable(kt__learner_table *table);
/* What is known, as members of a JSON object; false: nobody asked since the table was cleared, nothing is written. */
bool kt__learner_table_write_verdict(kt__learner_table *table, kt__buf *out);
void kt__learner_table_count_notes(kt__learner_table *table, size_t n); /* of a prompt */
void kt__learner_table_begin_training(kt__learner_table *table);
/* status: how it ended, after us of wall time. */
void kt__learner_table_count_training(kt__learner_table *table, kt_status status,
                                      const kt_train_result *result, int64_t us);
/* Feedbacks that no training has seen, of all that were asked for. */
uint64_t kt__learner_table_pending(kt__learner_table *table);
void kt__learner_table_counts(kt__learner_table *table, kt__learner_counts *out);
/* The index-th that was asked for; false: there are fewer. name: out[size]. quiet_us: since a feedback was
 * taken last, INT64_MAX where none was; or NULL */
bool kt__learner_table_at(kt__learner_table *table, size_t index, char *name, size_t size,
                          kt_learner_info *out, int64_t *quiet_us);

/* Answers that feedback may still come for.
 *
 * Owns: their tokens and keys for a while, bounded in bytes (the oldest go first) and time, found
 * by whose they are and the id that their client knows. Any thread. */

typedef struct kt__kept_answers kt__kept_answers;

typedef struct kt__kept_answer {
    char id[48];     /* ours */
    char name[128];  /* its client's, or "" */
    char client[80]; /* whose it is */
    char taught_by[KT__NAMESPACE_BYTES];
    const char *model; /* as it is served; a constant */
    char route[64];    /* that the request took to it, or "" */
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
