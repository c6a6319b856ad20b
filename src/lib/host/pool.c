/* How a run goes:
 *
 * The caller writes the run's parameters, then publishes one 64-bit word epoch:32 | n_workers-1:8 |
 * grains left:24, its own first chunk taken off, and bumps `phase`, which is what idle workers
 * watch. The thread that succeeds in lowering `grains left` by compare-and-swap owns these grains.
 * A success proves that the run with this epoch is still on: its caller cannot return before the
 * grains just taken are reported in `pending`. So the parameters are read only after the swap,
 * without a race, and a worker that wakes late finds either nothing left (grains are counted down
 * to zero, so an ended run cannot be mistaken for a started one) or a changed epoch, and goes back
 * to waiting; the caller does not wait for it.
 *
 * Waiting: a spin of limited time, then a futex. Each waiter keeps its own budget: see spin_adapt. */
#include "host/pool.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "host/host.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum {
    CACHE_LINE = 128, /* two lines: the prefetcher of many processors fetches pairs */
    GRAIN_BITS = 24,
    WORKER_BITS = 8,
    MAX_GRAINS = (1 << GRAIN_BITS) - 1,
    GUIDE_NUM = 3, /* a chunk is 3/4 of a fair share of the remaining work */
    GUIDE_DEN = 4,

    SPIN_MIN_NS = 1000,
    SPIN_IDLE_NS = 20000,  /* a worker outside a step */
    SPIN_STEP_NS = 100000, /* a worker between two runs of a step */
    SPIN_JOIN_NS = 50000,  /* the caller, for the last chunks of a run */
    SPIN_PAUSES = 16,      /* between two looks at the clock */

    ASLEEP_WORDS = KT__POOL_MAX_THREADS / 64,
    FUTEX_GROUPS = 32 /* bits of a futex bitset */
};

static const uint32_t pending_sleeper = UINT32_C(1) << 31; /* the caller sleeps on `pending` */

typedef struct worker {
    alignas(CACHE_LINE) kt__pool *pool;
    int64_t spin_ns;         /* current budget; its thread alone uses it */
    _Atomic int64_t busy_ns; /* in chunks of timed runs; its thread alone writes it */
    pthread_t thread;
    int index;
} worker;

typedef struct run_params {
    kt__pool_fn *fn;
    void *arg;
    int64_t n_items, grain;
    uint32_t n_grains;
    bool noalloc; /* the caller's allocation guard holds for the workers too */
    bool timed;
} run_params;

struct kt__pool {
    /* read by every thread, written a few times in a step */
    int size, n_processors; /* threads, and what they may run on at once */
    atomic_int n_active;    /* workers that take part in this step's runs */
    atomic_bool in_step, stopping;

    /* in one line: a worker that sees a new phase has the run too */
    alignas(CACHE_LINE) _Atomic uint32_t phase; /* idle workers watch it and sleep on it */
    _Atomic uint64_t work;
    run_params run;

    alignas(CACHE_LINE) _Atomic uint32_t pending; /* grains not yet done; pending_sleeper */
    alignas(CACHE_LINE) _Atomic uint64_t asleep[ASLEEP_WORDS]; /* a bit a worker */

    /* the caller's own */
    alignas(CACHE_LINE) uint32_t epoch;
    int64_t join_spin_ns, waited_ns;
    kt__affinity_saved caller_affinity; /* of the step's caller, before it began */
    bool timed;
    int n_started;

    alignas(CACHE_LINE) kt__ticket owner; /* which engine computes */
    kt__affinity affinity;

    worker workers[]; /* [size]; workers[0] is the caller's and has no thread */
};

/* ---- waiting ---- */

static void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#ifdef _WIN32
/* All who wait for a word wake: who has no work goes back to sleep. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t groups) {
    (void)groups;
    (void)WaitOnAddress(word, &value, sizeof value, INFINITE);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t groups) {
    (void)groups;
    WakeByAddressAll((void *)word);
}
#else
static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t groups) {
    /* EAGAIN, EINTR and stray wake-ups look alike to callers: they check their condition again. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, groups);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t groups) {
    syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, groups);
}
#endif

/* Watches *word until it differs from value (true) or the clock passes deadline_ns (false). */
static bool spin_for_change(_Atomic uint32_t *word, uint32_t value, int64_t deadline_ns) {
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
            cpu_pause();
        }
    } while (kt__now_ns() < deadline_ns);
    return atomic_load_explicit(word, memory_order_acquire) != value;
}

/* A wait that a spin of `cap` would have covered is a reason to spin (a wake-up costs about as
 * much); a longer one would have wasted the whole budget. Several long waits in a row, which mean a
 * busy neighbour, bring the budget down to its floor; short ones bring it back. */
static void spin_adapt(int64_t *budget_ns, int64_t waited_ns, int64_t cap_ns) {
    if (waited_ns > cap_ns)
        *budget_ns /= 2;
    else
        *budget_ns += cap_ns / 16;
    if (*budget_ns < SPIN_MIN_NS) *budget_ns = SPIN_MIN_NS;
    if (*budget_ns > cap_ns) *budget_ns = cap_ns;
}

/* Where more threads compute than there are processors, a thread that spins keeps one from the
 * thread that it waits for. */
static bool spins_help(const kt__pool *pool) {
    return atomic_load_explicit(&pool->n_active, memory_order_relaxed) <= pool->n_processors;
}

/* ---- sleeping and waking ---- */

/* The futex bitset has 32 bits: in larger pools adjacent workers share a bit. */
static uint32_t futex_group(const kt__pool *pool, int index) {
    return UINT32_C(1) << (index * FUTEX_GROUPS /
                           (pool->size > FUTEX_GROUPS ? pool->size : FUTEX_GROUPS));
}

static uint32_t futex_groups_below(const kt__pool *pool, int n_workers) {
    uint32_t last = futex_group(pool, n_workers - 1);
    return last | (last - 1);
}

/* The bits of workers [0, n_workers) in word `i` of `asleep`. */
static uint64_t asleep_mask(int n_workers, int i) {
    int n = n_workers - 64 * i;
    if (n <= 0) return 0;
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* Announces a new phase and wakes those of the workers [1, n_workers) that sleep. A worker sets its
 * bit and then looks at the phase; here the phase changes and then the bits are read: one of the
 * two sees the other. Clearing a bit early is safe because the worker cannot fall asleep on the old
 * phase any more. */
static void signal_workers(kt__pool *pool, int n_workers) {
    atomic_fetch_add(&pool->phase, 1);
    bool any = false;
    for (int i = 0; 64 * i < n_workers; i++) {
        uint64_t sleeping = atomic_load(&pool->asleep[i]) & asleep_mask(n_workers, i);
        if (!sleeping) continue;
        atomic_fetch_and(&pool->asleep[i], ~sleeping);
        any = true;
    }
    if (any) futex_wake(&pool->phase, futex_groups_below(pool, n_workers));
}

static void worker_sleep(worker *self, uint32_t seen) {
    kt__pool *pool = self->pool;
    _Atomic uint64_t *flags = &pool->asleep[self->index / 64];
    uint64_t bit = UINT64_C(1) << (self->index % 64);
    atomic_fetch_or(flags, bit);
    if (atomic_load(&pool->phase) == seen)
        futex_wait(&pool->phase, seen, futex_group(pool, self->index));
    if (atomic_load(flags) & bit) atomic_fetch_and(flags, ~bit);
}

/* Returns when the phase is no longer `seen`. */
static void worker_wait(worker *self, uint32_t seen) {
    kt__pool *pool = self->pool;
    bool in_step = atomic_load_explicit(&pool->in_step, memory_order_relaxed);
    int n_active = atomic_load_explicit(&pool->n_active, memory_order_relaxed);
    int64_t cap = in_step ? SPIN_STEP_NS : SPIN_IDLE_NS;
    int64_t start = kt__now_ns();
    bool may_spin = self->index < n_active && spins_help(pool);
    int64_t budget = self->spin_ns < cap ? self->spin_ns : cap;
    if (may_spin && spin_for_change(&pool->phase, seen, start + budget)) {
        spin_adapt(&self->spin_ns, 0, SPIN_STEP_NS);
        return;
    }
    while (atomic_load_explicit(&pool->phase, memory_order_acquire) == seen)
        worker_sleep(self, seen);
    /* Learns only from gaps between the runs of a step: an idle engine says nothing about its
     * neighbours. */
    if (may_spin && in_step && atomic_load_explicit(&pool->in_step, memory_order_relaxed))
        spin_adapt(&self->spin_ns, kt__now_ns() - start, SPIN_STEP_NS);
}

/* The caller, once it finds no more chunks, waits until those that other workers took are done. */
static void join_run(kt__pool *pool) {
    uint32_t value = atomic_load_explicit(&pool->pending, memory_order_acquire);
    if (value == 0) return;
    int64_t start = kt__now_ns(), budget = spins_help(pool) ? pool->join_spin_ns : 0;
    while ((value & ~pending_sleeper) != 0) {
        if (!spin_for_change(&pool->pending, value, start + budget)) {
            value = atomic_fetch_or(&pool->pending, pending_sleeper) | pending_sleeper;
            if (value != pending_sleeper) futex_wait(&pool->pending, value, UINT32_MAX);
        }
        value = atomic_load_explicit(&pool->pending, memory_order_acquire);
    }
    int64_t waited_ns = kt__now_ns() - start;
    pool->waited_ns += waited_ns;
    spin_adapt(&pool->join_spin_ns, waited_ns, SPIN_JOIN_NS);
}

/* n_grains of the current run are done. After this the run may be over and the pool in its next
 * one: only the futex word's address is used. */
static void report_done(kt__pool *pool, uint32_t n_grains) {
    uint32_t before = atomic_fetch_sub_explicit(&pool->pending, n_grains, memory_order_acq_rel);
    if (before == (n_grains | pending_sleeper)) futex_wake(&pool->pending, UINT32_MAX);
}

/* ---- chunks ---- */

static uint64_t pack_work(uint32_t epoch, int n_workers, uint32_t n_grains) {
    return (uint64_t)epoch << 32 | (uint64_t)(n_workers - 1) << GRAIN_BITS | n_grains;
}

/* A chunk of what is left of a run: chunks shrink towards the end, so that no worker is waited for. */
static uint32_t share_of(uint32_t left, uint32_t n_workers) {
    uint32_t share = GUIDE_NUM * left / (GUIDE_DEN * n_workers);
    return share ? share : 1;
}

/* Takes the worker's next chunk of a run: *taken grains of the *left that nobody had taken. Returns
 * false when nothing is left, or the worker is not one of this run's. */
static bool take_chunk(kt__pool *pool, int index, uint32_t *left, uint32_t *taken) {
    uint64_t work = atomic_load_explicit(&pool->work, memory_order_acquire);
    for (;;) {
        uint32_t n_workers = (uint32_t)(work >> GRAIN_BITS & ((1 << WORKER_BITS) - 1)) + 1;
        *left = (uint32_t)work & MAX_GRAINS;
        if (*left == 0 || (uint32_t)index >= n_workers) return false;
        *taken = share_of(*left, n_workers);
        if (atomic_compare_exchange_weak_explicit(&pool->work, &work, work - *taken,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    }
}

static void compute_chunk(const run_params *run, uint32_t left, uint32_t taken, int index) {
    int64_t begin = (int64_t)(run->n_grains - left) * run->grain;
    int64_t end = taken == left ? run->n_items : begin + (int64_t)taken * run->grain;
    run->fn(run->arg, begin, end, index);
}

static void add_busy(worker *self, int64_t ns) {
    int64_t before = atomic_load_explicit(&self->busy_ns, memory_order_relaxed);
    atomic_store_explicit(&self->busy_ns, before + ns, memory_order_relaxed);
}

/* Computes chunks of the current run until none is left, and reports them together: until then the
 * run is on. */
static void worker_work(worker *self) {
    kt__pool *pool = self->pool;
    uint32_t left, taken, done = 0;
    int64_t start = 0;
    while (take_chunk(pool, self->index, &left, &taken)) {
        bool noalloc = pool->run.noalloc;
        if (done == 0 && pool->run.timed) start = kt__now_ns();
        if (noalloc) kt__noalloc_enter();
        compute_chunk(&pool->run, left, taken, self->index);
        if (noalloc) kt__noalloc_leave();
        done += taken;
        if (taken == left) break;
    }
    if (done == 0) return;
    if (pool->run.timed) add_busy(self, kt__now_ns() - start);
    report_done(pool, done);
}

/* Linux's threads inherit both from the thread that starts them; Windows's do not. */
static void worker_take_place(const kt__pool *pool) {
#ifdef _WIN32
    kt__affinity_saved affinity;
    kt__priority_saved priority;
    kt__affinity_enter(&pool->affinity, &affinity);
    if (kt__priority_raise(pool->affinity.priority, &priority, NULL) != KT_OK) return;
#else
    (void)pool;
#endif
}

static void *worker_main(void *arg) {
    worker *self = arg;
    kt__pool *pool = self->pool;
    (void)kt__fpenv_enter();
    worker_take_place(pool);
    kt__priority_lower(pool->affinity.priority);
    for (;;) {
        /* phase before work: a run published after the look at `work` has changed the phase, too */
        uint32_t seen = atomic_load_explicit(&pool->phase, memory_order_acquire);
        if (atomic_load_explicit(&pool->stopping, memory_order_relaxed)) return NULL;
        worker_work(self);
        worker_wait(self, seen);
    }
}

static int64_t div_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static bool caller_in_noalloc(void) {
    int depth = kt__noalloc_suspend();
    kt__noalloc_resume(depth);
    return depth > 0;
}

void kt__pool_run(kt__pool *pool, int64_t n_items, int64_t grain, kt__pool_fn *fn, void *arg) {
    if (n_items <= 0) return;
    if (grain < 1) grain = 1;
    int64_t n_grains = div_up(n_items, grain);
    if (n_grains > MAX_GRAINS) {
        grain *= div_up(n_grains, MAX_GRAINS);
        n_grains = div_up(n_items, grain);
    }
    int n_workers = atomic_load_explicit(&pool->n_active, memory_order_relaxed);
    if (n_workers > n_grains) n_workers = (int)n_grains;
    if (n_workers <= 1) {
        fn(arg, 0, n_items, 0);
        return;
    }
    pool->run = (run_params){
        fn, arg, n_items, grain, (uint32_t)n_grains, caller_in_noalloc(), pool->timed};
    atomic_store_explicit(&pool->pending, (uint32_t)n_grains, memory_order_relaxed);
    pool->epoch++;
    uint32_t left = (uint32_t)n_grains, taken = share_of(left, (uint32_t)n_workers), done = 0;
    atomic_store_explicit(&pool->work, pack_work(pool->epoch, n_workers, left - taken),
                          memory_order_release);
    signal_workers(pool, n_workers);

    do {
        compute_chunk(&pool->run, left, taken, 0);
        done += taken;
    } while (take_chunk(pool, 0, &left, &taken));
    report_done(pool, done);
    join_run(pool);
}

int64_t kt__pool_peek(const kt__pool *pool) {
    uint64_t work = atomic_load_explicit(&pool->work, memory_order_relaxed);
    uint32_t left = (uint32_t)work & MAX_GRAINS;
    return left ? (int64_t)(pool->run.n_grains - left) * pool->run.grain : -1;
}

/* ---- what a profile asks ---- */

int64_t kt__pool_waited_ns(const kt__pool *pool) {
    return pool->waited_ns;
}

void kt__pool_set_timed(kt__pool *pool, bool on) {
    pool->timed = on;
}

int64_t kt__pool_busy_ns(const kt__pool *pool, int thread) {
    return atomic_load_explicit(&pool->workers[thread].busy_ns, memory_order_relaxed);
}

/* ---- steps and turns ---- */

void kt__pool_begin(kt__pool *pool, int n_threads) {
    if (n_threads < 1) n_threads = 1;
    if (n_threads > pool->size) n_threads = pool->size;
    kt__affinity_enter(&pool->affinity, &pool->caller_affinity);
    atomic_store_explicit(&pool->n_active, n_threads, memory_order_relaxed);
    atomic_store_explicit(&pool->in_step, true, memory_order_relaxed);
    if (n_threads > 1) signal_workers(pool, n_threads);
}

void kt__pool_end(kt__pool *pool) {
    atomic_store_explicit(&pool->in_step, false, memory_order_relaxed);
    atomic_store_explicit(&pool->n_active, pool->size, memory_order_relaxed);
    kt__affinity_leave(&pool->caller_affinity);
}

void kt__pool_lock(kt__pool *pool) {
    kt__ticket_lock(&pool->owner);
}

void kt__pool_unlock(kt__pool *pool) {
    kt__ticket_unlock(&pool->owner);
}

/* ---- life ---- */

int kt__pool_size(const kt__pool *pool) {
    return pool->size;
}

static int start_worker(kt__pool *pool, worker *w) {
    char name[16];
    snprintf(name, sizeof name, "kentang-%d", w->index);
    int rc = kt__thread_start(&w->thread, name, 0, worker_main, w);
    if (rc == 0) pool->n_started++;
    return rc;
}

/* Workers inherit affinity and priority from the thread that starts them, which takes on theirs
 * meanwhile. */
static kt_status start_workers(kt__pool *pool, kt_error *err) {
    kt__affinity_saved affinity;
    kt__priority_saved priority;
    kt_status status = kt__priority_raise(pool->affinity.priority, &priority, err);
    if (status != KT_OK) return status;
    kt__affinity_enter(&pool->affinity, &affinity);
    pool->n_processors = kt__affinity_count();
    int rc = 0;
    while (rc == 0 && pool->n_started < pool->size)
        rc = start_worker(pool, &pool->workers[pool->n_started]);
    kt__affinity_leave(&affinity);
    kt__priority_restore(&priority);
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_NOMEM,
                    "cannot start thread %d of %d: %s; use fewer threads, or raise the limit on "
                    "processes (ulimit -u, or pids.max of the container)",
                    pool->n_started + 1, pool->size, strerror(rc));
}

kt_status kt__pool_create(int n_threads, kt__pool **out, kt_error *err) {
    return kt__pool_create_at(n_threads, NULL, out, err);
}

kt_status kt__pool_create_at(int n_threads, const kt__affinity *affinity, kt__pool **out,
                             kt_error *err) {
    *out = NULL;
    if (n_threads < 1 || n_threads > KT__POOL_MAX_THREADS)
        return kt__fail(err, KT_E_ARG, "a pool has 1 to %d threads, not %d", KT__POOL_MAX_THREADS,
                        n_threads);
    size_t bytes = sizeof(kt__pool) + (size_t)n_threads * sizeof(worker);
    kt__pool *pool = kt__aligned_alloc(CACHE_LINE, bytes);
    if (!pool) return kt__fail_nomem(err, "the thread pool", bytes);
    memset(pool, 0, bytes);
    if (!kt__ticket_init(&pool->owner)) {
        kt__free(pool);
        return kt__fail_nomem(err, "the thread pool's lock", 0);
    }
    pool->size = n_threads;
    if (affinity) pool->affinity = *affinity;
    atomic_init(&pool->n_active, n_threads);
    pool->join_spin_ns = SPIN_JOIN_NS;
    pool->n_started = 1; /* the caller */
    for (int i = 0; i < n_threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pool->workers[i].spin_ns = SPIN_STEP_NS;
    }
    kt_status status = start_workers(pool, err);
    if (status != KT_OK) {
        kt__pool_destroy(pool);
        return status;
    }
    *out = pool;
    return KT_OK;
}

void kt__pool_destroy(kt__pool *pool) {
    if (!pool) return;
    atomic_store_explicit(&pool->stopping, true, memory_order_relaxed);
    signal_workers(pool, pool->size);
    for (int i = 1; i < pool->n_started; i++) pthread_join(pool->workers[i].thread, NULL);
    kt__ticket_destroy(&pool->owner);
    kt__free(pool);
}
