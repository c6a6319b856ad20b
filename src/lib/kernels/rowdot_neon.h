/* The integer dot products of rowdot on 64-bit ARM: weights in their natural order, 32 a vector.
 *
 * Owns: the unpacking of one superblock and its sums against a few tokens. For the files of tiers
 * neon, dotprod and i8mm, after their simd header (which has quads). */
#ifndef KT_KERNELS_ROWDOT_NEON_H
#define KT_KERNELS_ROWDOT_NEON_H

#include "kernels/fetch.h"

/* Types of 32 are summed by blocks, one a register; those of 256 by groups, which are added
 * pairwise and then multiplied by their scales. */
enum { BLOCK_VECS = 4 /* vectors of block sums a group */ };

KT_INLINE bool by_blocks(kt__type type) { return block_bytes(type) < 40; }

KT_INLINE int block_at(kt__type type, int vec, int lane) {
    (void)type;
    return 2 * vec + lane;
}

/* Brings 256 activations into the order of q: the natural one. */
KT_INLINE void arrange_act(kt__type type, const int8_t *from, int8_t *to) {
    (void)type;
    memcpy(to, from, 256);
}

/* ---- unpacking: q[j] holds weights 32j..32j+31, as u8 without their offset, or signed ---- */

KT_INLINE void quants_nibbles_k(const uint8_t *qs, vi q[8]) {
    KT_UNROLL for (int i = 0; i < 4; i++) {
        vi x = vi_load(qs + 32 * i);
        q[2 * i] = low_bits(x, 15);
        q[2 * i + 1] = vi_shr8(x, 4);
    }
}

/* bit g of each byte, as bit `to` */
KT_INLINE vi bit_plane8(vi x, int g, int to) {
    return low_bits(g < to ? vi_shl8(x, to - g) : vi_shr8(x, g - to), 1 << to);
}

KT_INLINE void quants_q5_k(const kt__q5_k *b, vi q[8]) {
    vi high = vi_load(b->qh);
    quants_nibbles_k(b->qs, q);
    KT_UNROLL for (int g = 0; g < 8; g++) q[g] = vi_or(q[g], bit_plane8(high, g, 4));
}

KT_INLINE void quants_q6_k(const kt__q6_k *b, vi q[8]) {
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi a = vi_load(b->ql + 64 * i), c = vi_load(b->ql + 64 * i + 32),
           high = vi_load(b->qh + 32 * i);
        vi *to = q + 4 * i;
        to[0] = vi_or(low_bits(a, 15), low_bits(vi_shl8(high, 4), 0x30));
        to[1] = vi_or(low_bits(c, 15), low_bits(vi_shl8(high, 2), 0x30));
        to[2] = vi_or(vi_shr8(a, 4), low_bits(high, 0x30));
        to[3] = vi_or(vi_shr8(c, 4), low_bits(vi_shr8(high, 2), 0x30));
    }
}

KT_INLINE void quants_crumbs(const uint8_t *qs, vi q[8]) {
    KT_UNROLL for (int i = 0; i < 8; i++)
        q[i] = low_bits(vi_shr8(vi_load(qs + i / 4 * 32), i % 4 * 2), 3);
}

KT_INLINE void quants_q3_k(const kt__q3_k *b, vi q[8]) {
    vi high = vi_load(b->hmask);
    quants_crumbs(b->qs, q);
    KT_UNROLL for (int g = 0; g < 8; g++) q[g] = vi_or(q[g], bit_plane8(high, g, 2));
}

/* 16 bytes for 32 weights: low nibbles, then high ones */
KT_INLINE vi quants_piece(const uint8_t *p) {
    vi x = VI(load128(p), load128(p));
    return VI(low_bits(x, 15).a, vi_shr8(x, 4).b);
}

/* the fifth bits of 32 weights, as bit 4 of each byte */
KT_INLINE vi quants_fifth(const uint8_t *qh) { return low_bits(vi_of_bits(qh), 16); }

KT_INLINE void quants_q256(kt__type type, const uint8_t *block, vi q[8]) {
    if (is_unpacked(type)) {
        KT_UNROLL for (int j = 0; j < 8; j++) q[j] = vi_load(block + 32 * j);
        return;
    }
    switch (type) {
    case KT__TYPE_Q2_K: quants_crumbs(((const kt__q2_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q3_K: quants_q3_k((const void *)block, q); break;
    case KT__TYPE_Q4_K: quants_nibbles_k(((const kt__q4_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q5_K: quants_q5_k((const void *)block, q); break;
    case KT__TYPE_Q6_K: quants_q6_k((const void *)block, q); break;
    default:
        KT_UNROLL for (int j = 0; j < 8; j++) {
            q[j] = iq4_values(quants_piece(((const kt__iq4_xs *)(const void *)block)->qs + 16 * j));
        }
    }
}

KT_INLINE vi quants_q32(kt__type type, const uint8_t *block) {
    const uint8_t *qs = block + qs_offset(type);
    if (type == KT__TYPE_Q8_0) return vi_load(qs);
    vi q = quants_piece(qs);
    if (type == KT__TYPE_IQ4_NL || type == KT__TYPE_MXFP4) return of_nibbles(type, q);
    bool fifth = type == KT__TYPE_Q5_0 || type == KT__TYPE_Q5_1; /* they are before the nibbles */
    return fifth ? vi_or(q, quants_fifth(qs - 4)) : q;
}

/* one of NVFP4; p: its weights */
KT_INLINE vi quants_nvfp4(const uint8_t *p) {
    vi x = mxfp4_values(quants_piece(p));
    return VI(zip1_64(x.a, x.b), zip2_64(x.a, x.b));
}

/* ---- sums ---- */

/* 8 scales as i32: the bytes of dwords 2i and 2i + 1 of `scale`, which are LANES apart */
KT_INLINE vi scales8(const int32_t *scale, int i) {
    const int32_t *from = scale + (size_t)(2 * i * LANES);
    int32x2_t bytes = vset_lane_s32(from[LANES], vdup_n_s32(from[0]), 1);
    int16x8_t words = vmovl_s8(vreinterpret_s8_s32(bytes));
    return VI(vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words));
}

/* sums of 16 or 32 products, spread over four lanes */
KT_INLINE int32x4_t dot_half(int32x4_t q, int32x4_t x) {
    return quads(vdupq_n_s32(0), S8(q), S8(x));
}
KT_INLINE int32x4_t dot_both(vi q, vi x) { return quads(dot_half(q.a, x.a), S8(q.b), S8(x.b)); }

/* lanes whose sum is the superblock's sum of scale * weight * activation */
KT_INLINE vi dot_coarse(const vi q[8], vi scale, const int8_t *x) {
    int32x4_t g[8];
    KT_UNROLL for (int j = 0; j < 8; j++) g[j] = dot_both(q[j], vi_load(x + 32 * j));
    return vi_mul(VI(sums4(g[0], g[1], g[2], g[3]), sums4(g[4], g[5], g[6], g[7])), scale);
}
KT_INLINE vi dot_fine(const vi q[8], const vi scale[2], const int8_t *x) {
    vi sum = vi_zero();
    KT_UNROLL for (int i = 0; i < 2; i++) {
        int32x4_t g[8];
        KT_UNROLL for (int j = 0; j < 4; j++) {
            vi w = q[4 * i + j], xj = vi_load(x + 128 * i + 32 * j);
            g[2 * j] = dot_half(w.a, xj.a);
            g[2 * j + 1] = dot_half(w.b, xj.b);
        }
        vi dots = VI(sums4(g[0], g[1], g[2], g[3]), sums4(g[4], g[5], g[6], g[7]));
        sum = vi_add(sum, vi_mul(dots, scale[i]));
    }
    return sum;
}

KT_INLINE void dots_scaled(kt__type type, const uint8_t *block, const int32_t *scale,
                           const int8_t *act, int n_tok, vi *part, const kt__fetch *ahead) {
    kt__fetch_all(ahead);
    vi q[8], s[2];
    quants_q256(type, block, q);
    s[0] = scales8(scale, 0);
    s[1] = fine_groups(type) ? scales8(scale, 1) : s[0];
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        part[t] = fine_groups(type) ? dot_fine(q, s, x) : dot_coarse(q, s[0], x);
    }
}

/* The sums of two blocks of a row, each in a register; x: the activations of each. */
KT_INLINE vi dots_piece(kt__type type, const uint8_t *block, const vi x[2], words8 *words) {
    (void)words;
    return VI(dot_both(quants_q32(type, block), x[0]),
              dot_both(quants_q32(type, block + block_bytes(type)), x[1]));
}

/* part[vec * LANES + t]: register l sums to block_at(type, vec, l), the first halves of blocks before
 * the second ones where they are apart. first, second (unless NULL): as words_of_group */
KT_INLINE void dots_blocks(kt__type type, const uint8_t *block, const int8_t *act, int n_tok,
                           vi *part, words8 *first, words8 *second, const kt__fetch *ahead) {
    kt__fetch_all(ahead);
    vi q[8];
    words_of_blocks(type, block, first, second);
    KT_UNROLL for (int j = 0; j < 8; j++)
        q[j] = has_halves(type) ? quants_nvfp4(block + nvfp4_qs(j))
                                : quants_q32(type, block + (size_t)j * block_bytes(type));
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        KT_UNROLL for (int i = 0; i < 4; i++) {
            vi q0 = q[2 * i], q1 = q[2 * i + 1], x0 = vi_load(x + 64 * i),
               x1 = vi_load(x + 64 * i + 32);
            if (!has_halves(type)) {
                part[i * LANES + t] = VI(dot_both(q0, x0), dot_both(q1, x1));
                continue;
            }
            part[i * LANES + t] = VI(dot_half(q0.a, x0.a), dot_half(q1.a, x1.a));
            part[(BLOCK_VECS + i) * LANES + t] = VI(dot_half(q0.b, x0.b), dot_half(q1.b, x1.b));
        }
    }
}

#endif
