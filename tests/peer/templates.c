/* Renders templates for templates.py: JSON lines in, JSON lines out.
 * In: {"template": text, "input": messages or an object with them, "bos_token", "eos_token", "now":
 * seconds, "no_merge": bool}. Out: {"text": ..., "segments": [[length, from_template], ...],
 * "merged": bool} or
 * {"error": message, "code": name}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/chat_template.h"
#include "jinja_render.h"

static json_t *failure(kt_status status, const kt_error *err) {
    return json_pack("{s:s, s:s}", "error", err->message, "code", kt_status_name(status));
}

/* What the chat room makes of it: a system message may be merged into the first user message. */
static json_t *chat_success(const kt__chat_out *out) {
    json_t *segments = json_array();
    for (size_t i = 0; i < out->n_segs; i++)
        json_array_append_new(segments, json_pack("[I, b]", (json_int_t)out->segs[i].len,
                                                  (int)out->segs[i].from_template));
    return json_pack("{s:o, s:o, s:b}", "text", json_stringn(out->text, out->len), "segments",
                     segments, "merged", (int)out->system_merged);
}

static json_t *chat_answer(const json_t *line, const char *source, size_t len, const char *input) {
    kt__chat_params params = {
        .bos_token = json_string_value(json_object_get(line, "bos_token")),
        .eos_token = json_string_value(json_object_get(line, "eos_token")),
        .now_local_s = json_integer_value(json_object_get(line, "now")),
    };
    kt__chat_template *tmpl = NULL;
    kt__chat_out out = {0};
    kt_error err = {0};
    kt_status status = kt__chat_template_parse(source, len, &tmpl, &err);
    if (status == KT_OK)
        status = kt__chat_render_json(tmpl, input, strlen(input), &params, &out, &err);
    json_t *result = status == KT_OK ? chat_success(&out) : failure(status, &err);
    kt__chat_out_free(&out);
    kt__chat_template_free(tmpl);
    return result;
}

static json_t *success(const kt__jstr *text) {
    json_t *segments = json_array();
    size_t n = text->n_runs ? text->n_runs : text->len != 0;
    for (size_t i = 0, at = 0; i < n; i++) {
        size_t end = text->n_runs ? text->runs[i].end : text->len;
        bool from_template = text->n_runs ? text->runs[i].from_template : text->from_template;
        json_array_append_new(segments,
                              json_pack("[I, b]", (json_int_t)(end - at), (int)from_template));
        at = end;
    }
    return json_pack("{s:o, s:o}", "text", json_stringn(text->data, text->len), "segments",
                     segments);
}

/* The template over the messages as they are. */
static json_t *plain_answer(const json_t *line, const char *source, size_t len, const char *input) {
    kt__jinja *tmpl = NULL;
    kt__jx x = {0};
    const kt__jstr *text;
    kt_error err = {0};
    kt_status status = kt__jinja_parse(source, len, &tmpl, &err);
    if (status == KT_OK)
        status = jinja_render(&x, tmpl, input, strlen(input),
                              json_string_value(json_object_get(line, "bos_token")),
                              json_string_value(json_object_get(line, "eos_token")),
                              json_integer_value(json_object_get(line, "now")), &text, &err);
    json_t *result = status == KT_OK ? success(text) : failure(status, &err);
    if (tmpl) kt__jx_free(&x);
    kt__jinja_free(tmpl);
    return result;
}

static json_t *answer(const json_t *line) {
    const json_t *source = json_object_get(line, "template");
    char *input = json_dumps(json_object_get(line, "input"),
                             JSON_COMPACT | JSON_REAL_PRECISION(17));
    bool merge = !json_is_true(json_object_get(line, "no_merge"));
    json_t *result = (merge ? chat_answer : plain_answer)(line, json_string_value(source),
                                                          json_string_length(source), input);
    free(input);
    return result;
}

int main(void) {
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_error_t error;
        json_t *request = json_loads(line, JSON_ALLOW_NUL, &error);
        if (!request) {
            fprintf(stderr, "templates: %s\n", error.text);
            return 2;
        }
        json_t *result = answer(request);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(result);
        json_decref(request);
    }
    free(line);
    return 0;
}
