/* The integer dot products of rowdot in 128 bits: weights in their natural order, 16 a register.
 *
 * Owns: the unpacking of one superblock, a quarter at a time, and its sums against a few tokens. For
 * the sse41 tier's files, after simd_sse41.h. */
#ifndef KT_KERNELS_ROWDOT_SSE41_H
#define KT_KERNELS_ROWDOT_SSE41_H

#include "kernels/fetch.h"

/* Types of 32 are summed by blocks, one a vector; those of 256 take pairs of products times i16
 * scales. */
enum { BLOCK_VECS = 8 /* vectors of block sums a group */ };

KT_INLINE bool by_blocks(kt__type type) { return block_bytes(type) < 40; }

KT_INLINE int block_at(kt__type type, int vec, int lane) {
    (void)type, (void)lane;
    return vec;
}

/* Brings 256 activations into the order of q: the natural one. */
KT_INLINE void arrange_act(kt__type type, const int8_t *from, int8_t *to) {
    (void)type;
    memcpy(to, from, 256);
}

/* ---- unpacking of a quarter of a superblock: q[k] holds the 16 weights from quant_at(type, c, k)
 * on, as u8, or signed where they are wide ---- */

/* types whose bytes hold weights of one half, 32 apart: a quarter is 16 of these bytes */
KT_INLINE bool by_halves(kt__type type) {
    return type == KT__TYPE_Q2_K || type == KT__TYPE_Q3_K || type == KT__TYPE_Q6_K;
}

KT_INLINE int quant_at(kt__type type, int c, int k) {
    return by_halves(type) ? c / 2 * 128 + c % 2 * 16 + 32 * k : 64 * c + 16 * k;
}

KT_INLINE void quants_nibbles_k(const uint8_t *qs, int c, vi q[4]) {
    KT_UNROLL for (int m = 0; m < 2; m++) {
        vi x = vi_load(qs + 32 * c + 16 * m);
        q[m] = low_bits(x, 15);
        q[2 + m] = low_bits(vi_shr(x, 4), 15);
    }
}

KT_INLINE void quants_q5_k(const kt__q5_k *b, int c, vi q[4]) {
    quants_nibbles_k(b->qs, c, q);
    KT_UNROLL for (int k = 0; k < 4; k++)
        q[k] = vi_or(q[k], bit_plane(vi_load(b->qh + 16 * (k % 2)), 2 * c + k / 2, 4));
}

KT_INLINE void quants_q6_k(const kt__q6_k *b, int c, vi q[4]) {
    const uint8_t *low = b->ql + c / 2 * 64 + c % 2 * 16;
    vi x = vi_load(low), y = vi_load(low + 32), high = vi_load(b->qh + 16 * c);
    q[0] = vi_or(low_bits(x, 15), low_bits(vi_shl(high, 4), 0x30));
    q[1] = vi_or(low_bits(y, 15), low_bits(vi_shl(high, 2), 0x30));
    q[2] = vi_or(low_bits(vi_shr(x, 4), 15), low_bits(high, 0x30));
    q[3] = vi_or(low_bits(vi_shr(y, 4), 15), low_bits(vi_shr(high, 2), 0x30));
}

KT_INLINE void quants_crumbs(const uint8_t *qs, int c, vi q[4]) {
    vi x = vi_load(qs + 16 * c);
    KT_UNROLL for (int k = 0; k < 4; k++) q[k] = low_bits(vi_shr(x, 2 * k), 3);
}

KT_INLINE void quants_q3_k(const kt__q3_k *b, int c, vi q[4]) {
    vi high = vi_load(b->hmask + c % 2 * 16);
    quants_crumbs(b->qs, c, q);
    KT_UNROLL for (int k = 0; k < 4; k++) q[k] = vi_or(q[k], bit_plane(high, c / 2 * 4 + k, 2));
}

/* 16 bytes for 32 weights: low nibbles, then high ones */
KT_INLINE void quants_piece(const uint8_t *p, vi q[2]) {
    vi x = vi_load(p);
    q[0] = low_bits(x, 15);
    q[1] = low_bits(vi_shr(x, 4), 15);
}

KT_INLINE void quants_iq4_xs(const kt__iq4_xs *b, int c, vi q[4]) {
    quants_piece(b->qs + 32 * c, q);
    quants_piece(b->qs + 32 * c + 16, q + 2);
    KT_UNROLL for (int k = 0; k < 4; k++) q[k] = iq4_values(q[k]);
}

KT_INLINE void quants_q256(kt__type type, const uint8_t *block, int c, vi q[4]) {
    if (is_unpacked(type)) {
        KT_UNROLL for (int k = 0; k < 4; k++) q[k] = vi_load(block + 64 * c + 16 * k);
        return;
    }
    switch (type) {
    case KT__TYPE_Q2_K: quants_crumbs(((const kt__q2_k *)(const void *)block)->qs, c, q); break;
    case KT__TYPE_Q3_K: quants_q3_k((const void *)block, c, q); break;
    case KT__TYPE_Q4_K: quants_nibbles_k(((const kt__q4_k *)(const void *)block)->qs, c, q); break;
    case KT__TYPE_Q5_K: quants_q5_k((const void *)block, c, q); break;
    case KT__TYPE_Q6_K: quants_q6_k((const void *)block, c, q); break;
    default: quants_iq4_xs((const void *)block, c, q); break;
    }
}

/* ---- unpacking of a 32-block ---- */

/* the fifth bits of 16 weights, as bit 4 of each byte */
KT_INLINE vi quants_fifth(vi qh, int half) {
    const vi bit_of = _mm_set1_epi64x((long long)0x8040201008040201);
    const long long a = 0x0101010101010101 * (2 * half), b = a + 0x0101010101010101;
    vi bits = vi_and(vi_shuffle8(qh, _mm_set_epi64x(b, a)), bit_of);
    return low_bits(_mm_cmpeq_epi8(bits, bit_of), 16);
}

KT_INLINE void quants_q32(kt__type type, const uint8_t *block, vi q[2]) {
    const uint8_t *qs = block + qs_offset(type);
    if (type == KT__TYPE_Q8_0) {
        q[0] = vi_load(qs);
        q[1] = vi_load(qs + 16);
        return;
    }
    quants_piece(qs, q);
    KT_UNROLL for (int half = 0; half < 2; half++) {
        q[half] = of_nibbles(type, q[half]);
        if (type != KT__TYPE_Q5_0 && type != KT__TYPE_Q5_1) continue;
        q[half] = vi_or(q[half], quants_fifth(vi_bcast(qs - 4), half));
    }
}

/* one of NVFP4; p: its weights */
KT_INLINE void quants_nvfp4(const uint8_t *p, vi q[2]) {
    vi x = vi_load(p), low = mxfp4_values(low_bits(x, 15)),
       high = mxfp4_values(low_bits(vi_shr(x, 4), 15));
    q[0] = _mm_unpacklo_epi64(low, high);
    q[1] = _mm_unpackhi_epi64(low, high);
}

/* ---- sums ---- */

/* the i16 scale of the 16 weights from `at` on; scale bytes of group i are in dword i/4 of `scale`,
 * LANES apart. Groups of 32 have unsigned ones, but for wide weights. */
KT_INLINE vi scale16(kt__type type, const int32_t *scale, int at) {
    int g = at / (fine_groups(type) ? 16 : 32), k = g % 4;
    vi bytes = vi_bcast(scale + LANES * (g / 4));
    if (!fine_groups(type) && !is_wide(type)) {
        return vi_shuffle8(bytes, _mm_set1_epi16((short)(0xff00 | k)));
    }
    return vi_sar16(vi_shuffle8(bytes, _mm_set1_epi16((short)(k << 8 | 0xff))), 8);
}

/* the products of a quarter with one token's activations x, scaled, added to sum */
KT_INLINE vi dots_quarter(kt__type type, int c, const vi q[4], const vi s[4], const int8_t *x,
                          vi sum) {
    vi pairs[4];
    KT_UNROLL for (int k = 0; k < 4; k++) {
        vi xk = vi_load(x + quant_at(type, c, k));
        pairs[k] = is_wide(type) ? vi_pairs_wide(q[k], xk) : vi_pairs(q[k], xk);
    }
    if (type == KT__TYPE_Q4_K || type == KT__TYPE_Q5_K) { /* four products below 2^14: a group's */
        sum = vi_dot16(sum, s[0], vi_add16(pairs[0], pairs[1]));
        return vi_dot16(sum, s[2], vi_add16(pairs[2], pairs[3]));
    }
    KT_UNROLL for (int k = 0; k < 4; k++) sum = vi_dot16(sum, s[k], pairs[k]);
    return sum;
}

/* part[t]: lanes whose sum is the superblock's sum of scale * weight * activation */
KT_INLINE void dots_scaled(kt__type type, const uint8_t *block, const int32_t *scale,
                           const int8_t *act, int n_tok, vi *part, const kt__fetch *ahead) {
    kt__fetch_all(ahead);
    KT_UNROLL for (int c = 0; c < 4; c++) {
        vi q[4], s[4];
        quants_q256(type, block, c, q);
        KT_UNROLL for (int k = 0; k < 4; k++) s[k] = scale16(type, scale, quant_at(type, c, k));
        KT_ROLLED for (int t = 0; t < n_tok; t++) {
            part[t] = dots_quarter(type, c, q, s, act + 256 * t, c ? part[t] : vi_zero());
        }
    }
}

/* quadruples of products of a block: u below 32, or wide weights */
KT_INLINE vi dot_block(kt__type type, const vi q[2], const vi x[2]) {
    const vi one = _mm_set1_epi16(1);
    if (is_wide(type)) {
        return vi_dot16(_mm_madd_epi16(vi_pairs_wide(q[0], x[0]), one), vi_pairs_wide(q[1], x[1]),
                        one);
    }
    return _mm_madd_epi16(vi_add16(vi_pairs(q[0], x[0]), vi_pairs(q[1], x[1])), one);
}
KT_INLINE vi dots_piece(kt__type type, const uint8_t *block, const vi x[2], words8 *words) {
    vi q[2];
    (void)words;
    quants_q32(type, block, q);
    return dot_block(type, q, x);
}

/* part[vec * LANES + t]: sums to block_at(type, vec, 0), the first halves of blocks before the
 * second ones where they are apart. first, second (unless NULL): as words_of_group */
KT_INLINE void dots_blocks(kt__type type, const uint8_t *block, const int8_t *act, int n_tok,
                           vi *part, words8 *first, words8 *second, const kt__fetch *ahead) {
    kt__fetch_all(ahead);
    words_of_blocks(type, block, first, second);
    KT_UNROLL for (int j = 0; j < 8; j++) {
        vi q[2];
        if (has_halves(type))
            quants_nvfp4(block + nvfp4_qs(j), q);
        else
            quants_q32(type, block + (size_t)j * block_bytes(type), q);
        KT_ROLLED for (int t = 0; t < n_tok; t++) {
            const int8_t *x = act + 256 * t + 32 * j;
            if (!has_halves(type)) {
                const vi halves[2] = {vi_load(x), vi_load(x + 16)};
                part[j * LANES + t] = dot_block(type, q, halves);
                continue;
            }
            KT_UNROLL for (int h = 0; h < 2; h++)
                part[(h * BLOCK_VECS + j) * LANES + t] = _mm_madd_epi16(
                    vi_pairs(q[h], vi_load(x + 16 * h)), _mm_set1_epi16(1));
        }
    }
}

#endif
