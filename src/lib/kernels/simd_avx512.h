/* Primitives of the avx512 tier (F, BW, VL, DQ, VNNI).
 *
 * Owns: the primitives that the shared bodies (*.inc) are written in, for vectors of 16 dwords: vi
 * (integers), vf (floats), v16 (the contract's 16 float lanes; here the same register) and its
 * masks m16. Knows no formats. For the tier's own files only; any thread. */
#ifndef KT_KERNELS_SIMD_AVX512_H
#define KT_KERNELS_SIMD_AVX512_H

#include <immintrin.h>

#include "kernels/simd.h"

#define KT_TIER(name) kt__avx512_##name

enum { LANES = 16, WIDE_BIAS = 128 /* added to weights of the full signed range */ };
typedef __m512i vi;
typedef __m512 vf;

/* ---- integers ---- */
KT_INLINE vi vi_zero(void) { return _mm512_setzero_si512(); }
KT_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
KT_INLINE vi vi_bytes(int x) { return _mm512_set1_epi8((char)x); }
KT_INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
KT_INLINE void vi_store(void *p, vi x) { _mm512_storeu_si512(p, x); }
KT_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
KT_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
KT_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
KT_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
KT_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
KT_INLINE vi vi_sub8(vi a, vi b) { return _mm512_sub_epi8(a, b); }
KT_INLINE vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
KT_INLINE vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
KT_INLINE vi vi_min8(vi a, vi b) { return _mm512_min_epu8(a, b); } /* of unsigned bytes */
/* by the same count everywhere: an immediate where n is a constant */
typedef int32_t vi_s32 __attribute__((vector_size(64)));
typedef uint32_t vi_u32 __attribute__((vector_size(64)));
typedef int16_t vi_s16 __attribute__((vector_size(64)));
KT_INLINE vi vi_shl(vi x, int n) { return (vi)((vi_u32)x << n); }
KT_INLINE vi vi_shr(vi x, int n) { return (vi)((vi_u32)x >> n); }
KT_INLINE vi vi_sar(vi x, int n) { return (vi)((vi_s32)x >> n); }
KT_INLINE vi vi_sar16(vi x, int n) { return (vi)((vi_s16)x >> n); }
/* within each 16 bytes: out byte i = x byte idx[i], or 0 where idx[i] is negative */
KT_INLINE vi vi_shuffle8(vi x, vi idx) { return _mm512_shuffle_epi8(x, idx); }
/* 16 bytes in every 128-bit lane */
KT_INLINE vi vi_dup128(__m128i x) { return _mm512_broadcast_i32x4(x); }
/* a + pairs of i16 products */
KT_INLINE vi vi_dot16(vi a, vi b, vi c) { return _mm512_dpwssd_epi32(a, b, c); }
/* a + quadruples of u8 * i8 products */
KT_INLINE vi vi_dot8(vi a, vi u, vi s) { return _mm512_dpbusd_epi32(a, u, s); }
KT_INLINE vi vi_bcast(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}
/* bytes of ones where the bits of these bytes are set */
KT_INLINE vi vi_of_bits(const uint8_t *p) {
    __mmask64 bits;
    memcpy(&bits, p, sizeof bits);
    return _mm512_movm_epi8(bits);
}
/* out lane i = x lane idx[i] */
KT_INLINE vi vi_pick(vi x, vi idx) { return _mm512_permutexvar_epi32(idx, x); }
KT_INLINE vi vi_iota(void) {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* ---- LANES floats ---- */
KT_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
KT_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
KT_INLINE void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
KT_INLINE vf vf_bcast(const float *p) { return _mm512_set1_ps(*p); }
KT_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
KT_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
KT_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
KT_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
KT_INLINE vf vf_cvt(vi x) { return _mm512_cvtepi32_ps(x); }
KT_INLINE vf vf_pick(vf x, vi idx) { return _mm512_permutexvar_ps(idx, x); }
KT_INLINE __mmask16 vf_mask(int n) { return (__mmask16)((1u << n) - 1u); }
KT_INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vf_mask(n), p); }
KT_INLINE void vf_store_n(float *p, vf x, int n) { _mm512_mask_storeu_ps(p, vf_mask(n), x); }
KT_INLINE vf vf_from_f16(const kt__f16 *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* the low half of each dword is an f16 */
KT_INLINE vf vf_from_f16_low(vi x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }

/* ---- up to 4 floats, n a constant 1, 2 or 4; the others are zero ---- */
typedef __m128 v4;
KT_INLINE v4 v4_zero(void) { return _mm_setzero_ps(); }
KT_INLINE v4 v4_load(const float *p, int n) {
    if (n == 4) return _mm_loadu_ps(p);
    if (n == 2) return _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm_load_ss(p);
}
KT_INLINE void v4_store(float *p, v4 x) { _mm_storeu_ps(p, x); }
KT_INLINE v4 v4_add(v4 a, v4 b) { return _mm_add_ps(a, b); }
KT_INLINE v4 v4_fma(v4 a, v4 b, v4 c) { return _mm_fmadd_ps(a, b, c); }

/* ---- transposes ---- */

KT_INLINE vi vi_cat4(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d) {
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)a));
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)b), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)c), 2);
    return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(const void *)d), 3);
}

/* in each 128-bit lane: out[j] lane dword i = x[i] lane dword j */
KT_INLINE void vi_transpose4(vi x[4]) {
    vi a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
    vi c = _mm512_unpacklo_epi32(x[2], x[3]), d = _mm512_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm512_unpacklo_epi64(a, c);
    x[1] = _mm512_unpackhi_epi64(a, c);
    x[2] = _mm512_unpacklo_epi64(b, d);
    x[3] = _mm512_unpackhi_epi64(b, d);
}

/* column[j] word r = word j of the eight in row r; x[i]: rows 4 i to 4 i + 3 */
#define KT_OWN_COLUMNS
typedef __m256i vi_words;
KT_INLINE void vi_columns_apart(vi x[4], vi columns[4]) { /* two in each */
    /* lane l's dword i is of row 4 i + l: the low halves in order, then the high ones */
    const vi order = _mm512_setr_epi32(0x00080000, 0x00180010, 0x000a0002, 0x001a0012, 0x000c0004,
                                       0x001c0014, 0x000e0006, 0x001e0016, 0x00090001, 0x00190011,
                                       0x000b0003, 0x001b0013, 0x000d0005, 0x001d0015, 0x000f0007,
                                       0x001f0017);
    vi_transpose4(x);
    KT_UNROLL for (int i = 0; i < 4; i++) columns[i] = _mm512_permutexvar_epi16(order, x[i]);
}
KT_INLINE void vi_columns(vi x[4], vi_words column[8]) {
    vi both[4];
    vi_columns_apart(x, both);
    KT_UNROLL for (int i = 0; i < 4; i++) {
        column[2 * i] = _mm512_castsi512_si256(both[i]);
        column[2 * i + 1] = _mm512_extracti64x4_epi64(both[i], 1);
    }
}
KT_INLINE void vi_columns8(const void *p, vi_words column[8]) {
    vi x[4];
    KT_UNROLL for (int i = 0; i < 4; i++) x[i] = vi_load((const uint8_t *)p + 64 * i);
    vi_columns(x, column);
}
KT_INLINE vi vi_widened(vi_words x) { return _mm512_cvtepu16_epi32(x); }
KT_INLINE vf vf_of_halves(vi_words x) { return _mm512_cvtph_ps(x); }

KT_INLINE vi vi_cat2(const uint8_t *a, const uint8_t *b) {
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)a);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low),
                              _mm256_loadu_si256((const __m256i *)(const void *)b), 1);
}

/* out[j] lane r = dword j of the 16 bytes at row[r] + offset */
KT_INLINE void vi_load_rows16(const uint8_t *const *row, size_t offset, vi out[4]) {
    for (int i = 0; i < 4; i++) {
        out[i] = vi_cat4(row[i] + offset, row[4 + i] + offset, row[8 + i] + offset,
                         row[12 + i] + offset);
    }
    vi_transpose4(out);
}

/* the same of 32 bytes */
KT_INLINE void vi_load_rows32(const uint8_t *const *row, size_t offset, vi out[8]) {
    for (int i = 0; i < 4; i++) {
        out[i] = vi_cat2(row[i] + offset, row[4 + i] + offset);
        out[4 + i] = vi_cat2(row[8 + i] + offset, row[12 + i] + offset);
    }
    vi_transpose4(out);
    vi_transpose4(out + 4);
    for (int j = 0; j < 4; j++) {
        vi a = out[j], b = out[4 + j]; /* lanes: rows 0-3, then 4-7; rows 8-11, then 12-15 */
        out[j] = _mm512_shuffle_i32x4(a, b, 0x88);
        out[4 + j] = _mm512_shuffle_i32x4(a, b, 0xdd);
    }
}

/* 32 bytes, and 32 more `stride` on */
KT_INLINE vi vi_load_pieces32(const uint8_t *p, size_t stride) { return vi_cat2(p, p + stride); }

/* 16 bytes in each 128-bit lane */
KT_INLINE vi vi_of_lanes(const __m128i x[4]) {
    vi low = _mm512_inserti32x4(_mm512_castsi128_si512(x[0]), x[1], 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(low, x[2], 2), x[3], 3);
}
/* LANES / 2 times eight bytes */
KT_INLINE vi vi_of_words(const uint64_t *const *p) {
    __m128i x[4];
    KT_UNROLL for (int i = 0; i < 4; i++) {
        __m128d low = _mm_load_sd((const double *)(const void *)p[2 * i]);
        x[i] = _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)p[2 * i + 1]));
    }
    return vi_of_lanes(x);
}
KT_INLINE vi vi_of_dwords(const uint32_t *p) {
    __m128i x[4];
    KT_UNROLL for (int i = 0; i < 4; i++) {
        const int32_t *q = (const int32_t *)p + 4 * i;
        __m128i a = _mm_unpacklo_epi32(_mm_cvtsi32_si128(q[0]), _mm_cvtsi32_si128(q[1]));
        __m128i b = _mm_unpacklo_epi32(_mm_cvtsi32_si128(q[2]), _mm_cvtsi32_si128(q[3]));
        x[i] = _mm_unpacklo_epi64(a, b);
    }
    return vi_of_lanes(x);
}
/* 128 - x in bytes whose bits are set */
KT_INLINE vi vi_mirrored(vi x, const uint8_t *bits) {
    __mmask64 set;
    memcpy(&set, bits, sizeof set);
    return _mm512_mask_sub_epi8(x, set, vi_bytes(128), x);
}

/* in each 128-bit lane: dword i = the sum of that lane of x[i] */
KT_INLINE vi vi_quad(const vi *x) {
    vi a = vi_add(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
    vi b = vi_add(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
    return vi_add(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* lane i = the sum of the lanes of x[i] */
KT_INLINE vi vi_reduce(const vi *x) {
    vi q[4];
    KT_UNROLL for (int i = 0; i < 4; i++) q[i] = vi_quad(x + 4 * i);
    vi low = vi_add(_mm512_shuffle_i32x4(q[0], q[1], 0x88), _mm512_shuffle_i32x4(q[0], q[1], 0xdd));
    vi high = vi_add(_mm512_shuffle_i32x4(q[2], q[3], 0x88),
                     _mm512_shuffle_i32x4(q[2], q[3], 0xdd));
    return vi_add(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd));
}

/* out[l] lane 4 i + k = q[i] 128-bit lane l, dword k */
KT_INLINE void vi_lanes_apart(const vi q[4], vi out[4]) {
    vi a = _mm512_shuffle_i32x4(q[0], q[1], 0x44), b = _mm512_shuffle_i32x4(q[0], q[1], 0xee);
    vi c = _mm512_shuffle_i32x4(q[2], q[3], 0x44), d = _mm512_shuffle_i32x4(q[2], q[3], 0xee);
    out[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    out[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    out[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    out[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}
/* out[l] lane i = the sum of 128-bit lane l of x[i] */
KT_INLINE void vi_reduce_lanes(const vi *x, vi out[4]) {
    vi q[4];
    KT_UNROLL for (int i = 0; i < 4; i++) q[i] = vi_quad(x + 4 * i);
    vi_lanes_apart(q, out);
}

/* ---- the contract's 16 lanes ---- */
typedef __m512 v16;
typedef __mmask16 m16;

KT_INLINE v16 v16_zero(void) { return _mm512_setzero_ps(); }
KT_INLINE v16 v16_set1(float x) { return _mm512_set1_ps(x); }
KT_INLINE v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
KT_INLINE v16 v16_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vf_mask(n), p); }
KT_INLINE void v16_store(float *p, v16 x) { _mm512_storeu_ps(p, x); }
KT_INLINE void v16_store_n(float *p, v16 x, int n) { _mm512_mask_storeu_ps(p, vf_mask(n), x); }
KT_INLINE v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
KT_INLINE v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
KT_INLINE v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
KT_INLINE v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
KT_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
KT_INLINE v16 v16_fnma(v16 a, v16 b, v16 c) { return _mm512_fnmadd_ps(a, b, c); }
KT_INLINE v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
KT_INLINE v16 v16_min(v16 a, v16 b) { return _mm512_min_ps(a, b); }
KT_INLINE v16 v16_abs(v16 x) { return _mm512_abs_ps(x); }
/* the greater of top and |x|, compared as integers: a NaN is the greatest; top has no sign */
KT_INLINE v16 v16_max_abs(v16 top, v16 x) {
    vi a = _mm512_castps_si512(v16_abs(x));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(top), a));
}
KT_INLINE v16 v16_neg(v16 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }
KT_INLINE v16 v16_copysign(v16 magnitude, v16 sign) {
    v16 bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
}
KT_INLINE m16 m16_lt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
KT_INLINE m16 m16_le(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
KT_INLINE m16 m16_eq(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
KT_INLINE m16 m16_unordered(v16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
KT_INLINE m16 m16_range(int lo, int hi) { /* lanes lo..hi-1 */
    return (m16)(((1u << hi) - 1u) & ~((1u << lo) - 1u));
}
KT_INLINE unsigned m16_bits(m16 m) { return m; }
KT_INLINE v16 v16_select(m16 m, v16 yes, v16 no) { return _mm512_mask_blend_ps(m, no, yes); }
/* x * 2^n for a product that is normal, or infinity with x a power of 2: n, the integer that the
 * shift trick left in the low bits of `shifted`, is added to x's exponent */
KT_INLINE v16 v16_exponent_add(v16 x, v16 shifted) {
    vi n = vi_shl(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(vi_add(_mm512_castps_si512(x), n));
}
/* lanes i and i + 8, then + 4, + 2, + 1 */
KT_INLINE float v16_tree(v16 x) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
/* v16_tree of four */
KT_INLINE v4 v16_trees(const v16 x[4]) {
    __m128 y[4];
    KT_UNROLL for (int i = 0; i < 4; i++) {
        __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x[i]), _mm512_extractf32x8_ps(x[i], 1));
        y[i] = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    }
    _MM_TRANSPOSE4_PS(y[0], y[1], y[2], y[3]);
    return _mm_add_ps(_mm_add_ps(y[0], y[2]), _mm_add_ps(y[1], y[3]));
}
KT_INLINE float v16_hmax(v16 x) { return _mm512_reduce_max_ps(x); }

KT_INLINE v16 v16_from_f16(const kt__f16 *p) { return vf_from_f16(p); }
KT_INLINE v16 v16_from_f16_n(const kt__f16 *p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vf_mask(n), p));
}
KT_INLINE void v16_to_f16_n(kt__f16 *p, v16 x, int n) {
    __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, vf_mask(n), h);
}
KT_INLINE vf vf_from_bf16(const kt__bf16 *p) {
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
KT_INLINE v16 v16_from_bf16(const kt__bf16 *p) { return vf_from_bf16(p); }
KT_INLINE v16 v16_from_bf16_n(const kt__bf16 *p, int n) {
    __m256i h = _mm256_maskz_loadu_epi16(vf_mask(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
/* x is within +-127.5: 16 bytes at q, rounded to nearest even */
KT_INLINE void v16_to_i8(int8_t *q, v16 x) {
    _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}
/* of 256 bytes: s16 the sums of each 16, s32 of each 32 */
KT_INLINE void i8_sums(const int8_t *q, int16_t *s16, int16_t *s32) {
    vi part[4], order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    KT_UNROLL for (int i = 0; i < 4; i++)
        part[i] = vi_dot8(vi_zero(), vi_bytes(1), vi_load(q + 64 * i));
    __m256i sums = _mm512_cvtepi32_epi16(vi_pick(vi_quad(part), order));
    _mm256_storeu_si256((__m256i *)(void *)s16, sums);
    __m256i pairs = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    _mm_storeu_si128((__m128i *)(void *)s32, _mm256_cvtepi32_epi16(pairs));
}
/* even and odd elements of 32 floats, and back */
KT_INLINE void v16_unzip(v16 a, v16 b, v16 *even, v16 *odd) {
    vi e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    vi o = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    *even = _mm512_permutex2var_ps(a, e, b);
    *odd = _mm512_permutex2var_ps(a, o, b);
}
KT_INLINE void v16_zip(v16 even, v16 odd, v16 *a, v16 *b) {
    vi lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    vi hi = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    *a = _mm512_permutex2var_ps(even, lo, odd);
    *b = _mm512_permutex2var_ps(even, hi, odd);
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

/* From how many tokens on gemm was measured to be faster than rowdot (bench/bench_kernels). */
#define GEMM_FROM_Q4_0 3
#define GEMM_FROM_Q4_1 3
#define GEMM_FROM_Q5_0 5
#define GEMM_FROM_Q5_1 5
#define GEMM_FROM_Q8_0 5
#define GEMM_FROM_IQ4_NL 3
#define GEMM_FROM_MXFP4 3
#define GEMM_FROM_NVFP4 5
#define GEMM_FROM_Q2_K 2
#define GEMM_FROM_Q3_K 2
#define GEMM_FROM_Q4_K 3
#define GEMM_FROM_Q5_K 4
#define GEMM_FROM_Q6_K 5
#define GEMM_FROM_IQ4_XS 3
#define GEMM_FROM_COARSE 5
#define GEMM_FROM_FINE 5
#define GEMM_FROM_CRUMBS 5
#define GEMM_FROM_BYTES 5

#endif
