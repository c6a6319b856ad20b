/* The limits under which this process runs: affinity, memory, and what the cgroups say. A cgroup
 * binds with every one of its ancestors, so the tightest level counts. */
#include "host/host.h"

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

/* Inside a container the path of /proc/self/cgroup and the mounted subtree may not match; what
 * cannot be found is left out (Linux: Documentation/admin-guide/cgroup-v1, cgroup-v2.rst; proc(5)
 * for mountinfo). */

enum {
    LINE_BYTES = 8192, /* longer lines are cut: the fields used are at the front */
    NAME_BYTES = 1024,
    MAX_MOUNTS = 4096
};

typedef struct cgroup_mount {
    char root[NAME_BYTES];  /* the cgroup that is mounted */
    char point[NAME_BYTES]; /* where */
    char super[NAME_BYTES]; /* v1: its controllers, among other options */
    bool v2;
} cgroup_mount;

static bool list_has(const char *list, const char *word) {
    size_t len = strlen(word);
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == len && memcmp(list, word, len) == 0) return true;
        list += n;
        if (*list == ',') list++;
    }
    return false;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void copy_unescaped(char *out, size_t size, const char *in) {
    size_t n = 0;
    while (*in && n + 1 < size) {
        bool octal = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
                     in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
        if (octal) {
            out[n++] = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
            in += 4;
        } else {
            out[n++] = *in++;
        }
    }
    out[n] = '\0';
}

/* "36 35 98:0 /root /point options [tags] - type source super-options"; false if no cgroup's. */
static bool parse_mount(char *line, cgroup_mount *out) {
    char *dash = strstr(line, " - ");
    if (!dash) return false;
    *dash = '\0';
    char type[32] = "";
    out->super[0] = '\0';
    if (sscanf(dash + 3, "%31s %*s %1023s", type, out->super) < 1) return false;
    char root[NAME_BYTES], point[NAME_BYTES];
    if (sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2) return false;
    out->v2 = strcmp(type, "cgroup2") == 0;
    if (!out->v2 && strcmp(type, "cgroup") != 0) return false;
    copy_unescaped(out->root, sizeof out->root, root);
    copy_unescaped(out->point, sizeof out->point, point);
    return true;
}

/* The process's group in the hierarchy of `mount`, from /proc/self/cgroup ("id:controllers:path").
 */
static bool find_group(const char *root, const cgroup_mount *mount, const char *controller,
                       char *path, size_t size) {
    kt__text text;
    char line[LINE_BYTES];
    bool found = false;
    if (!kt__text_open(root, "", "/proc/self/cgroup", &text)) return false;
    while (!found && kt__text_next(&text, line, sizeof line)) {
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        found = mount->v2 ? list[1] == '\0' : list_has(list + 1, controller);
        if (found) snprintf(path, size, "%s", group);
    }
    kt__text_close(&text);
    return found;
}

/* The directory of `group` below the mount point. A group outside the mounted subtree (another
 * cgroup namespace) is represented by the mount's own root, which is then the nearest visible
 * ancestor. */
static void group_dir(const cgroup_mount *mount, const char *group, char *dir, size_t size) {
    size_t len = strlen(mount->root);
    while (len > 0 && mount->root[len - 1] == '/') len--;
    bool below = strncmp(group, mount->root, len) == 0 && (group[len] == '/' || !group[len]);
    const char *rest = below && !strstr(group, "..") ? group + len : "";
    if (strcmp(rest, "/") == 0) rest = "";
    int n = snprintf(dir, size, "%s%s", mount->point, rest);
    if (n < 0 || (size_t)n >= size) snprintf(dir, size, "%s", mount->point);
}

/* From the process's group up to the mount point. Every step shortens dir. */
static void walk_up(const char *root, const cgroup_mount *mount, const char *controller,
                    kt__cgroup_level *level, void *arg) {
    char group[NAME_BYTES], dir[2 * NAME_BYTES];
    if (!find_group(root, mount, controller, group, sizeof group)) return;
    group_dir(mount, group, dir, sizeof dir);
    size_t top = strlen(mount->point);
    for (;;) {
        level(root, dir, mount->v2, arg);
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= top || !slash) return;
        *slash = '\0';
        if (strlen(dir) < top) return;
    }
}

void kt__cgroup_walk(const char *root, const char *controller, kt__cgroup_level *level, void *arg) {
    kt__text text;
    char line[LINE_BYTES];
    cgroup_mount mount;
    if (!kt__text_open(root, "", "/proc/self/mountinfo", &text)) return;
    for (int i = 0; i < MAX_MOUNTS && kt__text_next(&text, line, sizeof line); i++) {
        if (!strstr(line, " - cgroup") || !parse_mount(line, &mount)) continue;
        if (mount.v2 || list_has(mount.super, controller))
            walk_up(root, &mount, controller, level, arg);
    }
    kt__text_close(&text);
}
