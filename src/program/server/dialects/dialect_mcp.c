#include "dialects/dialect_mcp.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "mcp/rpc.h"
#include "mcp/server.h"
#include "setup/adapters.h"
#include "wire/wire_value.h"

enum { PROGRESS_US = 250000 };

/* job->extra */
typedef struct mcp_job {
    bool lines; /* no HTTP */
    kt__mcp_head head;
    kt__mcp_turn turn;
    int64_t n_tokens, told_us;
} mcp_job;

/* ---- framing ---- */

static void begin_frame(kt__job *job) {
    const mcp_job *m = job->extra;
    if (job->answer.stream && !m->lines)
        (void)kt__buf_puts(&job->answer.out, "event: message\ndata: ");
}

static void end_frame(kt__job *job) {
    const mcp_job *m = job->extra;
    if (m->lines) {
        (void)kt__buf_putc(&job->answer.out, '\n');
    } else if (job->answer.stream) {
        (void)kt__buf_puts(&job->answer.out, "\n\n");
    }
}

/* The answer was written by the reading. Several messages, a line each, are a stream. */
static void frame_whole(kt__job *job, kt__buf *said) {
    const char *end = said->data ? memchr(said->data, '\n', said->len) : NULL;
    pthread_mutex_lock(&job->lock);
    job->answer.stream = end != NULL;
    for (const char *at = said->data; at && *at; at = end ? end + 1 : NULL) {
        end = strchr(at, '\n');
        begin_frame(job);
        (void)kt__buf_append(&job->answer.out, at, end ? (size_t)(end - at) : strlen(at));
        end_frame(job);
    }
    if (said->failed) job->answer.out.failed = true;
    pthread_mutex_unlock(&job->lock);
}

static void answer_whole(kt__job *job, const char *structured) {
    const mcp_job *m = job->extra;
    kt__buf said;
    kt__buf_init(&said, KT__WIRE_MAX_BYTES);
    kt__mcp_write_result(&said, &m->turn, structured, NULL);
    frame_whole(job, &said);
    kt__buf_free(&said);
}

/* ---- tools that are answered at once ---- */

static void list_models(kt__job *job) {
    kt__buf text;
    size_t n = kt__models_count(job->shared->models);
    kt__buf_init(&text, 1 << 20);
    (void)kt__buf_puts(&text, "{\"models\":[");
    for (size_t i = 0; i < n; i++) {
        kt__served_info info;
        kt__served_get_info(kt__models_at(job->shared->models, i), &info);
        if (info.gone) continue;
        (void)kt__buf_puts(&text, i ? ",{" : "{");
        kt__json_member(&text, "name", info.name);
        (void)kt__buf_printf(&text, ",\"loaded\":%s", info.loaded ? "true" : "false");
        if (info.loaded)
            (void)kt__buf_printf(&text, ",\"context_length\":%d", (int)info.engine.n_ctx);
        kt__adapters_write_names(&text, job->request.settings->config, info.name);
        (void)kt__buf_putc(&text, '}');
    }
    (void)kt__buf_puts(&text, "]}");
    answer_whole(job, text.failed ? "{\"models\":[]}" : text.data);
    kt__buf_free(&text);
}

static kt_status count_tokens(kt__job *job, const json_t *args, kt_error *err) {
    const json_t *text = json_object_get(args, "text");
    kt__buf said;
    size_t n = 0;
    kt_status status = kt__job_use_model(job, json_string_value(json_object_get(args, "model")),
                                         err);
    if (status == KT_OK)
        status = kt_tokenize(job->model.loaded, json_string_value(text), json_string_length(text),
                             0, NULL, 0, &n, err);
    if (status != KT_OK && status != KT_E_LIMIT) return status;
    kt__buf_init(&said, 4096);
    (void)kt__buf_printf(&said, "{\"tokens\":%zu", n);
    kt__json_member(&said, "model", kt__served_name(job->model.served));
    (void)kt__buf_putc(&said, '}');
    answer_whole(job, said.data);
    kt__buf_free(&said);
    return KT_OK;
}

/* ---- tools that compute ---- */

static kt_status read_embedding_inputs(kt__job *job, const json_t *input, kt_error *err) {
    size_t n = json_is_array(input) ? json_array_size(input) : 1;
    if (n > KT__WIRE_MAX_PROMPTS)
        return kt__fail_at(err, KT_E_LIMIT, "input", UINT64_MAX, "input: at most %d texts",
                           (int)KT__WIRE_MAX_PROMPTS);
    kt__wire_prompt *prompts = kt__arena_calloc(&job->request.wire->arena, n, sizeof *prompts);
    if (!prompts) return kt__fail_nomem(err, "a request", n * sizeof *prompts);
    for (size_t i = 0; i < n; i++) { /* job->request.json, whose texts these are, lives as long */
        const json_t *v = json_is_array(input) ? json_array_get(input, i) : input;
        prompts[i].text = json_string_value(v);
        prompts[i].len = json_string_length(v);
    }
    job->request.wire->prompts = prompts;
    job->request.wire->n_prompts = n;
    return KT_OK;
}

static kt_status read_embed(kt__job *job, const json_t *args, kt_error *err) {
    job->request.wire = kt__calloc(1, sizeof *job->request.wire);
    if (!job->request.wire) return kt__fail_nomem(err, "a request", sizeof *job->request.wire);
    kt__arena_init(&job->request.wire->arena, 4096, (size_t)KT__WIRE_MAX_BYTES * 8);
    job->request.wire->req = kt__config_request(job->request.settings->config);
    job->request.wire->req.prompt.text_flags = KT_TOK_ADD_SPECIAL;
    job->request.wire->req.embedding.pooling = KT_POOLING_MODEL;
    const kt__wire_reader reader = {job->request.wire, &job->request.wire->arena, NULL, err, NULL};
    KT__STEP(read_embedding_inputs(job, json_object_get(args, "input"), err));
    KT__STEP(kt__wire_read_adapters(&reader, args));
    KT__STEP(kt__job_use_model(job, json_string_value(json_object_get(args, "model")), err));
    return kt__job_use_adapters(job, err);
}

/* Progress is wanted, and there is a way for it. */
static bool wants_progress(const mcp_job *m) {
    return m->turn.progress && (m->lines || m->head.takes_stream);
}

/* The answer is a value of the schema. */
static kt_status hold_to_schema(kt__job *job, const json_t *schema, kt_error *err) {
    kt__arena *arena = &job->request.wire->arena;
    kt_form *form = kt__arena_calloc(arena, 1, sizeof *form);
    const char *text = kt__mcp_text_of(arena, schema);
    if (!form || !text) return kt__fail_nomem(err, "a schema", 0);
    *form = (kt_form){.kind = KT_FORM_JSON_SCHEMA, .text = text, .len = strlen(text)};
    job->request.wire->req.constraint = (kt_constraint){.forms = form, .n_forms = 1};
    return KT_OK;
}

static kt_status read_generation(kt__job *job, const json_t *args, kt_error *err) {
    mcp_job *m = job->extra;
    json_t *schema = m->turn.tool->does == KT__MCP_EXTRACTS
                         ? json_incref(json_object_get(args, "schema"))
                         : NULL;
    json_t *body = kt__mcp_tool_request(m->turn.tool, args);
    bool made = body && json_object_set_new(body, "stream", json_boolean(wants_progress(m))) == 0;
    json_decref(job->request.json); /* with args */
    job->request.json = body;
    m->turn.args = NULL;
    kt_status status = made ? kt__job_read_wire(job, KT__WIRE_CHAT, err)
                            : kt__fail_nomem(err, "a request", 0);
    if (status == KT_OK && schema) status = hold_to_schema(job, schema, err);
    json_decref(schema);
    return status;
}

static kt_status call_tool(kt__job *job, kt_error *err) {
    mcp_job *m = job->extra;
    json_t *none = m->turn.args ? NULL : json_object();
    const json_t *args = m->turn.args ? m->turn.args : none;
    kt_status status = kt__mcp_tool_check(m->turn.tool, args, err);
    if (status != KT_OK) {
        json_decref(none);
        return status;
    }
    switch (m->turn.tool->does) {
    case KT__MCP_LISTS: list_models(job); break;
    case KT__MCP_COUNTS: status = count_tokens(job, args, err); break;
    case KT__MCP_EMBEDS: status = read_embed(job, args, err); break;
    default: status = read_generation(job, args, err); break;
    }
    json_decref(none);
    return status;
}

/* ---- reading ---- */

/* Requests of HTTP are known by their session, without which none can be cancelled by a message: two
 * clients may have the same ids. */
static void name_call(const mcp_job *m, const char *id, char *name, size_t size) {
    int n = m->lines ? snprintf(name, size, "%s", id)
                     : snprintf(name, size, "%s %s", m->head.session ? m->head.session : "", id);
    if (n < 0 || (size_t)n >= size || (!m->lines && !m->head.session)) *name = '\0';
}

static void cancel_call(kt__job *job) {
    const mcp_job *m = job->extra;
    char name[sizeof job->request.name];
    name_call(m, m->turn.cancel, name, sizeof name);
    if (*name) kt__jobs_cancel_named(job->shared, name, job->request.client);
}

static void note_name(kt__job *job) {
    const mcp_job *m = job->extra;
    if (m->lines) return; /* it has one */
    pthread_mutex_lock(&job->lock);
    name_call(m, m->turn.id, job->request.name, sizeof job->request.name);
    pthread_mutex_unlock(&job->lock);
}

static kt_status take_message(kt__job *job, kt_error *err) {
    mcp_job *m = job->extra;
    kt__buf said;
    kt__buf_init(&said, KT__WIRE_MAX_BYTES);
    kt_status status = kt__mcp_take(job->request.json, m->lines ? NULL : &m->head, &job->arena,
                                    &said, &m->turn, err);
    if (status == KT_OK && m->turn.step == KT__MCP_CALL) {
        note_name(job);
        status = call_tool(job, err);
    } else if (status == KT_OK) {
        if (m->turn.step == KT__MCP_CANCEL) cancel_call(job);
        if (m->turn.begins_session && !m->lines)
            kt__job_make_id(job->answer.session, sizeof job->answer.session, "mcp-");
        job->answer.status = m->turn.http_status;
        frame_whole(job, &said);
    }
    kt__buf_free(&said);
    return status;
}

static kt_status mcp_read(kt__job *job, kt_error *err) {
    kt_status status = kt__job_parse(job, err);
    return status == KT_OK ? take_message(job, err) : status;
}

/* ---- answering ---- */

static void tell_progress(kt__job *job) {
    mcp_job *m = job->extra;
    int64_t now_us = kt__now_us();
    if (!job->answer.stream || now_us - m->told_us < PROGRESS_US) return;
    m->told_us = now_us;
    begin_frame(job);
    kt__mcp_write_progress(&job->answer.out, &m->turn, m->n_tokens,
                           job->request.wire->req.gen.n_predict);
    end_frame(job);
}

static void mcp_token(kt__job *job, const kt_event *event) {
    mcp_job *m = job->extra;
    kt__dialect_gather(job, event);
    if (event->id < 0) return;
    m->n_tokens++;
    tell_progress(job);
}

static void mcp_finish(kt__job *job, const kt_event *event) {
    kt__buf *text = &job->answer.choices[event->choice].said.text;
    for (size_t i = 0; event->embedding && i < event->n_embedding; i++)
        (void)kt__buf_printf(text, "%s%.9g", i ? "," : "[", (double)event->embedding[i]);
    if (event->embedding) (void)kt__buf_putc(text, ']');
    if (text->failed) job->answer.out.failed = true;
}

static void write_account(kt__job *job, kt__buf *out) {
    kt__json_member(out, "model", kt__served_name(job->model.served));
    (void)kt__buf_printf(out, ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld}}",
                         (long long)job->answer.usage.n_prompt,
                         (long long)job->answer.usage.n_generated);
}

static const char *finish_word(kt_finish finish) {
    if (finish == KT_FINISH_DEADLINE) return "deadline";
    return finish == KT_FINISH_EOG || finish == KT_FINISH_STOP ? "stop" : "length";
}

static void write_generated(kt__job *job, kt__buf *out) {
    const kt__job_choice *c = &job->answer.choices[0];
    (void)kt__buf_puts(out, "{\"text\":");
    kt__json_string(out, c->said.text.data ? c->said.text.data : "", c->said.text.len,
                    KT__JSON_PLAIN);
    kt__json_member(out, "finish", finish_word(c->finish));
    (void)kt__buf_printf(out, ",\"seed\":%llu", (unsigned long long)job->answer.report.seed);
    write_account(job, out);
}

/* false: it was cut off, or is no JSON for another reason. */
static bool write_extracted(kt__job *job, kt__buf *out) {
    const kt__buf *text = &job->answer.choices[0].said.text;
    json_t *value = json_loadb(text->data ? text->data : "", text->len, JSON_DECODE_ANY, NULL);
    if (!value) return false;
    json_decref(value);
    (void)kt__buf_puts(out, "{\"value\":");
    (void)kt__buf_append(out, text->data, text->len);
    write_account(job, out);
    return true;
}

static void write_embeddings(kt__job *job, kt__buf *out) {
    (void)kt__buf_puts(out, "{\"embeddings\":[");
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        if (i) (void)kt__buf_putc(out, ',');
        (void)kt__buf_append(out, job->answer.choices[i].said.text.data,
                             job->answer.choices[i].said.text.len);
    }
    (void)kt__buf_putc(out, ']');
    write_account(job, out);
}

static bool write_structured(kt__job *job, kt__buf *out) {
    const mcp_job *m = job->extra;
    switch (m->turn.tool->does) {
    case KT__MCP_GENERATES: write_generated(job, out); return true;
    case KT__MCP_EXTRACTS: return write_extracted(job, out);
    default: write_embeddings(job, out); return true;
    }
}

static bool any_cancelled(const kt__job *job) {
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        if (job->answer.choices[i].finish == KT_FINISH_CANCELLED) return true;
    }
    return job->interest > KT__JOB_WANTED && !job->answer.n_choices;
}

/* Nothing is said about a call that was cancelled. */
static void mcp_end(kt__job *job) {
    const mcp_job *m = job->extra;
    bool generates = m->turn.tool->does == KT__MCP_GENERATES;
    kt__buf structured;
    if (any_cancelled(job)) return;
    kt__buf_init(&structured, job->answer.out.max);
    begin_frame(job);
    if (write_structured(job, &structured) && !structured.failed) {
        const char *text = job->answer.choices[0].said.text.data;
        kt__mcp_write_result(&job->answer.out, &m->turn, structured.data,
                             generates ? text ? text : "" : NULL);
    } else {
        kt__mcp_write_failure(&job->answer.out, &m->turn,
                              "the value was cut off before its end: raise max_tokens");
    }
    end_frame(job);
    kt__buf_free(&structured);
}

/* ---- errors ---- */

static void write_refusal(kt__buf *out, const char *id, int status, const kt_error *err) {
    int code = status >= 400 && status < 500 ? KT__RPC_INVALID : kt__rpc_code_of(err->code);
    if (err->code == KT_E_FORMAT) code = KT__RPC_PARSE;
    kt__rpc_write_error(out, id, code, err->message, NULL);
}

static void mcp_error_body(kt__buf *out, int status, const kt_error *err) {
    write_refusal(out, NULL, status, err);
}

/* Returns the JSON-RPC id, as JSON, that the refusal of a line over standard input answers to; NULL when the line had
 * none. Such a line was never parsed, so its id is known from the job's name alone. */
static const char *id_of_line(const kt__job *job) {
    const mcp_job *m = job->extra;
    bool is_id = job->request.name[0] == '"' || job->request.name[0] == '-' ||
                 isdigit((unsigned char)job->request.name[0]);
    return m->lines && is_id ? job->request.name : NULL;
}

/* A call's failure is its result, for the model to read; what was no call is refused. */
static void mcp_error(kt__job *job, const kt_error *err) {
    const mcp_job *m = job->extra;
    if (!job->answer.stream) kt__buf_clear(&job->answer.out);
    begin_frame(job);
    if (m->turn.step == KT__MCP_CALL) {
        kt__mcp_write_failure(&job->answer.out, &m->turn, err->message);
        if (!job->answer.stream) job->answer.status = 200;
    } else {
        write_refusal(&job->answer.out, id_of_line(job), job->answer.status, err);
    }
    end_frame(job);
}

#define MCP(name, path, filler)             \
    const kt__dialect name = {              \
        .route = path,                      \
        .exact_names = true,                \
        .stream_type = "text/event-stream", \
        .stream_filler = filler,            \
        .error_body = mcp_error_body,       \
        .read = mcp_read,                   \
        .token = mcp_token,                 \
        .finish = mcp_finish,               \
        .end = mcp_end,                     \
        .error = mcp_error,                 \
    }

MCP(kt__dialect_mcp, "/mcp", ":\n\n");
MCP(kt__dialect_mcp_lines, "mcp", NULL);

/* ---- from a transport ---- */

/* Without the blanks around it, which are no part of a header's value. */
static const char *head_text(kt__job *job, const char *text) {
    if (!text) return NULL;
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len && strchr(" \t", text[len - 1])) len--;
    return kt__arena_strndup(&job->arena, text, len);
}

kt_status kt__dialect_mcp_begin(kt__job *job, const kt__mcp_head *head, kt_error *err) {
    mcp_job *m = kt__arena_calloc(&job->arena, 1, sizeof *m);
    if (!m) return kt__fail_nomem(err, "a request", sizeof *m);
    m->lines = !head;
    if (head) {
        m->head.version = head_text(job, head->version);
        m->head.method = head_text(job, head->method);
        m->head.name = head_text(job, head->name);
        m->head.session = head_text(job, head->session);
        m->head.takes_stream = head->takes_stream;
    }
    job->extra = m;
    return KT_OK;
}
