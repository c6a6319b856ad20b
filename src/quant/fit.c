#include "quant/fit.h"

#include <math.h>

enum { GROUP_MAX = 32 };

kt__f16 kt__f16_saturate(float f) {
    if (f > 65504.0f) f = 65504.0f;
    if (f < -65504.0f) f = -65504.0f;
    return kt__f16_from_f32(f);
}

/* d in f16 for a largest value of parts * d. Among the f16 subnormals rounding can lower d so much
 * that the largest value is out of reach: then the next larger d. */
static kt__f16 unit_of(float largest, int parts) {
    kt__f16 d = kt__f16_saturate(largest / (float)parts);
    float reach = fabsf(kt__f16_to_f32(d) * (float)parts);
    bool short_of = reach < fabsf(largest) * (1.0f - 0x1p-9f);
    return short_of && fabsf(largest) > 0x1p-25f && (d & 0x7fffu) < 0x7bffu ? (kt__f16)(d + 1u) : d;
}

/* Nearest integer in lo..hi, ties to even; NaN gives lo. Adding 1.5 * 2^23 leaves the integer in
 * the low bits. */
static int round_clamp(float v, int lo, int hi) {
    if (!(v > (float)lo)) return lo;
    if (v > (float)hi) return hi;
    return (int)(kt__f32_bits(v + 0x1.8p23f) & 0x7fffffu) - 0x400000;
}

static int nearest_level(float v, const kt__levels *levels) {
    if (!levels->table) return round_clamp(v, levels->lo, levels->hi);
    const int8_t *table = levels->table;
    int at = 0; /* branch-free search: the last entry that is <= v */
    for (int half = 8; half > 0; half /= 2) at += (float)table[at + half] <= v ? half : 0;
    if (at == 15) return table[15];
    return v - (float)table[at] < (float)table[at + 1] - v ? table[at] : table[at + 1];
}

/* Large weights contribute more to a product than small ones: errors are weighted by (mean square +
 * square). */
static void square_weights(const float *x, int n, float *w) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    float mean = sum / (float)n;
    for (int i = 0; i < n; i++) w[i] = mean + x[i] * x[i];
}

/* The same idea, linear in |x|, for types with a minimum. */
static void linear_weights(const float *x, int n, float *w) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    float rms = sqrtf(sum / (float)n);
    for (int i = 0; i < n; i++) w[i] = rms + fabsf(x[i]);
}

static float extreme_of(const float *x, int n) {
    float extreme = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    }
    return extreme;
}

/* For one way of mapping x to levels, the best scale is sum(w x q)/sum(w q^2), and it takes
 * sum(w x q)^2/sum(w q^2) off the error. Tries to place the extreme value a little within and
 * beyond the lowest level. */
float kt__fit_scale(const float *x, int n, const kt__levels *levels, int8_t *q) {
    float w[GROUP_MAX];
    square_weights(x, n, w);
    float extreme = extreme_of(x, n);
    float best_scale = 0, best_inverse = 0;
    double best_gain = 0;
    for (int t = -9; t <= 9 && fabsf(extreme) > 0x1p-100f; t++) {
        float inverse = ((float)levels->lo + levels->step * (float)t) / extreme;
        double xq = 0, qq = 0;
        for (int i = 0; i < n; i++) {
            float level = (float)nearest_level(x[i] * inverse, levels);
            xq += w[i] * x[i] * level;
            qq += w[i] * level * level;
        }
        if (qq > 0 && xq * xq > best_gain * qq) {
            best_gain = xq * xq / qq;
            best_scale = (float)(xq / qq);
            best_inverse = inverse;
        }
    }
    for (int i = 0; i < n; i++) q[i] = (int8_t)nearest_level(x[i] * best_inverse, levels);
    return best_scale;
}

/* Levels for a given d and group scales; returns the weighted error. */
static double assign_scaled(const float *x, const float *w, int group, const kt__levels *levels,
                            float d, kt__fit_scaled *fit) {
    double error = 0;
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)fit->scale[i / group];
        float inverse = scale != 0 ? 1.0f / scale : 0;
        int level = nearest_level(x[i] * inverse, levels);
        double miss = x[i] - scale * (float)level;
        fit->q[i] = (int8_t)level;
        error += w[i] * miss * miss;
    }
    return error;
}

/* With the integers held, the best d of the whole block. */
static float solve_scaled(const float *x, const float *w, int group, const kt__fit_scaled *fit) {
    double xa = 0, aa = 0;
    for (int i = 0; i < 256; i++) {
        double a = fit->scale[i / group] * fit->q[i];
        xa += w[i] * x[i] * a;
        aa += w[i] * a * a;
    }
    return aa > 0 ? (float)(xa / aa) : 0;
}

void kt__fit_super_scaled(const float *x, int group, const kt__levels *levels, int scale_lo,
                          int scale_hi, kt__fit_scaled *out) {
    float scales[16], w[256];
    int n_group = 256 / group;
    for (int g = 0; g < n_group; g++) {
        scales[g] = kt__fit_scale(x + g * group, group, levels, out->q + g * group);
        square_weights(x + g * group, group, w + g * group);
    }
    out->d = unit_of(extreme_of(scales, n_group), scale_lo);
    float d = kt__f16_to_f32(out->d), inverse = d != 0 ? 1.0f / d : 0;
    for (int g = 0; g < n_group; g++) {
        out->scale[g] = round_clamp(scales[g] * inverse, scale_lo, scale_hi);
    }
    double error = assign_scaled(x, w, group, levels, d, out);
    kt__fit_scaled next = *out;
    next.d = kt__f16_saturate(solve_scaled(x, w, group, out));
    if (assign_scaled(x, w, group, levels, kt__f16_to_f32(next.d), &next) < error) *out = next;
}

/* Weighted least squares of x ~ scale * q + offset, offset <= 0; false where the levels do not
 * determine it. */
typedef struct sums {
    double w, x, q, xq, qq, xx;
} sums;

static bool solve_line(const sums *s, double *scale, double *offset, double *error) {
    double det = s->w * s->qq - s->q * s->q;
    if (!(det > 0)) return false;
    *scale = (s->w * s->xq - s->x * s->q) / det;
    *offset = (s->qq * s->x - s->q * s->xq) / det;
    if (*offset > 0) {
        *offset = 0;
        *scale = s->xq / s->qq;
    }
    *error = s->xx - *scale * s->xq - *offset * s->x;
    return *scale > 0;
}

/* One group: x ~ scale * q - min. Tries level widths around range / q_max and keeps the best line.
 */
static void fit_group_affine(const float *x, const float *w, int n, int q_max, float *scale_out,
                             float *min_out) {
    float lo = 0, hi = x[0];
    for (int i = 0; i < n; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    *scale_out = 0;
    *min_out = -lo;
    if (!(hi - lo > 0x1p-100f)) return;
    *scale_out = (hi - lo) / (float)q_max;
    double best = INFINITY;
    for (int t = -10; t <= 10; t++) {
        float inverse = ((float)q_max + 0.1f * (float)t) / (hi - lo);
        if (q_max <= 3) inverse = ((float)q_max + 0.05f * (float)t) / (hi - lo);
        sums s = {0};
        for (int i = 0; i < n; i++) {
            double q = round_clamp((x[i] - lo) * inverse, 0, q_max), wi = w[i], xi = x[i];
            s.w += wi, s.x += wi * xi, s.q += wi * q;
            s.xq += wi * xi * q, s.qq += wi * q * q, s.xx += wi * xi * xi;
        }
        double scale, offset, error;
        if (solve_line(&s, &scale, &offset, &error) && error < best) {
            best = error;
            *scale_out = (float)scale;
            *min_out = (float)-offset;
        }
    }
}

static double assign_affine(const float *x, const float *w, int group, int q_max,
                            kt__fit_affine *fit) {
    float d = kt__f16_to_f32(fit->d), dmin = kt__f16_to_f32(fit->dmin);
    double error = 0;
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)fit->scale[i / group], min = dmin * (float)fit->min[i / group];
        float inverse = scale != 0 ? 1.0f / scale : 0;
        int level = round_clamp((x[i] + min) * inverse, 0, q_max);
        double miss = x[i] - (scale * (float)level - min);
        fit->q[i] = (uint8_t)level;
        error += w[i] * miss * miss;
    }
    return error;
}

/* With the integers held, the best d and dmin of the whole block: x ~ d * a - dmin * b. */
static bool solve_affine(const float *x, const float *w, int group, const kt__fit_affine *fit,
                         kt__fit_affine *next) {
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int i = 0; i < 256; i++) {
        double a = fit->scale[i / group] * fit->q[i], b = fit->min[i / group], wi = w[i];
        aa += wi * a * a, ab += wi * a * b, bb += wi * b * b;
        xa += wi * x[i] * a, xb += wi * x[i] * b;
    }
    double det = aa * bb - ab * ab;
    if (!(aa > 0)) return false;
    double d = xa / aa, dmin = 0;
    if (det > 1e-12 * aa * bb) {
        d = (bb * xa - ab * xb) / det;
        dmin = (ab * xa - aa * xb) / det;
    }
    if (!(d > 0) || !(dmin >= 0)) return false;
    *next = *fit;
    next->d = kt__f16_saturate((float)d);
    next->dmin = kt__f16_saturate((float)dmin);
    return true;
}

static kt__f16 largest_over(const float *values, int n, int parts) {
    float largest = 0;
    for (int i = 0; i < n; i++) {
        if (values[i] > largest) largest = values[i];
    }
    return unit_of(largest, parts);
}

void kt__fit_super_affine(const float *x, int group, int q_max, int scale_max,
                          kt__fit_affine *out) {
    float scales[16], mins[16], w[256];
    int n_group = 256 / group;
    for (int g = 0; g < n_group; g++) {
        linear_weights(x + g * group, group, w + g * group);
        fit_group_affine(x + g * group, w + g * group, group, q_max, &scales[g], &mins[g]);
    }
    out->d = largest_over(scales, n_group, scale_max);
    out->dmin = largest_over(mins, n_group, scale_max);
    float d = kt__f16_to_f32(out->d), dmin = kt__f16_to_f32(out->dmin);
    for (int g = 0; g < n_group; g++) {
        out->scale[g] = d > 0 ? round_clamp(scales[g] / d, 0, scale_max) : 0;
        out->min[g] = dmin > 0 ? round_clamp(mins[g] / dmin, 0, scale_max) : 0;
    }
    double error = assign_affine(x, w, group, q_max, out);
    for (int round = 0; round < 2; round++) {
        kt__fit_affine next;
        if (!solve_affine(x, w, group, out, &next)) break;
        double next_error = assign_affine(x, w, group, q_max, &next);
        if (!(next_error < error)) break;
        error = next_error;
        *out = next;
    }
}
