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
    case KT__TYPE_TQ2_0:
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

/* Four blocks of at most 24 bytes are read by two loads: a, their first 64 bytes, and b, their
 * last. Byte `at` of them, as a word's index for vpermi2w: */
#define WORD(pitch, at) ((at) <= 62 ? (at) / 2 : 32 + ((at) - (4 * (pitch)-64)) / 2)
#define WORDS2(pitch, at) WORD(pitch, at), WORD(pitch, (at) + 2)
#define WORDS8(pitch, at) \
    WORDS2(pitch, at), WORDS2(pitch, (at) + 4), WORDS2(pitch, (at) + 8), WORDS2(pitch, (at) + 12)
#define EACH8(pitch, at)                                                             \
    WORDS8(pitch, at), WORDS8(pitch, (at) + pitch), WORDS8(pitch, (at) + 2 * pitch), \
        WORDS8(pitch, (at) + 3 * pitch)
#define EACH1(pitch, at)                                                       \
    WORD(pitch, at), WORD(pitch, (at) + pitch), WORD(pitch, (at) + 2 * pitch), \
        WORD(pitch, (at) + 3 * pitch)
/* a type's indices: its 16 bytes of nibbles, the 16 bytes from its fifth bits on, d and m */
typedef struct word_map {
    int16_t qs[32], qh[32], heads[8];
} word_map;
#define WORD_MAP(pitch, qs_at, qh_at)                                                      \
    {                                                                                      \
        {EACH8(pitch, qs_at)}, {EACH8(pitch, qh_at)}, { EACH1(pitch, 0), EACH1(pitch, 2) } \
    }
static const word_map map_18 = WORD_MAP(18, 2, 0), map_20 = WORD_MAP(20, 4, 0),
                      map_22 = WORD_MAP(22, 6, 2), map_24 = WORD_MAP(24, 8, 4);

KT_INLINE const word_map *word_map_of(kt__type type) {
    switch (block_bytes(type)) {
    case 18: return &map_18;
    case 20: return &map_20;
    case 22: return &map_22;
    default: return &map_24;
    }
}

/* The nibbles of four blocks, x, as 64 weights in two halves of blocks; `high` has their fifth bits
 * first. */
KT_INLINE void quants_of_nibbles(kt__type type, vi x, vi high, vi q[2]) {
    const vi bit_of = _mm512_set1_epi64((long long)0x8040201008040201);
    for (int half = 0; half < 2; half++) {
        q[half] = low_bits(half ? vi_shr(x, 4) : x, 15);
        q[half] = of_nibbles(type, q[half]);
        if (type != KT__TYPE_Q5_0 && type != KT__TYPE_Q5_1) continue;
        const long long a = 0x0101010101010101 * (2 * half), b = a + 0x0101010101010101;
        vi bytes = vi_shuffle8(high, _mm512_setr_epi64(a, b, a, b, a, b, a, b));
        __mmask64 set = _mm512_test_epi8_mask(bytes, bit_of);
        q[half] = _mm512_mask_add_epi8(q[half], set, q[half], vi_bytes(16));
    }
}

/* Four blocks of nibbles; heads: d of each, then m of each */
KT_INLINE __m128i quants_four(kt__type type, const uint8_t *p, vi q[2]) {
    const word_map *map = word_map_of(type);
    vi a = vi_load(p), b = vi_load(p + 4 * block_bytes(type) - 64);
    vi x = _mm512_permutex2var_epi16(a, vi_load(map->qs), b), high = x;
    if (type == KT__TYPE_Q5_0 || type == KT__TYPE_Q5_1) {
        high = _mm512_permutex2var_epi16(a, vi_load(map->qh), b);
    }
    quants_of_nibbles(type, x, high, q);
    vi idx = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)map->heads));
    return _mm512_castsi512_si128(_mm512_permutex2var_epi16(a, idx, b));
}

/* Four runs of 32 bytes: their first halves, then their second ones */
KT_INLINE void quants_bytes(const uint8_t *p, size_t pitch, vi q[2]) {
    vi bias = vi_bytes(WIDE_BIAS);
    vi a = vi_xor(vi_load_pieces32(p, pitch), bias);
    vi b = vi_xor(vi_load_pieces32(p + 2 * pitch, pitch), bias);
    q[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    q[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
}

/* Four runs of 16 bytes. */
KT_INLINE vi nibbles_of_four(const uint8_t *p, size_t pitch) {
    vi x = vi_zero();
    KT_UNROLL for (int i = 0; i < 4; i++) {
        const __m128i *run = (const __m128i *)(const void *)(p + (size_t)i * pitch);
        __mmask16 lanes = (__mmask16)(15u << 4 * i);
        x = _mm512_mask_broadcast_i32x4(x, lanes, _mm_loadu_si128(run));
    }
    return x;
}

/* The same of NVFP4, in two halves of blocks; p: their weights. */
KT_INLINE void quants_nvfp4(const uint8_t *p, vi q[2]) {
    vi x = vi_load_pieces32(p, sizeof(kt__nvfp4)), low = mxfp4_values(low_bits(x, 15));
    vi high = mxfp4_values(low_bits(vi_shr(x, 4), 15));
    q[0] = _mm512_unpacklo_epi64(low, high);
    q[1] = _mm512_unpackhi_epi64(low, high);
}

/* A group of eight blocks. first, second: as words_of_group */
KT_INLINE void quants_group(kt__type type, const uint8_t *block, vi q[4], __m128i *first,
                            __m128i *second) {
    size_t pitch = block_bytes(type);
    if (type == KT__TYPE_Q8_0) {
        words_of_group(pitch, block, first, NULL);
        quants_bytes(block + 2, pitch, q);
        quants_bytes(block + 2 + 4 * pitch, pitch, q + 2);
        return;
    }
    if (has_halves(type)) {
        words_of_blocks(type, block, first, second);
        quants_nvfp4(block + nvfp4_qs(0), q);
        quants_nvfp4(block + nvfp4_qs(4), q + 2);
        return;
    }
    if (type == KT__TYPE_MXFP4) { /* 17 bytes: not whole words */
        words_of_group(pitch, block, first, NULL);
        quants_of_nibbles(type, nibbles_of_four(block + 1, pitch), vi_zero(), q);
        quants_of_nibbles(type, nibbles_of_four(block + 1 + 4 * pitch, pitch), vi_zero(), q + 2);
        return;
    }
    __m128i low = quants_four(type, block, q), high = quants_four(type, block + 4 * pitch, q + 2);
    *first = _mm_unpacklo_epi64(low, high);
    if (has_min(type)) *second = _mm_unpackhi_epi64(low, high);
}

/* A superblock. */
KT_INLINE void quants_super(kt__type type, const uint8_t *block, vi q[4]) {
    if (is_unpacked(type)) {
        for (int i = 0; i < 4; i++) q[i] = vi_load(block + 64 * i);
        return;
    }
    switch (type) {
    case KT__TYPE_Q2_K: quants_crumbs(((const kt__q2_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q3_K: quants_q3_k((const void *)block, q); break;
    case KT__TYPE_Q4_K: quants_nibbles_k(((const kt__q4_k *)(const void *)block)->qs, q); break;
    case KT__TYPE_Q5_K: quants_q5_k((const void *)block, q); break;
    case KT__TYPE_Q6_K: quants_q6_k((const void *)block, q); break;
    default:
        for (int i = 0; i < 2; i++) {
            vi x = vi_load(((const kt__iq4_xs *)(const void *)block)->qs + 64 * i);
            quants_of_nibbles(type, x, x, q + 2 * i);
        }
    }
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
    /* groups g and g + 2 of four, in order where they are unpacked; unsigned, below 64 */
    int g = is_unpacked(type) ? 2 * (j % 2) : j % 2, other = is_unpacked(type) ? g + 1 : g + 2;
    return vi_shuffle8(vi_bcast(scale + LANES * (j / 2)),
                       halves16((short)(0xff00 | g), (short)(0xff00 | other)));
}

/* Q6_K's are in the block, in order */
KT_INLINE void scales_q6_k(const kt__q6_k *b, vi s[4]) {
    const long long each = 0x0001000100010001;
    vi all = _mm512_castsi256_si512(
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b->scales)));
    KT_UNROLL for (int j = 0; j < 4; j++) {
        long long a = 4 * j * each, b1 = a + each, c = b1 + each, d = c + each;
        s[j] = _mm512_permutexvar_epi16(_mm512_setr_epi64(a, a, b1, b1, c, c, d, d), all);
    }
}

/* part[t]: lanes whose sum is the superblock's sum of scale * u8 * activation */
KT_INLINE void dots_scaled(kt__type type, const uint8_t *block, const int32_t *scale,
                           const int8_t *act, int n_tok, vi *part, const kt__fetch *ahead) {
    vi q[4], s[4];
    quants_super(type, block, q);
    if (type == KT__TYPE_Q6_K) {
        scales_q6_k((const void *)block, s);
    } else {
        KT_UNROLL for (int j = 0; j < 4; j++) s[j] = scales16(type, scale, j);
    }
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        vi sum = vi_zero();
        KT_UNROLL for (int j = 0; j < 4; j++) {
            vi pairs = _mm512_maddubs_epi16(q[j], vi_load(act + 256 * t + 64 * j));
            sum = j ? vi_dot16(sum, s[j], pairs) : _mm512_madd_epi16(s[j], pairs);
            if (t == 0) sum = kt__fetch_after(sum, ahead, j);
        }
        part[t] = sum;
    }
}

/* part[vec * LANES + t]: 128-bit lane l sums to block_at(type, vec, l), the first halves of blocks
 * before the second ones where they are apart. first, second (unless NULL): as words_of_group */
KT_INLINE void dots_blocks(kt__type type, const uint8_t *block, const int8_t *act, int n_tok,
                           vi *part, __m128i *first, __m128i *second, const kt__fetch *ahead) {
    vi q[4];
    if (is_q256(type))
        quants_super(type, block, q);
    else
        quants_group(type, block, q, first, second);
    KT_ROLLED for (int t = 0; t < n_tok; t++) {
        const int8_t *x = act + 256 * t;
        vi sum = vi_zero();
        KT_UNROLL for (int i = 0; i < 4; i++) { /* both halves of four blocks, then of four more */
            bool apart = has_halves(type), ends = apart || i % 2;
            sum = vi_dot8(sum, q[i], vi_load(x + 64 * i));
            if (t == 0) sum = kt__fetch_after(sum, ahead, i);
            if (!ends) continue;
            part[((apart ? i % 2 * BLOCK_VECS : 0) + i / 2) * LANES + t] = sum;
            sum = vi_zero();
        }
    }
}

#endif
