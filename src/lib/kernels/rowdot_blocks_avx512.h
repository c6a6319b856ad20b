/* The weights of eight blocks of 32 for AVX-512, 64 a register.
 *
 * Owns: how few loads and permutations bring them out of blocks of 17 to 36 bytes, with their scales. For
 * rowdot_avx512.h only. */
#ifndef KT_KERNELS_ROWDOT_BLOCKS_AVX512_H
#define KT_KERNELS_ROWDOT_BLOCKS_AVX512_H

/* 64 bytes that are permuted more than once: compilers read them again each time otherwise. */
KT_INLINE vi vi_load_once(const void *p) {
    vi x = vi_load(p);
    __asm__("" : "+v"(x));
    return x;
}

/* Four blocks that lie in two loads of 64 bytes: the first begins `begin` bytes before them, the second `second` bytes
 * after it. Byte `at` of block k, as a word's index for vpermi2w: */
#define BYTE(pitch, begin, k, at) ((begin) + (pitch) * (k) + (at))
#define WORD(pitch, begin, second, k, at)                           \
    (BYTE(pitch, begin, k, at) < 64 ? BYTE(pitch, begin, k, at) / 2 \
                                    : 32 + (BYTE(pitch, begin, k, at) - (second)) / 2)
#define EACH1(pitch, begin, second, at)                                   \
    WORD(pitch, begin, second, 0, at), WORD(pitch, begin, second, 1, at), \
        WORD(pitch, begin, second, 2, at), WORD(pitch, begin, second, 3, at)
#define WORDS4(pitch, begin, second, k, at)                                     \
    WORD(pitch, begin, second, k, at), WORD(pitch, begin, second, k, (at) + 2), \
        WORD(pitch, begin, second, k, (at) + 4), WORD(pitch, begin, second, k, (at) + 6)
#define WORDS8(pitch, begin, second, k, at) \
    WORDS4(pitch, begin, second, k, at), WORDS4(pitch, begin, second, k, (at) + 8)
#define EACH8(pitch, begin, second, at)                                       \
    WORDS8(pitch, begin, second, 0, at), WORDS8(pitch, begin, second, 1, at), \
        WORDS8(pitch, begin, second, 2, at), WORDS8(pitch, begin, second, 3, at)
/* a type's indices: the 16 bytes of nibbles of each block; d, m, and both words of the fifth bits */
typedef struct word_map {
    int16_t qs[32], heads[16];
} word_map;
#define WORD_MAP(pitch, begin, second, qs_at, m_at, qh_at)                                   \
    {                                                                                        \
        {EACH8(pitch, begin, second, qs_at)}, {                                              \
            EACH1(pitch, begin, second, 0), EACH1(pitch, begin, second, m_at),               \
                EACH1(pitch, begin, second, qh_at), EACH1(pitch, begin, second, (qh_at) + 2) \
        }                                                                                    \
    }
/* Eight blocks of 20 to 24 bytes are read by three loads: their first 64 bytes, the next, and their last; four blocks
 * lie in the first two, four in the others. */
#define WORD_MAPS(pitch, ...)                                             \
    {                                                                     \
        WORD_MAP(pitch, 0, 64, __VA_ARGS__),                              \
            WORD_MAP(pitch, 4 * (pitch)-64, 8 * (pitch)-128, __VA_ARGS__) \
    }
static const word_map maps_q4_1[2] = WORD_MAPS(20, 4, 2, 0), maps_q5_0[2] = WORD_MAPS(22, 6, 0, 2),
                      maps_q5_1[2] = WORD_MAPS(24, 8, 2, 4);

KT_INLINE const word_map *word_maps_of(kt__type type) {
    if (type == KT__TYPE_Q4_1) return maps_q4_1;
    return type == KT__TYPE_Q5_0 ? maps_q5_0 : maps_q5_1;
}

/* Eight blocks of 20 to 24 bytes; first, second: as words_of_group */
KT_INLINE void quants_eight(kt__type type, const uint8_t *p, vi q[4], __m128i *first,
                            __m128i *second) {
    const bool fifth = type != KT__TYPE_Q4_1;
    const word_map *map = word_maps_of(type);
    vi x[3] = {vi_load_once(p), vi_load_once(p + 64), vi_load_once(p + group_bytes(type) - 64)};
    uint64_t word[8]; /* d, m, and the fifth bits of first and second halves, each of both fours */
    vi heads[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi idx = _mm512_castsi256_si512(
            _mm256_loadu_si256((const __m256i *)(const void *)map[i].heads));
        heads[i] = _mm512_permutex2var_epi16(x[i], idx, x[i + 1]);
        quants_of_nibbles(type, _mm512_permutex2var_epi16(x[i], vi_load(map[i].qs), x[i + 1]),
                          q + 2 * i);
    }
    vi both = _mm512_permutex2var_epi64(heads[0], _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                                        heads[1]);
    *first = _mm512_castsi512_si128(both);
    if (has_min(type)) *second = _mm512_extracti32x4_epi32(both, 1);
    if (!fifth) return;
    vi_store(word, both);
    __asm__ volatile("" : "+m"(word)); /* read as masks: taking them out of a register is slower */
    KT_UNROLL for (int i = 0; i < 4; i++)
        q[i] = _mm512_mask_add_epi8(q[i], word[4 + i % 2 * 2 + i / 2], q[i], vi_bytes(16));
}

#define RUN8(i) i, (i) + 1, (i) + 2, (i) + 3, (i) + 4, (i) + 5, (i) + 6, (i) + 7

/* MXFP4: 17 bytes a block, so that every other one begins at an odd byte; first: exponents. */
KT_INLINE void quants_mxfp4(const uint8_t *p, vi q[4], __m128i *first) {
    static const int16_t words[2][32] = {
        {RUN8(0), RUN8(32 + 7), RUN8(17), RUN8(32 + 24)},
        {RUN8(6), RUN8(32 + 7), RUN8(23), RUN8(32 + 24)},
    };
    static const int16_t heads[8] = {0, 8, 16, 25, 32 + 5, 32 + 14, 32 + 22, 32 + 31};
    const __m128i exponents = _mm_setr_epi8(-1, -1, 2, -1, 5, -1, 6, -1, 9, -1, 10, -1, 13, -1, 14,
                                            -1);
    vi a = vi_load_once(p + 1), c = vi_load_once(p + 57), b = vi_load(p + 4), d = vi_load(p + 72);
    vi at = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)heads));
    quants_of_nibbles(KT__TYPE_MXFP4, _mm512_permutex2var_epi16(a, vi_load(words[0]), b), q);
    quants_of_nibbles(KT__TYPE_MXFP4, _mm512_permutex2var_epi16(c, vi_load(words[1]), d), q + 2);
    __m128i e = _mm512_castsi512_si128(_mm512_permutex2var_epi16(a, at, c));
    *first = _mm_insert_epi8(_mm_shuffle_epi8(e, exponents), p[0], 0);
}

/* Q4_0 and IQ4_NL, as in_pairs says; heads: d of each */
KT_INLINE __m128i quants_pairs(kt__type type, const uint8_t *p, vi q[4]) {
    static const int16_t words[32] = {1,  2,  33, 34, 3,  4,  35, 36, 10, 11, 42,
                                      43, 12, 13, 44, 45, 19, 20, 51, 52, 21, 22,
                                      53, 54, 28, 29, 60, 61, 30, 31, 62, 63};
    static const int16_t heads[8] = {0, 9, 18, 27, 32, 41, 50, 59};
    vi idx = vi_load(words), a = vi_load_once(p), b = vi_load_once(p + 72), c = vi_load(p + 8),
       d = vi_load(p + 80);
    vi first = _mm512_permutex2var_epi16(a, idx, b), second = _mm512_permutex2var_epi16(c, idx, d);
    quants_of_nibbles(type, first, q);
    quants_of_nibbles(type, second, q + 2);
    vi at = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)heads));
    return _mm512_castsi512_si128(_mm512_permutex2var_epi16(a, at, b));
}

/* Four runs of 32 bytes: their first halves, then their second ones */
KT_INLINE void quants_bytes(const uint8_t *p, size_t pitch, vi q[2]) {
    vi bias = vi_bytes(WIDE_BIAS);
    vi a = vi_xor(vi_load_pieces32(p, pitch), bias);
    vi b = vi_xor(vi_load_pieces32(p + 2 * pitch, pitch), bias);
    q[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    q[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
}

/* The same of NVFP4, in two halves of blocks; p: their weights. */
KT_INLINE void quants_nvfp4(const uint8_t *p, vi q[2]) {
    vi x = vi_load_pieces32(p, sizeof(kt__nvfp4)), low = mxfp4_values(low_bits(x, 15));
    vi high = mxfp4_values(low_bits(vi_shr(x, 4), 15));
    q[0] = _mm512_unpacklo_epi64(low, high);
    q[1] = _mm512_unpackhi_epi64(low, high);
}

/* Four blocks are read by loads of 64 bytes, which end where they end: of types of 18 to 24 bytes their first and their
 * last, of Q8_0 those from either half of the first block and of the third one on. */
#define PIECE_MAP(pitch, second, ...) WORD_MAP(pitch, 0, second, __VA_ARGS__)
static const word_map piece_q8_0 = PIECE_MAP(34, 68, 2, 0, 0),
                      piece_q4_0 = PIECE_MAP(18, 8, 2, 0, 0),
                      piece_q4_1 = PIECE_MAP(20, 16, 4, 2, 0),
                      piece_q5_0 = PIECE_MAP(22, 24, 6, 0, 2),
                      piece_q5_1 = PIECE_MAP(24, 32, 8, 2, 4);
static const int16_t piece_halves[32] = {
    EACH8(34, 0, 68, 14)}; /* second ones of Q8_0, 4 bytes on */

KT_INLINE const word_map *piece_map_of(kt__type type) {
    switch (type) {
    case KT__TYPE_Q8_0: return &piece_q8_0;
    case KT__TYPE_Q4_1: return &piece_q4_1;
    case KT__TYPE_Q5_0: return &piece_q5_0;
    case KT__TYPE_Q5_1: return &piece_q5_1;
    default: return &piece_q4_0;
    }
}

/* Four blocks: the first halves of them, and the second ones. words: d of each, then m of each */
KT_INLINE void quants_four(kt__type type, const uint8_t *p, vi q[2], __m128i *words) {
    const word_map *map = piece_map_of(type);
    const bool bytes = type == KT__TYPE_Q8_0;
    const size_t second = bytes ? 68 : 4 * block_bytes(type) - 64;
    vi x = vi_load_once(p), y = vi_load_once(p + second);
    vi idx = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)map->heads));
    __m256i heads = _mm512_castsi512_si256(_mm512_permutex2var_epi16(x, idx, y));
    *words = _mm256_castsi256_si128(heads);
    q[0] = _mm512_permutex2var_epi16(x, vi_load(map->qs), y);
    if (bytes) {
        vi halves = vi_load(piece_halves), bias = vi_bytes(WIDE_BIAS);
        q[1] = _mm512_permutex2var_epi16(vi_load(p + 4), halves, vi_load(p + 4 + second));
        KT_UNROLL for (int i = 0; i < 2; i++) q[i] = vi_xor(q[i], bias);
        return;
    }
    quants_of_nibbles(type, q[0], q);
    if (type != KT__TYPE_Q5_0 && type != KT__TYPE_Q5_1) return;
    uint64_t fifth[2]; /* of first halves, and of second ones */
    _mm_storeu_si128((__m128i *)(void *)fifth, _mm256_extracti128_si256(heads, 1));
    __asm__ volatile("" : "+m"(fifth)); /* as in quants_eight */
    KT_UNROLL for (int i = 0; i < 2; i++)
        q[i] = _mm512_mask_add_epi8(q[i], fifth[i], q[i], vi_bytes(16));
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
    if (in_pairs(type)) {
        *first = quants_pairs(type, block, q);
        return;
    }
    if (has_halves(type)) {
        words_of_blocks(type, block, first, second);
        quants_nvfp4(block + nvfp4_qs(0), q);
        quants_nvfp4(block + nvfp4_qs(4), q + 2);
        return;
    }
    if (type == KT__TYPE_MXFP4)
        quants_mxfp4(block, q, first);
    else
        quants_eight(type, block, q, first, second);
}

#endif
