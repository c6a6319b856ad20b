#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

static void block_signals(sigset_t *saved) {
    static const int open[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) sigdelset(&blocked, open[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, saved);
}

int kt__thread_start(pthread_t *thread, const char *name, size_t stack_bytes, kt__thread_fn *fn,
                     void *arg) {
    pthread_attr_t attr;
    sigset_t saved;
    char short_name[16];
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    if (stack_bytes) (void)pthread_attr_setstacksize(&attr, stack_bytes);
    block_signals(&saved); /* the new thread inherits the mask */
    rc = pthread_create(thread, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) return rc;
    snprintf(short_name, sizeof short_name, "%s", name);
    (void)pthread_setname_np(*thread, short_name);
    return 0;
}

/* ---- ticket ---- */

bool kt__ticket_init(kt__ticket *ticket) {
    ticket->next = ticket->serving = 0;
    if (pthread_mutex_init(&ticket->mutex, NULL) != 0) return false;
    if (pthread_cond_init(&ticket->changed, NULL) == 0) return true;
    pthread_mutex_destroy(&ticket->mutex);
    return false;
}

void kt__ticket_destroy(kt__ticket *ticket) {
    pthread_cond_destroy(&ticket->changed);
    pthread_mutex_destroy(&ticket->mutex);
}

/* With the mutex held. */
static void wait_for_turn(kt__ticket *ticket, uint64_t mine) {
    while (ticket->serving != mine) pthread_cond_wait(&ticket->changed, &ticket->mutex);
}

void kt__ticket_lock(kt__ticket *ticket) {
    pthread_mutex_lock(&ticket->mutex);
    wait_for_turn(ticket, ticket->next++);
    pthread_mutex_unlock(&ticket->mutex);
}

void kt__ticket_unlock(kt__ticket *ticket) {
    pthread_mutex_lock(&ticket->mutex);
    ticket->serving++;
    if (ticket->serving != ticket->next) pthread_cond_broadcast(&ticket->changed);
    pthread_mutex_unlock(&ticket->mutex);
}

void kt__ticket_yield(kt__ticket *ticket) {
    pthread_mutex_lock(&ticket->mutex);
    if (ticket->next != ticket->serving + 1) {
        uint64_t mine = ticket->next++;
        ticket->serving++;
        pthread_cond_broadcast(&ticket->changed);
        wait_for_turn(ticket, mine);
    }
    pthread_mutex_unlock(&ticket->mutex);
}
