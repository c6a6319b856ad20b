/* What machine this is.
 *
 * Owns: processor features (CPUID and XGETBV; HWCAP on Arm), cores and caches (hwloc), affinity, cgroup quota (v1,
 * v2), memory and its limits, page size, and the floating-point environment; the reading of the kernel's small text
 * files. Knows nothing of models. Any thread; nothing here is cached in globals. */
#ifndef KT_HOST_HOST_H
#define KT_HOST_HOST_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kt__cpu {
    char vendor[16], brand[64];
    unsigned
        family; /* x86: CPUID's, with its extension (AMD: 25 is Zen 3 and 4, 26 Zen 5); 0 elsewhere */
    /* true only where the processor has it and the operating system saves its registers */
    bool ssse3, sse41;
    bool avx2, fma, f16c, bmi2, avx_vnni;
    bool avx512f, avx512bw, avx512vl, avx512dq, avx512_vnni;
    bool amx_int8; /* and AMX-TILE, tiles of 16 rows of 64 bytes; see kt__cpu_permit_tiles */
    bool neon, dotprod, i8mm;
    bool os_saves_avx, os_saves_avx512, os_saves_tiles; /* XGETBV */
    bool hypervisor;
} kt__cpu;

typedef struct kt__topology {
    int n_logical;     /* online processors */
    int n_physical;    /* cores */
    int n_performance; /* cores of the fastest kind; equal to n_physical where all are alike */
    int n_numa;
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* of one instance; 0: unknown */
} kt__topology;

typedef struct kt__limits {
    int n_affinity;       /* processors this process may run on */
    int n_affinity_cores; /* physical cores among them */
    double quota_cpus;    /* cgroup quota in processors; 0: none */
    uint64_t mem_total_bytes, mem_available_bytes;
    uint64_t mem_cgroup_bytes; /* memory.max (or .high) of the tightest group above us; 0: none */
    uint64_t mem_cgroup_used_bytes; /* of that group, without its page cache */
    uint64_t page_bytes, huge_page_bytes;
} kt__limits;

void kt__cpu_detect(kt__cpu *out);
/* Asks the operating system for the tile registers, on behalf of the process: without it the first tile instruction ends
 * the process, and with it signals need larger stacks (filemap.h). 0, or errno. May be asked again. */
int kt__cpu_permit_tiles(void);
void kt__topology_detect(kt__topology *out); /* falls back on sysconf where hwloc fails */
void kt__limits_read(kt__limits *out);

/* Threads to use by default: physical cores (fast ones first), capped by affinity and by the quota
 * rounded up, at least 1. Writes one phrase that says why. */
int kt__threads_default(const kt__topology *topology, const kt__limits *limits, char *why,
                        size_t why_size);
/* Bytes that may be used now for caches and scratch: the smaller of what the machine and the cgroup
 * leave. */
uint64_t kt__mem_budget_default(const kt__limits *limits);

/* The contract's floating-point environment (MXCSR, FPCR): round to nearest, no flush-to-zero,
 * exceptions masked. enter returns the previous state for leave. */
uint32_t kt__fpenv_enter(void);
void kt__fpenv_leave(uint32_t saved);

/* Where the limits are read from.
 *
 * Nothing; it lets a test put a made-up machine under a directory. Used by limits.c and its test. Any thread. */

/* kt__limits_read with every file of /proc and /sys looked up below root ("": the real ones). The
 * affinity mask is always this thread's own. */
void kt__limits_read_at(const char *root, kt__limits *out);

/* Where this process is in the cgroup hierarchies.
 *
 * Owns: /proc/self/cgroup, /proc/self/mountinfo, and the walk over a group and its ancestors,
 * versions 1 and 2. Knows nothing of what the groups' files say. Any thread. */

/* root and dir as kt__text_open takes them. */
typedef void kt__cgroup_level(const char *root, const char *dir, bool v2, void *arg);

/* Calls level for the process's own group and every visible ancestor, in each mounted hierarchy
 * that may have the controller ("cpu", "memory"). A group binds with all of its ancestors. */
void kt__cgroup_walk(const char *root, const char *controller, kt__cgroup_level *level, void *arg);

/* Small text files of the kernel.
 *
 * Reading a line, a number or a keyed value from files of /proc and /sys, without the heap (a running engine looks at
 * its limits once a second). Knows nothing of what they mean. A path is root + dir + "/" + name, so that tests can
 * put a made-up machine under root ("" otherwise); dir may be empty. What is missing or malformed reads as absent,
 * never as an error. Any thread. */

/* A file read line by line. */
typedef struct kt__text {
    int fd, at, len;
    char chunk[2048];
} kt__text;

bool kt__text_open(const char *root, const char *dir, const char *name, kt__text *out);
void kt__text_close(kt__text *text); /* one that was opened */
/* The next line without its newline, cut to fit; false at the end. */
bool kt__text_next(kt__text *text, char *line, int size);

/* The first line without its newline; false if there is none. */
bool kt__text_line(const char *root, const char *dir, const char *name, char *line, int size);
/* A number at the front of text; false for "max", "-1", overflow and anything else. */
bool kt__text_parse_u64(const char *text, uint64_t *out);
bool kt__text_u64(const char *root, const char *dir, const char *name, uint64_t *out);
/* The number of the first "key value" or "key: value" line, in the file's own unit. */
bool kt__text_keyed(const char *root, const char *dir, const char *name, const char *key,
                    uint64_t *out);

#endif
