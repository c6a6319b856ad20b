/* What a process has used, and its limits, of which Windows has none: ../../process.c. */
#ifndef KT_HOST_WINDOWS_RESOURCE_H
#define KT_HOST_WINDOWS_RESOURCE_H

#include <stdint.h>
#include <time.h>

enum {
    RUSAGE_SELF,
    RLIMIT_MEMLOCK,
    RLIMIT_NOFILE,
    RLIMIT_CORE,
    RLIMIT_FSIZE,
    RLIMIT_AS,
    RLIMIT_CPU
};
#define RLIM_INFINITY UINT64_MAX
struct rusage {
    struct timeval ru_utime, ru_stime;
    long ru_maxrss, ru_majflt, ru_minflt;
};
typedef uint64_t rlim_t;
struct rlimit {
    uint64_t rlim_cur, rlim_max;
};
int kt__win_getrusage(int who, struct rusage *out);
static inline int kt__win_getrlimit(int what, struct rlimit *out) {
    (void)what;
    out->rlim_cur = out->rlim_max = RLIM_INFINITY;
    return 0;
}
#define getrusage kt__win_getrusage
#define getrlimit kt__win_getrlimit
#define setrlimit(what, limit) 0

#endif
