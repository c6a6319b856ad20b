/* OpenAI's chat and text completions: JSON, or server-sent events. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dialects/dialects.h"

/* ---- the parts of an answer ---- */

static kt__wire_answer answer_of(const kt__job *job) {
    return (kt__wire_answer){
        .form = job->request.wire->form,
        .id = job->id,
        .model = kt__served_name(job->model.served),
        .created_s = job->request.created_s,
        .seed = job->answer.report.seed,
        .older_calls = job->request.wire->older_calls,
        .text_first = job->dialect == &kt__dialect_fim,
        .notes = job->answer.notes,
        .learned = job->model.learned_json[0] ? job->model.learned_json : NULL,
        .route = job->model.route_json,
    };
}

/* Members of a chunk besides those of every chunk: how far the prompt is (event, or NULL), and the figures so far of
 * `choice` (-1: they are not wanted). */
static void write_chunk_with(kt__job *job, kt__wire_answer *a, const kt_event *event,
                             int32_t choice) {
    kt__buf more;
    kt__buf_init(&more, 4096);
    if (event) kt__wire_write_progress(&more, event);
    if (choice >= 0) {
        const kt_request_report figures = kt__job_figures(job, choice);
        kt__wire_write_llama_timings(&more, &figures);
    }
    a->more = more.data;
    if (more.failed) job->answer.out.failed = true;
    (void)kt__buf_puts(&job->answer.out, "data: ");
    kt__wire_write_chunk(&job->answer.out, a, false);
    (void)kt__buf_puts(&job->answer.out, "\n\n");
    kt__buf_free(&more);
}

/* report: of a choice's last chunk, else NULL */
static void write_chunk(kt__job *job, const kt__wire_choice *choice, const kt__wire_usage *usage,
                        const kt_request_report *report, bool first) {
    kt__wire_answer a = answer_of(job);
    a.report = report;
    a.choices = choice;
    a.n_choices = choice ? 1 : 0;
    a.usage = usage;
    (void)kt__buf_puts(&job->answer.out, "data: ");
    kt__wire_write_chunk(&job->answer.out, &a, first);
    (void)kt__buf_puts(&job->answer.out, "\n\n");
}

/* Chat begins with each choice's role, so that clients see life before the first token. */
static void openai_begin(kt__job *job) {
    if (!job->answer.stream || job->request.wire->form != KT__WIRE_CHAT) return;
    for (int32_t i = 0; i < job->answer.n_choices; i++) {
        const kt__wire_choice choice = {.index = i, .text = ""};
        write_chunk(job, &choice, NULL, NULL, true);
    }
}

static void openai_progress(kt__job *job, const kt_event *event) {
    const kt__wire_choice choice = {.index = event->choice, .text = ""};
    kt__wire_answer a = answer_of(job);
    a.choices = &choice;
    a.n_choices = 1;
    write_chunk_with(job, &a, event, job->request.wire->timings_per_token ? event->choice : -1);
}

static kt__wire_choice choice_of_part(const kt_part *part, kt__wire_call *call) {
    kt__wire_choice choice = {.text = ""};
    if (part->kind == KT_PART_CONTENT) {
        choice.text = part->text;
        choice.len = part->len;
    } else if (part->kind == KT_PART_REASONING) {
        choice.reasoning = part->text;
        choice.reasoning_len = part->len;
    } else {
        *call = (kt__wire_call){part->call, part->id, part->name, part->text, part->len};
        choice.calls = call;
        choice.n_calls = 1;
    }
    return choice;
}

static void write_token_chunk(kt__job *job, const kt__wire_choice *choice) {
    kt__wire_answer a = answer_of(job);
    a.choices = choice;
    a.n_choices = 1;
    if (job->request.wire->timings_per_token) {
        write_chunk_with(job, &a, NULL, choice->index);
    } else {
        write_chunk(job, choice, NULL, NULL, false);
    }
}

/* A chunk for each part that the token released; its log probabilities are with the first. */
static void openai_token(kt__job *job, const kt_event *event) {
    kt_part one;
    kt__wire_call call;
    size_t n;
    if (!job->answer.stream) {
        kt__dialect_gather(job, event);
        return;
    }
    const kt__wire_token *t = kt__dialect_token(job, event);
    const kt_part *parts = kt__wire_parts(event, &one, &n);
    for (size_t i = 0; i < n || (!i && t);
         i++) { /* else held back: part of a character or the like */
        kt__wire_choice choice = i < n ? choice_of_part(&parts[i], &call)
                                       : (kt__wire_choice){.text = ""};
        choice.index = event->choice;
        choice.tokens = i ? NULL : t;
        choice.n_tokens = choice.tokens ? 1 : 0;
        write_token_chunk(job, &choice);
    }
    kt__arena_reset(&job->arena);
}

/* ---- echo: the prompt before its answer ---- */

static void append_ids(kt__job *job, const int32_t *ids, size_t n, kt__buf *out) {
    size_t len = 0;
    kt_status status = kt_detokenize(job->model.loaded, ids, n, KT_TOK_RENDER_SPECIAL, NULL, 0,
                                     &len, NULL);
    if (status == KT_E_LIMIT && kt__buf_reserve(out, len))
        status = kt_detokenize(job->model.loaded, ids, n, KT_TOK_RENDER_SPECIAL,
                               out->data + out->len, len, &len, NULL);
    if (status != KT_OK) {
        out->failed = true;
        return;
    }
    out->len += len;
}

static void echo_text(kt__job *job, kt__job_choice *c, size_t prompt) {
    kt__buf whole;
    kt_request_params asked = job->request.wire->req;
    kt__wire_set_prompt(job->request.wire, prompt, &asked);
    kt__buf_init(&whole, c->said.text.max);
    if (asked.prompt.text) {
        (void)kt__buf_append(&whole, asked.prompt.text, asked.prompt.text_len);
    } else if (asked.prompt.n_ids) {
        append_ids(job, asked.prompt.ids, asked.prompt.n_ids, &whole);
    }
    (void)kt__buf_append(&whole, c->said.text.data ? c->said.text.data : "", c->said.text.len);
    if (whole.failed) job->answer.out.failed = true;
    kt__buf_free(&c->said.text);
    c->said.text = whole;
}

static void echo_tokens(kt__job *job, kt__job_choice *c, const kt_event *event) {
    size_t width = (size_t)job->request.wire->req.logprobs.n + 1, n = event->n_prompt;
    kt__wire_token *tokens = kt__calloc(n + c->n_tokens, sizeof *tokens);
    bool made = tokens != NULL;
    for (size_t i = 0; i < n && made; i++) {
        const kt_logprob *row = &event->prompt[i * width];
        const kt__wire_token *token = kt__dialect_logprobs(job, row, row + 1, i ? width - 1 : 0);
        made = token != NULL;
        if (made) tokens[i] = *token;
    }
    if (!made) {
        job->answer.out.failed = true;
        kt__free(tokens);
        return;
    }
    tokens[0].logprob = NAN; /* nothing is before it */
    if (c->n_tokens) memcpy(tokens + n, c->tokens, c->n_tokens * sizeof *tokens);
    kt__free(c->tokens);
    c->tokens = tokens;
    c->n_tokens = c->cap_tokens = n + c->n_tokens;
}

static void echo_prompt(kt__job *job, const kt_event *event) {
    kt__job_choice *c = &job->answer.choices[event->choice];
    echo_text(job, c, (size_t)(event->choice / job->request.wire->req.n_choices));
    if (event->prompt) echo_tokens(job, c, event);
}

/* Of the object that was just written, and ended with `end`: a further member, at its end. */
static void add_verbose(kt__job *job, const kt_request_report *report, int32_t choice,
                        const char *end) {
    kt__buf *out = &job->answer.out;
    size_t len = strlen(end);
    if (!job->extra || out->failed || out->len < len) return;
    out->len -= len;
    (void)kt__buf_putc(out, ',');
    kt__llama_write_verbose(job, report, &job->answer.choices[choice].said.text);
    (void)kt__buf_puts(out, end);
}

static void openai_finish(kt__job *job, const kt_event *event) {
    if (!job->answer.stream) {
        if (job->request.wire->echo) echo_prompt(job, event);
        return;
    }
    const kt__wire_choice choice = {.index = event->choice,
                                    .text = "",
                                    .finish = event->finish,
                                    .called = event->report->n_calls > 0};
    write_chunk(job, &choice, NULL, event->report, false);
    add_verbose(job, event->report, event->choice, "}\n\n");
}

/* false: no memory */
static bool fill_choice(kt__job *job, int32_t i, kt__wire_choice *out) {
    const kt__job_choice *c = &job->answer.choices[i];
    size_t n_calls = kt__wire_blocks_calls(&c->said, NULL);
    kt__wire_call *calls = kt__arena_calloc(&job->arena, n_calls + 1, sizeof *calls);
    if (!calls) return false;
    *out = (kt__wire_choice){
        .index = i, .finish = c->finish, .tokens = c->tokens, .n_tokens = c->n_tokens};
    kt__wire_blocks_fill(&c->said, calls, out);
    return true;
}

/* The mean over its tokens: a long answer is no worse than a short one. */
static double score_of(const kt__job_choice *c) {
    return c->n_scored ? c->logprob / c->n_scored : -INFINITY;
}

/* Of the answers to a prompt, choices begin to begin + n - 1, the one before which `rank` others
 * are more probable, or as probable and earlier. */
static int32_t ranked_choice(const kt__job *job, int32_t begin, int32_t n, int32_t rank) {
    for (int32_t i = begin; i < begin + n; i++) {
        double own = score_of(&job->answer.choices[i]);
        int32_t before = 0;
        for (int32_t k = begin; k < begin + n; k++) {
            double other = score_of(&job->answer.choices[k]);
            before += other > own || (k < i && !(other < own));
        }
        if (before == rank) return i;
    }
    return begin;
}

/* All choices, or of each prompt's the best_of's most probable. NULL: no memory */
static kt__wire_choice *fill_choices(kt__job *job, size_t *n) {
    int32_t each = job->request.wire->req.n_choices,
            kept = job->request.wire->n_best ? job->request.wire->n_best : each;
    int32_t n_prompts = job->answer.n_choices / each;
    kt__wire_choice *choices = kt__calloc((size_t)job->answer.n_choices, sizeof *choices);
    bool made = choices != NULL;
    *n = (size_t)(n_prompts * kept);
    for (int32_t i = 0; i < n_prompts * kept && made; i++) {
        int32_t begin = i / kept * each;
        int32_t from = kept == each ? i : ranked_choice(job, begin, each, i % kept);
        made = fill_choice(job, from, &choices[i]);
        choices[i].index = i;
    }
    if (made) return choices;
    kt__free(choices);
    return NULL;
}

static void write_whole(kt__job *job) {
    kt__wire_answer a = answer_of(job);
    kt__wire_choice *choices = fill_choices(job, &a.n_choices);
    a.choices = choices;
    a.usage = &job->answer.usage;
    a.report = &job->answer.report;
    if (choices) {
        kt__wire_write_answer(&job->answer.out, &a);
        add_verbose(job, &job->answer.report, 0, "}");
    } else {
        job->answer.out.failed = true;
    }
    kt__free(choices);
}

static void openai_end(kt__job *job) {
    if (!job->answer.stream) {
        write_whole(job);
        return;
    }
    if (job->request.wire->include_usage)
        write_chunk(job, NULL, &job->answer.usage, &job->answer.report, false);
    (void)kt__buf_puts(&job->answer.out, "data: [DONE]\n\n");
}

static void openai_error(kt__job *job, const kt_error *err) {
    if (!job->answer.stream) {
        kt__dialect_whole_error(job, err);
        return;
    }
    (void)kt__buf_puts(&job->answer.out, "data: ");
    kt__openai_error_body(&job->answer.out, kt__wire_http_status(err->code), err);
    (void)kt__buf_puts(&job->answer.out, "\n\ndata: [DONE]\n\n");
}

/* Where a request does not say, a server that logs everything answers with __verbose. */
static kt_status read_chat(kt__job *job, kt_error *err) {
    const char *level = job->request.settings->config->log_level;
    KT__STEP(kt__job_parse(job, err));
    bool usual = !json_object_get(job->request.json, "verbose") && level && !strcmp(level, "debug");
    KT__STEP(kt__job_read_wire(job, KT__WIRE_CHAT, err));
    return usual || job->request.wire->verbose ? kt__llama_keep_verbose(job, err) : KT_OK;
}

static kt_status read_completion(kt__job *job, kt_error *err) {
    return kt__job_read_wire(job, KT__WIRE_TEXT, err);
}

/* Asked as a completion with a `suffix`, answered as a chat is. */
static kt_status read_fim(kt__job *job, kt_error *err) {
    kt_status status = kt__job_read_wire(job, KT__WIRE_TEXT, err);
    if (status == KT_OK && !job->request.wire->req.prompt.fim_suffix)
        job->request.wire->req.prompt.fim_suffix = "";
    if (status == KT_OK) job->request.wire->form = KT__WIRE_CHAT;
    return status;
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
        .progress = openai_progress,         \
        .finish = openai_finish,             \
        .end = openai_end,                   \
        .error = openai_error,               \
    }

static kt_status count_chat(kt__job *job, kt_error *err) {
    KT__STEP(read_chat(job, err));
    return kt__dialect_write_count(job, "response.input_tokens", err);
}

const kt__dialect kt__dialect_chat_count = {
    .route = "/v1/chat/completions/input_tokens",
    .error_body = kt__openai_error_body,
    .run = count_chat,
    .error = kt__dialect_whole_error,
};

OPENAI(kt__dialect_chat, "/v1/chat/completions", read_chat);
OPENAI(kt__dialect_completion, "/v1/completions", read_completion);
OPENAI(kt__dialect_fim, "/v1/fim/completions", read_fim);
