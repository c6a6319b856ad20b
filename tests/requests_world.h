/* For tests of submitted requests: the demo model, a dozen different requests over it, and what
 * came of them. */
#ifndef KT_TESTS_REQUESTS_WORLD_H
#define KT_TESTS_REQUESTS_WORLD_H

#include <string.h>

#include "context/model.h"
#include "context/types.h"
#include "kv_types.h"

enum { MAX_REQUESTS = 16, MAX_TEXT = 8192, MAX_TOKENS = 1024, PROMPTS = 12 };

typedef struct answer {
    kt_request *req;
    char text[MAX_TEXT];
    size_t len;
    int32_t ids[MAX_TOKENS];
    float logprob[MAX_TOKENS];
    kt_logprob top[MAX_TOKENS][5];
    int64_t t_us[MAX_TOKENS];
    int n_tokens, n_started, n_finished;
    kt_finish finish;
    kt_request_report report;
    kt_error error;
} answer;

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    int32_t *ids[PROMPTS];
    size_t n_ids[PROMPTS];
    int32_t n_predict; /* 0: the prompt's */
    bool ignore_eog;
    kt_request *open[256];
    int n_open;
} world;

#define MUST(call)                                                                             \
    do {                                                                                       \
        kt_status must_ = (call);                                                              \
        if (must_ != KT_OK) fail_msg("%s: %s: %s", #call, kt_status_name(must_), err.message); \
    } while (0)

static const char *const world_prompts[PROMPTS] = {
    "Tell me a short story about a cat.",
    "What is the capital of France?",
    "Write a poem about the sea and the wind, with many words.",
    "Tell me a long story about a dog that lives on a farm with a horse, two cows, a goat and an "
    "old cat who does not like the rain, and about the day when they all went to the river.",
    "Hello!",
    "List three colours.",
    "Why is the sky blue? Explain it to a child of six years, with an example.",
    "Count from one to ten.",
    "Name an animal that can fly, one that can swim, and one that can run fast.",
    "What do you think about potatoes?",
    "Tell me a long story about a dog that lives on a farm with a horse, two cows, a goat and an "
    "old cat who does not like the rain, and about the day when they stayed at home.",
    "Good night.",
};

static inline void world_open(world *w) {
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    /* forms of keys and values change nothing that threads share */
    cp.n_threads = getenv("KT_TEST_KV") ? 1 : 2;
    kt_status status = kt_ctx_open(&cp, &w->ctx, &err);
    if (status == KT_OK) status = kt_model_open_demo(w->ctx, NULL, &w->model, &err);
    for (int i = 0; status == KT_OK && i < PROMPTS; i++) {
        kt_message message = {"user", world_prompts[i]};
        status = kt_chat_encode(w->model, &message, 1, true, &w->ids[i], &w->n_ids[i], &err);
    }
    if (status == KT_OK) return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static inline void world_close(world *w) {
    for (int i = 0; i < PROMPTS; i++) kt_free(w->ids[i]);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static inline uint64_t page_bytes(const world *w) {
    kt_engine_params params = {0};
    kv_types_of_test(&params);
    kt__kv_shape shape = kt__engine_kv_shape(w->model, &params);
    return kt__kv_page_bytes(&shape);
}

/* Greedy, seeded, with penalties, with a stop string, with mirostat: by the number. */
static inline kt_request_params request_of(const world *w, int i) {
    static const char *const stops[] = {"the dog", "."};
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = w->ids[i % PROMPTS];
    r.prompt.n_ids = w->n_ids[i % PROMPTS];
    r.gen.n_predict = w->n_predict ? w->n_predict : 24 + 3 * i;
    r.gen.ignore_eog = w->ignore_eog;
    r.gen.sampling.seed = (uint64_t)(1000 + i);
    switch (i % 4) {
    case 0: r.gen.sampling.temperature = 0; break;
    case 1: r.gen.sampling.repeat_penalty = 1.2f; break;
    case 2: r.gen.sampling.dry_multiplier = 0.8f; break;
    default:
        r.gen.sampling.mirostat = 2;
        if (i % 8 == 3) r.gen.stop = stops;
        r.gen.n_stop = r.gen.stop ? 2 : 0;
    }
    return r;
}

static inline bool note_text(void *user, const char *text, size_t len, int32_t id) {
    answer *a = user;
    (void)id;
    if (len > MAX_TEXT - a->len) len = MAX_TEXT - a->len;
    memcpy(a->text + a->len, text, len);
    a->len += len;
    return true;
}

static inline void note_event(void *user, const kt_event *event) {
    answer *a = user;
    switch (event->kind) {
    case KT_EVENT_STARTED: a->n_started++; break;
    case KT_EVENT_TOKEN:
        (void)note_text(a, event->text, event->len, event->id);
        if (event->id < 0 || a->n_tokens == MAX_TOKENS) break;
        a->ids[a->n_tokens] = event->id;
        a->logprob[a->n_tokens] = event->logprob;
        a->t_us[a->n_tokens] = event->t_us;
        for (size_t i = 0; i < event->n_top && i < 5; i++) a->top[a->n_tokens][i] = event->top[i];
        a->n_tokens++;
        break;
    case KT_EVENT_FINISHED:
        a->n_finished++;
        a->finish = event->finish;
        a->report = *event->report;
        if (event->error) a->error = *event->error;
        break;
    case KT_EVENT_PROGRESS: break;
    }
}

/* user: an array of answers, by choice */
static inline void note_choice(void *user, const kt_event *event) {
    note_event((answer *)user + event->choice, event);
}

static inline void open_engine(world *w, const kt_engine_params *params) {
    kt_error err;
    kt_engine_params with = params ? *params : kt_engine_params_default();
    kv_types_of_test(&with);
    MUST(kt_engine_open(w->model, &with, &w->engine, &err));
    w->n_open = 0;
}

static inline void close_engine(world *w) {
    kt_engine_stop(w->engine, 0);
    for (int i = 0; i < w->n_open; i++) kt_request_close(w->open[i]);
    kt_engine_close(w->engine);
    w->engine = NULL;
}

static inline void submit_choices(world *w, kt_request_params *r, answer *out, int n) {
    kt_error err;
    kt_request *req;
    memset(out, 0, (size_t)n * sizeof *out);
    r->events.on_event = note_choice;
    r->events.user = out;
    MUST(kt_engine_submit(w->engine, r, &req, &err));
    out[0].req = req;
    w->open[w->n_open++] = req; /* closed with the engine, or by close_request */
}

static inline void close_request(world *w, answer *a) {
    for (int i = 0; i < w->n_open; i++) {
        if (w->open[i] == a->req) w->open[i] = w->open[--w->n_open];
    }
    kt_request_close(a->req);
    a->req = NULL;
}

static inline void submit_request(world *w, kt_request_params *r, answer *out) {
    submit_choices(w, r, out, 1);
}

static inline void submit(world *w, int i, answer *out) {
    kt_request_params r = request_of(w, i);
    submit_request(w, &r, out);
}

static inline void submit_all(world *w, int n, answer *out) {
    for (int i = 0; i < n; i++) submit(w, i, &out[i]);
}

static inline int step(world *w, int n) {
    kt_error err;
    int32_t left = 0;
    while (n-- > 0) MUST(kt_engine_step(w->engine, 0, &left, &err));
    return left;
}

static inline void run_to_end(world *w, bool threaded) {
    kt_error err;
    if (threaded) {
        MUST(kt_engine_start(w->engine, &err));
        kt_engine_stop(w->engine, -1);
        return;
    }
    for (int i = 0; step(w, 1) > 0; i++) {
        if (i > 100000) fail_msg("%s", "requests do not end");
    }
}

/* The request through kt_generate on an engine of its own. */
static inline void answer_alone(world *w, int i, answer *out) {
    kt_error err;
    kt_engine *engine;
    kt_seq *seq;
    kt_request_report result;
    kt_engine_params ep = {.n_ctx = 2048, .n_seq_max = 1};
    kt_request_params r = request_of(w, i);
    memset(out, 0, sizeof *out);
    kv_types_of_test(&ep);
    MUST(kt_engine_open(w->model, &ep, &engine, &err));
    MUST(kt_seq_open(engine, &seq, &err));
    MUST(kt_generate(seq, r.prompt.ids, r.prompt.n_ids, &r.gen, note_text, out, &result, &err));
    out->finish = result.finish;
    out->report.n_generated = result.n_generated;
    for (int k = 0; k < result.n_generated - 1; k++)
        out->ids[k] = kt_seq_tokens(seq)[(size_t)r.prompt.n_ids + (size_t)k];
    kt_seq_close(seq);
    kt_engine_close(engine);
}

static inline void expect_same(int i, const answer *alone, const answer *other) {
    if (other->n_finished != 1) fail_msg("request %d finished %d times", i, other->n_finished);
    if (other->finish != alone->finish)
        fail_msg("request %d ended by %s, alone by %s (%s)", i, kt_finish_name(other->finish),
                 kt_finish_name(alone->finish), other->error.message);
    if (alone->len != other->len || memcmp(alone->text, other->text, alone->len) != 0)
        fail_msg("request %d: \"%.*s\"\nalone: \"%.*s\"", i, (int)other->len, other->text,
                 (int)alone->len, alone->text);
    assert_int_equal(alone->report.n_generated, other->report.n_generated);
    assert_memory_equal(alone->ids, other->ids,
                        (size_t)(alone->report.n_generated - 1) * sizeof *alone->ids);
}

/* Everything was given back: what pages are left are only kept for later prompts. */
static inline void expect_idle(world *w) {
    kt_engine_stats stats;
    kt_engine_get_stats(w->engine, &stats);
    assert_int_equal(stats.running, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.kv_blocks_used, 0);
    uint64_t finished = 0;
    for (int f = 0; f < KT_FINISH_COUNT; f++) finished += stats.n_finished[f];
    assert_true(finished >= stats.n_submitted);
}

#endif
