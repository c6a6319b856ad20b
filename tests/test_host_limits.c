/* host: affinity, quota and memory limits, read from made-up machines. */
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/affinity.h"
#include "host/host.h"
#include "host/noise.h"

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/kentang-limits-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, making folders. */
static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0755);
        *p = '/';
    }
    FILE *f = fopen(full, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_memory(void) {
    put("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
                         "MemAvailable:   12000000 kB\nHugepagesize:       2048 kB\n");
}

#define V2_MOUNT                                      \
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n" \
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static kt__limits read_limits(void) {
    kt__limits limits;
    kt__limits_read_at(root, &limits);
    return limits;
}

static void test_without_any_file(void **state) {
    (void)state;
    kt__limits limits = read_limits();
    assert_true(limits.n_affinity >= 1);
    assert_int_equal(limits.n_affinity_cores, limits.n_affinity);
    assert_true(limits.quota_cpus == 0);
    assert_int_equal(limits.mem_cgroup_bytes, 0);
    assert_true(limits.mem_total_bytes > 0);
    assert_true(limits.page_bytes >= 4096);
}

static void test_v2_takes_the_tightest_level(void **state) {
    (void)state;
    put_memory();
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/self/cgroup", "0::/kube/pod1/app\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
    put("/sys/fs/cgroup/kube/cpu.max", "800000 100000\n");
    put("/sys/fs/cgroup/kube/pod1/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/kube/pod1/app/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/kube/memory.max", "max\n");
    put("/sys/fs/cgroup/kube/pod1/memory.max", "4000000000\n");
    put("/sys/fs/cgroup/kube/pod1/memory.current", "3900000000\n");
    put("/sys/fs/cgroup/kube/pod1/memory.stat",
        "anon 100\nfile 3000000000\ninactive_file 100000000\nactive_file 200000000\n");
    put("/sys/fs/cgroup/kube/pod1/app/memory.max", "2000000000\n");
    put("/sys/fs/cgroup/kube/pod1/app/memory.current", "500000000\n");
    kt__limits limits = read_limits();
    assert_true(limits.quota_cpus == 1.5);
    /* the pod has 0.4 GB left, its app by itself 1.5 GB */
    assert_int_equal(limits.mem_cgroup_bytes, 4000000000u);
    assert_int_equal(limits.mem_cgroup_used_bytes, 3600000000u);
    assert_int_equal(kt__mem_budget_default(&limits), 400000000);
    assert_int_equal(limits.mem_available_bytes, 12000000u * UINT64_C(1024));
    assert_int_equal(limits.huge_page_bytes, 2 << 20);
}

static void test_v2_high_and_namespace(void **state) {
    (void)state;
    put_memory();
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/self/cgroup", "0::/\n"); /* as a container with its own namespace sees it */
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/memory.max", "8000000000\n");
    put("/sys/fs/cgroup/memory.high", "6000000000\n");
    kt__limits limits = read_limits();
    assert_true(limits.quota_cpus == 0.5);
    assert_int_equal(limits.mem_cgroup_bytes, 6000000000u);
    put("/proc/self/cgroup",
        "0::/../../elsewhere\n"); /* outside our view: the visible root counts */
    assert_true(read_limits().quota_cpus == 0.5);
    put("/sys/fs/cgroup/memory.max", "64000000000000\n"); /* beyond the machine: binds nothing */
    put("/sys/fs/cgroup/memory.high", "max\n");
    assert_int_equal(read_limits().mem_cgroup_bytes, 0);
}

static void test_v1_walks_and_unescapes(void **state) {
    (void)state;
    put_memory();
    put("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup "
        "rw,cpu,cpuacct\n"
        "35 31 0:32 /docker/my\\040box /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "36 31 0:33 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
    put("/proc/self/cgroup", "4:memory:/docker/my box/inner\n3:cpuset:/x\n"
                             "2:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n0::/a/b\n");
    const char *cpu = "/sys/fs/cgroup/cpu,cpuacct";
    char path[256];
    const char *const levels[] = {"", "/a", "/a/b"}, *const quotas[] = {"-1\n", "250000\n",
                                                                        "900000\n"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", cpu, levels[i]);
        put(path, quotas[i]);
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", cpu, levels[i]);
        put(path, "100000\n");
    }
    put("/sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "1000\n"); /* no cpu controller there */
    put("/sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000000\n");
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
    kt__limits limits = read_limits();
    assert_true(limits.quota_cpus == 2.5);
    assert_int_equal(limits.mem_cgroup_bytes, 3000000000u);
    assert_int_equal(limits.mem_cgroup_used_bytes, 1000000000);
}

static void test_odd_contents_are_ignored(void **state) {
    (void)state;
    put("/proc/meminfo", "MemTotal: x\nMemTota");
    put("/proc/self/mountinfo",
        "\n - cgroup2\n1 2 3 - cgroup\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n");
    put("/proc/self/cgroup", "\n:\n0:\n0::/a/../../../b\n");
    put("/sys/fs/cgroup/cpu.max", "100000\n");
    put("/sys/fs/cgroup/memory.max", "-5\n");
    kt__limits limits = read_limits();
    assert_true(limits.quota_cpus == 0);
    assert_int_equal(limits.mem_cgroup_bytes, 0);
    put("/sys/fs/cgroup/cpu.max", "0 0\n");
    assert_true(read_limits().quota_cpus == 0);
    put("/sys/fs/cgroup/cpu.max", "99999999999999999999999 1\n");
    assert_true(read_limits().quota_cpus == 0);
    put("/sys/fs/cgroup/memory.max", "0\n");
    assert_int_equal(read_limits().mem_cgroup_bytes, 1);
}

static void test_siblings_count_once(void **state) {
    (void)state;
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0 || CPU_COUNT(&mask) < 2) skip();
    /* all processors are threads of one core, except that the list may not name them all */
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask)) continue;
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
                 cpu);
        put(path, "0-1023\n");
    }
    kt__limits limits = read_limits();
    assert_int_equal(limits.n_affinity, CPU_COUNT(&mask));
    assert_int_equal(limits.n_affinity_cores, 1);
}

static int threads(int physical, int fast, int affinity_cores, double quota, const char *word) {
    kt__topology topology = {
        .n_logical = 2 * physical, .n_physical = physical, .n_performance = fast};
    kt__limits limits = {
        .n_affinity = 2 * affinity_cores, .n_affinity_cores = affinity_cores, .quota_cpus = quota};
    char why[128];
    int n = kt__threads_default(&topology, &limits, why, sizeof why);
    if (!strstr(why, word)) fail_msg("no '%s' in '%s'", word, why);
    return n;
}

static void test_threads_default(void **state) {
    (void)state;
    assert_int_equal(threads(8, 8, 8, 0, "all 8 physical cores"), 8);
    assert_int_equal(threads(14, 6, 14, 0, "6 of 14 physical cores, the fast"), 6);
    assert_int_equal(threads(8, 8, 3, 0, "affinity"), 3);
    assert_int_equal(threads(8, 8, 8, 1.5, "quota of 1.50"), 2);
    assert_int_equal(threads(8, 8, 8, 4, "quota"), 4);
    assert_int_equal(threads(8, 8, 2, 4, "affinity"), 2);
    assert_int_equal(threads(4, 4, 4, 0.1, "quota"), 1);
    assert_int_equal(threads(1, 1, 1, 0, "all 1 physical core"), 1);
    assert_int_equal(threads(0, 0, 0, 0, "1"), 1);
}

static void test_noise_between_readings(void **state) {
    (void)state;
    kt__noise before, after;
    kt__noise_report report;
    long ticks = sysconf(_SC_CLK_TCK);
    kt__noise_read_at(root, &before);
    assert_false(before.has_stat);
    kt__noise_between(&before, &before, &report);
    assert_true(report.steal_cpus == -1 && report.others_cpus == -1 && !report.noisy);
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/proc/self/cgroup", "0::/app\n");
    put("/proc/loadavg", "1.50 0.9 0.8 2/300 999\n");
    put("/proc/stat", "cpu  100 0 100 5000 10 0 0 30 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
    put("/sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nthrottled_usec 1000\n");
    put("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
    kt__noise_read_at(root, &before);
    assert_true(before.has_stat && before.load_1min == 1.5);
    char line[128];
    snprintf(line, sizeof line, "cpu  %ld 0 100 5000 10 0 0 %ld 0 0\n", 100 + 3 * ticks,
             30 + ticks);
    put("/proc/stat", line);
    put("/sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nthrottled_usec 501000\n");
    put("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "5\n");
    kt__noise_read_at(root, &after);
    after.wall_us = before.wall_us + 2000000;
    after.own_us = before.own_us + 1000000;
    kt__noise_between(&before, &after, &report);
    assert_true(report.steal_cpus == 0.5);
    assert_true(report.others_cpus == 1.0);
    assert_true(report.throttled_share == 0.25);
    assert_int_equal(report.thermal_count, 2);
    assert_true(report.noisy);
}

/* Four processors, two a core, not side by side; and one that stands alone. */
static void test_cores_are_shared_out(void **state) {
    (void)state;
    cpu_set_t cpus, out;
    char list[64];
    put("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n");
    put("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n");
    put("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
    put("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n");
    assert_true(kt__affinity_read_list("0-4", &cpus));
    static const struct {
        int n, i, cores;
        bool one;
        const char *list;
    } rows[] = {{1, 0, 3, false, "0-4"},   {1, 0, 3, true, "0-1,4"}, {2, 0, 1, false, "0,2"},
                {2, 1, 2, false, "1,3-4"}, {3, 1, 1, true, "1"},     {3, 2, 1, false, "4"},
                {4, 0, 0, false, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(kt__cores_share(root, &cpus, rows[i].n, rows[i].i, rows[i].one, &out),
                         rows[i].cores);
        assert_int_equal(kt__cores_write_list(&out, list, sizeof list), rows[i].cores > 0);
        assert_string_equal(list, rows[i].list);
    }
    assert_false(kt__cores_write_list(&cpus, list, 3));
    kt_error err;
    assert_int_equal(kt_cpus_split(NULL, 2, 2, false, list, sizeof list, &err), KT_E_ARG);
    assert_int_equal(kt_cpus_split("x", 1, 0, false, list, sizeof list, &err), KT_E_ARG);
    assert_int_equal(kt_cpus_split(NULL, 4096, 0, false, list, sizeof list, &err), KT_E_ARG);
}

static void test_heat(void **state) {
    (void)state;
    kt_heat heat;
    kt__heat_read_at(root, &heat);
    assert_true(heat.mhz == 0 && heat.mhz_max == 0 && heat.celsius == 0);
    assert_false(heat.counts_throttling);
    put("/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 1000.000\ncpu MHz\t\t: 3000.500\n");
    kt__heat_read_at(root, &heat);
    assert_true(heat.mhz == 2000.25);
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "800000\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3400000\n");
    put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1600000\n");
    put("/sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "lots\n");
    put("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n");
    put("/sys/class/thermal/thermal_zone0/type", "iwlwifi_1\n");
    put("/sys/class/thermal/thermal_zone0/temp", "99000\n");
    put("/sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    put("/sys/class/thermal/thermal_zone1/temp", "71500\n");
    put("/sys/class/thermal/thermal_zone2/type", "cpu-thermal\n");
    put("/sys/class/thermal/thermal_zone2/temp", "-5\n");
    kt__heat_read_at(root, &heat);
    assert_true(heat.mhz == 1200 && heat.mhz_max == 3400 && heat.celsius == 71.5);
    assert_true(heat.counts_throttling && heat.n_throttled == 7);
}

static void test_this_machine(void **state) {
    (void)state;
    kt__limits limits;
    kt__limits_read(&limits);
    assert_true(limits.n_affinity >= limits.n_affinity_cores);
    assert_true(limits.n_affinity_cores >= 1);
    assert_true(limits.mem_available_bytes <= limits.mem_total_bytes);
    assert_true(kt__mem_budget_default(&limits) <= limits.mem_available_bytes);
}

int main(void) {
#define IN_ROOT(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        IN_ROOT(test_without_any_file),         IN_ROOT(test_v2_takes_the_tightest_level),
        IN_ROOT(test_v2_high_and_namespace),    IN_ROOT(test_v1_walks_and_unescapes),
        IN_ROOT(test_odd_contents_are_ignored), IN_ROOT(test_siblings_count_once),
        IN_ROOT(test_noise_between_readings),   IN_ROOT(test_heat),
        IN_ROOT(test_cores_are_shared_out),     cmocka_unit_test(test_threads_default),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
