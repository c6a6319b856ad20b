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
