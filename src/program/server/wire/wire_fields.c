/* How a request is to be answered: the sampler's numbers and the other options of its JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "wire/wire_value.h"

/* ---- the numbers of the sampler and their like: a row each ---- */

typedef enum kind { FLOAT, INT, BOOL } kind;

typedef struct field {
    const char *name;
    kind kind;
    size_t at; /* in kt__wire_request */
    double low, high;
} field;

#define AT(member) offsetof(kt__wire_request, member)
#define S(member) AT(req.gen.sampling.member)

/* Where two names mean the same, the later row wins. */
static const field fields[] = {
#define NUMBER(type, member, value, low, high, ...) {#member, type, S(member), low, high},
#include "sample/steps.def"
    {"repetition_penalty", FLOAT, S(repeat_penalty), 1e-3, 1e3},
    {"ignore_eos", BOOL, AT(req.gen.ignore_eog), 0, 0},
    {"n_predict", INT, AT(req.gen.n_predict), -1, INT32_MAX},
    {"max_tokens", INT, AT(req.gen.n_predict), -1, INT32_MAX},
    {"max_completion_tokens", INT, AT(req.gen.n_predict), -1, INT32_MAX},
    {"min_tokens", INT, AT(req.gen.min_tokens), 0, INT32_MAX},
    {"loop_tokens", INT, AT(req.gen.loop_tokens), 0, INT32_MAX},
    {"n", INT, AT(req.n_choices), 1, KT_CHOICES_MAX},
    {"stream", BOOL, AT(stream), 0, 0},
    {"id_slot", INT, AT(id_slot), -1, INT32_MAX},
    {"n_keep", INT, AT(req.overflow.n_keep), -1, INT32_MAX},
    {"context_shift", BOOL, AT(req.overflow.shift), 0, 0},
    {"return_progress", BOOL, AT(return_progress), 0, 0},
    {"timings_per_token", BOOL, AT(timings_per_token), 0, 0},
    {"verbose", BOOL, AT(verbose), 0, 0},
    {"post_sampling_probs", BOOL, AT(req.logprobs.post_sampling), 0, 0},
    {"finish_within", BOOL, AT(req.constraint.finish_within), 0, 0},
    {"compact_json", BOOL, AT(req.constraint.compact), 0, 0},
    {"native_calls", BOOL, AT(req.calls.native), 0, 0},
    {"exact_kv", BOOL, AT(req.service.exact_kv), 0, 0},
    {"priority", INT, AT(req.service.priority), -KT_PRIORITY_MAX, KT_PRIORITY_MAX},
};

static kt_status read_field(const kt__wire_reader *r, const field *f, const json_t *v) {
    kt__wire_place at = {.key = f->name};
    char *target = (char *)r->request + f->at;
    kt_status status;
    double x = 0;
    int64_t i = 0;
    if (f->kind == BOOL) return kt__wire_read_bool(r, &at, v, (bool *)(void *)target);
    if (f->kind == FLOAT) {
        status = kt__wire_read_number(r, &at, v, f->low, f->high, &x);
        if (status == KT_OK) *(float *)(void *)target = (float)x;
    } else {
        status = kt__wire_read_int(r, &at, v, (int64_t)f->low, (int64_t)f->high, &i);
        if (status == KT_OK) *(int32_t *)(void *)target = (int32_t)i;
    }
    return status;
}

static kt_status read_rows(const kt__wire_reader *r, const json_t *body) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *v = kt__wire_member(body, fields[i].name);
        kt_status status = v ? read_field(r, &fields[i], v) : KT_OK;
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

bool kt__wire_has_field(const json_t *body, const char *name) {
    const size_t n = sizeof fields / sizeof fields[0];
    size_t i = 0;
    if (kt__wire_member(body, name)) return true;
    while (i < n && strcmp(fields[i].name, name) != 0) i++;
    for (size_t k = 0; i < n && k < n; k++)
        if (fields[k].at == fields[i].at && kt__wire_member(body, fields[k].name)) return true;
    return false;
}

/* ---- fields with a shape of their own ---- */

static kt_status read_seed(const kt__wire_reader *r, const json_t *body) {
    bool mistral = !kt__wire_member(body, "seed"); /* random_seed is Mistral's name */
    kt__wire_place at = {.key = mistral ? "random_seed" : "seed"};
    const json_t *v = kt__wire_member(body, at.key);
    int64_t seed;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_int(r, &at, v, INT64_MIN, INT64_MAX, &seed);
    if (status == KT_OK)
        r->request->req.gen.sampling.seed = (uint64_t)seed; /* -1: KT_SEED_RANDOM */
    return status;
}

static kt_status read_deadline(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "deadline_ms"};
    const json_t *v = kt__wire_member(body, "deadline_ms");
    return v ? kt__wire_read_int(r, &at, v, 0, INT64_MAX / 1000000,
                                 &r->request->req.service.deadline_ms)
             : KT_OK;
}

static kt_status read_cache_prompt(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "cache_prompt"};
    const json_t *v = kt__wire_member(body, "cache_prompt");
    bool cache = true;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_bool(r, &at, v, &cache);
    if (status == KT_OK) r->request->req.service.no_cache = !cache;
    return status;
}

static kt_status read_stops(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "stop"};
    const json_t *v = kt__wire_member(body, "stop");
    kt_gen_params *gen = &r->request->req.gen;
    return v ? kt__wire_read_strings(r, &at, v, KT__WIRE_MAX_STOPS, &gen->stop, &gen->n_stop)
             : KT_OK;
}

static kt_status read_breakers(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "dry_sequence_breakers"};
    const json_t *v = kt__wire_member(body, "dry_sequence_breakers");
    kt_sampling *s = &r->request->req.gen.sampling;
    return v ? kt__wire_read_strings(r, &at, v, 256, &s->dry_breakers, &s->n_dry_breakers) : KT_OK;
}

/* "samplers": ["top_k", "temperature"], or the same as text with semicolons. */
static kt_status read_samplers(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "samplers"};
    const json_t *v = kt__wire_member(body, "samplers");
    const char *const *names = NULL;
    size_t n = 0, bytes = 1;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_strings(r, &at, v, 64, &names, &n);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < n; i++) bytes += strlen(names[i]) + 1;
    char *chain = kt__arena_calloc(r->arena, bytes, 1), *end = chain;
    if (!chain) return kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        if (i) *end++ = ';';
        memcpy(end, names[i], len);
        end += len;
    }
    r->request->req.gen.sampling.chain = chain;
    return KT_OK;
}

static kt_status read_bias(const kt__wire_reader *r, const kt__wire_place *at, const json_t *value,
                           float *out) {
    double x = -INFINITY; /* false: never */
    kt_status status = KT_OK;
    if (!json_is_false(value)) status = kt__wire_read_number(r, at, value, -1e30, 1e30, &x);
    *out = (float)x;
    return status;
}

/* {"15043": -100, ...}; iteration order is that of insertion. */
static kt_status read_bias_object(const kt__wire_reader *r, const kt__wire_place *at, json_t *v,
                                  kt_logit_bias *items) {
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach(v, key, value) {
        kt__wire_place item = {.up = at, .key = key};
        char *end = NULL;
        long long id = key[0] >= '0' && key[0] <= '9' && strlen(key) < 11 ? strtoll(key, &end, 10)
                                                                          : -1;
        if (!end || *end || id > INT32_MAX) {
            return kt__wire_fail_at(r, KT_E_ARG, &item, "the name is not a token id");
        }
        items[n].id = (int32_t)id;
        kt_status status = read_bias(r, &item, value, &items[n++].bias);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* [[15043, 1.5], [50, false]] */
static kt_status read_bias_array(const kt__wire_reader *r, const kt__wire_place *at, json_t *v,
                                 kt_logit_bias *items) {
    size_t i;
    json_t *pair;
    json_array_foreach(v, i, pair) {
        kt__wire_place item = {.up = at, .index = i};
        int64_t id;
        if (!json_is_array(pair) || json_array_size(pair) != 2) {
            return kt__wire_fail_type(r, &item, "a pair of token id and bias", pair);
        }
        if (json_is_string(json_array_get(pair, 0))) {
            return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &item,
                                    "a bias on a text is not supported: give token ids");
        }
        kt_status status = kt__wire_read_int(r, &item, json_array_get(pair, 0), 0, INT32_MAX, &id);
        if (status != KT_OK) return status;
        items[i].id = (int32_t)id;
        status = read_bias(r, &item, json_array_get(pair, 1), &items[i].bias);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

static kt_status read_logit_bias(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "logit_bias"};
    json_t *v = kt__wire_member(body, "logit_bias");
    if (!v) return KT_OK;
    bool object = json_is_object(v);
    if (!object && !json_is_array(v))
        return kt__wire_fail_type(r, &at, "an object of token ids", v);
    size_t n = object ? json_object_size(v) : json_array_size(v);
    kt_logit_bias *items = kt__arena_calloc(r->arena, n + 1, sizeof *items);
    if (!items) return kt__wire_fail_nomem(r);
    kt_status status = object ? read_bias_object(r, &at, v, items)
                              : read_bias_array(r, &at, v, items);
    if (status != KT_OK || !n) return status;
    r->request->req.gen.sampling.logit_bias = items;
    r->request->req.gen.sampling.n_logit_bias = n;
    return KT_OK;
}

/* Chat: a boolean, and top_logprobs next to it. Text: a number. Native: n_probs. */
static kt_status read_logprobs(const kt__wire_reader *r, const json_t *body) {
    kt__wire_form form = r->request->form;
    kt__wire_place at = {.key = "logprobs"}, top_at = {.key = "top_logprobs"},
                   probs = {.key = "n_probs"};
    const json_t *v = kt__wire_member(body, "logprobs"),
                 *top = kt__wire_member(body, "top_logprobs");
    const json_t *n_probs = kt__wire_member(body, "n_probs");
    int64_t n = -1;
    bool on = false;
    kt_status status = KT_OK;
    if (form == KT__WIRE_NATIVE && n_probs) {
        status = kt__wire_read_int(r, &probs, n_probs, 0, KT_LOGPROBS_MAX, &n);
        if (n == 0) n = -1;
    } else if (form == KT__WIRE_TEXT || (v && json_is_number(v) && form == KT__WIRE_NATIVE)) {
        if (v) status = kt__wire_read_int(r, &at, v, 0, KT_LOGPROBS_MAX, &n);
    } else {
        if (v) status = kt__wire_read_bool(r, &at, v, &on);
        if (status == KT_OK && on) n = 0;
        if (status == KT_OK && top) {
            status = kt__wire_read_int(r, &top_at, top, 0, KT_LOGPROBS_MAX, &n);
            if (status == KT_OK && !on)
                status = kt__wire_fail_at(r, KT_E_ARG, &top_at, "needs \"logprobs\": true");
        }
    }
    r->request->req.logprobs.n = (int32_t)n;
    return status;
}

/* OpenAI's completions: with logprobs, those of the prompt as well. */
static kt_status read_echo(const kt__wire_reader *r, const json_t *body) {
    kt__wire_request *request = r->request;
    kt__wire_place at = {.key = "echo"};
    const json_t *v = kt__wire_member(body, "echo");
    kt_status status = v ? kt__wire_read_bool(r, &at, v, &request->echo) : KT_OK;
    if (status != KT_OK || !request->echo) return status;
    if (request->form != KT__WIRE_TEXT)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "only in /v1/completions");
    if (request->stream)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "not supported with \"stream\"");
    request->req.logprobs.prompt = request->req.logprobs.n >= 0;
    return KT_OK;
}

/* Of best_of answers the n most probable: which they are is known when all have ended. */
static kt_status read_best_of(const kt__wire_reader *r, const json_t *body) {
    kt__wire_request *request = r->request;
    kt__wire_place at = {.key = "best_of"};
    const json_t *v = kt__wire_member(body, "best_of");
    int32_t n = request->req.n_choices;
    int64_t of = n;
    if (!v) return KT_OK;
    kt_status status = kt__wire_read_int(r, &at, v, n, KT_CHOICES_MAX, &of);
    if (status != KT_OK || of == n) return status;
    if (request->form != KT__WIRE_TEXT)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "above n only in /v1/completions");
    if (request->stream)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "not supported with \"stream\"");
    request->n_best = n;
    request->req.n_choices = (int32_t)of;
    request->hide_logprobs = request->req.logprobs.n < 0;
    if (request->hide_logprobs) request->req.logprobs.n = 0;
    return KT_OK;
}

/* ---- adapters ---- */

static kt_status read_adapter_object(const kt__wire_reader *r, const kt__wire_place *at,
                                     const json_t *v, kt__adapter_named *out) {
    kt__wire_place name_at = {.up = at, .key = "name"}, scale_at = {.up = at, .key = "scale"};
    const json_t *name = kt__wire_member(v, "name"), *scale = kt__wire_member(v, "scale");
    double x = 1.0;
    char *text;
    if (!name) return kt__wire_fail_at(r, KT_E_ARG, &name_at, "is missing");
    kt_status status = kt__wire_read_string(r, &name_at, name, &text, NULL);
    if (status == KT_OK && scale)
        status = kt__wire_read_number(r, &scale_at, scale, -KT_ADAPTER_SCALE_MAX,
                                      KT_ADAPTER_SCALE_MAX, &x);
    if (status == KT_OK) *out = (kt__adapter_named){text, (float)x};
    return status;
}

static kt_status read_adapter(const kt__wire_reader *r, const kt__wire_place *at, const json_t *v,
                              kt__adapter_named *out) {
    char *text;
    if (json_is_object(v)) return read_adapter_object(r, at, v, out);
    if (!json_is_string(v)) return kt__wire_fail_type(r, at, "a name or an object with one", v);
    kt_status status = kt__wire_read_string(r, at, v, &text, NULL);
    if (status == KT_OK) *out = (kt__adapter_named){text, 1.0f};
    return status;
}

/* "NAME", {"name", "scale"}, an array of such, or "none". */
kt_status kt__wire_read_adapters(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "adapter"};
    const json_t *v = kt__wire_member(body, "adapter");
    kt__wire_request *request = r->request;
    if (!v) return KT_OK;
    request->adapters_given = true;
    if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= UINT32_MAX) {
        request->version_given = true;
        request->learned_version = json_integer_value(v);
        return KT_OK;
    }
    const char *word = json_string_value(v);
    if (word && (!strcmp(word, "none") || !*word)) return KT_OK;
    bool list = json_is_array(v);
    size_t n = list ? json_array_size(v) : 1;
    if (n > KT_ADAPTERS_MAX)
        return kt__wire_fail_at(r, KT_E_LIMIT, &at, "%zu adapters; at most %d are allowed", n,
                                KT_ADAPTERS_MAX);
    kt__adapter_named *named = kt__arena_calloc(r->arena, n + 1, sizeof *named);
    if (!named) return kt__wire_fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        kt__wire_place item = {.up = &at, .index = i};
        kt_status status = read_adapter(r, list ? &item : &at, list ? json_array_get(v, i) : v,
                                        &named[i]);
        if (status != KT_OK) return status;
    }
    request->adapters = named;
    request->n_adapters = n;
    return KT_OK;
}

static kt_status read_stream_options(const kt__wire_reader *r, const json_t *body) {
    kt__wire_place at = {.key = "stream_options"}, usage_at = {.up = &at, .key = "include_usage"};
    const json_t *v = kt__wire_member(body, "stream_options");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return kt__wire_fail_type(r, &at, "an object", v);
    const json_t *usage = kt__wire_member(v, "include_usage");
    return usage ? kt__wire_read_bool(r, &usage_at, usage, &r->request->include_usage) : KT_OK;
}

kt_status kt__wire_read_fields(const kt__wire_reader *r, const json_t *body) {
    KT__STEP(read_rows(r, body));
    KT__STEP(read_seed(r, body));
    KT__STEP(read_deadline(r, body));
    KT__STEP(read_cache_prompt(r, body));
    KT__STEP(read_stops(r, body));
    KT__STEP(read_breakers(r, body));
    KT__STEP(read_samplers(r, body));
    KT__STEP(read_logit_bias(r, body));
    KT__STEP(read_logprobs(r, body));
    KT__STEP(read_echo(r, body));
    KT__STEP(read_best_of(r, body));
    KT__STEP(kt__wire_read_adapters(r, body));
    r->request->req.events.progress = r->request->stream && (r->request->return_progress ||
                                                             r->request->timings_per_token);
    return read_stream_options(r, body);
}
