/* Multiple choice: which of several endings a model finds most probable.
 *
 * Owns: reading tasks, and the score: the mean log-probability of an ending's tokens after the
 * context, as llama-perplexity --hellaswag and the acc_norm of other harnesses compare them. Two
 * forms of file: lines in groups of six (context, number of the right ending, four endings), as
 * llama.cpp's HellaSwag files are; and JSON lines as on the hubs: {"ctx", "endings", "label"} or
 * {"question", "choices": {"text", "label"}, "answerKey"} or {"question", "choices": [...],
 * "answer": index}. One thread. */
#ifndef KT_MEASURE_CHOICES_H
#define KT_MEASURE_CHOICES_H

#include "setup/session.h"

typedef struct kt__choice_task {
    char *context;
    char **endings; /* [n] */
    size_t n, right;
} kt__choice_task;

typedef struct kt__choice_tasks {
    kt__choice_task *items;
    size_t n, cap;
} kt__choice_tasks;

/* KT_E_FORMAT with the line; free in any case. */
kt_status kt__choice_tasks_read(const char *path, kt__choice_tasks *out, kt_error *err) KT_CHECKED;
void kt__choice_tasks_free(kt__choice_tasks *tasks);

/* Whether the model chooses the right ending. A task that does not fit the context is
 * KT_E_CONTEXT_FULL. */
kt_status kt__choice_score(const kt__choice_task *task, kt__session *session, bool *right,
                           kt_error *err) KT_CHECKED;

#endif
