/* The integer dot products of rowdot in 256 bits: weights in their natural order, 32 a register.
 *
 * Owns: the unpacking of one superblock and its sums against a few tokens. For the files of tiers
 * avx2 and avxvnni, after their simd header. */
#ifndef KT_KERNELS_ROWDOT_256_H
#define KT_KERNELS_ROWDOT_256_H

#include "kernels/fetch.h"

/* Types of 32 are summed by blocks: a 128-bit lane holds half a block, so that two products end in
 * lanes of one block each. Those of 256 take pairs of products times i16 scales. */
enum { BLOCK_VECS = 4 /* vectors of block sums a group */ };

KT_INLINE bool by_blocks(kt__type type) { return block_bytes(type) < 40; }

KT_INLINE int block_at(kt__type type, int vec, int lane) {
    (void)type;
    return 2 * vec + lane;
}

/* to[32 k + j]: from[8 j + k] */
KT_INLINE void arrange_eighths(const int8_t *from, int8_t *to) {
    KT_UNROLL for (int i = 0; i < 4; i++) {
        __m128i x[8], pair[4], four[4];
        KT_UNROLL for (int j = 0; j < 8; j++)
            x[j] = _mm_loadl_epi64((const __m128i *)(const void *)(from + 64 * i + 8 * j));
        KT_UNROLL for (int j = 0; j < 4; j++) pair[j] = _mm_unpacklo_epi8(x[2 * j], x[2 * j + 1]);
        KT_UNROLL for (int j = 0; j < 2; j++) {
            four[j] = _mm_unpacklo_epi16(pair[2 * j], pair[2 * j + 1]);
            four[2 + j] = _mm_unpackhi_epi16(pair[2 * j], pair[2 * j + 1]);
        }
        KT_UNROLL for (int k = 0; k < 8; k += 2) {
            __m128i a = four[k / 4 * 2], b = four[k / 4 * 2 + 1];
            __m128i two = k % 4 ? _mm_unpackhi_epi32(a, b) : _mm_unpacklo_epi32(a, b);
            _mm_storel_epi64((__m128i *)(void *)(to + 32 * k + 8 * i), two);
            _mm_storeh_pd((double *)(void *)(to + 32 * (k + 1) + 8 * i), _mm_castsi128_pd(two));
        }
    }
}
/* of each 128: to[32 k + j] is from[4 j + k] */
KT_INLINE void arrange_quarters(const int8_t *from, int8_t *to) {
    const vi idx = vi_dup128(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    KT_UNROLL for (int i = 0; i < 256; i += 128) {
        vi x[4];
        KT_UNROLL for (int j = 0; j < 4; j++) x[j] = vi_shuffle8(
            vi_cat2((const uint8_t *)from + i + 16 * j, (const uint8_t *)from + i + 64 + 16 * j),
            idx);
        vi_transpose4(x);
        KT_UNROLL for (int k = 0; k < 4; k++) vi_store(to + i + 32 * k, x[k]);
    }
}

/* Brings 256 activations into the order of q. */
KT_INLINE void arrange_act(kt__type type, const int8_t *from, int8_t *to) {
    if (type == KT__TYPE_Q1_0) {
        arrange_eighths(from, to);
        return;
    }
    if (type == KT__TYPE_Q2_0) {
        arrange_quarters(from, to);
        return;
    }
    if (!by_blocks(type)) {
        memcpy(to, from, 256);
        return;
    }
    for (int i = 0; i < 16; i++) { /* 16 bytes each: [vec][half][lane] */
        memcpy(to + 16 * i, from + 32 * (i / 4 * 2 + i % 2) + 16 * (i / 2 % 2), 16);
    }
}

/* ---- unpacking of superblocks: q[j] holds weights 32j..32j+31, as u8 or, wide ones, as WIDE_BIAS
 * says ---- */

KT_INLINE void quants_nibbles_k(const uint8_t *qs, vi q[8]) {
    KT_UNROLL for (int i = 0; i < 4; i++) {
        vi x = vi_load(qs + 32 * i);
        q[2 * i] = low_bits(x, 15);
        q[2 * i + 1] = low_bits(vi_shr(x, 4), 15);
    }
}

KT_INLINE void quants_q5_k(const kt__q5_k *b, vi q[8]) {
    vi high = vi_load(b->qh);
    quants_nibbles_k(b->qs, q);
    KT_UNROLL for (int g = 0; g < 8; g++) q[g] = vi_or(q[g], bit_plane(high, g, 4));
}

KT_INLINE void quants_q6_k(const kt__q6_k *b, vi q[8]) {
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi a = vi_load(b->ql + 64 * i), c = vi_load(b->ql + 64 * i + 32),
           high = vi_load(b->qh + 32 * i);
        vi *to = q + 4 * i;
        to[0] = vi_or(low_bits(a, 15), low_bits(vi_shl(high, 4), 0x30));
        to[1] = vi_or(low_bits(c, 15), low_bits(vi_shl(high, 2), 0x30));
        to[2] = vi_or(low_bits(vi_shr(a, 4), 15), low_bits(high, 0x30));
        to[3] = vi_or(low_bits(vi_shr(c, 4), 15), low_bits(vi_shr(high, 2), 0x30));
    }
}

KT_INLINE void quants_crumbs(const uint8_t *qs, vi q[8]) {
    KT_UNROLL for (int i = 0; i < 8; i++)
        q[i] = low_bits(vi_shr(vi_load(qs + i / 4 * 32), i % 4 * 2), 3);
}

KT_INLINE void quants_q3_k(const kt__q3_k *b, vi q[8]) {
    vi high = vi_load(b->hmask);
    quants_crumbs(b->qs, q);
    KT_UNROLL for (int g = 0; g < 8; g++) q[g] = vi_or(q[g], bit_plane(high, g, 2));
}

/* 16 bytes for 32 weights: low nibbles, then high ones */
KT_INLINE vi quants_piece(const uint8_t *p) {
    vi x = vi_dup128(_mm_loadu_si128((const __m128i *)(const void *)p));
    return low_bits(_mm256_srlv_epi64(x, _mm256_setr_epi64x(0, 0, 4, 4)), 15);
}

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

/* ---- unpacking of 32-blocks, two at a time: q[0] their first halves, q[1] their second ones ----
 */

KT_INLINE void quants_two(kt__type type, const uint8_t *block, vi q[2]) {
    size_t pitch = block_bytes(type), qs = qs_offset(type);
    if (has_halves(type)) {
        vi x = vi_load(block + nvfp4_qs(0)), low = mxfp4_values(low_bits(x, 15));
        vi high = mxfp4_values(low_bits(vi_shr(x, 4), 15));
        q[0] = _mm256_unpacklo_epi64(low, high);
        q[1] = _mm256_unpackhi_epi64(low, high);
        return;
    }
    if (type == KT__TYPE_Q8_0) {
        vi bias = vi_bytes(WIDE_BIAS);
        q[0] = vi_xor(vi_load_pieces16(block + qs, pitch), bias);
        q[1] = vi_xor(vi_load_pieces16(block + qs + 16, pitch), bias);
        return;
    }
    bool fifth = type == KT__TYPE_Q5_0 || type == KT__TYPE_Q5_1; /* they are before the nibbles */
    const vi bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    vi x = vi_load_pieces16(block + qs, pitch),
       high = fifth ? vi_load_pieces16(block + qs - 4, pitch) : x;
    for (int half = 0; half < 2; half++) {
        q[half] = low_bits(half ? vi_shr(x, 4) : x, 15);
        q[half] = of_nibbles(type, q[half]);
        if (!fifth) continue;
        const long long a = 0x0101010101010101 * (2 * half), b = a + 0x0101010101010101;
        vi bits = vi_and(vi_shuffle8(high, _mm256_setr_epi64x(a, b, a, b)), bit_of);
        q[half] = vi_or(q[half], low_bits(_mm256_cmpeq_epi8(bits, bit_of), 16));
    }
}

/* ---- sums ---- */

/* i16 scales of 32 weights; the scale bytes of group i are in dwords i/4 of `scale`, LANES apart */
KT_INLINE vi scales16(kt__type type, const int32_t *scale, int j) {
    if (!fine_groups(type)) { /* unsigned, below 64 */
        vi word = _mm256_set1_epi16((short)(0xff00 | j % 4));
        return vi_shuffle8(vi_bcast(scale + LANES * (j / 4)), word);
    }
    int g = 2 * j;
    vi idx = _mm256_setr_m128i(_mm_set1_epi16((short)(g % 4 << 8 | 0xff)),
                               _mm_set1_epi16((short)((g % 4 + 1) << 8 | 0xff)));
    return vi_sar16(vi_shuffle8(vi_bcast(scale + LANES * (g / 4)), idx), 8);
}

/* part[t]: lanes whose sum is the superblock's sum of scale * weight * activation */
KT_INLINE void dots_scaled(kt__type type, const uint8_t *block, const int32_t *scale,
                           const int8_t *act, int n_tok, vi *part, const kt__fetch *ahead) {
    vi q[8], s[8];
    quants_q256(type, block, q);
    KT_UNROLL for (int j = 0; j < 8; j++) {
        s[j] = is_wide(type) ? vi_wide_scale(vi_bcast(scale + LANES * (j / 4)), j % 4)
                             : scales16(type, scale, j);
    }
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        vi sum = vi_zero();
        KT_UNROLL for (int j = 0; j < 8; j++) {
            vi xj = vi_load(x + 32 * j);
            if (is_wide(type))
                sum = vi_scaled_wide(sum, q[j], xj, s[j]);
            else if (j)
                sum = vi_dot16(sum, s[j], vi_pairs(q[j], xj));
            else
                sum = _mm256_madd_epi16(s[j], vi_pairs(q[j], xj));
            if (t == 0 && j % 2) sum = kt__fetch_after(sum, ahead, j / 2);
        }
        part[t] = sum;
    }
}

/* part[vec * LANES + t]: 128-bit lane l sums to block_at(type, vec, l), the first halves of blocks
 * before the second ones where they are apart. first, second (unless NULL): as words_of_group */
KT_INLINE void dots_blocks(kt__type type, const uint8_t *block, const int8_t *act, int n_tok,
                           vi *part, __m128i *first, __m128i *second, const kt__fetch *ahead) {
    vi q[8];
    words_of_blocks(type, block, first, second);
    KT_UNROLL for (int i = 0; i < 4; i++)
        quants_two(type, block + 2 * (size_t)i * block_bytes(type), q + 2 * i);
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        KT_UNROLL for (int i = 0; i < 4; i++) {
            vi a = vi_load(act + 256 * t + 64 * i), b = vi_load(act + 256 * t + 64 * i + 32);
            vi sum = has_halves(type) ? vi_quads(q[2 * i], a)
                     : is_wide(type)  ? vi_quads2_wide(q[2 * i], a, q[2 * i + 1], b)
                                      : vi_quads2(q[2 * i], a, q[2 * i + 1], b);
            part[i * LANES + t] = t == 0 ? kt__fetch_after(sum, ahead, i) : sum;
            if (has_halves(type)) part[(BLOCK_VECS + i) * LANES + t] = vi_quads(q[2 * i + 1], b);
        }
    }
}

/* ---- pieces (rowdot_rows.inc): two blocks of each of LANES rows, the first in the low 128-bit lane ----
 *
 * The first 32 bytes of a row's piece have both blocks' scales and fifth bits, so that one load brings them; Q8_0's
 * blocks are too long for that. */

/* Both blocks' fifth bits of weights 16 half to 16 half + 15, as 16 or 0: psignb gives the same for a bit in any place. */
KT_INLINE vi fifths_of_piece(kt__type type, vi begin, int half) {
    const long long step = 0x0101010101010101;
    const long long low = step * (long long)(qs_offset(type) - 4 + 2 * (size_t)half),
                    high = low + step * (long long)(block_bytes(type) - 16);
    const vi bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    const vi sixteen = _mm256_set1_epi64x((long long)0xf010101010101010); /* bit 7 is a sign */
    vi bits = vi_shuffle8(begin, _mm256_setr_epi64x(low, low + step, high, high + step));
    return _mm256_sign_epi8(sixteen, vi_and(bits, bit_of));
}

/* Lanes that add up to the sums of a row's two blocks, as vi_sums2 has them or, of wide types, as dwords. x: activations,
 * first halves and second ones; y: vi_of_activations. */
KT_INLINE vi dots_piece(kt__type type, const uint8_t *block, vi begin, const vi x[2],
                        const vi y[2]) {
    size_t pitch = block_bytes(type);
    const uint8_t *qs = block + qs_offset(type);
    vi q[2];
    if (type == KT__TYPE_Q8_0) {
        quants_two(type, block, q);
        return vi_quads2_wide(q[0], x[0], q[1], x[1]);
    }
    vi both = vi_load_pieces16(qs, pitch);
    q[0] = of_nibbles(type, low_bits(both, 15));
    q[1] = of_nibbles(type, low_bits(vi_shr(both, 4), 15));
    if (type == KT__TYPE_IQ4_NL) return vi_quads2_table(q[0], x[0], y[0], q[1], x[1], y[1]);
    KT_UNROLL for (int half = 0; half < 2; half++) {
        if (has_fifths(type)) q[half] = vi_or(q[half], fifths_of_piece(type, begin, half));
    }
    return vi_sums2(q[0], x[0], q[1], x[1]);
}

/* Two rows, and then twice two, in one register, their lanes added to half as many: in the end dwords. */
KT_INLINE vi join_pair(kt__type type, vi a, vi b) {
    vi low = _mm256_unpacklo_epi32(a, b), high = _mm256_unpackhi_epi32(a, b);
    if (is_wide(type)) return vi_add(low, high);
    return has_fifths(type) ? vi_dwords_of_sums(vi_add_sums(low, high)) : vi_add_sums(low, high);
}
KT_INLINE vi join_quad(kt__type type, vi a, vi b) {
    vi low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
    if (is_wide(type) || has_fifths(type)) return vi_add(low, high);
    return vi_dwords_of_sums(vi_add_sums(low, high));
}

#define KT_PICK(a, b, i, j)                                                               \
    _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), \
                                          (i) | (j) << 2 | (i) << 4 | (j) << 6))

/* The beginnings of two rows' pieces in one register. */
KT_INLINE vi pair_of_begins(kt__type type, vi a, vi b) {
    return type == KT__TYPE_Q5_1 ? KT_PICK(a, b, 0, 2) : _mm256_unpacklo_epi16(a, b);
}

/* of[0]: both blocks' words at offset 0, in the order of rows; of[1]: the words that follow, of types that have them.
 * In the high lane they lie elsewhere than in the low one. */
KT_INLINE vi high_lane(vi low, vi high) { return _mm256_blend_epi32(low, high, 0xf0); }
KT_INLINE void words_of_piece(kt__type type, const vi pair[4], vi of[2]) {
    vi x[2];
    if (type == KT__TYPE_Q5_1) { /* dwords 0 and 2 */
        const vi apart = vi_dup128(
            _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
        KT_UNROLL for (int i = 0; i < 2; i++) {
            vi a = pair[2 * i], b = pair[2 * i + 1];
            x[i] = vi_shuffle8(high_lane(KT_PICK(a, b, 0, 2), KT_PICK(a, b, 1, 3)), apart);
        }
    } else if (type == KT__TYPE_Q4_1) { /* words 0, 1 and 2, 3 */
        KT_UNROLL for (int i = 0; i < 2; i++) {
            vi a = pair[2 * i], b = pair[2 * i + 1];
            x[i] = high_lane(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        }
    } else { /* words 0 and 1, or 3 */
        KT_UNROLL for (int i = 0; i < 2; i++) {
            vi a = pair[2 * i], b = pair[2 * i + 1];
            x[i] = type == KT__TYPE_Q5_0 ? KT_PICK(a, b, 0, 3) : KT_PICK(a, b, 0, 1);
        }
        of[0] = high_lane(KT_PICK(x[0], x[1], 0, 2), KT_PICK(x[0], x[1], 1, 3));
        return;
    }
    of[0] = _mm256_unpacklo_epi64(x[0], x[1]);
    of[1] = _mm256_unpackhi_epi64(x[0], x[1]);
}
/* Converted from memory: from a register each takes two more shuffles. */
KT_INLINE void floats_of_piece(vi words, vf of[2]) {
    kt__f16 room[16];
    vi_store(room, words);
    __asm__("" : "+m"(room));
    of[0] = vf_from_f16(room);
    of[1] = vf_from_f16(room + 8);
}

/* sum[k] lane i: the sum of row i's block k; d, m: its scale, and what follows that. p: the first row's piece, the
 * others `pitch` apart, but the last row's at `last`; ahead: what is prefetched. */
#define KT_OWN_PIECE
KT_INLINE void piece_of_rows(kt__type type, size_t pitch, const uint8_t *p, const uint8_t *last,
                             const uint8_t *ahead, const vi x[2], vi sum[2], vf d[2], vf m[2]) {
    vi y[2] = {vi_of_activations(x[0]), vi_of_activations(x[1])};
    vi quad[2], head[4], words[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi pair[2];
        KT_UNROLL for (int j = 0; j < 2; j++) {
            vi begin[2], part[2];
            KT_UNROLL for (int k = 0; k < 2; k++) {
                const int row = 4 * i + 2 * j + k;
                const uint8_t *block = row == LANES - 1 ? last : p + (size_t)row * pitch;
                begin[k] = vi_load(block);
                part[k] = dots_piece(type, block, begin[k], x, y);
                KT_FETCH_HERE(part[k]);
                kt__fetch_far(ahead, 2 * LANES * block_bytes(type), row, LANES);
                KT_FETCH_HERE(part[k]);
            }
            pair[j] = join_pair(type, part[0], part[1]);
            head[2 * i + j] = pair_of_begins(type, begin[0], begin[1]);
        }
        quad[i] = join_quad(type, pair[0], pair[1]);
    }
    sum[0] = _mm256_permute2x128_si256(quad[0], quad[1], 0x20);
    sum[1] = _mm256_permute2x128_si256(quad[0], quad[1], 0x31);
    if (type == KT__TYPE_Q8_0) {
        KT_UNROLL for (int k = 0; k < 2; k++) {
            __m128i first;
            words_of_rows(pitch, p + 34 * k, last + 34 * k, &first, NULL);
            d[k] = vf_of_words(first);
        }
        return;
    }
    words_of_piece(type, head, words);
    floats_of_piece(words[0], d);
    if (has_second_word(type)) floats_of_piece(words[1], m);
}

#endif
