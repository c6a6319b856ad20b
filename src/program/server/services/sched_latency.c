#include "services/sched_latency.h"

#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_NS = 100000 }; /* the kernel's least */

/* struct sched_attr of the kernel's first version: libraries came to have it late. */
typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes;

/* slice_ns 0: the system's. A policy that was chosen for this process is left alone. */
static bool set_slice(uint64_t slice_ns) {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    attributes a = {.size = sizeof a};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0 || a.policy != SCHED_OTHER)
        return false;
    a.size = sizeof a;
    a.runtime = slice_ns;
    return syscall(SYS_sched_setattr, 0, &a, 0) == 0;
#else
    (void)slice_ns;
    return false;
#endif
}

bool kt__sched_latency_begin(void) {
    return set_slice(SLICE_NS);
}

void kt__sched_latency_end(bool changed) {
    if (changed) (void)set_slice(0);
}
