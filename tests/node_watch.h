/* On which NUMA nodes memory lies, asked of the kernel. Include cmocka.h before. */
#ifndef NODE_WATCH_H
#define NODE_WATCH_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/affinity.h"

enum { NW_MAX_NODES = 64, NW_UNTOUCHED = -ENOENT };

/* The node of the page at p; NW_UNTOUCHED: none yet; another negative number: the kernel will not
 * say. */
static inline int nw_node_of(const void *p) {
    void *page = (void *)((uintptr_t)p & ~(uintptr_t)4095);
    int status = -EFAULT;
    if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &status, 0) != 0) return -errno;
    return status == -EFAULT ? NW_UNTOUCHED : status; /* nothing there, or the page of zeros */
}

static inline bool nw_can_ask(void) {
    int here = 1;
    return nw_node_of(&here) >= 0;
}

/* Pages of [p, p + bytes) by node; returns how many are untouched. */
static inline size_t nw_count(const void *p, size_t bytes, size_t count[NW_MAX_NODES]) {
    size_t untouched = 0;
    memset(count, 0, NW_MAX_NODES * sizeof *count);
    for (size_t at = 0; at < bytes; at += 4096) {
        int node = nw_node_of((const char *)p + at);
        if (node >= 0 && node < NW_MAX_NODES) count[node]++;
        untouched += node < 0;
    }
    return untouched;
}

/* Nodes of the processors that this process may use. */
static inline int nw_own_nodes(cpu_set_t *out) {
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    return kt__nodes_of_at("", &allowed, out);
}

/* All pages lie on the nodes, about as many on each. */
static inline void nw_assert_spread(const void *p, size_t bytes, const cpu_set_t *nodes) {
    size_t count[NW_MAX_NODES], fair = bytes / 4096 / (size_t)CPU_COUNT(nodes);
    assert_int_equal(nw_count(p, bytes, count), 0);
    for (size_t node = 0; node < NW_MAX_NODES; node++) {
        if (count[node]) print_message("node %zu: %zu pages of 4 KiB\n", node, count[node]);
        bool fits = CPU_ISSET(node, nodes) ? count[node] >= fair * 3 / 4 : count[node] == 0;
        if (!fits) fail_msg("%zu pages on node %zu, expected about %zu", count[node], node, fair);
    }
}

static inline int nw_this_node(void) {
    unsigned cpu, node;
    return syscall(SYS_getcpu, &cpu, &node, NULL) == 0 ? (int)node : -1;
}

static inline bool nw_hold_to(size_t cpu) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

/* The processors that this process may use, one of each node in turn; returns how many. */
static inline int nw_cpus(size_t *out, int max) {
    cpu_set_t allowed, nodes, one;
    int n = 0, total;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
    total = CPU_COUNT(&allowed);
    kt__nodes_of_at("", &allowed, &nodes);
    if (CPU_COUNT(&nodes) == 0) CPU_SET(0, &nodes); /* a kernel that knows no nodes */
    bool alone = CPU_COUNT(&nodes) == 1;
    for (size_t node = 0; n < max && n < total; node = (node + 1) % CPU_SETSIZE) {
        if (!CPU_ISSET(node, &nodes)) continue;
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            cpu_set_t of;
            if (!CPU_ISSET(cpu, &allowed)) continue;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            kt__nodes_of_at("", &one, &of);
            if (!alone && !CPU_ISSET(node, &of)) continue;
            CPU_CLR(cpu, &allowed);
            out[n++] = cpu;
            break;
        }
    }
    return n;
}

#endif
