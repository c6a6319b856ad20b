#include "model/rope.h"

#include <math.h>

#include "base/error.h"
#include "base/math.h"

static const double two_pi = 6.283185307179586;

/* The dimension whose wavelength makes `turns` full turns over the original context (Peng et al.
 * 2023, YaRN, eq. 17). */
static double yarn_dimension(const kt__rope_params *p, double turns) {
    double n = p->n_rot;
    return n * kt__log((double)p->orig_ctx / (turns * two_pi)) /
           (2.0 * kt__log((double)p->freq_base));
}

/* Share of extrapolation (unscaled frequency) of pair i: 1 for fast pairs, 0 for slow ones, a ramp
 * between. */
static double yarn_ramp(const kt__rope_params *p, int i) {
    double low = floor(yarn_dimension(p, (double)p->beta_fast));
    double high = ceil(yarn_dimension(p, (double)p->beta_slow));
    if (low < 0.0) low = 0.0;
    if (high > p->n_rot - 1) high = p->n_rot - 1;
    double width = high - low > 0.001 ? high - low : 0.001;
    double y = ((double)i - low) / width;
    return 1.0 - (y < 0.0 ? 0.0 : y > 1.0 ? 1.0 : y);
}

static double scaled_frequency(const kt__rope_params *p, double plain, int i) {
    double scale = (double)p->freq_scale;
    if (p->kind != KT__ROPE_YARN) return plain * scale;
    double mix = yarn_ramp(p, i) * (double)p->ext_factor;
    return plain * scale * (1.0 - mix) + plain * mix;
}

/* longrope chooses by the context option, never by length, so that one context gives one answer. */
static const float *factors_of(const kt__net *net, int64_t n_ctx) {
    if (net->hp.rope.kind == KT__ROPE_LONGROPE) {
        return n_ctx > net->hp.rope.orig_ctx ? net->rope_long : net->rope_short;
    }
    return net->rope_factors;
}

static double magnitude_of(const kt__rope_params *p) {
    double magnitude = (double)p->attn_factor;
    bool stretched = p->kind == KT__ROPE_YARN && p->ext_factor != 0.0f;
    if (!stretched) return magnitude;
    double log_factor = 0.1 * kt__log(1.0 / (double)p->freq_scale);
    magnitude *= 1.0 + log_factor;
    if (log_factor > 0.0) magnitude /= 1.0 + (double)p->log_multiplier * log_factor;
    return magnitude;
}

/* In sections (Wang et al. 2024, Qwen2-VL), or line and column in turn among the first pairs of time (Qwen3-VL).
 * What no section names is of time. */
static int axis_of(const kt__hparams *hp, int pair) {
    const int *n = hp->rope.sections;
    if (hp->features & KT__F_AXES_WOVEN) {
        int axis = pair % 3;
        return pair < 3 * n[axis] ? axis : 0;
    }
    if (pair < n[0] || pair >= n[0] + n[1] + n[2]) return 0;
    return pair < n[0] + n[1] ? 1 : 2;
}

kt_status kt__rope_init(const kt__net *net, bool local, int64_t n_ctx, kt__arena *arena,
                        kt__rope *out, kt_error *err) {
    const kt__rope_params *p = &net->hp.rope;
    int n_rot = local ? p->local_n_rot : p->n_rot, half = n_rot / 2;
    *out = (kt__rope){.n_rot = n_rot, .magnitude = local ? 1.0 : magnitude_of(p)};
    out->inv_freq = kt__arena_calloc(arena, (size_t)half + 1, sizeof *out->inv_freq);
    out->axis = kt__arena_calloc(arena, (size_t)half + 1, sizeof *out->axis);
    for (int i = 0; out->axis && i < half; i++) out->axis[i] = (uint8_t)axis_of(&net->hp, i);
    if (!out->inv_freq || !out->axis)
        return kt__fail_nomem(err, "a rotary table", (size_t)half * sizeof(double));
    const float *factors = local ? NULL : factors_of(net, n_ctx);
    double base = (double)(local ? p->local_freq_base : p->freq_base);
    for (int i = 0; i < half; i++) {
        double plain = kt__pow(base, -2.0 * i / n_rot);
        if (factors) plain /= (double)factors[i];
        out->inv_freq[i] = local ? plain : scaled_frequency(p, plain, i);
        if (!isfinite(out->inv_freq[i])) {
            return kt__fail(err, KT_E_FORMAT,
                            "RoPE frequency %d is not finite: check the file's rope factors", i);
        }
    }
    return KT_OK;
}

float kt__rope_query_scale(const kt__hparams *hp, int64_t pos) {
    int64_t times = hp->features & KT__F_CHUNKS ? (pos + 1) / hp->temperature_span
                                                : pos / hp->rope.orig_ctx;
    return (float)(1.0 + (double)hp->temperature * kt__log(1.0 + (double)times));
}

void kt__rope_place(const kt__seg *seg, int64_t pos, int64_t at[3]) {
    const kt__grid *g = NULL;
    for (int i = 0; i < seg->n_grid && seg->grids[i].from <= pos; i++) g = &seg->grids[i];
    bool within = g && pos < g->to;
    at[0] = !g ? pos : within ? g->at : g->next + pos - g->to;
    at[1] = at[0] + (within ? (pos - g->from) / g->n_x : 0);
    at[2] = at[0] + (within ? (pos - g->from) % g->n_x : 0);
}

void kt__rope_fill_at(const kt__rope *rope, const int64_t at[3], float *cs) {
    int half = rope->n_rot / 2;
    for (int i = 0; i < half; i++) {
        double s, c;
        kt__sincos((double)at[rope->axis[i]] * rope->inv_freq[i], &s, &c);
        cs[i] = (float)(c * rope->magnitude);
        cs[half + i] = (float)(s * rope->magnitude);
    }
}

void kt__rope_fill(const kt__rope *rope, int64_t pos, float *cs) {
    const int64_t at[3] = {pos, pos, pos};
    kt__rope_fill_at(rope, at, cs);
}
