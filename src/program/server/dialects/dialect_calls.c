/* Requests that are answered at once: tokenize, detokenize, templates. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "dialects/dialects.h"

static kt_status text_of(kt__job *job, const char *key, const char **text, size_t *len,
                         kt_error *err) {
    const json_t *v = json_object_get(job->request.json, key);
    *text = json_string_value(v);
    *len = *text ? json_string_length(v) : 0;
    if (*text) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, key, UINT64_MAX, "%s: expected a text", key);
}

/* By one of the names that servers have for it. */
static const char *key_of(const kt__job *job, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (json_object_get(job->request.json, keys[i])) return keys[i];
    }
    return keys[0];
}

static bool flag_of(const kt__job *job, const char *key, bool otherwise) {
    const json_t *v = json_object_get(job->request.json, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static kt_status open_body(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    if (status != KT_OK) return status;
    return kt__job_use_model(job, json_string_value(json_object_get(job->request.json, "model")),
                             err);
}

/* A line of the socket is a final object: {"id":"...","done":true, */
static void begin_object(kt__job *job) {
    bool line = job->dialect == &kt__dialect_line_tokenize ||
                job->dialect == &kt__dialect_line_detokenize;
    (void)kt__buf_putc(&job->answer.out, '{');
    if (!line) return;
    kt__json_member(&job->answer.out, "id", job->request.name[0] ? job->request.name : job->id);
    (void)kt__buf_puts(&job->answer.out, ",\"done\":true,");
}

static bool is_text(const char *s, size_t len) {
    uint32_t cp;
    for (size_t at = 0, n; at < len; at += n) {
        n = kt__utf8_decode(s + at, len - at, &cp);
        if (!n) return false;
    }
    return true;
}

/* {"id":75,"piece":"he"}, or as bytes where it is no text by itself */
static void write_piece(kt__job *job, int32_t id) {
    char bytes[KT__PIECE_BYTES];
    size_t len;
    const char *text = kt__dialect_piece(job->model.loaded, id, bytes, &len);
    (void)kt__buf_printf(&job->answer.out, "{\"id\":%d,\"piece\":", (int)id);
    if (is_text(text, len)) {
        kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
    } else {
        for (size_t i = 0; i < len; i++)
            (void)kt__buf_printf(&job->answer.out, "%c%d", i ? ',' : '[', (unsigned char)text[i]);
        (void)kt__buf_putc(&job->answer.out, ']');
    }
    (void)kt__buf_putc(&job->answer.out, '}');
}

static void write_tokens(kt__job *job, const int32_t *ids, size_t n) {
    bool pieces = flag_of(job, "with_pieces", false);
    begin_object(job);
    (void)kt__buf_puts(&job->answer.out, "\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) (void)kt__buf_putc(&job->answer.out, ',');
        if (pieces) {
            write_piece(job, ids[i]);
        } else {
            (void)kt__buf_printf(&job->answer.out, "%d", (int)ids[i]);
        }
    }
    (void)kt__buf_printf(&job->answer.out, "],\"count\":%zu}", n);
}

/* llama-server's {"content", "add_special", "parse_special", "with_pieces"}, or vLLM's {"prompt",
 * "add_special_tokens"} -> {"tokens": [], "count"} */
static kt_status run_tokenize(kt__job *job, kt_error *err) {
    static const char *const texts[] = {"text", "content", "prompt"};
    static const char *const specials[] = {"add_special", "add_special_tokens"};
    const char *text;
    size_t len, n = 0;
    int32_t *ids = NULL;
    kt_status status;
    KT__TRY(open_body(job, err));
    KT__TRY(text_of(job, key_of(job, texts, 3), &text, &len, err));
    unsigned flags = (flag_of(job, key_of(job, specials, 2), false) ? KT_TOK_ADD_SPECIAL : 0u) |
                     (flag_of(job, "parse_special", true) ? KT_TOK_PARSE_SPECIAL : 0u);
    size_t cap = len + 16;
    ids = kt__calloc(cap, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", cap * sizeof *ids);
    KT__TRY(kt_tokenize(job->model.loaded, text, len, flags, ids, cap, &n, err));
    write_tokens(job, ids, n);
out:
    kt__free(ids);
    return status;
}

static kt_status read_ids(kt__job *job, int32_t **ids, size_t *n, kt_error *err) {
    const json_t *list = json_object_get(job->request.json, "tokens"), *v;
    size_t i;
    if (!json_is_array(list))
        return kt__fail_at(err, KT_E_ARG, "tokens", UINT64_MAX, "tokens: expected an array");
    *n = json_array_size(list);
    *ids = kt__calloc(*n + 1, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "token ids", *n);
    json_array_foreach(list, i, v) {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id > INT32_MAX)
            return kt__fail_at(err, KT_E_ARG, "tokens", UINT64_MAX,
                               "tokens[%zu]: expected a token id", i);
        (*ids)[i] = (int32_t)id;
    }
    return KT_OK;
}

/* {"tokens": []} -> {"content": "..."}, and as "prompt" for vLLM's clients */
static kt_status run_detokenize(kt__job *job, kt_error *err) {
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, len = 0;
    kt_status status;
    KT__TRY(open_body(job, err));
    KT__TRY(read_ids(job, &ids, &n, err));
    status = kt_detokenize(job->model.loaded, ids, n, KT_TOK_RENDER_SPECIAL, NULL, 0, &len, err);
    if (status != KT_OK && status != KT_E_LIMIT) goto out;
    text = kt__malloc(len + 1);
    if (!text) {
        status = kt__fail_nomem(err, "text", len);
        goto out;
    }
    KT__TRY(kt_detokenize(job->model.loaded, ids, n, KT_TOK_RENDER_SPECIAL, text, len, &len, err));
    begin_object(job);
    (void)kt__buf_puts(&job->answer.out, "\"content\":");
    kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_puts(&job->answer.out, ",\"prompt\":");
    kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_putc(&job->answer.out, '}');
out:
    kt__free(text);
    kt__free(ids);
    return status;
}

static kt_status line_tokenize(kt__job *job, kt_error *err) {
    kt_status status = run_tokenize(job, err);
    if (status == KT_OK) (void)kt__buf_putc(&job->answer.out, '\n');
    return status;
}

static kt_status line_detokenize(kt__job *job, kt_error *err) {
    kt_status status = run_detokenize(job, err);
    if (status == KT_OK) (void)kt__buf_putc(&job->answer.out, '\n');
    return status;
}

/* {"messages": [...]} -> {"prompt": "..."}: as the model will see it */
static kt_status apply_template(kt__job *job, kt_error *err) {
    char *prompt = NULL;
    size_t len = 0;
    kt_status status;
    KT__TRY(kt__job_read_wire(job, KT__WIRE_CHAT, err));
    KT__TRY(kt_request_render(job->model.loaded, &job->request.wire->req, &prompt, &len, err));
    (void)kt__buf_puts(&job->answer.out, "{\"prompt\":");
    kt__json_string(&job->answer.out, prompt, len, KT__JSON_PLAIN);
    (void)kt__buf_putc(&job->answer.out, '}');
out:
    kt_free(prompt);
    return status;
}

/* ,"eos_token":"..." */
static void write_role(kt__job *job, const char *key, int32_t id) {
    char text[512];
    size_t len = 0;
    if (id < 0 || kt_detokenize(job->model.loaded, &id, 1, KT_TOK_RENDER_SPECIAL, text, sizeof text,
                                &len, NULL) != KT_OK)
        return;
    (void)kt__buf_printf(&job->answer.out, ",\"%s\":", key);
    kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
}

/* vLLM's GET /tokenizer_info, of the first model */
static kt_status tokenizer_info(kt__job *job, kt_error *err) {
    kt_model_info info;
    kt_status status = kt__job_use_model(job, NULL, err);
    if (status != KT_OK) return status;
    kt_model_get_info(job->model.loaded, &info);
    (void)kt__buf_puts(&job->answer.out, "{\"tokenizer_class\":");
    kt__json_text(&job->answer.out, info.tokenizer ? info.tokenizer : "");
    write_role(job, "eos_token", info.eos_id);
    write_role(job, "bos_token", info.bos_id);
    if (info.template_) kt__json_member(&job->answer.out, "chat_template", info.template_);
    (void)kt__buf_putc(&job->answer.out, '}');
    return KT_OK;
}

static void line_error(kt__job *job, const kt_error *err) {
    kt__buf_clear(&job->answer.out);
    kt__dialect_native.error(job, err);
}

#define AT_ONCE(name, path, call, write_error) \
    const kt__dialect name = {                 \
        .route = path,                         \
        .error_body = kt__openai_error_body,   \
        .run = call,                           \
        .error = write_error,                  \
    }

AT_ONCE(kt__dialect_tokenize, "/tokenize", run_tokenize, kt__dialect_whole_error);
AT_ONCE(kt__dialect_detokenize, "/detokenize", run_detokenize, kt__dialect_whole_error);
AT_ONCE(kt__dialect_tokenizer_info, "/tokenizer_info", tokenizer_info, kt__dialect_whole_error);
AT_ONCE(kt__dialect_template, "/apply-template", apply_template, kt__dialect_whole_error);
AT_ONCE(kt__dialect_line_tokenize, "socket", line_tokenize, line_error);
AT_ONCE(kt__dialect_line_detokenize, "socket", line_detokenize, line_error);
