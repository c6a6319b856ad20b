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

static json_t *failure(kt_status status, const kt_error *err) {
    return json_pack("{s:s, s:s}", "error", err->message, "code", kt_status_name(status));
}

static json_t *success(const kt__chat_out *out) {
    json_t *segments = json_array();
    for (size_t i = 0; i < out->n_segs; i++)
        json_array_append_new(segments, json_pack("[I, b]", (json_int_t)out->segs[i].len,
                                                  (int)out->segs[i].from_template));
    return json_pack("{s:o, s:o, s:b}", "text", json_stringn(out->text, out->len), "segments",
                     segments, "merged", (int)out->system_merged);
}

static json_t *answer(const json_t *line) {
    const json_t *source = json_object_get(line, "template");
    char *input = json_dumps(json_object_get(line, "input"),
                             JSON_COMPACT | JSON_REAL_PRECISION(17));
    kt__chat_params params = {
        .bos_token = json_string_value(json_object_get(line, "bos_token")),
        .eos_token = json_string_value(json_object_get(line, "eos_token")),
        .now_local_s = json_integer_value(json_object_get(line, "now")),
        .no_system_merge = json_is_true(json_object_get(line, "no_merge")),
    };
    kt__chat_template *tmpl = NULL;
    kt__chat_out out = {0};
    kt_error err = {0};
    kt_status status = kt__chat_template_parse(json_string_value(source),
                                               json_string_length(source), &tmpl, &err);
    if (status == KT_OK)
        status = kt__chat_render_json(tmpl, input, strlen(input), &params, &out, &err);
    json_t *result = status == KT_OK ? success(&out) : failure(status, &err);
    kt__chat_out_free(&out);
    kt__chat_template_free(tmpl);
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
