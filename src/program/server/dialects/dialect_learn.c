#include "dialects/dialect_learn.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "dialects/dialects.h"
#include "jobs/trainer.h"

/* ---- members ---- */

static kt_status fail_field(const char *name, const char *expected, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, name, UINT64_MAX, "%s: expected %s", name, expected);
}

/* NULL where it is absent or null. */
static kt_status text_field(const kt__job *job, const char *name, const char **out, size_t *len,
                            kt_error *err) {
    const json_t *v = json_object_get(job->request.json, name);
    *out = NULL;
    if (!v || json_is_null(v)) return KT_OK;
    *out = json_string_value(v);
    if (!*out) return fail_field(name, "a text", err);
    if (len) *len = json_string_length(v);
    if (!len && strlen(*out) != json_string_length(v))
        return fail_field(name, "a text without NUL", err);
    return KT_OK;
}

static kt_status whole_field(const kt__job *job, const char *name, int64_t low, int64_t high,
                             int64_t *out, kt_error *err) {
    const json_t *v = json_object_get(job->request.json, name);
    if (!v || json_is_null(v)) return KT_OK;
    *out = json_is_integer(v) ? json_integer_value(v) : low - 1;
    return *out >= low && *out <= high ? KT_OK : fail_field(name, "a whole number in range", err);
}

static kt_status check_learning(kt__job *job, kt_error *err) {
    if (job->shared->kept) return KT_OK;
    job->answer.error_status = 404;
    return kt__fail(err, KT_E_STATE,
                    "learning is off here: start the server with --learn, or set learning.enabled");
}

/* A namespace that cannot be used now is no fault of the request. */
static kt_status blame_place(kt__job *job, kt_status status, const kt_error *err) {
    if (status == KT_E_STATE) job->answer.error_status = 409;
    if (status == KT_E_FORMAT) job->answer.error_status = 500;
    if (status == KT_E_BUSY && kt__files_is_absolute(err->where)) job->answer.error_status = 503;
    return status;
}

/* ---- the namespace ---- */

/* Of a client, as it named it or NULL; the model of the request is in use then, and the learner is the
 * job's until it ends. */
static kt_status learner_of(kt__job *job, const char *name, bool make, kt_learner **out,
                            kt_error *err) {
    kt_status status = kt__served_learner(job->model.served, job->request.settings->config, name,
                                          make, out, err);
    job->model.learner = *out;
    if (status != KT_OK || *out) return blame_place(job, status, err);
    job->answer.error_status = 404;
    return kt__fail_at(err, KT_E_ARG, "namespace", UINT64_MAX,
                       "nothing was learned under \"%.80s\"", name);
}

static kt_status named_learner(kt__job *job, bool make, char name[KT__NAMESPACE_BYTES],
                               kt_learner **out, kt_error *err) {
    const char *given, *model;
    KT__STEP(check_learning(job, err));
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(text_field(job, "namespace", &given, NULL, err));
    KT__STEP(text_field(job, "model", &model, NULL, err));
    KT__STEP(kt__job_use_model(job, model, err));
    KT__STEP(
        kt__namespace_of(job->request.settings->config, job->request.client, given, name, err));
    return learner_of(job, name, make, out, err);
}

static void begin_reply(kt__job *job, const char *object, const char *name) {
    (void)kt__buf_putc(&job->answer.out, '{');
    kt__json_member(&job->answer.out, "object", object);
    kt__json_member(&job->answer.out, "namespace", name);
}

/* ---- feedback ---- */

static kt_status read_rating(const kt__job *job, kt_feedback_params *p, bool *rated,
                             kt_error *err) {
    const char *rating;
    const json_t *score = json_object_get(job->request.json, "score");
    kt_status status = text_field(job, "rating", &rating, NULL, err);
    if (status != KT_OK) return status;
    if (rating && score && !json_is_null(score))
        return kt__fail_at(err, KT_E_ARG, "score", UINT64_MAX,
                           "score: it says the same as rating: give one of them");
    *rated = true;
    if (rating && !strcmp(rating, "up"))
        p->score = 1;
    else if (rating && !strcmp(rating, "down"))
        p->score = 0;
    else if (rating)
        return fail_field("rating", "\"up\" or \"down\"", err);
    else if (json_is_number(score))
        p->score = (float)json_number_value(score);
    else if (score && !json_is_null(score))
        return fail_field("score", "a number, 0 to 1", err);
    else
        *rated = false;
    if (*rated && !(p->score >= 0 && p->score <= 1))
        return fail_field("score", "a number, 0 to 1", err);
    return KT_OK;
}

static kt_status read_feedback(const kt__job *job, kt_feedback_params *p, kt_error *err) {
    bool rated;
    kt_status status = read_rating(job, p, &rated, err);
    if (status == KT_OK)
        status = text_field(job, "correction", &p->correction, &p->n_correction, err);
    if (status != KT_OK || p->correction || rated) return status;
    return kt__fail_at(err, KT_E_ARG, "rating", UINT64_MAX,
                       "rating: one of rating, score and correction is needed");
}

/* Whose answer it is is known by its client alone: another's is as one that never was. */
static kt_status find_answer(kt__job *job, kt__kept_answer **out, kt_error *err) {
    const char *id;
    int64_t choice = 0;
    kt_status status = text_field(job, "response_id", &id, NULL, err);
    if (status == KT_OK) status = whole_field(job, "choice", 0, INT32_MAX, &choice, err);
    if (status != KT_OK) return status;
    if (!id) return fail_field("response_id", "the id of an answer", err);
    *out = kt__kept_answers_find(job->shared->kept, job->request.client, id, (int32_t)choice);
    if (*out) return KT_OK;
    job->answer.error_status = 404;
    int32_t n = kt__kept_answers_count(job->shared->kept, job->request.client, id);
    if (n > 0)
        return kt__fail_at(err, KT_E_ARG, "choice", UINT64_MAX,
                           "choice: the answer \"%.60s\" has 0 to %d", id, (int)n - 1);
    return kt__fail_at(err, KT_E_ARG, "response_id", UINT64_MAX,
                       "response_id: no answer of yours of the last %lld s has the id \"%.60s\"",
                       (long long)job->request.settings->config->learn_keep_s, id);
}

static void write_feedback(kt__job *job, const char *name, const kt_feedback_result *r) {
    begin_reply(job, "feedback", name);
    (void)kt__buf_printf(&job->answer.out,
                         ",\"id\":\"fb_%" PRIu64 "\",\"version\":%" PRId64
                         ",\"tokens\":%d,\"keys_ms\":%.3f,\"update_ms\":%.3f",
                         r->id, r->version, (int)r->n_pairs, (double)r->keys_us / 1e3,
                         (double)r->update_us / 1e3);
    if (r->instant_us)
        (void)kt__buf_printf(&job->answer.out, ",\"instant_ms\":%.3f", (double)r->instant_us / 1e3);
    (void)kt__buf_putc(&job->answer.out, '}');
}

/* Each choice of a request is an answer of its own. */
static void name_answer(const kt__kept_answer *answer, char *out, size_t size) {
    if (answer->choice)
        snprintf(out, size, "%s:%d", answer->id, (int)answer->choice);
    else
        snprintf(out, size, "%s", answer->id);
}

static kt_status take_feedback(kt__job *job, kt__kept_answer *answer, kt_error *err) {
    kt_status status;
    kt_learner *learner;
    char about[sizeof answer->id + 16];
    kt_feedback_params p = {.kept = &answer->kept, .about = about};
    kt_feedback_result result = {0};
    char name[KT__NAMESPACE_BYTES];
    const char *given;
    name_answer(answer, about, sizeof about);
    KT__TRY(read_feedback(job, &p, err));
    KT__TRY(text_field(job, "namespace", &given, NULL, err));
    KT__TRY(kt__namespace_of(job->request.settings->config, job->request.client, given, name, err));
    KT__TRY(kt__job_use_model(job, answer->model, err));
    KT__TRY(learner_of(job, name, true, &learner, err));
    status = kt_feedback(learner, &p, &result, err);
    kt__learner_table_count(kt__served_learners(job->model.served), learner, status, &result);
    KT__TRY(blame_place(job, status, err));
    if (job->shared->routes && answer->route[0])
        kt__routes_rate(job->shared->routes, answer->route, p.correction ? 0 : p.score);
    write_feedback(job, name, &result);
out:
    return status;
}

/* "fb_7" */
static kt_status read_feedback_id(const char *name, const char *text, uint64_t *out,
                                  kt_error *err) {
    char *end = NULL;
    if (!strncmp(text, "fb_", 3) && text[3] >= '0' && text[3] <= '9')
        *out = strtoull(text + 3, &end, 10);
    return end && !*end ? KT_OK : fail_field(name, "one as POST /v1/feedback gave it", err);
}

/* Another correction in the place of one, whose answer need not be kept any more. */
static kt_status edit_feedback(kt__job *job, const char *id, kt_error *err) {
    char name[KT__NAMESPACE_BYTES];
    kt_learner *learner;
    const char *correction;
    size_t n;
    uint64_t number = 0;
    kt_feedback_result result = {0};
    KT__STEP(read_feedback_id("feedback", id, &number, err));
    KT__STEP(text_field(job, "correction", &correction, &n, err));
    if (!correction) return fail_field("correction", "a text", err);
    KT__STEP(named_learner(job, false, name, &learner, err));
    kt_status status = kt_learner_edit(learner, number, correction, n, &result, err);
    kt__learner_table_count(kt__served_learners(job->model.served), learner, status, &result);
    if (status == KT_E_ARG && !strcmp(err->where, "id")) job->answer.error_status = 404;
    if (status != KT_OK) return blame_place(job, status, err);
    write_feedback(job, name, &result);
    return KT_OK;
}

static kt_status run_feedback(kt__job *job, kt_error *err) {
    kt_status status;
    const char *id;
    kt__kept_answer *answer = NULL;
    KT__TRY(check_learning(job, err));
    KT__TRY(kt__job_parse(job, err));
    KT__TRY(text_field(job, "feedback", &id, NULL, err));
    if (id) return edit_feedback(job, id, err);
    KT__TRY(find_answer(job, &answer, err));
    KT__TRY(take_feedback(job, answer, err));
out:
    kt__kept_answer_release(answer);
    return status;
}

/* ---- versions ---- */

static kt_status run_rollback(kt__job *job, kt_error *err) {
    kt_status status;
    kt_learner *learner;
    char name[KT__NAMESPACE_BYTES];
    int64_t version = -1;
    KT__TRY(named_learner(job, false, name, &learner, err));
    KT__TRY(whole_field(job, "version", 0, UINT32_MAX, &version, err));
    if (version < 0) {
        status = fail_field("version", "a whole number", err);
        goto out;
    }
    status = kt_learner_rollback(learner, version, err);
    KT__TRY(blame_place(job, status, err));
    begin_reply(job, "rollback", name);
    (void)kt__buf_printf(&job->answer.out, ",\"version\":%" PRId64 "}", version);
out:
    return status;
}

/* ---- training ---- */

/* For the thread of trainings; in the arena. */
typedef struct train_order {
    kt_learner *learner;
    char name[KT__NAMESPACE_BYTES];
    kt__train_asked asked;
} train_order;

static kt_status flag_field(const kt__job *job, const char *name, bool by_default, bool *out,
                            kt_error *err) {
    const json_t *v = json_object_get(job->request.json, name);
    *out = by_default;
    if (!v || json_is_null(v)) return KT_OK;
    *out = json_is_true(v);
    return json_is_boolean(v) ? KT_OK : fail_field(name, "true or false", err);
}

static kt_status train_now(kt__job *job, kt_error *err) {
    const train_order *order = job->extra;
    kt_train_result result = {0};
    kt__trainer *trainer = job->shared->trainer;
    const kt__trained of = {job->model.served, job->model.loaded, order->learner};
    kt_status status = kt__trainer_train(trainer, &of, order->name, order->asked, &result, err);
    if (status == KT_OK) {
        begin_reply(job, "training", order->name);
        (void)kt__buf_printf(&job->answer.out, ",\"published\":%s,\"version\":%" PRId64,
                             result.published ? "true" : "false", result.version);
        if (result.published)
            kt__json_member(&job->answer.out, "used", kt__trainer_use(trainer, &of));
        (void)kt__buf_printf(&job->answer.out, ",\"report\":%s}", result.report);
    }
    kt_free(result.report);
    return blame_place(job, status, err);
}

/* On the thread of trainings. */
static void train_in_turn(kt__work_item *item) {
    kt__job *job = KT__JOB_OF(item, item);
    kt_error err = {0};
    kt_status status = train_now(job, &err);
    if (status == KT_OK && job->dialect->finish_run) status = job->dialect->finish_run(job, &err);
    kt__job_hand_back(job, status, &err);
    kt__job_release(job);
}

static void hand_job(kt__job *job, kt__job_state to) {
    pthread_mutex_lock(&job->lock);
    kt__job_move(job, to);
    pthread_mutex_unlock(&job->lock);
}

static kt_status wait_for_turn(kt__job *job, kt_learner *learner, const char *name,
                               kt__train_asked asked, kt_error *err) {
    train_order *order = kt__arena_calloc(&job->arena, 1, sizeof *order);
    if (!order) return kt__fail_nomem(err, "a training", sizeof *order);
    *order = (train_order){.learner = learner, .asked = asked};
    memcpy(order->name, name, sizeof order->name);
    job->extra = order;
    job->item.run = train_in_turn;
    hand_job(job, KT__JOB_ELSEWHERE);
    kt__job_ref(job); /* the other thread's */
    if (kt__trainer_add(job->shared->trainer, &job->item)) return KT_OK;
    kt__job_release(job);
    hand_job(job, KT__JOB_READING);
    kt_status status = kt__fail(err, KT_E_BUSY, "too many trainings wait");
    err->retry_ms = 60000;
    return status;
}

static kt_status run_train(kt__job *job, kt_error *err) {
    char name[KT__NAMESPACE_BYTES];
    kt_learner *learner;
    kt__train_asked asked = {0};
    int64_t seed = 0;
    bool wait;
    KT__STEP(named_learner(job, false, name, &learner, err));
    KT__STEP(whole_field(job, "seed", 0, INT64_MAX, &seed, err));
    asked.seed = (uint64_t)seed;
    KT__STEP(flag_field(job, "deep", false, &asked.deep, err));
    KT__STEP(flag_field(job, "everywhere", false, &asked.everywhere, err));
    KT__STEP(flag_field(job, "instant", false, &asked.instant, err));
    KT__STEP(flag_field(job, "wait", true, &wait, err));
    if (wait) return wait_for_turn(job, learner, name, asked, err);
    KT__STEP(kt__trainer_queue(job->shared->trainer, job->model.served, name, asked, err));
    begin_reply(job, "training", name);
    (void)kt__buf_puts(&job->answer.out, ",\"queued\":true}");
    return KT_OK;
}

/* ---- what was said: deletion, and a list of it ---- */

static bool copy_text(kt__job *job, const char *text, const char **out) {
    *out = text ? kt__arena_strndup(&job->arena, text, strlen(text)) : NULL;
    return !text || *out;
}

kt_status kt__dialect_feedback_begin(kt__job *job, const kt__feedback_query *query, kt_error *err) {
    kt__feedback_query *q = kt__arena_calloc(&job->arena, 1, sizeof *q);
    job->extra = q;
    if (q && copy_text(job, query->id, &q->id) && copy_text(job, query->name, &q->name) &&
        copy_text(job, query->model, &q->model) && copy_text(job, query->before, &q->before) &&
        copy_text(job, query->limit, &q->limit) && copy_text(job, query->text, &q->text) &&
        copy_text(job, query->opens, &q->opens))
        return KT_OK;
    return kt__fail_nomem(err, "a request", 0);
}

static kt_status queried_learner(kt__job *job, const kt__feedback_query *q,
                                 char name[KT__NAMESPACE_BYTES], kt_learner **out, kt_error *err) {
    KT__STEP(
        kt__namespace_of(job->request.settings->config, job->request.client, q->name, name, err));
    KT__STEP(kt__job_use_model(job, q->model, err));
    return learner_of(job, name, false, out, err);
}

static kt_status run_forget(kt__job *job, kt_error *err) {
    const kt__feedback_query *q = job->extra;
    kt_learner *learner;
    char name[KT__NAMESPACE_BYTES];
    uint64_t id = 0;
    KT__STEP(check_learning(job, err));
    KT__STEP(read_feedback_id("id", q->id, &id, err));
    KT__STEP(queried_learner(job, q, name, &learner, err));
    kt_status status = kt_learner_forget(learner, id, err);
    if (status == KT_E_ARG) job->answer.error_status = 404;
    if (status != KT_OK) return blame_place(job, status, err);
    begin_reply(job, "feedback.deleted", name);
    kt__json_member(&job->answer.out, "id", q->id);
    (void)kt__buf_puts(&job->answer.out, ",\"deleted\":true}");
    return KT_OK;
}

enum { SAID_MOST = 1000, SAID_DEFAULT = 100, SAID_BYTES = 1 << 20 };

/* A list in the making. */
typedef struct said_list {
    kt__buf *out;
    size_t from; /* where it begins in out */
    int64_t n, most;
    bool more;
} said_list;

/* The ids of the interface are names. */
static bool write_said(void *user, const char *line, size_t len) {
    said_list *list = user;
    char id[32];
    if (list->n == list->most || list->out->len - list->from > SAID_BYTES) {
        list->more = true;
        return false;
    }
    json_t *item = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    snprintf(id, sizeof id, "fb_%" JSON_INTEGER_FORMAT,
             json_integer_value(json_object_get(item, "id")));
    bool named = item && json_object_set_new(item, "id", json_string(id)) == 0;
    char *text = named ? json_dumps(item, JSON_COMPACT) : NULL;
    json_decref(item);
    if (list->n++) (void)kt__buf_putc(list->out, ',');
    if (text)
        (void)kt__buf_puts(list->out, text);
    else
        list->out->failed = true;
    free(text);
    return !list->out->failed;
}

static kt_status read_limit(const char *text, int64_t *out, kt_error *err) {
    char *end = NULL;
    *out = text ? strtoll(text, &end, 10) : SAID_DEFAULT;
    if (!text || (end != text && !*end && *out >= 1 && *out <= SAID_MOST)) return KT_OK;
    return fail_field("limit", "a whole number, 1 to 1000", err);
}

/* {"object":"list","namespace":NAME,"data":[...],"has_more":false} */
static kt_status run_said(kt__job *job, kt_error *err) {
    const kt__feedback_query *q = job->extra;
    kt_learner *learner;
    char name[KT__NAMESPACE_BYTES];
    said_list list = {.out = &job->answer.out};
    kt_learner_query query = {.text = q->text, .opens = q->opens};
    KT__STEP(check_learning(job, err));
    KT__STEP(read_limit(q->limit, &list.most, err));
    if (q->before) KT__STEP(read_feedback_id("before", q->before, &query.before, err));
    KT__STEP(queried_learner(job, q, name, &learner, err));
    begin_reply(job, "list", name);
    (void)kt__buf_puts(list.out, ",\"data\":[");
    list.from = list.out->len;
    kt_status status = kt_learner_list(learner, &query, write_said, &list, err);
    if (status != KT_OK && !(status == KT_E_CANCELLED && list.more)) {
        kt__buf_clear(list.out);
        return blame_place(job, status, err);
    }
    (void)kt__buf_printf(list.out, "],\"has_more\":%s}", list.more ? "true" : "false");
    return KT_OK;
}

/* ---- the list of namespaces ---- */

/* Its own, those it named, and what all share. */
static bool may_see(const char *name, const char *client) {
    size_t len = strlen(client);
    return name[0] == '@' || (!strncmp(name, client, len) && (!name[len] || name[len] == '/'));
}

/* Of the training that runs. */
static void write_stage(kt__buf *out, const kt_learner_info *info) {
    static const char *const names[] = {[KT_TRAIN_NONE] = "none",
                                        [KT_TRAIN_WRITING] = "writing",
                                        [KT_TRAIN_STEPS] = "steps",
                                        [KT_TRAIN_JUDGING] = "judging"};
    if (info->stage == KT_TRAIN_NONE) return;
    (void)kt__buf_printf(out, ",\"training\":{\"stage\":\"%s\",\"done\":%d,\"total\":%d}",
                         names[info->stage], (int)info->stage_done, (int)info->stage_total);
}

static void write_learner(kt__buf *out, const char *name, const char *model,
                          const kt_learner_info *info) {
    (void)kt__buf_puts(out, "{\"namespace\":");
    kt__json_text(out, name);
    kt__json_member(out, "model", model);
    (void)kt__buf_printf(
        out,
        ",\"version\":%" PRId64 ",\"last_version\":%" PRId64 ",\"adapter\":%" PRId64
        ",\"quality_delta\":%.3f,\"feedback\":%" PRIu64 ",\"corrections\":%" PRIu64
        ",\"scores\":%" PRIu64 ",\"tokens\":%d,\"bytes\":%" PRIu64 ",\"pending\":%" PRIu64
        ",\"frozen\":%s,\"scoped\":%s",
        info->version, info->last_version, info->adapter, info->quality_delta, info->n_feedback,
        info->n_corrections, info->n_scores, (int)info->recall.n, info->bytes, info->n_pending,
        info->frozen ? "true" : "false", info->scoped ? "true" : "false");
    if (info->n_instant)
        (void)kt__buf_printf(out, ",\"instant\":{\"steps\":%d,\"ms\":%.3f,\"scoped\":%s}",
                             (int)info->n_instant, (double)info->instant_us / 1e3,
                             info->instant_scoped ? "true" : "false");
    write_stage(out, info);
    (void)kt__buf_putc(out, '}');
}

/* Of each model, whether what it was taught enters its prompts as notes, and what was measured. */
static void write_verdicts(kt__shared *shared, kt__buf *out) {
    bool any = false;
    (void)kt__buf_puts(out, ",\"notes\":[");
    for (size_t m = 0; m < kt__models_count(shared->models); m++) {
        kt__served *served = kt__models_at(shared->models, m);
        size_t from = out->len;
        (void)kt__buf_puts(out, any ? ",{\"model\":" : "{\"model\":");
        kt__json_text(out, kt__served_name(served));
        (void)kt__buf_putc(out, ',');
        if (kt__learner_table_write_verdict(kt__served_learners(served), out)) {
            (void)kt__buf_putc(out, '}');
            any = true;
        } else {
            out->len = from;
        }
    }
    (void)kt__buf_putc(out, ']');
}

void kt__dialect_write_learners(kt__shared *shared, const char *client, kt__buf *out) {
    kt_learner_info info;
    char name[KT__NAMESPACE_BYTES];
    bool any = false;
    if (!shared->kept) return;
    (void)kt__buf_puts(out, ",\"learned\":[");
    for (size_t m = 0; m < kt__models_count(shared->models); m++) {
        kt__served *served = kt__models_at(shared->models, m);
        kt__learner_table *table = kt__served_learners(served);
        for (size_t i = 0; kt__learner_table_at(table, i, name, sizeof name, &info, NULL); i++) {
            if (!may_see(name, client)) continue;
            if (any) (void)kt__buf_putc(out, ',');
            write_learner(out, name, kt__served_name(served), &info);
            any = true;
        }
    }
    (void)kt__buf_putc(out, ']');
    write_verdicts(shared, out);
}

/* ---- the socket ---- */

/* {"id":"...","done":true,"feedback":{...}} */
static kt_status wrap_line(kt__job *job, const char *what, kt_error *err) {
    char *whole = kt__arena_strndup(&job->arena, job->answer.out.data, job->answer.out.len);
    if (!whole) return kt__fail_nomem(err, "an answer", job->answer.out.len);
    kt__buf_clear(&job->answer.out);
    (void)kt__buf_puts(&job->answer.out, "{\"id\":");
    kt__json_text(&job->answer.out, job->request.name[0] ? job->request.name : job->id);
    (void)kt__buf_printf(&job->answer.out, ",\"done\":true,\"%s\":%s}\n", what, whole);
    return KT_OK;
}

static kt_status line_feedback(kt__job *job, kt_error *err) {
    kt_status status = run_feedback(job, err);
    return status == KT_OK ? wrap_line(job, "feedback", err) : status;
}

static kt_status finish_line_train(kt__job *job, kt_error *err) {
    return wrap_line(job, "training", err);
}

static kt_status line_train(kt__job *job, kt_error *err) {
    kt_status status = run_train(job, err);
    return status == KT_OK && kt__job_is_reading(job) ? finish_line_train(job, err) : status;
}

/* A line's members are what a path and its query say on HTTP. */
static kt_status query_of_line(kt__job *job, kt_error *err) {
    int64_t limit = SAID_DEFAULT;
    char digits[24];
    kt__feedback_query *q = kt__arena_calloc(&job->arena, 1, sizeof *q);
    if (!q) return kt__fail_nomem(err, "a request", sizeof *q);
    job->extra = q;
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(text_field(job, "feedback", &q->id, NULL, err));
    KT__STEP(text_field(job, "namespace", &q->name, NULL, err));
    KT__STEP(text_field(job, "model", &q->model, NULL, err));
    KT__STEP(text_field(job, "before", &q->before, NULL, err));
    KT__STEP(text_field(job, "q", &q->text, NULL, err));
    KT__STEP(text_field(job, "opens", &q->opens, NULL, err));
    KT__STEP(whole_field(job, "limit", 1, SAID_MOST, &limit, err));
    snprintf(digits, sizeof digits, "%" PRId64, limit);
    return copy_text(job, digits, &q->limit) ? KT_OK : kt__fail_nomem(err, "a request", 0);
}

static kt_status line_said(kt__job *job, kt_error *err) {
    KT__STEP(query_of_line(job, err));
    KT__STEP(run_said(job, err));
    return wrap_line(job, "said", err);
}

static kt_status line_forget(kt__job *job, kt_error *err) {
    KT__STEP(query_of_line(job, err));
    const kt__feedback_query *q = job->extra;
    if (!q->id) return fail_field("feedback", "the id of a feedback", err);
    KT__STEP(run_forget(job, err));
    return wrap_line(job, "forgotten", err);
}

static void line_error(kt__job *job, const kt_error *err) {
    kt__buf_clear(&job->answer.out);
    kt__dialect_native.error(job, err);
}

#define WAITING(name, path, call, write_error) \
    const kt__dialect name = {                 \
        .route = path,                         \
        .exact_names = true,                   \
        .error_body = kt__openai_error_body,   \
        .run = call,                           \
        .waits = true,                         \
        .error = write_error,                  \
    }

WAITING(kt__dialect_feedback, "/v1/feedback", run_feedback, kt__dialect_whole_error);
WAITING(kt__dialect_said, "/v1/feedback", run_said, kt__dialect_whole_error);
WAITING(kt__dialect_forget, "/v1/feedback/*", run_forget, kt__dialect_whole_error);
WAITING(kt__dialect_rollback, "/v1/adapters/rollback", run_rollback, kt__dialect_whole_error);
WAITING(kt__dialect_train, "/v1/adapters/train", run_train, kt__dialect_whole_error);
WAITING(kt__dialect_line_feedback, "socket", line_feedback, line_error);
WAITING(kt__dialect_line_said, "socket", line_said, line_error);
WAITING(kt__dialect_line_forget, "socket", line_forget, line_error);
const kt__dialect kt__dialect_line_train = {
    .route = "socket",
    .exact_names = true,
    .error_body = kt__openai_error_body,
    .run = line_train,
    .finish_run = finish_line_train,
    .waits = true,
    .error = line_error,
};
