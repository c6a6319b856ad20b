/* Tensor types and their reference codecs.
 *
 * Owns: types.def, the block structs, plain encode and decode of rows, and the integer view of a
 * block that defines the arithmetic contract's dot products. Knows no SIMD. Any thread; no state.
 */
#ifndef KT_QUANT_QUANT_H
#define KT_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum kt__type {
#define X(name, ggml_id, elems, bytes, act, products) KT__TYPE_##name,
#include "quant/types.def"
#undef X
    KT__TYPE_COUNT
} kt__type;

/* How the activations of a product with this type are held. */
typedef enum kt__act_kind { KT__ACT_F32, KT__ACT_Q32, KT__ACT_Q256, KT__ACT_COUNT } kt__act_kind;

typedef struct kt__type_info {
    const char *name;
    uint32_t ggml_id;
    int block_elems, block_bytes;
    kt__act_kind act;
} kt__type_info;

const kt__type_info *kt__type_get(kt__type type);
/* The type of a ggml number, or KT__TYPE_COUNT for one we do not read. */
kt__type kt__type_from_ggml(uint32_t ggml_id);
/* By name without case ("q4_k"); KT__TYPE_COUNT: none. */
kt__type kt__type_from_name(const char *name);
/* Bytes of a row of n elements; n must be a multiple of block_elems. */
size_t kt__type_row_bytes(kt__type type, int64_t n);

/* How hard an encoder searches for a block's scales. */
typedef enum kt__effort { KT__EFFORT_CAREFUL, KT__EFFORT_FAST } kt__effort;
typedef struct kt__fitter kt__fitter; /* quant/fit.h */

typedef struct kt__encoding {
    const kt__fitter *fitter; /* a kernel tier's; NULL: the plain one. The bytes are the same. */
    kt__effort effort;
    /* What a squared error of each column counts, finite and not negative, at any scale; NULL: all
     * the same. */
    const float *importance; /* [n] */
} kt__encoding;

/* n a multiple of block_elems. Decode is exact in f32: one rounding order, the format's definition.
 */
void kt__quantize_row(kt__type type, const float *src, int64_t n, void *dst); /* plain, careful */
void kt__quantize_row_by(kt__type type, const kt__encoding *how, const float *src, int64_t n,
                         void *dst);
void kt__dequantize_row(kt__type type, const void *src, int64_t n, float *dst);

/* The whole numbers a weight may take before its scale: a table of 16 ascending ones, or all from
 * lo to hi. false: a float type, which has none. */
typedef struct kt__levels {
    const int8_t *table; /* or NULL */
    int lo, hi;
} kt__levels;
bool kt__type_levels(kt__type type, kt__levels *out);
/* Puts other levels into an encoded block: q[block_elems] as the integer views below give them. */
void kt__block_set_levels(kt__type type, void *block, const int8_t *q);

/* The integers of 256 weights of a Q256 type: weight i is d * scale[i/16] * q[i] - dmin *
 * min[i/16], where the format's offset is already subtracted from q. has_min false: min is 0 and is
 * not used. */
typedef struct kt__super {
    int8_t q[256];     /* IQ4_XS reaches -127..113 */
    int16_t scale[16]; /* one for each 16 weights */
    int16_t min[16];
    float d, dmin;
    bool has_min;
} kt__super;
void kt__super_unpack(kt__type type, const void *block, kt__super *out);

/* Chooses the codes of the n weights of a block from `first` on anew for x[n], their errors counting
 * w[n]; the block's scales stay. false: not of this type. first, n: multiples of 8. */
bool kt__block_choose_again(kt__type type, const float *x, const float *w, int first, int n,
                            void *block);

/* The integers of one 32-block of a Q32 type: weight i is d * q[i] + m, or, from 16 on, d_high *
 * q[i] where it has halves, and then no min. */
typedef struct kt__block32 {
    int8_t q[32];
    float d, m, d_high;
    bool has_min, has_halves;
} kt__block32;
enum { KT__MAX_BLOCK32 = 4 };
/* out[block_elems / 32], at most KT__MAX_BLOCK32: those of one block */
void kt__block32_unpack(kt__type type, const void *block, kt__block32 *out);

#endif
