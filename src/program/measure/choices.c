#include "measure/quality.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "term/cli.h"

enum { MAX_FILE_BYTES = 256 << 20, MAX_ENDINGS = 26, GROUP_LINES = 6, GROUP_ENDINGS = 4 };

/* ---- reading: a task from anything ---- */

static void choice_task_free(kt__choice_task *task) {
    for (size_t i = 0; i < task->n; i++) kt__free(task->endings[i]);
    kt__free(task->endings);
    kt__free(task->context);
}

void kt__choice_tasks_free(kt__choice_tasks *tasks) {
    for (size_t i = 0; i < tasks->n; i++) choice_task_free(&tasks->items[i]);
    kt__free(tasks->items);
    *tasks = (kt__choice_tasks){0};
}

static kt__choice_task *choice_task_new(kt__choice_tasks *tasks, const char *context, size_t n,
                                        size_t right) {
    if (!kt__vec_reserve(tasks->items, tasks->cap, tasks->n + 1)) return NULL;
    kt__choice_task *task = &tasks->items[tasks->n];
    *task = (kt__choice_task){.context = kt__strdup(context), .right = right};
    task->endings = kt__calloc(n, sizeof *task->endings);
    tasks->n++;
    return task->context && task->endings ? task : NULL;
}

static bool choice_task_add(kt__choice_task *task, const char *ending) {
    task->endings[task->n] = kt__strdup(ending);
    return task->endings[task->n++] != NULL;
}

/* ---- reading: groups of six lines ---- */

static bool whole_number(const char *text, long least, long most, size_t *out) {
    char *end;
    long x = strtol(text, &end, 10);
    if (end == text || *end || x < least || x > most) return false;
    *out = (size_t)x;
    return true;
}

static kt_status tasks_of_lines(char **lines, size_t n, kt__choice_tasks *out, kt_error *err) {
    if (n % GROUP_LINES)
        return kt__fail(err, KT_E_FORMAT, "%zu lines: tasks are groups of %d", n, GROUP_LINES);
    for (size_t at = 0; at < n; at += GROUP_LINES) {
        size_t right = 0;
        if (!whole_number(lines[at + 1], 0, GROUP_ENDINGS - 1, &right))
            return kt__fail(err, KT_E_FORMAT,
                            "line %zu: expected the right ending's number, 0 to %d", at + 2,
                            GROUP_ENDINGS - 1);
        kt__choice_task *task = choice_task_new(out, lines[at], GROUP_ENDINGS, right);
        for (size_t i = 0; i < GROUP_ENDINGS; i++)
            if (!task || !choice_task_add(task, lines[at + 2 + i]))
                return kt__fail_nomem(err, "a task", strlen(lines[at]));
    }
    return KT_OK;
}

/* ---- reading: JSON lines ---- */

/* The right ending: an index, its text form, or a label of `labels` (an array, or NULL). */
static bool right_of(json_t *value, json_t *labels, size_t n, size_t *right) {
    const char *text = json_string_value(value);
    if (json_is_integer(value)) {
        *right = (size_t)json_integer_value(value);
        return *right < n;
    }
    for (size_t i = 0; text && i < json_array_size(labels); i++) {
        const char *label = json_string_value(json_array_get(labels, i));
        if (label && !strcmp(label, text)) return (*right = i) < n;
    }
    return text && whole_number(text, 0, (long)n - 1, right);
}

static kt_status task_of_json(json_t *value, size_t line, kt__choice_tasks *out, kt_error *err) {
    const char *context = json_string_value(json_object_get(value, "ctx"));
    json_t *endings = json_object_get(value, "endings"), *labels = NULL;
    json_t *answer = json_object_get(value, "label");
    size_t right = 0;
    if (!context) {
        json_t *choices = json_object_get(value, "choices"), *key = NULL;
        context = json_string_value(json_object_get(value, "question"));
        endings = json_is_object(choices) ? json_object_get(choices, "text") : choices;
        labels = json_object_get(choices, "label");
        key = json_object_get(value, "answerKey");
        answer = key ? key : json_object_get(value, "answer");
    }
    size_t n = json_array_size(endings);
    if (!context || n < 2 || n > MAX_ENDINGS || !right_of(answer, labels, n, &right))
        return kt__fail(err, KT_E_FORMAT,
                        "line %zu: expected ctx, endings and label, or question, choices and "
                        "answerKey",
                        line);
    kt__choice_task *task = choice_task_new(out, context, n, right);
    for (size_t i = 0; i < n; i++) {
        const char *ending = json_string_value(json_array_get(endings, i));
        if (!ending) return kt__fail(err, KT_E_FORMAT, "line %zu: ending %zu is no text", line, i);
        if (!task || !choice_task_add(task, ending)) return kt__fail_nomem(err, "a task", n);
    }
    return KT_OK;
}

static kt_status tasks_of_json(char **lines, size_t n, kt__choice_tasks *out, kt_error *err) {
    kt_status status = KT_OK;
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        json_error_t error;
        json_t *value = json_loads(lines[i], 0, &error);
        if (!value)
            return kt__fail(err, KT_E_FORMAT, "line %zu: not JSON: %.200s", i + 1, error.text);
        status = task_of_json(value, i + 1, out, err);
        json_decref(value);
    }
    return status;
}

/* ---- reading: the file ---- */

/* Cuts the text at its newlines; empty lines are left out. */
static kt_status cut_lines(char *text, char ***lines, size_t *n, kt_error *err) {
    size_t cap = 0;
    *lines = NULL;
    *n = 0;
    for (char *save, *line = strtok_r(text, "\r\n", &save); line;
         line = strtok_r(NULL, "\r\n", &save)) {
        if (!kt__vec_reserve(*lines, cap, *n + 1)) return kt__fail_nomem(err, "lines", *n * 8);
        (*lines)[(*n)++] = line;
    }
    return KT_OK;
}

kt_status kt__choice_tasks_read(const char *path, kt__choice_tasks *out, kt_error *err) {
    char *text = NULL, **lines = NULL;
    size_t len = 0, n = 0;
    *out = (kt__choice_tasks){0};
    kt_status status;
    KT__TRY(kt__cli_read_file(path, MAX_FILE_BYTES, &text, &len, err));
    KT__TRY(cut_lines(text, &lines, &n, err));
    if (!n) KT__TRY(kt__fail(err, KT_E_FORMAT, "it holds no task"));
    status = lines[0][0] == '{' ? tasks_of_json(lines, n, out, err)
                                : tasks_of_lines(lines, n, out, err);
out:
    if (status != KT_OK && err && !err->where[0])
        snprintf(err->where, sizeof err->where, "%s", path);
    kt__free(lines);
    kt__free(text);
    return status;
}

/* ---- scoring ---- */

/* Context and ending as ids. */
static kt_status ending_ids(const kt__choice_task *task, size_t i, const kt_model *model,
                            int32_t **ids, size_t *n, kt_error *err) {
    size_t len = strlen(task->context) + 1 + strlen(task->endings[i]);
    char *text = kt__malloc(len + 1);
    *ids = NULL;
    if (!text) return kt__fail_nomem(err, "a question", len);
    snprintf(text, len + 1, "%s %s", task->context, task->endings[i]);
    kt_status status = kt__text_ids(model, text, len, 0, ids, n, err);
    kt__free(text);
    return status;
}

/* How many ids all the endings begin with, less than any of them has; at least 1 if BOS or a
 * context is there. */
static size_t common_ids(int32_t *const *ids, const size_t *n_ids, size_t n) {
    size_t common = 0;
    for (;; common++) {
        for (size_t i = 0; i < n; i++)
            if (common + 1 >= n_ids[i] || ids[i][common] != ids[0][common]) return common;
    }
}

/* Mean log-probability of ids[common..n) after those before; the sequence holds ids[0..common-1). */
static kt_status ending_score(kt__session *s, const int32_t *ids, size_t common, size_t n,
                              double *score, kt_error *err) {
    size_t n_vocab = (size_t)s->info.n_vocab, rows = n - common;
    float *logits = kt__malloc((rows + 1) * n_vocab * sizeof *logits), *weights;
    if (!logits) return kt__fail_nomem(err, "logits", rows * n_vocab * sizeof *logits);
    weights = logits + rows * n_vocab;
    kt_eval_item item = {s->seq, ids + common - 1, rows, logits};
    kt_status status = kt_engine_eval(s->engine, &item, 1, err);
    double sum = 0.0;
    for (size_t i = 0; i < rows && status == KT_OK; i++) {
        kt__log_row row;
        status = kt__log_row_make(logits + i * n_vocab, n_vocab, weights, &row, err);
        if (status == KT_OK) sum += kt__log_row_at(&row, ids[common + i]);
    }
    *score = sum / (double)rows;
    kt__free(logits);
    return status;
}

static kt_status best_ending(kt__session *s, int32_t *const *ids, const size_t *n_ids, size_t n,
                             size_t *best, kt_error *err) {
    size_t common = common_ids(ids, n_ids, n);
    double best_score = 0.0;
    if (!common) return kt__fail(err, KT_E_ARG, "the endings have no context in common");
    KT__STEP(kt_seq_truncate(s->seq, 0, err));
    if (common > 1) KT__STEP(kt_seq_eval(s->seq, ids[0], common - 1, err));
    for (size_t i = 0; i < n; i++) {
        double score = 0.0;
        KT__STEP(kt_seq_truncate(s->seq, common - 1, err));
        KT__STEP(ending_score(s, ids[i], common, n_ids[i], &score, err));
        if (i == 0 || score > best_score) *best = i, best_score = score;
    }
    return KT_OK;
}

kt_status kt__choice_score(const kt__choice_task *task, kt__session *session, bool *right,
                           kt_error *err) {
    int32_t *ids[MAX_ENDINGS] = {NULL};
    size_t n_ids[MAX_ENDINGS] = {0}, best = 0;
    kt_status status = KT_OK;
    for (size_t i = 0; i < task->n && status == KT_OK; i++)
        status = ending_ids(task, i, session->model, &ids[i], &n_ids[i], err);
    if (status == KT_OK) status = best_ending(session, ids, n_ids, task->n, &best, err);
    *right = best == task->right;
    for (size_t i = 0; i < task->n; i++) kt__free(ids[i]);
    return status;
}
