/* A job's first half: reading the request and submitting its prompts, on the workers. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "jobs/job.h"

enum { MAX_TEXT_BYTES = 1 << 30 };

/* The first one is the answer's. The lock is held. */
static void note_error(kt__job *job, kt_status status, const kt_error *err) {
    if (job->answer.error.code != KT_OK) return;
    job->answer.error = *err;
    job->answer.error.code = status;
    /* of a deadline it is the predicted time: trying again does not help */
    if (status == KT_E_DEADLINE) job->answer.error.retry_ms = 0;
}

static kt__job_state state_after_worker(const kt__job *job, bool crowded) {
    if (job->state == KT__JOB_FAILING) return KT__JOB_FAILED;
    if (job->state != KT__JOB_SUBMITTING) return KT__JOB_READ;
    return crowded ? KT__JOB_CROWDED : KT__JOB_ANSWERING;
}

/* A full queue is no error once prompts of this request were taken: the next ones wait until one of
 * them ends, or for kt__job_retry. */
void kt__job_hand_back(kt__job *job, kt_status status, kt_error *err) {
    if (status != KT_OK) kt__wire_rename_error(job->request.names, err);
    pthread_mutex_lock(&job->lock);
    bool crowded = status == KT_E_BUSY && job->answer.n_submitted > 0;
    if (status != KT_OK && !crowded) note_error(job, status, err);
    kt__job_move(job, state_after_worker(job, crowded));
    pthread_mutex_unlock(&job->lock);
    kt__job_post(job);
}

/* The same random numbers can be had again: several prompts share the seed that is reported. */
static void fix_seed(kt_sampling *sampling) {
    uint64_t seed = 0;
    if (sampling->seed != KT_SEED_RANDOM) return;
    (void)kt__random_bytes(&seed, sizeof seed);
    sampling->seed = seed >> 11; /* whole in every language's numbers */
}

static kt_status make_choices(kt__job *job, kt_error *err) {
    size_t n = job->request.wire->n_prompts * (size_t)job->request.wire->req.n_choices;
    if (job->answer.choices || !n) return KT_OK;
    job->answer.choices = kt__calloc(n, sizeof *job->answer.choices);
    if (!job->answer.choices)
        return kt__fail_nomem(err, "a request", n * sizeof *job->answer.choices);
    for (size_t i = 0; i < n; i++)
        kt__wire_blocks_init(&job->answer.choices[i].said, MAX_TEXT_BYTES);
    job->answer.n_choices = (int32_t)n;
    if (job->request.wire->n_prompts > 1) fix_seed(&job->request.wire->req.gen.sampling);
    return KT_OK;
}

static void on_events_ready(void *user) {
    kt__job_post(user);
}

/* The engine knows the limit of the start; one that was lowered since holds here. */
static kt_status check_queue(kt__job *job, kt_error *err) {
    int64_t most = kt__shared_limits(job->shared).queue;
    kt_engine_stats st;
    if (most >= job->shared->start->queue) return KT_OK;
    kt_engine_get_stats(job->model.engine, &st);
    if (st.waiting < most) return KT_OK;
    (void)kt__fail(err, KT_E_BUSY, "%d requests are waiting already: try again in about %.1f s",
                   (int)st.waiting, (double)st.predicted_wait_ms / 1e3 + 0.1);
    err->retry_ms = st.predicted_wait_ms + 100;
    return KT_E_BUSY;
}

/* A completion of nothing begins with the model's first token, as OpenAI's does. */
static void begin_with_first_token(const kt__job *job, kt_request_params *r, int32_t *id) {
    kt_model_info info;
    if (job->request.wire->form != KT__WIRE_TEXT || !r->prompt.text || r->prompt.text_len) return;
    kt_model_get_info(job->model.loaded, &info);
    *id = info.bos_id >= 0 ? info.bos_id : info.eos_id;
    if (*id < 0) return; /* there is none: refused as empty */
    r->prompt.text = NULL;
    r->prompt.ids = id;
    r->prompt.n_ids = 1;
}

/* What the reading left aside, then what the engine says; NULL: nothing. */
static const char *join_notes(kt__wire_request *wire, const char *of_engine) {
    if (!wire->notes || !*of_engine)
        return *of_engine ? kt__arena_strndup(&wire->arena, of_engine, strlen(of_engine))
                          : wire->notes;
    size_t size = strlen(wire->notes) + strlen(of_engine) + 2;
    char *both = kt__arena_calloc(&wire->arena, size, 1);
    if (both) snprintf(both, size, "%s\n%s", wire->notes, of_engine);
    return both;
}

static kt_status submit_prompt(kt__job *job, kt__job_part *part, kt_error *err) {
    kt_request_params r = job->request.wire->req;
    kt_request *req;
    int32_t first;
    r.service.client = job->request.share;
    r.service.cache_scope = job->request.client;
    r.events.on_event = NULL;
    r.events.on_ready = on_events_ready;
    r.events.user = job;
    kt__wire_set_prompt(job->request.wire, job->answer.n_submitted, &r);
    begin_with_first_token(job, &r, &first);
    kt_status status = check_queue(job, err);
    if (status != KT_OK) return status;
    status = kt_engine_submit(job->model.engine, &r, &req, err);
    if (status != KT_OK) kt__wire_place_error(job->request.wire, err);
    if (status != KT_OK) return status;
    const char *notes = kt_request_notes(req);
    pthread_mutex_lock(&job->lock);
    if (!job->answer.n_submitted) job->answer.notes = join_notes(job->request.wire, notes);
    *part = (kt__job_part){.req = req, .base = (int32_t)job->answer.n_submitted * r.n_choices};
    job->answer.n_submitted++;
    kt__job_tell_notes(job, req);
    if (job->interest > KT__JOB_WANTED) kt_request_cancel(req);
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

/* A free place for the next prompt; NULL: all are in use, there is none, or it is not wanted. */
static kt__job_part *next_part(kt__job *job) {
    kt__job_part *found = NULL;
    pthread_mutex_lock(&job->lock);
    bool wanted = job->interest == KT__JOB_WANTED &&
                  job->answer.n_submitted < job->request.wire->n_prompts;
    for (int i = 0; i < KT__JOB_AT_ONCE && wanted && !found; i++) {
        if (!job->answer.parts[i].req) found = &job->answer.parts[i];
    }
    pthread_mutex_unlock(&job->lock);
    return found;
}

static kt_status submit_prompts(kt__job *job, kt_error *err) {
    kt__job_part *part;
    kt_status status = make_choices(job, err);
    while (status == KT_OK && (part = next_part(job)) != NULL)
        status = submit_prompt(job, part, err);
    return status;
}

/* Its client left while it waited for a worker. */
static bool nobody_reads(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    bool left = job->interest == KT__JOB_ABANDONED;
    pthread_mutex_unlock(&job->lock);
    return left;
}

bool kt__job_is_reading(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    bool reading = job->state == KT__JOB_READING;
    pthread_mutex_unlock(&job->lock);
    return reading;
}

/* ---- requests that are routed ---- */

static kt_status parse_body(kt__job *job, kt_error *err) {
    if (job->request.json) return KT_OK;
    kt_status status = kt__wire_parse(job->request.body.data ? job->request.body.data : "",
                                      job->request.body.len, &job->request.json, err);
    kt__buf_free(&job->request.body);
    if (status == KT_OK && !json_is_object(job->request.json))
        return kt__fail(err, KT_E_ARG, "expected a JSON object");
    return status;
}

static kt_status check_wanted(kt__job *job, kt_error *err) {
    if (atomic_load(&job->shared->stopping) && !job->request.wire)
        return kt__fail(err, KT_E_STATE, "the server is being stopped");
    return nobody_reads(job) ? kt__fail(err, KT_E_CANCELLED, "cancelled") : KT_OK;
}

static kt_status hand_over(kt__job *job, kt__workers *to, void (*run)(kt__work_item *item),
                           kt_error *err) {
    job->item.run = run;
    if (kt__workers_add(to, &job->item)) return KT_OK;
    kt_status status = kt__fail(err, KT_E_BUSY, "too many requests are waiting to be read");
    err->retry_ms = 1000;
    return status;
}

static kt_status route_and_return(kt__job *job, kt_error *err) {
    KT__STEP(check_wanted(job, err));
    KT__STEP(kt__job_parse(job, err));
    return hand_over(job, job->shared->workers, kt__job_read_and_submit, err);
}

/* On the thread of those that wait for a computation; then a worker reads it. */
static void route_in_turn(kt__work_item *item) {
    kt__job *job = KT__JOB_OF(item, item);
    kt_error err = {0};
    kt_status status = route_and_return(job, &err);
    if (status == KT_OK) return;
    kt__job_hand_back(job, status, &err);
    kt__job_release(job);
}

/* Of one that is still wanted. *gone: it waits for the encoder elsewhere, so that the few workers read others meanwhile. */
static kt_status route_aside(kt__job *job, bool *gone, kt_error *err) {
    const kt__buf *body = &job->request.body;
    *gone = false;
    KT__STEP(check_wanted(job, err));
    if (!job->shared->routes || job->dialect->run || job->request.wire) return KT_OK;
    bool names = body->len &&
                 memmem(body->data, body->len, KT__ROUTES_AUTO, strlen(KT__ROUTES_AUTO));
    if (!job->request.json && !names) return KT_OK;
    KT__STEP(parse_body(job, err));
    if (!kt__job_asks_route(job)) return KT_OK;
    KT__STEP(hand_over(job, job->shared->waiters, route_in_turn, err));
    *gone = true;
    return KT_OK;
}

void kt__job_read_and_submit(kt__work_item *item) {
    kt__job *job = KT__JOB_OF(item, item);
    kt_error err = {0};
    bool gone = false;
    kt_status status = route_aside(job, &gone, &err);
    if (gone) return;
    if (status == KT_OK && job->dialect->run) {
        status = job->dialect->run(job, &err);
        if (status == KT_OK && !kt__job_is_reading(job)) { /* another thread hands it back */
            kt__job_release(job);
            return;
        }
    } else if (status == KT_OK) {
        status = job->request.wire ? KT_OK : job->dialect->read(job, &err);
        kt__buf_free(&job->request.body);
        if (status == KT_OK && job->request.wire) status = submit_prompts(job, &err);
    }
    kt__job_hand_back(job, status, &err);
    kt__job_release(job);
}

/* The fault of the server, whatever the code, and its paths are its own; the log has them. */
static kt_status fail_load(kt__job *job, kt_status status, kt_error *err) {
    const char *name = kt__served_name(job->model.served);
    job->answer.error_status = status == KT_E_NOMEM || status == KT_E_BUSY ? 503 : 500;
    if (status == KT_E_NOMEM || status == KT_E_BUSY) return status;
    return kt__fail(err, status, "the model \"%.80s\" cannot be loaded: %s", name,
                    kt_status_message(status));
}

static kt_status find_model(const kt__job *job, const char *name, kt__served **out, kt_error *err) {
    return job->dialect->exact_names ? kt__models_find(job->shared->models, name, out, err)
                                     : kt__models_find_for(job->shared->models, name, out, err);
}

kt_status kt__job_use_model(kt__job *job, const char *name, kt_error *err) {
    if (job->model.engine) return KT_OK;
    kt_status status = find_model(job, name, &job->model.served, err);
    if (status != KT_OK) {
        job->answer.error_status = 404;
        return status;
    }
    kt_model *model;
    kt_engine *engine;
    status = kt__served_use(job->model.served, job->request.share, &model, &engine, err);
    if (status != KT_OK) return fail_load(job, status, err);
    pthread_mutex_lock(&job->lock);
    job->model.loaded = model;
    job->model.engine = engine;
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

/* An adapter's file is the server's, and its path no client's. */
static kt_status fail_adapter(kt__job *job, kt_status status, kt_error *err) {
    if (status == KT_E_ARG || status == KT_E_LIMIT || status == KT_E_NOMEM) return status;
    kt__slog_line(&job->shared->log, KT_LOG_ERROR, "cannot load an adapter: %s (%s)", err->message,
                  err->where);
    job->answer.error_status = 500;
    return kt__fail(err, status, "an adapter of the model \"%.80s\" cannot be loaded: %s",
                    kt__served_name(job->model.served), kt_status_message(status));
}

kt_status kt__job_use_adapters(kt__job *job, kt_error *err) {
    kt__adapter_named own[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
    const kt__config *config = job->request.settings->config;
    const kt__wire_request *wire = job->request.wire;
    const kt__adapter_named *named = wire->adapters;
    size_t n = wire->n_adapters;
    bool learned;
    kt_status status = kt__job_use_learned(job, &learned, err);
    if (status != KT_OK || learned) return status;
    const kt__config *made = kt__served_made(job->model.served);
    if (!wire->adapters_given && made) config = made;
    if (!wire->adapters_given &&
        (made || job->model.served == kt__models_at(job->shared->models, 0))) {
        n = made ? kt__adapters_default(config, own, names)
                 : kt__lora_scales_get(job->shared->lora_scales, config, own, names);
        named = own;
    }
    if (n == 0) return KT_OK;
    status = kt__served_adapters(job->model.served, job->model.engine, config, named, n,
                                 job->model.adapters, err);
    if (named == own) atomic_store(&job->shared->adapter_fails, status != KT_OK);
    if (status != KT_OK) return fail_adapter(job, status, err);
    pthread_mutex_lock(&job->lock);
    job->model.n_adapters = n;
    job->request.wire->req.adapters = job->model.adapters;
    job->request.wire->req.n_adapters = n;
    pthread_mutex_unlock(&job->lock);
    return KT_OK;
}

/* The configuration's limits on what a request may ask for. */
static kt_status apply_limits(kt__job *job, kt_error *err) {
    const kt__config *config = job->request.settings->config;
    kt_request_params *r = &job->request.wire->req;
    int32_t most = (int32_t)config->max_new_tokens;
    const char *name_of_n = job->request.wire->n_best ? "best_of" : "n";
    if (r->n_choices > config->max_choices)
        return kt__fail_at(err, KT_E_ARG, name_of_n, UINT64_MAX, "%s: at most %lld here", name_of_n,
                           (long long)config->max_choices);
    size_t n_prompts = job->request.wire->n_prompts, n_answers = n_prompts * (size_t)r->n_choices;
    if (n_prompts > 1 && r->n_choices > 1 && n_answers > (size_t)config->queue)
        return kt__fail_at(err, KT_E_LIMIT, name_of_n, UINT64_MAX,
                           "%s: %zu prompts with %d answers each are %zu, more than the %lld of "
                           "limits.queue: send fewer at once",
                           name_of_n, n_prompts, (int)r->n_choices, n_answers,
                           (long long)config->queue);
    if (r->service.priority > config->max_priority)
        r->service.priority = (int32_t)config->max_priority;
    if (most >= 0 && (r->gen.n_predict < 0 || r->gen.n_predict > most)) r->gen.n_predict = most;
    return KT_OK;
}

/* Forbidding every token leaves nothing to answer with; it is found before anything is computed. */
static kt_status check_bias(const kt__job *job, kt_error *err) {
    const kt_sampling *s = &job->request.wire->req.gen.sampling;
    kt_model_info info;
    kt_model_get_info(job->model.loaded, &info);
    size_t n_vocab = (size_t)info.n_vocab, n_forbidden = 0;
    if (s->n_logit_bias < n_vocab) return KT_OK;
    unsigned char *forbidden = kt__calloc(n_vocab, 1);
    if (!forbidden) return kt__fail_nomem(err, "logit_bias", n_vocab);
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        size_t id = (size_t)s->logit_bias[i].id;
        if (s->logit_bias[i].id < 0 || id >= n_vocab || forbidden[id]) continue;
        if (!(isinf(s->logit_bias[i].bias) && s->logit_bias[i].bias < 0)) continue;
        forbidden[id] = 1;
        n_forbidden++;
    }
    kt__free(forbidden);
    if (n_forbidden < n_vocab) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "logit_bias", UINT64_MAX,
                       "logit_bias: it forbids every token");
}

/* Routed once: the model is another one afterwards. */
kt_status kt__job_parse(kt__job *job, kt_error *err) {
    KT__STEP(parse_body(job, err));
    return kt__job_asks_route(job) ? kt__job_route(job, err) : KT_OK;
}

/* ---- what a created model says where the request does not ---- */

static bool is_system(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && (!strcmp(role, "system") || !strcmp(role, "developer"));
}

/* Its own messages come after the system message, which is the request's if that has one. */
static bool begin_conversation(json_t *messages, const json_t *words, bool has_system) {
    json_t *text = json_object_get(words, "system"), *own = json_object_get(words, "messages");
    bool theirs = is_system(json_array_get(messages, 0));
    size_t at = theirs ? 1 : 0;
    bool whole = true;
    if (text && !theirs && !has_system) {
        whole = json_array_insert_new(
                    messages, 0, json_pack("{s:s,s:O}", "role", "system", "content", text)) == 0;
        at = 1;
    }
    for (size_t i = 0; i < json_array_size(own) && whole; i++)
        whole = json_array_insert(messages, at + i, json_array_get(own, i)) == 0;
    return whole;
}

static bool add_words(json_t *body, const json_t *words) {
    json_t *messages = json_object_get(body, "messages"), *stop = json_object_get(words, "stop");
    const json_t *system = json_object_get(body, "system"), *given = json_object_get(body, "stop");
    bool has_system = json_is_array(system) ? json_array_size(system) > 0
                                            : json_string_length(system) > 0;
    bool several = json_is_array(json_array_get(messages, 0)), whole = true;
    if (json_array_size(stop) && (!given || json_is_null(given)))
        whole = json_object_set(body, "stop", stop) == 0;
    if (!several && json_array_size(messages))
        return whole && begin_conversation(messages, words, has_system);
    for (size_t i = 0; several && whole && i < json_array_size(messages); i++)
        whole = begin_conversation(json_array_get(messages, i), words, has_system);
    return whole;
}

/* The model that the request names; NULL: a name of none is refused when the model is used. */
static kt__served *named_model(const kt__job *job) {
    const char *name = json_string_value(json_object_get(job->request.json, "model"));
    kt__served *served;
    kt_error ignored;
    return find_model(job, name, &served, &ignored) == KT_OK ? served : NULL;
}

/* served: or NULL. defaults: what holds for the numbers that the request leaves out. */
static kt_status apply_made(kt__job *job, kt__served *served, kt_request_params *defaults,
                            kt_error *err) {
    if (!served || !kt__served_request(served, defaults)) return KT_OK;
    char *text = kt__served_words(served);
    json_t *words = text ? json_loads(text, 0, NULL) : NULL;
    bool whole = words && add_words(job->request.json, words);
    json_decref(words);
    kt__free(text);
    return whole ? KT_OK : kt__fail_nomem(err, "a request", 0);
}

/* ---- what the configuration says where the request does not ---- */

/* The members that say what form an answer has. */
static const char *const form_names[] = {"response_format", "json_schema",  "grammar",
                                         "regex",           "choice",       "structured_outputs",
                                         "guided_json",     "guided_regex", "guided_grammar",
                                         "guided_choice",   "tools",        "functions"};

static bool is_form(const char *name) {
    for (size_t i = 0; i < sizeof form_names / sizeof *form_names; i++)
        if (!strcmp(name, form_names[i])) return true;
    return false;
}

static bool has_form(const json_t *body) {
    for (size_t i = 0; i < sizeof form_names / sizeof *form_names; i++) {
        const json_t *v = json_object_get(body, form_names[i]);
        bool empty = !v || json_is_null(v) || (json_is_array(v) && !json_array_size(v));
        if (!empty) return true;
    }
    return false;
}

/* request_defaults: members that are not there, or null. */
static kt_status add_defaults(kt__job *job, const char *text, kt_error *err) {
    json_t *defaults = text ? json_loads(text, 0, NULL) : NULL, *v;
    json_t *body = job->request.json;
    bool formed = defaults && has_form(body), whole = true;
    const char *key;
    json_object_foreach(defaults, key, v) {
        bool skip = kt__wire_has_field(body, key) || (formed && is_form(key));
        if (!skip) whole = json_object_set(body, key, v) == 0 && whole;
    }
    json_decref(defaults);
    return whole ? KT_OK : kt__fail_nomem(err, "a request", 0);
}

/* llama-server's "lora", adapters by number, as "adapter", which has them by name. */
static kt_status name_loras(kt__job *job, kt_error *err) {
    kt__adapter_named named[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
    json_t *body = job->request.json, *list = json_object_get(body, "lora"), *to;
    size_t n;
    if (!list || json_is_null(list) || (json_is_array(list) && !json_array_size(list)))
        return KT_OK;
    KT__STEP(kt__lora_read(job->request.settings->config, list, "lora", named, names, &n, err));
    to = n ? json_array() : json_string("none");
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            to, json_pack("{s:s,s:f}", "name", named[i].name, "scale", (double)named[i].scale));
    json_object_del(body, "lora");
    return json_object_set_new(body, "adapter", to) == 0 ? KT_OK
                                                         : kt__fail_nomem(err, "a request", 0);
}

/* The wire request's own; the model is not needed yet. */
static kt_status read_fields(kt__job *job, kt__wire_form form, kt_error *err) {
    kt_request_params defaults = kt__config_request(job->request.settings->config);
    KT__STEP(kt__job_parse(job, err));
    kt__served *served = named_model(job);
    KT__STEP(apply_made(job, served, &defaults, err));
    const kt__config *config = job->request.settings->config;
    KT__STEP(add_defaults(job, config->request_defaults, err));
    KT__STEP(name_loras(job, err));
    const kt__wire_eyes eyes = {.sees = served && kt__served_sees(served),
                                .folder = config->pictures_folder,
                                .fetch = config->pictures_fetch,
                                .private_net = config->pictures_private};
    KT__STEP(kt__wire_read_value(form, job->request.json, NULL, &defaults, &eyes,
                                 &job->request.wire, err));
    return apply_limits(job, err);
}

kt_status kt__job_read_wire(kt__job *job, kt__wire_form form, kt_error *err) {
    KT__STEP(read_fields(job, form, err));
    json_decref(job->request.json);
    job->request.json = NULL;
    pthread_mutex_lock(&job->lock);
    job->answer.stream = job->request.wire->stream;
    pthread_mutex_unlock(&job->lock);
    if (job->request.wire->id && !job->request.name[0])
        snprintf(job->request.name, sizeof job->request.name, "%s", job->request.wire->id);
    KT__STEP(kt__job_use_model(job, job->request.wire->model, err));
    KT__STEP(kt__job_use_adapters(job, err));
    return check_bias(job, err);
}
