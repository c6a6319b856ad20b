/* Primitives of the avxvnni tier: simd_256.h and products of bytes with AVX-VNNI.
 *
 * Owns: what vpdpbusd and vpdpwssd on 256 bits can do; as in avx512, wide weights get 128 added.
 * For tier_avxvnni*.c only; any thread. */
#ifndef KT_KERNELS_SIMD_AVXVNNI_H
#define KT_KERNELS_SIMD_AVXVNNI_H

#include "kernels/simd_256.h"

#define KT_TIER(name) kt__avxvnni_##name

enum { WIDE_BIAS = 128 }; /* added to weights of the full signed range */

/* a + pairs of i16 products */
KT_INLINE vi vi_dot16(vi a, vi b, vi c) { return _mm256_dpwssd_avx_epi32(a, b, c); }
/* a + quadruples of u8 * i8 products */
KT_INLINE vi vi_dot8(vi a, vi u, vi s) { return _mm256_dpbusd_avx_epi32(a, u, s); }
/* pairs of u8 * i8 products, as i16 */
KT_INLINE vi vi_pairs(vi u, vi s) { return _mm256_maddubs_epi16(u, s); }
/* quadruples of products, times i32 scales, and added to a */
KT_INLINE vi vi_scaled_wide(vi a, vi u, vi x, vi scale) {
    return vi_add(a, vi_mul(scale, vi_dot8(vi_zero(), u, x)));
}
/* one group's scale as i32 */
KT_INLINE vi vi_wide_scale(vi bytes, int k) { return vi_sar(vi_shl(bytes, 24 - 8 * k), 24); }
/* quadruples of products of two registers, added */
KT_INLINE vi vi_quads2(vi u0, vi x0, vi u1, vi x1) {
    return vi_dot8(vi_dot8(vi_zero(), u0, x0), u1, x1);
}
KT_INLINE vi vi_quads(vi u, vi x) { return vi_dot8(vi_zero(), u, x); }
KT_INLINE vi vi_quads2_wide(vi u0, vi x0, vi u1, vi x1) { return vi_quads2(u0, x0, u1, x1); }

/* sums of two registers' products in lanes that are yet to be added: dwords */
KT_INLINE vi vi_sums2(vi u0, vi x0, vi u1, vi x1) { return vi_quads2(u0, x0, u1, x1); }
KT_INLINE vi vi_add_sums(vi a, vi b) { return vi_add(a, b); }
KT_INLINE vi vi_dwords_of_sums(vi a) { return a; }
/* quadruples of products of a table's weights */
KT_INLINE vi vi_of_activations(vi x) { return x; }
KT_INLINE vi vi_quads2_table(vi w0, vi x0, vi y0, vi w1, vi x1, vi y1) {
    (void)y0, (void)y1;
    return vi_quads2(w0, x0, w1, x1);
}

/* a + quadruples of products of keys' codes w and a query's x, both within +-127; KEY_BIAS times the
 * query's sum is too much */
enum { KEY_BIAS = 128 };
KT_INLINE vi vi_dot_keys(vi a, vi w, vi x) { return vi_dot8(a, vi_xor(w, vi_bytes(0x80)), x); }

/* a + quadruples of products of values' codes v and weights' p, 0 to 127 */
KT_INLINE vi vi_dot_values(vi a, vi v, vi p) { return vi_dot8(a, p, v); }

/* a + quadruples of products of codes of 4 bits, 0 to 15, and a query's: of both registers */
KT_INLINE vi vi_dot_halves(vi a, vi low, vi x0, vi high, vi x1) {
    return vi_dot8(vi_dot8(a, low, x0), high, x1);
}

#endif
