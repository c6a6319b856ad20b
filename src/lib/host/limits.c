/* The limits under which this process runs: affinity, memory, and what the cgroups say. A cgroup
 * binds with every one of its ancestors, so the tightest level counts. */
#include "host/limits.h"

#include "host/cgroup.h"
#include "host/textfile.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CPUS = 1 << 14 };

static const uint64_t unlimited_bytes = UINT64_C(1) << 60; /* v1 writes "none" as nearly 2^63 */

/* ---- cgroups: what ---- */

static void read_quota(const char *root, const char *dir, bool v2, void *arg) {
    kt__limits *out = arg;
    uint64_t quota = 0, period = 0;
    if (v2) {
        char line[64];
        if (!kt__text_line(root, dir, "cpu.max", line, sizeof line)) return;
        const char *space = strchr(line, ' ');
        if (!space || !kt__text_parse_u64(line, &quota) || !kt__text_parse_u64(space + 1, &period))
            return;
    } else if (!kt__text_u64(root, dir, "cpu.cfs_quota_us", &quota) ||
               !kt__text_u64(root, dir, "cpu.cfs_period_us", &period)) {
        return;
    }
    if (quota == 0 || period == 0) return;
    double cpus = (double)quota / (double)period;
    if (out->quota_cpus == 0 || cpus < out->quota_cpus) out->quota_cpus = cpus;
}

static uint64_t saturating_sub(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* What is charged to the group and cannot be dropped: its page cache can. */
static uint64_t unreclaimable_bytes(const char *root, const char *dir, bool v2) {
    uint64_t used = 0;
    if (!kt__text_u64(root, dir, v2 ? "memory.current" : "memory.usage_in_bytes", &used)) return 0;
    const char *const v2_keys[] = {"active_file", "inactive_file"};
    const char *const v1_keys[] = {"total_active_file", "total_inactive_file"};
    for (int i = 0; i < 2; i++) {
        uint64_t cached = 0;
        if (kt__text_keyed(root, dir, "memory.stat", v2 ? v2_keys[i] : v1_keys[i], &cached))
            used = saturating_sub(used, cached);
    }
    return used;
}

static void read_memory(const char *root, const char *dir, bool v2, void *arg) {
    kt__limits *out = arg;
    uint64_t limit = UINT64_MAX, high;
    if (!kt__text_u64(root, dir, v2 ? "memory.max" : "memory.limit_in_bytes", &limit))
        limit = UINT64_MAX;
    /* above memory.high the group is throttled, which for us is as bad as a refusal */
    if (v2 && kt__text_u64(root, dir, "memory.high", &high) && high < limit) limit = high;
    if (limit >= unlimited_bytes) return;
    if (out->mem_total_bytes && limit >= out->mem_total_bytes) return;
    uint64_t used = unreclaimable_bytes(root, dir, v2);
    uint64_t left = saturating_sub(limit, used);
    if (out->mem_cgroup_bytes &&
        left >= saturating_sub(out->mem_cgroup_bytes, out->mem_cgroup_used_bytes))
        return;
    out->mem_cgroup_bytes = limit ? limit : 1;
    out->mem_cgroup_used_bytes = used;
}

/* ---- processors and memory ---- */

/* The lowest processor of a list such as "0,64" or "4-5" that is in the mask; -1: none. */
static int first_allowed(const char *list, const cpu_set_t *mask, size_t mask_bytes) {
    while (isdigit((unsigned char)*list)) {
        char *end;
        long from = strtol(list, &end, 10), to = from;
        if (*end == '-') to = strtol(end + 1, &end, 10);
        for (long cpu = from; cpu <= to && cpu < MAX_CPUS; cpu++)
            if (CPU_ISSET_S((size_t)cpu, mask_bytes, mask)) return (int)cpu;
        if (*end != ',') break;
        list = end + 1;
    }
    return -1;
}

/* A core counts once: at its lowest processor in the mask. */
static bool leads_its_core(const char *root, int cpu, const cpu_set_t *mask, size_t mask_bytes) {
    char dir[96], line[512];
    snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/topology", cpu);
    if (!kt__text_line(root, dir, "thread_siblings_list", line, sizeof line)) return true;
    int first = first_allowed(line, mask, mask_bytes);
    return first < 0 || first == cpu;
}

static void read_affinity(const char *root, kt__limits *out) {
    static const size_t mask_bytes = MAX_CPUS / 8;
    cpu_set_t mask[MAX_CPUS / 8 / sizeof(cpu_set_t)];
    memset(mask, 0, sizeof mask);
    if (sched_getaffinity(0, mask_bytes, mask) != 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        out->n_affinity = out->n_affinity_cores = n > 0 ? (int)n : 1;
        return;
    }
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, mask_bytes, mask)) continue;
        out->n_affinity++;
        out->n_affinity_cores += leads_its_core(root, cpu, mask, mask_bytes);
    }
}

/* A "key: n kB" line in bytes; 0 where it is missing. */
static uint64_t keyed_kb(const char *root, const char *file, const char *key) {
    uint64_t kb = 0;
    if (!kt__text_keyed(root, "", file, key, &kb) || kb > UINT64_MAX / 1024) return 0;
    return kb * 1024;
}

static void read_meminfo(const char *root, kt__limits *out) {
    const char *file = "/proc/meminfo";
    uint64_t available = keyed_kb(root, file, "MemAvailable");
    if (!available) /* kernels before 3.14, some emulations */
        available = keyed_kb(root, file, "MemFree") + keyed_kb(root, file, "Cached");
    out->mem_total_bytes = keyed_kb(root, file, "MemTotal");
    out->mem_available_bytes = available;
    if (!out->mem_total_bytes) {
        long pages = sysconf(_SC_PHYS_PAGES), free_pages = sysconf(_SC_AVPHYS_PAGES);
        if (pages > 0) out->mem_total_bytes = (uint64_t)pages * out->page_bytes;
        if (free_pages > 0) out->mem_available_bytes = (uint64_t)free_pages * out->page_bytes;
    }
    const char *thp = "/sys/kernel/mm/transparent_hugepage";
    if (!kt__text_u64(root, thp, "hpage_pmd_size", &out->huge_page_bytes))
        out->huge_page_bytes = keyed_kb(root, file, "Hugepagesize");
}

void kt__limits_read_at(const char *root, kt__limits *out) {
    memset(out, 0, sizeof *out);
    long page = sysconf(_SC_PAGESIZE);
    out->page_bytes = page > 0 ? (uint64_t)page : 4096;
    read_affinity(root, out);
    read_meminfo(root, out);
    kt__cgroup_walk(root, "cpu", read_quota, out);
    kt__cgroup_walk(root, "memory", read_memory, out);
}

void kt__limits_read(kt__limits *out) {
    kt__limits_read_at("", out);
}

uint64_t kt__mem_budget_default(const kt__limits *limits) {
    uint64_t budget = limits->mem_available_bytes;
    if (limits->mem_cgroup_bytes) {
        uint64_t left = saturating_sub(limits->mem_cgroup_bytes, limits->mem_cgroup_used_bytes);
        if (left < budget) budget = left;
    }
    return budget;
}

/* ---- the default ---- */

int kt__threads_default(const kt__topology *topology, const kt__limits *limits, char *why,
                        size_t why_size) {
    int n = topology->n_physical > 0 ? topology->n_physical : 1;
    const int n_cores = n;
    char reason[96] = "";
    if (topology->n_performance > 0 && topology->n_performance < n) {
        n = topology->n_performance;
        snprintf(reason, sizeof reason, ", the fast ones of a hybrid processor");
    }
    if (limits->n_affinity_cores > 0 && limits->n_affinity_cores < n) {
        n = limits->n_affinity_cores;
        snprintf(reason, sizeof reason, ", those that the affinity mask allows");
    }
    if (limits->quota_cpus > 0 && limits->quota_cpus < n) {
        int quota = (int)limits->quota_cpus;
        n = quota < limits->quota_cpus ? quota + 1 : quota;
        snprintf(reason, sizeof reason, ", a cgroup quota of %.2f processors", limits->quota_cpus);
    }
    if (n < 1) n = 1;
    if (n == n_cores)
        snprintf(why, why_size, "all %d physical core%s%s", n, n == 1 ? "" : "s", reason);
    else
        snprintf(why, why_size, "%d of %d physical cores%s", n, n_cores, reason);
    return n;
}
