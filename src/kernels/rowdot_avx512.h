/* The integer dot products of rowdot for AVX-512: weights in their natural order, 64 a register.
 *
 * Owns: the unpacking of one superblock and its sums against a few tokens. For tier_avx512*.c only.
 */
#ifndef KT_KERNELS_ROWDOT_AVX512_H
#define KT_KERNELS_ROWDOT_AVX512_H

#include "kernels/simd_avx512.h"

/* ---- unpacking: q[j] holds 64 weights as u8: 64j..64j+63, but for Q4_K and Q5_K as arrange_act
 * says ---- */

KT_INLINE vi dup256(const void *p) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}
/* one byte shift for each half of 32 bytes (the caller masks what crosses bytes) */
KT_INLINE vi halves16(int low, int high) {
    return _mm512_inserti64x4(_mm512_set1_epi16((short)low), _mm256_set1_epi16((short)high), 1);
}

/* The order of 256 activations that matches q. Q4_K and Q5_K: groups 0 2 1 3 4 6 5 7, as a register
 * of nibbles has them. */
KT_INLINE void arrange_act(kt__type type, const int8_t *from, int8_t *to) {
    static const int nibbles[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    bool reorder = type == KT__TYPE_Q4_K || type == KT__TYPE_Q5_K;
    for (int g = 0; g < 8; g++) memcpy(to + 32 * g, from + 32 * (reorder ? nibbles[g] : g), 32);
}

KT_INLINE void quants_nibbles_k(const uint8_t *qs, vi q[4]) {
    for (int i = 0; i < 2; i++) {
        vi x = vi_load(qs + 64 * i);
        q[2 * i] = low_bits(x, 15);
        q[2 * i + 1] = low_bits(vi_shr(x, 4), 15);
    }
}

KT_INLINE void quants_q5_k(const kt__q5_k *b, vi q[4]) {
    vi high = dup256(b->qh);
    quants_nibbles_k(b->qs, q);
    q[0] = vi_or(q[0], low_bits(_mm512_sllv_epi16(high, halves16(4, 2)), 16));
    q[1] = vi_or(q[1], low_bits(_mm512_sllv_epi16(high, halves16(3, 1)), 16));
    q[2] = vi_or(q[2], low_bits(_mm512_srlv_epi16(high, halves16(0, 2)), 16));
    q[3] = vi_or(q[3], low_bits(_mm512_srlv_epi16(high, halves16(1, 3)), 16));
}

KT_INLINE void quants_q6_k(const kt__q6_k *b, vi q[4]) {
    for (int i = 0; i < 2; i++) {
        vi low = vi_load(b->ql + 64 * i), high = dup256(b->qh + 32 * i);
        vi h0 = _mm512_sllv_epi16(high, halves16(4, 2)),
           h1 = _mm512_srlv_epi16(high, halves16(0, 2));
        q[2 * i] = vi_or(low_bits(low, 15), low_bits(h0, 0x30));
        q[2 * i + 1] = vi_or(low_bits(vi_shr(low, 4), 15), low_bits(h1, 0x30));
    }
}

KT_INLINE void quants_crumbs(const uint8_t *qs, vi q[4]) {
    for (int i = 0; i < 2; i++) {
        vi x = dup256(qs + 32 * i);
        q[2 * i] = low_bits(_mm512_srlv_epi16(x, halves16(0, 2)), 3);
        q[2 * i + 1] = low_bits(_mm512_srlv_epi16(x, halves16(4, 6)), 3);
    }
}

KT_INLINE void quants_q3_k(const kt__q3_k *b, vi q[4]) {
    vi high = dup256(b->hmask);
    quants_crumbs(b->qs, q);
    q[0] = vi_or(q[0], low_bits(_mm512_sllv_epi16(high, halves16(2, 1)), 4));
    q[1] = vi_or(q[1], low_bits(_mm512_srlv_epi16(high, halves16(0, 1)), 4));
    q[2] = vi_or(q[2], low_bits(_mm512_srlv_epi16(high, halves16(2, 3)), 4));
    q[3] = vi_or(q[3], low_bits(_mm512_srlv_epi16(high, halves16(4, 5)), 4));
}

/* two pieces of 16 bytes, each for 32 weights: low nibbles, then high ones */
KT_INLINE vi quants_pieces(const uint8_t *a, const uint8_t *b) {
    vi x = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)a));
    x = _mm512_mask_broadcast_i32x4(x, 0xff00, _mm_loadu_si128((const __m128i *)(const void *)b));
    vi shift = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    return low_bits(_mm512_srlv_epi64(x, shift), 15);
}

KT_INLINE void quants_q256(kt__type type, const uint8_t *block, vi q[4]) {
    switch (type) {
    case KT__TYPE_Q2_K: quants_crumbs(((const kt__q2_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q3_K: quants_q3_k((const void *)block, q); break;
    case KT__TYPE_Q4_K: quants_nibbles_k(((const kt__q4_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q5_K: quants_q5_k((const void *)block, q); break;
    case KT__TYPE_Q6_K: quants_q6_k((const void *)block, q); break;
    default:
        for (int j = 0; j < 4; j++) {
            const uint8_t *qs = ((const kt__iq4_xs *)(const void *)block)->qs + 32 * j;
            q[j] = iq4_values(quants_pieces(qs, qs + 16));
        }
    }
}

/* Blocks 2j and 2j + 1 of a group. */
KT_INLINE vi quants_q32(kt__type type, const uint8_t *block, int j) {
    size_t pitch = block_bytes(type), qs = qs_offset(type);
    const uint8_t *a = block + 2 * (size_t)j * pitch, *b = a + pitch;
    if (type == KT__TYPE_Q8_0) return vi_xor(vi_load_pieces32(a + qs, pitch), vi_bytes(WIDE_BIAS));
    vi q = quants_pieces(a + qs, b + qs);
    if (type == KT__TYPE_IQ4_NL) return iq4_values(q);
    if (type == KT__TYPE_Q4_0 || type == KT__TYPE_Q4_1) return q;
    uint32_t low, high;
    memcpy(&low, a + qs - 4, sizeof low);
    memcpy(&high, b + qs - 4, sizeof high);
    return _mm512_mask_add_epi8(q, (__mmask64)high << 32 | low, q, vi_bytes(16));
}

/* ---- sums ---- */

/* i16 scales for the products of q[j], whose scale bytes are in dwords of `scale`, LANES apart */
KT_INLINE vi scales16(kt__type type, const int32_t *scale, int j) {
    if (fine_groups(type)) {
        const vi each = _mm512_inserti64x4(
            _mm512_castsi256_si512(
                _mm256_setr_m128i(_mm_set1_epi16(0x00ff), _mm_set1_epi16(0x01ff))),
            _mm256_setr_m128i(_mm_set1_epi16(0x02ff), _mm_set1_epi16(0x03ff)), 1);
        return vi_sar16(vi_shuffle8(vi_bcast(scale + LANES * j), each), 8);
    }
    int g = j % 2; /* groups g and g + 2 of four; unsigned, below 64 */
    return vi_shuffle8(vi_bcast(scale + LANES * (j / 2)),
                       halves16((short)(0xff00 | g), (short)(0xff02 | g)));
}

/* Q6_K's stand in the block, in order */
KT_INLINE void scales_q6_k(const kt__q6_k *b, vi s[4]) {
    __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b->scales));
    const long long each = 0x0001000100010001;
    vi all = _mm512_castsi256_si512(words);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        vi idx = _mm512_set_epi64((4 * j + 3) * each, (4 * j + 3) * each, (4 * j + 2) * each,
                                  (4 * j + 2) * each, (4 * j + 1) * each, (4 * j + 1) * each,
                                  4 * j * each, 4 * j * each);
        s[j] = _mm512_permutexvar_epi16(idx, all);
    }
}

KT_INLINE vi scales32(const int32_t *scale, int j) {
    vi two = _mm512_inserti64x4(_mm512_set1_epi32(j % 2 ? 0x02ffffff : 0x00ffffff),
                                _mm256_set1_epi32(j % 2 ? 0x03ffffff : 0x01ffffff), 1);
    return vi_sar(vi_shuffle8(vi_bcast(scale + LANES * (j / 2)), two), 24);
}

/* part[t]: lanes whose sum is the superblock's sum of scale * u8 * activation */
KT_INLINE void dots_q256(kt__type type, const uint8_t *block, const int32_t *scale,
                         const int8_t *act, int n_tok, vi *part) {
    vi q[4], s[4];
    bool wide = is_wide(type); /* pairs of products exceed i16 */
    quants_q256(type, block, q);
    if (type == KT__TYPE_Q6_K)
        scales_q6_k((const void *)block, s);
    else
        KT_UNROLL for (int j = 0; j < 4; j++) s[j] =
            wide ? scales32(scale, j) : scales16(type, scale, j);
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        vi sum = vi_zero();
        KT_UNROLL for (int j = 0; j < 4; j++) {
            vi xj = vi_load(x + 64 * j);
            if (wide) {
                vi scaled = vi_mul(s[j], vi_dot8(vi_zero(), q[j], xj));
                sum = j ? vi_add(sum, scaled) : scaled;
            } else {
                vi pairs = _mm512_maddubs_epi16(q[j], xj);
                sum = j ? vi_dot16(sum, s[j], pairs) : _mm512_madd_epi16(s[j], pairs);
            }
        }
        part[t] = sum;
    }
}

/* part[t]: 128-bit lanes 0 and 1 sum to blocks 0, 2, 4, 6 of the group; 2 and 3 to blocks 1, 3, 5,
 * 7 */
KT_INLINE void dots_q32(kt__type type, const uint8_t *block, const int8_t *act, int n_tok,
                        vi *part) {
    vi q[4];
    KT_UNROLL for (int j = 0; j < 4; j++) q[j] = quants_q32(type, block, j);
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        vi s[4];
        KT_UNROLL for (int j = 0; j < 4; j++) s[j] = vi_dot8(vi_zero(), q[j], vi_load(x + 64 * j));
        vi a = vi_add(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
        vi b = vi_add(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
        part[t] = vi_add(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
}

/* sum[j] lane i = block j of part[i] */
KT_INLINE void sums_of_blocks(const vi *part, vi sum[8]) {
    vi f[8];
    KT_UNROLL for (int k = 0; k < 8; k++) {
        const vi *a = part + (k < 4 ? k : k + 4);
        f[k] =
            vi_add(_mm512_shuffle_i32x4(a[0], a[4], 0x88), _mm512_shuffle_i32x4(a[0], a[4], 0xdd));
    }
    vi_transpose4(f);
    vi_transpose4(f + 4);
    KT_UNROLL for (int i = 0; i < 4; i++) {
        sum[2 * i] = _mm512_shuffle_i32x4(f[i], f[4 + i], 0x88);
        sum[2 * i + 1] = _mm512_shuffle_i32x4(f[i], f[4 + i], 0xdd);
    }
}

#endif
