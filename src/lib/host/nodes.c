/* By two system calls: hwloc binds memory too, but would have to read the whole topology for it. */
#include "host/affinity.h"

#include "host/host.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node"

static bool read_list(const char *root, const char *dir, const char *name, cpu_set_t *out) {
    char line[4096];
    return kt__text_line(root, dir, name, line, sizeof line) && kt__affinity_read_list(line, out);
}

static bool has_some(const char *root, size_t node, const cpu_set_t *cpus) {
    char dir[64];
    cpu_set_t own, both;
    snprintf(dir, sizeof dir, NODES "/node%zu", node);
    if (!read_list(root, dir, "cpulist", &own)) return false; /* memory without processors */
    CPU_AND(&both, &own, cpus);
    return CPU_COUNT(&both) > 0;
}

/* A node's number fits a set of processors: Linux has 1024 nodes at most. */
int kt__nodes_of_at(const char *root, const cpu_set_t *cpus, cpu_set_t *out) {
    if (!read_list(root, NODES, "has_memory", out)) CPU_ZERO(out);
    for (size_t node = 0; cpus && node < CPU_SETSIZE; node++)
        if (CPU_ISSET(node, out) && !has_some(root, node, cpus)) CPU_CLR(node, out);
    return CPU_COUNT(out);
}

bool kt__nodes_several(void) {
    cpu_set_t nodes;
    return kt__nodes_of_at("", NULL, &nodes) > 1;
}

void kt__nodes_spread(void *p, size_t bytes, const kt__affinity *affinity) {
    cpu_set_t cpus, nodes;
    int mode;
    if (affinity && affinity->pinned)
        cpus = affinity->cpus;
    else if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return;
    if (kt__nodes_of_at("", &cpus, &nodes) < 2) return;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) != 0 || mode != MPOL_DEFAULT) return;
    (void)syscall(SYS_mbind, p, bytes, MPOL_INTERLEAVE, &nodes, CPU_SETSIZE + 1, 0);
}
