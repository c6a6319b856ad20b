/* Requests: JSON to kt__wire_request. */
#include "serve/wire.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* ---- places: a path is built from the stack, and written out only for an error ---- */

typedef struct place {
    const struct place *up; /* NULL: the body itself */
    const char *key;        /* NULL: an array's element */
    size_t index;
} place;

typedef struct reader {
    kt__wire_request *request;
    kt__arena *arena;
    const char *prefix; /* or NULL */
    kt_error *err;
} reader;

static size_t path_write(const reader *r, const place *at, char *out, size_t size) {
    size_t len = at->up ? path_write(r, at->up, out, size)
                        : (size_t)snprintf(out, size, "%s", r->prefix ? r->prefix : "");
    if (len >= size) return size;
    int n = at->key ? snprintf(out + len, size - len, "%s%s", len ? "." : "", at->key)
                    : snprintf(out + len, size - len, "[%zu]", at->index);
    return len + (size_t)(n > 0 ? n : 0);
}

static kt_status fail_at(const reader *r, kt_status code, const place *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static kt_status fail_at(const reader *r, kt_status code, const place *at, const char *fmt, ...) {
    char path[sizeof((kt_error *)0)->where], text[sizeof((kt_error *)0)->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)path_write(r, at, path, sizeof path);
    return kt__fail_at(r->err, code, path, UINT64_MAX, "%s: %s", path, text);
}

static kt_status fail_nomem(const reader *r) {
    return kt__fail_nomem(r->err, "a request", r->arena->used_bytes);
}

static const char *type_name(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    default: return "null";
    }
}

static kt_status fail_type(const reader *r, const place *at, const char *expected,
                           const json_t *found) {
    return fail_at(r, KT_E_ARG, at, "expected %s, got %s", expected, type_name(found));
}

/* The member, or NULL when it is absent or null. */
static json_t *member(const json_t *object, const char *key) {
    json_t *v = json_object_get(object, key);
    return v && !json_is_null(v) ? v : NULL;
}

/* ---- single values ---- */

static kt_status read_number(const reader *r, const place *at, const json_t *v, double low,
                             double high, double *out) {
    if (!json_is_number(v)) return fail_type(r, at, "a number", v);
    double x = json_number_value(v);
    if (!(x >= low && x <= high)) {
        return fail_at(r, KT_E_ARG, at, "expected a number from %g to %g, got %g", low, high, x);
    }
    *out = x;
    return KT_OK;
}

/* 40.0 is as good as 40: some languages have no integers. */
static kt_status read_int(const reader *r, const place *at, const json_t *v, int64_t low,
                          int64_t high, int64_t *out) {
    if (!json_is_number(v)) return fail_type(r, at, "a whole number", v);
    double x = json_number_value(v);
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
    } else if (x == floor(x) && fabs(x) <= 0x1p53) {
        *out = (int64_t)x;
    } else {
        return fail_at(r, KT_E_ARG, at, "expected a whole number, got %g", x);
    }
    if (*out >= low && *out <= high) return KT_OK;
    return fail_at(r, KT_E_ARG, at, "expected a whole number from %lld to %lld, got %lld",
                   (long long)low, (long long)high, (long long)*out);
}

static kt_status read_bool(const reader *r, const place *at, const json_t *v, bool *out) {
    if (!json_is_boolean(v)) return fail_type(r, at, "true or false", v);
    *out = json_is_true(v);
    return KT_OK;
}

/* A copy in the arena; *len may be NULL. jansson refuses a NUL within. */
static kt_status read_string(const reader *r, const place *at, const json_t *v, char **out,
                             size_t *len) {
    if (!json_is_string(v)) return fail_type(r, at, "a string", v);
    size_t n = json_string_length(v);
    *out = kt__arena_strndup(r->arena, json_string_value(v), n);
    if (len) *len = n;
    return *out ? KT_OK : fail_nomem(r);
}

static kt_status read_text_member(const reader *r, const json_t *body, const char *key,
                                  const char **out) {
    place at = {.key = key};
    json_t *v = member(body, key);
    char *text;
    if (!v) return KT_OK;
    kt_status status = read_string(r, &at, v, &text, NULL);
    if (status == KT_OK) *out = text;
    return status;
}

/* "id" of a native body: text, or a whole number as text. */
static kt_status read_id(const reader *r, const json_t *body) {
    const json_t *v = member(body, "id");
    char digits[24];
    if (!v || !json_is_integer(v)) return read_text_member(r, body, "id", &r->request->id);
    int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(v));
    r->request->id = kt__arena_strndup(r->arena, digits, (size_t)n);
    return r->request->id ? KT_OK : fail_nomem(r);
}

/* A string or an array of them; empty strings are left out. */
static kt_status read_strings(const reader *r, const place *at, const json_t *v, size_t max,
                              const char *const **out, size_t *n_out) {
    bool one = json_is_string(v);
    if (!one && !json_is_array(v)) return fail_type(r, at, "a string or an array of strings", v);
    size_t n = one ? 1 : json_array_size(v);
    if (n > max) {
        return fail_at(r, KT_E_LIMIT, at, "%zu strings; at most %zu are allowed", n, max);
    }
    char **list = kt__arena_calloc(r->arena, n + 1, sizeof *list);
    if (!list) return fail_nomem(r);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        place item = {.up = at, .index = i};
        size_t len = 0;
        kt_status status =
            read_string(r, one ? at : &item, one ? v : json_array_get(v, i), &list[kept], &len);
        if (status != KT_OK) return status;
        if (len) kept++;
    }
    *out = (const char *const *)list;
    *n_out = kept;
    return KT_OK;
}

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
    {"temperature", FLOAT, S(temperature), -1e6, 1e6},
    {"dynatemp_range", FLOAT, S(dynatemp_range), 0, 1e6},
    {"dynatemp_exponent", FLOAT, S(dynatemp_exponent), 0, 100},
    {"top_k", INT, S(top_k), -1, INT32_MAX},
    {"top_p", FLOAT, S(top_p), 0, 1},
    {"min_p", FLOAT, S(min_p), 0, 1},
    {"typical_p", FLOAT, S(typical_p), 0, 1},
    {"top_n_sigma", FLOAT, S(top_n_sigma), -1e6, 1e6},
    {"xtc_probability", FLOAT, S(xtc_probability), 0, 1},
    {"xtc_threshold", FLOAT, S(xtc_threshold), 0, 1},
    {"repeat_last_n", INT, S(repeat_last_n), -1, INT32_MAX},
    {"repeat_penalty", FLOAT, S(repeat_penalty), 1e-3, 1e3},
    {"repetition_penalty", FLOAT, S(repeat_penalty), 1e-3, 1e3},
    {"frequency_penalty", FLOAT, S(frequency_penalty), -1e3, 1e3},
    {"presence_penalty", FLOAT, S(presence_penalty), -1e3, 1e3},
    {"dry_multiplier", FLOAT, S(dry_multiplier), 0, 1e3},
    {"dry_base", FLOAT, S(dry_base), 1, 1e3},
    {"dry_allowed_length", INT, S(dry_allowed_length), 1, INT32_MAX},
    {"dry_penalty_last_n", INT, S(dry_penalty_last_n), -1, INT32_MAX},
    {"mirostat", INT, S(mirostat), 0, 2},
    {"mirostat_tau", FLOAT, S(mirostat_tau), 0, 1e3},
    {"mirostat_eta", FLOAT, S(mirostat_eta), 0, 100},
    {"min_keep", INT, S(min_keep), 0, INT32_MAX},
    {"ignore_eos", BOOL, AT(req.gen.ignore_eog), 0, 0},
    {"n_predict", INT, AT(req.gen.n_predict), -1, INT32_MAX},
    {"max_tokens", INT, AT(req.gen.n_predict), -1, INT32_MAX},
    {"max_completion_tokens", INT, AT(req.gen.n_predict), -1, INT32_MAX},
    {"n", INT, AT(req.n_choices), 1, KT_CHOICES_MAX},
    {"stream", BOOL, AT(stream), 0, 0},
    {"priority", INT, AT(req.priority), -KT_PRIORITY_MAX, KT_PRIORITY_MAX},
};

static kt_status read_field(const reader *r, const field *f, const json_t *v) {
    place at = {.key = f->name};
    char *target = (char *)r->request + f->at;
    kt_status status;
    double x = 0;
    int64_t i = 0;
    if (f->kind == BOOL) return read_bool(r, &at, v, (bool *)(void *)target);
    if (f->kind == FLOAT) {
        status = read_number(r, &at, v, f->low, f->high, &x);
        if (status == KT_OK) *(float *)(void *)target = (float)x;
    } else {
        status = read_int(r, &at, v, (int64_t)f->low, (int64_t)f->high, &i);
        if (status == KT_OK) *(int32_t *)(void *)target = (int32_t)i;
    }
    return status;
}

static kt_status read_fields(const reader *r, const json_t *body) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *v = member(body, fields[i].name);
        kt_status status = v ? read_field(r, &fields[i], v) : KT_OK;
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* ---- fields with a shape of their own ---- */

static kt_status read_seed(const reader *r, const json_t *body) {
    place at = {.key = "seed"};
    const json_t *v = member(body, "seed");
    int64_t seed;
    if (!v) return KT_OK;
    kt_status status = read_int(r, &at, v, INT64_MIN, INT64_MAX, &seed);
    if (status == KT_OK)
        r->request->req.gen.sampling.seed = (uint64_t)seed; /* -1: KT_SEED_RANDOM */
    return status;
}

static kt_status read_deadline(const reader *r, const json_t *body) {
    place at = {.key = "deadline_ms"};
    const json_t *v = member(body, "deadline_ms");
    return v ? read_int(r, &at, v, 0, INT64_MAX / 1000000, &r->request->req.deadline_ms) : KT_OK;
}

static kt_status read_cache_prompt(const reader *r, const json_t *body) {
    place at = {.key = "cache_prompt"};
    const json_t *v = member(body, "cache_prompt");
    bool cache = true;
    if (!v) return KT_OK;
    kt_status status = read_bool(r, &at, v, &cache);
    if (status == KT_OK) r->request->req.no_cache = !cache;
    return status;
}

static kt_status read_stops(const reader *r, const json_t *body) {
    place at = {.key = "stop"};
    const json_t *v = member(body, "stop");
    kt_gen_params *gen = &r->request->req.gen;
    return v ? read_strings(r, &at, v, KT__WIRE_MAX_STOPS, &gen->stop, &gen->n_stop) : KT_OK;
}

static kt_status read_breakers(const reader *r, const json_t *body) {
    place at = {.key = "dry_sequence_breakers"};
    const json_t *v = member(body, "dry_sequence_breakers");
    kt_sampling *s = &r->request->req.gen.sampling;
    return v ? read_strings(r, &at, v, 256, &s->dry_breakers, &s->n_dry_breakers) : KT_OK;
}

/* "samplers": ["top_k", "temperature"], or the same as text with semicolons. */
static kt_status read_samplers(const reader *r, const json_t *body) {
    place at = {.key = "samplers"};
    const json_t *v = member(body, "samplers");
    const char *const *names = NULL;
    size_t n = 0, bytes = 1;
    if (!v) return KT_OK;
    kt_status status = read_strings(r, &at, v, 64, &names, &n);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < n; i++) bytes += strlen(names[i]) + 1;
    char *chain = kt__arena_calloc(r->arena, bytes, 1), *end = chain;
    if (!chain) return fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        if (i) *end++ = ';';
        memcpy(end, names[i], len);
        end += len;
    }
    r->request->req.gen.sampling.chain = chain;
    return KT_OK;
}

static kt_status read_bias(const reader *r, const place *at, const json_t *value, float *out) {
    double x = -INFINITY; /* false: never */
    kt_status status = KT_OK;
    if (!json_is_false(value)) status = read_number(r, at, value, -1e30, 1e30, &x);
    *out = (float)x;
    return status;
}

/* {"15043": -100, ...}; iteration order is that of insertion. */
static kt_status read_bias_object(const reader *r, const place *at, json_t *v,
                                  kt_logit_bias *items) {
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach(v, key, value) {
        place item = {.up = at, .key = key};
        char *end = NULL;
        long long id =
            key[0] >= '0' && key[0] <= '9' && strlen(key) < 11 ? strtoll(key, &end, 10) : -1;
        if (!end || *end || id > INT32_MAX) {
            return fail_at(r, KT_E_ARG, &item, "the name is not a token id");
        }
        items[n].id = (int32_t)id;
        kt_status status = read_bias(r, &item, value, &items[n++].bias);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* [[15043, 1.5], [50, false]] */
static kt_status read_bias_array(const reader *r, const place *at, json_t *v,
                                 kt_logit_bias *items) {
    size_t i;
    json_t *pair;
    json_array_foreach(v, i, pair) {
        place item = {.up = at, .index = i};
        int64_t id;
        if (!json_is_array(pair) || json_array_size(pair) != 2) {
            return fail_type(r, &item, "a pair of token id and bias", pair);
        }
        if (json_is_string(json_array_get(pair, 0))) {
            return fail_at(r, KT_E_UNSUPPORTED, &item,
                           "a bias on a text is not supported: give token ids");
        }
        kt_status status = read_int(r, &item, json_array_get(pair, 0), 0, INT32_MAX, &id);
        if (status != KT_OK) return status;
        items[i].id = (int32_t)id;
        status = read_bias(r, &item, json_array_get(pair, 1), &items[i].bias);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

static kt_status read_logit_bias(const reader *r, const json_t *body) {
    place at = {.key = "logit_bias"};
    json_t *v = member(body, "logit_bias");
    if (!v) return KT_OK;
    bool object = json_is_object(v);
    if (!object && !json_is_array(v)) return fail_type(r, &at, "an object of token ids", v);
    size_t n = object ? json_object_size(v) : json_array_size(v);
    kt_logit_bias *items = kt__arena_calloc(r->arena, n + 1, sizeof *items);
    if (!items) return fail_nomem(r);
    kt_status status =
        object ? read_bias_object(r, &at, v, items) : read_bias_array(r, &at, v, items);
    if (status != KT_OK || !n) return status;
    r->request->req.gen.sampling.logit_bias = items;
    r->request->req.gen.sampling.n_logit_bias = n;
    return KT_OK;
}

/* Chat: a boolean, and top_logprobs beside it. Text: a number. Native: n_probs. */
static kt_status read_logprobs(const reader *r, const json_t *body) {
    kt__wire_form form = r->request->form;
    place at = {.key = "logprobs"}, top_at = {.key = "top_logprobs"}, probs = {.key = "n_probs"};
    const json_t *v = member(body, "logprobs"), *top = member(body, "top_logprobs");
    const json_t *n_probs = member(body, "n_probs");
    int64_t n = -1;
    bool on = false;
    kt_status status = KT_OK;
    if (form == KT__WIRE_NATIVE && n_probs) {
        status = read_int(r, &probs, n_probs, 0, KT_LOGPROBS_MAX, &n);
        if (n == 0) n = -1;
    } else if (form == KT__WIRE_TEXT || (v && json_is_number(v) && form == KT__WIRE_NATIVE)) {
        if (v) status = read_int(r, &at, v, 0, KT_LOGPROBS_MAX, &n);
    } else {
        if (v) status = read_bool(r, &at, v, &on);
        if (status == KT_OK && on) n = 0;
        if (status == KT_OK && top) {
            status = read_int(r, &top_at, top, 0, KT_LOGPROBS_MAX, &n);
            if (status == KT_OK && !on)
                status = fail_at(r, KT_E_ARG, &top_at, "needs \"logprobs\": true");
        }
    }
    r->request->req.n_logprobs = (int32_t)n;
    return status;
}

static kt_status read_stream_options(const reader *r, const json_t *body) {
    place at = {.key = "stream_options"}, usage_at = {.up = &at, .key = "include_usage"};
    const json_t *v = member(body, "stream_options");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return fail_type(r, &at, "an object", v);
    const json_t *usage = member(v, "include_usage");
    return usage ? read_bool(r, &usage_at, usage, &r->request->include_usage) : KT_OK;
}

/* ---- what kentang does not do is refused, never ignored ---- */

static bool is_empty(const json_t *v) {
    return (json_is_array(v) && !json_array_size(v)) ||
           (json_is_object(v) && !json_object_size(v)) ||
           (json_is_string(v) && !json_string_length(v)) || json_is_false(v);
}

static kt_status refuse_if_given(const reader *r, const json_t *body, const char *key,
                                 const char *why) {
    place at = {.key = key};
    const json_t *v = member(body, key);
    if (!v || is_empty(v)) return KT_OK;
    return fail_at(r, KT_E_UNSUPPORTED, &at, "not supported%s%s", why ? ": " : "", why ? why : "");
}

/* Text and JSON objects; a schema is refused, since an answer that ignores it would look bound. */
static kt_status read_response_format(const reader *r, const json_t *body) {
    place at = {.key = "response_format"}, type_at = {.up = &at, .key = "type"};
    const json_t *v = member(body, "response_format");
    if (!v) return KT_OK;
    if (!json_is_object(v)) return fail_type(r, &at, "an object", v);
    const json_t *type = member(v, "type");
    if (!type) return fail_at(r, KT_E_ARG, &type_at, "is missing");
    if (!json_is_string(type)) return fail_type(r, &type_at, "a string", type);
    const char *name = json_string_value(type);
    if (!strcmp(name, "json_object")) r->request->req.constraint = KT_CONSTRAINT_JSON;
    if (!strcmp(name, "text") || !strcmp(name, "json_object")) return KT_OK;
    return fail_at(r, KT_E_UNSUPPORTED, &type_at,
                   "\"%.40s\" is not supported, only \"text\" and \"json_object\"", name);
}

/* "auto" and "none" hold of a request without tools as well. */
static kt_status refuse_tool_choice(const reader *r, const json_t *body, const char *key) {
    const json_t *v = member(body, key);
    const char *text = v ? json_string_value(v) : NULL;
    if (text && (!strcmp(text, "auto") || !strcmp(text, "none"))) return KT_OK;
    return refuse_if_given(r, body, key, "kentang cannot call tools yet");
}

static kt_status refuse_modalities(const reader *r, const json_t *body) {
    place at = {.key = "modalities"};
    const json_t *v = member(body, "modalities"), *item;
    size_t i;
    if (!v) return KT_OK;
    if (!json_is_array(v)) return fail_type(r, &at, "an array", v);
    json_array_foreach(v, i, item) {
        place here = {.up = &at, .index = i};
        if (json_is_string(item) && !strcmp(json_string_value(item), "text")) continue;
        return fail_at(r, KT_E_UNSUPPORTED, &here, "only \"text\" is supported");
    }
    return KT_OK;
}

static kt_status refuse_best_of(const reader *r, const json_t *body) {
    place at = {.key = "best_of"};
    const json_t *v = member(body, "best_of");
    int64_t n;
    if (!v) return KT_OK;
    kt_status status = read_int(r, &at, v, 1, INT32_MAX, &n);
    if (status != KT_OK || n <= r->request->req.n_choices) return status;
    return fail_at(r, KT_E_UNSUPPORTED, &at, "not supported beyond n");
}

static kt_status refuse_the_rest(const reader *r, const json_t *body) {
    static const struct {
        const char *key, *why;
    } refused[] = {
        {"tools", "kentang cannot call tools yet"},
        {"functions", "kentang cannot call tools yet"},
        {"json_schema", "answers cannot be bound to a schema yet"},
        {"grammar", "answers cannot be bound to a grammar yet"},
        {"audio", NULL},
        {"web_search_options", NULL},
        {"image_data", "kentang sees no images"},
        {"suffix", "only text that continues a prompt"},
        {"echo", "the prompt is not part of the answer"},
        {"lora", NULL},
        {"chat_template_kwargs", NULL},
    };
    kt_status status = KT_OK;
    for (size_t i = 0; status == KT_OK && i < sizeof refused / sizeof refused[0]; i++) {
        status = refuse_if_given(r, body, refused[i].key, refused[i].why);
    }
    if (status == KT_OK) status = refuse_tool_choice(r, body, "tool_choice");
    if (status == KT_OK) status = refuse_tool_choice(r, body, "function_call");
    if (status == KT_OK) status = refuse_modalities(r, body);
    if (status == KT_OK) status = refuse_best_of(r, body);
    return status;
}

/* ---- messages ---- */

static kt_status read_role(const reader *r, const place *up, const json_t *message,
                           const char **out) {
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    place at = {.up = up, .key = "role"};
    const json_t *v = member(message, "role");
    if (!v) return fail_at(r, KT_E_ARG, &at, "is missing");
    if (!json_is_string(v)) return fail_type(r, &at, "a string", v);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(json_string_value(v), roles[i]) != 0) continue;
        *out = roles[i < 4 ? i : 0]; /* "developer" is the later name of "system" */
        return KT_OK;
    }
    return fail_at(r, KT_E_ARG, &at,
                   "\"%.40s\" is not known: expected system, developer, user, assistant or tool",
                   json_string_value(v));
}

/* The text of one element of a content array. */
static kt_status part_text(const reader *r, const place *at, const json_t *part,
                           const json_t **text) {
    place type_at = {.up = at, .key = "type"}, text_at = {.up = at, .key = "text"};
    if (!json_is_object(part)) return fail_type(r, at, "an object", part);
    const json_t *type = member(part, "type");
    if (!type || !json_is_string(type)) return fail_at(r, KT_E_ARG, &type_at, "expected a string");
    if (strcmp(json_string_value(type), "text") != 0) {
        return fail_at(r, KT_E_UNSUPPORTED, &type_at, "\"%.40s\" is not supported, only \"text\"",
                       json_string_value(type));
    }
    *text = json_object_get(part, "text");
    if (!*text) return fail_at(r, KT_E_ARG, &text_at, "is missing");
    return json_is_string(*text) ? KT_OK : fail_type(r, &text_at, "a string", *text);
}

/* Parts are joined by newlines. */
static kt_status join_parts(const reader *r, const place *at, const json_t *parts,
                            const char **out) {
    size_t n = json_array_size(parts), bytes = 1;
    const json_t *text = NULL;
    for (size_t i = 0; i < n; i++) {
        place here = {.up = at, .index = i};
        kt_status status = part_text(r, &here, json_array_get(parts, i), &text);
        if (status != KT_OK) return status;
        bytes += json_string_length(text) + 1;
    }
    char *joined = kt__arena_calloc(r->arena, bytes, 1), *end = joined;
    if (!joined) return fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        text = json_object_get(json_array_get(parts, i), "text");
        if (i) *end++ = '\n';
        memcpy(end, json_string_value(text), json_string_length(text));
        end += json_string_length(text);
    }
    *out = joined;
    return KT_OK;
}

static kt_status read_content(const reader *r, const place *up, const json_t *message,
                              kt_message *out) {
    place at = {.up = up, .key = "content"};
    const json_t *v = member(message, "content");
    char *text;
    if (!v && !strcmp(out->role, "assistant")) {
        out->content = "";
        return KT_OK;
    }
    if (!v) return fail_at(r, KT_E_ARG, &at, "is missing");
    if (json_is_array(v)) return join_parts(r, &at, v, &out->content);
    if (!json_is_string(v)) return fail_type(r, &at, "a string or an array of parts", v);
    kt_status status = read_string(r, &at, v, &text, NULL);
    if (status == KT_OK) out->content = text;
    return status;
}

static kt_status read_message(const reader *r, const place *at, const json_t *message,
                              kt_message *out) {
    place calls_at = {.up = at, .key = "tool_calls"};
    if (!json_is_object(message)) return fail_type(r, at, "an object", message);
    const json_t *calls = member(message, "tool_calls");
    if (calls && !is_empty(calls)) {
        return fail_at(r, KT_E_UNSUPPORTED, &calls_at,
                       "not supported: kentang cannot call tools yet");
    }
    kt_status status = read_role(r, at, message, &out->role);
    return status == KT_OK ? read_content(r, at, message, out) : status;
}

static kt_status read_messages(const reader *r, const json_t *v) {
    place at = {.key = "messages"};
    if (!json_is_array(v)) return fail_type(r, &at, "an array", v);
    size_t n = json_array_size(v);
    if (!n) return fail_at(r, KT_E_ARG, &at, "is empty");
    if (n > KT__WIRE_MAX_MESSAGES) {
        return fail_at(r, KT_E_LIMIT, &at, "%zu messages; at most %d are allowed", n,
                       KT__WIRE_MAX_MESSAGES);
    }
    kt_message *messages = kt__arena_calloc(r->arena, n, sizeof *messages);
    if (!messages) return fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        place here = {.up = &at, .index = i};
        kt_status status = read_message(r, &here, json_array_get(v, i), &messages[i]);
        if (status != KT_OK) return status;
    }
    r->request->req.messages = messages;
    r->request->req.n_messages = n;
    return KT_OK;
}

/* ---- prompts that are no conversation ---- */

static kt_status read_prompt_ids(const reader *r, const place *at, const json_t *v,
                                 kt__wire_prompt *out) {
    size_t n = json_array_size(v);
    if (!n) return fail_at(r, KT_E_ARG, at, "is empty");
    int32_t *ids = kt__arena_calloc(r->arena, n, sizeof *ids);
    if (!ids) return fail_nomem(r);
    for (size_t i = 0; i < n; i++) {
        place here = {.up = at, .index = i};
        int64_t id;
        kt_status status = read_int(r, &here, json_array_get(v, i), 0, INT32_MAX, &id);
        if (status != KT_OK) return status;
        ids[i] = (int32_t)id;
    }
    out->ids = ids;
    out->n_ids = n;
    return KT_OK;
}

/* "text" or [ids] */
static kt_status read_prompt(const reader *r, const place *at, const json_t *v,
                             kt__wire_prompt *out) {
    char *text;
    if (json_is_array(v)) return read_prompt_ids(r, at, v, out);
    if (!json_is_string(v)) return fail_type(r, at, "a string or an array of token ids", v);
    kt_status status = read_string(r, at, v, &text, &out->len);
    if (status == KT_OK) out->text = text;
    return status;
}

/* Either of the two, or an array of them. */
static kt_status read_prompts(const reader *r, const json_t *v) {
    place at = {.key = "prompt"};
    const json_t *first = json_is_array(v) ? json_array_get(v, 0) : NULL;
    bool list = first && !json_is_number(first);
    size_t n = list ? json_array_size(v) : 1;
    if (n > KT__WIRE_MAX_PROMPTS)
        return fail_at(r, KT_E_ARG, &at, "%zu prompts; at most %d are allowed", n,
                       KT__WIRE_MAX_PROMPTS);
    if (n > 1 && r->request->form != KT__WIRE_TEXT)
        return fail_at(r, KT_E_UNSUPPORTED, &at,
                       "several prompts in one request are not supported here: send one each");
    kt__wire_prompt *prompts = kt__arena_calloc(r->arena, n, sizeof *prompts);
    kt_status status = prompts ? KT_OK : fail_nomem(r);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        place here = {.up = &at, .index = i};
        status = read_prompt(r, list ? &here : &at, list ? json_array_get(v, i) : v, &prompts[i]);
    }
    if (status != KT_OK) return status;
    r->request->prompts = prompts;
    r->request->n_prompts = n;
    kt__wire_set_prompt(r->request, 0, &r->request->req);
    return KT_OK;
}

void kt__wire_set_prompt(const kt__wire_request *request, size_t index, kt_request *to) {
    if (!request->prompts) return;
    const kt__wire_prompt *p = &request->prompts[index];
    to->text = p->text;
    to->text_len = p->len;
    to->ids = p->ids;
    to->n_ids = p->n_ids;
}

static kt_status read_subject(const reader *r, const json_t *body) {
    place prompt_at = {.key = "prompt"}, messages_at = {.key = "messages"};
    kt__wire_form form = r->request->form;
    const json_t *messages = member(body, "messages"), *prompt = member(body, "prompt");
    if (form == KT__WIRE_CHAT) prompt = NULL;
    if (form == KT__WIRE_TEXT) messages = NULL;
    if (prompt && messages) {
        return fail_at(r, KT_E_ARG, &prompt_at, "give either \"prompt\" or \"messages\"");
    }
    if (messages) return read_messages(r, messages);
    if (prompt) return read_prompts(r, prompt);
    return fail_at(r, KT_E_ARG, form == KT__WIRE_CHAT ? &messages_at : &prompt_at, "is missing%s",
                   form == KT__WIRE_NATIVE ? ": give \"prompt\" or \"messages\"" : "");
}

/* ---- the whole ---- */

static kt_status read_body(const reader *r, const json_t *body) {
    kt_status status;
    KT__TRY(read_fields(r, body));
    KT__TRY(read_seed(r, body));
    KT__TRY(read_deadline(r, body));
    KT__TRY(read_cache_prompt(r, body));
    KT__TRY(read_stops(r, body));
    KT__TRY(read_breakers(r, body));
    KT__TRY(read_samplers(r, body));
    KT__TRY(read_logit_bias(r, body));
    KT__TRY(read_logprobs(r, body));
    KT__TRY(read_stream_options(r, body));
    KT__TRY(read_text_member(r, body, "model", &r->request->model));
    KT__TRY(read_text_member(r, body, "user", &r->request->user));
    if (r->request->form == KT__WIRE_NATIVE) KT__TRY(read_id(r, body));
    KT__TRY(read_response_format(r, body));
    KT__TRY(refuse_the_rest(r, body));
    KT__TRY(read_subject(r, body));
out:
    return status;
}

kt_status kt__wire_read_value(kt__wire_form form, const json_t *body, const char *prefix,
                              const kt_request *defaults, kt__wire_request **out, kt_error *err) {
    *out = NULL;
    kt__error_clear(err);
    if (!json_is_object(body)) {
        return kt__fail_at(err, KT_E_ARG, prefix, UINT64_MAX, "expected an object, got %s",
                           body ? type_name(body) : "nothing");
    }
    kt__wire_request *request = kt__calloc(1, sizeof *request);
    if (!request) return kt__fail_nomem(err, "a request", sizeof *request);
    kt__arena_init(&request->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    request->form = form;
    request->n_prompts = 1;
    request->req = defaults ? *defaults : kt_request_default();
    request->req.text_flags = KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL;
    const reader r = {request, &request->arena, prefix, err};
    kt_status status = read_body(&r, body);
    if (status == KT_OK) {
        *out = request;
    } else {
        kt__wire_request_free(request);
    }
    return status;
}

void kt__wire_request_free(kt__wire_request *request) {
    if (!request) return;
    kt__arena_free(&request->arena);
    kt__free(request);
}

/* Brackets outside strings: found before a parser recurses over them. */
static size_t deepest(const char *json, size_t len) {
    size_t depth = 0, most = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = json[i];
        if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > most) most = depth;
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    return most;
}

kt_status kt__wire_parse(const char *json, size_t len, json_t **out, kt_error *err) {
    json_error_t error;
    *out = NULL;
    kt__error_clear(err);
    if (len > KT__WIRE_MAX_BYTES) {
        return kt__fail(err, KT_E_LIMIT, "%zu bytes of JSON; at most %d are allowed", len,
                        KT__WIRE_MAX_BYTES);
    }
    if (deepest(json, len) > KT__WIRE_MAX_DEPTH) {
        return kt__fail(err, KT_E_LIMIT, "the JSON nests deeper than %d", KT__WIRE_MAX_DEPTH);
    }
    *out = json_loadb(json, len, 0, &error);
    if (*out) return KT_OK;
    if (json_error_code(&error) == json_error_out_of_memory) {
        return kt__fail_nomem(err, "a request", len);
    }
    return kt__fail_at(err, KT_E_FORMAT, NULL, error.position < 0 ? 0 : (uint64_t)error.position,
                       "not JSON: %s", error.text);
}

kt_status kt__wire_read(kt__wire_form form, const char *json, size_t len,
                        const kt_request *defaults, kt__wire_request **out, kt_error *err) {
    json_t *body;
    *out = NULL;
    kt_status status = kt__wire_parse(json, len, &body, err);
    if (status != KT_OK) return status;
    status = kt__wire_read_value(form, body, NULL, defaults, out, err);
    json_decref(body);
    return status;
}
