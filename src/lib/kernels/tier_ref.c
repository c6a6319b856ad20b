/* The reference tier: docs/NUMERICS.md in plain C, for any processor.
 *
 * Every other tier must give these bytes. fmaf is correctly rounded whether the processor has it or
 * libm computes it. */
#include <float.h>
#include <math.h> /* fmaf, fabsf, sqrtf: IEEE operations only */
#include <string.h>

#include "base/math.h"
#include "kernels/kernels.h"
#include "kernels/quantise_page_ref.h"
#include "quant/fit.h"

enum { LANES = 16, TOK_TILE = 64 }; /* of a tile of tokens a row's weights are unpacked once */

/* fmaf(a, b, c). libm's function would be most of the time of a sum, though it is this one instruction where the processor
 * has it, with the same bits. */
static inline float multiply_add(float a, float b, float c) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma")) {
        __asm__("vfmadd231ss %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
        return c;
    }
#endif
    return fmaf(a, b, c);
}

/* lane i takes lane i + 8, then + 4, + 2, + 1 */
static float tree_sum(float lane[LANES]) {
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    }
    return lane[0];
}

/* ---- activation quantisation ---- */

static void sums_of(const int8_t *q, int n_col, int group, int16_t *sums) {
    for (int g = 0; g < n_col / group; g++) {
        int sum = 0;
        for (int i = 0; i < group; i++) sum += q[g * group + i];
        sums[g] = (int16_t)sum;
    }
}

static void quantize_f32(const float *x, int n_col, uint8_t *dst) {
    size_t bytes = (size_t)n_col * sizeof *x;
    memcpy(dst, x, bytes);
    memset(dst + bytes, 0, kt__act_layout_of(KT__ACT_F32, n_col).row_bytes - bytes);
}

static void quantize_q32(const float *x, int n_col, uint8_t *dst) {
    kt__act_layout layout = kt__act_layout_of(KT__ACT_Q32, n_col);
    memset(dst, 0, layout.row_bytes);
    int8_t *q = (int8_t *)dst;
    float *d = (float *)(void *)(dst + layout.d);
    for (int b = 0; b < n_col / 32; b++) d[b] = kt__ref_quantize_block(x + 32 * b, 32, q + 32 * b);
    sums_of(q, n_col, 32, (int16_t *)(void *)(dst + layout.s32));
}

static void quantize_q256(const float *x, int n_col, uint8_t *dst) {
    kt__act_layout layout = kt__act_layout_of(KT__ACT_Q256, n_col);
    memset(dst, 0, layout.row_bytes);
    int8_t *q = (int8_t *)dst;
    float *d = (float *)(void *)(dst + layout.d);
    for (int b = 0; b < n_col / 256; b++)
        d[b] = kt__ref_quantize_block(x + 256 * b, 256, q + 256 * b);
    sums_of(q, n_col, 16, (int16_t *)(void *)(dst + layout.s16));
    sums_of(q, n_col, 32, (int16_t *)(void *)(dst + layout.s32));
}

/* ---- matrix products ---- */

/* The parts of one activation row; those its kind lacks are not read. */
typedef struct act_row {
    const float *x;
    const int8_t *q;
    const float *d;
    const int16_t *s16, *s32;
} act_row;

static act_row act_row_at(const kt__mm *mm, kt__act_kind kind, int t) {
    kt__act_layout layout = kt__act_layout_of(kind, mm->n_col);
    const uint8_t *row = mm->act + (size_t)t * mm->act_row_bytes;
    return (act_row){.x = (const float *)(const void *)row,
                     .q = (const int8_t *)row,
                     .d = (const float *)(const void *)(row + layout.d),
                     .s16 = (const int16_t *)(const void *)(row + layout.s16),
                     .s32 = (const int16_t *)(const void *)(row + layout.s32)};
}

/* Adds what follows the product, in the contract's order, and writes out[t][r]. */
static void mm_store(const kt__mm *mm, int r, int t, float y) {
    if (mm->bias) y = y + mm->bias[r];
    if (mm->residual) y = y + mm->residual[(size_t)t * mm->ld_residual + (size_t)r];
    mm->out[(size_t)t * mm->ld_out + (size_t)r] = y;
}

/* Sums of products are exact in 32 bits. Weights in 16 bits, for which compilers have one instruction where bytes take six. */
static inline int32_t dot_codes(const int16_t *w, const int8_t *q, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += w[i] * q[i];
    return sum;
}

/* scaled[256]: each weight times its scale, at most 128 * 127 */
static void scale_codes(const kt__super *w, int16_t *scaled) {
    for (int g = 0; g < 16; g++) {
        for (int i = 16 * g; i < 16 * g + 16; i++) scaled[i] = (int16_t)(w->scale[g] * w->q[i]);
    }
}

/* One superblock's step of a Q256 product. */
static float q256_step(const kt__super *w, const int16_t *scaled, const act_row *x, int block,
                       float acc) {
    int32_t isum = dot_codes(scaled, x->q + 256 * block, 256);
    float v = w->d * (float)isum;
    if (w->has_min) {
        const int16_t *sums = x->s16 + 16 * block;
        int32_t msum = 0;
        for (int g = 0; g < 16; g++) msum += w->min[g] * sums[g];
        v = multiply_add(-w->dmin, (float)msum, v);
    }
    return multiply_add(x->d[block], v, acc);
}

/* One 32-block's step of the value v of its group of 256 columns; `first` begins the group. codes: w's. */
static float q32_step(const kt__block32 *w, const int16_t *codes, const act_row *x, int block,
                      bool first, float v) {
    const int8_t *q = x->q + 32 * block;
    float d = x->d[block];
    int32_t low = dot_codes(codes, q, w->has_halves ? 16 : 32);
    float c = w->d * d;
    v = first ? c * (float)low : multiply_add(c, (float)low, v);
    if (w->has_halves) v = multiply_add(w->d_high * d, (float)dot_codes(codes + 16, q + 16, 16), v);
    if (w->has_min) v = multiply_add(w->m * d, (float)x->s32[block], v);
    return v;
}

/* Each of the following computes the tokens x[0..n-1] (n <= TOK_TILE) of one row. */

static void dot_q256(kt__type type, const kt__mm *mm, const uint8_t *row, const act_row *x, int n,
                     float *acc) {
    size_t bytes = (size_t)kt__type_get(type)->block_bytes;
    for (int b = 0; b < mm->n_col / 256; b++) {
        kt__super super;
        int16_t scaled[256];
        kt__super_unpack(type, row + (size_t)b * bytes, &super);
        scale_codes(&super, scaled);
        for (int t = 0; t < n; t++) acc[t] = q256_step(&super, scaled, &x[t], b, acc[t]);
    }
}

static void dot_q32(kt__type type, const kt__mm *mm, const uint8_t *row, const act_row *x, int n,
                    float *acc) {
    size_t bytes = (size_t)kt__type_get(type)->block_bytes;
    int n_block = mm->n_col / 32, each = kt__type_get(type)->block_elems / 32;
    float v[TOK_TILE];
    kt__block32 block[KT__MAX_BLOCK32];
    for (int b = 0; b < n_block; b++) {
        if (b % each == 0) kt__block32_unpack(type, row + (size_t)(b / each) * bytes, block);
        bool first = b % 8 == 0, last = b % 8 == 7 || b == n_block - 1;
        int16_t codes[32];
        for (int i = 0; i < 32; i++) codes[i] = block[b % each].q[i];
        for (int t = 0; t < n; t++) {
            v[t] = q32_step(&block[b % each], codes, &x[t], b, first, first ? 0 : v[t]);
            if (last) acc[t] += v[t];
        }
    }
}

/* Dequantised weights and f32 activations, in 16 lanes. Both are padded with +0 to a multiple of
 * 16, and the padding is multiplied too: an accumulator that underflowed to -0 becomes +0 there. */
static void dot_f32(kt__type type, const kt__mm *mm, const uint8_t *row, const act_row *x, int n,
                    float *acc) {
    const kt__type_info *info = kt__type_get(type);
    float lanes[TOK_TILE][LANES], w[256];
    memset(lanes, 0, (size_t)n * sizeof *lanes);
    for (int k0 = 0; k0 < mm->n_col; k0 += 256) {
        int n_k = mm->n_col - k0 < 256 ? mm->n_col - k0 : 256;
        size_t offset = (size_t)(k0 / info->block_elems) * (size_t)info->block_bytes;
        kt__dequantize_row(type, row + offset, n_k, w);
        int n_padded = (n_k + LANES - 1) / LANES * LANES;
        for (int k = n_k; k < n_padded; k++) w[k] = 0;
        for (int t = 0; t < n; t++) {
            const float *part = x[t].x + k0;
            float *lane = lanes[t];
            for (int k = 0; k < n_padded; k++)
                lane[k % LANES] = multiply_add(w[k], part[k], lane[k % LANES]);
        }
    }
    for (int t = 0; t < n; t++) acc[t] = tree_sum(lanes[t]);
}

typedef void dot_fn(kt__type type, const kt__mm *mm, const uint8_t *row, const act_row *x, int n,
                    float *acc);

static void mm_by(dot_fn *dot, kt__act_kind kind, const kt__mm *mm) {
    for (int t0 = 0; t0 < mm->n_tok; t0 += TOK_TILE) {
        int n = mm->n_tok - t0 < TOK_TILE ? mm->n_tok - t0 : TOK_TILE;
        act_row x[TOK_TILE];
        for (int t = 0; t < n; t++) x[t] = act_row_at(mm, kind, t0 + t);
        for (int r = 0; r < mm->n_row; r++) {
            float acc[TOK_TILE] = {0};
            dot(mm->type, mm, mm->w + (size_t)r * mm->w_row_bytes, x, n, acc);
            for (int t = 0; t < n; t++) mm_store(mm, r, t0 + t, acc[t]);
        }
    }
}

static void mm_exact(const kt__mm *mm, void *scratch) {
    (void)scratch;
    mm_by(dot_f32, KT__ACT_F32, mm);
}

static void mm_product(const kt__mm *mm, void *scratch) {
    (void)scratch;
    switch (kt__type_get(mm->type)->act) {
    case KT__ACT_Q32: mm_by(dot_q32, KT__ACT_Q32, mm); break;
    case KT__ACT_Q256: mm_by(dot_q256, KT__ACT_Q256, mm); break;
    default: mm_by(dot_f32, KT__ACT_F32, mm); break;
    }
}

static void ref_outer_mm(const kt__outer_mm *mm, void *scratch) {
    (void)scratch;
    for (int i = 0; i < mm->n_row; i++) {
        for (int j = 0; j < mm->n_col; j++) {
            float *out = &mm->out[(size_t)i * mm->ld_out + (size_t)j], sum = mm->add ? *out : 0.0f;
            for (int k = 0; k < mm->n_step; k++)
                sum = multiply_add(mm->a[(size_t)i * mm->a_row + (size_t)k * mm->a_step],
                                   mm->b[(size_t)k * mm->ld_b + (size_t)j], sum);
            *out = sum;
        }
    }
}

/* ---- norms and elementwise ---- */

static float ref_rmsnorm(const float *x, const float *w, int n, float eps, float *out) {
    float lane[LANES] = {0};
    for (int i = 0; i < n; i++) lane[i % LANES] = multiply_add(x[i], x[i], lane[i % LANES]);
    float sum = tree_sum(lane);
    float factor = 1.0f / sqrtf(sum / (float)n + eps);
    for (int i = 0; i < n; i++) {
        float y = x[i] * factor;
        out[i] = w ? y * w[i] : y;
    }
    return sum;
}

static void ref_add(const float *a, const float *b, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = a[i] + b[i];
}

static void ref_low_rank_add(const kt__low_rank *term) {
    for (int t = 0; t < term->n_tok; t++) {
        const float *u = term->u + (size_t)t * term->ld_u;
        float *out = term->out + (size_t)t * term->ld_out;
        for (int i = 0; i < term->n; i++) {
            size_t o = (size_t)(term->first + i), rank = (size_t)term->rank;
            const kt__f16 *b = term->b + o / KT__PANEL_ROWS * rank * KT__PANEL_ROWS +
                               o % KT__PANEL_ROWS;
            float sum = 0.0f;
            for (size_t j = 0; j < rank; j++)
                sum = multiply_add(kt__f16_to_f32(b[j * KT__PANEL_ROWS]), u[j], sum);
            out[i] = out[i] + sum;
        }
    }
}

static void ref_scale(float *x, int n, float factor) {
    for (int i = 0; i < n; i++) x[i] = x[i] * factor;
}

static void silu_mul(const float *gate, const float *up, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = kt__siluf(gate[i]) * up[i];
}

static void gelu_mul(const float *gate, const float *up, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = kt__gelu_tanhf(gate[i]) * up[i];
}

static float softcap_one(float x, float cap) { return cap * kt__tanhf(x / cap); }

static void ref_softcap(float *x, int n, float cap) {
    for (int i = 0; i < n; i++) x[i] = softcap_one(x[i], cap);
}

static void rotate_pair(float *a, float *b, float c, float s) {
    float x0 = *a, x1 = *b;
    *a = multiply_add(-x1, s, x0 * c);
    *b = multiply_add(x0, s, x1 * c);
}

static void rope_neox(float *x, const float *cs, int n_rot) {
    int half = n_rot / 2;
    for (int i = 0; i < half; i++) rotate_pair(&x[i], &x[i + half], cs[i], cs[half + i]);
}

static void rope_norm(float *x, const float *cs, int n_rot) {
    int half = n_rot / 2;
    for (int i = 0; i < half; i++) rotate_pair(&x[2 * i], &x[2 * i + 1], cs[i], cs[half + i]);
}

/* ---- attention ---- */

static kt__f16 kv_round(float x) {
    if (x > 65504.0f) x = 65504.0f;
    if (x < -65504.0f) x = -65504.0f;
    return kt__f16_from_f32(x);
}

static void store_k(const float *k, int head_dim, int slot, kt__f16 *page) {
    for (int d = 0; d < head_dim; d++) page[d * KT__PAGE_POS + slot] = kv_round(k[d]);
}

static void store_v(const float *v, int head_dim, int slot, kt__f16 *page) {
    for (int d = 0; d < head_dim; d++) page[slot * head_dim + d] = kv_round(v[d]);
}

/* Whether query i reads the page quantised. */
static bool reads_quantised(const kt__attn *attn, int i, int page) {
    const kt__attn_quantised *x = attn->quantised;
    return x && page >= x->from && page < x->own[i];
}

/* Keys and values of a split that were read in f16, in f32: each is converted once for all queries. */
typedef struct read_pages {
    const kt__attn *attn;
    float *k, *v; /* [KT__SPLIT_POS][head_dim] */
    bool has_k[KT__SPLIT_POS], has_v[KT__SPLIT_POS];
} read_pages;

static const float *f16_key(read_pages *r, int slot) {
    const kt__f16 *k = r->attn->k[slot / KT__PAGE_POS] + slot % KT__PAGE_POS;
    int n = r->attn->head_dim_k;
    float *out = r->k + (size_t)slot * (size_t)n;
    for (int d = 0; !r->has_k[slot] && d < n; d++) out[d] = kt__f16_to_f32(k[d * KT__PAGE_POS]);
    r->has_k[slot] = true;
    return out;
}

static const float *f16_value(read_pages *r, int slot) {
    int n = r->attn->head_dim_v;
    const kt__f16 *v = r->attn->v[slot / KT__PAGE_POS] + slot % KT__PAGE_POS * n;
    float *out = r->v + (size_t)slot * (size_t)n;
    for (int d = 0; !r->has_v[slot] && d < n; d++) out[d] = kt__f16_to_f32(v[d]);
    r->has_v[slot] = true;
    return out;
}

static float f16_score(read_pages *r, int i, int slot) {
    const float *q = r->attn->q + (size_t)i * r->attn->ld_q, *k = f16_key(r, slot);
    float s = 0;
    for (int d = 0; d < r->attn->head_dim_k; d++) s = multiply_add(q[d], k[d], s);
    return s;
}

/* The page's scale of a slot. */
static float quantised_scale(const uint8_t *page, kt__kv_form form, int slot) {
    float scale;
    if (form == KT__KV_Q4) return kt__f16_to_f32(((const kt__f16 *)(const void *)page)[slot]);
    memcpy(&scale, page + (size_t)slot * sizeof scale, sizeof scale);
    return scale;
}

static int half_of(uint8_t byte, bool high) { return (high ? byte >> 4 : byte & 15) - KT__Q4_ZERO; }

static int key_code(const uint8_t *page, kt__kv_form form, int slot, int d) {
    const uint8_t *codes = page + kt__quantised_codes(form);
    if (form == KT__KV_Q4) return half_of(codes[(d / 8 * KT__PAGE_POS + slot) * 4 + d % 4], d & 4);
    return (int8_t)codes[(d / 4 * KT__PAGE_POS + slot) * 4 + d % 4];
}

static int value_code(const uint8_t *page, kt__kv_form form, int slot, int head_dim, int d) {
    const uint8_t *codes = page + kt__quantised_codes(form);
    int four = form == KT__KV_Q4 ? slot % 8 / 4 : slot / 4;
    uint8_t byte = codes[(four * head_dim + d) * 4 + slot % 4];
    return form == KT__KV_Q4 ? half_of(byte, slot >= 8) : (int8_t)byte;
}

static float quantised_score(const kt__attn *attn, int i, int at) {
    kt__kv_form form = attn->quantised->k_form;
    const uint8_t *q = attn->quantised->q + (size_t)i * attn->quantised->ld_q;
    const uint8_t *page = attn->quantised->k[at / KT__PAGE_POS];
    int hd = attn->head_dim_k, slot = at % KT__PAGE_POS;
    float q_scale, k_scale = quantised_scale(page, form, slot);
    int32_t sum = 0;
    memcpy(&q_scale, q + kt__query_dims(hd), sizeof q_scale);
    if (form == KT__KV_Q4) k_scale = k_scale * (float)kt__rotation_block(hd);
    for (int d = 0; d < hd; d++) sum += (int8_t)q[d] * key_code(page, form, slot, d);
    return (float)sum * (q_scale * k_scale);
}

static float score_at(read_pages *r, int i, int slot) {
    const kt__attn *attn = r->attn;
    bool quantised = reads_quantised(attn, i, slot / KT__PAGE_POS) &&
                     attn->quantised->k_form != KT__KV_F16;
    float s = quantised ? quantised_score(attn, i, slot) : f16_score(r, i, slot);
    return attn->softcap != 0 ? softcap_one(s, attn->softcap) : s;
}

static bool value_is_quantised(const kt__attn *attn, int i, int slot) {
    return reads_quantised(attn, i, slot / KT__PAGE_POS) && attn->quantised->v_form != KT__KV_F16;
}

/* o += the values of a group's quantised pages, weighted by codes of what p and their scales make */
static void add_group(const kt__attn *attn, int i, int group, const float *p) {
    enum { N = KT__WEIGHT_PAGES * KT__PAGE_POS };
    const kt__attn_quantised *x = attn->quantised;
    float w[N] = {0}, *o = attn->o + (size_t)i * attn->ld_o;
    int8_t code[N];
    int begin = group * N;
    for (int t = 0; t < N; t++) {
        int slot = begin + t;
        if (slot < attn->lo[i] || slot >= attn->hi[i] || !value_is_quantised(attn, i, slot))
            continue;
        w[t] = p[slot] * quantised_scale(x->v[slot / KT__PAGE_POS], x->v_form, slot % KT__PAGE_POS);
    }
    float scale = kt__ref_quantize_block(w, N, code);
    for (int d = 0; d < attn->head_dim_v; d++) {
        int32_t sum = 0;
        for (int t = 0; t < N; t++) {
            const uint8_t *page = x->v[(begin + t) / KT__PAGE_POS];
            if (code[t] != 0)
                sum += code[t] * value_code(page, x->v_form, t % KT__PAGE_POS, attn->head_dim_v, d);
        }
        o[d] = multiply_add(scale, (float)sum, o[d]);
    }
}

/* o += p * V of the slot, whose page is read in f16 */
static void add_value(read_pages *r, int i, int slot, float p) {
    float *o = r->attn->o + (size_t)i * r->attn->ld_o;
    const float *v = f16_value(r, slot);
    for (int d = 0; d < r->attn->head_dim_v; d++) o[d] = multiply_add(p, v[d], o[d]);
}

static void attn_query(read_pages *r, int i) {
    const kt__attn *attn = r->attn;
    float *o = attn->o + (size_t)i * attn->ld_o;
    int lo = attn->lo[i], hi = attn->hi[i];
    float s[KT__SPLIT_POS], lane[LANES] = {0}, m = -INFINITY;
    for (int slot = lo; slot < hi; slot++) {
        s[slot] = score_at(r, i, slot);
        if (s[slot] > m) m = s[slot];
    }
    m = m + 0.0f; /* -0 and +0 are one maximum */
    for (int d = 0; d < attn->head_dim_v; d++) o[d] = 0;
    for (int slot = lo; slot < hi; slot++) {
        s[slot] = kt__expf(s[slot] - m);
        lane[slot % LANES] += s[slot];
    }
    for (int group = 0; attn->quantised && group < KT__WEIGHT_GROUPS; group++)
        add_group(attn, i, group, s);
    for (int slot = lo; slot < hi; slot++) {
        if (!value_is_quantised(attn, i, slot)) add_value(r, i, slot, s[slot]);
    }
    attn->m[i] = m;
    attn->l[i] = tree_sum(lane);
}

static void ref_attention(const kt__attn *attn, void *scratch) {
    read_pages r = {.attn = attn, .k = scratch};
    r.v = r.k + (size_t)KT__SPLIT_POS * (size_t)attn->head_dim_k;
    for (int i = 0; i < attn->n_q; i++) attn_query(&r, i);
}

static size_t attn_scratch_bytes(int n_q, int head_dim_k, int head_dim_v) {
    (void)n_q;
    return (size_t)KT__SPLIT_POS * (size_t)(head_dim_k + head_dim_v) * sizeof(float);
}

static void attn_merge(float *M, float *L, float *O, float m, float l, const float *o,
                       int head_dim) {
    float top = m > *M ? m : *M;
    float a = kt__expf(*M - top), b = kt__expf(m - top);
    *M = top;
    *L = multiply_add(a, *L, b * l);
    for (int d = 0; d < head_dim; d++) O[d] = multiply_add(a, O[d], b * o[d]);
}

static void attn_finish(const float *O, float L, int head_dim, float *out) {
    float inverse = 1.0f / L;
    for (int d = 0; d < head_dim; d++) out[d] = O[d] * inverse;
}

/* ---- recurrent layers (docs/NUMERICS.md, section 17) ---- */

static void conv_ref(const kt__conv *c) {
    for (size_t i = 0; i < (size_t)c->n; i++) {
        float y = c->bias ? c->bias[i] : 0;
        for (size_t j = 0; j < (size_t)c->width; j++)
            y = multiply_add(c->w[j * c->ld_w + i], c->x[j][i], y);
        c->out[i] = c->silu ? y / (1.0f + kt__expf(-y)) : y;
    }
}

/* One row of the state meets one token. */
static float delta_step(const kt__delta *d, float *s, size_t t, size_t row) {
    const float *q = d->q + t * d->ld_qk, *k = d->k + t * d->ld_qk;
    const float *a = d->a ? d->a + row * (size_t)d->dim : NULL;
    float beta = d->beta[t * d->ld_g + (a ? row : 0)], v = d->v[t * d->ld_v + row];
    float known[LANES] = {0}, out[LANES] = {0};
    for (int i = 0; i < d->dim; i++) {
        s[i] = (a ? kt__expf(beta * a[i]) : d->decay[t * d->ld_g]) * s[i];
        known[i % LANES] = multiply_add(s[i], k[i], known[i % LANES]);
    }
    float change = beta * (d->adds ? v : v - tree_sum(known));
    for (int i = 0; i < d->dim; i++) {
        s[i] = multiply_add(k[i], change, s[i]);
        out[i % LANES] = multiply_add(s[i], q[i], out[i % LANES]);
    }
    return tree_sum(out);
}

static void delta_ref(const kt__delta *d) {
    for (int r = 0; r < d->n_row; r++) {
        float *s = d->s + (size_t)r * (size_t)d->dim;
        for (size_t t = 0; t < (size_t)d->n_tok; t++)
            d->out[t * d->ld_out + (size_t)r] = delta_step(d, s, t, (size_t)r);
    }
}

static void softplus_ref(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = kt__softplusf(x[i]);
}

static void sigmoid_mul_ref(const float *x, const float *gate, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = x[i] / (1.0f + kt__expf(-gate[i]));
}

/* ---- the rest ---- */

static int ref_argmax(const float *x, int n, bool *finite) {
    int best = 0;
    float top = -INFINITY;
    *finite = true;
    for (int i = 0; i < n; i++) {
        if (!(fabsf(x[i]) <= FLT_MAX)) *finite = false;
        if (x[i] > top) {
            top = x[i];
            best = i;
        }
    }
    return best;
}

static uint64_t peak_i8(uint64_t iterations, int32_t *sink) {
    enum { N = 64 };
    uint8_t a[N];
    int8_t b[N];
    int32_t sum = 0;
    for (int i = 0; i < N; i++) {
        a[i] = (uint8_t)(i * 7);
        b[i] = (int8_t)(i * 5);
    }
    for (uint64_t n = 0; n < iterations; n++) {
        a[n % N] =
            (uint8_t)(n + (uint64_t)(uint32_t)sum); /* keeps the loop's work from being hoisted */
        for (int i = 0; i < N; i++) sum = (int32_t)((uint32_t)sum + (uint32_t)(a[i] * b[i]));
    }
    *sink = sum;
    return iterations * N;
}

/* One function serves few and many tokens. */
const kt__mm_kernels kt__mm_ref = {mm_product, mm_product, 16};

static const kt__mm_kernels *const mm_of_type[KT__TYPE_COUNT] = {
#define X(name, ggml_id, elems, bytes, act, products) [KT__TYPE_##name] = &kt__mm_ref,
#include "quant/types.def"
#undef X
};

const kt__kernels kt__kernels_ref = {
    .name = "ref",
    .mm = mm_of_type,
    .exact = mm_exact,
    .outer_mm = ref_outer_mm,
    .mm_scratch_bytes = 64,
    .quantize = {quantize_f32, quantize_q32, quantize_q256},
    .rmsnorm = ref_rmsnorm,
    .add = ref_add,
    .scale = ref_scale,
    .low_rank_add = ref_low_rank_add,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .softcap = ref_softcap,
    .conv = conv_ref,
    .delta = delta_ref,
    .softplus = softplus_ref,
    .sigmoid_mul = sigmoid_mul_ref,
    .rope_neox = rope_neox,
    .rope_norm = rope_norm,
    .store_k = store_k,
    .store_v = store_v,
    .quantise_k = {NULL, kt__ref_quantise_k8, kt__ref_quantise_k4},
    .quantise_v = {NULL, kt__ref_quantise_v8, kt__ref_quantise_v4},
    .code_query = kt__ref_code_query,
    .attn = ref_attention,
    .attn_scratch_bytes = attn_scratch_bytes,
    .attn_merge = attn_merge,
    .attn_finish = attn_finish,
    .argmax = ref_argmax,
    .fitter = &kt__fitter_plain,
    .peak_i8 = peak_i8,
};
