/* The codebooks of the IQ1, IQ2 and IQ3 types.
 *
 * Owns: their tables, each entry's weights as bytes, the first one lowest, KT__GRID_BIAS added so
 * that what is made of them stays positive. No state; any thread. */
#ifndef KT_QUANT_GRIDS_H
#define KT_QUANT_GRIDS_H

#include <stdint.h>

enum { KT__GRID_BIAS = 64 };

/* magnitudes of 8 weights: 8, 25, 43 */
extern const uint64_t kt__grid_iq2_xxs[256], kt__grid_iq2_xs[512], kt__grid_iq2_s[1024];
/* magnitudes of 4 weights: 4, 12, 20, 28, 36, 44, 52, 62, and 1, 3, ... 15 */
extern const uint32_t kt__grid_iq3_xxs[256], kt__grid_iq3_s[512];
/* 8 weights of -8, 0, 8 */
extern const uint64_t kt__grid_iq1[2048];

/* The entries' codes: their weights' levels as digits to the base 3 or 8, the first one lowest. */
extern const uint16_t kt__codes_iq2_xxs[256], kt__codes_iq2_xs[512], kt__codes_iq2_s[1024],
    kt__codes_iq3_xxs[256], kt__codes_iq3_s[512], kt__codes_iq1[2048];

/* Bytes of 7 signs, with the eighth that makes their number even. */
static inline uint64_t kt__signs_with_eighth(uint64_t s) {
    uint64_t odd = s ^ (s >> 4 & 0x0f0f0f0f0f0f0f0f);
    odd ^= odd >> 2 & 0x3f3f3f3f3f3f3f3f;
    odd ^= odd >> 1;
    return s | (odd & 0x0101010101010101) << 7;
}

/* The same of four signs of 7 bits in the low 28 bits of each half of x. */
static inline uint64_t kt__signs_of_sevens(uint64_t x) {
    const uint64_t half = 0x0000000100000001;
    return kt__signs_with_eighth((x & 0x7f * half) | (x << 1 & 0x7f00 * half) |
                                 (x << 2 & 0x7f0000 * half) | (x << 3 & 0x7f000000 * half));
}

#endif
