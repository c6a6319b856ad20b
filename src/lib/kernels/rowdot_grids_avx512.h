/* Products of one token for AVX-512, of types with codebooks: entries are gathered, and multiplied in registers.
 *
 * Owns: the sums of a superblock. For tier_amx_unpacked.c, after rowdot.inc. */
#ifndef KT_ROWDOT_GRIDS_AVX512_H
#define KT_ROWDOT_GRIDS_AVX512_H

/* ---- w[j]: the weights 64j..64j+63, KT__GRID_BIAS added; the scales, words in order ---- */

typedef struct one_grid {
    vi w[4];
    __m256i scale; /* 8 or 16 */
} one_grid;

KT_INLINE __m256i one_load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
KT_INLINE __m128i one_load16(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
KT_INLINE __m128i one_load8(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
KT_INLINE __m128i one_bcast4(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm_set1_epi32(x);
}
KT_INLINE __m256i one_bcast4x8(const void *p) { return _mm256_broadcastd_epi32(one_bcast4(p)); }

/* (a & b) | c */
KT_INLINE __m256i one_and_or(__m256i a, __m256i b, __m256i c) {
    return _mm256_ternarylogic_epi32(a, b, c, 0xea);
}
/* Into a register that is clear: a gather waits for what it held. */
KT_INLINE vi one_entries8(const uint64_t *grid, __m256i index) {
    return _mm512_mask_i32gather_epi64(vi_zero(), 0xff, index, (const long long *)grid, 8);
}
KT_INLINE vi one_entries4(const uint32_t *grid, vi index) {
    return _mm512_mask_i32gather_epi32(vi_zero(), 0xffff, index, (const int *)grid, 4);
}
KT_INLINE __m256i one_low_bytes(const uint8_t *p) { return _mm256_cvtepu8_epi32(one_load8(p)); }

/* Sign bits, for masks of 64 each. */
KT_INLINE void one_store_signs(__m256i s, uint64_t signs[4]) {
    _mm256_storeu_si256((__m256i *)(void *)signs, s);
    __asm__("" : "+m"(*(uint64_t(*)[4])signs)); /* masks come from memory, not through registers */
}

/* the two nibbles of each byte, as words 2 s + 1 */
KT_INLINE __m256i one_nibble_scales(__m128i bytes) {
    const __m256i one = _mm256_set1_epi32(0x00010001);
    __m256i x = _mm256_cvtepu8_epi32(bytes);
    __m256i low = one_and_or(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(30), one);
    return one_and_or(_mm256_slli_epi32(x, 13), _mm256_set1_epi32(30 << 16), low);
}

/* eight words of four signs of 7 bits and a scale in the highest 4 */
KT_INLINE __m256i one_sevens(__m256i x, uint64_t signs[4]) {
    __m256i s = _mm256_and_si256(x, _mm256_set1_epi32(0x7f));
    s = one_and_or(_mm256_slli_epi32(x, 1), _mm256_set1_epi32(0x7f00), s);
    s = one_and_or(_mm256_slli_epi32(x, 2), _mm256_set1_epi32(0x7f0000), s);
    s = one_and_or(_mm256_slli_epi32(x, 3), _mm256_set1_epi32(0x7f000000), s);
    __m256i odd = _mm256_xor_si256(s, _mm256_slli_epi32(s, 4));
    odd = _mm256_xor_si256(odd, _mm256_slli_epi32(odd, 2));
    odd = _mm256_xor_si256(odd, _mm256_slli_epi32(odd, 1));
    s = one_and_or(odd, _mm256_set1_epi8((char)128), s);
    one_store_signs(s, signs);
    __m256i scale = one_and_or(_mm256_srli_epi32(x, 27), _mm256_set1_epi32(30),
                               _mm256_set1_epi32(1));
    return _mm256_castsi128_si256(_mm256_cvtepi32_epi16(scale));
}

KT_INLINE void one_iq2_xxs(const kt__iq2_xxs *b, one_grid *to) {
    const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1,
                                            -1, 8, -1, -1, -1, 9, -1, -1, -1, 10, -1, -1, -1, 11,
                                            -1, -1, -1);
    const __m256i rest = _mm256_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15);
    uint64_t signs[4];
    to->scale = one_sevens(
        _mm256_permutex2var_epi32(one_load32(b->group), rest, one_load32(b->group + 4)), signs);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        __m256i x = _mm256_broadcastsi128_si256(one_load16(b->group + 2 * j));
        vi w = one_entries8(kt__grid_iq2_xxs, _mm256_shuffle_epi8(x, spread));
        to->w[j] = vi_mirrored(w, (const uint8_t *)(signs + j));
    }
}

KT_INLINE void one_iq2_xs(const kt__iq2_xs *b, one_grid *to) {
    uint64_t signs[4];
    vi s = _mm512_srli_epi16(vi_load(b->qs), 9), odd = vi_xor(s, _mm512_slli_epi16(s, 4));
    odd = vi_xor(odd, _mm512_slli_epi16(odd, 2));
    odd = vi_xor(odd, _mm512_slli_epi16(odd, 1));
    s = _mm512_ternarylogic_epi32(odd, vi_bytes(128), s, 0xea);
    one_store_signs(_mm512_cvtepi16_epi8(s), signs);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        __m256i index = _mm256_cvtepu16_epi32(one_load16(b->qs + 8 * j));
        vi w = one_entries8(kt__grid_iq2_xs, _mm256_and_si256(index, _mm256_set1_epi32(511)));
        to->w[j] = vi_mirrored(w, (const uint8_t *)(signs + j));
    }
    to->scale = one_nibble_scales(one_load8(b->scales));
}

KT_INLINE void one_iq2_s(const kt__iq2_s *b, one_grid *to) {
    const __m256i even = _mm256_setr_epi32(8, 6, 4, 2, 0, 30, 28, 26),
                  odd = _mm256_setr_epi32(24, 22, 20, 18, 16, 14, 12, 10);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        __m256i high = _mm256_rolv_epi32(one_bcast4x8(b->qh + j / 2 * 4), j % 2 ? odd : even);
        __m256i index = one_and_or(high, _mm256_set1_epi32(0x300), one_low_bytes(b->qs + 8 * j));
        to->w[j] = vi_mirrored(one_entries8(kt__grid_iq2_s, index), b->signs + 8 * j);
    }
    to->scale = one_nibble_scales(one_load8(b->scales));
}

KT_INLINE void one_iq3_xxs(const kt__iq3_xxs *b, one_grid *to) {
    uint64_t signs[4];
    to->scale = one_sevens(one_load32(b->rest), signs);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        vi w = one_entries4(kt__grid_iq3_xxs, _mm512_cvtepu8_epi32(one_load16(b->qs + 16 * j)));
        to->w[j] = vi_mirrored(w, (const uint8_t *)(signs + j));
    }
}

KT_INLINE void one_iq3_s(const kt__iq3_s *b, one_grid *to) {
    KT_UNROLL for (int j = 0; j < 4; j++) {
        __mmask16 ninth;
        memcpy(&ninth, b->qh + 2 * j, sizeof ninth);
        vi index = _mm512_cvtepu8_epi32(one_load16(b->qs + 16 * j));
        index = _mm512_mask_or_epi32(index, ninth, index, vi_set1(256));
        to->w[j] = vi_mirrored(one_entries4(kt__grid_iq3_s, index), b->signs + 8 * j);
    }
    to->scale = one_nibble_scales(one_bcast4(b->scales));
}

/* a + 1 or, where the sign's bit is set, a - 1 */
KT_INLINE vi one_moved(vi a, __mmask8 down) {
    const vi up = vi_bytes(1);
    return _mm512_sub_epi8(a, _mm512_mask_blend_epi64(down, vi_bytes(-1), up));
}

KT_INLINE void one_iq1_s(const kt__iq1_s *b, one_grid *to) {
    const __m256i turn = _mm256_setr_epi32(8, 5, 2, 31, 24, 21, 18, 15);
    __m128i qh = one_load16(b->qh);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        __m256i high = _mm256_rolv_epi32(one_bcast4x8(b->qh + 2 * j), turn);
        __m256i index = one_and_or(high, _mm256_set1_epi32(0x700), one_low_bytes(b->qs + 8 * j));
        to->w[j] = one_entries8(kt__grid_iq1, index);
    }
    __m128i s = _mm_ternarylogic_epi32(_mm_srli_epi16(qh, 11), _mm_set1_epi16(14),
                                       _mm_set1_epi16(1), 0xea);
    to->scale = _mm256_castsi128_si256(s);
}

KT_INLINE void one_iq1_m(const kt__iq1_m *b, one_grid *to) {
    const __m256i turn = _mm256_setr_epi32(8, 4, 0, 28, 24, 20, 16, 12);
    const __m256i sign = _mm256_setr_epi32(0x8, 0x80, 0x800, 0x8000, 0x80000, 0x800000, 0x8000000,
                                           (int)0x80000000);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        __m256i x = one_bcast4x8(b->qh + 4 * j);
        __m256i index = one_and_or(_mm256_rolv_epi32(x, turn), _mm256_set1_epi32(0x700),
                                   one_low_bytes(b->qs + 8 * j));
        to->w[j] = one_moved(one_entries8(kt__grid_iq1, index), _mm256_test_epi32_mask(x, sign));
    }
    const __m256i fours = _mm256_setr_epi64x(0, 0x0001000100010001, 0x0002000200020002,
                                             0x0003000300030003);
    __m256i s = _mm256_permutexvar_epi16(fours, _mm256_castsi128_si256(one_load8(b->scales)));
    s = _mm256_srlv_epi16(_mm256_slli_epi16(s, 1), _mm256_set1_epi64x(0x0009000600030000));
    to->scale = one_and_or(s, _mm256_set1_epi16(14), _mm256_set1_epi16(1));
}

KT_INLINE one_grid one_grid_of(kt__type type, const uint8_t *block) {
    one_grid g;
    switch (type) {
    case KT__TYPE_IQ2_XXS: one_iq2_xxs((const void *)block, &g); break;
    case KT__TYPE_IQ2_XS: one_iq2_xs((const void *)block, &g); break;
    case KT__TYPE_IQ2_S: one_iq2_s((const void *)block, &g); break;
    case KT__TYPE_IQ3_XXS: one_iq3_xxs((const void *)block, &g); break;
    case KT__TYPE_IQ3_S: one_iq3_s((const void *)block, &g); break;
    case KT__TYPE_IQ1_S: one_iq1_s((const void *)block, &g); break;
    default: one_iq1_m((const void *)block, &g); break;
    }
    return g;
}

/* what is too much, of all weights: KT__GRID_BIAS; of IQ1_S it is 1 more or less */
KT_INLINE vi one_excess(kt__type type, const uint8_t *block, __m256i scale, const int16_t *sums) {
    __m256i by = _mm256_slli_epi16(scale, 6);
    _Static_assert(KT__GRID_BIAS == 1 << 6, "a shift");
    if (fine_groups(type))
        return _mm512_zextsi256_si512(
            _mm256_dpwssd_epi32(_mm256_setzero_si256(), by, one_load32(sums)));
    __m128i by8 = _mm256_castsi256_si128(by);
    if (type == KT__TYPE_IQ1_S) {
        __m128i s = _mm256_castsi256_si128(scale);
        __mmask8 down = _mm_movepi16_mask(one_load16(((const kt__iq1_s *)(const void *)block)->qh));
        by8 = _mm_mask_add_epi16(_mm_sub_epi16(by8, s), down, by8, s);
    }
    __m128i sum = _mm_dpwssd_epi32(_mm_setzero_si128(), by8, one_load16(sums));
    return _mm512_zextsi128_si512(sum);
}

KT_INLINE vi one_dots_grid(kt__type type, const uint8_t *block, const int8_t *act,
                           const int16_t *sums) {
    const vi fine = _mm512_setr_epi64(0, 0, 0x0001000100010001, 0x0001000100010001,
                                      0x0002000200020002, 0x0002000200020002, 0x0003000300030003,
                                      0x0003000300030003);
    const vi coarse = _mm512_setr_epi64(0, 0, 0, 0, 0x0001000100010001, 0x0001000100010001,
                                        0x0001000100010001, 0x0001000100010001);
    one_grid g = one_grid_of(type, block);
    vi sum = vi_sub(vi_zero(), one_excess(type, block, g.scale, sums));
    vi scale = _mm512_castsi256_si512(g.scale);
    KT_UNROLL for (int j = 0; j < 4; j++) {
        vi which = fine_groups(type) ? _mm512_add_epi16(fine, _mm512_set1_epi16((short)(4 * j)))
                                     : _mm512_add_epi16(coarse, _mm512_set1_epi16((short)(2 * j)));
        vi pairs = _mm512_maddubs_epi16(g.w[j], vi_load(act + 64 * j));
        sum = vi_dot16(sum, _mm512_permutexvar_epi16(which, scale), pairs);
    }
    return sum;
}

KT_INLINE vi one_dots(kt__type type, const rd_call *call, const rd_batch *batch, int i) {
    bool fine = fine_groups(type);
    const uint8_t *sums = call->mm->act + (fine ? call->layout.s16 : call->layout.s32);
    sums += (fine ? 32 : 16) * batch->sb[i];
    return one_dots_grid(type, batch->block[i], call->act + 256 * batch->sb[i], (const void *)sums);
}

#include "kernels/rowdot_one_avx512.h"

#endif
