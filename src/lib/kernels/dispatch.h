/* Which tier runs here.
 *
 * Owns: the tiers of this build, and choosing one by what the machine has and what is asked for. The
 * table itself is kernels.h's, which knows no machine: its files take minutes to compile and include
 * as little as they can. Any thread. */
#ifndef KT_KERNELS_DISPATCH_H
#define KT_KERNELS_DISPATCH_H

#include <kentang.h>

#include "host/host.h"
#include "kernels/kernels.h"

/* Tiers known to this build, best last, NULL-terminated; each with the test that a machine can run
 * it. */
typedef struct kt__tier {
    const char *name;
    const kt__kernels *kernels;
    bool (*supported)(const kt__cpu *cpu);
    const char *needs; /* "AVX2, FMA and F16C" */
} kt__tier;
const kt__tier *kt__tiers(int *count);

/* wanted: NULL or "" or "auto": the best supported. An unknown or unsupported name is an error that
 * lists what there is. why receives one phrase. */
kt_status kt__kernels_select(const kt__cpu *cpu, const char *wanted, const kt__kernels **out,
                             char *why, size_t why_size, kt_error *err) KT_CHECKED;

/* How rowdot prefetches best in this tier on this processor, by a table of measurements
 * (docs/TUNING.md). */
kt__prefetch kt__kernels_prefetch(const kt__kernels *kernels, const kt__cpu *cpu);

#endif
