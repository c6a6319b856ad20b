/* Primitives of the 64-bit ARM tiers (Advanced SIMD of any ARMv8 processor).
 *
 * Owns: the primitives of the shared bodies (*.inc) for vectors of 8 dwords, each two registers:
 * vi, vf; the contract's 16 lanes (v16) are four. The products of bytes are the tier's own:
 * simd_neon_mull.h, simd_neon_dotprod.h, simd_neon_i8mm.h. Knows no formats. For the tiers' own
 * files only; any thread. */
#ifndef KT_KERNELS_SIMD_NEON_H
#define KT_KERNELS_SIMD_NEON_H

#include <arm_neon.h>

#include "kernels/simd.h"

enum { LANES = 8, WIDE_BIAS = 0 /* products are of signed bytes */ };
typedef struct vi {
    int32x4_t a, b; /* lanes 0-3, 4-7 */
} vi;
typedef struct vf {
    float32x4_t a, b;
} vf;

#define VI(low, high) ((vi){(low), (high)})
#define VF(low, high) ((vf){(low), (high)})
/* f on both registers of one, two, three vectors */
#define BOTH_1(of, f, x) of(f((x).a), f((x).b))
#define BOTH_2(of, f, x, y) of(f((x).a, (y).a), f((x).b, (y).b))
#define BOTH_3(of, f, x, y, z) of(f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b))

/* registers by what their elements are */
#define S8(x) vreinterpretq_s8_s32(x)
#define S16(x) vreinterpretq_s16_s32(x)
#define S32(x) vreinterpretq_s32_s8(x)

/* ---- integers ---- */
KT_INLINE vi vi_set1(int32_t x) { return VI(vdupq_n_s32(x), vdupq_n_s32(x)); }
KT_INLINE vi vi_zero(void) { return vi_set1(0); }
KT_INLINE vi vi_bytes(int x) {
    int32x4_t bytes = S32(vdupq_n_s8((int8_t)x));
    return VI(bytes, bytes);
}
KT_INLINE int32x4_t load128(const void *p) { return S32(vld1q_s8(p)); }
KT_INLINE vi vi_load(const void *p) { return VI(load128(p), load128((const uint8_t *)p + 16)); }
KT_INLINE void vi_store(void *p, vi x) {
    vst1q_s8(p, S8(x.a));
    vst1q_s8((int8_t *)p + 16, S8(x.b));
}
KT_INLINE vi vi_and(vi a, vi b) { return BOTH_2(VI, vandq_s32, a, b); }
KT_INLINE vi vi_or(vi a, vi b) { return BOTH_2(VI, vorrq_s32, a, b); }
KT_INLINE vi vi_xor(vi a, vi b) { return BOTH_2(VI, veorq_s32, a, b); }
KT_INLINE vi vi_add(vi a, vi b) { return BOTH_2(VI, vaddq_s32, a, b); }
KT_INLINE vi vi_sub(vi a, vi b) { return BOTH_2(VI, vsubq_s32, a, b); }
KT_INLINE vi vi_sub8(vi a, vi b) {
    return VI(S32(vsubq_s8(S8(a.a), S8(b.a))), S32(vsubq_s8(S8(a.b), S8(b.b))));
}
KT_INLINE vi vi_mul(vi a, vi b) { return BOTH_2(VI, vmulq_s32, a, b); }
KT_INLINE vi vi_max(vi a, vi b) { return BOTH_2(VI, vmaxq_s32, a, b); }
/* by the same count everywhere: an immediate where n is a constant */
KT_INLINE vi vi_shl(vi x, int n) {
    return VI((int32x4_t)((uint32x4_t)x.a << n), (int32x4_t)((uint32x4_t)x.b << n));
}
KT_INLINE vi vi_shr(vi x, int n) {
    return VI((int32x4_t)((uint32x4_t)x.a >> n), (int32x4_t)((uint32x4_t)x.b >> n));
}
KT_INLINE vi vi_sar(vi x, int n) { return VI(x.a >> n, x.b >> n); }
KT_INLINE vi vi_shl8(vi x, int n) {
    return VI((int32x4_t)((uint8x16_t)x.a << n), (int32x4_t)((uint8x16_t)x.b << n));
}
KT_INLINE vi vi_shr8(vi x, int n) {
    return VI((int32x4_t)((uint8x16_t)x.a >> n), (int32x4_t)((uint8x16_t)x.b >> n));
}
KT_INLINE int32x4_t dot16_half(int32x4_t a, int16x8_t b, int16x8_t c) {
    int32x4_t low = vmull_s16(vget_low_s16(b), vget_low_s16(c));
    return vaddq_s32(a, vpaddq_s32(low, vmull_high_s16(b, c)));
}
/* a + pairs of i16 products */
KT_INLINE vi vi_dot16(vi a, vi b, vi c) {
    return VI(dot16_half(a.a, S16(b.a), S16(c.a)), dot16_half(a.b, S16(b.b), S16(c.b)));
}
KT_INLINE vi vi_bcast(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return vi_set1(x);
}
KT_INLINE vi vi_iota(void) {
    static const int32_t lanes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    return vi_load(lanes);
}
/* bytes of ones where the bits of these bytes are set */
KT_INLINE vi vi_of_bits(const uint8_t *p) {
    static const uint8_t from[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                     2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    const uint8x16_t bit_of = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t x = vreinterpretq_u8_s32(vi_bcast(p).a);
    uint8x16_t low = vtstq_u8(vqtbl1q_u8(x, vld1q_u8(from)), bit_of);
    uint8x16_t high = vtstq_u8(vqtbl1q_u8(x, vld1q_u8(from + 16)), bit_of);
    return VI(vreinterpretq_s32_u8(low), vreinterpretq_s32_u8(high));
}
/* LANES / 2 times eight bytes */
KT_INLINE int32x4_t words_of_two(const uint64_t *a, const uint64_t *b) {
    return vreinterpretq_s32_u64(vcombine_u64(vld1_u64(a), vld1_u64(b)));
}
KT_INLINE vi vi_of_words(const uint64_t *const *p) {
    return VI(words_of_two(p[0], p[1]), words_of_two(p[2], p[3]));
}
KT_INLINE vi vi_of_dwords(const uint32_t *p) { return vi_load(p); }
/* 128 - x, x from 1 to 127, in bytes whose bits are set */
KT_INLINE vi vi_mirrored(vi x, const uint8_t *bits) {
    vi set = vi_of_bits(bits);
    return vi_sub8(vi_xor(x, vi_and(set, vi_bytes(127))), set);
}
/* bytes of the lanes that idx names */
KT_INLINE uint8x16_t lane_bytes(int32x4_t idx) {
    int32x4_t first = vmulq_s32(idx, vdupq_n_s32(0x04040404));
    return vreinterpretq_u8_s32(vaddq_s32(first, vdupq_n_s32(0x03020100)));
}
/* out lane i = x lane idx[i] */
KT_INLINE vi vi_pick(vi x, vi idx) {
    int8x16x2_t table = {{S8(x.a), S8(x.b)}};
    return VI(S32(vqtbl2q_s8(table, lane_bytes(idx.a))), S32(vqtbl2q_s8(table, lane_bytes(idx.b))));
}

/* ---- LANES floats ---- */
KT_INLINE vf vf_bcast(const float *p) { return VF(vdupq_n_f32(*p), vdupq_n_f32(*p)); }
KT_INLINE vf vf_zero(void) { return VF(vdupq_n_f32(0), vdupq_n_f32(0)); }
KT_INLINE vf vf_load(const float *p) { return VF(vld1q_f32(p), vld1q_f32(p + 4)); }
KT_INLINE void vf_store(float *p, vf x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
}
KT_INLINE vf vf_add(vf a, vf b) { return BOTH_2(VF, vaddq_f32, a, b); }
KT_INLINE vf vf_mul(vf a, vf b) { return BOTH_2(VF, vmulq_f32, a, b); }
KT_INLINE vf vf_fma(vf a, vf b, vf c) { return BOTH_3(VF, vfmaq_f32, c, a, b); }
KT_INLINE vf vf_fnma(vf a, vf b, vf c) { return BOTH_3(VF, vfmsq_f32, c, a, b); }
KT_INLINE vf vf_cvt(vi x) { return BOTH_1(VF, vcvtq_f32_s32, x); }
KT_INLINE vf vf_pick(vf x, vi idx) {
    vi y = vi_pick(BOTH_1(VI, vreinterpretq_s32_f32, x), idx);
    return BOTH_1(VF, vreinterpretq_f32_s32, y);
}
KT_INLINE vf vf_load_n(const float *p, int n) { /* lanes from n on are 0 and not read */
    float part[8] = {0};
    if (n >= 8) return vf_load(p);
    memcpy(part, p, (size_t)n * sizeof *part);
    return vf_load(part);
}
KT_INLINE void vf_store_n(float *p, vf x, int n) {
    float part[8];
    if (n >= 8) {
        vf_store(p, x);
        return;
    }
    vf_store(part, x);
    memcpy(p, part, (size_t)n * sizeof *part);
}
/* the low half of each dword is an f16 */
KT_INLINE float32x4_t from_f16_low(int32x4_t x) {
    return vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(x)));
}
KT_INLINE vf vf_from_f16(const kt__f16 *p) {
    float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p));
    return VF(vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h));
}
KT_INLINE vf vf_from_bf16(const kt__bf16 *p) {
    uint16x8_t h = vld1q_u16(p);
    return VF(vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
              vreinterpretq_f32_u32(vshll_high_n_u16(h, 16)));
}
KT_INLINE vf vf_from_f16_low(vi x) { return BOTH_1(VF, from_f16_low, x); }

/* ---- up to 4 floats, n a constant 1, 2 or 4; the others are zero ---- */
typedef float32x4_t v4;
KT_INLINE v4 v4_zero(void) { return vdupq_n_f32(0); }
KT_INLINE v4 v4_load(const float *p, int n) {
    if (n == 4) return vld1q_f32(p);
    if (n == 2) return vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return vld1q_lane_f32(p, vdupq_n_f32(0), 0);
}
KT_INLINE void v4_store(float *p, v4 x) { vst1q_f32(p, x); }
KT_INLINE v4 v4_add(v4 a, v4 b) { return vaddq_f32(a, b); }
KT_INLINE v4 v4_fma(v4 a, v4 b, v4 c) { return vfmaq_f32(c, a, b); }

/* ---- transposes ---- */

/* (vcombine would take three moves) */
KT_INLINE int32x4_t zip1_64(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
KT_INLINE int32x4_t zip2_64(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
/* out j lane i = the former x i lane j */
KT_INLINE void transpose4(int32x4_t *x0, int32x4_t *x1, int32x4_t *x2, int32x4_t *x3) {
    int32x4_t a = vtrn1q_s32(*x0, *x1), b = vtrn2q_s32(*x0, *x1);
    int32x4_t c = vtrn1q_s32(*x2, *x3), d = vtrn2q_s32(*x2, *x3);
    *x0 = zip1_64(a, c);
    *x1 = zip1_64(b, d);
    *x2 = zip2_64(a, c);
    *x3 = zip2_64(b, d);
}

/* out[j] lane r = dword j of the 16 bytes at row[r] + offset */
KT_INLINE void vi_load_rows16(const uint8_t *const *row, size_t offset, vi out[4]) {
    for (int i = 0; i < 4; i++) {
        out[i] = VI(load128(row[i] + offset), load128(row[4 + i] + offset));
    }
    transpose4(&out[0].a, &out[1].a, &out[2].a, &out[3].a);
    transpose4(&out[0].b, &out[1].b, &out[2].b, &out[3].b);
}

/* the same of 32 bytes */
KT_INLINE void vi_load_rows32(const uint8_t *const *row, size_t offset, vi out[8]) {
    vi_load_rows16(row, offset, out);
    vi_load_rows16(row, offset + 16, out + 4);
}

/* lane i = the sum of the lanes of x i */
KT_INLINE int32x4_t sums4(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3) {
    return vpaddq_s32(vpaddq_s32(x0, x1), vpaddq_s32(x2, x3));
}
/* out[l] lane i = the sum of register l of x[i] */
KT_INLINE void vi_reduce_lanes(const vi *x, vi out[2]) {
    out[0] = VI(sums4(x[0].a, x[1].a, x[2].a, x[3].a), sums4(x[4].a, x[5].a, x[6].a, x[7].a));
    out[1] = VI(sums4(x[0].b, x[1].b, x[2].b, x[3].b), sums4(x[4].b, x[5].b, x[6].b, x[7].b));
}
/* lane i = the sum of the lanes of x[i] */
KT_INLINE vi vi_reduce(const vi *x) {
    int32x4_t sum[8];
    KT_UNROLL for (int i = 0; i < 8; i++) sum[i] = vaddq_s32(x[i].a, x[i].b);
    return VI(sums4(sum[0], sum[1], sum[2], sum[3]), sums4(sum[4], sum[5], sum[6], sum[7]));
}

/* ---- what lanes.inc leaves to the processor family ---- */
#define KT_OWN_WORDS
typedef int16x8_t words8; /* eight words of a group of eight 32-blocks */

/* of 16 bytes */
KT_INLINE int sum_of_half(const uint8_t *x) { return vaddlvq_s8(S8(load128(x))); }

KT_INLINE int32x4_t widened_bytes(int32x4_t x, int8x16_t idx) {
    return (int32x4_t)((int16x8_t)vqtbl1q_s8(S8(x), (uint8x16_t)idx) >> 8);
}
/* bytes 2k and 2k + 1 of each dword as a pair of i16 */
KT_INLINE vi pair_of_bytes(vi x, int k) {
    static const int8_t at[2][16] = {{-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13},
                                     {-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15}};
    int8x16_t idx = vld1q_s8(at[k]);
    return VI(widened_bytes(x.a, idx), widened_bytes(x.b, idx));
}
KT_INLINE words8 words_at(size_t pitch, const uint8_t *p, const uint8_t *last) {
    uint64_t half[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        uint16_t word[4];
        KT_UNROLL for (int j = 0; j < 4; j++)
            memcpy(word + j, 4 * i + j == 7 ? last : p + (size_t)(4 * i + j) * pitch, 2);
        half[i] = word[0] | (uint64_t)word[1] << 16 | (uint64_t)word[2] << 32 |
                  (uint64_t)word[3] << 48;
    }
    return vcombine_s16(vcreate_s16(half[0]), vcreate_s16(half[1]));
}
/* The words at offset 0 (first), and 2 (second, unless NULL), of eight blocks `pitch` apart. */
KT_INLINE void words_of_group(size_t pitch, const uint8_t *p, words8 *first, words8 *second) {
    *first = words_at(pitch, p, p + 7 * pitch);
    if (second) *second = words_at(pitch, p + 2, p + 7 * pitch + 2);
}
/* Those of a block of each of eight rows, the last one at `last`. */
KT_INLINE void words_of_rows(size_t pitch, const uint8_t *p, const uint8_t *last, words8 *first,
                             words8 *second) {
    *first = words_at(pitch, p, last);
    *second = words_at(pitch, p + 2, last + 2);
}
KT_INLINE vf vf_of_words(words8 halves) {
    float16x8_t h = vreinterpretq_f16_s16(halves);
    return VF(vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h));
}
KT_INLINE int32x4_t fifths_of(int32x4_t x, int byte) {
    static const uint8_t first[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    uint8x16_t at = vaddq_u8(vld1q_u8(first), vdupq_n_u8((uint8_t)byte));
    uint8x16_t bit = vandq_u8(vqtbl1q_u8((uint8x16_t)x, at), (uint8x16_t)vdupq_n_u32(0x80402010));
    return (int32x4_t)vminq_u8(bit, vdupq_n_u8(16));
}
/* Bits 4m to 4m + 3 of each dword of x, each as bit 4 of a byte; up: x shifted by 4, so that they are among each byte's
 * upper bits either way, where the lesser of a bit and 16 is 16 or nothing. */
KT_INLINE vi fifth_bits(vi x, vi up, int m) {
    vi bits = m % 2 ? x : up;
    return VI(fifths_of(bits.a, m / 2), fifths_of(bits.b, m / 2));
}
/* the table of IQ4 */
KT_INLINE vi iq4_values(vi nibbles) {
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    int8x16_t table = vld1q_s8(values);
    return VI(S32(vqtbl1q_s8(table, (uint8x16_t)nibbles.a)),
              S32(vqtbl1q_s8(table, (uint8x16_t)nibbles.b)));
}

/* the table of MXFP4, 12 added */
KT_INLINE vi mxfp4_values(vi nibbles) {
    static const int8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    int8x16_t table = vld1q_s8(values);
    return VI(S32(vqtbl1q_s8(table, (uint8x16_t)nibbles.a)),
              S32(vqtbl1q_s8(table, (uint8x16_t)nibbles.b)));
}

/* ---- the contract's 16 lanes ---- */
typedef struct v16 {
    float32x4_t a, b, c, d; /* lanes 0-3, 4-7, 8-11, 12-15 */
} v16;
typedef struct m16 {
    uint32x4_t a, b, c, d; /* all ones or zeros */
} m16;

#define V16(a, b, c, d) ((v16){(a), (b), (c), (d)})
#define M16(a, b, c, d) ((m16){(a), (b), (c), (d)})
#define ALL_1(of, f, x) of(f((x).a), f((x).b), f((x).c), f((x).d))
#define ALL_2(of, f, x, y) of(f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d))
#define ALL_3(of, f, x, y, z)                                                  \
    of(f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c), \
       f((x).d, (y).d, (z).d))

KT_INLINE v16 v16_set1(float x) {
    float32x4_t q = vdupq_n_f32(x);
    return V16(q, q, q, q);
}
KT_INLINE v16 v16_zero(void) { return v16_set1(0); }
KT_INLINE v16 v16_load(const float *p) {
    return V16(vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12));
}
KT_INLINE v16 v16_load_n(const float *p, int n) {
    float part[16] = {0};
    if (n >= 16) return v16_load(p);
    memcpy(part, p, (size_t)n * sizeof *part);
    return v16_load(part);
}
KT_INLINE void v16_store(float *p, v16 x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
KT_INLINE void v16_store_n(float *p, v16 x, int n) {
    float part[16];
    if (n >= 16) {
        v16_store(p, x);
        return;
    }
    v16_store(part, x);
    memcpy(p, part, (size_t)n * sizeof *part);
}
KT_INLINE v16 v16_add(v16 x, v16 y) { return ALL_2(V16, vaddq_f32, x, y); }
KT_INLINE v16 v16_sub(v16 x, v16 y) { return ALL_2(V16, vsubq_f32, x, y); }
KT_INLINE v16 v16_mul(v16 x, v16 y) { return ALL_2(V16, vmulq_f32, x, y); }
KT_INLINE v16 v16_div(v16 x, v16 y) { return ALL_2(V16, vdivq_f32, x, y); }
KT_INLINE v16 v16_fma(v16 x, v16 y, v16 z) { return ALL_3(V16, vfmaq_f32, z, x, y); }
KT_INLINE m16 m16_lt(v16 x, v16 y) { return ALL_2(M16, vcltq_f32, x, y); }
KT_INLINE m16 m16_le(v16 x, v16 y) { return ALL_2(M16, vcleq_f32, x, y); }
KT_INLINE m16 m16_eq(v16 x, v16 y) { return ALL_2(M16, vceqq_f32, x, y); }
KT_INLINE m16 m16_unordered(v16 x) {
    m16 ordered = m16_eq(x, x);
    return ALL_1(M16, vmvnq_u32, ordered);
}
KT_INLINE v16 v16_select(m16 m, v16 yes, v16 no) { return ALL_3(V16, vbslq_f32, m, yes, no); }
/* the bodies want the second operand where they are equal or one is NaN, which FMAX does not give
 */
KT_INLINE v16 v16_max(v16 x, v16 y) { return v16_select(m16_lt(y, x), x, y); }
KT_INLINE v16 v16_min(v16 x, v16 y) { return v16_select(m16_lt(x, y), x, y); }
KT_INLINE v16 v16_abs(v16 x) { return ALL_1(V16, vabsq_f32, x); }
/* the greater of top and |x|, compared as integers: a NaN is the greatest; top has no sign */
KT_INLINE float32x4_t f32_max_bits(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
KT_INLINE v16 v16_max_abs(v16 top, v16 x) { return ALL_2(V16, f32_max_bits, top, v16_abs(x)); }
KT_INLINE v16 v16_neg(v16 x) { return ALL_1(V16, vnegq_f32, x); }
KT_INLINE v16 v16_copysign(v16 magnitude, v16 sign) {
    uint32x4_t bit = vdupq_n_u32(0x80000000u);
    return v16_select(M16(bit, bit, bit, bit), sign, magnitude);
}
KT_INLINE uint32x4_t range_part(vi lane, int lo, int hi) {
    return vandq_u32(vcgeq_s32(lane.a, vdupq_n_s32(lo)), vcltq_s32(lane.a, vdupq_n_s32(hi)));
}
KT_INLINE m16 m16_range(int lo, int hi) { /* lanes lo..hi-1 */
    vi lane = vi_iota();
    return M16(range_part(lane, lo, hi), range_part(lane, lo - 4, hi - 4),
               range_part(lane, lo - 8, hi - 8), range_part(lane, lo - 12, hi - 12));
}
KT_INLINE unsigned m16_bits(m16 m) {
    static const uint32_t bits[4] = {1, 2, 4, 8};
    uint32x4_t bit = vld1q_u32(bits);
    uint32x4_t ab = vorrq_u32(vandq_u32(m.a, bit), vandq_u32(m.b, vshlq_n_u32(bit, 4)));
    uint32x4_t cd = vorrq_u32(vandq_u32(m.c, vshlq_n_u32(bit, 8)),
                              vandq_u32(m.d, vshlq_n_u32(bit, 12)));
    return vaddvq_u32(vorrq_u32(ab, cd));
}
KT_INLINE float32x4_t exponent_add_part(float32x4_t x, float32x4_t shifted) {
    uint32x4_t n = vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x), n));
}
/* x * 2^n for a product that is normal, or infinity with x a power of 2: n, the integer that the
 * shift trick left in the low bits of `shifted`, is added to x's exponent */
KT_INLINE v16 v16_exponent_add(v16 x, v16 shifted) {
    return ALL_2(V16, exponent_add_part, x, shifted);
}
/* lanes i and i + 8, then + 4, + 2, + 1 */
KT_INLINE float v16_tree(v16 x) {
    float32x4_t y = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    return vpadds_f32(vadd_f32(vget_low_f32(y), vget_high_f32(y)));
}
/* v16_tree of four */
KT_INLINE v4 v16_trees(const v16 x[4]) {
    float32x4_t y[4];
    KT_UNROLL for (int i = 0; i < 4; i++)
        y[i] = vaddq_f32(vaddq_f32(x[i].a, x[i].c), vaddq_f32(x[i].b, x[i].d));
    float32x4x2_t p = vzipq_f32(y[0], y[2]), q = vzipq_f32(y[1], y[3]);
    float32x4x2_t low = vzipq_f32(p.val[0], q.val[0]), high = vzipq_f32(p.val[1], q.val[1]);
    return vaddq_f32(vaddq_f32(low.val[0], high.val[0]), vaddq_f32(low.val[1], high.val[1]));
}
KT_INLINE float v16_hmax(v16 x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}

KT_INLINE v16 v16_from_f16(const kt__f16 *p) {
    vf low = vf_from_f16(p), high = vf_from_f16(p + 8);
    return V16(low.a, low.b, high.a, high.b);
}
KT_INLINE v16 v16_from_f16_n(const kt__f16 *p, int n) {
    kt__f16 part[16] = {0};
    memcpy(part, p, (size_t)n * sizeof *part);
    return v16_from_f16(part);
}
KT_INLINE void v16_to_f16_n(kt__f16 *p, v16 x, int n) {
    kt__f16 part[16];
    vst1q_u16(part, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
    vst1q_u16(part + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d)));
    memcpy(p, part, (size_t)n * sizeof *part);
}
KT_INLINE v16 v16_from_bf16(const kt__bf16 *p) {
    vf low = vf_from_bf16(p), high = vf_from_bf16(p + 8);
    return V16(low.a, low.b, high.a, high.b);
}
KT_INLINE v16 v16_from_bf16_n(const kt__bf16 *p, int n) {
    kt__bf16 part[16] = {0};
    memcpy(part, p, (size_t)n * sizeof *part);
    return v16_from_bf16(part);
}
/* x is within +-127.5: 16 bytes at q, rounded to nearest even */
KT_INLINE void v16_to_i8(int8_t *q, v16 x) {
    int16x4_t a = vmovn_s32(vcvtnq_s32_f32(x.a)), b = vmovn_s32(vcvtnq_s32_f32(x.b));
    int16x4_t c = vmovn_s32(vcvtnq_s32_f32(x.c)), d = vmovn_s32(vcvtnq_s32_f32(x.d));
    vst1q_s8(q, vcombine_s8(vmovn_s16(vcombine_s16(a, b)), vmovn_s16(vcombine_s16(c, d))));
}
/* of 256 bytes: s16 the sums of each 16, s32 of each 32 */
KT_INLINE void i8_sums(const int8_t *q, int16_t *s16, int16_t *s32) {
    KT_UNROLL for (int i = 0; i < 16; i++) s16[i] = vaddlvq_s8(vld1q_s8(q + 16 * i));
    vst1q_s16(s32, vpaddq_s16(vld1q_s16(s16), vld1q_s16(s16 + 8)));
}
/* even and odd elements of 32 floats, and back */
KT_INLINE void v16_unzip(v16 x, v16 y, v16 *even, v16 *odd) {
    *even = V16(vuzp1q_f32(x.a, x.b), vuzp1q_f32(x.c, x.d), vuzp1q_f32(y.a, y.b),
                vuzp1q_f32(y.c, y.d));
    *odd = V16(vuzp2q_f32(x.a, x.b), vuzp2q_f32(x.c, x.d), vuzp2q_f32(y.a, y.b),
               vuzp2q_f32(y.c, y.d));
}
KT_INLINE void v16_zip(v16 even, v16 odd, v16 *x, v16 *y) {
    *x = V16(vzip1q_f32(even.a, odd.a), vzip2q_f32(even.a, odd.a), vzip1q_f32(even.b, odd.b),
             vzip2q_f32(even.b, odd.b));
    *y = V16(vzip1q_f32(even.c, odd.c), vzip2q_f32(even.c, odd.c), vzip1q_f32(even.d, odd.d),
             vzip2q_f32(even.d, odd.d));
}

#endif
