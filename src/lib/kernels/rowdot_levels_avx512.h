/* Products of one token for AVX-512, of types of few levels: their weights are made in registers and multiplied
 * there. Codebooks are the avx2 tier's: 256 bits at a time were measured to be faster than unpacked superblocks.
 *
 * Owns: the sums of a superblock. For the unpacked part of the avx512 tier, after rowdot.inc. */
#ifndef KT_ROWDOT_LEVELS_AVX512_H
#define KT_ROWDOT_LEVELS_AVX512_H

/* bytes m of both halves have weights m, m + 32, m + 64, m + 96 */
KT_INLINE vi one_dots_tq2(const kt__tq2_0 *b, const int8_t *act) {
    vi x = vi_load(b->qs), sum = vi_zero();
    KT_UNROLL for (int k = 0; k < 4; k++)
        sum = vi_dot8(sum, low_bits(vi_shr(x, 2 * k), 3), vi_load(act + 64 * k));
    return sum;
}

/* A byte x has its first digit to the base 3 in front: it is (3 x - y) / 256, y being the low byte of 3 x, which
 * has the next digit in front. The last 4 of 52 bytes have four digits, the others five. */
KT_INLINE vi one_dots_tq1(const kt__tq1_0 *b, const int8_t *act) {
    const __mmask64 bytes = (1ull << 52) - 1, of_five = (1ull << 48) - 1;
    vi x = _mm512_maskz_loadu_epi8(bytes, b->qs), sum = vi_zero(), less = vi_zero();
    KT_UNROLL for (int n = 0; n < 5; n++) {
        vi a = n < 4 ? vi_load(act + 52 * n) : _mm512_maskz_loadu_epi8(of_five, act + 52 * n);
        sum = vi_dot8(sum, x, a);
        x = _mm512_add_epi8(x, _mm512_add_epi8(x, x));
        less = vi_dot8(less, x, a);
    }
    return vi_sar(vi_sub(vi_add(sum, vi_add(sum, sum)), less), 8);
}

/* dword j: the sum of block j, in two halves; bits as 0 and 2 */
KT_INLINE vi one_dots_q1(const kt__q1_0 *b, const int8_t *act) {
    vi x = vi_cat4(b[0].qs, b[1].qs, b[0].qs, b[1].qs), sum = vi_zero();
    KT_UNROLL for (int k = 0; k < 8; k += 2) {
        vi turn = _mm512_inserti64x4(vi_set1(k - 1), _mm256_set1_epi32(k), 1);
        sum = vi_dot8(sum, low_bits(_mm512_rorv_epi32(x, turn), 2), vi_load(act + 32 * k));
    }
    return sum;
}

/* dwords 2j and 2j + 1: those of block j */
KT_INLINE vi one_dots_q2(const kt__q2_0 *b, const int8_t *act) {
    vi x = vi_cat4(b[0].qs, b[1].qs, b[2].qs, b[3].qs), sum = vi_zero();
    KT_UNROLL for (int k = 0; k < 4; k++)
        sum = vi_dot8(sum, low_bits(vi_shr(x, 2 * k), 3), vi_load(act + 64 * k));
    return sum;
}

KT_INLINE vi one_dots(kt__type type, const rd_call *call, const rd_batch *batch, int i) {
    const int8_t *act = call->act + 256 * batch->sb[i];
    const void *block = batch->block[i];
    switch (type) {
    case KT__TYPE_TQ1_0: return one_dots_tq1(block, act);
    case KT__TYPE_TQ2_0: return one_dots_tq2(block, act);
    case KT__TYPE_Q1_0: return one_dots_q1(block, act);
    default: return one_dots_q2(block, act);
    }
}

#include "kernels/rowdot_one_avx512.h"

extern const kt__mm_kernels kt__avx2_mm_unpacked[];

KT_INLINE void rowdot_one(kt__type type, const kt__mm *mm, void *scratch) {
    if (has_codebook(type))
        kt__avx2_mm_unpacked[type].rowdot(mm, scratch);
    else
        one_stream(type, mm, scratch);
}

#endif
