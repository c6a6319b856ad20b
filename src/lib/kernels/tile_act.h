/* Activations in the order of tiles.
 *
 * Owns: TILE_GROUP tokens' quantised activations of one superblock, as products on tiles read them.
 * Any thread. */
#ifndef KT_KERNELS_TILE_ACT_H
#define KT_KERNELS_TILE_ACT_H

#include <stdint.h>

enum { TILE_GROUP = 16 };

/* Tokens beyond the last are zeros. */
typedef struct tile_act {
    int8_t q[4][TILE_GROUP][64]; /* [columns / 64][token][column] */
    float d[TILE_GROUP];
    int16_t s16[TILE_GROUP][16], s32[TILE_GROUP][8];
} tile_act;
_Static_assert(sizeof(tile_act) % 64 == 0, "whole lines");

#endif
