#include "peers/peers.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "peers/transport.h"

enum { DEADLINE_S = 60, RESTART_MS = 5000 };

/* A gather that another thread does. */
typedef struct gatherer {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    bool under_way, quit;
    void *buf;
    size_t at[KT__PEERS_MAX + 1];
} gatherer;

struct kt__peers {
    void *lib, *state;
    const kt__transport *transport;
    int deadline_s;
    atomic_bool failed;   /* after why was written */
    atomic_bool reported; /* a caller got it as an error */
    char why[KT__WHY_BYTES];
    kt__traffic traffic;
    gatherer gatherer;
};

/* ---- the launcher ---- */

static int number_of(const char *name) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : -1;
}

int kt__peers_launched(void) {
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (number_of(names[i][0]) > 1) return number_of(names[i][1]);
    return -1;
}

/* ---- the transport ---- */

/* MPI's own plug-ins look for its symbols. */
enum { LOAD_FLAGS = RTLD_NOW | RTLD_GLOBAL };

/* The one that was built with the program, else the one that is installed. */
static void *load_found(void) {
    void *lib = dlopen("libkentang-mpi.so", LOAD_FLAGS);
    return lib ? lib : dlopen(KT_PRIVATE_FOLDER "/libkentang-mpi.so", LOAD_FLAGS);
}

static kt_status find_table(kt__peers *p, const char *file, kt_error *err) {
    kt__transport_fn *table;
    p->lib = file ? dlopen(file, LOAD_FLAGS) : load_found();
    if (!p->lib) {
        const char *why = dlerror();
        return kt__fail(
            err, KT_E_UNSUPPORTED,
            "a launcher started several processes, but MPI cannot be loaded: %.150s; on Debian "
            "install kentang-mpi, or start kentang without mpirun",
            why ? why : "unknown");
    }
    void *symbol = dlsym(p->lib, KT__TRANSPORT_SYMBOL);
    memcpy(&table, &symbol, sizeof table);
    p->transport = symbol ? table() : NULL;
    if (p->transport && p->transport->version == KT__TRANSPORT_VERSION) return KT_OK;
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "%s is of another version of kentang: install both of one",
                    file ? file : "libkentang-mpi.so");
}

static kt_status start_transport(kt__peers *p, kt_error *err) {
    const char *file = getenv("KENTANG_MPI");
    int given_s = number_of("KENTANG_MPI_DEADLINE");
    p->deadline_s = given_s > 0 ? given_s : DEADLINE_S;
    KT__STEP(find_table(p, file, err));
    if (!p->transport->start(&p->state, p->deadline_s, p->why))
        return kt__fail(err, KT_E_IO, "MPI does not start: %s", p->why);
    if (kt__peers_size(p) <= KT__PEERS_MAX) return KT_OK;
    return kt__fail(err, KT_E_ARG, "%d processes are more than the %d that can share a model",
                    kt__peers_size(p), KT__PEERS_MAX);
}

/* ---- the gathering thread ---- */

enum { GATHERER_STACK = 256 << 10 };

static void *gather_asked(void *arg) {
    kt__peers *p = arg;
    gatherer *g = &p->gatherer;
    pthread_mutex_lock(&g->lock);
    for (;;) {
        while (!g->under_way && !g->quit) pthread_cond_wait(&g->changed, &g->lock);
        if (g->quit) break;
        pthread_mutex_unlock(&g->lock);
        if (!p->failed) p->failed = !p->transport->gather(p->state, g->buf, g->at, p->why);
        pthread_mutex_lock(&g->lock);
        g->under_way = false;
        pthread_cond_signal(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* Starts the thread that collects the other processes' results while this one computes. Without it, when it cannot be
 * started, the caller collects them itself. Called before the pool pins threads, whose affinity it would inherit. */
static void start_gatherer(kt__peers *p) {
    gatherer *g = &p->gatherer;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->started = kt__thread_start(&g->thread, "kt-gather", GATHERER_STACK, gather_asked, p) == 0;
}

static void stop_gatherer(gatherer *g) {
    if (!g->started) return;
    pthread_mutex_lock(&g->lock);
    g->quit = true;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->thread, NULL);
}

/* ---- life ---- */

kt_status kt__peers_open(kt__peers **out, kt_error *err) {
    *out = NULL;
    if (kt__peers_launched() < 0) return KT_OK;
    kt__peers *p = kt__calloc(1, sizeof *p);
    if (!p) return kt__fail_nomem(err, "the job's processes", sizeof *p);
    kt_status status = start_transport(p, err);
    if (status != KT_OK) {
        p->failed = true;
        kt__peers_close(p);
        return status;
    }
    start_gatherer(p);
    *out = p;
    return KT_OK;
}

kt_status kt__peers_plan(int rank, int size, kt__peers **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "planned processes", sizeof **out);
    (*out)->transport = kt__transport_nowhere();
    (*out)->state = kt__nowhere_create(rank, size);
    if ((*out)->state) return KT_OK;
    kt__free(*out);
    *out = NULL;
    return kt__fail_nomem(err, "planned processes", 0);
}

/* MPI's threads and handlers stay: its library is never unloaded. */
void kt__peers_close(kt__peers *p) {
    if (!p) return;
    stop_gatherer(&p->gatherer);
    if (p->state) p->transport->end(p->state, !p->failed);
    kt__free(p);
}

/* ---- calls ---- */

int kt__peers_rank(const kt__peers *p) {
    return p->transport->rank(p->state);
}
int kt__peers_size(const kt__peers *p) {
    return p->transport->size(p->state);
}
const char *kt__peers_host(const kt__peers *p, int rank) {
    return p->transport->host(p->state, rank);
}

kt__traffic kt__peers_traffic(const kt__peers *p) {
    return p->traffic;
}

static void count_sent(kt__peers *p, int n, size_t bytes) {
    p->traffic.messages += (uint64_t)n;
    p->traffic.sent_bytes += (uint64_t)n * bytes;
}

static void count_gather(kt__peers *p, const size_t *at) {
    int me = kt__peers_rank(p), n = kt__peers_size(p);
    size_t own = at[me + 1] - at[me];
    p->traffic.exchanges++;
    p->traffic.received_bytes += at[n] - at[0] - own;
    count_sent(p, own ? n - 1 : 0, own);
}

void kt__peers_gather(kt__peers *p, void *buf, const size_t *at) {
    count_gather(p, at);
    if (!p->failed) p->failed = !p->transport->gather(p->state, buf, at, p->why);
}

void kt__peers_gather_begin(kt__peers *p, void *buf, const size_t *at) {
    gatherer *g = &p->gatherer;
    if (!g->started) {
        kt__peers_gather(p, buf, at);
        return;
    }
    count_gather(p, at);
    pthread_mutex_lock(&g->lock);
    g->buf = buf;
    memcpy(g->at, at, ((size_t)kt__peers_size(p) + 1) * sizeof *at);
    g->under_way = true;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void kt__peers_gather_end(kt__peers *p) {
    gatherer *g = &p->gatherer;
    if (!g->started) return;
    pthread_mutex_lock(&g->lock);
    while (g->under_way) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

void kt__peers_broadcast(kt__peers *p, void *buf, size_t n) {
    if (kt__peers_rank(p) == 0)
        count_sent(p, kt__peers_size(p) - 1, n);
    else
        p->traffic.received_bytes += n;
    if (!p->failed) p->failed = !p->transport->broadcast(p->state, buf, n, p->why);
}

void kt__peers_post(kt__peers *p, int rank, const void *buf, size_t n) {
    count_sent(p, 1, n);
    if (!p->failed) p->failed = !p->transport->post(p->state, rank, buf, n, p->why);
}

int kt__peers_look(kt__peers *p, size_t *n) {
    int rank = -1;
    if (!p->failed) p->failed = !p->transport->look(p->state, &rank, n, p->why);
    return p->failed ? -1 : rank;
}

void kt__peers_take(kt__peers *p, int rank, void *buf, size_t n) {
    p->traffic.received_bytes += n;
    if (!p->failed) p->failed = !p->transport->take(p->state, rank, buf, n, p->why);
}

int kt__peers_deadline_s(const kt__peers *p) {
    return p->deadline_s;
}

void kt__peers_fail(kt__peers *p, const char *why) {
    if (p->failed) return;
    strncpy(p->why, why, sizeof p->why - 1);
    p->failed = true;
}

kt_status kt__peers_check(kt__peers *p, kt_error *err) {
    if (!p->failed) return KT_OK;
    (void)kt__fail(err, KT_E_STATE, "%s", p->why);
    if (err) err->retry_ms = RESTART_MS;
    if (err) p->reported = true;
    return KT_E_STATE;
}

bool kt__peers_was_reported(const kt__peers *p) {
    return p->reported;
}

void kt__peers_hurry(kt__peers *p, int ms) {
    p->transport->hurry(p->state, ms);
}

/* ---- nowhere ---- */

typedef struct nowhere {
    int rank, size;
} nowhere;

void *kt__nowhere_create(int rank, int size) {
    nowhere *state = kt__calloc(1, sizeof *state);
    if (state) *state = (nowhere){rank, size};
    return state;
}

static int nowhere_rank(const void *state) {
    return ((const nowhere *)state)->rank;
}
static int nowhere_size(const void *state) {
    return ((const nowhere *)state)->size;
}
static const char *nowhere_host(const void *state, int rank) {
    (void)state, (void)rank;
    return "no machine";
}

static bool nowhere_gather(void *state, void *buf, const size_t *at, char *why) {
    (void)state, (void)buf, (void)at, (void)why;
    return true;
}
static bool nowhere_broadcast(void *state, void *buf, size_t n, char *why) {
    (void)state, (void)buf, (void)n, (void)why;
    return true;
}

static void nowhere_hurry(void *state, int ms) {
    (void)state, (void)ms;
}
static void nowhere_end(void *state, bool clean) {
    (void)clean;
    kt__free(state);
}

/* No letters: whole models in each process are not planned. */
const kt__transport *kt__transport_nowhere(void) {
    static const kt__transport table = {.version = KT__TRANSPORT_VERSION,
                                        .rank = nowhere_rank,
                                        .size = nowhere_size,
                                        .host = nowhere_host,
                                        .gather = nowhere_gather,
                                        .broadcast = nowhere_broadcast,
                                        .hurry = nowhere_hurry,
                                        .end = nowhere_end};
    return &table;
}
