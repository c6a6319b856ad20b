/* What the files of codecs share.
 *
 * Owns: the record by which a type's codec is known to types.c, and the encoders of the types with codebooks. Inside
 * the quant room only; no state. */
#ifndef KT_QUANT_CODEC_H
#define KT_QUANT_CODEC_H

#include "quant/fit.h"
#include "quant/quant.h"

/* Float types fill the row functions; block types form, begin and set_levels, and unpack32 or
 * unpack256. Encoding a block is a fit, its scales (begin) and its levels; decoding is unpacking and
 * one multiplication (types.c). What no fit suits has an encode_block of its own, given the weights
 * of the squared errors, or an encode_row, where no search is wanted. */
typedef struct kt__codec {
    void (*encode_row)(const float *src, int64_t n, void *dst);
    void (*decode_row)(const void *src, int64_t n, float *dst);
    void (*encode_block)(kt__effort effort, const float *x, const float *w, void *block);
    /* codes of some weights of a block of 256 anew, its scales kept (quant/codec.h); or NULL */
    void (*choose_again)(const kt__super *now, const float *x, const float *w, int first, int n,
                         void *block);
    kt__fit_kind kind;
    kt__fit_form form;
    void (*begin)(const kt__fit *fit, void *block); /* the scales */
    /* and the levels, as unpacking gives them, each bit anew */
    void (*set_levels)(const int8_t *q, void *block);
    void (*unpack32)(const void *block, kt__block32 *out); /* out: each 32 weights of the block */
    void (*unpack256)(const void *block, kt__super *out);
} kt__codec;

#define X(name, ggml_id, elems, bytes, act, products) extern const kt__codec kt__codec_##name;
#include "quant/types.def"
#undef X

extern const int8_t kt__iq4_table[16], kt__mxfp4_table[16];

/* Encoders of the types with codebooks (IQ1, IQ2, IQ3).
 *
 * The search for scales, signs and entries. No state; any thread. */

/* x[256] into a block; w[256]: what the squared errors count, not negative */
typedef void kt__encode_grid_fn(kt__effort effort, const float *x, const float *w, void *block);
kt__encode_grid_fn kt__encode_IQ2_XXS, kt__encode_IQ2_XS, kt__encode_IQ2_S, kt__encode_IQ3_XXS,
    kt__encode_IQ3_S, kt__encode_IQ1_S, kt__encode_IQ1_M;

/* Codes of the n weights from `first` on, both multiples of 8, chosen anew for x[n] and w[n]; now:
 * the block, whose scales stay. */
typedef void kt__choose_grid_fn(const kt__super *now, const float *x, const float *w, int first,
                                int n, void *block);
kt__choose_grid_fn kt__choose_IQ2_XXS, kt__choose_IQ2_XS, kt__choose_IQ2_S, kt__choose_IQ3_XXS,
    kt__choose_IQ3_S;

#endif
