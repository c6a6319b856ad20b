/* Which tiers this build has, and the choice among them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/dispatch.h"

/* KT_TIERS, from CMake: T(name) for each tier of this build, best last. */

#define NEEDS_ref "nothing"
#define HAS_ref(cpu) ((void)(cpu), true)
#define NEEDS_sse41 "SSSE3 and SSE4.1"
#define HAS_sse41(cpu) ((cpu)->ssse3 && (cpu)->sse41)
#define NEEDS_avx2 "AVX2, FMA, F16C and BMI2"
#define HAS_avx2(cpu) \
    ((cpu)->os_saves_avx && (cpu)->avx2 && (cpu)->fma && (cpu)->f16c && (cpu)->bmi2)
#define NEEDS_avxvnni "AVX2, FMA, F16C, BMI2 and AVX-VNNI"
#define HAS_avxvnni(cpu) (HAS_avx2(cpu) && (cpu)->avx_vnni)
#define NEEDS_avx512 "AVX-512 F, BW, VL, DQ and VNNI"
#define HAS_avx512(cpu)                                                              \
    (HAS_avx2(cpu) && (cpu)->os_saves_avx512 && (cpu)->avx512f && (cpu)->avx512bw && \
     (cpu)->avx512vl && (cpu)->avx512dq && (cpu)->avx512_vnni)
#define NEEDS_amx NEEDS_avx512 ", AMX-TILE and AMX-INT8"
#define HAS_amx(cpu) (HAS_avx512(cpu) && (cpu)->amx_int8 && kt__cpu_permit_tiles() == 0)
#define NEEDS_neon "Advanced SIMD (NEON)"
#define HAS_neon(cpu) ((cpu)->neon)
#define NEEDS_dotprod "NEON and its dot products (ASIMDDP)"
#define HAS_dotprod(cpu) ((cpu)->neon && (cpu)->dotprod)
#define NEEDS_i8mm "NEON, dot products and I8MM"
#define HAS_i8mm(cpu) (HAS_dotprod(cpu) && (cpu)->i8mm)

#define T(name)                                  \
    extern const kt__kernels kt__kernels_##name; \
    static bool name##_supported(const kt__cpu *cpu) { return HAS_##name(cpu); }
KT_TIERS
#undef T

static const kt__tier tiers[] = {
#define T(name) {#name, &kt__kernels_##name, name##_supported, NEEDS_##name},
    KT_TIERS
#undef T
    {NULL, NULL, NULL, NULL},
};

enum { N_TIER = sizeof tiers / sizeof tiers[0] - 1 };

const kt__tier *kt__tiers(int *count) {
    if (count) *count = N_TIER;
    return tiers;
}

/* "ref, avx2" for the tiers that this machine can run */
static void list_supported(const kt__cpu *cpu, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < N_TIER && used < size; i++) {
        if (!tiers[i].supported(cpu)) continue;
        int n = snprintf(out + used, size - used, "%s%s", used ? ", " : "", tiers[i].name);
        if (n < 0) return;
        used += (size_t)n;
    }
}

typedef struct prefetch_row {
    const char *tier, *vendor; /* NULL: any */
    bool zen4;                 /* AMD's alone of that name */
    kt__prefetch prefetch;
} prefetch_row;

/* The first that fits. */
static const prefetch_row prefetches[] = {
    {"sse41", NULL, false, {2048, 0}},
    {NULL, "GenuineIntel", false, {1024, 8192}},
    {NULL, "AuthenticAMD", true, {1024, 8192}},
    {"neon", NULL, false, {2048, 0}},
    {"dotprod", NULL, false, {2048, 0}},
    {"i8mm", NULL, false, {2048, 0}},
    {NULL, NULL, false, {8192, 0}},
};

static bool row_fits(const prefetch_row *row, const kt__kernels *kernels, const kt__cpu *cpu) {
    return (!row->tier || strcmp(row->tier, kernels->name) == 0) &&
           (!row->vendor || strcmp(row->vendor, cpu->vendor) == 0) &&
           /* Zen 3 is of the same family, and has no AVX-512 */
           (!row->zen4 || (cpu->family == 25 && cpu->avx512f));
}

kt__prefetch kt__kernels_prefetch(const kt__kernels *kernels, const kt__cpu *cpu) {
    const prefetch_row *row = prefetches;
    while (!row_fits(row, kernels, cpu)) row++;
    return row->prefetch;
}

static const kt__tier *best_tier(const kt__cpu *cpu) {
    int i = N_TIER - 1;
    while (i > 0 && !tiers[i].supported(cpu)) i--;
    return &tiers[i];
}

static void explain_best(const kt__tier *best, const kt__cpu *cpu, char *why, size_t size) {
    const kt__tier *next = best + 1;
    if (next->name && strcmp(next->name, "amx") == 0 && cpu->amx_int8) {
        snprintf(why, size,
                 "the best here; the operating system refuses the tile registers of amx: %s",
                 strerror(kt__cpu_permit_tiles()));
    } else if (next->name) {
        const char *lack = cpu->os_saves_avx ? "this processor lacks part of"
                                             : "the operating system or processor does not offer";
        snprintf(why, size, "the best here; %s needs %s, and %s it", next->name, next->needs, lack);
    } else {
        snprintf(why, size, "the processor and the operating system support %s", best->needs);
    }
}

kt_status kt__kernels_select(const kt__cpu *cpu, const char *wanted, const kt__kernels **out,
                             char *why, size_t why_size, kt_error *err) {
    if (!wanted || !*wanted || strcmp(wanted, "auto") == 0) {
        const kt__tier *best = best_tier(cpu);
        explain_best(best, cpu, why, why_size);
        *out = best->kernels;
        return KT_OK;
    }
    char have[128];
    for (int i = 0; i < N_TIER; i++) {
        if (strcmp(tiers[i].name, wanted) != 0) continue;
        if (!tiers[i].supported(cpu)) {
            list_supported(cpu, have, sizeof have);
            return kt__fail(
                err, KT_E_UNSUPPORTED,
                "kernel tier '%s' needs %s, which this machine does not offer; it has: %s", wanted,
                tiers[i].needs, have);
        }
        snprintf(why, why_size, "as asked");
        *out = tiers[i].kernels;
        return KT_OK;
    }
    list_supported(cpu, have, sizeof have);
    return kt__fail(err, KT_E_ARG, "unknown kernel tier '%s'; this machine has: %s (or auto)",
                    wanted, have);
}
