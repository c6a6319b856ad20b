/* Primitives of the neon tier: simd_neon.h and products of bytes on any ARMv8 processor.
 *
 * Owns: dot products of quadruples of bytes through 16-bit products, for rowdot. For tier_neon*.c;
 * any thread. */
#ifndef KT_KERNELS_SIMD_NEON_MULL_H
#define KT_KERNELS_SIMD_NEON_MULL_H

#include "kernels/simd_neon.h"

/* a + sums of four products in some order; two products of a weight and an activation, which is
 * never -128, fit i16 */
KT_INLINE int32x4_t quads(int32x4_t a, int8x16_t w, int8x16_t x) {
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    return vpadalq_s16(a, vmlal_high_s8(pairs, w, x));
}

/* a + quadruples of products of keys' codes w and a query's x, both within +-127; KEY_BIAS times the
 * query's sum is too much */
enum { KEY_BIAS = 0 };
KT_INLINE int32x4_t dot_keys_half(int32x4_t a, int8x16_t w, int8x16_t x) {
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    return vpadalq_s16(a, vpaddq_s16(low, vmull_high_s8(w, x)));
}
KT_INLINE vi vi_dot_keys(vi a, vi w, vi x) {
    return VI(dot_keys_half(a.a, S8(w.a), S8(x.a)), dot_keys_half(a.b, S8(w.b), S8(x.b)));
}

/* a + quadruples of products of values' codes v and weights' p, 0 to 127 */
KT_INLINE vi vi_dot_values(vi a, vi v, vi p) { return vi_dot_keys(a, v, p); }

/* a + quadruples of products of codes of 4 bits, 0 to 15, and a query's: of both registers */
KT_INLINE vi vi_dot_halves(vi a, vi low, vi x0, vi high, vi x1) {
    return vi_dot_keys(vi_dot_keys(a, low, x0), high, x1);
}

#endif
