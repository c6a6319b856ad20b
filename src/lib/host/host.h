/* What machine this is.
 *
 * Owns: processor features (CPUID and XGETBV; HWCAP on Arm), cores and caches (hwloc), affinity,
 * cgroup quota (v1, v2), memory and its limits, page size, and the floating-point environment.
 * Knows nothing of models. Any thread; nothing here is cached in globals. */
#ifndef KT_HOST_HOST_H
#define KT_HOST_HOST_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

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
 * the process, and with it signals need larger stacks (fault_guard.h). 0, or errno. May be asked again. */
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

#endif
