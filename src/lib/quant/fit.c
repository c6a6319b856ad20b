/* The fits in plain C: 16 lanes are an array. */
#include "quant/fit.h"

#include <math.h>

#define KT_INLINE static inline __attribute__((always_inline))

typedef struct v16 {
    float v[16];
} v16;
typedef struct m16 {
    bool v[16];
} m16;

#define EACH_LANE for (int l = 0; l < 16; l++)
#define LANE_OP(name, expression)        \
    KT_INLINE v16 name(v16 x, v16 y) {   \
        EACH_LANE x.v[l] = (expression); \
        return x;                        \
    }
LANE_OP(v16_add, x.v[l] + y.v[l])
LANE_OP(v16_sub, x.v[l] - y.v[l])
LANE_OP(v16_mul, x.v[l] * y.v[l])
LANE_OP(v16_div, x.v[l] / y.v[l])
LANE_OP(v16_min, x.v[l] < y.v[l] ? x.v[l] : y.v[l])
LANE_OP(v16_max, x.v[l] > y.v[l] ? x.v[l] : y.v[l])

KT_INLINE v16 v16_set1(float f) {
    v16 x;
    EACH_LANE x.v[l] = f;
    return x;
}
KT_INLINE v16 v16_zero(void) {
    return v16_set1(0.0f);
}
KT_INLINE v16 v16_load(const float *p) {
    v16 x;
    EACH_LANE x.v[l] = p[l];
    return x;
}
KT_INLINE void v16_store(float *p, v16 x) {
    EACH_LANE p[l] = x.v[l];
}
KT_INLINE v16 v16_abs(v16 x) {
    EACH_LANE x.v[l] = fabsf(x.v[l]);
    return x;
}
KT_INLINE m16 m16_lt(v16 x, v16 y) {
    m16 m;
    EACH_LANE m.v[l] = x.v[l] < y.v[l];
    return m;
}
KT_INLINE m16 m16_eq(v16 x, v16 y) {
    m16 m;
    EACH_LANE m.v[l] = x.v[l] == y.v[l];
    return m;
}
KT_INLINE unsigned m16_bits(m16 m) {
    unsigned bits = 0;
    EACH_LANE bits |= (unsigned)m.v[l] << l;
    return bits;
}
KT_INLINE v16 v16_neg(v16 x) {
    EACH_LANE x.v[l] = -x.v[l];
    return x;
}
KT_INLINE float v16_hmax(v16 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++) x.v[l] = x.v[l] > x.v[l + half] ? x.v[l] : x.v[l + half];
    return x.v[0];
}
KT_INLINE m16 m16_le(v16 x, v16 y) {
    m16 m;
    EACH_LANE m.v[l] = x.v[l] <= y.v[l];
    return m;
}
KT_INLINE v16 v16_select(m16 m, v16 yes, v16 no) {
    EACH_LANE no.v[l] = m.v[l] ? yes.v[l] : no.v[l];
    return no;
}
KT_INLINE void v16_to_i8(int8_t *q, v16 x) { /* whole numbers */
    EACH_LANE q[l] = (int8_t)x.v[l];
}
KT_INLINE void v16_zip(v16 even, v16 odd, v16 *a, v16 *b) {
    EACH_LANE a->v[l] = l % 2 ? odd.v[l / 2] : even.v[l / 2];
    EACH_LANE b->v[l] = l % 2 ? odd.v[8 + l / 2] : even.v[8 + l / 2];
}
KT_INLINE float v16_tree(v16 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++) x.v[l] += x.v[l + half];
    return x.v[0];
}

kt__f16 kt__f16_saturate(float f) {
    if (f > 65504.0f) f = 65504.0f;
    if (f < -65504.0f) f = -65504.0f;
    return kt__f16_from_f32(f);
}

#include "quant/fit_lanes.inc"

const kt__fitter kt__fitter_plain = FIT_TABLE;
