/* Primitives of the dotprod tier: simd_neon.h and SDOT.
 *
 * Owns: dot products of quadruples of bytes, for rowdot and as gemm's microkernel of 16 rows x 4
 * tokens. For tier_dotprod*.c (and, of rowdot's, the i8mm tier); any thread. */
#ifndef KT_KERNELS_SIMD_NEON_DOTPROD_H
#define KT_KERNELS_SIMD_NEON_DOTPROD_H

#include "kernels/simd_neon.h"

/* a + quadruples of products */
KT_INLINE int32x4_t quads(int32x4_t a, int8x16_t w, int8x16_t x) { return vdotq_s32(a, w, x); }

/* a + quadruples of products of keys' codes w and a query's x, both within +-127; KEY_BIAS times the
 * query's sum is too much */
enum { KEY_BIAS = 0 };
KT_INLINE vi vi_dot_keys(vi a, vi w, vi x) {
    return VI(vdotq_s32(a.a, S8(w.a), S8(x.a)), vdotq_s32(a.b, S8(w.b), S8(x.b)));
}

/* a + quadruples of products of values' codes v and weights' p, 0 to 127 */
KT_INLINE vi vi_dot_values(vi a, vi v, vi p) { return vi_dot_keys(a, v, p); }

/* a + quadruples of products of codes of 4 bits, 0 to 15, and a query's: of both registers */
KT_INLINE vi vi_dot_halves(vi a, vi low, vi x0, vi high, vi x1) {
    return vi_dot_keys(vi_dot_keys(a, low, x0), high, x1);
}

#endif
