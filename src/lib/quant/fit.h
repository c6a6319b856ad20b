/* Searches for the scales of a block.
 *
 * Owns: what a fit is asked and what it answers, and the plain table of fits. A kernel tier has a
 * table of its own made of the same body (fit_lanes.inc) and giving the same bytes. No state; any
 * thread. */
#ifndef KT_QUANT_FIT_H
#define KT_QUANT_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/math.h"
#include "quant/quant.h"

/* To f16, finite inputs staying finite. */
kt__f16 kt__f16_saturate(float f);

/* 16 ascending levels as a search takes them. */
typedef struct kt__fit_rungs {
    float level[16];
    float half[20]; /* [15] halfway between neighbours; the rest is room to load */
} kt__fit_rungs;

/* What the blocks of a type can express. */
typedef struct kt__fit_form {
    int group;                  /* weights that share a scale: 16 or 32 */
    const int8_t *table;        /* 16 ascending levels, or NULL: every integer from lo to hi */
    const kt__fit_rungs *rungs; /* of the table */
    int lo, hi;
    int scale_lo, scale_hi; /* of a superblock's integer scales; of minima 0 to scale_hi */
    float step;             /* how far apart, in levels, the search tries ends of the range */
    /* of kinds with groups in the lanes: ends that are tried near either end of the levels; integer
     * scales, `stride` apart, that are tried either side of the first */
    int tries, reach, stride;
    bool signed_min; /* a block's own minimum, of either sign */
} kt__fit_form;

/* 256 weights: x ~ d * scale[g] * q - dmin * min[g]. 32 weights: x ~ d * q - dmin, with d and dmin in
 * f16 and no integer scales. Without minima dmin is 0. */
typedef struct kt__fit {
    kt__f16 d, dmin;
    kt__f16 d_of[8]; /* of eight blocks of 32 that are fitted together */
    int scale[16], min[16];
    int8_t q[256];
} kt__fit;

/* w: [256] or [32] weights of the squared errors, not negative. */
typedef void kt__fit_fn(const kt__fit_form *form, kt__effort effort, const float *x, const float *w,
                        kt__fit *out);

/* Which fit a type takes. GROUPS: with a group in each lane; of 32, eight blocks at a time. ROUND: of
 * 32, one scale from the largest weight, no search. */
typedef enum kt__fit_kind {
    KT__FIT_SUPER_SCALED,
    KT__FIT_SUPER_AFFINE,
    KT__FIT_SUPER_GROUPS,
    KT__FIT_BLOCK_SCALED,
    KT__FIT_BLOCK_GROUPS,
    KT__FIT_BLOCK_AFFINE,
    KT__FIT_BLOCK_ROUND,
    KT__FIT_KINDS
} kt__fit_kind;

struct kt__fitter {
    kt__fit_fn *fit[KT__FIT_KINDS];
};
extern const kt__fitter kt__fitter_plain;

#endif
