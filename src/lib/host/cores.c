#include "host/cores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/affinity.h"
#include "host/textfile.h"

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
