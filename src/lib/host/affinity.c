#include "host/affinity.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/le.h"
#include "host/host.h"

enum { NICE_IDLE = 19, NICE_LOW = 10, NICE_MEDIUM = -5, NICE_HIGH = -10 };

/* ---- reading ---- */

/* "0x10f": the digits from text on, up to the end of the item. */
static const char *read_mask(const char *text, cpu_set_t *out) {
    size_t n = strcspn(text, ",");
    if (n == 0) return NULL;
    for (size_t i = 0; i < n; i++) {
        int digit = kt__hex_digit(text[n - 1 - i]);
        if (digit < 0) return NULL;
        for (size_t bit = 0; bit < 4; bit++) {
            if (!(digit >> bit & 1)) continue;
            if (4 * i + bit >= CPU_SETSIZE) return NULL;
            CPU_SET(4 * i + bit, out);
        }
    }
    return text + n;
}

static const char *read_number(const char *text, long *out) {
    char *end;
    if (!isdigit((unsigned char)*text)) return NULL;
    *out = strtol(text, &end, 10);
    return *out < CPU_SETSIZE ? end : NULL;
}

/* "5" or "4-7" */
static const char *read_range(const char *text, cpu_set_t *out) {
    long from, to;
    text = read_number(text, &from);
    to = from;
    if (text && *text == '-') text = read_number(text + 1, &to);
    if (!text || to < from) return NULL;
    for (long cpu = from; cpu <= to; cpu++) CPU_SET((size_t)cpu, out);
    return text;
}

bool kt__affinity_read_list(const char *text, cpu_set_t *out) {
    CPU_ZERO(out);
    for (;;) {
        bool mask = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
        text = mask ? read_mask(text + 2, out) : read_range(text, out);
        if (!text) return false;
        if (!*text) return CPU_COUNT(out) > 0;
        if (*text++ != ',') return false;
    }
}

kt_status kt__affinity_parse(const char *cpus, int priority, kt__affinity *out, kt_error *err) {
    cpu_set_t allowed, both;
    memset(out, 0, sizeof *out);
    if (priority < KT__PRIORITY_LOW || priority > KT__PRIORITY_REALTIME)
        return kt__fail(err, KT_E_ARG, "the priority is %d, expected %d (low) to %d (real time)",
                        priority, KT__PRIORITY_LOW, KT__PRIORITY_REALTIME);
    out->priority = (kt__priority)priority;
    if (!cpus) return KT_OK;
    if (!kt__affinity_read_list(cpus, &out->cpus))
        return kt__fail(err, KT_E_ARG,
                        "processors \"%.80s\": expected a list such as 0-3,8 or a mask such as "
                        "0x10f, below %d",
                        cpus, CPU_SETSIZE);
    out->pinned = true;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return KT_OK;
    CPU_AND(&both, &allowed, &out->cpus);
    if (CPU_COUNT(&both) == 0)
        return kt__fail(err, KT_E_ARG,
                        "this process may run on none of the processors %.80s (its affinity leaves "
                        "it %d others)",
                        cpus, CPU_COUNT(&allowed));
    out->cpus = both;
    return KT_OK;
}

/* ---- moving ---- */

void kt__affinity_enter(const kt__affinity *affinity, kt__affinity_saved *saved) {
    saved->moved = affinity->pinned &&
                   sched_getaffinity(0, sizeof saved->cpus, &saved->cpus) == 0 &&
                   sched_setaffinity(0, sizeof affinity->cpus, &affinity->cpus) == 0;
}

void kt__affinity_leave(const kt__affinity_saved *saved) {
    if (saved->moved) (void)sched_setaffinity(0, sizeof saved->cpus, &saved->cpus);
}

int kt__affinity_count(void) {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : INT_MAX;
}

/* ---- priority ---- */

static kt_status not_allowed(kt_error *err) {
    return kt__fail(err, KT_E_ARG,
                    "a raised priority is not allowed here: %s; leave --prio out, or grant "
                    "CAP_SYS_NICE or a limit (ulimit -e, ulimit -r)",
                    strerror(errno));
}

/* Linux: both calls with 0 mean the calling thread, and a new thread inherits. */
kt_status kt__priority_raise(kt__priority priority, kt__priority_saved *saved, kt_error *err) {
    memset(saved, 0, sizeof *saved);
    if (priority <= KT__PRIORITY_NORMAL) return KT_OK;
    errno = 0;
    saved->nice = getpriority(PRIO_PROCESS, 0);
    saved->policy = sched_getscheduler(0);
    if (errno || saved->policy < 0 || sched_getparam(0, &saved->param) != 0)
        return not_allowed(err);
    if (priority == KT__PRIORITY_REALTIME) {
        struct sched_param param = {.sched_priority = sched_get_priority_min(SCHED_RR)};
        if (sched_setscheduler(0, SCHED_RR, &param) != 0) return not_allowed(err);
    } else {
        int nice = priority == KT__PRIORITY_HIGH ? NICE_HIGH : NICE_MEDIUM;
        if (nice < saved->nice && setpriority(PRIO_PROCESS, 0, nice) != 0) return not_allowed(err);
    }
    saved->raised = true;
    return KT_OK;
}

void kt__priority_restore(const kt__priority_saved *saved) {
    if (!saved->raised) return;
    (void)sched_setscheduler(0, saved->policy, &saved->param);
    (void)setpriority(PRIO_PROCESS, 0, saved->nice);
}

void kt__priority_lower(kt__priority priority) {
    if (priority < KT__PRIORITY_NORMAL && getpriority(PRIO_PROCESS, 0) < NICE_LOW)
        (void)setpriority(PRIO_PROCESS, 0, NICE_LOW);
}

void kt__priority_background(void) {
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3, CLASS_SHIFT = 13 }; /* of ioprio_set(2) */
    const struct sched_param none = {0};
    /* of this thread, on Linux; a nice value would stay */
    if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        (void)setpriority(PRIO_PROCESS, 0, NICE_IDLE);
    (void)syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE << CLASS_SHIFT);
}

void kt__priority_hurry(pthread_t thread) {
    const struct sched_param none = {0};
    (void)pthread_setschedparam(thread, SCHED_OTHER, &none);
}

/* ---- cores ---- */

/* The lowest processor of cpu's core. */
static int core_of(const char *root, int cpu) {
    char dir[96], line[256];
    snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/topology", cpu);
    if (!kt__text_line(root, dir, "thread_siblings_list", line, sizeof line)) return cpu;
    int first = atoi(line);
    return first >= 0 && first < CPU_SETSIZE ? first : cpu;
}

/* rank[cpu]: the number of its core among those of cpus, -1: not in cpus. */
static int rank_cores(const char *root, const cpu_set_t *cpus, int rank[CPU_SETSIZE]) {
    int of_core[CPU_SETSIZE], n = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) rank[i] = of_core[i] = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, cpus)) continue;
        int core = core_of(root, cpu);
        if (of_core[core] < 0) of_core[core] = n++;
        rank[cpu] = of_core[core];
    }
    return n;
}

int kt__cores_share(const char *root, const cpu_set_t *cpus, int n, int i, bool one_a_core,
                    cpu_set_t *out) {
    int rank[CPU_SETSIZE], n_cores = rank_cores(root, cpus, rank);
    int begin = n_cores * i / n, end = n_cores * (i + 1) / n, next = begin;
    CPU_ZERO(out);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (rank[cpu] < begin || rank[cpu] >= end) continue;
        if (one_a_core && rank[cpu] < next) continue; /* ranks rise with each core's first */
        CPU_SET((size_t)cpu, out);
        if (rank[cpu] >= next) next = rank[cpu] + 1;
    }
    return end - begin;
}

bool kt__cores_write_list(const cpu_set_t *cpus, char *out, size_t size) {
    size_t at = 0;
    if (size) out[0] = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int last = cpu;
        if (!CPU_ISSET((size_t)cpu, cpus)) continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET((size_t)last + 1, cpus)) last++;
        int n = last > cpu ? snprintf(out + at, size - at, "%s%d-%d", at ? "," : "", cpu, last)
                           : snprintf(out + at, size - at, "%s%d", at ? "," : "", cpu);
        if (n < 0 || (size_t)n >= size - at) return false;
        at += (size_t)n;
        cpu = last;
    }
    return at > 0;
}

kt_status kt_cpus_split(const char *among, int n, int i, bool one_a_core, char *out, size_t size,
                        kt_error *err) {
    kt__affinity affinity;
    cpu_set_t share;
    kt__error_clear(err);
    if (n < 1 || i < 0 || i >= n) return kt__fail(err, KT_E_ARG, "there is no part %d of %d", i, n);
    kt_status status = kt__affinity_parse(among, 0, &affinity, err);
    if (status != KT_OK) return status;
    if (!affinity.pinned && sched_getaffinity(0, sizeof affinity.cpus, &affinity.cpus) != 0)
        return kt__fail(err, KT_E_IO, "the system does not tell which processors may be used");
    int n_cores = kt__cores_share("", &affinity.cpus, 1, 0, false, &share);
    if (n_cores < n)
        return kt__fail(err, KT_E_ARG, "%d cores cannot be shared out among %d", n_cores, n);
    (void)kt__cores_share("", &affinity.cpus, n, i, one_a_core, &share);
    if (kt__cores_write_list(&share, out, size)) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "a list of %d processors is longer than %zu bytes",
                    CPU_COUNT(&share), size);
}
