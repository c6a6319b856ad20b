/* rowdot_one.inc's batch in 512 bits: sums of one superblock after another, whose halves are noted as they pass.
 *
 * Owns: the batch and its values. A file supplies one_dots(type, call, batch, i), the sums of superblock i;
 * those of codebooks have what was added to their weights taken off. After rowdot.inc; for the files of the
 * tiers avx512 and amx. */
#ifndef KT_ROWDOT_ONE_AVX512_H
#define KT_ROWDOT_ONE_AVX512_H

/* The d of superblocks, or of each of their blocks. */
typedef kt__f16 one_room[4][LANES];

KT_INLINE int one_n_blocks(kt__type type) {
    return is_q256(type) ? 1 : (int)(group_bytes(type) / sizeof(kt__q1_0));
}

KT_INLINE void one_note_d(kt__type type, const uint8_t *block, int i, one_room *d) {
    if (has_codebook(type)) {
        (*d)[0][i] = d_of_grid(type, block);
        return;
    }
    KT_UNROLL for (int k = 0; k < one_n_blocks(type); k++) {
        size_t at = is_ternary(type) ? block_bytes(type) - 2 : sizeof(kt__q1_0) * (size_t)k;
        memcpy(&(*d)[k][i], block + at, sizeof(kt__f16));
    }
}

KT_INLINE void one_batch(kt__type type, const rd_call *call, rd_batch *batch, one_room *d) {
    KT_ROLLED for (int i = 0; i < LANES; i++) {
        rd_prefetch(batch, i, group_bytes(type));
        call->part[i] = one_dots(type, call, batch, i);
        one_note_d(type, batch->block[i], i, d);
    }
    if (!is_q256(type)) {
        KT_UNROLL for (int j = 0; j < 8; j++)
            batch->d32[j] = vf_from_f16((*d)[j * one_n_blocks(type) / 8]);
        return;
    }
    const float unit = has_codebook(type) ? unit_of_grid(type) : 1.0f;
    batch->d = batch->dmin = vf_mul(vf_from_f16((*d)[0]), vf_bcast(&unit));
    KT_UNROLL for (int i = 0; i < side_pairs(type); i++) batch->pair[i] = vi_set1(0x00010001);
}

KT_INLINE vf one_value(kt__type type, const rd_call *call, const rd_batch *batch) {
    const uint8_t *part[LANES];
    vi x[16], sum[8];
    if (is_ternary(type)) return rd_value_q256(type, call, batch, 0, 1, call->part);
    if (is_q256(type)) return vf_mul(batch->d, vf_cvt(vi_reduce(call->part)));
    for (int i = 0; i < LANES; i++) part[i] = (const uint8_t *)(call->part + i);
    vi_load_rows32(part, 0, x);
    vi_load_rows32(part, 32, x + 8);
    KT_UNROLL for (int j = 0; j < 8; j++) /* two halves, or two dwords each */
        sum[j] = type == KT__TYPE_Q1_0 ? vi_add(x[j], x[8 + j]) : vi_add(x[2 * j], x[2 * j + 1]);
    return rd_steps_q32(type, call, batch, 0, 1, sum, NULL);
}

#include "kernels/rowdot_one.inc"

#endif
