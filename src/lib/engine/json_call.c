/* kt_call_json: requests and events as JSON, for bindings that would rather have no structures. */
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "context/types.h"
#include "jinja/jinja_text.h"
#include "jinja/json.h"

enum { CALL_MEMORY = 64 << 20, CALL_OUT = 64 << 20, CALL_STOPS = 256 };

typedef struct json_call {
    kt_engine *engine;
    const kt_model *model;
    const char *json; /* the request as it came */
    size_t len;
    kt__arena arena;
    kt__jv root;
    kt_request_params req;
    kt_json_fn *on_event;
    void *user;
    kt__buf out; /* the event that is written */
    bool enough; /* the caller's no */
} json_call;

/* ---- members ---- */

static kt_status member_error(const char *name, const char *expected, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, name, UINT64_MAX, "\"%s\" must be %s", name, expected);
}

/* NULL: it is not there, or null. */
static const kt__jv *call_member(const json_call *c, const char *name) {
    const kt__jv *v = kt__jdict_find(c->root.u.d, name);
    return v && v->type != KT__J_NONE ? v : NULL;
}

static kt_status number_member(const json_call *c, const char *name, double low, double high,
                               bool whole, double *out, kt_error *err) {
    const kt__jv *v = call_member(c, name);
    if (!v) return KT_OK;
    double x = v->type == KT__J_INT ? (double)v->u.i : v->type == KT__J_FLOAT ? v->u.f : high + 1;
    if (x >= low && x <= high && (!whole || v->type == KT__J_INT)) {
        *out = x;
        return KT_OK;
    }
    return kt__fail_at(err, KT_E_ARG, name, UINT64_MAX, "\"%s\" must be %s from %g to %g", name,
                       whole ? "a whole number" : "a number", low, high);
}

static kt_status int_member(const json_call *c, const char *name, double low, double high,
                            int32_t *out, kt_error *err) {
    double x = (double)*out;
    kt_status status = number_member(c, name, low, high, true, &x, err);
    *out = (int32_t)x;
    return status;
}

static kt_status float_member(const json_call *c, const char *name, double low, double high,
                              float *out, kt_error *err) {
    double x = (double)*out;
    kt_status status = number_member(c, name, low, high, false, &x, err);
    *out = (float)x;
    return status;
}

static kt_status text_member(const json_call *c, const char *name, const kt__jstr **out,
                             kt_error *err) {
    const kt__jv *v = call_member(c, name);
    if (!v || v->type != KT__J_STR) return member_error(name, "a text", err);
    *out = v->u.s;
    return KT_OK;
}

static kt_status read_stops_of(json_call *c, kt_error *err) {
    const kt__jv *v = call_member(c, "stop");
    if (!v) return KT_OK;
    bool is_list = v->type == KT__J_LIST;
    const kt__jv *items = is_list ? v->u.l->items : v;
    size_t n = is_list ? v->u.l->n : 1;
    if (n > CALL_STOPS) return member_error("stop", "at most 256 texts", err);
    const char **stops = kt__arena_calloc(&c->arena, n + 1, sizeof *stops);
    for (size_t i = 0; stops && i < n; i++) {
        if (items[i].type != KT__J_STR) return member_error("stop", "a text or texts", err);
        stops[i] = kt__arena_strndup(&c->arena, items[i].u.s->data, items[i].u.s->len);
        if (!stops[i]) stops = NULL;
    }
    if (!stops) return kt__fail_nomem(err, "stop strings", 0);
    c->req.gen.stop = stops;
    c->req.gen.n_stop = n;
    return KT_OK;
}

static kt_status read_options_of(json_call *c, kt_error *err) {
    kt_sampling *s = &c->req.gen.sampling;
    const kt__jv *seed = call_member(c, "seed");
#define FLOAT float_member
#define INT int_member
#define NUMBER(type, member, value, low, high, ...) \
    KT__STEP(type(c, #member, low, high, &s->member, err));
#include "sample/steps.def"
#undef FLOAT
#undef INT
    KT__STEP(int_member(c, "max_tokens", -1, INT32_MAX, &c->req.gen.n_predict, err));
    KT__STEP(read_stops_of(c, err));
    if (seed && seed->type != KT__J_INT) return member_error("seed", "a whole number", err);
    if (seed) s->seed = (uint64_t)seed->u.i;
    return KT_OK;
}

/* ---- events ---- */

static kt_status send_event(json_call *c, kt_error *err) {
    if (c->out.failed) return kt__fail_nomem(err, "an event", c->out.len);
    if (!c->on_event(c->user, c->out.data, c->out.len)) c->enough = true;
    kt__buf_clear(&c->out);
    return KT_OK;
}

static bool send_text(void *user, const char *text, size_t len, int32_t id) {
    json_call *c = user;
    (void)kt__buf_puts(&c->out, "{\"text\":");
    kt__json_string(&c->out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_printf(&c->out, ",\"id\":%d}", id);
    return send_event(c, NULL) == KT_OK && !c->enough;
}

static void write_ids(json_call *c, const int32_t *ids, size_t n) {
    (void)kt__buf_puts(&c->out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) (void)kt__buf_printf(&c->out, "%s%d", i ? "," : "", ids[i]);
    (void)kt__buf_puts(&c->out, "]}");
}

static void write_vector(json_call *c, const float *x, size_t n) {
    char digits[40];
    (void)kt__buf_puts(&c->out, "{\"embedding\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) (void)kt__buf_putc(&c->out, ',');
        (void)kt__buf_append(&c->out, digits, kt__jnum_repr((double)x[i], digits));
    }
    (void)kt__buf_puts(&c->out, "]}");
}

/* ---- what can be asked for ---- */

static kt_status take_prompt(json_call *c, kt_error *err) {
    const kt__jstr *text = NULL;
    if (call_member(c, "messages")) {
        c->req.prompt.chat_json = c->json;
        c->req.prompt.chat_json_len = c->len;
        return KT_OK;
    }
    kt_status status = text_member(c, "prompt", &text, err);
    if (status != KT_OK) return status;
    c->req.prompt.text = text->data;
    c->req.prompt.text_len = text->len;
    return KT_OK;
}

static kt_status call_generate(json_call *c, kt_error *err) {
    kt_request_report r;
    KT__STEP(take_prompt(c, err));
    KT__STEP(read_options_of(c, err));
    KT__STEP(kt_request_run(c->engine, &c->req, send_text, c, &r, err));
    (void)kt__buf_printf(&c->out, "{\"done\":true,\"finish\":\"%s\",\"seed\":%llu",
                         kt_finish_name(r.finish), (unsigned long long)r.seed);
    (void)kt__buf_printf(&c->out,
                         ",\"prompt_tokens\":%d,\"cached_tokens\":%d,\"generated_tokens\":%d"
                         ",\"total_us\":%lld}",
                         r.n_prompt, r.n_cached, r.n_generated, (long long)r.total_us);
    return send_event(c, err);
}

/* Ids of "prompt" or "messages", for kt_free. */
static kt_status encode_asked(json_call *c, int32_t **ids, size_t *n, kt_error *err) {
    *ids = NULL;
    kt_status status = take_prompt(c, err);
    if (status != KT_OK) return status;
    if (c->req.prompt.chat_json) return kt_request_encode(c->model, &c->req, ids, n, err);
    size_t cap = c->req.prompt.text_len + 16;
    for (;;) {
        int32_t *room = kt__arena_calloc(&c->arena, cap, sizeof *room);
        if (!room) return kt__fail_nomem(err, "token ids", cap * sizeof *room);
        status = kt_tokenize(c->model, c->req.prompt.text, c->req.prompt.text_len,
                             c->req.prompt.text_flags, room, cap, n, err);
        *ids = room;
        if (status != KT_E_LIMIT || *n <= cap) return status;
        cap = *n;
    }
}

static kt_status with_ids(json_call *c, void (*write)(json_call *c, const int32_t *ids, size_t n),
                          kt_error *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    kt_status status = encode_asked(c, &ids, &n, err);
    if (status == KT_OK) {
        write(c, ids, n);
        status = send_event(c, err);
    }
    if (c->req.prompt.chat_json) kt_free(ids);
    return status;
}

static void write_count(json_call *c, const int32_t *ids, size_t n) {
    (void)ids;
    (void)kt__buf_printf(&c->out, "{\"count\":%zu}", n);
}

static kt_status call_tokenize(json_call *c, kt_error *err) {
    return with_ids(c, write_ids, err);
}

static kt_status call_count(json_call *c, kt_error *err) {
    return with_ids(c, write_count, err);
}

static kt_status call_embed(json_call *c, kt_error *err) {
    kt_status status;
    kt_model_info info;
    int32_t *ids = NULL;
    size_t n = 0;
    kt_model_get_info(c->model, &info);
    size_t d_model = (size_t)info.d_model;
    float *x = kt__arena_calloc(&c->arena, d_model, sizeof *x);
    if (!x) return kt__fail_nomem(err, "an embedding", d_model * sizeof *x);
    KT__TRY(encode_asked(c, &ids, &n, err));
    kt_pooling pooling = info.pooling == KT_POOLING_RANK ? KT_POOLING_MEAN : info.pooling;
    status = kt_embed(c->engine, ids, n, pooling, true, x, err);
    if (c->req.prompt.chat_json) kt_free(ids);
    if (status != KT_OK) return status;
    write_vector(c, x, d_model);
    KT__TRY(send_event(c, err));
out:
    return status;
}

static kt_status dispatch_call(json_call *c, kt_error *err) {
    static const struct {
        const char *name;
        kt_status (*run)(json_call *c, kt_error *err);
    } calls[] = {{"generate", call_generate},
                 {"tokenize", call_tokenize},
                 {"count", call_count},
                 {"embed", call_embed}};
    const kt__jstr *name = NULL;
    if (c->root.type != KT__J_DICT)
        return kt__fail(err, KT_E_FORMAT, "the request must be a JSON object");
    kt_status status = text_member(c, "call", &name, err);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        bool fits = strlen(calls[i].name) == name->len;
        if (fits && !memcmp(calls[i].name, name->data, name->len)) return calls[i].run(c, err);
    }
    return member_error("call", "\"generate\", \"tokenize\", \"count\" or \"embed\"", err);
}

kt_status kt_call_json(kt_engine *engine, const char *json, size_t len, kt_json_fn *on_event,
                       void *user, kt_error *err) {
    json_call c = {.engine = engine,
                   .model = engine->model,
                   .json = json,
                   .len = len,
                   .req = kt_request_params_default(),
                   .on_event = on_event,
                   .user = user};
    kt__error_clear(err);
    kt__arena_init(&c.arena, 16 << 10, CALL_MEMORY);
    kt__buf_init(&c.out, CALL_OUT);
    kt_status status = kt__json_parse(&c.arena, json, len, &c.root, err);
    if (status == KT_OK) status = dispatch_call(&c, err);
    kt__arena_free(&c.arena);
    kt__buf_free(&c.out);
    return status;
}
