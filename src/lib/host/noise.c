#include "host/noise.h"

#include "base/clock.h"
#include "host/cgroup.h"
#include "host/heat.h"
#include "host/textfile.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
