/* llama-server's own /completion and /infill: a prompt and its continuation, in its words and its shape. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"

/* What is kept of a choice besides its text. */
typedef struct llama_choice {
    int32_t *ids; /* tokens of the answer, or in a stream those that no chunk has had yet */
    size_t n_ids, cap_ids;
    int32_t n_generated; /* so far */
    kt_request_report report;
} llama_choice;

typedef struct llama_answer {
    bool return_tokens;
    const char **fields;   /* [n_fields] response_fields: paths of the members that are wanted */
    size_t n_fields;       /* 0: all are */
    const char *settings;  /* generation_settings, as JSON */
    llama_choice *choices; /* [n_choices] */
} llama_answer;

/* ---- reading: its fields in the words of the common reader ---- */

static kt_status fail_field(const char *key, const char *what, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, key, UINT64_MAX, "%s: %s", key, what);
}

/* {"prompt_string": TEXT}: the text; pictures next to it are not read. */
static kt_status text_of_object(const json_t *v, json_t **out, kt_error *err) {
    const json_t *text = json_object_get(v, "prompt_string"),
                 *data = json_object_get(v, "multimodal_data");
    if (data && !json_is_null(data) && !(json_is_array(data) && !json_array_size(data)))
        return kt__fail_at(err, KT_E_UNSUPPORTED, "prompt.multimodal_data", UINT64_MAX,
                           "prompt.multimodal_data: this model reads no pictures");
    if (!json_is_string(text))
        return fail_field("prompt", "expected a text, token ids, or prompt_string", err);
    *out = json_string(json_string_value(text));
    return KT_OK;
}

static kt_status append_tokens(kt__job *job, const char *text, bool first, json_t *ids,
                               kt_error *err) {
    size_t len = strlen(text), n = 0, cap = len + 8;
    unsigned flags = KT_TOK_PARSE_SPECIAL | (first ? KT_TOK_ADD_SPECIAL : 0u);
    int32_t *found = kt__calloc(cap, sizeof *found);
    if (!found) return kt__fail_nomem(err, "token ids", cap * sizeof *found);
    kt_status status = kt_tokenize(job->model.loaded, text, len, flags, found, cap, &n, err);
    for (size_t i = 0; i < n && status == KT_OK; i++)
        json_array_append_new(ids, json_integer(found[i]));
    kt__free(found);
    return status;
}

kt_status kt__dialect_mixed_ids(kt__job *job, const char *key, const json_t *v, json_t **out,
                                kt_error *err) {
    json_t *ids = json_array(), *item;
    size_t i;
    kt_status status = ids ? KT_OK : kt__fail_nomem(err, "a prompt", 0);
    json_array_foreach((json_t *)(uintptr_t)v, i, item) {
        if (status != KT_OK) break;
        if (json_is_integer(item)) {
            json_array_append(ids, item);
        } else if (json_is_string(item)) {
            status = append_tokens(job, json_string_value(item), i == 0, ids, err);
        } else {
            status = fail_field(key, "expected texts and token ids", err);
        }
    }
    if (status == KT_OK) *out = ids;
    if (status != KT_OK) json_decref(ids);
    return status;
}

static size_t count_numbers(const json_t *v) {
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(v); i++) n += json_is_number(json_array_get(v, i));
    return n;
}

bool kt__dialect_is_mixed(const json_t *v) {
    size_t n = count_numbers(v);
    return n > 0 && n < json_array_size(v);
}

static kt_status plain_prompt(kt__job *job, json_t *v, json_t **out, kt_error *err) {
    if (json_is_object(v)) return text_of_object(v, out, err);
    if (kt__dialect_is_mixed(v)) return kt__dialect_mixed_ids(job, "prompt", v, out, err);
    *out = json_incref(v);
    return KT_OK;
}

/* A prompt, or an array of prompts where no member of it is a token id. */
static kt_status read_prompts(kt__job *job, kt_error *err) {
    json_t *v = json_object_get(job->request.json, "prompt"), *one = NULL, *item;
    kt_status status = KT_OK;
    size_t i;
    if (!v) return fail_field("prompt", "is missing", err);
    if (json_is_array(v) && json_array_size(v) && !count_numbers(v)) {
        one = json_array();
        json_array_foreach(v, i, item) {
            json_t *plain = NULL;
            if (status == KT_OK) status = plain_prompt(job, item, &plain, err);
            if (plain) json_array_append_new(one, plain);
        }
    } else {
        status = plain_prompt(job, v, &one, err);
    }
    if (status == KT_OK) json_object_set(job->request.json, "prompt", one);
    json_decref(one);
    return status;
}

static kt_status add_bias(kt__job *job, json_t *pairs, const json_t *token, const json_t *bias,
                          kt_error *err) {
    json_t *ids = json_array(), *id;
    kt_status status = KT_OK;
    size_t i;
    if (json_is_string(token)) {
        status = append_tokens(job, json_string_value(token), false, ids, err);
    } else {
        json_array_append(ids, (json_t *)(uintptr_t)token);
    }
    json_array_foreach(ids, i, id)
        json_array_append_new(pairs, json_pack("[O,O]", id, (json_t *)(uintptr_t)bias));
    json_decref(ids);
    return status;
}

static bool is_digits(const char *text) {
    return *text && strspn(text, "0123456789") == strlen(text);
}

static kt_status add_bias_array(kt__job *job, json_t *pairs, const json_t *list, kt_error *err) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (json_array_size(item) != 2)
            return fail_field("logit_bias", "expected pairs of a token and a bias", err);
        KT__STEP(add_bias(job, pairs, json_array_get(item, 0), json_array_get(item, 1), err));
    }
    return KT_OK;
}

static kt_status add_bias_object(kt__job *job, json_t *pairs, json_t *object, kt_error *err) {
    const char *key;
    json_t *bias;
    json_object_foreach(object, key, bias) {
        json_t *token = is_digits(key) ? json_integer(atoll(key)) : json_string(key);
        kt_status status = add_bias(job, pairs, token, bias, err);
        json_decref(token);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

/* A bias on a text holds for each of its tokens: [["text", -1]] and {"text": -1} as on ids. */
static kt_status read_bias(kt__job *job, kt_error *err) {
    json_t *v = json_object_get(job->request.json, "logit_bias"), *pairs = json_array();
    kt_status status = json_is_object(v) ? add_bias_object(job, pairs, v, err)
                                         : add_bias_array(job, pairs, v, err);
    if (status == KT_OK && (json_is_array(v) || json_is_object(v)))
        json_object_set(job->request.json, "logit_bias", pairs);
    json_decref(pairs);
    return status;
}

static kt_status read_response_fields(kt__job *job, llama_answer *a, kt_error *err) {
    const json_t *list = json_object_get(job->request.json, "response_fields");
    size_t n = json_array_size(list);
    if (list && !json_is_null(list) && !json_is_array(list))
        return fail_field("response_fields", "expected an array of texts", err);
    a->fields = kt__arena_calloc(&job->arena, n + 1, sizeof *a->fields);
    if (!a->fields) return kt__fail_nomem(err, "a request", n);
    for (size_t i = 0; i < n; i++) {
        const char *path = json_string_value(json_array_get(list, i));
        if (!path) return fail_field("response_fields", "expected texts", err);
        a->fields[i] = kt__arena_strndup(&job->arena, path, strlen(path));
        if (!a->fields[i]) return kt__fail_nomem(err, "a request", n);
    }
    a->n_fields = n;
    return KT_OK;
}

/* Its names for what the common reader calls otherwise, and its values that mean "as usual". */
static void rename_fields(json_t *body) {
    enum { RANDOM_SEED = 0xffffffff };
    json_t *probs = json_object_get(body, "n_probs"), *seed = json_object_get(body, "seed"),
           *n = json_object_get(body, "n_cmpl");
    if (json_is_integer(probs) && json_integer_value(probs) > 0)
        json_object_set(body, "logprobs", probs);
    if (json_is_integer(seed) && json_integer_value(seed) == RANDOM_SEED)
        json_object_set_new(body, "seed", json_integer(-1));
    if (n) json_object_set(body, "n", n);
}

static kt_status read_extra(kt__job *job, kt_error *err) {
    llama_answer *a = kt__arena_calloc(&job->arena, 1, sizeof *a);
    if (!a) return kt__fail_nomem(err, "a request", sizeof *a);
    a->return_tokens = json_is_true(json_object_get(job->request.json, "return_tokens"));
    job->extra = a;
    return read_response_fields(job, a, err);
}

/* ---- generation_settings ---- */

static json_t *sampling_settings(const kt_sampling *s) {
    json_t *o = json_object();
#define NUMBER(type, member, value, low, high, ...) \
    json_object_set_new(o, #member, NUMBER_##type((double)s->member));
#define NUMBER_FLOAT(x) json_real(x)
#define NUMBER_INT(x) json_integer((json_int_t)(x))
#include "sample/steps.def"
#undef NUMBER_FLOAT
#undef NUMBER_INT
    uint64_t seed = s->seed == KT_SEED_RANDOM ? 0xffffffffu : s->seed;
    json_object_set_new(o, "seed", json_integer((json_int_t)seed));
    json_object_set_new(o, "adaptive_target", json_real(-1));
    json_object_set_new(o, "adaptive_decay", json_real(0.9));
    return o;
}

static void add_samplers(json_t *o, const kt_sampling *s) {
    static const char usual[] = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    json_t *list = json_array();
    for (const char *at = s->chain ? s->chain : usual; *at;) {
        size_t len = strcspn(at, ";");
        json_array_append_new(list, json_stringn(at, len));
        at += len + (at[len] == ';');
    }
    json_object_set_new(o, "samplers", list);
}

/* Ends of a turn that a request forbids: they are biases, too. model: NULL: none is known. */
static void add_ends(json_t *list, const kt_model *model) {
    kt_model_info info = {0};
    if (model) kt_model_get_info(model, &info);
    for (int32_t id = 0; id < info.n_vocab; id++)
        if (kt_token_is_eog(model, id))
            json_array_append_new(list, json_pack("{s:n,s:i}", "bias", "token", (int)id));
}

/* [{"bias", "token"}], null for never */
static json_t *bias_settings(const kt_sampling *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        double bias = (double)s->logit_bias[i].bias;
        json_t *value = isinf(bias) ? json_null() : json_real(bias);
        json_array_append_new(
            list, json_pack("{s:o,s:i}", "bias", value, "token", (int)s->logit_bias[i].id));
    }
    return list;
}

json_t *kt__llama_settings(const kt_request_params *r, const kt_model *model, bool stream) {
    json_t *o = sampling_settings(&r->gen.sampling), *stops = json_array();
    json_t *biases = bias_settings(&r->gen.sampling);
    if (r->gen.ignore_eog) add_ends(biases, model);
    for (size_t i = 0; i < r->gen.n_stop; i++)
        json_array_append_new(stops, json_string(r->gen.stop[i]));
    json_object_set_new(o, "stop", stops);
    json_object_set_new(o, "n_predict", json_integer(r->gen.n_predict));
    json_object_set_new(o, "max_tokens", json_integer(r->gen.n_predict));
    json_object_set_new(o, "logit_bias", biases);
    json_object_set_new(o, "n_keep", json_integer(r->overflow.n_keep));
    json_object_set_new(o, "n_discard", json_integer(0));
    json_object_set_new(o, "ignore_eos", json_boolean(r->gen.ignore_eog));
    json_object_set_new(o, "stream", json_boolean(stream));
    json_object_set_new(o, "n_probs", json_integer(r->logprobs.n > 0 ? r->logprobs.n : 0));
    json_object_set_new(o, "timings_per_token", json_false());
    json_object_set_new(o, "post_sampling_probs", json_boolean(r->logprobs.post_sampling));
    json_object_set_new(o, "lora", json_array());
    add_samplers(o, &r->gen.sampling);
    return o;
}

/* As JSON, in the job's arena; NULL: no memory. */
static const char *keep_settings(kt__job *job) {
    const kt__wire_request *wire = job->request.wire;
    json_t *settings = kt__llama_settings(&wire->req, job->model.loaded, wire->stream);
    json_object_set_new(settings, "timings_per_token", json_boolean(wire->timings_per_token));
    char *text = json_dumps(settings, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const char *kept = text ? kt__arena_strndup(&job->arena, text, strlen(text)) : NULL;
    free(text);
    json_decref(settings);
    return kept;
}

/* After the request was read: what the answer says of it. */
static kt_status keep_answer(kt__job *job, kt_error *err) {
    llama_answer *a = job->extra;
    const kt__wire_request *wire = job->request.wire;
    size_t n = wire->n_prompts * (size_t)wire->req.n_choices;
    a->choices = kt__arena_calloc(&job->arena, n, sizeof *a->choices);
    a->settings = keep_settings(job);
    return a->choices && a->settings ? KT_OK : kt__fail_nomem(err, "a request", n);
}

static kt_status read_llama(kt__job *job, kt_error *err) {
    static const kt__wire_name client_names[] = {
        {"logprobs", "n_probs"}, {"max_tokens", "n_predict"}, {NULL, NULL}};
    KT__STEP(kt__job_parse(job, err));
    job->request.names = client_names;
    KT__STEP(kt__job_use_model(job, json_string_value(json_object_get(job->request.json, "model")),
                               err));
    KT__STEP(read_extra(job, err));
    KT__STEP(read_prompts(job, err));
    KT__STEP(read_bias(job, err));
    rename_fields(job->request.json);
    KT__STEP(kt__job_read_wire(job, KT__WIRE_TEXT, err));
    return keep_answer(job, err);
}

/* ---- /infill ---- */

static kt_status need_text(const json_t *from, const char *key, const char **out, kt_error *err) {
    const json_t *v = json_object_get(from, key);
    *out = json_string_value(v);
    if (!v || json_is_null(v)) *out = "";
    if (*out) return KT_OK;
    return fail_field(key, "expected a text", err);
}

/* input_extra: texts of other files before the one with the gap. */
static kt_status join_extra(const json_t *from, kt__buf *out, kt_error *err) {
    const json_t *list = json_object_get(from, "input_extra");
    if (list && !json_is_null(list) && !json_is_array(list))
        return fail_field("input_extra", "expected an array of {\"filename\", \"text\"}", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(item, "text"));
        if (!text) return fail_field("input_extra", "expected {\"filename\", \"text\"}", err);
        (void)kt__buf_puts(out, text);
        (void)kt__buf_putc(out, '\n');
    }
    return KT_OK;
}

/* `prompt` is what is in the line of the gap already: the end of what is before it. */
static kt_status join_infill(kt__job *job, kt__buf *before, const char **after, kt_error *err) {
    const char *prefix, *line;
    KT__STEP(join_extra(job->request.json, before, err));
    KT__STEP(need_text(job->request.json, "input_prefix", &prefix, err));
    KT__STEP(need_text(job->request.json, "prompt", &line, err));
    KT__STEP(need_text(job->request.json, "input_suffix", after, err));
    (void)kt__buf_puts(before, prefix);
    (void)kt__buf_puts(before, line);
    return before->failed ? kt__fail_nomem(err, "a request", 0) : KT_OK;
}

static kt_status read_infill(kt__job *job, kt_error *err) {
    static const kt__wire_name infill_names[] = {
        {"prompt", "input_prefix"}, {"suffix", "input_suffix"}, {NULL, NULL}};
    const char *after;
    kt__buf before;
    kt_status status;
    kt__buf_init(&before, KT__WIRE_MAX_BYTES);
    KT__TRY(kt__job_parse(job, err));
    KT__TRY(join_infill(job, &before, &after, err));
    json_object_set_new(job->request.json, "suffix", json_string(after));
    json_object_set_new(job->request.json, "prompt", json_string(before.len ? before.data : ""));
    KT__TRY(read_extra(job, err));
    rename_fields(job->request.json);
    job->request.names = infill_names;
    KT__TRY(kt__job_read_wire(job, KT__WIRE_TEXT, err));
    status = keep_answer(job, err);
out:
    kt__buf_free(&before);
    return status;
}

/* ---- the answer ---- */

static void write_ids(kt__buf *out, const int32_t *ids, size_t n) {
    (void)kt__buf_puts(out, ",\"tokens\":[");
    for (size_t i = 0; i < n; i++) (void)kt__buf_printf(out, "%s%d", i ? "," : "", (int)ids[i]);
    (void)kt__buf_putc(out, ']');
}

/* "id", "token", "bytes" and "logprob" of a token, or with `post` "prob", without the brace that ends it */
static void write_prob(kt__buf *out, const kt__wire_token *t, bool post) {
    (void)kt__buf_printf(out, "{\"id\":%d,\"token\":", (int)t->id);
    kt__json_string(out, t->text, t->len, KT__JSON_PLAIN);
    (void)kt__buf_puts(out, ",\"bytes\":");
    kt__wire_write_token_bytes(out, t);
    (void)kt__buf_printf(out, ",\"%s\":", post ? "prob" : "logprob");
    if (post) {
        (void)kt__buf_printf(out, "%.9g", exp((double)t->logprob));
    } else {
        kt__wire_write_logprob(out, t->logprob);
    }
}

/* post: of the probabilities that they were drawn from; one of 0 is not among the alternatives */
static void write_probs(kt__buf *out, const kt__wire_token *tokens, size_t n, bool post) {
    (void)kt__buf_puts(out, ",\"completion_probabilities\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        write_prob(out, &tokens[i], post);
        (void)kt__buf_printf(out, ",\"%s\":[", post ? "top_probs" : "top_logprobs");
        for (size_t k = 0; k < tokens[i].n_top; k++) {
            if (k) (void)kt__buf_putc(out, ',');
            write_prob(out, &tokens[i].top[k], post);
            (void)kt__buf_putc(out, '}');
        }
        (void)kt__buf_puts(out, "]}");
    }
    (void)kt__buf_putc(out, ']');
}

static bool keep_id(kt__job *job, llama_choice *c, int32_t id) {
    if (c->n_ids == c->cap_ids) {
        size_t cap = c->cap_ids ? 2 * c->cap_ids : 64;
        int32_t *ids = kt__arena_calloc(&job->arena, cap, sizeof *ids);
        if (!ids) return false;
        if (c->n_ids) memcpy(ids, c->ids, c->n_ids * sizeof *ids);
        c->ids = ids;
        c->cap_ids = cap;
    }
    c->ids[c->n_ids++] = id;
    return true;
}

static void begin_chunk(kt__job *job, int32_t choice, const char *text, size_t len, bool stop) {
    kt__buf *out = &job->answer.out;
    (void)kt__buf_printf(out, "%s{\"index\":%d,\"content\":", job->answer.stream ? "data: " : "",
                         (int)choice);
    kt__json_string(out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_printf(out, ",\"stop\":%s,\"id_slot\":0", stop ? "true" : "false");
}

static void write_figures(kt__job *job, int32_t choice) {
    const kt_request_report figures = kt__job_figures(job, choice);
    if (job->request.wire->timings_per_token)
        kt__wire_write_llama_timings(&job->answer.out, &figures);
}

static void llama_progress(kt__job *job, const kt_event *event) {
    begin_chunk(job, event->choice, "", 0, false);
    write_ids(&job->answer.out, NULL, 0);
    kt__wire_write_progress(&job->answer.out, event);
    write_figures(job, event->choice);
    (void)kt__buf_puts(&job->answer.out, "}\n\n");
}

/* A chunk for each token that brought text. */
static void llama_token(kt__job *job, const kt_event *event) {
    llama_answer *a = job->extra;
    llama_choice *c = &a->choices[event->choice];
    kt__job_choice *gathered = &job->answer.choices[event->choice];
    kt__buf *out = &job->answer.out;
    if (event->id >= 0 && !keep_id(job, c, event->id)) out->failed = true;
    if (event->id >= 0) c->n_generated++;
    kt__dialect_gather(job, event);
    if (!job->answer.stream || !event->len) return;
    begin_chunk(job, event->choice, event->text, event->len, false);
    write_ids(out, c->ids, c->n_ids);
    (void)kt__buf_printf(out, ",\"tokens_predicted\":%d", (int)c->n_generated);
    if (gathered->n_tokens)
        write_probs(out, gathered->tokens, gathered->n_tokens,
                    job->request.wire->req.logprobs.post_sampling);
    write_figures(job, event->choice);
    (void)kt__buf_puts(out, "}\n\n");
    c->n_ids = 0;
    gathered->n_tokens = 0;
    if (job->answer.n_choices == 1) kt__wire_blocks_clear(&gathered->said);
}

static const char *stop_type(kt_finish finish) {
    return finish == KT_FINISH_EOG ? "eos" : finish == KT_FINISH_STOP ? "word" : "limit";
}

static void write_tokens_text(kt__job *job, const int32_t *ids, size_t n) {
    size_t len = 0;
    char *text = kt__dialect_tokens_text(job->model.loaded, ids, n, &len);
    kt__json_string(&job->answer.out, text ? text : "", len, KT__JSON_PLAIN);
    kt__free(text);
}

/* The prompt with the control tokens that were added to it; of a gap what is before it. */
static void write_prompt(kt__job *job, int32_t choice) {
    kt_request_params r = job->request.wire->req;
    kt__wire_set_prompt(job->request.wire, (size_t)(choice / r.n_choices), &r);
    (void)kt__buf_puts(&job->answer.out, ",\"prompt\":");
    size_t n = r.prompt.n_ids, cap = r.prompt.text_len + 8;
    int32_t *ids = r.prompt.text ? kt__calloc(cap, sizeof *ids) : NULL;
    if (ids && kt_tokenize(job->model.loaded, r.prompt.text, r.prompt.text_len, r.prompt.text_flags,
                           ids, cap, &n, NULL) != KT_OK)
        n = 0;
    write_tokens_text(job, r.prompt.text ? ids : r.prompt.ids, r.prompt.text && !ids ? 0 : n);
    kt__free(ids);
}

/* How a choice ended. text: all that it said */
static void write_account(kt__job *job, const kt_request_report *r, const kt__buf *text,
                          const char *settings) {
    kt__buf *out = &job->answer.out;
    kt__json_member(out, "model", kt__served_name(job->model.served));
    kt__json_member(out, "stop_type", stop_type(r->finish));
    kt__json_member(out, "stopping_word",
                    r->stop >= 0 ? job->request.wire->req.gen.stop[r->stop] : "");
    (void)kt__buf_printf(out,
                         ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,"
                         "\"truncated\":%s,\"has_new_line\":%s,\"generation_settings\":%s",
                         (int)r->n_generated, (int)r->n_prompt,
                         (int)(r->n_prompt + (r->n_generated > 0 ? r->n_generated - 1 : 0)),
                         r->finish == KT_FINISH_CONTEXT || r->n_dropped > 0 ? "true" : "false",
                         text->len && memchr(text->data, '\n', text->len) ? "true" : "false",
                         settings);
}

/* What the last object of a choice says besides its text. */
static void write_end(kt__job *job, int32_t choice) {
    llama_answer *a = job->extra;
    const llama_choice *c = &a->choices[choice];
    const kt__job_choice *gathered = &job->answer.choices[choice];
    kt__buf *out = &job->answer.out;
    bool keep = a->return_tokens && !job->answer.stream;
    write_ids(out, c->ids, keep ? c->n_ids : 0);
    write_account(job, &c->report, &gathered->said.text, a->settings);
    write_prompt(job, choice);
    kt__wire_write_llama_timings(out, &c->report);
    if (!job->answer.stream && gathered->n_tokens)
        write_probs(out, gathered->tokens, gathered->n_tokens,
                    job->request.wire->req.logprobs.post_sampling);
    kt__dialect_write_notes(job);
    (void)kt__buf_putc(out, '}');
}

/* In place of the object from `begin`, its members at the paths of response_fields: "a/b". */
static void choose_fields(kt__job *job, size_t begin) {
    const llama_answer *a = job->extra;
    kt__buf *out = &job->answer.out;
    json_t *whole = json_loadb(out->data + begin, out->len - begin, 0, NULL),
           *chosen = json_object();
    for (size_t i = 0; i < a->n_fields; i++) {
        const char *path = a->fields[i], *at = path;
        json_t *v = whole;
        while (v && *at) {
            size_t len = strcspn(at, "/");
            v = json_object_getn(v, at, len);
            at += len + (at[len] == '/');
        }
        if (v) json_object_set(chosen, path, v);
    }
    char *text = json_dumps(chosen, JSON_COMPACT | JSON_REAL_PRECISION(9));
    out->len = begin;
    (void)kt__buf_puts(out, text ? text : "{}");
    free(text);
    json_decref(whole);
    json_decref(chosen);
}

static void write_final(kt__job *job, int32_t choice) {
    const llama_answer *a = job->extra;
    const kt__buf *text = &job->answer.choices[choice].said.text;
    bool stream = job->answer.stream;
    size_t begin = job->answer.out.len + (stream ? strlen("data: ") : 0);
    begin_chunk(job, choice, stream || !text->len ? "" : text->data, stream ? 0 : text->len, true);
    write_end(job, choice);
    if (a->n_fields && !job->answer.out.failed) choose_fields(job, begin);
    if (stream) (void)kt__buf_puts(&job->answer.out, "\n\n");
}

static void llama_finish(kt__job *job, const kt_event *event) {
    llama_answer *a = job->extra;
    a->choices[event->choice].report = *event->report;
    if (job->answer.stream) write_final(job, event->choice);
}

/* One answer is an object, several are an array of them. */
static void llama_end(kt__job *job) {
    bool many = job->answer.n_choices > 1;
    for (int32_t i = 0; i < job->answer.n_choices && !job->answer.stream; i++) {
        if (many) (void)kt__buf_putc(&job->answer.out, i ? ',' : '[');
        write_final(job, i);
    }
    if (many && !job->answer.stream) (void)kt__buf_putc(&job->answer.out, ']');
}

static void llama_error(kt__job *job, const kt_error *err) {
    if (!job->answer.stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    (void)kt__buf_puts(&job->answer.out, "data: ");
    kt__openai_error_body(&job->answer.out, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->answer.out, "\n\n");
}

/* ---- __verbose: the same of a chat ---- */

typedef struct verbose {
    const char *prompt, *settings;
    size_t len; /* of prompt */
} verbose;

kt_status kt__llama_keep_verbose(kt__job *job, kt_error *err) {
    const kt__wire_request *wire = job->request.wire;
    verbose *v = kt__arena_calloc(&job->arena, 1, sizeof *v);
    int32_t *ids = NULL;
    size_t n = 0;
    if (!v) return kt__fail_nomem(err, "a request", sizeof *v);
    KT__STEP(kt_request_encode(job->model.loaded, &wire->req, &ids, &n, err));
    char *text = kt__dialect_tokens_text(job->model.loaded, ids, n, &v->len);
    kt_free(ids);
    v->prompt = kt__arena_strndup(&job->arena, text ? text : "", v->len);
    kt__free(text);
    v->settings = keep_settings(job);
    job->extra = v;
    return v->prompt && v->settings ? KT_OK : kt__fail_nomem(err, "a request", n);
}

void kt__llama_write_verbose(kt__job *job, const kt_request_report *report, const kt__buf *text) {
    const verbose *v = job->extra;
    kt__buf *out = &job->answer.out;
    if (!v) return;
    (void)kt__buf_puts(out, "\"__verbose\":{\"content\":");
    kt__json_string(out, text->len ? text->data : "", text->len, KT__JSON_PLAIN);
    (void)kt__buf_puts(out, ",\"stop\":true,\"id_slot\":0");
    write_account(job, report, text, v->settings);
    kt__json_key(out, "prompt");
    kt__json_string(out, v->prompt, v->len, KT__JSON_PLAIN);
    kt__wire_write_llama_timings(out, report);
    (void)kt__buf_putc(out, '}');
}

#define LLAMA(name, path, call)              \
    const kt__dialect name = {               \
        .route = path,                       \
        .stream_type = "text/event-stream",  \
        .stream_filler = ":\n\n",            \
        .error_body = kt__openai_error_body, \
        .read = call,                        \
        .token = llama_token,                \
        .progress = llama_progress,          \
        .finish = llama_finish,              \
        .end = llama_end,                    \
        .error = llama_error,                \
    }

LLAMA(kt__dialect_llama, "/completion", read_llama);
LLAMA(kt__dialect_infill, "/infill", read_infill);
