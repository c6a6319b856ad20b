#include "host/heat.h"

#include <stdio.h>
#include <string.h>

#include "host/textfile.h"

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
