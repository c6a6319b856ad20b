#include "host/filemap.h"

#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_SLOTS = 1024 };

enum slot_state { SLOT_FREE, SLOT_CLAIMED, SLOT_LIVE };

typedef struct slot {
    atomic_int state;
    _Atomic uintptr_t begin, end;
    atomic_bool hit;
} guard_slot;

static guard_slot slots[N_SLOTS];
static pthread_mutex_t install_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool installed;            /* under install_mutex */
static struct sigaction previous; /* constant once the handler is in place */
static uintptr_t page_mask;       /* the same */

int kt__fault_guard_add(const void *data, size_t size) {
    for (int i = 0; i < N_SLOTS; i++) {
        int expected = SLOT_FREE;
        if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) != SLOT_FREE) continue;
        if (!atomic_compare_exchange_strong(&slots[i].state, &expected, SLOT_CLAIMED)) continue;
        atomic_store(&slots[i].begin, (uintptr_t)data);
        atomic_store(&slots[i].end, (uintptr_t)data + size);
        atomic_store(&slots[i].hit, false);
        atomic_store(&slots[i].state, SLOT_LIVE);
        return i;
    }
    return -1;
}

void kt__fault_guard_remove(int slot) {
    if (slot >= 0) atomic_store(&slots[slot].state, SLOT_FREE);
}

bool kt__fault_guard_hit(int slot) {
    return slot >= 0 && atomic_load_explicit(&slots[slot].hit, memory_order_acquire);
}

/* Zero pages from the page of `address` to the end of s: one fault covers all that follows it, and
 * the step in progress ends soon and is discarded. They take no memory, since they are not
 * writable. */
static bool replace_tail(guard_slot *s, uintptr_t address) {
    uintptr_t from = address & page_mask, end = atomic_load(&s->end);
    void *got = mmap((void *)from, end - from, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return false;
    atomic_store_explicit(&s->hit, true, memory_order_release);
    return true;
}

static bool answer_fault(uintptr_t address) {
    for (int i = 0; i < N_SLOTS; i++) {
        guard_slot *s = &slots[i];
        if (atomic_load(&s->state) != SLOT_LIVE) continue;
        if (address < atomic_load(&s->begin) || address >= atomic_load(&s->end)) continue;
        return replace_tail(s, address);
    }
    return false;
}

/* The default action, taken when this handler returns and the signal is unblocked. */
static void die_of(int sig) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    sigaction(sig, &action, NULL);
    raise(sig);
}

static void call_previous(int sig, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(sig, info, context);
    else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)
        die_of(sig); /* a fault cannot be ignored: the kernel would kill, too */
    else
        previous.sa_handler(sig);
}

static void on_sigbus(int sig, siginfo_t *info, void *context) {
    int saved_errno = errno;
    bool from_memory_access = info->si_code > 0; /* and not sent by kill() */
    if (!from_memory_access || !answer_fault((uintptr_t)info->si_addr))
        call_previous(sig, info, context);
    errno = saved_errno;
}

static int install_handler(void) {
    page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    /* read first: another thread may fault before the installing call returns */
    if (sigaction(SIGBUS, NULL, &previous) != 0) return errno;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0 ? 0 : errno;
}

kt_status kt_install_fault_guard(kt_error *err) {
    pthread_mutex_lock(&install_mutex);
    int rc = installed ? 0 : install_handler();
    if (rc == 0) installed = true;
    pthread_mutex_unlock(&install_mutex);
    if (rc == 0) return KT_OK;
    return kt__fail_system(err, rc, NULL, "cannot install a SIGBUS handler");
}
