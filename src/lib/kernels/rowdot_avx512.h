/* The integer dot products of rowdot for AVX-512: weights in their natural order, 64 a register.
 *
 * Owns: the unpacking of one superblock and its sums against a few tokens. For tier_avx512*.c only.
 */
#ifndef KT_KERNELS_ROWDOT_AVX512_H
#define KT_KERNELS_ROWDOT_AVX512_H

#include "kernels/simd_avx512.h"

#include "kernels/fetch.h"

/* 32-blocks, and IQ4_XS, are summed by blocks: a 128-bit lane holds half a block, so that two
 * products end in lanes of one block each, and scales are applied when blocks are in lanes. The
 * others take pairs of products times i16 scales. */
enum { BLOCK_VECS = 2 /* vectors of block sums a superblock */ };

KT_INLINE bool by_blocks(kt__type type) { return block_bytes(type) < 40 || is_wide(type); }

KT_INLINE int block_at(kt__type type, int vec, int lane) {
    (void)type;
    return 4 * vec + lane;
}

/* Nibbles in 18 bytes a block: each register has eight weights of each of eight blocks, so that one
 * register takes all sums. 128-bit lane l has two dwords of blocks l and 4 + l, by turns. */
#define KT_OWN_PAIRS
KT_INLINE bool in_pairs(kt__type type) { return type == KT__TYPE_Q4_0 || type == KT__TYPE_IQ4_NL; }
KT_INLINE void sum_pairs(const vi part[LANES], vi sum[8]) {
    vi low[4], high[4];
    KT_UNROLL for (int i = 0; i < 4; i++) {
        const vi *x = part + 4 * i;
        vi a = vi_add(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
        vi b = vi_add(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
        low[i] = _mm512_unpacklo_epi64(a, b);
        high[i] = _mm512_unpackhi_epi64(a, b);
    }
    vi_lanes_apart(low, sum);
    vi_lanes_apart(high, sum + 4);
}

/* to[256 / n * k + j]: from[n j + k]; n is 8 or 4 */
KT_INLINE void arrange_interleaved(int n, const int8_t *from, int8_t *to) {
    for (int i = 0; i < 4; i++) {
        vi x = vi_load(from + 64 * i);
        for (int k = 0; k < n; k++) {
            int8_t *at = to + 256 / n * k + 64 / n * i;
            if (n == 4)
                _mm_storeu_si128((__m128i *)(void *)at,
                                 _mm512_cvtepi32_epi8(_mm512_srli_epi32(x, 8 * (unsigned)k)));
            else
                _mm_storel_epi64((__m128i *)(void *)at,
                                 _mm512_cvtepi64_epi8(_mm512_srli_epi64(x, 8 * (unsigned)k)));
        }
    }
}

/* Brings 256 activations into the order of the weights in q: by halves of blocks; of Q4_K and Q5_K
 * groups 0 2 1 3 4 6 5 7, as a register of nibbles has them. */
KT_INLINE void arrange_act(kt__type type, const int8_t *from, int8_t *to) {
    static const int nibbles[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    switch (type) {
    case KT__TYPE_Q1_0: arrange_interleaved(8, from, to); return;
    case KT__TYPE_Q2_0: arrange_interleaved(4, from, to); return;
    case KT__TYPE_Q2_K:
    case KT__TYPE_Q3_K:
    case KT__TYPE_TQ2_0: /* both halves' crumbs in one register */
        for (int i = 0; i < 8; i++) memcpy(to + 64 * (i % 4) + 32 * (i / 4), from + 32 * i, 32);
        return;
    case KT__TYPE_TQ1_0: /* the digits of 48 bytes, and of 4, which have one less */
        for (int k = 0; k < 5; k++) {
            memcpy(to + 52 * k, from + 32 * k, 32);
            memcpy(to + 52 * k + 32, from + 160 + 16 * k, 16);
            if (k < 4) memcpy(to + 52 * k + 48, from + 240 + 4 * k, 4);
        }
        return;
    default: break;
    }
    if (in_pairs(type)) { /* [register][lane][dword of two blocks by turns] */
        static const int first[4] = {0, 16, 8, 24};
        for (int i = 0; i < 64; i++) {
            int block = i % 2 * 4 + i / 4 % 4;
            memcpy(to + 4 * i, from + 32 * block + first[i / 16] + i % 4 / 2 * 4, 4);
        }
        return;
    }
    bool reorder = type == KT__TYPE_Q4_K || type == KT__TYPE_Q5_K;
    if (!by_blocks(type)) {
        for (int g = 0; g < 8; g++) memcpy(to + 32 * g, from + 32 * (reorder ? nibbles[g] : g), 32);
        return;
    }
    for (int i = 0; i < 16; i++) { /* 16 bytes each: [vec][half][lane] */
        memcpy(to + 16 * i, from + 128 * (i / 8) + 32 * (i % 4) + 16 * (i / 4 % 2), 16);
    }
}

/* ---- unpacking: q[j] holds 64 weights as u8 ---- */

KT_INLINE vi dup256(const void *p) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}
/* one byte shift for each half of 32 bytes (the caller masks what crosses bytes) */
KT_INLINE vi halves16(int low, int high) {
    return _mm512_inserti64x4(_mm512_set1_epi16((short)low), _mm256_set1_epi16((short)high), 1);
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
        vi h0 = _mm512_sllv_epi16(high, halves16(4, 2));
        vi h1 = _mm512_srlv_epi16(high, halves16(0, 2));
        q[2 * i] = vi_or(low_bits(low, 15), low_bits(h0, 0x30));
        q[2 * i + 1] = vi_or(low_bits(vi_shr(low, 4), 15), low_bits(h1, 0x30));
    }
}

/* a where the bits of mask are set, b elsewhere */
KT_INLINE vi bits_of_either(int mask, vi a, vi b) {
    return _mm512_ternarylogic_epi32(vi_bytes(mask), a, b, 0xca);
}

/* Times their scales, which are below 16: each is looked up in its group's four products. */
KT_INLINE void quants_q2_k(const kt__q2_k *b, vi q[4]) {
    const __m128i by_lane = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    __m128i scale = _mm_loadu_si128((const __m128i *)(const void *)b->scales);
    scale = _mm_shuffle_epi8(_mm_and_si128(scale, _mm_set1_epi8(15)), by_lane);
    vi products = vi_mul(_mm512_cvtepu8_epi32(scale), vi_set1(0x03020100)), x = vi_load(b->qs);
    KT_UNROLL for (int k = 0; k < 4; k++)
        q[k] = vi_shuffle8(products, vi_or(low_bits(vi_shr(x, 2 * k), 3), vi_bytes(4 * k)));
}

KT_INLINE void quants_q3_k(const kt__q3_k *b, vi q[4]) {
    vi x = vi_load(b->qs), high = _mm512_srlv_epi16(dup256(b->hmask), halves16(0, 4));
    KT_UNROLL for (int k = 0; k < 4; k++) {
        vi third = k < 2 ? vi_shl(high, 2 - k) : vi_shr(high, k - 2);
        q[k] = low_bits(bits_of_either(3, vi_shr(x, 2 * k), third), 7);
    }
}

/* 64 nibbles of 32-blocks: first halves of blocks, and second ones */
KT_INLINE void quants_of_nibbles(kt__type type, vi x, vi q[2]) {
    q[0] = of_nibbles(type, low_bits(x, 15));
    q[1] = of_nibbles(type, low_bits(vi_shr(x, 4), 15));
}

#include "kernels/rowdot_blocks_avx512.h"

/* A superblock. */
KT_INLINE void quants_super(kt__type type, const uint8_t *block, vi q[4]) {
    if (is_unpacked(type)) {
        for (int i = 0; i < 4; i++) q[i] = vi_load(block + 64 * i);
        return;
    }
    switch (type) {
    case KT__TYPE_Q2_K: quants_q2_k((const void *)block, q); break;
    case KT__TYPE_Q3_K: quants_q3_k((const void *)block, q); break;
    case KT__TYPE_Q4_K: quants_nibbles_k(((const kt__q4_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q5_K: quants_q5_k((const void *)block, q); break;
    case KT__TYPE_Q6_K: quants_q6_k((const void *)block, q); break;
    default:
        for (int i = 0; i < 2; i++) {
            vi x = vi_load(((const kt__iq4_xs *)(const void *)block)->qs + 64 * i);
            quants_of_nibbles(type, x, q + 2 * i);
        }
    }
}

/* ---- sums ---- */

#define KT_OWN_SCALES
/* Those of each superblock together, in order: 16 bytes, or eight. */
KT_INLINE void scales_keep(kt__type type, const vi *scale, int32_t to[4][LANES]) {
    vi x[4] = {scale[0], scale[1], vi_zero(), vi_zero()};
    if (fine_groups(type)) x[2] = scale[2], x[3] = scale[3];
    vi_transpose4(x);
    KT_UNROLL for (int i = 0; i < 4; i++) vi_store(to[i], x[i]);
}
KT_INLINE const void *scales_kept(const int32_t at[4][LANES], int slot) {
    return &at[slot % 4][slot / 4 * 4];
}

/* which scale 128-bit lane l of q[j] has */
KT_INLINE int scale_at(kt__type type, int j, int l) {
    if (type == KT__TYPE_Q3_K) return l / 2 * 8 + 2 * j + l % 2;
    if (fine_groups(type)) return 4 * j + l;
    return is_unpacked(type) ? 2 * j + l / 2 : j / 2 * 4 + j % 2 + l / 2 * 2;
}

/* i16 scales for the products of q[j]; scale: in order, unsigned where there are eight */
KT_INLINE void scales16(kt__type type, const void *scale, vi s[4]) {
    const long long each = 0x0001000100010001;
    const long long above = fine_groups(type) ? 0 : (long long)0xff00ff00ff00ff00; /* zeros */
    vi all;
    if (fine_groups(type)) {
        all = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)scale)));
    } else {
        long long eight;
        memcpy(&eight, scale, sizeof eight);
        all = _mm512_set1_epi64(eight);
    }
    KT_UNROLL for (int j = 0; j < 4; j++) {
        long long a = scale_at(type, j, 0) * each | above, b = scale_at(type, j, 1) * each | above;
        long long c = scale_at(type, j, 2) * each | above, d = scale_at(type, j, 3) * each | above;
        vi idx = _mm512_setr_epi64(a, a, b, b, c, c, d, d);
        s[j] = fine_groups(type) ? _mm512_permutexvar_epi16(idx, all) : vi_shuffle8(all, idx);
    }
}

/* part[t]: lanes whose sum is the superblock's sum of scale * u8 * activation */
KT_INLINE void dots_scaled(kt__type type, const uint8_t *block, const void *scale,
                           const int8_t *act, int n_tok, vi *part, const kt__fetch *ahead) {
    vi q[4], s[4];
    quants_super(type, block, q);
    if (type == KT__TYPE_Q6_K) scale = block + offsetof(kt__q6_k, scales);
    if (type != KT__TYPE_Q2_K) scales16(type, scale, s);
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        vi sum = vi_zero();
        KT_UNROLL for (int j = 0; j < 4; j++) {
            vi x = vi_load(act + 256 * t + 64 * j);
            sum = type == KT__TYPE_Q2_K ? vi_dot8(sum, q[j], x)
                                        : vi_dot16(sum, s[j], _mm512_maddubs_epi16(q[j], x));
            if (t == 0) sum = kt__fetch_after(sum, ahead, j);
        }
        part[t] = sum;
    }
}

/* part[vec * LANES + t]: 128-bit lane l sums to block_at(type, vec, l), the first halves of blocks
 * before the second ones where they are apart; or as in_pairs says. first, second (unless NULL): as
 * words_of_group */
KT_INLINE void dots_blocks(kt__type type, const uint8_t *block, const int8_t *act, int n_tok,
                           vi *part, __m128i *first, __m128i *second, const kt__fetch *ahead) {
    const bool apart = has_halves(type);
    const int together = in_pairs(type) ? 4 : apart ? 1 : 2; /* registers that one vector sums */
    vi q[4];
    if (is_q256(type))
        quants_super(type, block, q);
    else
        quants_group(type, block, q, first, second);
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        vi sum = vi_zero();
        KT_UNROLL for (int i = 0; i < 4; i++) {
            sum = vi_dot8(sum, q[i], vi_load(x + 64 * i));
            if (t == 0) sum = kt__fetch_after(sum, ahead, i);
            if ((i + 1) % together) continue;
            int vec = apart ? i % 2 * BLOCK_VECS + i / 2 : i / together; /* halves, then fours */
            part[vec * LANES + t] = sum;
            sum = vi_zero();
        }
    }
}

#endif
