/* A job and what its client has taught: the version that its answer is made with, and the answer itself,
 * kept for feedback. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "jobs/job.h"

/* The one text that "adapter" is, where that is no adapter of the configuration; else NULL. */
static const char *named_namespace(const kt__job *job) {
    const kt__wire_request *w = job->request.wire;
    const kt__config *config = job->request.settings->config;
    kt__adapter_entry entry;
    if (w->n_adapters != 1 || w->adapters[0].scale != 1.0f) return NULL;
    for (size_t i = 0; i < config->adapters.n; i++) {
        if (kt__adapter_entry_read(config, i, &entry) && !strcmp(entry.name, w->adapters[0].name))
            return NULL;
    }
    return w->adapters[0].name;
}

/* For the answer; nothing, where the model answers alone. The lock is held. */
static void tell_learned(kt__job *job) {
    kt__buf json;
    job->model.learned_version = job->model.learned.version;
    if (!job->model.learned.version) return;
    kt__buf_init(&json, sizeof job->model.learned_json - 1);
    (void)kt__buf_puts(&json, ",\"adapter\":{\"namespace\":");
    kt__json_text(&json, job->model.taught_by);
    (void)kt__buf_printf(&json, ",\"version\":%" PRId64 "}", job->model.learned.version);
    for (size_t i = 0; i < job->model.n_noted; i++)
        (void)kt__buf_printf(&json, "%s\"fb_%" PRIu64 "\"", i ? "," : ",\"learned\":[",
                             job->model.noted[i]);
    if (job->model.n_noted) (void)kt__buf_putc(&json, ']');
    if (!json.failed)
        snprintf(job->model.learned_json, sizeof job->model.learned_json, "%s", json.data);
    kt__buf_free(&json);
}

static void note_once(kt__job *job, uint64_t id) {
    for (size_t i = 0; i < job->model.n_noted; i++)
        if (job->model.noted[i] == id) return;
    if (job->model.n_noted < KT_NOTES_MAX) job->model.noted[job->model.n_noted++] = id;
}

void kt__job_tell_notes(kt__job *job, const kt_request *req) {
    uint64_t ids[KT_NOTES_MAX];
    size_t n = kt_request_learned(req, ids, KT_NOTES_MAX);
    if (n == 0) return;
    kt__learner_table_count_notes(kt__served_learners(job->model.served), n);
    for (size_t i = 0; i < n; i++) note_once(job, ids[i]);
    tell_learned(job);
}

void kt__job_tell_recited(kt__job *job, const kt_request_report *report) {
    size_t before = job->model.n_noted;
    for (int32_t i = 0; i < report->n_learned; i++) note_once(job, report->learned[i]);
    if (job->model.n_noted > before) tell_learned(job);
}

/* What becomes of corrections in this job's prompts. A model that judges does so of single questions whose answers
 * are free: what is recited has no form, and calls nothing. */
static kt__notes_mode notes_mode(kt__job *job, bool *judges) {
    const kt__wire_request *w = job->request.wire;
    kt__notes_mode mode = kt__learner_table_notes(
        kt__served_learners(job->model.served), job->request.settings->config,
        kt__served_name(job->model.served), job->model.loaded, &job->shared->log);
    bool fits = w->n_prompts == 1 && !w->req.constraint.n_forms && !w->req.calls.tools;
    *judges = mode == KT__NOTES_RECITED;
    return *judges && !fits ? KT__NOTES_IN : mode;
}

/* The correction that the prompt asks for, if there is one, is its answer. Waits for the model. */
static kt_status judge_question(kt__job *job, kt_error *err) {
    kt_request_params r = job->request.wire->req;
    uint64_t id;
    r.service.client = job->request.share;
    r.service.cache_scope = job->request.client;
    kt__wire_set_prompt(job->request.wire, 0, &r);
    KT__STEP(kt_notes_judge(job->model.engine, &r, &id, err));
    pthread_mutex_lock(&job->lock);
    job->request.wire->req.corrections.recited = id;
    job->request.wire->req.corrections.note_tokens = -1;
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

static kt_status use_version(kt__job *job, const char *name, bool wanted, int64_t version,
                             kt_error *err) {
    kt_learner *learner;
    kt_learned learned = {0};
    kt_status status = kt__served_learner(job->model.served, job->request.settings->config, name,
                                          false, &learner, err);
    if (status != KT_OK && !wanted) {
        kt__slog_line(&job->shared->log, KT_LOG_WARN, "answered without what was learned: %s",
                      err->message);
        return KT_OK;
    }
    if (status == KT_E_FORMAT || status == KT_E_BUSY)
        job->answer.error_status = status == KT_E_BUSY ? 503 : 500;
    if (status != KT_OK) return status;
    if (!learner && wanted)
        return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX,
                           "adapter: nothing was learned under \"%.80s\"", name);
    if (learner) status = kt_learner_get(learner, version, &learned, err);
    kt__served_learner_done(job->model.served, learner);
    if (status != KT_OK) return status;
    bool judges = false;
    kt__notes_mode mode = learned.bank ? notes_mode(job, &judges) : KT__NOTES_OUT;
    pthread_mutex_lock(&job->lock);
    job->model.learned = learned;
    job->request.wire->req.corrections.bank = learned.bank;
    job->request.wire->req.corrections.note_tokens = mode == KT__NOTES_OUT ? -1 : 0;
    job->request.wire->req.corrections.doubtful = judges;
    snprintf(job->model.taught_by, sizeof job->model.taught_by, "%s", name);
    tell_learned(job);
    job->request.wire->req.corrections.recall = learned.recall;
    size_t n = kt_learned_adapters(&learned, &job->request.wire->req, job->model.adapters);
    for (size_t i = 0; i < n; i++) kt_adapter_hold(job->model.adapters[i].adapter);
    job->model.n_adapters = n;
    if (n) job->request.wire->req.adapters = job->model.adapters;
    if (n) job->request.wire->req.n_adapters = n;
    pthread_mutex_unlock(&job->lock);
    return mode == KT__NOTES_RECITED ? judge_question(job, err) : KT_OK;
}

/* "Learning: 12 corrections, version 3, quality +0.041." */
static void status_line(kt_learner *learner, char *out, size_t size) {
    kt_learner_info i = {0};
    if (learner) kt_learner_get_info(learner, &i);
    if (!i.version)
        snprintf(out, size, "Learning: %" PRIu64 " corrections, nothing published.",
                 i.n_corrections);
    else
        snprintf(out, size,
                 "Learning: %" PRIu64 " corrections, version %" PRId64 ", quality %+.3f.",
                 i.n_corrections, i.version, i.quality_delta);
}

/* The system message with a line more, or one of that line. Conversations with more than texts stay as
 * they are. */
static kt_status add_to_system(kt__wire_request *w, const char *line, kt_error *err) {
    kt_request_params *r = &w->req;
    bool has = r->prompt.n_messages > 0 && !strcmp(r->prompt.messages[0].role, "system");
    const char *before = has && r->prompt.messages[0].content ? r->prompt.messages[0].content : "";
    size_t len = strlen(before) + strlen(line) + 2, from = has ? 1 : 0;
    if (r->prompt.n_messages == 0) return KT_OK;
    kt_message *m = kt__arena_calloc(&w->arena, r->prompt.n_messages + 1, sizeof *m);
    char *text = kt__arena_calloc(&w->arena, len, 1);
    if (!m || !text) return kt__fail_nomem(err, "a system message", len);
    snprintf(text, len, "%s%s%s", before, *before ? "\n" : "", line);
    m[0] = (kt_message){"system", text};
    memcpy(m + 1, r->prompt.messages + from, (r->prompt.n_messages - from) * sizeof *m);
    r->prompt.messages = m;
    r->prompt.n_messages = r->prompt.n_messages - from + 1;
    return KT_OK;
}

/* Where the settings ask for it, the model can say what it has learned. */
static kt_status tell_model(kt__job *job, const char *name, kt_error *err) {
    char line[128];
    kt_learner *learner;
    if (!job->request.settings->config->learn_status) return KT_OK;
    kt_status status = kt__served_learner(job->model.served, job->request.settings->config, name,
                                          false, &learner, err);
    if (status != KT_OK) learner = NULL;
    status_line(learner, line, sizeof line);
    kt__served_learner_done(job->model.served, learner);
    return add_to_system(job->request.wire, line, err);
}

static kt_status refuse_version(const kt__job *job, kt_error *err) {
    if (!job->request.wire->version_given) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX,
                       "adapter: expected a name or an object with one, got a number: learning is "
                       "off here");
}

/* What nothing was learned for stays as it is without learning, the configuration's adapters
 * included. */
kt_status kt__job_use_learned(kt__job *job, bool *named, kt_error *err) {
    const kt__wire_request *w = job->request.wire;
    const kt__config *config = job->request.settings->config;
    char name[KT__NAMESPACE_BYTES];
    const char *given = named_namespace(job);
    bool numbered = w->version_given;
    *named = false;
    if (!job->shared->kept) return refuse_version(job, err);
    if (w->req.embedding.pooling != KT_POOLING_NONE) return refuse_version(job, err);
    job->request.wire->req.corrections.keep = true;
    kt_status status = kt__namespace_of(config, job->request.client, NULL, name, err);
    if (status != KT_OK) return status;
    snprintf(job->model.taught_by, sizeof job->model.taught_by, "%s", name);
    if (w->adapters_given && !numbered && !given) return KT_OK; /* "none", or the configuration's */
    if (given && !kt__namespace_is_name(given))
        return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX,
                           "adapter: \"%.80s\" is neither an adapter here nor a namespace (1 to 48 "
                           "letters, digits, '.', '-' and '_')",
                           given);
    if (given) status = kt__namespace_of(config, job->request.client, given, name, err);
    if (status != KT_OK) return status;
    status = use_version(job, name, given || numbered,
                         numbered ? w->learned_version : KT_VERSION_SERVED, err);
    if (status != KT_OK) return status;
    status = tell_model(job, name, err);
    *named = status == KT_OK && (given || numbered || job->model.n_adapters > 0);
    return status;
}

/* base: the number of the request's first choice among the job's. */
void kt__job_keep(kt__job *job, const kt_request *req, int32_t choice, int32_t base) {
    kt__kept_answer answer = {.model = kt__served_name(job->model.served), .choice = base + choice};
    kt_model_info info;
    if (!kt_request_get_kept(req, choice, &answer.kept)) return;
    kt_model_get_info(job->model.loaded, &info);
    snprintf(answer.id, sizeof answer.id, "%s", job->id);
    snprintf(answer.name, sizeof answer.name, "%s", job->request.name);
    snprintf(answer.client, sizeof answer.client, "%s", job->request.client);
    snprintf(answer.taught_by, sizeof answer.taught_by, "%s", job->model.taught_by);
    snprintf(answer.route, sizeof answer.route, "%s", job->model.route);
    kt__kept_answers_add(job->shared->kept, &answer, (size_t)info.d_model,
                         job->request.settings->config->learn_keep_s);
}
