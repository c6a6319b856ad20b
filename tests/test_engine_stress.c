/* engine: on a machine with far too little for everybody - four threads a processor, several
 * engines generating at once, a busy loop on every processor, the affinity pulled from under the
 * running threads - everything ends, the answers are those of a quiet machine, and the rate is a
 * fair part of the quiet one. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "context/types.h"
#include "kv_types.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum {
    ENGINES = 3,
    SEQS = 2, /* of an engine, one after the other */
    N_PREDICT = 64,
    TEXT_MAX = 4096,
    MAX_LOOPS = 64,
    TRIES =
        8, /* pairs of a quiet and a stressed run, until one is fair: others use the machine, too */
    PULLS = 3, /* runs with a moving affinity */
    PULL_US = 20000
};

/* Half is what one loop a processor leaves; the rest is for noisy machines and for a model so small
 * that a wait for a preempted thread weighs as much as a token. */
static const double least_share = SANITIZED ? 0.0 : 0.2;

static const char *const prompts[ENGINES * SEQS] = {
    "Tell me a short story about a cat.",
    "What is the capital of France?",
    "Write a poem about the sea.",
    "Why is the sky blue?",
    "Count from one to ten.",
    "What do you think about potatoes?",
};

static void die_on(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "%s: %s\n", kt_status_name(status), err->message);
    abort(); /* from any thread */
}

/* ---- generation ---- */

typedef struct output {
    char text[TEXT_MAX];
    size_t len;
} output;

static bool keep_text(void *user, const char *text, size_t len, int32_t id) {
    output *out = user;
    (void)id;
    if (len > TEXT_MAX - out->len) len = TEXT_MAX - out->len;
    memcpy(out->text + out->len, text, len);
    out->len += len;
    return true;
}

typedef struct client {
    kt_model *model;
    int number;
    output *outputs; /* [SEQS] */
    int64_t n_generated;
} client;

static void *generate(void *arg) {
    client *c = arg;
    kt_error err;
    kt_engine *engine;
    kt_engine_params ep = kt_engine_params_default();
    kt_gen_params gp = kt_gen_params_default();
    ep.n_ctx = 256;
    ep.n_seq_max = SEQS;
    gp.sampling.temperature = c->number % 2 ? 0.8f : 0.0f;
    gp.sampling.seed = 11;
    gp.n_predict = N_PREDICT;
    gp.ignore_eog = true;
    kv_types_of_test(&ep);
    die_on(kt_engine_open(c->model, &ep, &engine, &err), &err);
    for (int i = 0; i < SEQS; i++) {
        kt_seq *seq;
        kt_request_report result;
        kt_message message = {"user", prompts[c->number * SEQS + i]};
        die_on(kt_seq_open(engine, &seq, &err), &err);
        c->outputs[i].len = 0;
        die_on(kt_chat(seq, &message, 1, &gp, keep_text, &c->outputs[i], &result, &err), &err);
        c->n_generated += result.n_generated;
        kt_seq_close(seq);
    }
    kt_engine_close(engine);
    return NULL;
}

/* All engines of one context at once; tokens a second of all together. */
static double run_all(int n_threads, output *outputs) {
    kt_ctx *ctx;
    kt_model *model;
    kt_error err;
    pthread_t threads[ENGINES];
    client clients[ENGINES];
    int64_t n = 0;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = n_threads;
    die_on(kt_ctx_open(&cp, &ctx, &err), &err);
    die_on(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    int64_t start = kt__now_us();
    for (int i = 0; i < ENGINES; i++) {
        clients[i] = (client){model, i, outputs + i * SEQS, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, generate, &clients[i]), 0);
    }
    for (int i = 0; i < ENGINES; i++) {
        pthread_join(threads[i], NULL);
        n += clients[i].n_generated;
    }
    double seconds = (double)(kt__now_us() - start) * 1e-6;
    kt_model_close(model);
    kt_ctx_close(ctx);
    return (double)n / seconds;
}

/* ---- neighbours ---- */

typedef struct neighbours {
    atomic_bool stop;
    pthread_t threads[MAX_LOOPS];
    int n;
} neighbours;

static void *busy_loop(void *arg) {
    const neighbours *all = arg;
    while (!atomic_load_explicit(&all->stop, memory_order_relaxed)) {
    }
    return NULL;
}

static void neighbours_start(neighbours *all, int n) {
    atomic_init(&all->stop, false);
    all->n = n < MAX_LOOPS ? n : MAX_LOOPS;
    for (int i = 0; i < all->n; i++)
        assert_int_equal(pthread_create(&all->threads[i], NULL, busy_loop, all), 0);
}

static void neighbours_stop(neighbours *all) {
    atomic_store(&all->stop, true);
    for (int i = 0; i < all->n; i++) pthread_join(all->threads[i], NULL);
}

/* ---- affinity ---- */

static void move_all_threads(const cpu_set_t *set) {
    DIR *dir = opendir("/proc/self/task");
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int tid = atoi(entry->d_name);
        if (tid > 0) (void)sched_setaffinity(tid, sizeof *set, set);
    }
    closedir(dir);
}

typedef struct puller {
    atomic_bool stop;
    cpu_set_t all;
    int n_pulls;
} puller;

/* All threads of the process to one processor, to another, to all of them. */
static void *pull(void *arg) {
    puller *p = arg;
    for (size_t cpu = 0; !atomic_load(&p->stop); cpu = (cpu + 1) % CPU_SETSIZE) {
        if (!CPU_ISSET(cpu, &p->all)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        move_all_threads(&one);
        usleep(PULL_US);
        move_all_threads(&p->all);
        usleep(PULL_US);
        p->n_pulls++;
    }
    return NULL;
}

/* ---- tests ---- */

typedef struct quiet {
    output outputs[ENGINES * SEQS];
    int n_cpus;
} quiet;

static quiet reference;

static int answer_quietly(void **state) {
    cpu_set_t set;
    (void)state;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return -1;
    reference.n_cpus = CPU_COUNT(&set);
    (void)run_all(reference.n_cpus, reference.outputs);
    return 0;
}

static void check_texts(const output *outputs) {
    for (int i = 0; i < ENGINES * SEQS; i++) {
        assert_int_equal(outputs[i].len, reference.outputs[i].len);
        assert_true(outputs[i].len > 0);
        assert_memory_equal(outputs[i].text, reference.outputs[i].text, outputs[i].len);
    }
}

static int oversubscribed(void) {
    int n = 4 * reference.n_cpus;
    return n < KT__POOL_MAX_THREADS ? n : KT__POOL_MAX_THREADS;
}

/* Runs with so many threads and busy loops, each beside a quiet one. A collapse fails every try. */
static void check_share(const char *what, int n_threads, int n_loops) {
    static output outputs[ENGINES * SEQS];
    double share = 0;
    for (int i = 0; i < TRIES && share <= least_share; i++) {
        neighbours others;
        double rate = run_all(reference.n_cpus, outputs);
        check_texts(outputs);
        neighbours_start(&others, n_loops);
        share = run_all(n_threads, outputs) / rate;
        neighbours_stop(&others);
        check_texts(outputs);
        print_message("%s: %.0f%% of %.0f tok/s\n", what, 100 * share, rate);
    }
    if (share <= least_share) fail_msg("%s: less than %.0f%% left", what, 100 * least_share);
}

static void test_busy_neighbours(void **state) {
    (void)state;
    check_share("a busy loop on every processor", reference.n_cpus, reference.n_cpus);
}

static void test_oversubscribed(void **state) {
    (void)state;
    check_share("four threads a processor", oversubscribed(), 0);
}

static void test_oversubscribed_and_busy(void **state) {
    (void)state;
    check_share("both", oversubscribed(), reference.n_cpus);
}

static void test_affinity_pulled_away(void **state) {
    (void)state;
    static output outputs[ENGINES * SEQS];
    puller p = {.n_pulls = 0};
    pthread_t thread;
    atomic_init(&p.stop, false);
    assert_int_equal(sched_getaffinity(0, sizeof p.all, &p.all), 0);
    assert_int_equal(pthread_create(&thread, NULL, pull, &p), 0);
    for (int i = 0; i < PULLS; i++) {
        (void)run_all(i % 2 ? 0 : oversubscribed(), outputs);
        check_texts(outputs);
    }
    atomic_store(&p.stop, true);
    pthread_join(thread, NULL);
    assert_true(p.n_pulls > 0);
    move_all_threads(&p.all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_neighbours),
        cmocka_unit_test(test_oversubscribed),
        cmocka_unit_test(test_oversubscribed_and_busy),
        cmocka_unit_test(test_affinity_pulled_away),
    };
    return cmocka_run_group_tests(tests, answer_quietly, NULL);
}
