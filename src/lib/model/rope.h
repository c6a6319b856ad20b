/* Rotary position embedding tables.
 *
 * Owns: the inverse frequencies under every scaling rule, and cosines and sines of a position
 * (docs/NUMERICS.md section 7: angle = pos * inv_freq in double, evaluated by base/math, rounded
 * once). Any thread; immutable. */
#ifndef KT_MODEL_ROPE_H
#define KT_MODEL_ROPE_H

#include "model/net.h"

typedef struct kt__rope {
    int n_rot;
    double magnitude; /* multiplies cosines and sines: YaRN's attention temperature, longrope's
                         factor */
    double *inv_freq; /* [n_rot/2] */
    uint8_t *axis;    /* [n_rot/2] of a position's coordinates the one that rotates the pair */
} kt__rope;

/* local: the table of layers with a sliding window (plain, own base). n_ctx chooses longrope's
 * factors. Memory is taken from arena. */
kt_status kt__rope_init(const kt__net *net, bool local, int64_t n_ctx, kt__arena *arena,
                        kt__rope *out, kt_error *err) KT_CHECKED;
/* What a query at pos is multiplied by besides q_scale: 1 + temperature * ln(1 + floor(pos /
 * orig_ctx)); with KT__F_CHUNKS of pos + 1 and the temperature's own span. */
float kt__rope_query_scale(const kt__hparams *hp, int64_t pos);
/* at: time, line and column of the segment's position pos, equal but within a picture. */
void kt__rope_place(const kt__seg *seg, int64_t pos, int64_t at[3]);
/* cs[n_rot]: cosines of the n_rot/2 pairs, then sines. */
void kt__rope_fill(const kt__rope *rope, int64_t pos, float *cs);
void kt__rope_fill_at(const kt__rope *rope, const int64_t at[3], float *cs);

#endif
