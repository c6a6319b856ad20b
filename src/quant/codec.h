/* How the codec files hand their functions to types.c.
 *
 * Owns: the codec record of a type. Inside the quant room only; no state. */
#ifndef KT_QUANT_CODEC_H
#define KT_QUANT_CODEC_H

#include "quant/quant.h"

/* Float types fill the row functions, types of 32 encode and unpack32, types of 256 encode and
 * unpack256. Decoding a block type is unpacking and one multiplication (types.c). */
typedef struct kt__codec {
    void (*encode_row)(const float *src, int64_t n, void *dst);
    void (*decode_row)(const void *src, int64_t n, float *dst);
    void (*encode)(const float *x, void *block); /* one block */
    void (*unpack32)(const void *block, kt__block32 *out);
    void (*unpack256)(const void *block, kt__super *out);
} kt__codec;

#define X(name, ggml_id, elems, bytes, act, products) extern const kt__codec kt__codec_##name;
#include "quant/types.def"
#undef X

extern const int8_t kt__iq4_table[16];

#endif
