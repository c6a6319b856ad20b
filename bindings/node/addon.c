/* The addon below index.mjs: kentang.h's requests for node, over N-API.
 *
 * An engine is driven by its own thread. A request's events wait in the engine until node takes them
 * one by one with next(), so that a reader that is slow holds its own answer up and nothing else;
 * on_ready wakes node's loop. All functions here run on node's thread and never wait for a
 * computation. */
#define NAPI_VERSION 6
#include <kentang.h>
#include <node_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

static napi_value text_value(napi_env env, const char *text, size_t len) {
    napi_value value = NULL;
    napi_create_string_utf8(env, text ? text : "", text ? len : 0, &value);
    return value;
}

/* An Error with code, where and retryMs. */
static napi_value error_value(napi_env env, kt_status status, const kt_error *err) {
    napi_value error = NULL, retry;
    napi_create_error(env, text_value(env, kt_status_name(status), NAPI_AUTO_LENGTH),
                      text_value(env, err->message, NAPI_AUTO_LENGTH), &error);
    napi_set_named_property(env, error, "where", text_value(env, err->where, NAPI_AUTO_LENGTH));
    napi_create_int64(env, err->retry_ms, &retry);
    napi_set_named_property(env, error, "retryMs", retry);
    return error;
}

static napi_value throw_status(napi_env env, kt_status status, const kt_error *err) {
    napi_throw(env, error_value(env, status, err));
    return NULL;
}

static napi_value throw_type(napi_env env, const char *message) {
    napi_throw_type_error(env, NULL, message);
    return NULL;
}

/* ---- options: members of the parameter structures by their names ---- */

typedef enum option_type { OPT_I32, OPT_F32, OPT_U64, OPT_I64, OPT_BOOL } option_type;
typedef struct option {
    const char *name;
    option_type type;
    size_t offset;
} option;

#define SAMPLING(name, type) \
    { #name, type, offsetof(kt_request_params, gen.sampling.name) }
#define GEN(name, type) \
    { #name, type, offsetof(kt_request_params, gen.name) }
#define SERVICE(name, type) \
    { #name, type, offsetof(kt_request_params, service.name) }
#define REQUEST(name, member, type) \
    { #name, type, offsetof(kt_request_params, member) }
#define ENGINE(name, type) \
    { #name, type, offsetof(kt_engine_params, name) }

static const option request_options[] = {SAMPLING(seed, OPT_U64),
                                         SAMPLING(temperature, OPT_F32),
                                         SAMPLING(dynatemp_range, OPT_F32),
                                         SAMPLING(dynatemp_exponent, OPT_F32),
                                         SAMPLING(top_k, OPT_I32),
                                         SAMPLING(top_p, OPT_F32),
                                         SAMPLING(min_p, OPT_F32),
                                         SAMPLING(typical_p, OPT_F32),
                                         SAMPLING(top_n_sigma, OPT_F32),
                                         SAMPLING(xtc_probability, OPT_F32),
                                         SAMPLING(xtc_threshold, OPT_F32),
                                         SAMPLING(repeat_last_n, OPT_I32),
                                         SAMPLING(repeat_penalty, OPT_F32),
                                         SAMPLING(frequency_penalty, OPT_F32),
                                         SAMPLING(presence_penalty, OPT_F32),
                                         SAMPLING(dry_multiplier, OPT_F32),
                                         SAMPLING(dry_base, OPT_F32),
                                         SAMPLING(dry_allowed_length, OPT_I32),
                                         SAMPLING(dry_penalty_last_n, OPT_I32),
                                         SAMPLING(mirostat, OPT_I32),
                                         SAMPLING(mirostat_tau, OPT_F32),
                                         SAMPLING(mirostat_eta, OPT_F32),
                                         SAMPLING(min_keep, OPT_I32),
                                         GEN(n_predict, OPT_I32),
                                         GEN(ignore_eog, OPT_BOOL),
                                         GEN(loop_tokens, OPT_I32),
                                         GEN(min_tokens, OPT_I32),
                                         SERVICE(priority, OPT_I32),
                                         SERVICE(deadline_ms, OPT_I64),
                                         SERVICE(no_cache, OPT_BOOL),
                                         SERVICE(exact_kv, OPT_BOOL),
                                         REQUEST(normalize, embedding.normalize, OPT_BOOL),
                                         REQUEST(shift_context, overflow.shift, OPT_BOOL),
                                         REQUEST(n_keep, overflow.n_keep, OPT_I32),
                                         {NULL, OPT_I32, 0}};

static const option engine_options[] = {
    ENGINE(n_ctx, OPT_I32),     ENGINE(n_batch, OPT_I32),    ENGINE(n_ubatch, OPT_I32),
    ENGINE(n_seq_max, OPT_I32), ENGINE(n_threads, OPT_I32),  ENGINE(n_threads_batch, OPT_I32),
    ENGINE(kv_bytes, OPT_U64),  ENGINE(n_parallel, OPT_I32), ENGINE(n_queue_max, OPT_I32),
    ENGINE(gap_ms, OPT_I32),    {NULL, OPT_I32, 0}};

static bool set_option(napi_env env, const option *o, napi_value value, char *params) {
    void *to = params + o->offset;
    double number = 0;
    bool flag = false;
    if (o->type == OPT_BOOL) {
        if (napi_get_value_bool(env, value, &flag) != napi_ok) return false;
        *(bool *)to = flag;
        return true;
    }
    if (napi_get_value_double(env, value, &number) != napi_ok) return false;
    bool is_small = number >= -2147483648.0 && number <= 2147483647.0;
    bool is_whole = number >= -9007199254740991.0 && number <= 9007199254740991.0;
    if (o->type == OPT_F32) *(float *)to = (float)number;
    if (o->type == OPT_I32 && is_small) *(int32_t *)to = (int32_t)number;
    if (o->type == OPT_I64 && is_whole) *(int64_t *)to = (int64_t)number;
    if (o->type == OPT_U64 && is_whole && number >= 0) *(uint64_t *)to = (uint64_t)number;
    return o->type == OPT_F32 || (o->type == OPT_I32 ? is_small : is_whole);
}

/* Every member of the object `from` must be an option; false: an exception is pending. */
static bool read_options(napi_env env, napi_value from, const option *options, void *params) {
    napi_value names;
    uint32_t n = 0;
    if (napi_get_property_names(env, from, &names) != napi_ok)
        return throw_type(env, "options must be an object"), false;
    napi_get_array_length(env, names, &n);
    for (uint32_t i = 0; i < n; i++) {
        napi_value key, value;
        char name[64] = "", message[128] = "no such option, or of a wrong type: ";
        size_t len;
        napi_get_element(env, names, i, &key);
        napi_get_value_string_utf8(env, key, name, sizeof name, &len);
        napi_get_property(env, from, key, &value);
        const option *o = options;
        while (o->name && strcmp(o->name, name) != 0) o++;
        if (o->name && set_option(env, o, value, params)) continue;
        strncat(message, name, sizeof message - strlen(message) - 1);
        return throw_type(env, message), false;
    }
    return true;
}

/* The string for free(); NULL with an exception pending where it is none. */
static char *string_of(napi_env env, napi_value value, size_t *len) {
    if (napi_get_value_string_utf8(env, value, NULL, 0, len) != napi_ok)
        return throw_type(env, "expected a string"), NULL;
    char *text = malloc(*len + 1);
    if (!text) return throw_type(env, "out of memory"), NULL;
    napi_get_value_string_utf8(env, value, text, *len + 1, len);
    return text;
}

static bool ids_of(napi_env env, napi_value value, int32_t **ids, size_t *n) {
    napi_typedarray_type type;
    bool is_array = false;
    napi_is_typedarray(env, value, &is_array);
    if (!is_array ||
        napi_get_typedarray_info(env, value, &type, n, (void **)ids, NULL, NULL) != napi_ok ||
        type != napi_int32_array)
        return throw_type(env, "expected an Int32Array"), false;
    return true;
}

static napi_value typed_array(napi_env env, napi_typedarray_type type, const void *data, size_t n) {
    napi_value buffer, array = NULL;
    void *bytes = NULL;
    napi_create_arraybuffer(env, n * 4, &bytes, &buffer);
    if (n) memcpy(bytes, data, n * 4);
    napi_create_typedarray(env, type, n, buffer, 0, &array);
    return array;
}

/* ---- engines: a context, a model and a driven engine; kept by its handle and by its requests ---- */

typedef struct engine_box {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    int n_owners;
} engine_box;

static void let_go(engine_box *box) {
    if (--box->n_owners > 0) return;
    if (box->engine) kt_engine_stop(box->engine, 0);
    kt_engine_close(box->engine);
    kt_model_close(box->model);
    kt_ctx_close(box->ctx);
    free(box);
}

static void engine_collected(napi_env env, void *data, void *hint) {
    (void)env;
    (void)hint;
    let_go(data);
}

static kt_status open_box(engine_box *box, const char *path, const kt_engine_params *params,
                          kt_error *err) {
    kt_status status = kt_ctx_open(NULL, &box->ctx, err);
    if (status == KT_OK)
        status = path ? kt_model_open(box->ctx, path, NULL, &box->model, err)
                      : kt_model_open_demo(box->ctx, NULL, &box->model, err);
    if (status == KT_OK) status = kt_engine_open(box->model, params, &box->engine, err);
    if (status == KT_OK) status = kt_engine_start(box->engine, err);
    return status;
}

static bool take_arguments(napi_env env, napi_callback_info info, size_t n, napi_value *argv) {
    size_t given = n;
    napi_get_cb_info(env, info, &given, argv, NULL, NULL);
    return given >= n || (throw_type(env, "too few arguments"), false);
}

static void *external_of(napi_env env, napi_value value) {
    void *data = NULL;
    if (napi_get_value_external(env, value, &data) != napi_ok) throw_type(env, "expected a handle");
    return data;
}

/* open(path or null, options) */
static napi_value open_engine(napi_env env, napi_callback_info info) {
    napi_value argv[2], handle = NULL;
    napi_valuetype type;
    kt_engine_params params = kt_engine_params_default();
    kt_error err;
    size_t len;
    char *path = NULL;
    if (!take_arguments(env, info, 2, argv) || !read_options(env, argv[1], engine_options, &params))
        return NULL;
    napi_typeof(env, argv[0], &type);
    if (type != napi_null && !(path = string_of(env, argv[0], &len))) return NULL;
    engine_box *box = calloc(1, sizeof *box);
    if (!box) return free(path), throw_type(env, "out of memory");
    box->n_owners = 1;
    kt_status status = open_box(box, path, &params, &err);
    free(path);
    if (status != KT_OK) return let_go(box), throw_status(env, status, &err);
    napi_create_external(env, box, engine_collected, NULL, &handle);
    return handle;
}

static void set_number(napi_env env, napi_value object, const char *name, double number) {
    napi_value value;
    napi_create_double(env, number, &value);
    napi_set_named_property(env, object, name, value);
}

static napi_value describe(napi_env env, napi_callback_info info) {
    napi_value argv[1], out;
    kt_model_info m;
    engine_box *box;
    if (!take_arguments(env, info, 1, argv) || !(box = external_of(env, argv[0]))) return NULL;
    kt_model_get_info(box->model, &m);
    napi_create_object(env, &out);
    napi_set_named_property(env, out, "name", text_value(env, m.name, NAPI_AUTO_LENGTH));
    napi_set_named_property(env, out, "arch", text_value(env, m.arch, NAPI_AUTO_LENGTH));
    napi_set_named_property(env, out, "quant", text_value(env, m.quant, NAPI_AUTO_LENGTH));
    set_number(env, out, "n_params", (double)m.n_params);
    set_number(env, out, "n_vocab", m.n_vocab);
    set_number(env, out, "n_ctx_train", m.n_ctx_train);
    set_number(env, out, "d_model", m.d_model);
    set_number(env, out, "bos_id", m.bos_id);
    set_number(env, out, "eos_id", m.eos_id);
    return out;
}

/* tokenize(engine, text, flags) */
static napi_value tokenize(napi_env env, napi_callback_info info) {
    napi_value argv[3], out = NULL;
    engine_box *box;
    kt_error err;
    char *text;
    size_t len, n = 0;
    uint32_t flags = 0;
    if (!take_arguments(env, info, 3, argv) || !(box = external_of(env, argv[0])) ||
        !(text = string_of(env, argv[1], &len)))
        return NULL;
    napi_get_value_uint32(env, argv[2], &flags);
    int32_t *ids = NULL;
    kt_status status = kt_tokenize(box->model, text, len, flags, NULL, 0, &n, &err);
    if (status == KT_E_LIMIT && (ids = malloc(n * sizeof *ids)))
        status = kt_tokenize(box->model, text, len, flags, ids, n, &n, &err);
    if (status == KT_OK)
        out = typed_array(env, napi_int32_array, ids, n);
    else
        throw_status(env, status, &err);
    free(ids);
    free(text);
    return out;
}

/* detokenize(engine, ids) */
static napi_value detokenize(napi_env env, napi_callback_info info) {
    napi_value argv[2], out = NULL;
    engine_box *box;
    kt_error err;
    int32_t *ids;
    char *text = NULL;
    size_t n, len = 0;
    if (!take_arguments(env, info, 2, argv) || !(box = external_of(env, argv[0])) ||
        !ids_of(env, argv[1], &ids, &n))
        return NULL;
    kt_status status = kt_detokenize(box->model, ids, n, 0, NULL, 0, &len, &err);
    if (status == KT_E_LIMIT && (text = malloc(len)))
        status = kt_detokenize(box->model, ids, n, 0, text, len, &len, &err);
    if (status == KT_OK)
        out = text_value(env, text, len);
    else
        throw_status(env, status, &err);
    free(text);
    return out;
}

/* ---- what lives in an engine, and is used by requests: sessions and learners ---- */

/* Closed once its owner wants that, or it is collected, and nothing uses it any more. */
typedef struct resource {
    engine_box *engine;
    void *it; /* a kt_seq or a kt_learner; NULL: closed */
    void (*close)(void *it);
    int n_users; /* requests of a session, feedback on its way to a learner */
    bool closing, collected;
} resource;

static void settle(resource *r) {
    if (r->n_users > 0 || !r->closing) return;
    if (r->it) {
        r->close(r->it);
        r->it = NULL;
        let_go(r->engine);
    }
    if (r->collected) free(r);
}

static void leave_resource(resource *r) {
    if (!r) return;
    r->n_users--;
    settle(r);
}

static void resource_collected(napi_env env, void *data, void *hint) {
    resource *r = data;
    (void)env;
    (void)hint;
    r->closing = r->collected = true;
    settle(r);
}

/* The handle of what was opened. */
static napi_value take_resource(napi_env env, engine_box *engine, void *it, void (*close)(void *)) {
    napi_value handle = NULL;
    resource *r = calloc(1, sizeof *r);
    if (!r) return close(it), throw_type(env, "out of memory");
    *r = (resource){.engine = engine, .it = it, .close = close};
    engine->n_owners++;
    napi_create_external(env, r, resource_collected, NULL, &handle);
    return handle;
}

/* NULL: it is closed, or no handle; an exception is pending. */
static resource *resource_of(napi_env env, napi_value value) {
    resource *r = external_of(env, value);
    if (!r || (r->it && !r->closing)) return r;
    napi_throw_error(env, "KT_E_STATE", "it is closed");
    return NULL;
}

/* closeResource(session or learner) */
static napi_value close_resource(napi_env env, napi_callback_info info) {
    napi_value argv[1];
    resource *r;
    if (!take_arguments(env, info, 1, argv) || !(r = external_of(env, argv[0]))) return NULL;
    r->closing = true;
    settle(r);
    return NULL;
}

/* ---- sessions: tokens, and what was computed of them, from one answer to the next ---- */

static void close_seq(void *it) {
    kt_seq_close(it);
}

/* openSession(engine) */
static napi_value open_session(napi_env env, napi_callback_info info) {
    napi_value argv[1];
    engine_box *engine;
    kt_seq *seq;
    kt_error err;
    if (!take_arguments(env, info, 1, argv) || !(engine = external_of(env, argv[0]))) return NULL;
    kt_status status = kt_seq_open(engine->engine, &seq, &err);
    return status == KT_OK ? take_resource(env, engine, seq, close_seq)
                           : throw_status(env, status, &err);
}

static napi_value session_tokens(napi_env env, napi_callback_info info) {
    napi_value argv[1];
    const resource *r;
    if (!take_arguments(env, info, 1, argv) || !(r = resource_of(env, argv[0]))) return NULL;
    return typed_array(env, napi_int32_array, kt_seq_tokens(r->it), kt_seq_len(r->it));
}

/* truncateSession(session, n) */
static napi_value truncate_session(napi_env env, napi_callback_info info) {
    napi_value argv[2];
    resource *r;
    kt_error err;
    uint32_t n = 0;
    if (!take_arguments(env, info, 2, argv) || !(r = resource_of(env, argv[0]))) return NULL;
    napi_get_value_uint32(env, argv[1], &n);
    kt_status status = kt_seq_truncate(r->it, n, &err);
    return status == KT_OK ? NULL : throw_status(env, status, &err);
}

static napi_value with_file(napi_env env, napi_callback_info info,
                            kt_status (*call)(kt_seq *seq, const char *path, kt_error *err)) {
    napi_value argv[2];
    resource *r;
    kt_error err;
    size_t len;
    char *path;
    if (!take_arguments(env, info, 2, argv) || !(r = resource_of(env, argv[0])) ||
        !(path = string_of(env, argv[1], &len)))
        return NULL;
    kt_status status = call(r->it, path, &err);
    free(path);
    return status == KT_OK ? NULL : throw_status(env, status, &err);
}

/* saveSession(session, path) */
static napi_value save_session(napi_env env, napi_callback_info info) {
    return with_file(env, info, kt_seq_save);
}

/* restoreSession(session, path) */
static napi_value restore_session(napi_env env, napi_callback_info info) {
    return with_file(env, info, kt_seq_restore);
}

/* ---- learners: folders of what was said of answers ---- */

static void close_learner(void *it) {
    kt_learner_close(it);
}

/* openLearner(engine, folder) */
static napi_value open_learner(napi_env env, napi_callback_info info) {
    napi_value argv[2];
    engine_box *engine;
    kt_learner *learner;
    kt_error err;
    size_t len;
    char *dir;
    if (!take_arguments(env, info, 2, argv) || !(engine = external_of(env, argv[0])) ||
        !(dir = string_of(env, argv[1], &len)))
        return NULL;
    const kt_learner_params params = {.dir = dir};
    kt_status status = kt_learner_open(engine->engine, &params, &learner, &err);
    free(dir);
    return status == KT_OK ? take_resource(env, engine, learner, close_learner)
                           : throw_status(env, status, &err);
}

/* forget(learner, id) */
static napi_value forget_feedback(napi_env env, napi_callback_info info) {
    napi_value argv[2];
    resource *r;
    kt_error err;
    int64_t id = 0;
    if (!take_arguments(env, info, 2, argv) || !(r = resource_of(env, argv[0]))) return NULL;
    napi_get_value_int64(env, argv[1], &id);
    kt_status status = kt_learner_forget(r->it, (uint64_t)id, &err);
    return status == KT_OK ? NULL : throw_status(env, status, &err);
}

/* What was learned, for an answer that is about to be submitted; for kt_learned_close after that. */
static bool use_learner(napi_env env, resource *learner, bool notes, kt_request_params *r,
                        kt_learned *learned, kt_adapter_use uses[KT_LEARNED_ADAPTERS]) {
    kt_error err;
    kt_status status = kt_learner_get(learner->it, KT_VERSION_SERVED, learned, &err);
    if (status != KT_OK) return throw_status(env, status, &err), false;
    r->corrections.recall = learned->recall;
    r->corrections.bank = learned->bank;
    r->corrections.note_tokens = notes ? 0 : -1;
    r->corrections.keep = true;
    size_t n = kt_learned_adapters(learned, r, uses);
    if (n == 0) return true;
    if (r->seq) {
        status = kt_seq_set_adapters(r->seq, uses, n, &err);
        return status == KT_OK || (throw_status(env, status, &err), false);
    }
    r->adapters = uses;
    r->n_adapters = n;
    return true;
}

/* ---- requests ---- */

typedef struct request_box {
    engine_box *engine;
    resource *session; /* or NULL */
    kt_request *req;
    napi_threadsafe_function wake;
    int n_feedbacks; /* that read what it has kept */
    bool closing;    /* once these are over */
} request_box;

static void end_request(request_box *box) {
    if (!box->req) return;
    box->closing = true;
    if (box->n_feedbacks > 0) return;
    kt_request_close(box->req); /* no on_ready after this */
    box->req = NULL;
    napi_release_threadsafe_function(box->wake, napi_tsfn_abort);
    leave_resource(box->session);
    let_go(box->engine);
}

static void request_collected(napi_env env, void *data, void *hint) {
    (void)env;
    (void)hint;
    end_request(data);
    free(data);
}

static void on_ready(void *user) {
    napi_call_threadsafe_function(((request_box *)user)->wake, NULL, napi_tsfn_nonblocking);
}

/* What a request points to until it is submitted. */
typedef struct prompt {
    char *text;
    char *stop[16];
} prompt;

static void free_prompt(prompt *p) {
    free(p->text);
    for (size_t i = 0; i < 16; i++) free(p->stop[i]);
}

static bool read_stops(napi_env env, napi_value list, kt_request_params *r, prompt *p) {
    uint32_t n = 0;
    size_t len;
    if (napi_get_array_length(env, list, &n) != napi_ok || n > 16)
        return throw_type(env, "stop must be at most 16 strings"), false;
    for (uint32_t i = 0; i < n; i++) {
        napi_value value;
        napi_get_element(env, list, i, &value);
        if (!(p->stop[i] = string_of(env, value, &len))) return false;
    }
    r->gen.stop = (const char *const *)p->stop;
    r->gen.n_stop = n;
    return true;
}

/* kind: "chat" with JSON, "text", or "ids" */
static bool read_prompt(napi_env env, napi_value kind, napi_value value, kt_request_params *r,
                        prompt *p) {
    char name[8] = "";
    size_t len;
    int32_t *ids;
    napi_get_value_string_utf8(env, kind, name, sizeof name, &len);
    if (!strcmp(name, "ids")) {
        if (!ids_of(env, value, &ids, &r->prompt.n_ids)) return false;
        r->prompt.ids = ids;
        return true;
    }
    if (!(p->text = string_of(env, value, &len))) return false;
    if (!strcmp(name, "chat")) {
        r->prompt.chat_json = p->text;
        r->prompt.chat_json_len = len;
    } else {
        r->prompt.text = p->text;
        r->prompt.text_len = len;
    }
    return true;
}

/* Where the answer belongs and what it is made with: both may be null. */
static bool read_resources(napi_env env, const napi_value *argv, kt_request_params *r,
                           resource **session, resource **learner) {
    napi_valuetype continues, learns;
    napi_typeof(env, argv[0], &continues);
    napi_typeof(env, argv[1], &learns);
    *session = *learner = NULL;
    if (continues != napi_null && !(*session = resource_of(env, argv[0]))) return false;
    if (*session) {
        r->seq = (*session)->it;
        r->seq_append = !r->prompt.chat_json;
        if (r->seq_append && kt_seq_len(r->seq) > 0)
            r->prompt.text_flags = 0; /* BOS begins a text */
    }
    return learns == napi_null || (*learner = resource_of(env, argv[1])) != NULL;
}

static napi_value submit_read(napi_env env, engine_box *engine, resource *session,
                              kt_request_params *r, napi_value on_wake) {
    napi_value handle = NULL;
    kt_error err;
    request_box *box = calloc(1, sizeof *box);
    if (!box) return throw_type(env, "out of memory");
    if (napi_create_threadsafe_function(env, on_wake, NULL,
                                        text_value(env, "kentang", NAPI_AUTO_LENGTH), 0, 1, NULL,
                                        NULL, NULL, NULL, &box->wake) != napi_ok)
        return free(box), throw_type(env, "expected a function");
    r->events.on_ready = on_ready;
    r->events.user = box;
    kt_status status = kt_engine_submit(engine->engine, r, &box->req, &err);
    if (status != KT_OK) {
        napi_release_threadsafe_function(box->wake, napi_tsfn_abort);
        free(box);
        return throw_status(env, status, &err);
    }
    box->engine = engine;
    engine->n_owners++;
    box->session = session;
    if (session) session->n_users++;
    napi_create_external(env, box, request_collected, NULL, &handle);
    return handle;
}

/* submit(engine, kind, prompt, pooling, stop, options, onWake, session, learner, notes) */
static napi_value submit(napi_env env, napi_callback_info info) {
    napi_value argv[10], out = NULL;
    engine_box *engine;
    resource *session, *learner;
    kt_learned learned = {0};
    kt_adapter_use uses[KT_LEARNED_ADAPTERS];
    bool notes = true;
    kt_request_params r = kt_request_params_default();
    prompt p = {0};
    int32_t pooling = 0;
    if (!take_arguments(env, info, 10, argv) || !(engine = external_of(env, argv[0]))) return NULL;
    napi_get_value_int32(env, argv[3], &pooling);
    napi_get_value_bool(env, argv[9], &notes);
    r.embedding.pooling = (kt_pooling)pooling;
    if (read_prompt(env, argv[1], argv[2], &r, &p) && read_stops(env, argv[4], &r, &p) &&
        read_options(env, argv[5], request_options, &r) &&
        read_resources(env, argv + 7, &r, &session, &learner) &&
        (!learner || use_learner(env, learner, notes, &r, &learned, uses)))
        out = submit_read(env, engine, session, &r, argv[6]);
    kt_learned_close(&learned);
    free_prompt(&p);
    return out;
}

static void set_end(napi_env env, napi_value out, const kt_event *event) {
    const kt_request_report *report = event->report;
    napi_set_named_property(env, out, "finish",
                            text_value(env, kt_finish_name(event->finish), NAPI_AUTO_LENGTH));
    if (event->error)
        napi_set_named_property(env, out, "error",
                                error_value(env, event->error->code, event->error));
    if (event->embedding)
        napi_set_named_property(
            env, out, "embedding",
            typed_array(env, napi_float32_array, event->embedding, event->n_embedding));
    napi_value seed;
    napi_create_bigint_uint64(env, report->seed, &seed);
    napi_set_named_property(env, out, "seed", seed);
    set_number(env, out, "n_prompt", report->n_prompt);
    set_number(env, out, "n_cached", report->n_cached);
    set_number(env, out, "n_generated", report->n_generated);
    set_number(env, out, "prefill_us", (double)report->prefill_us);
    set_number(env, out, "decode_us", (double)report->decode_us);
    set_number(env, out, "total_us", (double)report->total_us);
}

/* next(request): {id, text}, {finish, ...}, {} for others, or null: none waits */
static napi_value next_event(napi_env env, napi_callback_info info) {
    napi_value argv[1], out = NULL;
    request_box *box;
    kt_event event;
    if (!take_arguments(env, info, 1, argv) || !(box = external_of(env, argv[0]))) return NULL;
    napi_get_null(env, &out);
    if (!box->req || !kt_request_next_event(box->req, &event, 0)) return out;
    napi_create_object(env, &out);
    if (event.kind == KT_EVENT_TOKEN) {
        set_number(env, out, "id", event.id);
        napi_set_named_property(env, out, "text", text_value(env, event.text, event.len));
    }
    if (event.kind == KT_EVENT_FINISHED) set_end(env, out, &event);
    return out;
}

static napi_value cancel_request(napi_env env, napi_callback_info info) {
    napi_value argv[1];
    request_box *box;
    if (take_arguments(env, info, 1, argv) && (box = external_of(env, argv[0])) && box->req)
        kt_request_cancel(box->req);
    return NULL;
}

static napi_value close_request(napi_env env, napi_callback_info info) {
    napi_value argv[1];
    request_box *box;
    if (take_arguments(env, info, 1, argv) && (box = external_of(env, argv[0]))) end_request(box);
    return NULL;
}

/* ---- feedback: computed on a thread of node's pool, since a correction's states may take a while ---- */

typedef struct feedback {
    napi_async_work work;
    napi_deferred promise;
    napi_ref handle; /* the request's, which is not collected meanwhile */
    request_box *request;
    resource *learner;
    char *correction, about[32];
    kt_feedback_params params;
    kt_kept kept;
    kt_feedback_result result;
    kt_status status;
    kt_error err;
} feedback;

static void run_feedback(napi_env env, void *data) {
    feedback *f = data;
    (void)env;
    f->status = kt_feedback(f->learner->it, &f->params, &f->result, &f->err);
}

static void end_feedback(napi_env env, napi_status cancelled, void *data) {
    feedback *f = data;
    napi_value id;
    (void)cancelled;
    napi_create_double(env, (double)f->result.id, &id);
    if (f->status == KT_OK)
        napi_resolve_deferred(env, f->promise, id);
    else
        napi_reject_deferred(env, f->promise, error_value(env, f->status, &f->err));
    napi_delete_async_work(env, f->work);
    napi_delete_reference(env, f->handle);
    f->request->n_feedbacks--;
    if (f->request->closing) end_request(f->request);
    leave_resource(f->learner);
    free(f->correction);
    free(f);
}

/* The same for the same answer to the same prompt: the last word on it counts. FNV-1a. */
static void name_answer(const kt_kept *kept, char *out, size_t size) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < kept->n_prompt + kept->n_answer; i++) {
        uint32_t id = (uint32_t)(i < kept->n_prompt ? kept->prompt[i]
                                                    : kept->answer[i - kept->n_prompt]);
        for (int byte = 0; byte < 4; byte++) {
            hash = (hash ^ (id >> 8 * byte & 255)) * 1099511628211u;
        }
    }
    snprintf(out, size, "node-%016llx", (unsigned long long)hash);
}

/* say(request, learner, score, correction or null): a promise of the feedback's id */
static napi_value say(napi_env env, napi_callback_info info) {
    napi_value argv[4], promise = NULL;
    napi_valuetype type;
    request_box *request;
    resource *learner;
    double score = 0;
    size_t len = 0;
    char *correction = NULL;
    if (!take_arguments(env, info, 4, argv) || !(request = external_of(env, argv[0])) ||
        !(learner = resource_of(env, argv[1])))
        return NULL;
    napi_get_value_double(env, argv[2], &score);
    napi_typeof(env, argv[3], &type);
    if (type != napi_null && !(correction = string_of(env, argv[3], &len))) return NULL;
    feedback *f = calloc(1, sizeof *f);
    if (!f) return free(correction), throw_type(env, "out of memory");
    f->correction = correction;
    if (!request->req || !kt_request_get_kept(request->req, 0, &f->kept)) {
        free(correction);
        free(f);
        return napi_throw_error(env, "KT_E_STATE", "the answer is not over, or is closed"), NULL;
    }
    name_answer(&f->kept, f->about, sizeof f->about);
    f->params = (kt_feedback_params){.kept = &f->kept,
                                     .about = f->about,
                                     .score = (float)score,
                                     .correction = correction,
                                     .n_correction = len};
    f->request = request;
    f->learner = learner;
    napi_create_reference(env, argv[0], 1, &f->handle);
    request->n_feedbacks++;
    learner->n_users++;
    napi_create_promise(env, &f->promise, &promise);
    napi_create_async_work(env, NULL, text_value(env, "kentang", NAPI_AUTO_LENGTH), run_feedback,
                           end_feedback, f, &f->work);
    napi_queue_async_work(env, f->work);
    return promise;
}

NAPI_MODULE_INIT() {
    static const struct {
        const char *name;
        napi_callback call;
    } functions[] = {{"open", open_engine},
                     {"describe", describe},
                     {"tokenize", tokenize},
                     {"detokenize", detokenize},
                     {"submit", submit},
                     {"next", next_event},
                     {"cancel", cancel_request},
                     {"close", close_request},
                     {"openSession", open_session},
                     {"closeResource", close_resource},
                     {"sessionTokens", session_tokens},
                     {"truncateSession", truncate_session},
                     {"saveSession", save_session},
                     {"restoreSession", restore_session},
                     {"openLearner", open_learner},
                     {"forget", forget_feedback},
                     {"say", say}};
    if (kt_abi() != kt_header_abi()) {
        napi_throw_error(env, "KT_E_STATE",
                         "libkentang is of another version than this addon was compiled with: "
                         "build the addon again (bindings/node/build.sh)");
        return exports;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        napi_value function;
        napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL,
                             &function);
        napi_set_named_property(env, exports, functions[i].name, function);
    }
    napi_set_named_property(env, exports, "version",
                            text_value(env, kt_version(), NAPI_AUTO_LENGTH));
    return exports;
}
