#include "services/system_metrics.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void kt__metric_head(kt__buf *out, const char *name, const char *type, const char *help) {
    (void)kt__buf_printf(out, "# HELP kentang_%s %s\n# TYPE kentang_%s %s\n", name, help, name,
                         type);
}

static bool read_file(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, out, size - 1); /* these files come whole */
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number after "KEY " at the start of a line. */
static bool number_after(const char *text, const char *key, double *out) {
    size_t len = strlen(key);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (!strncmp(at, key, len) && (at[len] == ' ' || at[len] == ':')) {
            *out = strtod(at + len + 1, NULL);
            return true;
        }
    }
    return false;
}

/* A file of our cgroup under one of its two names (a container sees its own as the root). line: of
 * /proc/self/cgroup, "5:cpu,cpuacct:/path" or "0::/path", which is taken apart. */
static bool read_group_file(char *line, const char *controller, const char *file, char *text,
                            size_t size) {
    char path[4400], *name = strchr(line, ':'), *dir = name ? strchr(name + 1, ':') : NULL;
    if (!dir) return false;
    *dir++ = '\0';
    bool v2 = !strcmp(line, "0:"), v1 = false;
    for (char *rest = name + 1, *one; (one = strsep(&rest, ",")) != NULL;)
        v1 |= !strcmp(one, controller);
    if (!v2 && !v1) return false;
    const char *tries[] = {dir, ""};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s%s%s/%s", v2 ? "" : "/", v2 ? "" : controller,
                 tries[i], file);
        if (read_file(path, text, size)) return true;
    }
    return false;
}

static bool read_cgroup(const char *controller, const char *file, char *text, size_t size) {
    char groups[4096];
    if (!read_file("/proc/self/cgroup", groups, sizeof groups)) return false;
    for (char *rest = groups, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (read_group_file(line, controller, file, text, size)) return true;
    }
    return false;
}

/* Seconds that the cgroup's quota has kept us waiting; both versions of cgroups. */
static bool throttled_seconds(double *out) {
    char text[2048];
    if (!read_cgroup("cpu", "cpu.stat", text, sizeof text)) return false;
    if (number_after(text, "throttled_usec", out)) return *out *= 1e-6, true;
    if (number_after(text, "throttled_time", out)) return *out *= 1e-9, true;
    return false;
}

/* Seconds in which nothing could run for want of memory: of our cgroup, else of the machine. */
static bool stalled_seconds(double *out) {
    char text[512];
    if (!read_cgroup("memory", "memory.pressure", text, sizeof text) &&
        !read_file("/proc/pressure/memory", text, sizeof text))
        return false;
    const char *full = strstr(text, "full "), *total = full ? strstr(full, "total=") : NULL;
    if (!total) return false;
    *out = strtod(total + 6, NULL) * 1e-6;
    return true;
}

/* ---- writing ---- */

/* Of builds with a sanitizer, whose resident memory is mostly shadow, quarantine and free lists:
 * only what is allocated and not freed says there whether memory is lost (tests/soak asks for it).
 */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static void write_heap(kt__buf *out) {
    if (!__sanitizer_get_current_allocated_bytes) return;
    kt__metric_head(out, "heap_bytes", "gauge",
                    "memory allocated and not freed; with sanitizers only");
    (void)kt__buf_printf(out, "kentang_heap_bytes %zu\n",
                         __sanitizer_get_current_allocated_bytes());
}

static void write_processor(const struct rusage *usage, kt__buf *out) {
    double seconds = 0;
    if (throttled_seconds(&seconds)) {
        kt__metric_head(out, "cpu_throttled_seconds_total", "counter",
                        "time lost to the cgroup's CPU quota");
        (void)kt__buf_printf(out, "kentang_cpu_throttled_seconds_total %.6f\n", seconds);
    }
    kt__metric_head(out, "cpu_seconds_total", "counter", "processor time used");
    (void)kt__buf_printf(out, "kentang_cpu_seconds_total %.6f\n",
                         (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
                             (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6);
}

static void write_heat_gauge(kt__buf *out, const char *name, const char *help, double value) {
    if (value <= 0) return; /* this machine does not tell */
    kt__metric_head(out, name, "gauge", help);
    (void)kt__buf_printf(out, "kentang_%s %.15g\n", name, value);
}

static void write_heat(kt__buf *out) {
    kt_heat heat;
    kt_heat_read(&heat);
    write_heat_gauge(out, "cpu_frequency_hertz", "the processors' frequency now, in the mean",
                     heat.mhz * 1e6);
    write_heat_gauge(out, "cpu_frequency_max_hertz", "the highest that a processor is made for",
                     heat.mhz_max * 1e6);
    write_heat_gauge(out, "cpu_temperature_celsius", "of the hottest sensor at a processor",
                     heat.celsius);
    if (!heat.counts_throttling) return;
    kt__metric_head(out, "cpu_thermal_throttles_total", "counter",
                    "times that a processor was slowed down for heat, since boot");
    (void)kt__buf_printf(out, "kentang_cpu_thermal_throttles_total %llu\n",
                         (unsigned long long)heat.n_throttled);
}

/* Too little memory for mapped weights shows in the bytes that are read again: readahead makes few
 * faults of them, and large ones. */
static void write_paging(const struct rusage *usage, kt__buf *out) {
    char text[1024];
    double number = 0;
    kt__metric_head(out, "major_page_faults_total", "counter", "accesses that waited for the disk");
    (void)kt__buf_printf(out, "kentang_major_page_faults_total %ld\n", usage->ru_majflt);
    if (read_file("/proc/self/io", text, sizeof text) &&
        number_after(text, "read_bytes", &number)) {
        kt__metric_head(out, "disk_read_bytes_total", "counter",
                        "bytes fetched from disk for the process, mapped files included");
        (void)kt__buf_printf(out, "kentang_disk_read_bytes_total %.0f\n", number);
    }
    if (stalled_seconds(&number)) {
        kt__metric_head(out, "memory_stalled_seconds_total", "counter",
                        "time in which all of the cgroup, or the machine, waited for memory");
        (void)kt__buf_printf(out, "kentang_memory_stalled_seconds_total %.6f\n", number);
    }
}

static void write_resident(kt__buf *out) {
    char status[4096] = "";
    double anonymous_kb = 0, file_kb = 0;
    (void)read_file("/proc/self/status", status, sizeof status);
    (void)number_after(status, "RssAnon", &anonymous_kb);
    (void)number_after(status, "RssFile", &file_kb);
    kt__metric_head(out, "resident_memory_bytes", "gauge",
                    "resident memory of the process, by kind");
    (void)kt__buf_printf(out,
                         "kentang_resident_memory_bytes{kind=\"anonymous\"} %.0f\n"
                         "kentang_resident_memory_bytes{kind=\"file\"} %.0f\n",
                         anonymous_kb * 1024, file_kb * 1024);
}

void kt__system_metrics_write(kt__buf *out) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        write_processor(&usage, out);
        write_paging(&usage, out);
    }
    write_heat(out);
    write_resident(out);
    write_heap(out);
}
