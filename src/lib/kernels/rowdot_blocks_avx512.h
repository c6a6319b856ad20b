/* The weights of eight blocks of 32 for AVX-512, 64 a register, and of four blocks of 16 rows, with their sums.
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

/* ---- pieces (rowdot_rows.inc): four blocks of each of 16 rows. Shuffles bind them, of which AVX-512 does one a cycle;
 * those of words are three operations, those of dwords one. ---- */

/* Four blocks of Q5_0 and Q8_0 are read by loads of 64 bytes, which end where they end: of Q5_0 their first and their
 * last, of Q8_0 those from either half of the first block and of the third one on. */
#define PIECE_MAP(pitch, second, ...) WORD_MAP(pitch, 0, second, __VA_ARGS__)
static const word_map piece_q8_0 = PIECE_MAP(34, 68, 2, 0, 0),
                      piece_q5_0 = PIECE_MAP(22, 24, 6, 0, 2);
static const int16_t piece_halves[32] = {
    EACH8(34, 0, 68, 14)}; /* second ones of Q8_0, 4 bytes on */

KT_INLINE const word_map *word_map_of_piece(kt__type type) {
    return type == KT__TYPE_Q8_0 ? &piece_q8_0 : &piece_q5_0;
}

/* bits: of four blocks' first halves, and of their second ones */
KT_INLINE void add_fifths(__m128i bits, vi q[2]) {
    uint64_t fifth[2];
    _mm_storeu_si128((__m128i *)(void *)fifth, bits);
    __asm__ volatile("" : "+m"(fifth)); /* as in quants_eight */
    KT_UNROLL for (int i = 0; i < 2; i++)
        q[i] = _mm512_mask_add_epi8(q[i], fifth[i], q[i], vi_bytes(16));
}

/* Four blocks: the first halves of them, and the second ones. words: d of each, then m of each */
KT_INLINE void quants_four(kt__type type, const uint8_t *p, vi q[2], __m128i *words) {
    const word_map *map = word_map_of_piece(type);
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
    add_fifths(_mm256_extracti128_si256(heads, 1), q);
}

/* Those of the other types are read by two loads that have their weights at whole dwords: the byte where either begins,
 * and the first dword of each block's weights, of the second load from 16 on. */
typedef struct piece_map {
    uint8_t begin[2], qs[4];
} piece_map;

KT_INLINE piece_map piece_map_of(kt__type type) {
    switch (type) {
    case KT__TYPE_Q4_1: return (piece_map){{0, 16}, {1, 6, 11, 28}};
    case KT__TYPE_Q5_1: return (piece_map){{0, 32}, {2, 8, 22, 28}};
    default: return (piece_map){{2, 8}, {0, 19, 9, 28}};
    }
}

#define KT_RUN4(i) (i), (i) + 1, (i) + 2, (i) + 3

/* four dwords from each of a to d on, step 1, or the same one four times, step 0 */
KT_INLINE vi four_runs(int a, int b, int c, int d, int step) {
    return _mm512_setr_epi32(a, a + step, a + 2 * step, a + 3 * step, b, b + step, b + 2 * step,
                             b + 3 * step, c, c + step, c + 2 * step, c + 3 * step, d, d + step,
                             d + 2 * step, d + 3 * step);
}

/* Four sums in each 128-bit lane: of a row's four blocks, one a lane. x: activations, first halves and second ones;
 * words: of Q5_0 and Q8_0 d of each block, of Q5_1 d and m of each */
KT_INLINE vi dots_piece(kt__type type, const uint8_t *block, const vi x[2], words8 *words) {
    vi q[2];
    if (type == KT__TYPE_Q8_0 || type == KT__TYPE_Q5_0) {
        quants_four(type, block, q, words);
    } else {
        const piece_map at = piece_map_of(type);
        vi a = vi_load_once(block + at.begin[0]), b = vi_load_once(block + at.begin[1]);
        const vi qs = four_runs(at.qs[0], at.qs[1], at.qs[2], at.qs[3], 1);
        quants_of_nibbles(type, _mm512_permutex2var_epi32(a, qs, b), q);
        if (type == KT__TYPE_Q5_1) {
            const vi begins = _mm512_setr_epi32(0, 6, 12, 26, 1, 7, 13, 27, 0, 0, 0, 0, 0, 0, 0,
                                                0); /* d and m, fifth bits */
            const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14,
                                                15);
            __m256i heads = _mm512_castsi512_si256(_mm512_permutex2var_epi32(a, begins, b));
            *words = _mm256_castsi256_si128(heads);
            add_fifths(_mm_shuffle_epi8(_mm256_extracti128_si256(heads, 1), apart), q);
        }
    }
    return vi_dot8(vi_dot8(vi_zero(), q[0], x[0]), q[1], x[1]);
}

/* Scales of Q4 are collected by masked loads, for which any port will do: row i of four at 64 bytes from i words (or pairs
 * of words) before its blocks, so that what is wanted of each lies next to what is of the others. For longer blocks this
 * takes more loads than it is worth. */

/* words[k / 2]: in each half the words at the beginning of block k of 16 rows; p: their pieces; kept: dots_piece's */
KT_INLINE void words_of_piece(kt__type type, const uint8_t *const p[LANES],
                              const words8 kept[LANES], vi words[2]) {
    vi eight[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        if (type == KT__TYPE_Q8_0 || type == KT__TYPE_Q5_0) {
            __m128i pair[4];
            KT_UNROLL for (int j = 0; j < 4; j++)
                pair[j] = _mm_unpacklo_epi16(kept[8 * i + 2 * j], kept[8 * i + 2 * j + 1]);
            eight[i] = vi_of_lanes(pair);
            continue;
        }
        const vi order = _mm512_setr_epi32(0x00010000, 0x00030002, 0x00210020, 0x00230022,
                                           0x000a0009, 0x000c000b, 0x002a0029, 0x002c002b,
                                           0x00130012, 0x00150014, 0x00330032, 0x00350034,
                                           0x001c001b, 0x001e001d, 0x003c003b, 0x003e003d);
        vi rows[2];
        KT_UNROLL for (int j = 0; j < 2; j++) {
            const uint8_t *const *row = p + 8 * i + 4 * j;
            rows[j] = vi_load(row[0]);
            KT_UNROLL for (int r = 1; r < 4; r++) /* 9 words a block */
                rows[j] = _mm512_mask_loadu_epi16(rows[j], (__mmask32)0x8040201 << r,
                                                  row[r] - 2 * r);
        }
        eight[i] = _mm512_permutex2var_epi16(rows[0], order, rows[1]);
    }
    if (type == KT__TYPE_Q8_0 || type == KT__TYPE_Q5_0) {
        /* in lane l dword k: block k of rows 2 l and 2 l + 1 */
        words[0] = _mm512_permutex2var_epi32(eight[0], four_runs(0, 16, 1, 17, 4), eight[1]);
        words[1] = _mm512_permutex2var_epi32(eight[0], four_runs(2, 18, 3, 19, 4), eight[1]);
        return;
    }
    words[0] = _mm512_permutex2var_epi64(eight[0], _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                                         eight[1]);
    words[1] = _mm512_permutex2var_epi64(eight[0], _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15),
                                         eight[1]);
}

/* pairs[k]: both words at the beginning of block k of 16 rows, first words before second ones; p, kept: as above */
KT_INLINE void pairs_of_piece(kt__type type, const uint8_t *const p[LANES],
                              const words8 kept[LANES], vi pairs[4]) {
    if (type == KT__TYPE_Q5_1) {
        vi x[4];
        KT_UNROLL for (int i = 0; i < 4; i++) x[i] = vi_of_lanes(kept + 4 * i);
        vi_columns_apart(x, pairs);
        return;
    }
    const vi apart = _mm512_setr_epi32(0x00020000, 0x00060004, 0x000a0008, 0x000e000c, 0x00120010,
                                       0x00160014, 0x001a0018, 0x001e001c, 0x00030001, 0x00070005,
                                       0x000b0009, 0x000f000d, 0x00130011, 0x00170015, 0x001b0019,
                                       0x001f001d);
    const int pitch = 5; /* pairs a block; the fourth is beyond what has room for four rows */
    const vi order = four_runs(0, 16, pitch, 16 + pitch, 1),
             third = four_runs(2 * pitch, 16 + 2 * pitch, 0, 0, 1);
    const uint32_t wanted = 1u | 1u << pitch | 1u << 2 * pitch;
    vi eight[2], thirds[2];
    __m128i last[4];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi rows[2];
        KT_UNROLL for (int j = 0; j < 2; j++) {
            const uint8_t *const *row = p + 8 * i + 4 * j;
            __m128i end = _mm_loadu_si32(row[0] + 12 * pitch);
            rows[j] = vi_load(row[0]);
            KT_UNROLL for (int r = 1; r < 4; r++) {
                rows[j] = _mm512_mask_loadu_epi32(rows[j], (__mmask16)(wanted << r),
                                                  row[r] - 4 * r);
                end = _mm_mask_loadu_epi32(end, (__mmask8)(wanted << r),
                                           row[r] + 12 * pitch - 4 * r);
            }
            last[2 * i + j] = end;
        }
        eight[i] = _mm512_permutex2var_epi32(rows[0], order, rows[1]);
        thirds[i] = _mm512_permutex2var_epi32(rows[0], third, rows[1]);
    }
    pairs[0] = _mm512_shuffle_i32x4(eight[0], eight[1], 0x44);
    pairs[1] = _mm512_shuffle_i32x4(eight[0], eight[1], 0xee);
    pairs[2] = _mm512_shuffle_i32x4(thirds[0], thirds[1], 0x44);
    pairs[3] = vi_of_lanes(last);
    KT_UNROLL for (int k = 0; k < 4; k++) pairs[k] = _mm512_permutexvar_epi16(apart, pairs[k]);
}

/* Converted from memory: from a register each takes two more shuffles. */
KT_INLINE void floats_of_piece(vi words, vf *low, vf *high) {
    kt__f16 room[32];
    vi_store(room, words);
    __asm__("" : "+m"(room));
    *low = vf_from_f16(room);
    *high = vf_from_f16(room + 16);
}

/* Four rows' sums, side by side in each 128-bit lane. */
KT_INLINE vi join_rows(const vi part[4]) {
    vi pair[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi a = part[2 * i], b = part[2 * i + 1];
        vi inner = _mm512_castps_si512(
            _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0x4e));
        pair[i] = vi_add(_mm512_mask_blend_epi32(0xcccc, a, b), inner);
    }
    vf a = _mm512_castsi512_ps(pair[0]), b = _mm512_castsi512_ps(pair[1]);
    return vi_add(_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
                  _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
}

/* As rowdot_256.h has it. */
#define KT_OWN_PIECE
KT_INLINE void piece_of_rows(kt__type type, size_t pitch, const uint8_t *p, const uint8_t *last,
                             const uint8_t *ahead, const vi x[2], vi sum[4], vf d[4], vf m[4]) {
    const uint8_t *row[LANES];
    words8 kept[LANES];
    vi quad[4];
    KT_UNROLL for (int i = 0; i < LANES; i++) row[i] = i == LANES - 1 ? last
                                                                      : p + (size_t)i * pitch;
    KT_UNROLL for (int i = 0; i < 4; i++) {
        vi part[4];
        KT_UNROLL for (int j = 0; j < 4; j++) {
            part[j] = dots_piece(type, row[4 * i + j], x, kept + 4 * i + j);
            KT_FETCH_HERE(part[j]);
            kt__fetch_far(ahead, 4 * LANES * block_bytes(type), 4 * i + j, LANES);
            KT_FETCH_HERE(part[j]);
        }
        quad[i] = join_rows(part);
    }
    vi_lanes_apart(quad, sum);
    if (has_second_word(type)) {
        vi pairs[4];
        pairs_of_piece(type, row, kept, pairs);
        KT_UNROLL for (int k = 0; k < 4; k++) floats_of_piece(pairs[k], d + k, m + k);
    } else {
        vi words[2];
        words_of_piece(type, row, kept, words);
        KT_UNROLL for (int k = 0; k < 2; k++) floats_of_piece(words[k], d + 2 * k, d + 2 * k + 1);
    }
}

#endif
