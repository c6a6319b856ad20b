/* Primitives of the 256-bit tiers (AVX2, FMA, F16C, BMI2).
 *
 * Owns: the primitives of the shared bodies (*.inc) for vectors of 8 dwords: vi, vf; the contract's
 * 16 lanes (v16) are two registers. The products of bytes are the tier's own: simd_avx2.h,
 * simd_avxvnni.h. Knows no formats. For the tiers' own files only; any thread. */
#ifndef KT_KERNELS_SIMD_256_H
#define KT_KERNELS_SIMD_256_H

#include <immintrin.h>

#include "kernels/simd.h"

enum { LANES = 8 };
typedef __m256i vi;
typedef __m256 vf;

/* ---- integers ---- */
KT_INLINE vi vi_zero(void) { return _mm256_setzero_si256(); }
KT_INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
KT_INLINE vi vi_bytes(int x) { return _mm256_set1_epi8((char)x); }
KT_INLINE vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
KT_INLINE void vi_store(void *p, vi x) { _mm256_storeu_si256(p, x); }
KT_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
KT_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
KT_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
KT_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
/* The sum is pinned: compilers that reassociate such chains run out of registers. */
KT_INLINE vi vi_add16(vi a, vi b) {
    a = _mm256_add_epi16(a, b);
    __asm__("" : "+x"(a));
    return a;
}
KT_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
KT_INLINE vi vi_sub8(vi a, vi b) { return _mm256_sub_epi8(a, b); }
KT_INLINE vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
KT_INLINE vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
KT_INLINE vi vi_min8(vi a, vi b) { return _mm256_min_epu8(a, b); } /* of unsigned bytes */
/* by the same count everywhere: an immediate where n is a constant */
typedef int32_t vi_s32 __attribute__((vector_size(32)));
typedef uint32_t vi_u32 __attribute__((vector_size(32)));
typedef int16_t vi_s16 __attribute__((vector_size(32)));
KT_INLINE vi vi_shl(vi x, int n) { return (vi)((vi_u32)x << n); }
KT_INLINE vi vi_shr(vi x, int n) { return (vi)((vi_u32)x >> n); }
KT_INLINE vi vi_sar(vi x, int n) { return (vi)((vi_s32)x >> n); }
KT_INLINE vi vi_sar16(vi x, int n) { return (vi)((vi_s16)x >> n); }
/* within each 16 bytes: out byte i = x byte idx[i], or 0 where idx[i] is negative */
KT_INLINE vi vi_shuffle8(vi x, vi idx) { return _mm256_shuffle_epi8(x, idx); }
/* 16 bytes in every 128-bit lane */
KT_INLINE vi vi_dup128(__m128i x) { return _mm256_broadcastsi128_si256(x); }
KT_INLINE vi vi_bcast(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}
/* 2 LANES signed bytes as words */
KT_INLINE vi vi_words_of_bytes(const void *p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}
/* bytes of ones where the bits of these bytes are set */
KT_INLINE vi vi_of_bits(const uint8_t *p) {
    const vi bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    const long long step = 0x0101010101010101;
    vi bytes = vi_shuffle8(vi_bcast(p), _mm256_setr_epi64x(0, step, 2 * step, 3 * step));
    return _mm256_cmpeq_epi8(vi_and(bytes, bit_of), bit_of);
}
/* out lane i = x lane idx[i] */
KT_INLINE vi vi_pick(vi x, vi idx) { return _mm256_permutevar8x32_epi32(x, idx); }
KT_INLINE vi vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
KT_INLINE vi vi_below(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), vi_iota()); }

/* ---- LANES floats ---- */
KT_INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
KT_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
KT_INLINE void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
KT_INLINE vf vf_bcast(const float *p) { return _mm256_broadcast_ss(p); }
KT_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
KT_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
KT_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
KT_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
KT_INLINE vf vf_cvt(vi x) { return _mm256_cvtepi32_ps(x); }
KT_INLINE vf vf_pick(vf x, vi idx) { return _mm256_permutevar8x32_ps(x, idx); }
KT_INLINE vf vf_load_n(const float *p, int n) { /* lanes from n on are 0 and not read */
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, vi_below(n));
}
KT_INLINE void vf_store_n(float *p, vf x, int n) {
    if (n >= 8)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, vi_below(n), x);
}
KT_INLINE vf vf_from_f16(const kt__f16 *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
KT_INLINE vf vf_of_words(__m128i halves) { return _mm256_cvtph_ps(halves); }
/* the low half of each dword is an f16 */
KT_INLINE vf vf_from_f16_low(vi x) {
    vi low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    low = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(low));
}

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

KT_INLINE vi vi_cat2(const uint8_t *a, const uint8_t *b) {
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)a);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                   _mm_loadu_si128((const __m128i *)(const void *)b), 1);
}

/* in each 128-bit lane: out[j] lane dword i = x[i] lane dword j */
KT_INLINE void vi_transpose4(vi x[4]) {
    vi a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpackhi_epi32(x[0], x[1]);
    vi c = _mm256_unpacklo_epi32(x[2], x[3]), d = _mm256_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi64(a, c);
    x[1] = _mm256_unpackhi_epi64(a, c);
    x[2] = _mm256_unpacklo_epi64(b, d);
    x[3] = _mm256_unpackhi_epi64(b, d);
}

/* out[j] lane r = dword j of the 16 bytes at row[r] + offset */
KT_INLINE void vi_load_rows16(const uint8_t *const *row, size_t offset, vi out[4]) {
    for (int i = 0; i < 4; i++) out[i] = vi_cat2(row[i] + offset, row[4 + i] + offset);
    vi_transpose4(out);
}

/* the same of 32 bytes */
KT_INLINE void vi_load_rows32(const uint8_t *const *row, size_t offset, vi out[8]) {
    vi_load_rows16(row, offset, out);
    vi_load_rows16(row, offset + 16, out + 4);
}

/* 16 bytes, and 16 more `stride` on */
KT_INLINE vi vi_load_pieces16(const uint8_t *p, size_t stride) { return vi_cat2(p, p + stride); }

/* LANES / 2 times eight bytes */
KT_INLINE vi vi_of_words(const uint64_t *const *p) {
    __m128i x[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        __m128d low = _mm_load_sd((const double *)(const void *)p[2 * i]);
        x[i] = _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)p[2 * i + 1]));
    }
    return _mm256_inserti128_si256(_mm256_castsi128_si256(x[0]), x[1], 1);
}
KT_INLINE vi vi_of_dwords(const uint32_t *p) {
    __m128i x[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        const int32_t *q = (const int32_t *)p + 4 * i;
        __m128i a = _mm_unpacklo_epi32(_mm_cvtsi32_si128(q[0]), _mm_cvtsi32_si128(q[1]));
        __m128i b = _mm_unpacklo_epi32(_mm_cvtsi32_si128(q[2]), _mm_cvtsi32_si128(q[3]));
        x[i] = _mm_unpacklo_epi64(a, b);
    }
    return _mm256_inserti128_si256(_mm256_castsi128_si256(x[0]), x[1], 1);
}
/* 128 - x, x from 1 to 127, in bytes whose bits are set */
KT_INLINE vi vi_mirrored(vi x, const uint8_t *bits) {
    vi set = vi_of_bits(bits);
    return vi_sub8(vi_xor(x, vi_and(set, vi_bytes(127))), set);
}

/* in each 128-bit lane: dword i = the sum of that lane of x[i] */
KT_INLINE vi vi_quad(const vi *x) {
    vi a = vi_add(_mm256_unpacklo_epi32(x[0], x[1]), _mm256_unpackhi_epi32(x[0], x[1]));
    vi b = vi_add(_mm256_unpacklo_epi32(x[2], x[3]), _mm256_unpackhi_epi32(x[2], x[3]));
    return vi_add(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Sums of words, those of dwords' low and of their high halves apart: of each 128-bit lane of four registers, in their
 * order. */
KT_INLINE vi vi_sums16(const vi *x) {
    vi a = _mm256_add_epi16(_mm256_unpacklo_epi32(x[0], x[1]), _mm256_unpackhi_epi32(x[0], x[1]));
    vi b = _mm256_add_epi16(_mm256_unpacklo_epi32(x[2], x[3]), _mm256_unpackhi_epi32(x[2], x[3]));
    vi sums = _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    return vi_pick(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* out[l] lane i = the sum of 128-bit lane l of x[i] */
KT_INLINE void vi_reduce_lanes(const vi *x, vi out[2]) {
    vi low = vi_quad(x), high = vi_quad(x + 4);
    out[0] = _mm256_permute2x128_si256(low, high, 0x20);
    out[1] = _mm256_permute2x128_si256(low, high, 0x31);
}

/* lane i = the sum of the lanes of x[i] */
KT_INLINE vi vi_reduce(const vi *x) {
    vi lane[2];
    vi_reduce_lanes(x, lane);
    return vi_add(lane[0], lane[1]);
}

/* ---- the contract's 16 lanes ---- */
typedef struct v16 {
    __m256 a, b; /* lanes 0-7, 8-15 */
} v16;
typedef struct m16 {
    __m256 a, b; /* all ones or zeros */
} m16;

#define V16(low, high) ((v16){(low), (high)})
KT_INLINE v16 v16_zero(void) { return V16(_mm256_setzero_ps(), _mm256_setzero_ps()); }
KT_INLINE v16 v16_set1(float x) { return V16(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
KT_INLINE v16 v16_load(const float *p) { return V16(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
KT_INLINE v16 v16_load_n(const float *p, int n) {
    if (n >= 16) return v16_load(p);
    return V16(_mm256_maskload_ps(p, vi_below(n)), _mm256_maskload_ps(p + 8, vi_below(n - 8)));
}
KT_INLINE void v16_store(float *p, v16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
KT_INLINE void v16_store_n(float *p, v16 x, int n) {
    if (n >= 16) {
        v16_store(p, x);
        return;
    }
    _mm256_maskstore_ps(p, vi_below(n), x.a);
    _mm256_maskstore_ps(p + 8, vi_below(n - 8), x.b);
}
KT_INLINE v16 v16_add(v16 x, v16 y) {
    return V16(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}
KT_INLINE v16 v16_sub(v16 x, v16 y) {
    return V16(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}
KT_INLINE v16 v16_mul(v16 x, v16 y) {
    return V16(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}
KT_INLINE v16 v16_div(v16 x, v16 y) {
    return V16(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}
KT_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    return V16(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
KT_INLINE v16 v16_max(v16 x, v16 y) {
    return V16(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}
KT_INLINE v16 v16_min(v16 x, v16 y) {
    return V16(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}
KT_INLINE v16 v16_and(v16 x, v16 y) {
    return V16(_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b));
}
KT_INLINE v16 v16_andnot(v16 x, v16 y) {
    return V16(_mm256_andnot_ps(x.a, y.a), _mm256_andnot_ps(x.b, y.b));
}
KT_INLINE v16 v16_abs(v16 x) { return v16_andnot(v16_set1(-0.0f), x); }
/* the greater of top and |x|, compared as integers: a NaN is the greatest; top has no sign */
KT_INLINE v16 v16_max_abs(v16 top, v16 x) {
    v16 a = v16_abs(x);
    __m256i low = _mm256_max_epi32(_mm256_castps_si256(top.a), _mm256_castps_si256(a.a));
    __m256i high = _mm256_max_epi32(_mm256_castps_si256(top.b), _mm256_castps_si256(a.b));
    return V16(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
}
KT_INLINE v16 v16_neg(v16 x) {
    __m256 bit = _mm256_set1_ps(-0.0f);
    return V16(_mm256_xor_ps(x.a, bit), _mm256_xor_ps(x.b, bit));
}
KT_INLINE v16 v16_copysign(v16 magnitude, v16 sign) {
    v16 bit = v16_set1(-0.0f), m = v16_andnot(bit, magnitude), s = v16_and(bit, sign);
    return V16(_mm256_or_ps(m.a, s.a), _mm256_or_ps(m.b, s.b));
}
#define M16_CMP(x, y, how) \
    ((m16){_mm256_cmp_ps((x).a, (y).a, how), _mm256_cmp_ps((x).b, (y).b, how)})
KT_INLINE m16 m16_lt(v16 x, v16 y) { return M16_CMP(x, y, _CMP_LT_OQ); }
KT_INLINE m16 m16_le(v16 x, v16 y) { return M16_CMP(x, y, _CMP_LE_OQ); }
KT_INLINE m16 m16_eq(v16 x, v16 y) { return M16_CMP(x, y, _CMP_EQ_OQ); }
KT_INLINE m16 m16_unordered(v16 x) { return M16_CMP(x, x, _CMP_UNORD_Q); }
KT_INLINE m16 m16_range(int lo, int hi) { /* lanes lo..hi-1 */
    return (m16){_mm256_castsi256_ps(_mm256_andnot_si256(vi_below(lo), vi_below(hi))),
                 _mm256_castsi256_ps(_mm256_andnot_si256(vi_below(lo - 8), vi_below(hi - 8)))};
}
KT_INLINE unsigned m16_bits(m16 m) {
    return (unsigned)_mm256_movemask_ps(m.a) | (unsigned)_mm256_movemask_ps(m.b) << 8;
}
KT_INLINE v16 v16_select(m16 m, v16 yes, v16 no) {
    return V16(_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b));
}
KT_INLINE __m256 exponent_add_half(__m256 x, __m256 shifted) {
    vi n = vi_shl(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(vi_add(_mm256_castps_si256(x), n));
}
/* x * 2^n for a product that is normal, or infinity with x a power of 2: n, the integer that the
 * shift trick left in the low bits of `shifted`, is added to x's exponent */
KT_INLINE v16 v16_exponent_add(v16 x, v16 shifted) {
    return V16(exponent_add_half(x.a, shifted.a), exponent_add_half(x.b, shifted.b));
}
/* lanes i and i + 8, then + 4, + 2, + 1 */
KT_INLINE float v16_tree(v16 x) {
    __m256 a = _mm256_add_ps(x.a, x.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
/* v16_tree of four */
KT_INLINE v4 v16_trees(const v16 x[4]) {
    __m128 y[4];
    KT_UNROLL for (int i = 0; i < 4; i++) {
        __m256 a = _mm256_add_ps(x[i].a, x[i].b);
        y[i] = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    }
    _MM_TRANSPOSE4_PS(y[0], y[1], y[2], y[3]);
    return _mm_add_ps(_mm_add_ps(y[0], y[2]), _mm_add_ps(y[1], y[3]));
}
KT_INLINE float v16_hmax(v16 x) {
    __m256 a = _mm256_max_ps(x.a, x.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

KT_INLINE v16 v16_from_f16(const kt__f16 *p) { return V16(vf_from_f16(p), vf_from_f16(p + 8)); }
KT_INLINE v16 v16_from_f16_n(const kt__f16 *p, int n) {
    kt__f16 h[16] = {0};
    memcpy(h, p, (size_t)n * sizeof *h);
    return v16_from_f16(h);
}
KT_INLINE void v16_to_f16_n(kt__f16 *p, v16 x, int n) {
    kt__f16 h[16];
    __m128i low = _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m128i high = _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128((__m128i *)(void *)h, low);
    _mm_storeu_si128((__m128i *)(void *)(h + 8), high);
    memcpy(p, h, (size_t)n * sizeof *h);
}
KT_INLINE vf vf_from_bf16(const kt__bf16 *p) {
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
KT_INLINE v16 v16_from_bf16(const kt__bf16 *p) { return V16(vf_from_bf16(p), vf_from_bf16(p + 8)); }
KT_INLINE v16 v16_from_bf16_n(const kt__bf16 *p, int n) {
    kt__bf16 h[16] = {0};
    memcpy(h, p, (size_t)n * sizeof *h);
    return v16_from_bf16(h);
}
/* x is within +-127.5: 16 bytes at q, rounded to nearest even */
KT_INLINE void v16_to_i8(int8_t *q, v16 x) {
    vi a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
    vi words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)q, _mm_packs_epi16(low, high));
}
/* of 256 bytes: s16 the sums of each 16, s32 of each 32 */
KT_INLINE void i8_sums(const int8_t *q, int16_t *s16, int16_t *s32) {
    vi part[8];
    KT_UNROLL for (int i = 0; i < 8; i++) {
        vi pairs = _mm256_maddubs_epi16(vi_bytes(1), vi_load(q + 32 * i));
        part[i] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    /* the even groups, then the odd ones */
    vi groups = _mm256_packs_epi32(vi_quad(part), vi_quad(part + 4));
    __m128i even = _mm256_castsi256_si128(groups), odd = _mm256_extracti128_si256(groups, 1);
    _mm_storeu_si128((__m128i *)(void *)s16, _mm_unpacklo_epi16(even, odd));
    _mm_storeu_si128((__m128i *)(void *)(s16 + 8), _mm_unpackhi_epi16(even, odd));
    _mm_storeu_si128((__m128i *)(void *)s32, _mm_add_epi16(even, odd));
}
KT_INLINE __m256 pick4x64(__m256 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}
/* even and odd elements of 32 floats, and back */
KT_INLINE void v16_unzip(v16 x, v16 y, v16 *even, v16 *odd) {
    *even = V16(pick4x64(_mm256_shuffle_ps(x.a, x.b, 0x88)),
                pick4x64(_mm256_shuffle_ps(y.a, y.b, 0x88)));
    *odd = V16(pick4x64(_mm256_shuffle_ps(x.a, x.b, 0xdd)),
               pick4x64(_mm256_shuffle_ps(y.a, y.b, 0xdd)));
}
KT_INLINE v16 zip_half(__m256 even, __m256 odd) {
    __m256 lo = _mm256_unpacklo_ps(even, odd), hi = _mm256_unpackhi_ps(even, odd);
    return V16(_mm256_permute2f128_ps(lo, hi, 0x20), _mm256_permute2f128_ps(lo, hi, 0x31));
}
KT_INLINE void v16_zip(v16 even, v16 odd, v16 *x, v16 *y) {
    *x = zip_half(even.a, odd.a);
    *y = zip_half(even.b, odd.b);
}

#endif
