/* OpenAI's chat and text completions: JSON, or server-sent events. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "serve/dialects.h"

/* ---- the parts of an answer ---- */

static kt__wire_answer answer_of(const kt__job *job) {
    return (kt__wire_answer){
        .form = job->wire->form,
        .id = job->id,
        .model = kt__served_name(job->model),
        .created_s = job->created_s,
        .seed = job->report.seed,
    };
}

static void write_chunk(kt__job *job, const kt__wire_choice *choice, const kt__wire_usage *usage,
                        bool first) {
    kt__wire_answer a = answer_of(job);
    a.choices = choice;
    a.n_choices = choice ? 1 : 0;
    a.usage = usage;
    (void)kt__buf_puts(&job->out, "data: ");
    kt__wire_write_chunk(&job->out, &a, first);
    (void)kt__buf_puts(&job->out, "\n\n");
}

/* Chat begins with each choice's role, so that clients see life before the first token. */
static void openai_begin(kt__job *job) {
    if (!job->stream || job->wire->form != KT__WIRE_CHAT) return;
    for (int32_t i = 0; i < job->n_choices; i++) {
        const kt__wire_choice choice = {.index = i, .text = ""};
        write_chunk(job, &choice, NULL, true);
    }
}

static void openai_token(kt__job *job, const kt_event *event) {
    if (!job->stream) {
        kt__dialect_gather(job, event);
        return;
    }
    const kt__wire_token *t = kt__dialect_token(job, event);
    if (!event->len && !t) return; /* held back: part of a character or of a stop string */
    const kt__wire_choice choice = {.index = event->choice,
                                    .text = event->text ? event->text : "",
                                    .len = event->len,
                                    .tokens = t,
                                    .n_tokens = t ? 1 : 0};
    write_chunk(job, &choice, NULL, false);
    kt__arena_reset(&job->arena);
}

static void openai_finish(kt__job *job, const kt_event *event) {
    if (!job->stream) return;
    const kt__wire_choice choice = {.index = event->choice, .text = "", .finish = event->finish};
    write_chunk(job, &choice, NULL, false);
}

static void write_whole(kt__job *job) {
    kt__wire_answer a = answer_of(job);
    kt__wire_choice *choices = kt__calloc((size_t)job->n_choices, sizeof *choices);
    if (!choices) {
        job->out.failed = true;
        return;
    }
    for (int32_t i = 0; i < job->n_choices; i++) {
        const kt__job_choice *c = &job->choices[i];
        choices[i] = (kt__wire_choice){.index = i,
                                       .text = c->text.data ? c->text.data : "",
                                       .len = c->text.len,
                                       .finish = c->finish,
                                       .tokens = c->tokens,
                                       .n_tokens = c->n_tokens};
    }
    a.choices = choices;
    a.n_choices = (size_t)job->n_choices;
    a.usage = &job->usage;
    kt__wire_write_answer(&job->out, &a);
    kt__free(choices);
}

static void openai_end(kt__job *job) {
    if (!job->stream) {
        write_whole(job);
        return;
    }
    if (job->wire->include_usage) write_chunk(job, NULL, &job->usage, false);
    (void)kt__buf_puts(&job->out, "data: [DONE]\n\n");
}

static void openai_error(kt__job *job, const kt_error *err) {
    if (!job->stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    (void)kt__buf_puts(&job->out, "data: ");
    kt__openai_error_body(&job->out, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->out, "\n\ndata: [DONE]\n\n");
}

static kt_status read_chat(kt__job *job, kt_error *err) {
    return kt__job_read_wire(job, KT__WIRE_CHAT, err);
}

static kt_status read_completion(kt__job *job, kt_error *err) {
    return kt__job_read_wire(job, KT__WIRE_TEXT, err);
}

#define OPENAI(name, path, read_body)        \
    const kt__dialect name = {               \
        .route = path,                       \
        .stream_type = "text/event-stream",  \
        .stream_filler = ":\n\n",            \
        .error_body = kt__openai_error_body, \
        .read = read_body,                   \
        .begin = openai_begin,               \
        .token = openai_token,               \
        .finish = openai_finish,             \
        .end = openai_end,                   \
        .error = openai_error,               \
    }

OPENAI(kt__dialect_chat, "/v1/chat/completions", read_chat);
OPENAI(kt__dialect_completion, "/v1/completions", read_completion);
