/* Data for the kernel tests and benchmarks: seeded numbers, blocks of every type from harmless to
 * hostile, and memory whose end lies against an unreadable page.
 *
 * Owns: nothing at run time. Static functions only; one thread. */
#ifndef KT_TESTS_KERNELS_DATA_H
#define KT_TESTS_KERNELS_DATA_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/math.h"
#include "kernels/dispatch.h"

/* ---- numbers ---- */

typedef struct kd_rng {
    uint64_t state;
} kd_rng;

static inline uint64_t kd_next(kd_rng *rng) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int kd_below(kd_rng *rng, int n) {
    return (int)(kd_next(rng) % (uint64_t)n);
}

/* roughly normal: variance 1, within +-6 */
static inline float kd_normal(kd_rng *rng) {
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t bits = kd_next(rng);
        for (int j = 0; j < 4; j++) sum += (float)(bits >> (16 * j) & 0xffff) * 0x1p-16f;
    }
    return sum - 6.0f;
}

/* ---- weights ---- */

typedef enum kd_blocks_kind {
    KD_BLOCKS_ENCODED, /* normal weights through the encoder */
    KD_BLOCKS_RANDOM,  /* any bytes, scales finite and moderate */
    KD_BLOCKS_EXTREME, /* each field all ones, all zeros or its sign's worst, scales finite up to
                          the largest */
    KD_BLOCKS_TINY,    /* any bytes, scales subnormal in f16 */
    KD_BLOCKS_ZERO,
    KD_BLOCKS_KINDS
} kd_blocks_kind;

/* Byte offsets of the f16 scales in a block; -1 ends. */
static inline const int *kd_scale_offsets(kt__type type) {
    static const int first[] = {0, -1}, two[] = {0, 2, -1}, q2_k[] = {80, 82, -1},
                     q3_k[] = {108, -1}, q6_k[] = {208, -1}, none[] = {-1}, tq1_0[] = {52, -1},
                     tq2_0[] = {64, -1};
    switch (type) {
    case KT__TYPE_F32:
    case KT__TYPE_F16:
    case KT__TYPE_BF16:
    case KT__TYPE_NVFP4:
    case KT__TYPE_IQ1_M:
    case KT__TYPE_MXFP4: return none;
    case KT__TYPE_TQ1_0: return tq1_0;
    case KT__TYPE_TQ2_0: return tq2_0;
    case KT__TYPE_Q4_1:
    case KT__TYPE_Q5_1:
    case KT__TYPE_Q4_K:
    case KT__TYPE_Q5_K: return two;
    case KT__TYPE_Q2_K: return q2_k;
    case KT__TYPE_Q3_K: return q3_k;
    case KT__TYPE_Q6_K: return q6_k;
    default: return first;
    }
}

static inline kt__f16 kd_scale(kd_rng *rng, kd_blocks_kind kind) {
    uint16_t sign = (uint16_t)(kd_next(rng) & 0x8000u);
    switch (kind) {
    case KD_BLOCKS_TINY: return (kt__f16)(sign | kd_below(rng, 0x400));
    case KD_BLOCKS_EXTREME: /* 0, the least, 1, 64, the largest */
        return (kt__f16)(sign | (const uint16_t[]){0, 1, 0x3c00, 0x5400, 0x7bff}[kd_below(rng, 5)]);
    default: return kt__f16_from_f32(0.01f * kd_normal(rng));
    }
}

/* MXFP4's scale is 2^(e - 128). */
static inline uint8_t kd_exponent(kd_rng *rng, kd_blocks_kind kind) {
    switch (kind) {
    case KD_BLOCKS_TINY: return (uint8_t)kd_below(rng, 4);
    case KD_BLOCKS_EXTREME: return (const uint8_t[]){0, 1, 2, 128, 200}[kd_below(rng, 5)];
    default: return (uint8_t)(115 + kd_below(rng, 12));
    }
}

/* IQ1_M's scale is in the high nibbles of its last four words. */
static inline void kd_put_iq1_m_scale(uint8_t *block, kt__f16 d) {
    for (int i = 0; i < 4; i++) {
        uint8_t *high = &block[48 + 2 * i + 1];
        *high = (uint8_t)((*high & 15) | (d >> 4 * i & 15) << 4);
    }
}

static inline void kd_float_row(kt__type type, kd_blocks_kind kind, kd_rng *rng, int64_t n,
                                void *dst) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        switch (kind) {
        case KD_BLOCKS_EXTREME: x[i] = kd_normal(rng) * (i % 3 ? 1e-7f : 6e4f) / 6; break;
        case KD_BLOCKS_TINY: x[i] = kd_normal(rng) * (type == KT__TYPE_F16 ? 1e-7f : 1e-39f); break;
        case KD_BLOCKS_ZERO: x[i] = i % 2 ? 0.0f : -0.0f; break;
        default: x[i] = kd_normal(rng); break;
        }
    }
    kt__quantize_row(type, x, n, dst);
    free(x);
}

enum { KD_ENCODED = 64 };

/* KD_ENCODED blocks of normal weights through the type's encoder, made once: looking for the best entries of a
 * codebook takes longer than all kernels. */
static inline const uint8_t *kd_encoded(kt__type type) {
    static uint8_t *kept[KT__TYPE_COUNT];
    if (kept[type]) return kept[type];
    const kt__type_info *info = kt__type_get(type);
    int64_t n = (int64_t)KD_ENCODED * info->block_elems;
    kd_rng rng = {7};
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = kd_normal(&rng) * 0.05f;
    kept[type] = malloc((size_t)KD_ENCODED * (size_t)info->block_bytes);
    kt__quantize_row(type, x, n, kept[type]);
    free(x);
    return kept[type];
}

/* n elements of one row */
static inline void kd_weights(kt__type type, kd_blocks_kind kind, kd_rng *rng, int64_t n,
                              void *dst) {
    const kt__type_info *info = kt__type_get(type);
    size_t bytes = kt__type_row_bytes(type, n), block_bytes = (size_t)info->block_bytes;
    if (info->act == KT__ACT_F32) {
        kd_float_row(type, kind, rng, n, dst);
        return;
    }
    if (kind == KD_BLOCKS_ENCODED) {
        const uint8_t *encoded = kd_encoded(type);
        for (size_t at = 0; at < bytes; at += block_bytes)
            memcpy((uint8_t *)dst + at, encoded + (size_t)kd_below(rng, KD_ENCODED) * block_bytes,
                   block_bytes);
        return;
    }
    uint8_t *out = dst;
    for (size_t at = 0; at < bytes; at++) out[at] = (uint8_t)kd_next(rng);
    if (kind == KD_BLOCKS_ZERO) memset(out, 0, bytes);
    for (size_t at = 0; at < bytes; at += block_bytes) {
        if (kind == KD_BLOCKS_EXTREME && kd_below(rng, 4)) {
            memset(out + at, (const int[]){0, 255, 128, 127, 0x77, 0x88}[kd_below(rng, 6)],
                   block_bytes);
        }
        if (kind == KD_BLOCKS_ZERO) continue;
        if (type == KT__TYPE_MXFP4) out[at] = kd_exponent(rng, kind);
        if (type == KT__TYPE_IQ1_M) kd_put_iq1_m_scale(out + at, kd_scale(rng, kind));
        for (const int *offset = kd_scale_offsets(type); *offset >= 0; offset++) {
            kt__f16 d = kd_scale(rng, kind);
            memcpy(out + at + *offset, &d, sizeof d);
        }
    }
}

/* ---- activations ---- */

typedef enum kd_act_kind {
    KD_ACT_NORMAL,
    KD_ACT_SATURATED, /* every value +-1: q = +-127 */
    KD_ACT_SPIKE,     /* one huge value in each 256 */
    KD_ACT_TINY,      /* around the threshold below which a block is zero, and subnormal */
    KD_ACT_ZERO,      /* zeros of both signs, some blocks normal */
    KD_ACT_KINDS
} kd_act_kind;

static inline void kd_activations(kd_act_kind kind, kd_rng *rng, int n, float *x) {
    for (int i = 0; i < n; i++) {
        float v = kd_normal(rng);
        switch (kind) {
        case KD_ACT_SATURATED: v = v < 0 ? -1.0f : 1.0f; break;
        case KD_ACT_SPIKE: v = i % 256 == 77 ? 1e30f * v : v; break;
        case KD_ACT_TINY: v *= i / 32 % 2 ? 0x1p-100f : 1e-41f; break;
        case KD_ACT_ZERO: v = i / 256 % 2 ? v : (v < 0 ? -0.0f : 0.0f); break;
        default: break;
        }
        x[i] = v;
    }
}

/* ---- memory that ends at an unreadable page ---- */

typedef struct kd_guard {
    uint8_t *map;
    size_t bytes, map_bytes;
} kd_guard;

static inline kd_guard kd_guard_open(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    kd_guard guard = {.bytes = (bytes + page - 1) / page * page};
    guard.map_bytes = guard.bytes + page;
    guard.map = mmap(NULL, guard.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    if (guard.map == MAP_FAILED || mprotect(guard.map + guard.bytes, page, PROT_NONE) != 0) {
        perror("mmap");
        exit(1);
    }
    return guard;
}

/* The last `bytes` bytes before the unreadable page. */
static inline void *kd_guard_last(const kd_guard *guard, size_t bytes) {
    if (bytes > guard->bytes) {
        fprintf(stderr, "guard too small: %zu > %zu\n", bytes, guard->bytes);
        exit(1);
    }
    return guard->map + guard->bytes - bytes;
}

static inline void kd_guard_close(kd_guard *guard) {
    munmap(guard->map, guard->map_bytes);
}

/* ---- comparison ---- */

/* One bit pattern for every NaN: which one an operation yields is no part of the contract. */
static inline void kd_unify_nan(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (x[i] != x[i]) x[i] = kt__f32_from_bits(0x7fc00000u);
    }
}

/* ---- tiers ---- */

/* The one of that name: an error if this machine cannot run it. */
static inline const kt__kernels *kd_tier_named(const char *name, const kt__cpu *cpu) {
    const kt__kernels *kernels;
    char why[128];
    kt_error err;
    if (kt__kernels_select(cpu, name, &kernels, why, sizeof why, &err) == KT_OK) return kernels;
    fprintf(stderr, "tier: %s\n", err.message);
    exit(1);
}

static const kt__kernels *kd_chosen[16]; /* by the first question */

/* The one tier named; with NULL those other than ref that the processor can run, ref itself where
 * there is none. NULL-terminated; the first call decides. */
static inline const kt__kernels **kd_tiers_on(const kt__cpu *cpu, const char *only) {
    if (kd_chosen[0]) return kd_chosen;
    int count, used = 0;
    if (only) kd_chosen[used++] = kd_tier_named(only, cpu);
    const kt__tier *all = kt__tiers(&count);
    for (int i = 0; i < count && !only && used < 15; i++) {
        if (all[i].supported(cpu) && (i > 0 || count == 1)) kd_chosen[used++] = all[i].kernels;
    }
    if (used == 0) kd_chosen[used++] = all[0].kernels;
    kd_chosen[used] = NULL;
    return kd_chosen;
}

/* those of this machine */
static inline const kt__kernels **kd_tiers_of(const char *only) {
    if (kd_chosen[0]) return kd_chosen;
    kt__cpu cpu;
    kt__cpu_detect(&cpu);
    return kd_tiers_on(&cpu, only);
}

static inline const kt__kernels **kd_tiers(void) {
    return kd_tiers_of(getenv("KT_TEST_TIER"));
}

/* KT_TEST_EVERY=n: of the many random cases each n-th alone, as an emulator takes an hour for all.
 * A prime n meets every remainder that cases are made by. */
static inline bool kd_left_out(void) {
    static int n, every;
    if (every == 0) {
        const char *text = getenv("KT_TEST_EVERY");
        every = text && atoi(text) > 0 ? atoi(text) : 1;
    }
    return n++ % every != 0;
}

/* For the log: which tiers a test compares. */
static inline void kd_print_tiers(void) {
    const kt__kernels **tier = kd_tiers();
    printf("tiers:");
    for (; *tier; tier++) printf(" %s", (*tier)->name);
    printf("\n");
    fflush(stdout);
}

static inline const kt__kernels *kd_ref(void) {
    return kt__tiers(NULL)[0].kernels;
}

#endif
