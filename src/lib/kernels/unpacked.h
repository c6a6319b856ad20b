/* Superblocks of types with codebooks, unpacked.
 *
 * Owns: their layout, as matrix kernels read it in place of a block of the file, and what unpacks
 * into it. For the tiers' own files only; any thread. */
#ifndef KT_KERNELS_UNPACKED_H
#define KT_KERNELS_UNPACKED_H

#include <stdint.h>

#include "base/math.h"
#include "quant/quant.h"

/* Weight i is unit * d * scale[i / 16, or i / 32] * (q[i] - KT__GRID_BIAS). */
typedef struct kt__unpacked {
    uint8_t q[256];
    int8_t scale[16];
    uint32_t d; /* an f16 in the low half */
    float unit; /* a power of 2 */
    uint8_t room[40];
} kt__unpacked;
_Static_assert(sizeof(kt__unpacked) == 320, "whole lines");

/* Superblocks to blocks of the type that they are multiplied as (unpack.inc). */
typedef void kt__unpack_fn(const uint8_t *const *block, int n, int n_block, uint8_t *out);

/* The types that these are to the kernels: with eight scales, and with sixteen. */
#define UNPACKED_COARSE ((kt__type)KT__TYPE_COUNT)
#define UNPACKED_FINE ((kt__type)(KT__TYPE_COUNT + 1))

#endif
