/* What a product of few tokens prefetches of the weights ahead.
 *
 * Owns: the lines ahead of one group of weights, all at once or in quarters between its products: an
 * Intel Xeon read a sixth more in quarters (docs/TUNING.md). For the tiers' own files, after their simd
 * header. */
#ifndef KT_KERNELS_FETCH_H
#define KT_KERNELS_FETCH_H

#include <stddef.h>

typedef struct kt__fetch {
    const uint8_t *near; /* into the first-level cache */
    const uint8_t *far;  /* into the second-level cache */
    size_t bytes;        /* of each, as the group has */
} kt__fetch;

/* The loop has a constant number of steps: without it the tests alone cost a tenth. */
KT_INLINE void kt__fetch_lines(const kt__fetch *ahead, size_t first, size_t step) {
    for (size_t i = first; i < ahead->bytes; i += step) {
        __builtin_prefetch(ahead->near + i, 0, 3);
        __builtin_prefetch(ahead->far + i, 0, 2);
    }
}

KT_INLINE void kt__fetch_all(const kt__fetch *ahead) { kt__fetch_lines(ahead, 0, 64); }

#if defined(__x86_64__)
/* What is written between two of these is done there: compilers move prefetches freely otherwise. */
#define KT_FETCH_HERE(x) __asm__ volatile("" : "+v"(x))
#else
#define KT_FETCH_HERE(x)
#endif

/* One of the quarters 0 to 3 once x is computed, and before what is computed with what is returned. */
KT_INLINE vi kt__fetch_after(vi x, const kt__fetch *ahead, int quarter) {
    KT_FETCH_HERE(x);
    kt__fetch_lines(ahead, 64 * (size_t)quarter, 256);
    KT_FETCH_HERE(x);
    return x;
}

/* Line i of some bytes, and each `step` lines on, into the second-level cache. */
KT_INLINE void kt__fetch_far(const uint8_t *ahead, size_t bytes, int i, int step) {
    for (size_t at = 64 * (size_t)i; at < bytes; at += 64 * (size_t)step)
        __builtin_prefetch(ahead + at, 0, 2);
}

#endif
