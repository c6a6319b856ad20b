/* Many requests on one engine: speeds together, pauses while a long prompt arrives, cancel, prefix
 * reuse, speculation. By hand:
 *
 *     bench_engine MODEL streams N     aggregate tok/s, percentiles of the gaps between tokens
 *     bench_engine MODEL gap [MS [N]]  4 streams, then a prompt of N (4088) tokens beside them
 *     bench_engine MODEL cancel [N]    how long after kt_request_cancel the last event comes: of a
 *                                      prompt, or of one of N answers
 *     bench_engine MODEL fair          three clients with 32, 8 and 2 requests, and an urgent one
 *     bench_engine MODEL prefix        first token of a prompt of 2048 tokens, new and seen
 *     bench_engine MODEL plan          what budgets from 256 MiB to 16 GiB give
 *     bench_engine MODEL spec FILE     greedy answer to the text of FILE, with and without
 * proposals
 *
 * MODEL "-" is the embedded one. One JSON line a run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kentang.h"

enum { MAX_STREAMS = 64, MAX_GAPS = 1 << 16, LONG_PROMPT = 4096 };

typedef struct stream {
    int64_t last_us, first_us, end_us, submitted_us;
    int n_tokens;
    bool gauged; /* its gaps are kept */
    kt_request_report report;
    kt_request *req;
} stream;

typedef struct bench {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_model_info info;
    stream streams[MAX_STREAMS + 1];
    double gaps_ms[MAX_GAPS];
    int n_gaps;
    bool keeping;
} bench;

static bench b;

static void check(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "bench_engine: %s\n", err->message);
    exit(kt_status_exit_code(status));
}

static void on_event(void *user, const kt_event *event) {
    stream *s = user;
    if (event->kind == KT_EVENT_FINISHED) {
        s->end_us = event->t_us;
        s->report = *event->report;
    }
    if (event->kind != KT_EVENT_TOKEN || event->id < 0) return;
    if (s->n_tokens++ == 0) s->first_us = event->t_us;
    if (s->n_tokens > 1 && s->gauged && b.keeping && b.n_gaps < MAX_GAPS)
        b.gaps_ms[b.n_gaps++] = (double)(event->t_us - s->last_us) / 1000.0;
    s->last_us = event->t_us;
}

static void submit_as(stream *s, const char *client, int32_t priority, int32_t n_prompt,
                      int32_t n_predict, uint32_t seed) {
    kt_error err;
    static int32_t ids[LONG_PROMPT];
    kt_request_params r = kt_request_params_default();
    for (int32_t i = 0; i < n_prompt; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) %
                           (uint32_t)(b.info.n_vocab < 32000 ? b.info.n_vocab : 32000));
    }
    r.prompt.ids = ids;
    r.prompt.n_ids = (size_t)n_prompt;
    r.gen.n_predict = n_predict;
    r.gen.ignore_eog = true;
    r.gen.sampling.seed = seed;
    r.service.client = client;
    r.service.priority = priority;
    r.events.on_event = on_event;
    r.events.user = s;
    *s = (stream){.gauged = true, .submitted_us = kt__now_us()};
    check(kt_engine_submit(b.engine, &r, &s->req, &err), &err);
}

static void submit(stream *s, int32_t n_prompt, int32_t n_predict, uint32_t seed) {
    submit_as(s, NULL, 0, n_prompt, n_predict, seed);
}

static void open_all(const char *path, kt_engine_params ep) {
    kt_error err;
    check(kt_ctx_open(NULL, &b.ctx, &err), &err);
    bool demo = strcmp(path, "-") == 0;
    check(demo ? kt_model_open_demo(b.ctx, NULL, &b.model, &err)
               : kt_model_open(b.ctx, path, NULL, &b.model, &err),
          &err);
    kt_model_get_info(b.model, &b.info);
    check(kt_engine_open(b.model, &ep, &b.engine, &err), &err);
    check(kt_engine_start(b.engine, &err), &err);
}

static int by_value(const void *a, const void *c) {
    double x = *(const double *)a, y = *(const double *)c;
    return (x > y) - (x < y);
}

static double gap_at(double share) {
    if (b.n_gaps == 0) return 0;
    qsort(b.gaps_ms, (size_t)b.n_gaps, sizeof b.gaps_ms[0], by_value);
    return b.gaps_ms[(int)(share * (double)(b.n_gaps - 1))];
}

static void wait_for(int64_t us) {
    int64_t until_us = kt__now_us() + us;
    while (kt__now_us() < until_us) usleep(1000);
}

static void drain(void) {
    kt_engine_stop(b.engine, -1);
}

static void bench_streams(int n) {
    enum { N_PREDICT = 96 };
    b.keeping = true;
    int64_t begin_us = kt__now_us();
    for (int i = 0; i < n; i++) submit(&b.streams[i], 32, N_PREDICT, (uint32_t)i + 1);
    drain();
    int64_t last_us = 0, first_us = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (b.streams[i].last_us > last_us) last_us = b.streams[i].last_us;
        if (b.streams[i].first_us < first_us) first_us = b.streams[i].first_us;
    }
    printf("{\"streams\": %d, \"tok_s\": %.2f, \"gap_p50_ms\": %.1f, \"gap_p99_ms\": %.1f, "
           "\"wall_s\": %.2f}\n",
           n, (double)(n * (N_PREDICT - 1)) * 1e6 / (double)(last_us - first_us), gap_at(0.5),
           gap_at(0.99), (double)(last_us - begin_us) / 1e6);
}

/* Streams alone for a while, then beside the prompt until its first token. */
static void bench_gap(int n_prompt) {
    stream *prompt = &b.streams[4];
    kt_engine_stats before, after;
    for (int i = 0; i < 4; i++) submit(&b.streams[i], 32, 4000, (uint32_t)i + 1);
    for (int i = 0; i < 4; i++) {
        while (!b.streams[i].last_us) usleep(1000);
    }
    wait_for(2000000);
    b.keeping = true;
    wait_for(5000000);
    double alone_p50 = gap_at(0.5), alone_p99 = gap_at(0.99);
    b.n_gaps = 0;
    kt_engine_get_stats(b.engine, &before);
    submit(prompt, n_prompt, 1, 99);
    prompt->gauged = false;
    while (!prompt->end_us) usleep(1000);
    b.keeping = false;
    kt_engine_get_stats(b.engine, &after);
    double wall_us = (double)(prompt->end_us - prompt->submitted_us);
    double worked_us = (double)(after.prefill_us - before.prefill_us) +
                       (double)(after.decode_us - before.decode_us) +
                       (double)(after.sample_us - before.sample_us);
    printf(
        "{\"gap_alone_p50_ms\": %.1f, \"gap_alone_p99_ms\": %.1f, \"gap_p50_ms\": %.1f, "
        "\"gap_p99_ms\": %.1f, \"gap_max_ms\": %.1f, \"prompt_s\": %.2f, \"prefill_tok_s\": %.1f, "
        "\"prefill_alone_share\": %.3f, \"share_worked\": %.3f, \"batches\": %" PRIu64 "}\n",
        alone_p50, alone_p99, gap_at(0.5), gap_at(0.99), gap_at(1), wall_us / 1e6,
        (double)n_prompt * 1e6 / (double)(after.prefill_us - before.prefill_us),
        (double)(after.prefill_us - before.prefill_us) / wall_us, worked_us / wall_us,
        after.n_prefill_batches - before.n_prefill_batches);
    kt_engine_stop(b.engine, 0);
}

typedef struct cancels {
    double sum_ms, worst_ms;
    int n;
} cancels;

static void time_cancel(stream *s, cancels *c) {
    int64_t at_us = kt__now_us();
    kt_request_cancel(s->req);
    while (!s->end_us) usleep(200);
    double ms = (double)(s->end_us - at_us) / 1000.0;
    c->sum_ms += ms;
    c->n++;
    if (ms > c->worst_ms) c->worst_ms = ms;
    kt_request_close(s->req);
}

/* In the midst of a prompt. */
static void cancel_prompts(cancels *c) {
    for (int i = 0; i < 10; i++) {
        submit(&b.streams[0], LONG_PROMPT - 8, 1, (uint32_t)(i + 100));
        wait_for(900000 + i * 77777);
        time_cancel(&b.streams[0], c);
    }
}

/* One of n answers; another takes its place. */
static void cancel_answers(int n, cancels *c) {
    for (int i = 0; i < n; i++) submit(&b.streams[i], 32, 4000, (uint32_t)i + 1);
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < n; k++) {
            while (!b.streams[k].last_us) usleep(1000);
        }
        wait_for(400000 + i * 7777);
        time_cancel(&b.streams[i % n], c);
        submit(&b.streams[i % n], 32, 4000, (uint32_t)(i + 100));
    }
}

/* n: answers; 0: prompts */
static void bench_cancel(int n) {
    cancels c = {0};
    if (n > 0) {
        cancel_answers(n, &c);
    } else {
        cancel_prompts(&c);
    }
    printf("{\"cancel_mean_ms\": %.1f, \"cancel_max_ms\": %.1f}\n", c.sum_ms / c.n, c.worst_ms);
    kt_engine_stop(b.engine, 0);
}

static int n_got(const stream *s, int n) {
    int n_tokens = 0;
    for (int i = 0; i < n; i++) n_tokens += s[i].n_tokens;
    return n_tokens;
}

/* What one client had got when the first of them had everything, and its first tokens. */
static void tell_client(const char *name, const stream *s, int n, int n_tokens) {
    double mean_ms = 0, best_ms = 1e18;
    for (int i = 0; i < n; i++) {
        double ms = (double)(s[i].first_us - s[i].submitted_us) / 1000.0;
        mean_ms += ms / n;
        if (ms < best_ms) best_ms = ms;
    }
    printf("\"%s\": {\"requests\": %d, \"tokens\": %d, \"first_token_ms\": %.0f, "
           "\"first_token_mean_ms\": %.0f}, ",
           name, n, n_tokens, best_ms, mean_ms);
}

/* Three clients ask at once, who asks most comes first; four answers are computed together. */
static void bench_fair(void) {
    enum { MANY = 32, SOME = 8, FEW = 2, N_PREDICT = 64 };
    stream *many = b.streams, *some = many + MANY, *few = some + SOME, *urgent = few + FEW;
    for (int i = 0; i < MANY; i++) submit_as(&many[i], "many", 0, 32, N_PREDICT, (uint32_t)i + 1);
    for (int i = 0; i < SOME; i++) submit_as(&some[i], "some", 0, 32, N_PREDICT, (uint32_t)i + 50);
    for (int i = 0; i < FEW; i++) submit_as(&few[i], "few", 0, 32, N_PREDICT, (uint32_t)i + 80);
    while (many[0].n_tokens < N_PREDICT / 2) usleep(1000);
    submit_as(urgent, "many", 1, 32, 8, 99);
    while (!few[0].end_us || !few[1].end_us) usleep(1000);
    int of_many = n_got(many, MANY), of_some = n_got(some, SOME), of_few = n_got(few, FEW);
    drain();
    printf("{");
    tell_client("many", many, MANY, of_many);
    tell_client("some", some, SOME, of_some);
    tell_client("few", few, FEW, of_few);
    printf("\"urgent_first_token_ms\": %.0f, \"all_s\": %.1f}\n",
           (double)(urgent->first_us - urgent->submitted_us) / 1000.0,
           (double)(many[MANY - 1].end_us - many[0].submitted_us) / 1e6);
}

static void bench_prefix(void) {
    for (int i = 0; i < 2; i++) {
        submit(&b.streams[i], 2048, 2, 7);
        while (!b.streams[i].end_us) usleep(200);
    }
    printf("{\"first_token_ms\": [%.1f, %.1f], \"cached\": [%d, %d]}\n",
           (double)b.streams[0].report.first_token_us / 1000.0,
           (double)b.streams[1].report.first_token_us / 1000.0, b.streams[0].report.n_cached,
           b.streams[1].report.n_cached);
    drain();
}

static void bench_spec(const char *path) {
    static char text[1 << 20];
    kt_error err;
    FILE *in = fopen(path, "rb");
    size_t len = in ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in) fclose(in);
    text[len] = '\0';
    kt_message message = {"user", text};
    kt_request_params r = kt_request_params_default();
    stream *s = &b.streams[0];
    r.prompt.messages = &message;
    r.prompt.n_messages = 1;
    r.gen.n_predict = 400;
    r.gen.sampling.temperature = 0;
    r.events.on_event = on_event;
    r.events.user = s;
    *s = (stream){0};
    check(kt_engine_submit(b.engine, &r, &s->req, &err), &err);
    drain();
    printf("{\"tokens\": %d, \"drafted\": %d, \"accepted\": %d, \"tok_s\": %.2f}\n",
           s->report.n_generated, s->report.n_drafted, s->report.n_accepted,
           (double)(s->report.n_generated - 1) * 1e6 / (double)(s->last_us - s->first_us));
}

/* A table for docs/MEMORY.md. */
static void bench_plan(const char *path) {
    kt_error err;
    for (uint64_t mib = 256; mib <= 16384; mib += mib / 2) {
        kt_mem_plan plan;
        kt_ctx_params cp = kt_ctx_params_default();
        cp.mem_bytes = mib << 20;
        check(kt_ctx_open(&cp, &b.ctx, &err), &err);
        check(kt_model_open(b.ctx, path, NULL, &b.model, &err), &err);
        if (kt_engine_plan(b.model, NULL, &plan, &err) == KT_OK) {
            printf("| %" PRIu64 " MiB | %.0f | %.0f | %.0f | %.0f | %" PRId64 " | %d | %d | %d |\n",
                   mib, (double)plan.weights_bytes / 1048576, (double)plan.kv_bytes / 1048576,
                   (double)plan.scratch_bytes / 1048576, (double)plan.tables_bytes / 1048576,
                   plan.kv_positions, plan.n_ubatch, plan.n_parallel, plan.n_ctx);
        } else {
            printf("| %" PRIu64 " MiB | refused: %s |\n", mib, err.message);
        }
        kt_model_close(b.model);
        kt_ctx_close(b.ctx);
    }
    b.model = NULL;
    b.ctx = NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr,
                "usage: bench_engine MODEL streams N | gap [MS [N]] | cancel [N] | fair | prefix | "
                "plan | spec FILE [N_DRAFT]\n");
        return 2;
    }
    const char *what = argv[2];
    int number = argc > 3 ? atoi(argv[3]) : 0;
    kt_engine_params ep = {.n_ctx = LONG_PROMPT, .n_draft = -1};
    if (!strcmp(what, "streams")) {
        if (number < 1 || number > MAX_STREAMS) return 2;
        ep.n_parallel = number;
        ep.n_ctx = 256;
        open_all(argv[1], ep);
        bench_streams(number);
    } else if (!strcmp(what, "gap")) {
        ep.gap_ms = number;
        open_all(argv[1], ep);
        int n_prompt = argc > 4 ? atoi(argv[4]) : LONG_PROMPT - 8;
        if (n_prompt < 1 || n_prompt > LONG_PROMPT - 8) return 2;
        bench_gap(n_prompt);
    } else if (!strcmp(what, "cancel")) {
        if (number < 0 || number > MAX_STREAMS) return 2;
        if (number > 0) {
            ep.n_parallel = number;
            ep.n_ctx = 1024;
        }
        open_all(argv[1], ep);
        bench_cancel(number);
    } else if (!strcmp(what, "fair")) {
        ep.n_ctx = 256;
        ep.n_parallel = 4;
        open_all(argv[1], ep);
        bench_fair();
    } else if (!strcmp(what, "prefix")) {
        open_all(argv[1], ep);
        bench_prefix();
    } else if (!strcmp(what, "plan")) {
        bench_plan(argv[1]);
    } else if (!strcmp(what, "spec") && argc > 3) {
        ep.n_draft = argc > 4 ? atoi(argv[4]) : 0;
        open_all(argv[1], ep);
        bench_spec(argv[3]);
    } else {
        return 2;
    }
    kt_engine_close(b.engine); /* the requests' memory goes with the process */
    kt_model_close(b.model);
    kt_ctx_close(b.ctx);
    return 0;
}
