/* Primitives of the sse41 tier (SSSE3 and SSE4.1, no more).
 *
 * Owns: the primitives of the shared bodies (*.inc) for vectors of 4 dwords: vi, vf; the contract's
 * 16 lanes (v16) are four registers. Also what these processors lack: fma and conversions from half
 * precision, exact. Weights of the full signed range (Q8_0, IQ4) stay signed, as in simd_avx2.h.
 * Knows no formats. For the tier's own files only; any thread. */
#ifndef KT_KERNELS_SIMD_SSE41_H
#define KT_KERNELS_SIMD_SSE41_H

#include <smmintrin.h>
#include <tmmintrin.h>

#include "kernels/simd.h"

#define KT_TIER(name) kt__sse41_##name

enum { LANES = 4, WIDE_BIAS = 0 /* added to weights of the full signed range */ };
typedef __m128i vi;
typedef __m128 vf;

/* ---- integers ---- */
KT_INLINE vi vi_zero(void) { return _mm_setzero_si128(); }
KT_INLINE vi vi_set1(int32_t x) { return _mm_set1_epi32(x); }
KT_INLINE vi vi_bytes(int x) { return _mm_set1_epi8((char)x); }
KT_INLINE vi vi_load(const void *p) { return _mm_loadu_si128(p); }
KT_INLINE void vi_store(void *p, vi x) { _mm_storeu_si128(p, x); }
KT_INLINE vi vi_and(vi a, vi b) { return _mm_and_si128(a, b); }
KT_INLINE vi vi_or(vi a, vi b) { return _mm_or_si128(a, b); }
KT_INLINE vi vi_xor(vi a, vi b) { return _mm_xor_si128(a, b); }
KT_INLINE vi vi_add(vi a, vi b) { return _mm_add_epi32(a, b); }
/* The sum is pinned: compilers that reassociate such chains run out of registers. */
KT_INLINE vi vi_add16(vi a, vi b) {
    a = _mm_add_epi16(a, b);
    __asm__("" : "+x"(a));
    return a;
}
KT_INLINE vi vi_sub(vi a, vi b) { return _mm_sub_epi32(a, b); }
KT_INLINE vi vi_sub8(vi a, vi b) { return _mm_sub_epi8(a, b); }
KT_INLINE vi vi_mul(vi a, vi b) { return _mm_mullo_epi32(a, b); }
KT_INLINE vi vi_max(vi a, vi b) { return _mm_max_epi32(a, b); }
KT_INLINE vi vi_min8(vi a, vi b) { return _mm_min_epu8(a, b); } /* of unsigned bytes */
/* by the same count everywhere: an immediate where n is a constant */
typedef int32_t vi_s32 __attribute__((vector_size(16)));
typedef uint32_t vi_u32 __attribute__((vector_size(16)));
typedef int16_t vi_s16 __attribute__((vector_size(16)));
KT_INLINE vi vi_shl(vi x, int n) { return (vi)((vi_u32)x << n); }
KT_INLINE vi vi_shr(vi x, int n) { return (vi)((vi_u32)x >> n); }
KT_INLINE vi vi_sar(vi x, int n) { return (vi)((vi_s32)x >> n); }
KT_INLINE vi vi_sar16(vi x, int n) { return (vi)((vi_s16)x >> n); }
/* out byte i = x byte idx[i], or 0 where idx[i] is negative */
KT_INLINE vi vi_shuffle8(vi x, vi idx) { return _mm_shuffle_epi8(x, idx); }
KT_INLINE vi vi_dup128(__m128i x) { return x; }
/* 2 LANES signed bytes as words */
KT_INLINE vi vi_words_of_bytes(const void *p) {
    return _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p));
}
KT_INLINE vi vi_bcast(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm_set1_epi32(x);
}
/* bytes of ones where the bits of these bytes are set */
KT_INLINE vi vi_of_bits(const uint8_t *p) {
    const vi bit_of = _mm_set1_epi64x((long long)0x8040201008040201);
    vi bytes = vi_shuffle8(_mm_cvtsi32_si128(p[0] | p[1] << 8),
                           _mm_set_epi64x(0x0101010101010101, 0));
    return _mm_cmpeq_epi8(vi_and(bytes, bit_of), bit_of);
}
/* LANES / 2 times eight bytes */
KT_INLINE vi vi_of_words(const uint64_t *const *p) {
    __m128d low = _mm_load_sd((const double *)(const void *)p[0]);
    return _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)p[1]));
}
KT_INLINE vi vi_of_dwords(const uint32_t *p) {
    return _mm_setr_epi32((int32_t)p[0], (int32_t)p[1], (int32_t)p[2], (int32_t)p[3]);
}
/* 128 - x, x from 1 to 127, in bytes whose bits are set */
KT_INLINE vi vi_mirrored(vi x, const uint8_t *bits) {
    vi set = vi_of_bits(bits);
    return vi_sub8(vi_xor(x, vi_and(set, vi_bytes(127))), set);
}
KT_INLINE vi vi_iota(void) { return _mm_setr_epi32(0, 1, 2, 3); }
/* out lane i = x lane idx[i] */
KT_INLINE vi vi_pick(vi x, vi idx) {
    vi first = vi_mul(idx, vi_set1(0x04040404));
    return vi_shuffle8(x, vi_add(first, vi_set1(0x03020100)));
}

/* ---- products of bytes ---- */

/* a + pairs of i16 products */
KT_INLINE vi vi_dot16(vi a, vi b, vi c) {
    a = _mm_add_epi32(a, _mm_madd_epi16(b, c));
    __asm__("" : "+x"(a)); /* as vi_add16 */
    return a;
}
/* pairs of u8 * i8 products, as i16 */
KT_INLINE vi vi_pairs(vi u, vi s) { return _mm_maddubs_epi16(u, s); }
/* the same for i8 weights w; no activation is -128 */
KT_INLINE vi vi_pairs_wide(vi w, vi x) {
    return _mm_maddubs_epi16(_mm_abs_epi8(w), _mm_sign_epi8(x, w));
}

/* ---- fma ----
 *
 * The product of two f32 is exact in f64. s, its sum with the addend, is rounded once there, and
 * rounding it again to f32 gives the fma, unless s is halfway between two f32: what the first
 * rounding cut off decides then. So where a lane of s may be such a tie, all lanes are computed
 * again with s rounded to odd, which makes the second rounding right always. (For normal results a
 * tie has the 29 lowest bits 100...0. Those of subnormal results are elsewhere: each of them, and
 * 2^-126, which is rounded up to, counts as a tie. A result of zero is never wrong.) */

KT_INLINE __m128d f64_low(__m128 x) { return _mm_cvtps_pd(x); }
KT_INLINE __m128d f64_high(__m128 x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }

/* p + c rounded to odd: truncated, and the last bit set if anything was cut off */
KT_INLINE __m128d f64_add_odd(__m128d p, __m128d c) {
    __m128d s = _mm_add_pd(p, c), v = _mm_sub_pd(s, p);
    __m128d e = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(s, v)), _mm_sub_pd(c, v)); /* p + c - s */
    __m128d size = _mm_andnot_pd(_mm_set1_pd(-0.0), e);
    __m128i inexact = _mm_castpd_si128(_mm_cmplt_pd(_mm_setzero_pd(), size)); /* not where NaN */
    __m128i beyond = _mm_castpd_si128(_mm_xor_pd(e, s)); /* negative: |s| was rounded up */
    beyond = _mm_and_si128(vi_sar(_mm_shuffle_epi32(beyond, 0xf5), 31), inexact);
    __m128i cut = _mm_add_epi64(_mm_castpd_si128(s), beyond);
    return _mm_castsi128_pd(_mm_or_si128(cut, _mm_srli_epi64(inexact, 63)));
}
/* A function of its own: its body in each of a thousand places was most of the tier's code. */
static __attribute__((noinline, cold)) vf fma_exact(vf a, vf b, vf c) {
    __m128d low = f64_add_odd(_mm_mul_pd(f64_low(a), f64_low(b)), f64_low(c));
    __m128d high = f64_add_odd(_mm_mul_pd(f64_high(a), f64_high(b)), f64_high(c));
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
/* a * b + c, rounded twice; *doubt: all ones where that may differ from once */
KT_INLINE vf fma_twice(vf a, vf b, vf c, vi *doubt) {
    __m128d low = _mm_add_pd(_mm_mul_pd(f64_low(a), f64_low(b)), f64_low(c));
    __m128d high = _mm_add_pd(_mm_mul_pd(f64_high(a), f64_high(b)), f64_high(c));
    vf r = _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
    vf words = _mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), 0x88);
    vi tie = _mm_cmpeq_epi32(vi_shl(_mm_castps_si128(words), 3), vi_set1(INT32_MIN));
    /* 2 * bits - 1, unsigned, below 2^24: compared as signed */
    vi twice = vi_shl(_mm_castps_si128(r), 1);
    vi shifted = vi_add(twice, vi_set1(INT32_MAX));
    *doubt = vi_or(tie, _mm_cmpgt_epi32(vi_set1(INT32_MIN + (1 << 24)), shifted));
    return r;
}
KT_INLINE bool any_lane(vi mask) { return __builtin_expect(_mm_movemask_epi8(mask), 0); }

/* ---- LANES floats ---- */
KT_INLINE vf vf_zero(void) { return _mm_setzero_ps(); }
KT_INLINE vf vf_load(const float *p) { return _mm_loadu_ps(p); }
KT_INLINE void vf_store(float *p, vf x) { _mm_storeu_ps(p, x); }
KT_INLINE vf vf_bcast(const float *p) { return _mm_set1_ps(*p); }
KT_INLINE vf vf_add(vf a, vf b) { return _mm_add_ps(a, b); }
KT_INLINE vf vf_mul(vf a, vf b) { return _mm_mul_ps(a, b); }
KT_INLINE vf vf_fma(vf a, vf b, vf c) {
    vi doubt;
    vf r = fma_twice(a, b, c, &doubt);
    return any_lane(doubt) ? fma_exact(a, b, c) : r;
}
KT_INLINE vf vf_fnma(vf a, vf b, vf c) { return vf_fma(_mm_xor_ps(a, _mm_set1_ps(-0.0f)), b, c); }
KT_INLINE vf vf_cvt(vi x) { return _mm_cvtepi32_ps(x); }
KT_INLINE vf vf_pick(vf x, vi idx) { return _mm_castsi128_ps(vi_pick(_mm_castps_si128(x), idx)); }
KT_INLINE vf vf_load_n(const float *p, int n) { /* lanes from n on are 0 and not read */
    float part[4] = {0};
    if (n >= 4) return vf_load(p);
    memcpy(part, p, n > 0 ? (size_t)n * sizeof *part : 0);
    return vf_load(part);
}
KT_INLINE void vf_store_n(float *p, vf x, int n) {
    float part[4];
    if (n >= 4) {
        vf_store(p, x);
        return;
    }
    vf_store(part, x);
    memcpy(p, part, n > 0 ? (size_t)n * sizeof *part : 0);
}
/* The low half of each dword is an f16. Nothing here is subnormal as an f32: that would be slow. */
KT_INLINE vf vf_from_f16_low(vi x) {
    vi magnitude = vi_and(x, vi_set1(0x7fff)), sign = vi_shl(vi_and(x, vi_set1(0x8000)), 16);
    vi rebias = vi_set1(112 << 23), normal = vi_add(vi_shl(magnitude, 13), rebias);
    vi infinite = _mm_cmpgt_epi32(magnitude, vi_set1(0x7bff)); /* or NaN */
    normal = vi_add(normal, vi_and(infinite, rebias));
    vf above = _mm_castsi128_ps(vi_add(normal, vi_set1(1 << 23))); /* 2^-14 + a subnormal f16 */
    vf subnormal = _mm_sub_ps(above, _mm_set1_ps(0x1p-14f));
    vf is_subnormal = _mm_castsi128_ps(_mm_cmpgt_epi32(vi_set1(0x400), magnitude));
    vf y = _mm_blendv_ps(_mm_castsi128_ps(normal), subnormal, is_subnormal);
    return _mm_or_ps(y, _mm_castsi128_ps(sign));
}
KT_INLINE vf vf_of_words(__m128i halves) { return vf_from_f16_low(_mm_cvtepu16_epi32(halves)); }
KT_INLINE vi words4(const void *p) { return _mm_cvtepu16_epi32(_mm_loadl_epi64(p)); }
KT_INLINE vf vf_from_f16(const kt__f16 *p) { return vf_from_f16_low(words4(p)); }
KT_INLINE vf vf_from_bf16(const kt__bf16 *p) { return _mm_castsi128_ps(vi_shl(words4(p), 16)); }

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
KT_INLINE v4 v4_fma(v4 a, v4 b, v4 c) { return vf_fma(a, b, c); }

/* ---- transposes ---- */

/* out[j] lane i = x[i] lane j */
KT_INLINE void vi_transpose4(vi x[4]) {
    vi a = _mm_unpacklo_epi32(x[0], x[1]), b = _mm_unpackhi_epi32(x[0], x[1]);
    vi c = _mm_unpacklo_epi32(x[2], x[3]), d = _mm_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm_unpacklo_epi64(a, c);
    x[1] = _mm_unpackhi_epi64(a, c);
    x[2] = _mm_unpacklo_epi64(b, d);
    x[3] = _mm_unpackhi_epi64(b, d);
}

/* out[j] lane r = dword j of the 16 bytes at row[r] + offset */
KT_INLINE void vi_load_rows16(const uint8_t *const *row, size_t offset, vi out[4]) {
    for (int i = 0; i < 4; i++) out[i] = vi_load(row[i] + offset);
    vi_transpose4(out);
}

/* the same of 32 bytes */
KT_INLINE void vi_load_rows32(const uint8_t *const *row, size_t offset, vi out[8]) {
    vi_load_rows16(row, offset, out);
    vi_load_rows16(row, offset + 16, out + 4);
}

/* lane i = the sum of the lanes of x[i] */
KT_INLINE vi vi_reduce(const vi *x) {
    vi a = vi_add(_mm_unpacklo_epi32(x[0], x[1]), _mm_unpackhi_epi32(x[0], x[1]));
    vi b = vi_add(_mm_unpacklo_epi32(x[2], x[3]), _mm_unpackhi_epi32(x[2], x[3]));
    return vi_add(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b));
}
/* Sums of words, those of dwords' low and of their high halves apart: of each of four registers */
KT_INLINE vi vi_sums16(const vi *x) {
    vi a = _mm_add_epi16(_mm_unpacklo_epi32(x[0], x[1]), _mm_unpackhi_epi32(x[0], x[1]));
    vi b = _mm_add_epi16(_mm_unpacklo_epi32(x[2], x[3]), _mm_unpackhi_epi32(x[2], x[3]));
    return _mm_add_epi16(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b));
}
/* as vi_reduce: a vector is one lane of 128 bits */
KT_INLINE void vi_reduce_lanes(const vi *x, vi out[1]) { out[0] = vi_reduce(x); }

/* ---- the contract's 16 lanes ---- */
typedef struct v16 {
    __m128 a, b, c, d; /* lanes 0-3, 4-7, 8-11, 12-15 */
} v16;
typedef struct m16 {
    __m128 a, b, c, d; /* all ones or zeros */
} m16;

#define V16(a, b, c, d) ((v16){(a), (b), (c), (d)})
#define M16(a, b, c, d) ((m16){(a), (b), (c), (d)})
/* f on the four registers of two and of three vectors */
#define ALL_2(of, f, x, y) of(f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d))
#define ALL_3(of, f, x, y, z)                                                  \
    of(f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c), \
       f((x).d, (y).d, (z).d))

KT_INLINE v16 v16_set1(float x) {
    __m128 q = _mm_set1_ps(x);
    return V16(q, q, q, q);
}
KT_INLINE v16 v16_zero(void) { return v16_set1(0); }
KT_INLINE v16 v16_load(const float *p) {
    return V16(_mm_loadu_ps(p), _mm_loadu_ps(p + 4), _mm_loadu_ps(p + 8), _mm_loadu_ps(p + 12));
}
KT_INLINE v16 v16_load_n(const float *p, int n) {
    float part[16] = {0};
    if (n >= 16) return v16_load(p);
    memcpy(part, p, n > 0 ? (size_t)n * sizeof *part : 0);
    return v16_load(part);
}
KT_INLINE void v16_store(float *p, v16 x) {
    _mm_storeu_ps(p, x.a);
    _mm_storeu_ps(p + 4, x.b);
    _mm_storeu_ps(p + 8, x.c);
    _mm_storeu_ps(p + 12, x.d);
}
KT_INLINE void v16_store_n(float *p, v16 x, int n) {
    float part[16];
    if (n >= 16) {
        v16_store(p, x);
        return;
    }
    v16_store(part, x);
    memcpy(p, part, n > 0 ? (size_t)n * sizeof *part : 0);
}
KT_INLINE v16 v16_add(v16 x, v16 y) { return ALL_2(V16, _mm_add_ps, x, y); }
KT_INLINE v16 v16_sub(v16 x, v16 y) { return ALL_2(V16, _mm_sub_ps, x, y); }
KT_INLINE v16 v16_mul(v16 x, v16 y) { return ALL_2(V16, _mm_mul_ps, x, y); }
KT_INLINE v16 v16_div(v16 x, v16 y) { return ALL_2(V16, _mm_div_ps, x, y); }
KT_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    vi a, b, c, d;
    v16 r = V16(fma_twice(x.a, y.a, z.a, &a), fma_twice(x.b, y.b, z.b, &b),
                fma_twice(x.c, y.c, z.c, &c), fma_twice(x.d, y.d, z.d, &d));
    return any_lane(vi_or(vi_or(a, b), vi_or(c, d))) ? ALL_3(V16, fma_exact, x, y, z) : r;
}
KT_INLINE v16 v16_max(v16 x, v16 y) { return ALL_2(V16, _mm_max_ps, x, y); }
KT_INLINE v16 v16_min(v16 x, v16 y) { return ALL_2(V16, _mm_min_ps, x, y); }
KT_INLINE v16 v16_and(v16 x, v16 y) { return ALL_2(V16, _mm_and_ps, x, y); }
KT_INLINE v16 v16_andnot(v16 x, v16 y) { return ALL_2(V16, _mm_andnot_ps, x, y); }
KT_INLINE v16 v16_abs(v16 x) { return v16_andnot(v16_set1(-0.0f), x); }
/* the greater of top and |x|, compared as integers: a NaN is the greatest; top has no sign */
KT_INLINE __m128 max_bits(__m128 a, __m128 b) {
    return _mm_castsi128_ps(_mm_max_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
KT_INLINE v16 v16_max_abs(v16 top, v16 x) { return ALL_2(V16, max_bits, top, v16_abs(x)); }
KT_INLINE v16 v16_neg(v16 x) { return ALL_2(V16, _mm_xor_ps, x, v16_set1(-0.0f)); }
KT_INLINE v16 v16_copysign(v16 magnitude, v16 sign) {
    v16 bit = v16_set1(-0.0f);
    return ALL_2(V16, _mm_or_ps, v16_andnot(bit, magnitude), v16_and(bit, sign));
}
KT_INLINE m16 m16_lt(v16 x, v16 y) { return ALL_2(M16, _mm_cmplt_ps, x, y); }
KT_INLINE m16 m16_le(v16 x, v16 y) { return ALL_2(M16, _mm_cmple_ps, x, y); }
KT_INLINE m16 m16_eq(v16 x, v16 y) { return ALL_2(M16, _mm_cmpeq_ps, x, y); }
KT_INLINE m16 m16_unordered(v16 x) { return ALL_2(M16, _mm_cmpunord_ps, x, x); }
KT_INLINE __m128 range_part(int lo, int hi) {
    vi below_hi = _mm_cmpgt_epi32(vi_set1(hi), vi_iota());
    return _mm_castsi128_ps(_mm_andnot_si128(_mm_cmpgt_epi32(vi_set1(lo), vi_iota()), below_hi));
}
KT_INLINE m16 m16_range(int lo, int hi) { /* lanes lo..hi-1 */
    return M16(range_part(lo, hi), range_part(lo - 4, hi - 4), range_part(lo - 8, hi - 8),
               range_part(lo - 12, hi - 12));
}
KT_INLINE unsigned m16_bits(m16 m) {
    return (unsigned)_mm_movemask_ps(m.a) | (unsigned)_mm_movemask_ps(m.b) << 4 |
           (unsigned)_mm_movemask_ps(m.c) << 8 | (unsigned)_mm_movemask_ps(m.d) << 12;
}
KT_INLINE __m128 select_part(__m128 m, __m128 yes, __m128 no) { return _mm_blendv_ps(no, yes, m); }
KT_INLINE v16 v16_select(m16 m, v16 yes, v16 no) { return ALL_3(V16, select_part, m, yes, no); }
KT_INLINE __m128 exponent_add_part(__m128 x, __m128 shifted) {
    vi n = vi_shl(_mm_castps_si128(shifted), 23);
    return _mm_castsi128_ps(vi_add(_mm_castps_si128(x), n));
}
/* x * 2^n for a product that is normal, or infinity with x a power of 2: n, the integer that the
 * shift trick left in the low bits of `shifted`, is added to x's exponent */
KT_INLINE v16 v16_exponent_add(v16 x, v16 shifted) {
    return ALL_2(V16, exponent_add_part, x, shifted);
}
/* lanes i and i + 8, then + 4 */
KT_INLINE __m128 tree_quarter(v16 x) {
    return _mm_add_ps(_mm_add_ps(x.a, x.c), _mm_add_ps(x.b, x.d));
}
/* ... then + 2, + 1 */
KT_INLINE float v16_tree(v16 x) {
    __m128 y = tree_quarter(x);
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
/* v16_tree of four */
KT_INLINE v4 v16_trees(const v16 x[4]) {
    __m128 y[4];
    KT_UNROLL for (int i = 0; i < 4; i++) y[i] = tree_quarter(x[i]);
    _MM_TRANSPOSE4_PS(y[0], y[1], y[2], y[3]);
    return _mm_add_ps(_mm_add_ps(y[0], y[2]), _mm_add_ps(y[1], y[3]));
}
KT_INLINE float v16_hmax(v16 x) {
    __m128 y = _mm_max_ps(_mm_max_ps(x.a, x.c), _mm_max_ps(x.b, x.d));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

KT_INLINE v16 v16_from_f16(const kt__f16 *p) {
    return V16(vf_from_f16(p), vf_from_f16(p + 4), vf_from_f16(p + 8), vf_from_f16(p + 12));
}
KT_INLINE v16 v16_from_f16_n(const kt__f16 *p, int n) {
    kt__f16 h[16] = {0};
    memcpy(h, p, (size_t)n * sizeof *h);
    return v16_from_f16(h);
}
/* (only new K and V come here: a few of them for each token) */
KT_INLINE void v16_to_f16_n(kt__f16 *p, v16 x, int n) {
    float part[16];
    v16_store(part, x);
    for (int i = 0; i < n; i++) p[i] = kt__f16_from_f32(part[i]);
}
KT_INLINE v16 v16_from_bf16(const kt__bf16 *p) {
    return V16(vf_from_bf16(p), vf_from_bf16(p + 4), vf_from_bf16(p + 8), vf_from_bf16(p + 12));
}
KT_INLINE v16 v16_from_bf16_n(const kt__bf16 *p, int n) {
    kt__bf16 h[16] = {0};
    memcpy(h, p, (size_t)n * sizeof *h);
    return v16_from_bf16(h);
}
/* x is within +-127.5: 16 bytes at q, rounded to nearest even */
KT_INLINE void v16_to_i8(int8_t *q, v16 x) {
    vi low = _mm_packs_epi32(_mm_cvtps_epi32(x.a), _mm_cvtps_epi32(x.b));
    vi high = _mm_packs_epi32(_mm_cvtps_epi32(x.c), _mm_cvtps_epi32(x.d));
    vi_store(q, _mm_packs_epi16(low, high));
}
/* of 256 bytes: s16 the sums of each 16, s32 of each 32 */
KT_INLINE void i8_sums(const int8_t *q, int16_t *s16, int16_t *s32) {
    vi four[4];
    KT_UNROLL for (int i = 0; i < 4; i++) {
        vi part[4];
        KT_UNROLL for (int j = 0; j < 4; j++) {
            vi pairs = _mm_maddubs_epi16(vi_bytes(1), vi_load(q + 64 * i + 16 * j));
            part[j] = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
        }
        four[i] = vi_reduce(part);
    }
    vi low = _mm_packs_epi32(four[0], four[1]), high = _mm_packs_epi32(four[2], four[3]);
    vi_store(s16, low);
    vi_store(s16 + 8, high);
    vi_store(s32, _mm_hadd_epi16(low, high));
}
/* even and odd elements of 32 floats, and back */
KT_INLINE __m128 even_part(__m128 x, __m128 y) { return _mm_shuffle_ps(x, y, 0x88); }
KT_INLINE __m128 odd_part(__m128 x, __m128 y) { return _mm_shuffle_ps(x, y, 0xdd); }
KT_INLINE void v16_unzip(v16 x, v16 y, v16 *even, v16 *odd) {
    *even = V16(even_part(x.a, x.b), even_part(x.c, x.d), even_part(y.a, y.b), even_part(y.c, y.d));
    *odd = V16(odd_part(x.a, x.b), odd_part(x.c, x.d), odd_part(y.a, y.b), odd_part(y.c, y.d));
}
KT_INLINE void v16_zip(v16 even, v16 odd, v16 *x, v16 *y) {
    *x = V16(_mm_unpacklo_ps(even.a, odd.a), _mm_unpackhi_ps(even.a, odd.a),
             _mm_unpacklo_ps(even.b, odd.b), _mm_unpackhi_ps(even.b, odd.b));
    *y = V16(_mm_unpacklo_ps(even.c, odd.c), _mm_unpackhi_ps(even.c, odd.c),
             _mm_unpacklo_ps(even.d, odd.d), _mm_unpackhi_ps(even.d, odd.d));
}

/* keys of bytes are multiplied as words: bytes would need their signs apart */
#define KEYS_AS_WORDS 1
enum { KEY_BIAS = 0 };

/* a + quadruples of products of values' codes v and weights' p, 0 to 127 */
KT_INLINE vi vi_dot_values(vi a, vi v, vi p) {
    return vi_dot16(a, vi_pairs(p, v), _mm_set1_epi16(1));
}

/* a + quadruples of products of codes of 4 bits, 0 to 15, and a query's: of both registers */
KT_INLINE vi vi_dot_halves(vi a, vi low, vi x0, vi high, vi x1) {
    return vi_dot16(a, _mm_add_epi16(vi_pairs(low, x0), vi_pairs(high, x1)), _mm_set1_epi16(1));
}

#endif
