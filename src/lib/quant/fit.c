/* The fits in plain C: 16 lanes are a vector of the compiler's, whose operations are those of its
 * elements, one by one. (As arrays in structs they took a minute to compile.) */
#include "quant/fit.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* all that takes or returns a vector is inlined */
#endif

#define KT_INLINE static inline __attribute__((always_inline))

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t m16 __attribute__((vector_size(64))); /* -1: yes, 0: no */

#define EACH_LANE for (int l = 0; l < 16; l++)

#define LANE_OP(name, expression)      \
    KT_INLINE v16 name(v16 x, v16 y) { \
        return (expression);           \
    }
#define LANE_TEST(name, operator)      \
    KT_INLINE m16 name(v16 x, v16 y) { \
        return x operator y;           \
    }
KT_INLINE v16 v16_select(m16 m, v16 yes, v16 no) {
    return (v16)((m & (m16)yes) | (~m & (m16)no));
}
LANE_OP(v16_add, x + y)
LANE_OP(v16_sub, x - y)
LANE_OP(v16_mul, x *y)
LANE_OP(v16_div, x / y)
LANE_OP(v16_min, v16_select(x < y, x, y))
LANE_OP(v16_max, v16_select(x > y, x, y))
LANE_TEST(m16_lt, <)
LANE_TEST(m16_le, <=)
LANE_TEST(m16_eq, ==)

KT_INLINE v16 v16_neg(v16 x) {
    return -x;
}
KT_INLINE v16 v16_abs(v16 x) {
    return (v16)((m16)x & 0x7fffffff);
}
KT_INLINE v16 v16_set1(float f) {
    return (v16){f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f};
}
KT_INLINE v16 v16_zero(void) {
    return (v16){0};
}
KT_INLINE v16 v16_load(const float *p) {
    v16 x;
    memcpy(&x, p, sizeof x);
    return x;
}
KT_INLINE void v16_store(float *p, v16 x) {
    memcpy(p, &x, sizeof x);
}

KT_INLINE unsigned m16_bits(m16 m) {
    unsigned bits = 0;
    EACH_LANE bits |= (unsigned)(m[l] & 1) << l;
    return bits;
}
KT_INLINE float v16_hmax(v16 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++) x[l] = x[l] > x[l + half] ? x[l] : x[l + half];
    return x[0];
}
KT_INLINE void v16_to_i8(int8_t *q, v16 x) { /* whole numbers */
    EACH_LANE q[l] = (int8_t)x[l];
}
KT_INLINE void v16_zip(v16 even, v16 odd, v16 *a, v16 *b) {
    EACH_LANE(*a)[l] = l % 2 ? odd[l / 2] : even[l / 2];
    EACH_LANE(*b)[l] = l % 2 ? odd[8 + l / 2] : even[8 + l / 2];
}
KT_INLINE float v16_tree(v16 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++) x[l] += x[l + half];
    return x[0];
}

kt__f16 kt__f16_saturate(float f) {
    if (f > 65504.0f) f = 65504.0f;
    if (f < -65504.0f) f = -65504.0f;
    return kt__f16_from_f32(f);
}

#include "quant/fit_lanes.inc"

const kt__fitter kt__fitter_plain = FIT_TABLE;
