/* Several contexts pinned to disjoint cores against one on all: two streams decoded either as one
 * batch by all threads, or each alone by half of them. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "measure/bench_streams.h"
#include "measure/tune.h"

enum { N_PARTS = 2, DEPTH = 16, LIST_BYTES = 4096 };

/* A context with its model, its engine and the thread that drives it. */
typedef struct party {
    kt_ctx *ctx;
    kt_model *model;
    kt__bench_streams streams;
    int n_steps, n_threads;
    double seconds;
    kt_status status;
    kt_error err;
} party;

typedef struct contest {
    party one, parts[N_PARTS];
    int n_steps;
} contest;

/* ---- parties ---- */

static void party_close(party *p) {
    kt__bench_streams_close(&p->streams);
    kt_model_close(p->model);
    kt_ctx_close(p->ctx);
}

static kt_status party_open(const char *path, const char *isa, const char *cpus, int n_streams,
                            int n_steps, party *p, kt_error *err) {
    kt_status status;
    kt_ctx_params ctx = kt_ctx_params_default();
    kt_engine_params engine = kt_engine_params_default();
    ctx.isa = isa;
    ctx.cpus = cpus;
    engine.n_ctx = DEPTH + n_steps;
    engine.n_seq_max = n_streams;
    p->n_steps = n_steps;
    KT__TRY(kt_ctx_open(&ctx, &p->ctx, err));
    if (path) {
        KT__TRY(kt_model_open(p->ctx, path, NULL, &p->model, err));
    } else {
        KT__TRY(kt_model_open_demo(p->ctx, NULL, &p->model, err));
    }
    KT__TRY(kt__bench_streams_open(p->model, &engine, NULL, &p->streams, err));
    p->n_threads = kt_ctx_n_threads(p->ctx);
out:
    return status;
}

static void *party_run(void *arg) {
    party *p = arg;
    p->status = kt__bench_streams_decode(&p->streams, p->n_steps, &p->seconds, &p->err);
    return NULL;
}

static kt_status decode_alone(contest *c, double *seconds, kt_error *err) {
    kt_status status = kt__bench_streams_set_depth(&c->one.streams, DEPTH, err);
    return status == KT_OK ? kt__bench_streams_decode(&c->one.streams, c->n_steps, seconds, err)
                           : status;
}

/* Both at once; the time until the later one is done. */
static kt_status decode_apart(contest *c, double *seconds, kt_error *err) {
    pthread_t thread;
    for (int p = 0; p < N_PARTS; p++) {
        kt_status status = kt__bench_streams_set_depth(&c->parts[p].streams, DEPTH, err);
        if (status != KT_OK) return status;
    }
    int64_t start_ns = kt__now_ns();
    if (pthread_create(&thread, NULL, party_run, &c->parts[1]) != 0)
        return kt__fail(err, KT_E_NOMEM, "cannot start a thread");
    (void)party_run(&c->parts[0]);
    pthread_join(thread, NULL);
    *seconds = (double)(kt__now_ns() - start_ns) * 1e-9;
    for (int p = 0; p < N_PARTS; p++) {
        if (c->parts[p].status == KT_OK) continue;
        *err = c->parts[p].err;
        return c->parts[p].status;
    }
    return KT_OK;
}

static kt_status measure_contexts(void *user, int value, double *tok_s, kt_error *err) {
    contest *c = user;
    double seconds = 1;
    kt_status status = value == 1 ? decode_alone(c, &seconds, err) : decode_apart(c, &seconds, err);
    *tok_s = N_PARTS * c->n_steps / seconds;
    return status;
}

kt_status kt__tune_contexts(const char *path, const char *isa, int n_steps, int n_rounds,
                            kt__ab_test *test, kt_error *err) {
    static const contest none;
    contest c = none;
    kt_status status = KT_OK;
    char lists[N_PARTS][LIST_BYTES], name[40];
    *test = (kt__ab_test){.what = "contexts, 2 streams", .n_rounds = n_rounds};
    for (int p = 0; p < N_PARTS; p++) {
        kt_error too_few;
        if (kt_cpus_split(NULL, N_PARTS, p, false, lists[p], sizeof lists[p], &too_few) != KT_OK)
            return KT_OK;
    }
    c.n_steps = n_steps;
    KT__TRY(party_open(path, isa, NULL, N_PARTS, n_steps, &c.one, err));
    for (int p = 0; p < N_PARTS; p++)
        KT__TRY(party_open(path, isa, lists[p], 1, n_steps, &c.parts[p], err));
    snprintf(name, sizeof name, "1, %d threads, one batch", c.one.n_threads);
    (void)kt__ab_test_add(test, 1, name);
    snprintf(name, sizeof name, "2 pinned, %d and %d threads", c.parts[0].n_threads,
             c.parts[1].n_threads);
    (void)kt__ab_test_add(test, N_PARTS, name);
    KT__TRY(kt__ab_test_run(test, measure_contexts, &c, err));
out:
    for (int p = 0; p < N_PARTS; p++) party_close(&c.parts[p]);
    party_close(&c.one);
    return status;
}
