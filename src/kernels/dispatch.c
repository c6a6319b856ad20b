/* Which tiers this build has, and the choice among them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/kernels.h"

/* A tier is in the build when its file is in the tree and the processor family fits; KT_REF_ONLY:
 * the reference alone. */
#if defined(KT_REF_ONLY)
#elif defined(__x86_64__)
#if __has_include("kernels/tier_avx2.c")
#define KT_TIER_HAVE_AVX2 1
#endif
#if __has_include("kernels/tier_avxvnni.c")
#define KT_TIER_HAVE_AVXVNNI 1
#endif
#if __has_include("kernels/tier_avx512.c")
#define KT_TIER_HAVE_AVX512 1
#endif
#elif defined(__aarch64__)
#if __has_include("kernels/tier_neon.c")
#define KT_TIER_HAVE_NEON 1
#endif
#if __has_include("kernels/tier_dotprod.c")
#define KT_TIER_HAVE_DOTPROD 1
#endif
#if __has_include("kernels/tier_i8mm.c")
#define KT_TIER_HAVE_I8MM 1
#endif
#endif

extern const kt__kernels kt__kernels_ref, kt__kernels_avx2, kt__kernels_avxvnni, kt__kernels_avx512,
    kt__kernels_neon, kt__kernels_dotprod, kt__kernels_i8mm;

static bool ref_supported(const kt__cpu *cpu) {
    (void)cpu;
    return true;
}

#if defined(KT_TIER_HAVE_AVX2) || defined(KT_TIER_HAVE_AVXVNNI) || defined(KT_TIER_HAVE_AVX512)
static bool avx2_supported(const kt__cpu *cpu) {
    return cpu->os_saves_avx && cpu->avx2 && cpu->fma && cpu->f16c && cpu->bmi2;
}
#endif

#ifdef KT_TIER_HAVE_AVXVNNI
static bool avxvnni_supported(const kt__cpu *cpu) {
    return avx2_supported(cpu) && cpu->avx_vnni;
}
#endif

#ifdef KT_TIER_HAVE_AVX512
static bool avx512_supported(const kt__cpu *cpu) {
    return avx2_supported(cpu) && cpu->os_saves_avx512 && cpu->avx512f && cpu->avx512bw &&
           cpu->avx512vl && cpu->avx512dq && cpu->avx512_vnni;
}
#endif

#ifdef KT_TIER_HAVE_NEON
static bool neon_supported(const kt__cpu *cpu) {
    return cpu->neon;
}
#endif

#ifdef KT_TIER_HAVE_DOTPROD
static bool dotprod_supported(const kt__cpu *cpu) {
    return cpu->neon && cpu->dotprod;
}
#endif

#ifdef KT_TIER_HAVE_I8MM
static bool i8mm_supported(const kt__cpu *cpu) {
    return cpu->neon && cpu->dotprod && cpu->i8mm;
}
#endif

static const kt__tier tiers[] = {
    {"ref", &kt__kernels_ref, ref_supported, "nothing"},
#ifdef KT_TIER_HAVE_AVX2
    {"avx2", &kt__kernels_avx2, avx2_supported, "AVX2, FMA, F16C and BMI2"},
#endif
#ifdef KT_TIER_HAVE_AVXVNNI
    {"avxvnni", &kt__kernels_avxvnni, avxvnni_supported, "AVX2, FMA, F16C, BMI2 and AVX-VNNI"},
#endif
#ifdef KT_TIER_HAVE_AVX512
    {"avx512", &kt__kernels_avx512, avx512_supported, "AVX-512 F, BW, VL, DQ and VNNI"},
#endif
#ifdef KT_TIER_HAVE_NEON
    {"neon", &kt__kernels_neon, neon_supported, "Advanced SIMD (NEON)"},
#endif
#ifdef KT_TIER_HAVE_DOTPROD
    {"dotprod", &kt__kernels_dotprod, dotprod_supported, "NEON and its dot products (ASIMDDP)"},
#endif
#ifdef KT_TIER_HAVE_I8MM
    {"i8mm", &kt__kernels_i8mm, i8mm_supported, "NEON, dot products and I8MM"},
#endif
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

static const kt__tier *best_tier(const kt__cpu *cpu) {
    int i = N_TIER - 1;
    while (i > 0 && !tiers[i].supported(cpu)) i--;
    return &tiers[i];
}

static void explain_best(const kt__tier *best, const kt__cpu *cpu, char *why, size_t size) {
    const kt__tier *next = best + 1;
    if (next->name) {
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
    list_supported(cpu, have, sizeof have);
    for (int i = 0; i < N_TIER; i++) {
        if (strcmp(tiers[i].name, wanted) != 0) continue;
        if (!tiers[i].supported(cpu)) {
            return kt__fail(
                err, KT_E_UNSUPPORTED,
                "kernel tier '%s' needs %s, which this machine does not offer; it has: %s", wanted,
                tiers[i].needs, have);
        }
        snprintf(why, why_size, "as asked");
        *out = tiers[i].kernels;
        return KT_OK;
    }
    return kt__fail(err, KT_E_ARG, "unknown kernel tier '%s'; this machine has: %s (or auto)",
                    wanted, have);
}
