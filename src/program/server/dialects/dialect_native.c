/* Lines on the socket: one JSON object a token, one at the end. docs/PROTOCOL.md */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/dialects.h"

/* {"id":"..." */
static void write_line_head(kt__job *job) {
    const char *id = job->request.name[0] ? job->request.name : job->id;
    (void)kt__buf_puts(&job->answer.out, "{\"id\":");
    kt__json_text(&job->answer.out, id);
}

static void write_index(kt__job *job, int32_t choice) {
    if (job->answer.n_choices > 1)
        (void)kt__buf_printf(&job->answer.out, ",\"index\":%d", (int)choice);
}

static void write_line_logprobs(kt__job *job, const kt__wire_token *t) {
    (void)kt__buf_puts(&job->answer.out, ",\"logprob\":");
    kt__wire_write_logprob(&job->answer.out, t->logprob);
    if (!t->n_top) return;
    (void)kt__buf_puts(&job->answer.out, ",\"top_logprobs\":[");
    for (size_t i = 0; i < t->n_top; i++) {
        const kt__wire_token *top = &t->top[i];
        (void)kt__buf_printf(&job->answer.out, "%s{\"token\":%d,\"text\":", i ? "," : "",
                             (int)top->id);
        kt__json_string(&job->answer.out, top->text, top->len, KT__JSON_PLAIN);
        (void)kt__buf_puts(&job->answer.out, ",\"logprob\":");
        kt__wire_write_logprob(&job->answer.out, top->logprob);
        (void)kt__buf_putc(&job->answer.out, '}');
    }
    (void)kt__buf_putc(&job->answer.out, ']');
}

static void write_thought(kt__job *job, const char *text, size_t len) {
    if (!len) return;
    (void)kt__buf_puts(&job->answer.out, ",\"reasoning\":");
    kt__json_string(&job->answer.out, text, len, KT__JSON_PLAIN);
}

/* What a token brought of calls: pieces as OpenAI's chunks have them. */
static void write_call_pieces(kt__job *job, const kt_event *event) {
    kt__wire_call *pieces = kt__arena_calloc(&job->arena, event->n_parts + 1, sizeof *pieces);
    size_t n = 0;
    if (!pieces) {
        job->answer.out.failed = true;
        return;
    }
    for (size_t i = 0; i < event->n_parts; i++) {
        const kt_part *p = &event->parts[i];
        if (p->kind == KT_PART_CALL)
            pieces[n++] = (kt__wire_call){p->call, p->id, p->name, p->text, p->len};
    }
    if (!n) return;
    kt__json_key(&job->answer.out, "tool_calls");
    kt__wire_write_calls(&job->answer.out, pieces, n, true);
}

static void native_token(kt__job *job, const kt_event *event) {
    kt__dialect_gather(job, event);
    kt__job_choice *c = &job->answer.choices[event->choice];
    if (!job->answer.stream) return;
    write_line_head(job);
    write_index(job, event->choice);
    if (event->id >= 0) (void)kt__buf_printf(&job->answer.out, ",\"token\":%d", (int)event->id);
    (void)kt__buf_puts(&job->answer.out, ",\"text\":");
    kt__json_string(&job->answer.out, c->said.text.data ? c->said.text.data : "", c->said.text.len,
                    KT__JSON_PLAIN);
    write_thought(job, c->said.reasoning.data, c->said.reasoning.len);
    write_call_pieces(job, event);
    if (c->n_tokens) write_line_logprobs(job, &c->tokens[0]);
    (void)kt__buf_puts(&job->answer.out, "}\n");
    kt__wire_blocks_clear(&c->said); /* a stream is gathered by its reader */
    c->n_tokens = 0;
    if (job->answer.n_choices == 1) kt__arena_reset(&job->arena);
}

static void write_miss(kt__buf *out, const kt_cache_miss *m) {
    if (!m->known) return;
    (void)kt__buf_printf(out,
                         ",\"cache_miss\":{\"at\":%d,\"message\":%d,\"lost_tokens\":%d,"
                         "\"cost_ms\":%.3f,\"was\":",
                         (int)m->at, (int)m->message, (int)m->n_lost, (double)m->cost_us / 1e3);
    kt__json_text(out, m->was);
    (void)kt__buf_puts(out, ",\"is\":");
    kt__json_text(out, m->is);
    (void)kt__buf_putc(out, '}');
}

static void write_whole_calls(kt__job *job, const kt__job_choice *c) {
    size_t n = kt__wire_blocks_calls(&c->said, NULL);
    kt__wire_call *calls = n ? kt__arena_calloc(&job->arena, n, sizeof *calls) : NULL;
    if (!n) return;
    if (!calls) {
        job->answer.out.failed = true;
        return;
    }
    (void)kt__wire_blocks_calls(&c->said, calls);
    kt__json_key(&job->answer.out, "tool_calls");
    kt__wire_write_calls(&job->answer.out, calls, n, false);
}

/* The final object of a choice. */
static void native_finish(kt__job *job, const kt_event *event) {
    const kt_request_report *r = event->report;
    kt__job_choice *c = &job->answer.choices[event->choice];
    kt__buf *out = &job->answer.out;
    write_line_head(job);
    write_index(job, event->choice);
    (void)kt__buf_puts(out, ",\"done\":true");
    if (!job->answer.stream) {
        (void)kt__buf_puts(out, ",\"text\":");
        kt__json_string(out, c->said.text.data ? c->said.text.data : "", c->said.text.len,
                        KT__JSON_PLAIN);
        write_thought(job, c->said.reasoning.data, c->said.reasoning.len);
        write_whole_calls(job, c);
    }
    if (!job->answer.stream && c->n_tokens) {
        (void)kt__buf_puts(out, ",\"tokens\":[");
        for (size_t i = 0; i < c->n_tokens; i++) {
            (void)kt__buf_printf(out, "%s{\"token\":%d,\"text\":", i ? "," : "",
                                 (int)c->tokens[i].id);
            kt__json_string(out, c->tokens[i].text, c->tokens[i].len, KT__JSON_PLAIN);
            write_line_logprobs(job, &c->tokens[i]);
            (void)kt__buf_putc(out, '}');
        }
        (void)kt__buf_putc(out, ']');
    }
    (void)kt__buf_printf(out,
                         ",\"finish_reason\":\"%s\",\"finish\":\"%s\",\"seed\":%llu,\"usage\":{"
                         "\"prompt_tokens\":%d,\"cached_tokens\":%d,\"completion_tokens\":%d}",
                         r->n_calls && kt__wire_is_whole(event->finish)
                             ? "tool_calls"
                             : kt__wire_finish_reason(event->finish),
                         kt_finish_name(event->finish), (unsigned long long)r->seed,
                         (int)r->n_prompt, (int)r->n_cached, (int)r->n_generated);
    if (r->stop >= 0) {
        const char *stop = job->request.wire->req.gen.stop[r->stop];
        (void)kt__buf_puts(out, ",\"stop\":");
        kt__json_text(out, stop);
    }
    kt__wire_write_timings(out, r);
    write_miss(out, &r->miss);
    if (job->answer.notes) {
        (void)kt__buf_puts(out, ",\"notes\":");
        kt__wire_write_lines(out, job->answer.notes);
    }
    (void)kt__buf_puts(out, job->model.learned_json);
    if (job->model.route_json) (void)kt__buf_puts(out, job->model.route_json);
    (void)kt__buf_puts(out, ",\"model\":");
    kt__json_text(out, kt__served_name(job->model.served));
    (void)kt__buf_puts(out, "}\n");
}

/* {"id":"...","done":true,"error":{...}} */
static void native_error(kt__job *job, const kt_error *err) {
    kt__buf body;
    kt__buf_init(&body, 4096);
    kt__wire_write_error_as(
        &body, job->answer.stream ? kt__wire_http_status(err->code) : job->answer.status, err);
    write_line_head(job);
    (void)kt__buf_puts(&job->answer.out, ",\"done\":true");
    if (err->retry_ms > 0)
        (void)kt__buf_printf(&job->answer.out, ",\"retry_ms\":%lld", (long long)err->retry_ms);
    /* the body is an object: what is inside its braces follows here */
    if (body.len > 2) {
        (void)kt__buf_putc(&job->answer.out, ',');
        (void)kt__buf_append(&job->answer.out, body.data + 1, body.len - 1);
    } else {
        (void)kt__buf_putc(&job->answer.out, '}');
    }
    (void)kt__buf_putc(&job->answer.out, '\n');
    kt__buf_free(&body);
}

static kt_status read_native(kt__job *job, kt_error *err) {
    return kt__job_read_wire(job, KT__WIRE_NATIVE, err);
}

const kt__dialect kt__dialect_native = {
    .route = "socket",
    .error_body = kt__openai_error_body,
    .read = read_native,
    .token = native_token,
    .finish = native_finish,
    .error = native_error,
};
