/* The weights' bytes: quantised blocks are drawn directly, levels and scales, without an f32
 * original. The levels are bell-shaped around the type's middle, scales vary between groups, and
 * the whole has mean zero and the planned standard deviation. */
#include "synth/synth.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/math.h"
#include "quant/blocks.h"
#include "quant/quant.h"

/* ---- random numbers: splitmix64 (Steele, Lea, Flood 2014), one stream a row ---- */

typedef struct stream {
    uint64_t state;
} stream;

static uint64_t random_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t next_random(stream *s) {
    return random_mix(s->state += 0x9e3779b97f4a7c15u);
}

static stream stream_of(uint64_t seed, size_t tensor, int64_t row) {
    return (stream){random_mix(random_mix(seed ^ 0x6b656e74616e67u) + ((uint64_t)tensor << 40) +
                               (uint64_t)row)};
}

/* Sum of four uniform numbers: close to normal, mean 0, deviation 1, within 3.5. */
static float normal_random(stream *s) {
    uint64_t r = next_random(s);
    int sum = (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) +
              (int)(r >> 48);
    return (float)(sum - 131070) * (1.7320508f / 65536.0f);
}

/* ---- levels ---- */

/* How a quantised type spells its weights. */
typedef struct layout {
    int lo, hi;             /* levels */
    double center;          /* their mean */
    double width;           /* standard deviation before rounding */
    int scale_lo, scale_hi; /* sub-block scales' magnitudes; 1, 1: none */
    const int8_t *values;   /* of levels lo..hi; NULL: the level itself */
} layout;

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const layout *layout_of(kt__type type) {
    static const layout layouts[KT__TYPE_COUNT] = {
        [KT__TYPE_Q4_0] = {-8, 7, 0, 2.7, 1, 1, NULL},
        [KT__TYPE_Q4_1] = {0, 15, 7.5, 3.0, 1, 1, NULL},
        [KT__TYPE_Q5_0] = {-16, 15, 0, 5.5, 1, 1, NULL},
        [KT__TYPE_Q5_1] = {0, 31, 15.5, 6.0, 1, 1, NULL},
        [KT__TYPE_Q8_0] = {-127, 127, 0, 42, 1, 1, NULL},
        [KT__TYPE_IQ4_NL] = {0, 15, 0, 45, 1, 1, iq4_values},
        [KT__TYPE_MXFP4] = {0, 15, 0, 4.5, 1, 1, mxfp4_values},
        [KT__TYPE_Q2_K] = {0, 3, 1.5, 0.9, 7, 14, NULL},
        [KT__TYPE_Q3_K] = {-4, 3, 0, 1.6, 16, 31, NULL},
        [KT__TYPE_Q4_K] = {0, 15, 7.5, 3.0, 31, 62, NULL},
        [KT__TYPE_Q5_K] = {0, 31, 15.5, 6.0, 31, 62, NULL},
        [KT__TYPE_Q6_K] = {-32, 31, 0, 10, 64, 127, NULL},
        [KT__TYPE_IQ4_XS] = {0, 15, 0, 45, 16, 31, iq4_values},
    };
    return &layouts[type];
}

typedef struct drawer {
    const layout *l;
    int8_t level[256]; /* equally probable */
    float d;           /* the blocks' mean scale */
} drawer;

/* Normal quantile by the logistic one: close in the middle, heavier tails, as weights have. */
static double normal_quantile(double p) {
    return kt__log(p / (1.0 - p)) / 1.702;
}

static int nearest_level(const layout *l, double x) {
    int best = l->lo;
    if (!l->values) { /* half way between two levels it is the lower one, as below */
        double level = ceil(x - 0.5);
        return level <= l->lo ? l->lo : level >= l->hi ? l->hi : (int)level;
    }
    for (int v = l->lo; v <= l->hi; v++) {
        if (fabs(x - l->values[v]) < fabs(x - l->values[best])) best = v;
    }
    return best;
}

/* Of block scales, which vary by +-20%, in units of the mean one's square. */
#define D_VARIANCE (0.16 / 12)

/* Root mean square of a weight, less the center, where d = 1. */
static double unit_rms(const drawer *dr) {
    const layout *l = dr->l;
    double level_sum = 0, scale_sum = 0;
    for (int i = 0; i < 256; i++) {
        double v = (l->values ? l->values[dr->level[i]] : dr->level[i]) - l->center;
        level_sum += v * v / 256;
    }
    for (int s = l->scale_lo; s <= l->scale_hi; s++)
        scale_sum += (double)s * s / (l->scale_hi - l->scale_lo + 1);
    return sqrt(level_sum * scale_sum * (1.0 + D_VARIANCE));
}

static void drawer_init(drawer *dr, kt__type type, float std) {
    if (kt__synth_has_codes(type)) {
        dr->d = std / (kt__synth_codes_rms(type) * (float)sqrt(1.0 + D_VARIANCE));
        return;
    }
    dr->l = layout_of(type);
    for (int i = 0; i < 256; i++)
        dr->level[i] = (int8_t)nearest_level(
            dr->l, dr->l->center + dr->l->width * normal_quantile((i + 0.5) / 256));
    dr->d = std / (float)unit_rms(dr);
}

static void draw_levels(const drawer *dr, stream *s, int8_t *q, int n) {
    for (int i = 0; i < n; i += 8) {
        uint64_t r = next_random(s);
        for (int j = 0; j < 8; j++) q[i + j] = dr->level[r >> (8 * j) & 0xff];
    }
}

/* A block's scale: the mean one within 20%. */
static float draw_d(const drawer *dr, stream *s) {
    return dr->d * (0.8f + 0.4f * (float)(next_random(s) >> 40) * 0x1p-24f);
}

static float with_sign(float d, uint64_t bit) {
    return bit & 1 ? -d : d;
}

/* Sub-block scales in [lo, hi], and mins that equal them up to one step. */
static void draw_scales(const drawer *dr, stream *s, int n, int *scale, int *min) {
    static const int8_t jitter[4] = {-1, 0, 0, 1};
    uint64_t range = (uint64_t)(dr->l->scale_hi - dr->l->scale_lo + 1);
    for (int i = 0; i < n; i++) {
        uint64_t r = next_random(s);
        scale[i] = dr->l->scale_lo + (int)((r >> 32) * range >> 32);
        min[i] = scale[i] + jitter[r & 3];
    }
}

/* The same with a random sign instead of a min. */
static void draw_signed_scales(const drawer *dr, stream *s, int n, int *scale) {
    int unused[16];
    draw_scales(dr, s, n, scale, unused);
    uint64_t signs = next_random(s);
    for (int i = 0; i < n; i++)
        if (signs >> i & 1) scale[i] = -scale[i];
}

/* ---- blocks of 32 ---- */

static void pack_nibbles(const int8_t *q, int offset, uint8_t *qs) {
    for (int i = 0; i < 16; i++)
        qs[i] = (uint8_t)(((q[i] + offset) & 15) | ((q[i + 16] + offset) & 15) << 4);
}

static void pack_fifth_bits(const int8_t *q, int offset, uint8_t *qh) {
    memset(qh, 0, 4);
    for (int i = 0; i < 32; i++) qh[i / 8] |= (uint8_t)(((q[i] + offset) >> 4 & 1) << i % 8);
}

/* The scale is a power of two or half of that, as often as makes their mean square that of others'
 * scales. */
static int mxfp4_exponent(const drawer *dr, stream *s) {
    int exponent = 0;
    float size = frexpf(dr->d * sqrtf((float)(1.0 + D_VARIANCE)), &exponent); /* from 1/2 up to 1 */
    float wholes = (4.0f * size * size - 1.0f) / 3.0f;
    bool half = (float)(next_random(s) >> 40) * 0x1p-24f >= wholes;
    return exponent + 128 - half;
}

/* What a block has besides its levels; Q8_0 has them whole, the others in 4 bits. */
static const struct block_parts {
    bool flipped; /* a scale of either sign */
    bool min, fifth;
} parts_of[KT__TYPE_COUNT] = {
    [KT__TYPE_Q4_0] = {true, false, false},   [KT__TYPE_Q4_1] = {false, true, false},
    [KT__TYPE_Q5_0] = {true, false, true},    [KT__TYPE_Q5_1] = {false, true, true},
    [KT__TYPE_IQ4_NL] = {true, false, false},
};

static uint8_t *put_f16(uint8_t *at, float x) {
    kt__f16 half = kt__f16_from_f32(x);
    memcpy(at, &half, sizeof half);
    return at + sizeof half;
}

/* Scale, min, fifth bits, levels: the order of all these types. */
static void block_32(const drawer *dr, kt__type type, stream *s, void *out) {
    const struct block_parts *parts = &parts_of[type];
    int offset = dr->l->values ? 0 : -dr->l->lo;
    int8_t q[32];
    uint8_t *at = out;
    float d = draw_d(dr, s), flipped = with_sign(d, next_random(s));
    draw_levels(dr, s, q, 32);
    if (type == KT__TYPE_MXFP4) {
        *at++ = (uint8_t)mxfp4_exponent(dr, s);
    } else {
        at = put_f16(at, parts->flipped ? flipped : d);
    }
    if (parts->min) at = put_f16(at, -(float)dr->l->center * d);
    if (parts->fifth) {
        pack_fifth_bits(q, offset, at);
        at += 4;
    }
    if (type == KT__TYPE_Q8_0)
        memcpy(at, q, 32);
    else
        pack_nibbles(q, offset, at);
}

/* ---- blocks of 256 ---- */

/* Eight scales and mins of 6 bits in 12 bytes. */
static void pack_scales_6(const int *scale, const int *min, uint8_t *out) {
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        out[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        out[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

static void block_q2_k(const drawer *dr, stream *s, kt__q2_k *b) {
    int8_t q[256];
    int scale[16], min[16];
    float d = draw_d(dr, s);
    draw_scales(dr, s, 16, scale, min);
    draw_levels(dr, s, q, 256);
    b->d = kt__f16_from_f32(d);
    b->dmin = kt__f16_from_f32((float)dr->l->center * d);
    for (int i = 0; i < 16; i++) b->scales[i] = (uint8_t)(scale[i] | min[i] << 4);
    for (int i = 0; i < 64; i++) {
        const int8_t *at = q + 128 * (i / 32) + i % 32;
        b->qs[i] = (uint8_t)(at[0] | at[32] << 2 | at[64] << 4 | at[96] << 6);
    }
}

static void block_q3_k(const drawer *dr, stream *s, kt__q3_k *b) {
    int8_t q[256];
    int scale[16];
    float d = draw_d(dr, s);
    draw_signed_scales(dr, s, 16, scale);
    draw_levels(dr, s, q, 256);
    memset(b, 0, sizeof *b);
    b->d = kt__f16_from_f32(d);
    for (int k = 0; k < 16; k++) {
        int v = scale[k] + 32;
        b->scales[k % 8] |= (uint8_t)((v & 15) << (k < 8 ? 0 : 4));
        b->scales[8 + k % 4] |= (uint8_t)((v >> 4) << 2 * (k / 4));
    }
    for (int i = 0; i < 256; i++) {
        int v = q[i] + 4, half = i / 128, quarter = i % 128 / 32, l = i % 32;
        b->qs[32 * half + l] |= (uint8_t)((v & 3) << 2 * quarter);
        b->hmask[l] |= (uint8_t)((v >> 2) << (4 * half + quarter));
    }
}

static void block_q4_k(const drawer *dr, stream *s, kt__q4_k *b) {
    int8_t q[256];
    int scale[8], min[8];
    float d = draw_d(dr, s);
    draw_scales(dr, s, 8, scale, min);
    draw_levels(dr, s, q, 256);
    b->d = kt__f16_from_f32(d);
    b->dmin = kt__f16_from_f32((float)dr->l->center * d);
    pack_scales_6(scale, min, b->scales);
    for (int i = 0; i < 128; i++) {
        const int8_t *at = q + 64 * (i / 32) + i % 32;
        b->qs[i] = (uint8_t)(at[0] | at[32] << 4);
    }
}

static void block_q5_k(const drawer *dr, stream *s, kt__q5_k *b) {
    int8_t q[256];
    int scale[8], min[8];
    float d = draw_d(dr, s);
    draw_scales(dr, s, 8, scale, min);
    draw_levels(dr, s, q, 256);
    b->d = kt__f16_from_f32(d);
    b->dmin = kt__f16_from_f32((float)dr->l->center * d);
    pack_scales_6(scale, min, b->scales);
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < 128; i++) {
        const int8_t *at = q + 64 * (i / 32) + i % 32;
        b->qs[i] = (uint8_t)((at[0] & 15) | (at[32] & 15) << 4);
    }
    for (int i = 0; i < 256; i++) b->qh[i % 32] |= (uint8_t)((q[i] >> 4) << i / 32);
}

static void block_q6_k(const drawer *dr, stream *s, kt__q6_k *b) {
    int8_t q[256];
    int scale[16];
    float d = draw_d(dr, s);
    draw_signed_scales(dr, s, 16, scale);
    draw_levels(dr, s, q, 256);
    b->d = kt__f16_from_f32(d);
    for (int i = 0; i < 16; i++) b->scales[i] = (int8_t)scale[i];
    for (int half = 0; half < 2; half++) {
        for (int l = 0; l < 32; l++) {
            const int8_t *at = q + 128 * half + l;
            int q0 = at[0] + 32, q1 = at[32] + 32, q2 = at[64] + 32, q3 = at[96] + 32;
            b->ql[64 * half + l] = (uint8_t)((q0 & 15) | (q2 & 15) << 4);
            b->ql[64 * half + l + 32] = (uint8_t)((q1 & 15) | (q3 & 15) << 4);
            b->qh[32 * half + l] = (uint8_t)(q0 >> 4 | (q1 >> 4) << 2 | (q2 >> 4) << 4 |
                                             (q3 >> 4) << 6);
        }
    }
}

static void block_iq4_xs(const drawer *dr, stream *s, kt__iq4_xs *b) {
    int8_t q[256];
    int scale[8];
    unsigned high = 0;
    float d = draw_d(dr, s);
    draw_signed_scales(dr, s, 8, scale);
    draw_levels(dr, s, q, 256);
    b->d = kt__f16_from_f32(d);
    memset(b->scales_l, 0, sizeof b->scales_l);
    for (int i = 0; i < 8; i++) {
        unsigned v = (unsigned)(scale[i] + 32);
        b->scales_l[i / 2] |= (uint8_t)((v & 15) << 4 * (i % 2));
        high |= (v >> 4) << 2 * i;
        pack_nibbles(q + 32 * i, 0, b->qs + 16 * i);
    }
    b->scales_h = (uint16_t)high;
}

static uint64_t random_of_stream(void *s) {
    return next_random(s);
}

static void draw_block(const drawer *dr, kt__type type, stream *s, void *out) {
    if (kt__synth_has_codes(type)) {
        float d = draw_d(dr, s);
        kt__synth_draw_codes(type, with_sign(d, next_random(s)), random_of_stream, s, out);
        return;
    }
    switch (type) {
    case KT__TYPE_Q2_K: block_q2_k(dr, s, out); break;
    case KT__TYPE_Q3_K: block_q3_k(dr, s, out); break;
    case KT__TYPE_Q4_K: block_q4_k(dr, s, out); break;
    case KT__TYPE_Q5_K: block_q5_k(dr, s, out); break;
    case KT__TYPE_Q6_K: block_q6_k(dr, s, out); break;
    case KT__TYPE_IQ4_XS: block_iq4_xs(dr, s, out); break;
    default: block_32(dr, type, s, out); break;
    }
}

/* ---- rows ---- */

static void float_row(const kt__synth_tensor *t, stream *s, void *out) {
    for (int64_t i = 0; i < t->n_cols; i++) {
        float v = t->mean + t->std * normal_random(s);
        if (t->type == KT__TYPE_F32) {
            memcpy((float *)out + i, &v, sizeof v);
        } else {
            ((uint16_t *)out)[i] = t->type == KT__TYPE_F16 ? kt__f16_from_f32(v)
                                                           : kt__bf16_from_f32(v);
        }
    }
}

/* Llama 3.1's stretch: low frequencies are divided by the factor, high ones kept, with a ramp
 * between (the formula of the published reference code). */
static void llama3_freqs(const kt__synth_preset *p, int64_t n, float *out) {
    const double pi = 3.14159265358979323846, low = 1.0, high = 4.0;
    for (int64_t i = 0; i < n; i++) {
        double wavelength = 2 * pi * kt__pow((double)p->rope_base, 2.0 * (double)i / p->head_dim);
        double turns = p->orig_ctx / wavelength, factor = p->llama3_factor;
        double ramp = (turns - low) / (high - low);
        double stretch = turns > high  ? 1.0
                         : turns < low ? factor
                                       : 1.0 / ((1.0 - ramp) / factor + ramp);
        out[i] = (float)stretch;
    }
}

/* Of the published tables' shape: from 1 at high frequencies to `top` at low ones. */
static void longrope_factors(int64_t n, double top, float *out) {
    for (int64_t i = 0; i < n; i++) {
        double t = n > 1 ? (double)i / (double)(n - 1) : 0;
        out[i] = (float)(1.0 + (top - 1.0) * t * t);
    }
}

/* As converters write "proportional" rotation: a factor that leaves no angle. */
static void quarter_freqs(int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = i < n / 4 ? 1.0f : 1e30f;
}

static void fill_signs(int64_t n, float size, float *out) {
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223; /* Numerical Recipes' generator */
        out[i] = state >> 31 ? size : -size;
    }
}

static void half_row(const kt__synth_tensor *t, int64_t row, float *room, void *out) {
    for (int64_t i = 0; i < t->n_cols; i++) room[i] = i == row ? 1.0f : 0.0f;
    kt__quantize_row(t->type, room, t->n_cols, out);
}

static void first_half(const kt__synth_tensor *t, int64_t begin, int64_t end, void *out) {
    size_t row_bytes = kt__type_row_bytes(t->type, t->n_cols);
    float *room = kt__malloc((size_t)t->n_cols * sizeof *room);
    memset(out, 0, (size_t)(end - begin) * row_bytes);
    for (int64_t row = begin; room && row < end; row++)
        half_row(t, row, room, (char *)out + (size_t)(row - begin) * row_bytes);
    kt__free(room);
}

void kt__synth_fill(const kt__synth_plan *plan, size_t tensor, int64_t begin, int64_t end,
                    void *out) {
    const kt__synth_tensor *t = &plan->tensors[tensor];
    const kt__type_info *info = kt__type_get(t->type);
    size_t row_bytes = kt__type_row_bytes(t->type, t->n_cols);
    bool quantised = info->act != KT__ACT_F32;
    drawer dr = {0};
    if (t->content == KT__CONTENT_LLAMA3_FREQS) {
        llama3_freqs(plan->preset, t->n_cols, out);
        return;
    }
    if (t->content == KT__CONTENT_QUARTER_FREQS) {
        quarter_freqs(t->n_cols, out);
        return;
    }
    if (t->content == KT__CONTENT_SIGNS) {
        fill_signs(t->n_cols, t->mean, out);
        return;
    }
    if (t->content == KT__CONTENT_FIRST_HALF) {
        first_half(t, begin, end, out);
        return;
    }
    if (t->content != KT__CONTENT_RANDOM) {
        longrope_factors(t->n_cols, t->content == KT__CONTENT_LONG_FACTORS ? 64.0 : 2.5, out);
        return;
    }
    if (quantised) drawer_init(&dr, t->type, t->std);
    for (int64_t row = begin; row < end; row++) {
        stream s = stream_of(plan->seed, tensor, row);
        char *at = (char *)out + (size_t)(row - begin) * row_bytes;
        if (!quantised) {
            float_row(t, &s, at);
            continue;
        }
        for (int64_t i = 0; i < t->n_cols; i += info->block_elems, at += info->block_bytes)
            draw_block(&dr, t->type, &s, at);
    }
}

/* ---- synth codes ---- */

bool kt__synth_has_codes(kt__type type) {
    return (type >= KT__TYPE_IQ3_S && type <= KT__TYPE_IQ1_S) || type == KT__TYPE_TQ1_0 ||
           type == KT__TYPE_TQ2_0 || type == KT__TYPE_NVFP4 || type == KT__TYPE_Q1_0 ||
           type == KT__TYPE_Q2_0;
}

/* ---- scales ---- */

/* NVFP4's scales of 16: the code whose half, in units of 2^-10, is nearest to d. */
static uint8_t nvfp4_scale(float d) {
    float units = d * 0x1p10f;
    int exponent = 0;
    while (units >= 15.5f && exponent < 14) units *= 0.5f, exponent++;
    int whole = (int)lrintf(units < 15.0f ? units : 15.0f);
    return (uint8_t)(whole < 8 ? whole : (exponent + 1) << 3 | (whole - 8));
}

static void put_iq1_m_scale(kt__iq1_m *b, kt__f16 d) {
    for (int i = 0; i < 4; i++)
        b->scales[i] = (uint16_t)((b->scales[i] & 0xfff) | (d >> 4 * i & 15) << 12);
}

static void put_scale(kt__type type, float d, uint8_t *block) {
    kt__f16 half = kt__f16_from_f32(d);
    size_t at = type == KT__TYPE_TQ1_0   ? offsetof(kt__tq1_0, d)
                : type == KT__TYPE_TQ2_0 ? offsetof(kt__tq2_0, d)
                                         : 0;
    if (type == KT__TYPE_IQ1_M) {
        put_iq1_m_scale((kt__iq1_m *)(void *)block, half);
    } else if (type == KT__TYPE_NVFP4) {
        for (int i = 0; i < 4; i++) block[i] = nvfp4_scale(fabsf(d));
    } else {
        memcpy(block + at, &half, sizeof half);
    }
}

/* ---- codes ---- */

/* Pairs of bits from 0 to 2: those of TQ2_0 and Q2_0, which has 3 as well but uses it as little. */
static void draw_ternary(uint64_t (*random)(void *), void *state, uint8_t *out, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t r = random(state);
        for (int k = 0; k < 4; k++)
            out[i] = (uint8_t)(out[i] << 2 | (r >> (16 * k) & 0xffff) * 3 >> 16);
    }
}

void kt__synth_draw_codes(kt__type type, float d, uint64_t (*random)(void *), void *state,
                          void *block) {
    uint8_t *out = block;
    int n = kt__type_get(type)->block_bytes;
    for (int i = 0; i < n; i += 8) {
        uint64_t r = random(state);
        memcpy(out + i, &r, (size_t)(n - i < 8 ? n - i : 8));
    }
    if (type == KT__TYPE_TQ2_0) draw_ternary(random, state, out, 64);
    if (type == KT__TYPE_Q2_0) draw_ternary(random, state, out + offsetof(kt__q2_0, qs), 16);
    put_scale(type, d, out);
}

static uint64_t next_of_counter(void *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = *(uint64_t *)state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float kt__synth_codes_rms(kt__type type) {
    enum { BLOCKS = 256 };
    const int n = kt__type_get(type)->block_elems;
    uint64_t counter = 1;
    double sum = 0;
    for (int b = 0; b < BLOCKS; b++) {
        uint8_t block[128];
        float x[256];
        kt__synth_draw_codes(type, 1.0f, next_of_counter, &counter, block);
        kt__dequantize_row(type, block, n, x);
        for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    }
    return (float)sqrt(sum / BLOCKS / n);
}
