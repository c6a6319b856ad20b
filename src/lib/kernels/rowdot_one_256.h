/* Products of one token in 256 bits, for types that unpack.inc brings into another one's blocks where there are
 * more: their weights are made in registers and multiplied there.
 *
 * Owns: what rowdot does with them, batch by batch. For the unpacked part of the tiers avx2 and
 * avxvnni, after rowdot.inc and unpack.inc. */
#ifndef KT_ROWDOT_ONE_256_H
#define KT_ROWDOT_ONE_256_H

/* Of a superblock with codebooks; XXS and S have eight scales. */
typedef struct one_codes {
    unpack_codes of;
    int8_t scale[32];
} one_codes;
typedef one_codes one_room[LANES];

/* ---- heads ---- */

KT_INLINE void one_head_ternary(kt__type type, rd_batch *batch) {
    vi x[4];
    vi_load_rows16(batch->block, block_bytes(type) - 16, x); /* d is last */
    batch->d = batch->dmin = vf_from_f16_low(vi_shr(x[3], 16));
    KT_UNROLL for (int i = 0; i < side_pairs(type); i++) batch->pair[i] = vi_set1(0x00010001);
}

/* All codes before any entry: read again at once, they would wait for their stores. */
KT_INLINE void one_head_grid(kt__type type, rd_batch *batch, one_codes codes[LANES]) {
    const uint8_t *scales[LANES];
    int32_t d[LANES];
    super_head h;
    KT_ROLLED for (int i = 0; i < LANES; i++) {
        codes_of_grid(type, batch->block[i], &codes[i].of, codes[i].scale);
        d[i] = d_of_grid(type, batch->block[i]);
        scales[i] = (const uint8_t *)codes[i].scale;
    }
    vi_load_rows16(scales, 0, h.scale);
    KT_UNROLL for (int i = 0; i < side_pairs(type); i++) batch->pair[i] = side_pair(type, &h, i);
    const float unit = unit_of_grid(type);
    batch->d = vf_mul(vf_from_f16_low(vi_load(d)), vf_bcast(&unit));
}

/* The d of each 32-block. */
KT_INLINE words8 one_words(kt__type type, const uint8_t *block) {
    const uint64_t each = 0x0001000100010001;
    uint64_t d[4];
    if (type == KT__TYPE_Q1_0) {
        const kt__q1_0 *b = (const void *)block;
        return _mm_set_epi64x((int64_t)(b[1].d * each), (int64_t)(b[0].d * each));
    }
    const kt__q2_0 *b = (const void *)block;
    KT_UNROLL for (int i = 0; i < 4; i++) d[i] = b[i].d * (each & 0xffffffff);
    return _mm_set_epi64x((int64_t)(d[2] | d[3] << 32), (int64_t)(d[0] | d[1] << 32));
}

/* ---- dots ---- */

/* The i16 scales of weights 32j..32j+31, unsigned. */
KT_INLINE vi one_scales(kt__type type, const int8_t *scale, int j) {
    const vi coarse = _mm256_set1_epi16((short)0xff00);
    const vi fine = _mm256_setr_m128i(_mm_set1_epi16((short)0xff00), _mm_set1_epi16((short)0xff01));
    return fine_groups(type) ? vi_shuffle8(vi_bcast(scale + 2 * j), fine)
                             : vi_shuffle8(vi_bcast(scale + j), coarse);
}

KT_INLINE vi one_dots_grid(kt__type type, const uint8_t *block, const one_codes *codes,
                           const int8_t *act) {
    vi sum = vi_zero();
    KT_UNROLL for (int j = 0; j < 8; j++) {
        vi pairs = vi_pairs(weights_of_grid(type, block, &codes->of, 32 * j),
                            vi_load(act + 32 * j));
        sum = vi_dot16(sum, one_scales(type, codes->scale, j), pairs);
    }
    return sum;
}

/* sums of pairs in i16, all small, as i32 */
KT_INLINE vi one_widened(vi pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

KT_INLINE vi one_dots_tq2(const kt__tq2_0 *b, const int8_t *act) {
    vi q[8], sum = vi_zero();
    quants_crumbs(b->qs, q);
    KT_UNROLL for (int j = 0; j < 8; j++)
        sum = vi_add16(sum, vi_pairs(q[j], vi_load(act + 32 * j)));
    return one_widened(sum);
}

/* The first digits to the base 3 of bytes less 128, and what is left times 3, which brings the next
 * digits to the front. */
KT_INLINE vi one_digits(vi x) {
    vi over = _mm256_cmpgt_epi8(x, vi_bytes(85 - 128)),
       twice = _mm256_cmpgt_epi8(x, vi_bytes(170 - 128));
    return _mm256_abs_epi8(_mm256_add_epi8(over, twice));
}
KT_INLINE vi one_tripled(vi x) { return _mm256_add_epi8(x, _mm256_add_epi8(x, x)); }

/* the four digits of each of four bytes, less 128 */
KT_INLINE __m128i one_last_digits(const uint8_t *qh) {
    const vi powers = _mm256_setr_epi16(1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27);
    vi bytes = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(vi_bcast(qh)));
    vi x = vi_and(_mm256_mullo_epi16(bytes, powers), _mm256_set1_epi16(255));
    x = vi_xor(x, _mm256_set1_epi16(128));
    return _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

KT_INLINE vi one_dots_tq1(const kt__tq1_0 *b, const int8_t *act) {
    vi x = vi_xor(vi_load(b->qs), vi_bytes(128)), sum = vi_zero();
    KT_UNROLL for (int n = 0; n < 5; n++) {
        sum = vi_add16(sum, vi_pairs(one_digits(x), vi_load(act + 32 * n)));
        x = one_tripled(x);
    }
    x = vi_xor(vi_dup128(_mm_loadu_si128((const __m128i *)(const void *)(b->qs + 32))),
               vi_bytes(128));
    x = _mm256_blend_epi32(x, one_tripled(x), 0xf0); /* first digits, and second ones */
    KT_UNROLL for (int n = 0; n < 3; n++) {
        if (n == 2) x = _mm256_inserti128_si256(x, one_last_digits(b->qh), 1);
        sum = vi_add16(sum, vi_pairs(one_digits(x), vi_load(act + 160 + 32 * n)));
        x = one_tripled(one_tripled(x));
    }
    return one_widened(sum);
}

/* dword j: the sum of block j */
KT_INLINE vi one_dots_q1(const kt__q1_0 *b, const int8_t *act) {
    vi x = vi_load_pieces16(b->qs, sizeof *b), sum = vi_zero();
    KT_UNROLL for (int k = 0; k < 8; k++) {
        vi q = low_bits(k ? vi_shr(x, k - 1) : vi_shl(x, 1), 2);
        sum = vi_add16(sum, vi_pairs(q, vi_load(act + 32 * k)));
    }
    return one_widened(sum);
}

/* dwords: the sums of blocks 0, 1, 4, 5, 2, 3, 6, 7 */
KT_INLINE vi one_dots_q2(const kt__q2_0 *b, const int8_t *act) {
    vi half[2];
    KT_UNROLL for (int i = 0; i < 2; i++) {
        vi x = vi_load_pieces16(b[2 * i].qs, sizeof *b), sum = vi_zero();
        KT_UNROLL for (int k = 0; k < 4; k++) sum = vi_add16(
            sum, vi_pairs(low_bits(vi_shr(x, 2 * k), 3), vi_load(act + 128 * i + 32 * k)));
        half[i] = one_widened(sum);
    }
    return _mm256_hadd_epi32(half[0], half[1]);
}

KT_INLINE vi one_dots(kt__type type, const uint8_t *block, const one_codes *codes,
                      const int8_t *act) {
    switch (type) {
    case KT__TYPE_TQ1_0: return one_dots_tq1((const void *)block, act);
    case KT__TYPE_TQ2_0: return one_dots_tq2((const void *)block, act);
    case KT__TYPE_Q1_0: return one_dots_q1((const void *)block, act);
    case KT__TYPE_Q2_0: return one_dots_q2((const void *)block, act);
    default: return one_dots_grid(type, block, codes, act);
    }
}

/* ---- a batch ---- */

KT_INLINE void one_batch(kt__type type, const rd_call *call, rd_batch *batch, one_room *room) {
    one_codes *codes = *room;
    if (is_ternary(type))
        one_head_ternary(type, batch);
    else if (is_q256(type))
        one_head_grid(type, batch, codes);
    KT_UNROLL for (int i = 0; i < LANES; i++) {
        rd_prefetch(batch, i, group_bytes(type));
        call->part[i] = one_dots(type, batch->block[i], codes + i, call->act + 256 * batch->sb[i]);
        if (!is_q256(type)) batch->first[i] = one_words(type, batch->block[i]);
    }
    if (!is_q256(type)) rd_head32(type, batch);
}

KT_INLINE vf one_value(kt__type type, const rd_call *call, const rd_batch *batch) {
    static const int order[8] = {0, 1, 4, 5, 2, 3, 6, 7}; /* of Q2_0's blocks */
    const uint8_t *part[LANES];
    vi x[8], sum[8];
    if (is_q256(type)) return rd_value_q256(type, call, batch, 0, 1, call->part);
    for (int i = 0; i < LANES; i++) part[i] = (const uint8_t *)(call->part + i);
    vi_load_rows32(part, 0, x);
    KT_UNROLL for (int j = 0; j < 8; j++) sum[type == KT__TYPE_Q2_0 ? order[j] : j] = x[j];
    return rd_steps_q32(type, call, batch, 0, 1, sum, NULL);
}

#include "kernels/rowdot_one.inc"

KT_INLINE void rowdot_one(kt__type type, const kt__mm *mm, void *scratch) {
    one_stream(type, mm, scratch);
}

#endif
