/* llama-server's /infill: a text with a gap, as editors ask for it. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"

/* The names of this path for those that the readers know. */
static const kt__wire_name infill_names[] = {
    {"prompt", "input_prefix"}, {"suffix", "input_suffix"}, {NULL, NULL}};

static kt_status need_text(const json_t *from, const char *key, const char **out, kt_error *err) {
    const json_t *v = json_object_get(from, key);
    *out = json_string_value(v);
    if (!v || json_is_null(v)) *out = "";
    if (*out) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, key, UINT64_MAX, "%s: expected a text", key);
}

/* `prompt` is what is in the line of the gap already: the end of what is before it. */
static kt_status read_infill(kt__job *job, kt_error *err) {
    const char *before, *line, *after;
    KT__STEP(kt__job_parse(job, err));
    KT__STEP(need_text(job->request.json, "input_prefix", &before, err));
    KT__STEP(need_text(job->request.json, "prompt", &line, err));
    KT__STEP(need_text(job->request.json, "input_suffix", &after, err));
    json_t *text = json_sprintf("%s%s", before, line), *rest = json_string(after);
    if (json_object_set_new(job->request.json, "prompt", text) != 0 ||
        json_object_set_new(job->request.json, "suffix", rest) != 0)
        return kt__fail_nomem(err, "a request", 0);
    job->request.names = infill_names;
    return kt__job_read_wire(job, KT__WIRE_NATIVE, err);
    return KT_OK;
}

static void write_content(kt__job *job, const char *text, size_t len, bool stop) {
    (void)kt__buf_puts(&job->answer.out,
                       job->answer.stream ? "data: {\"content\":" : "{\"content\":");
    kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
    (void)kt__buf_printf(&job->answer.out, ",\"stop\":%s", stop ? "true" : "false");
}

static void infill_token(kt__job *job, const kt_event *event) {
    if (!job->answer.stream) {
        kt__dialect_gather(job, event);
    } else if (event->len) {
        write_content(job, event->text, event->len, false);
        (void)kt__buf_puts(&job->answer.out, "}\n\n");
    }
}

static void infill_finish(kt__job *job, const kt_event *event) {
    const kt__job_choice *c = &job->answer.choices[event->choice];
    const kt_request_report *r = event->report;
    const char *reason = kt__wire_finish_reason(event->finish);
    write_content(job, c->said.text.data ? c->said.text.data : "", c->said.text.len, true);
    kt__json_member(&job->answer.out, "model", kt__served_name(job->model.served));
    kt__json_member(&job->answer.out, "stop_type",
                    reason && !strcmp(reason, "stop") ? "eos" : "limit");
    (void)kt__buf_printf(&job->answer.out,
                         ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,"
                         "\"truncated\":false}%s",
                         (int)r->n_generated, (int)r->n_prompt, (int)r->n_cached,
                         job->answer.stream ? "\n\n" : "");
}

static void infill_error(kt__job *job, const kt_error *err) {
    if (!job->answer.stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    (void)kt__buf_puts(&job->answer.out, "data: ");
    kt__openai_error_body(&job->answer.out, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->answer.out, "\n\n");
}

const kt__dialect kt__dialect_infill = {
    .route = "/infill",
    .stream_type = "text/event-stream",
    .stream_filler = ":\n\n",
    .error_body = kt__openai_error_body,
    .read = read_infill,
    .token = infill_token,
    .finish = infill_finish,
    .error = infill_error,
};
