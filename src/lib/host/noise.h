/* What else ran on this machine while something was measured.
 *
 * Owns: counters of the kernel (time stolen by the hypervisor, time of other processes, cgroup and
 * thermal throttling) and what they mean between two readings. Knows nothing of what is measured.
 * Any thread. */
#ifndef KT_HOST_NOISE_H
#define KT_HOST_NOISE_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct kt__noise {
    int64_t wall_us;
    uint64_t busy_us;       /* all processors, all processes, since boot */
    uint64_t steal_us;      /* taken by the hypervisor while something was ready to run */
    uint64_t own_us;        /* processor time of this process */
    uint64_t throttled_us;  /* cgroup quota used up: the most of any level above us */
    uint64_t thermal_count; /* thermal throttling events, all processors */
    double load_1min;       /* -1: unknown */
    bool has_stat;          /* busy_us and steal_us are known */
} kt__noise;

/* Between two readings, in processors (2.0: two processors' worth of time). */
typedef struct kt__noise_report {
    double steal_cpus;      /* -1: unknown */
    double others_cpus;     /* used by other processes; -1: unknown */
    double throttled_share; /* of the time: this cgroup was stopped, its quota used up */
    uint64_t thermal_count;
    bool noisy; /* enough of one of them to distrust a measurement */
} kt__noise_report;

/* root: as kt__limits_read_at. */
void kt__noise_read_at(const char *root, kt__noise *out);
void kt__noise_read(kt__noise *out);
void kt__noise_between(const kt__noise *before, const kt__noise *after, kt__noise_report *out);

/* How hot the processors are, and how fast they run now.
 *
 * Owns: the kernel's files of frequencies, temperatures and thermal throttling. Decides nothing. Any
 * thread. root: as kt__limits_read_at. */

void kt__heat_read_at(const char *root, kt_heat *out);
/* Throttling events since boot, of all processors; false: this machine does not count them. */
bool kt__heat_throttled(const char *root, uint64_t *out);

#endif
