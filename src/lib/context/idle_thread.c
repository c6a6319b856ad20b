#include "context/idle_thread.h"

#include "base/clock.h"
#include "base/error.h"
#include "host/affinity.h"

void kt__activity_begin(kt__activity *a) {
    atomic_fetch_add(&a->n_now, 1);
}

void kt__activity_end(kt__activity *a) {
    atomic_store(&a->ended_us, kt__now_us());
    atomic_fetch_sub(&a->n_now, 1);
}

int64_t kt__activity_busy_us(const kt__activity *a, int64_t idle_us, int64_t since_us) {
    if (atomic_load(&a->n_now) > 0) return idle_us;
    int64_t ended_us = atomic_load(&a->ended_us);
    return (ended_us > since_us ? ended_us : since_us) + idle_us - kt__now_us();
}

kt_status kt__idle_thread_init(kt__idle_thread *idle, const kt__activity *activity, kt_error *err) {
    *idle = (kt__idle_thread){.activity = activity};
    if (pthread_mutex_init(&idle->lock, NULL) != 0) return kt__fail_nomem(err, "a lock", 0);
    if (kt__cond_init(&idle->wake) == 0) return KT_OK;
    pthread_mutex_destroy(&idle->lock);
    return kt__fail_nomem(err, "a lock", 0);
}

void kt__idle_thread_free(kt__idle_thread *idle) {
    if (idle->started) {
        pthread_mutex_lock(&idle->lock);
        atomic_store(&idle->quit, true);
        pthread_cond_signal(&idle->wake);
        pthread_mutex_unlock(&idle->lock);
        kt__priority_hurry(idle->thread);
        pthread_join(idle->thread, NULL);
    }
    pthread_cond_destroy(&idle->wake);
    pthread_mutex_destroy(&idle->lock);
}

int kt__idle_thread_start(kt__idle_thread *idle, const char *name, size_t stack_bytes,
                          kt__thread_fn *run, void *arg) {
    idle->started_us = kt__now_us();
    int rc = kt__thread_start(&idle->thread, name, stack_bytes, run, arg);
    idle->started = rc == 0;
    return rc;
}

/* Microseconds until it may continue, if nothing begins before. */
static int64_t busy_for(const kt__idle_thread *idle) {
    return kt__activity_busy_us(idle->activity, KT__IDLE_US, idle->started_us);
}

bool kt__idle_thread_wait(kt__idle_thread *idle) {
    int64_t us;
    pthread_mutex_lock(&idle->lock);
    while (!atomic_load(&idle->quit) && (us = busy_for(idle)) > 0) {
        struct timespec until = kt__time_in_ms(us / 1000 + 1);
        (void)pthread_cond_timedwait(&idle->wake, &idle->lock, &until);
    }
    pthread_mutex_unlock(&idle->lock);
    return !atomic_load(&idle->quit);
}

bool kt__idle_thread_must_rest(const kt__idle_thread *idle) {
    return atomic_load_explicit(&idle->quit, memory_order_relaxed) || busy_for(idle) > 0;
}
