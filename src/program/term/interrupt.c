#include "term/terminal.h"

#include <signal.h>

/* The one place with process-wide state: a signal handler is given nothing else. */
static kt_engine *volatile watched;
static volatile sig_atomic_t interrupted;

/* The handler of Ctrl-C: remembers it, and has the watched engine stop its answer. Only what a signal handler may do: a flag
 * and kt_engine_cancel, which sets one. */
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
    kt_engine *engine = watched;
    if (engine) kt_engine_cancel(engine);
}

void kt__limits_fail_writes(void) {
    signal(SIGXFSZ, SIG_IGN);
}

void kt__interrupt_watch(kt_engine *engine) {
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: reading a line ends */
    sigemptyset(&action.sa_mask);
    watched = engine;
    sigaction(SIGINT, &action, NULL);
}

void kt__interrupt_unwatch(void) {
    if (!watched) return;
    signal(SIGINT, SIG_DFL);
    watched = NULL;
}

bool kt__interrupt_is_pending(void) {
    return interrupted != 0;
}

bool kt__interrupted(void) {
    if (!interrupted) return false;
    interrupted = 0; /* only where it was seen: one that comes meanwhile is not lost */
    return true;
}
