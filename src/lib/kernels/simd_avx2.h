/* Primitives of the avx2 tier: simd_256.h and products of bytes without VNNI.
 *
 * Owns: what pmaddubsw and pmaddwd can do. Weights of the full signed range (Q8_0, IQ4) stay signed
 * here: a pair of products of u8 would exceed i16. For tier_avx2*.c only; any thread. */
#ifndef KT_KERNELS_SIMD_AVX2_H
#define KT_KERNELS_SIMD_AVX2_H

#include "kernels/simd_256.h"

#define KT_TIER(name) kt__avx2_##name

enum { WIDE_BIAS = 0 }; /* added to weights of the full signed range */

/* a + pairs of i16 products */
KT_INLINE vi vi_dot16(vi a, vi b, vi c) {
    a = _mm256_add_epi32(a, _mm256_madd_epi16(b, c));
    __asm__("" : "+x"(a)); /* as vi_add16 */
    return a;
}
/* pairs of u8 * i8 products, as i16 */
KT_INLINE vi vi_pairs(vi u, vi s) { return _mm256_maddubs_epi16(u, s); }
/* the same for i8 weights w; no activation is -128 */
KT_INLINE vi vi_pairs_wide(vi w, vi x) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
/* quadruples of products of wide weights, times i16 scales, and added to a */
KT_INLINE vi vi_scaled_wide(vi a, vi w, vi x, vi scale) {
    return vi_dot16(a, scale, vi_pairs_wide(w, x));
}
/* i16 scales of 0x00ss or i32 ones: here i16 */
KT_INLINE vi vi_wide_scale(vi bytes, int k) {
    vi idx = _mm256_set1_epi16((short)(k << 8 | 0xff));
    return vi_sar16(vi_shuffle8(bytes, idx), 8);
}
/* quadruples of products of two registers, added: u below 32, or wide weights */
KT_INLINE vi vi_quads2(vi u0, vi x0, vi u1, vi x1) {
    vi pairs = vi_add16(vi_pairs(u0, x0), vi_pairs(u1, x1));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
KT_INLINE vi vi_quads(vi u, vi x) {
    return _mm256_madd_epi16(vi_pairs(u, x), _mm256_set1_epi16(1));
}
KT_INLINE vi vi_quads2_wide(vi w0, vi x0, vi w1, vi x1) {
    const vi one = _mm256_set1_epi16(1);
    return vi_dot16(_mm256_madd_epi16(vi_pairs_wide(w0, x0), one), vi_pairs_wide(w1, x1), one);
}

/* Sums of two registers' products in lanes that are yet to be added: words, of which two stay within 16 bits for u
 * below 32, four for u below 16. */
KT_INLINE vi vi_sums2(vi u0, vi x0, vi u1, vi x1) {
    return vi_add16(vi_pairs(u0, x0), vi_pairs(u1, x1));
}
KT_INLINE vi vi_add_sums(vi a, vi b) { return _mm256_add_epi16(a, b); }
KT_INLINE vi vi_dwords_of_sums(vi a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }
/* quadruples of products of a table's weights, none of them -128, with activations x; y: vi_of_activations */
KT_INLINE vi vi_of_activations(vi x) { return _mm256_abs_epi8(x); }
KT_INLINE vi vi_quads2_table(vi w0, vi x0, vi y0, vi w1, vi x1, vi y1) {
    const vi one = _mm256_set1_epi16(1);
    vi a = _mm256_maddubs_epi16(y0, _mm256_sign_epi8(w0, x0));
    vi b = _mm256_maddubs_epi16(y1, _mm256_sign_epi8(w1, x1));
    return vi_add(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
}

/* keys of bytes are multiplied as words: bytes would need their signs apart */
#define KEYS_AS_WORDS 1
enum { KEY_BIAS = 0 };

/* a + quadruples of products of values' codes v and weights' p, 0 to 127 */
KT_INLINE vi vi_dot_values(vi a, vi v, vi p) {
    return vi_dot16(a, vi_pairs(p, v), _mm256_set1_epi16(1));
}

/* a + quadruples of products of codes of 4 bits, 0 to 15, and a query's: of both registers */
KT_INLINE vi vi_dot_halves(vi a, vi low, vi x0, vi high, vi x1) {
    return vi_add(a, vi_quads2(low, x0, high, x1));
}

#endif
