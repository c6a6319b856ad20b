#include "cli/batch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "wire/wire_blocks.h"

enum { MAX_TEXT_BYTES = 1 << 30 };

/* A token with log probabilities; its texts lie in the choice's `bytes`, its alternatives after it
 * in `tokens`. */
typedef struct choice {
    kt__wire_blocks said;
    bool failed;           /* for want of memory */
    kt__buf bytes, tokens; /* tokens: of kt__wire_token, text holding an offset into bytes */
    kt__wire_call *calls;  /* made at the end */
    kt_finish finish;
    kt__wire_token *list; /* the sampled ones, made at the end */
    size_t n_list;
} choice;

struct kt__batch_job {
    kt__batch_line line;
    const kt__batch_sink *sink;
    kt_request *req;
    choice *choices; /* [n_choices] */
    int32_t n_choices;
    kt__wire_usage usage;
    uint64_t seed;
    const char *notes; /* the request's */
    kt_error err;      /* of the first choice that failed */
    bool failed;
};

/* ---- writing ---- */

/* Ids that depend on nothing but the line's. */
static void make_id(const char *prefix, const char *id, char *out, size_t size) {
    kt__digest d = kt__hash_bytes(1, id, strlen(id));
    snprintf(out, size, "%s%016llx", prefix, (unsigned long long)d.w[0]);
}

static void begin_openai(kt__buf *out, const kt__batch_line *line, int http) {
    char id[48];
    make_id("batch_req_", line->id, id, sizeof id);
    (void)kt__buf_printf(out, "{\"id\":\"%s\",\"custom_id\":", id);
    kt__json_text(out, line->id);
    make_id("req_", line->id, id, sizeof id);
    (void)kt__buf_printf(
        out, ",\"response\":{\"status_code\":%d,\"request_id\":\"%s\",\"body\":", http, id);
}

void kt__batch_write_error(kt__buf *out, const kt__batch_line *line, const kt_error *err) {
    if (line->openai) {
        begin_openai(out, line, kt__wire_http_status(err->code));
        kt__wire_write_error(out, err);
        (void)kt__buf_puts(out, "},\"error\":null}");
        return;
    }
    kt__buf error;
    kt__buf_init(&error, 1 << 20);
    kt__wire_write_error(&error, err);
    (void)kt__buf_puts(out, "{\"id\":");
    kt__json_text(out, line->id);
    if (error.failed || error.len < 2) {
        (void)kt__buf_puts(out, ",\"error\":{}}");
    } else {
        (void)kt__buf_putc(out, ',');
        (void)kt__buf_append(out, error.data + 1, error.len - 1); /* "error":{...}} */
    }
    kt__buf_free(&error);
}

/* Offsets become pointers, now that the bytes stay where they are. */
static bool list_tokens(choice *c) {
    kt__wire_token *all = (kt__wire_token *)(void *)c->tokens.data;
    size_t n_all = c->tokens.len / sizeof *all;
    if (!n_all) return true;
    c->list = kt__calloc(n_all, sizeof *c->list);
    if (!c->list) return false;
    for (size_t i = 0; i < n_all; i++) all[i].text = c->bytes.data + (uintptr_t)all[i].text;
    for (size_t i = 0; i < n_all; i += 1 + all[i].n_top) {
        c->list[c->n_list] = all[i];
        c->list[c->n_list++].top = all[i].n_top ? &all[i + 1] : NULL;
    }
    return true;
}

static bool list_calls(choice *c) {
    c->calls = kt__calloc(kt__wire_blocks_calls(&c->said, NULL) + 1, sizeof *c->calls);
    return c->calls != NULL;
}

static bool write_answer(const kt__batch_job *job, kt__buf *out) {
    const kt__batch_line *line = &job->line;
    char id[48];
    make_id(line->request->form == KT__WIRE_CHAT ? "chatcmpl-" : "cmpl-", line->id, id, sizeof id);
    kt__wire_choice *choices = kt__calloc((size_t)job->n_choices, sizeof *choices);
    if (!choices) return false;
    bool ok = true;
    for (int32_t i = 0; i < job->n_choices; i++) {
        choice *c = &job->choices[i];
        ok = ok && list_tokens(c) && list_calls(c) && !c->failed;
        ok = ok && !c->bytes.failed && !c->tokens.failed;
        choices[i] = (kt__wire_choice){
            .index = i, .finish = c->finish, .tokens = c->list, .n_tokens = c->n_list};
        if (ok) kt__wire_blocks_fill(&c->said, c->calls, &choices[i]);
    }
    const kt__wire_answer answer = {
        .form = line->request->form,
        .id = line->openai ? id : line->id,
        .model = line->request->model ? line->request->model : job->sink->model_name,
        .created_s = (int64_t)time(NULL),
        .choices = choices,
        .n_choices = (size_t)job->n_choices,
        .usage = &job->usage,
        .seed = job->seed,
        .older_calls = line->request->older_calls,
        .notes = job->notes,
    };
    if (ok && line->openai) begin_openai(out, line, 200);
    if (ok) kt__wire_write_answer(out, &answer);
    if (ok && line->openai) (void)kt__buf_puts(out, "},\"error\":null}");
    kt__free(choices);
    return ok && !out->failed;
}

static void job_free(kt__batch_job *job) {
    for (int32_t i = 0; job->choices && i < job->n_choices; i++) {
        kt__wire_blocks_free(&job->choices[i].said);
        kt__free(job->choices[i].calls);
        kt__buf_free(&job->choices[i].bytes);
        kt__buf_free(&job->choices[i].tokens);
        kt__free(job->choices[i].list);
    }
    kt__free(job->choices);
    kt_request_close(job->req);
    kt__batch_line_free(&job->line);
    kt__free(job);
}

static void job_finish(kt__batch_job *job, const kt_request_report *report) {
    kt__buf line;
    kt__buf_init(&line, MAX_TEXT_BYTES);
    if (!job->failed && !write_answer(job, &line)) {
        job->failed = true;
        (void)kt__fail_nomem(&job->err, "an answer", line.len);
        kt__buf_clear(&line);
        line.failed = false;
    }
    if (job->failed) kt__batch_write_error(&line, &job->line, &job->err);
    job->sink->done(job->sink->user, job->line.number, &line, job->failed, report);
    kt__buf_free(&line);
    job_free(job);
}

/* ---- events ---- */

static void add_token(const kt__batch_job *job, choice *c, int32_t id, float logprob,
                      size_t n_top) {
    char text[1024];
    size_t len = 0;
    kt__wire_token token = {.id = id, .logprob = logprob, .n_top = n_top};
    if (kt_detokenize(job->sink->model, &id, 1, KT_TOK_RENDER_SPECIAL, text, sizeof text, &len,
                      NULL) != KT_OK)
        len = 0;
    token.text = (const char *)(uintptr_t)c->bytes.len; /* an offset, until all are there */
    token.len = len;
    (void)kt__buf_append(&c->bytes, text, len);
    (void)kt__buf_append(&c->tokens, &token, sizeof token);
}

static void take_token(const kt__batch_job *job, choice *c, const kt_event *event) {
    c->failed |= !kt__wire_blocks_add_event(&c->said, event);
    if (job->line.request->req.logprobs.n < 0 || event->id < 0) return;
    add_token(job, c, event->id, event->logprob, event->n_top);
    for (size_t i = 0; i < event->n_top; i++)
        add_token(job, c, event->top[i].id, event->top[i].logprob, 0);
}

static void take_finish(kt__batch_job *job, choice *c, const kt_event *event) {
    const kt_request_report *r = event->report;
    c->finish = event->finish;
    if (event->choice == 0) {
        job->usage.n_prompt = r->n_prompt;
        job->usage.n_cached = r->n_cached;
        job->seed = r->seed;
    }
    job->usage.n_generated += r->n_generated;
    job->usage.n_reasoning += r->n_reasoning;
    bool bad = event->finish == KT_FINISH_ERROR || event->finish == KT_FINISH_CANCELLED;
    if (!bad || job->failed) return;
    job->failed = true;
    if (event->error) {
        job->err = *event->error;
    } else {
        (void)kt__fail(&job->err, KT_E_CANCELLED, "cancelled");
    }
}

static void on_event(void *user, const kt_event *event) {
    kt__batch_job *job = user;
    if (event->kind == KT_EVENT_STARTED) return;
    choice *c = &job->choices[event->choice];
    if (event->kind == KT_EVENT_TOKEN) take_token(job, c, event);
    if (event->kind != KT_EVENT_FINISHED) return;
    take_finish(job, c, event);
    job->notes = kt_request_notes(event->req);
    if (event->last) job_finish(job, event->report);
}

/* ---- submitting ---- */

static kt__batch_job *job_new(const kt__batch_line *line, const kt__batch_sink *sink) {
    kt__batch_job *job = kt__calloc(1, sizeof *job);
    if (!job) return NULL;
    job->sink = sink;
    job->n_choices = line->request->req.n_choices;
    job->choices = kt__calloc((size_t)job->n_choices, sizeof *job->choices);
    if (!job->choices) {
        kt__free(job);
        return NULL;
    }
    for (int32_t i = 0; i < job->n_choices; i++) {
        kt__wire_blocks_init(&job->choices[i].said, MAX_TEXT_BYTES);
        kt__buf_init(&job->choices[i].bytes, MAX_TEXT_BYTES);
        kt__buf_init(&job->choices[i].tokens, MAX_TEXT_BYTES);
    }
    return job;
}

/* Of a line that says which: by name, among those of --lora. */
static kt_status name_adapters(const kt__wire_request *line, const kt__lora_set *lora,
                               kt_adapter_use *uses, kt_error *err) {
    for (size_t i = 0; i < line->n_adapters; i++) {
        kt_adapter_info info;
        uses[i].adapter = NULL;
        for (size_t k = 0; k < lora->n && !uses[i].adapter; k++) {
            kt_adapter_get_info(lora->uses[k].adapter, &info);
            if (!strcmp(info.name, line->adapters[i].name))
                uses[i] = (kt_adapter_use){lora->uses[k].adapter, line->adapters[i].scale};
        }
        if (!uses[i].adapter)
            return kt__fail_at(err, KT_E_ARG, "adapter", UINT64_MAX,
                               "adapter: no --lora has the name \"%.80s\"", line->adapters[i].name);
    }
    return KT_OK;
}

static kt_status submit_line(kt_engine *engine, kt__batch_line *line, const kt__batch_sink *sink,
                             kt_error *err) {
    kt_adapter_use uses[KT_ADAPTERS_MAX];
    kt_status named = name_adapters(line->request, sink->lora, uses, err);
    if (named != KT_OK) return named;
    kt__batch_job *job = job_new(line, sink);
    if (!job) return kt__fail_nomem(err, "a request", sizeof *job);
    kt_request_params request = line->request->req;
    request.events.on_event = on_event;
    request.events.user = job;
    if (line->request->adapters_given) {
        request.adapters = uses;
        request.n_adapters = line->request->n_adapters;
    }
    job->line = *line;
    kt_status status = kt_engine_submit(engine, &request, &job->req, err);
    if (status == KT_OK) {
        *line = (kt__batch_line){0};
    } else {
        kt__wire_place_error(line->request, err);
        job->line = (kt__batch_line){0}; /* still the caller's */
        job_free(job);
    }
    return status;
}

kt_status kt__batch_job_submit(kt_engine *engine, kt__batch_line *line, const kt__batch_sink *sink,
                               kt_error *err) {
    kt_error why = line->err;
    kt__error_clear(err);
    if (line->request) {
        kt_status status = submit_line(engine, line, sink, &why);
        if (status == KT_E_BUSY) *err = why;
        if (status == KT_OK || status == KT_E_BUSY) return status;
    }
    kt__buf out;
    kt__buf_init(&out, 1 << 20);
    kt__batch_write_error(&out, line, &why);
    sink->done(sink->user, line->number, &out, true, NULL);
    kt__buf_free(&out);
    kt__batch_line_free(line);
    return KT_OK;
}
