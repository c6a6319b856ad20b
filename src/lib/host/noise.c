#include "host/noise.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/host.h"

/* Above these a timing is off by more than what is usually quoted as a difference. */
static const double noisy_cpus = 0.05, noisy_share = 0.01;

/* "cpu user nice system idle iowait irq softirq steal guest guest_nice", in ticks, all processors;
 * guest time is part of user time (proc(5)). */
static void read_stat(const char *root, kt__noise *out) {
    char line[512];
    uint64_t user, nice, system, idle, iowait, irq, softirq, steal = 0;
    if (!kt__text_line(root, "", "/proc/stat", line, sizeof line)) return;
    int n = sscanf(line,
                   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal);
    long ticks = sysconf(_SC_CLK_TCK);
    if (n < 7 || ticks <= 0) return;
    uint64_t tick_us = 1000000u / (uint64_t)ticks;
    out->busy_us = (user + nice + system + irq + softirq) * tick_us;
    out->steal_us = steal * tick_us;
    out->has_stat = true;
}

static void read_throttled(const char *root, const char *dir, bool v2, void *arg) {
    kt__noise *out = arg;
    uint64_t time = 0;
    if (!kt__text_keyed(root, dir, "cpu.stat", v2 ? "throttled_usec" : "throttled_time", &time))
        return;
    if (!v2) time /= 1000; /* ns */
    if (time > out->throttled_us) out->throttled_us = time;
}

static uint64_t own_cpu_us(void) {
    struct timespec ts;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) != 0) return 0;
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

void kt__noise_read_at(const char *root, kt__noise *out) {
    memset(out, 0, sizeof *out);
    char line[128];
    out->load_1min = -1;
    if (kt__text_line(root, "", "/proc/loadavg", line, sizeof line))
        (void)sscanf(line, "%lf", &out->load_1min);
    read_stat(root, out);
    kt__cgroup_walk(root, "cpu", read_throttled, out);
    (void)kt__heat_throttled(root, &out->thermal_count);
    out->own_us = own_cpu_us();
    out->wall_us = kt__now_us();
}

void kt__noise_read(kt__noise *out) {
    kt__noise_read_at("", out);
}

static double rise_per(uint64_t before, uint64_t after, double per) {
    return after > before ? (double)(after - before) / per : 0;
}

void kt__noise_between(const kt__noise *before, const kt__noise *after, kt__noise_report *out) {
    *out = (kt__noise_report){.steal_cpus = -1, .others_cpus = -1};
    double wall = (double)(after->wall_us - before->wall_us);
    if (wall < 1) wall = 1;
    if (before->has_stat && after->has_stat) {
        out->steal_cpus = rise_per(before->steal_us, after->steal_us, wall);
        double busy = rise_per(before->busy_us, after->busy_us, wall);
        double own = rise_per(before->own_us, after->own_us, wall);
        out->others_cpus = busy > own ? busy - own : 0;
    }
    out->throttled_share = rise_per(before->throttled_us, after->throttled_us, wall);
    out->thermal_count = after->thermal_count > before->thermal_count
                             ? after->thermal_count - before->thermal_count
                             : 0;
    out->noisy = out->steal_cpus > noisy_cpus || out->others_cpus > noisy_cpus ||
                 out->throttled_share > noisy_share || out->thermal_count > 0;
}

/* ---- heat ---- */

enum { MAX_CPUS = 4096, MAX_ZONES = 64 };

bool kt__heat_throttled(const char *root, uint64_t *out) {
    int cpu = 0;
    *out = 0;
    for (; cpu < MAX_CPUS; cpu++) {
        char dir[96];
        uint64_t count;
        snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/thermal_throttle", cpu);
        if (!kt__text_u64(root, dir, "core_throttle_count", &count)) break;
        *out += count;
    }
    return cpu > 0;
}

/* By the driver that sets it, in kHz; processors that are off have no such file. */
static void read_scaling(const char *root, kt_heat *out) {
    double sum_khz = 0;
    int n = 0;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        char dir[96];
        uint64_t khz, most_khz;
        snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/cpufreq", cpu);
        if (!kt__text_u64(root, dir, "scaling_cur_freq", &khz)) break;
        if (kt__text_u64(root, dir, "cpuinfo_max_freq", &most_khz) &&
            (double)most_khz / 1e3 > out->mhz_max)
            out->mhz_max = (double)most_khz / 1e3;
        sum_khz += (double)khz;
        n++;
    }
    if (n) out->mhz = sum_khz / n / 1e3;
}

/* "cpu MHz : 2596.100", a line each; x86 alone has it. */
static void read_cpuinfo(const char *root, kt_heat *out) {
    kt__text text;
    char line[256];
    double mhz, sum = 0;
    int n = 0;
    if (!kt__text_open(root, "/proc", "cpuinfo", &text)) return;
    while (kt__text_next(&text, line, sizeof line)) {
        if (sscanf(line, "cpu MHz : %lf", &mhz) != 1 || mhz <= 0) continue;
        sum += mhz;
        n++;
    }
    kt__text_close(&text);
    if (n) out->mhz = sum / n;
}

/* A zone of the processor or, on small boards, of the chip that it is part of. */
static bool is_of_processor(const char *type) {
    static const char *const words[] = {"pkg", "cpu", "soc", "acpitz"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(type, words[i])) return true;
    }
    return false;
}

static void read_zones(const char *root, kt_heat *out) {
    for (int zone = 0; zone < MAX_ZONES; zone++) {
        char dir[96], type[64];
        uint64_t milli;
        snprintf(dir, sizeof dir, "/sys/class/thermal/thermal_zone%d", zone);
        if (!kt__text_line(root, dir, "type", type, sizeof type)) return;
        if (!is_of_processor(type) || !kt__text_u64(root, dir, "temp", &milli)) continue;
        if ((double)milli / 1e3 > out->celsius) out->celsius = (double)milli / 1e3;
    }
}

void kt__heat_read_at(const char *root, kt_heat *out) {
    memset(out, 0, sizeof *out);
    read_scaling(root, out);
    if (out->mhz <= 0) read_cpuinfo(root, out);
    read_zones(root, out);
    out->counts_throttling = kt__heat_throttled(root, &out->n_throttled);
}
