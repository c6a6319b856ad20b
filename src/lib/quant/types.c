#include "quant/quant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "quant/codec.h"

static const kt__type_info infos[KT__TYPE_COUNT] = {
#define X(name, ggml_id, elems, bytes, act, products) {#name, ggml_id, elems, bytes, KT__ACT_##act},
#include "quant/types.def"
#undef X
};

static const kt__codec *const codecs[KT__TYPE_COUNT] = {
#define X(name, ggml_id, elems, bytes, act, products) &kt__codec_##name,
#include "quant/types.def"
#undef X
};

const kt__type_info *kt__type_get(kt__type type) {
    assert((unsigned)type < KT__TYPE_COUNT);
    return &infos[type];
}

kt__type kt__type_from_ggml(uint32_t ggml_id) {
    for (int i = 0; i < KT__TYPE_COUNT; i++) {
        if (infos[i].ggml_id == ggml_id) return (kt__type)i;
    }
    return KT__TYPE_COUNT;
}

kt__type kt__type_from_name(const char *name) {
    for (int i = 0; i < KT__TYPE_COUNT; i++) {
        if (kt__strcasecmp(infos[i].name, name) == 0) return (kt__type)i;
    }
    return KT__TYPE_COUNT;
}

size_t kt__type_row_bytes(kt__type type, int64_t n) {
    const kt__type_info *info = kt__type_get(type);
    assert(n >= 0 && n % info->block_elems == 0);
    return (size_t)(n / info->block_elems) * (size_t)info->block_bytes;
}

void kt__super_unpack(kt__type type, const void *block, kt__super *out) {
    codecs[type]->unpack256(block, out);
}

void kt__block32_unpack(kt__type type, const void *block, kt__block32 *out) {
    for (int i = 0; i < infos[type].block_elems / 32; i++) out[i].has_halves = false;
    codecs[type]->unpack32(block, out);
}

static void super_decode(const kt__super *super, float *dst) {
    for (int g = 0; g < 16; g++) {
        float scale = super->d * (float)super->scale[g];
        float min = super->dmin * (float)super->min[g];
        for (int i = 16 * g; i < 16 * g + 16; i++) {
            float product = scale * (float)super->q[i];
            dst[i] = super->has_min ? product - min : product;
        }
    }
}

static void block32_decode(const kt__block32 *block, float *dst) {
    for (int i = 0; i < 32; i++) {
        float d = block->has_halves && i >= 16 ? block->d_high : block->d;
        float product = d * (float)block->q[i];
        dst[i] = block->has_min ? product + block->m : product;
    }
}

void kt__dequantize_row(kt__type type, const void *src, int64_t n, float *dst) {
    const kt__type_info *info = kt__type_get(type);
    const kt__codec *codec = codecs[type];
    assert(n % info->block_elems == 0);
    if (codec->decode_row) {
        codec->decode_row(src, n, dst);
        return;
    }
    const uint8_t *block = src;
    for (int64_t i = 0; i < n; i += info->block_elems, block += info->block_bytes) {
        if (codec->unpack256) {
            kt__super super;
            codec->unpack256(block, &super);
            super_decode(&super, dst + i);
        } else {
            kt__block32 small[KT__MAX_BLOCK32];
            kt__block32_unpack(type, block, small);
            for (int j = 0; j < info->block_elems / 32; j++)
                block32_decode(&small[j], dst + i + 32 * j);
        }
    }
}

/* ---- encoding ---- */

enum { SPAN = 1024 }; /* weights at a time: a whole number of blocks of any type */

static float largest_of(const float *x, int n) {
    float lane[16] = {0}, most = 0;
    for (int i = 0; i < n; i += 16)
        for (int l = 0; l < 16; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 0; l < 16; l++) most = lane[l] > most ? lane[l] : most;
    return most;
}

/* Sums of groups, each in the order of its weights; four side by side, since one alone would
 * wait for every addition. */
static void sum_groups(const float *x, int n, int group, float *sums) {
    int n_group = n / group, g = 0;
    for (; g + 4 <= n_group; g += 4) {
        const float *a = x + g * group, *b = a + group, *c = b + group, *d = c + group;
        float sa = 0, sb = 0, sc = 0, sd = 0;
        for (int i = 0; i < group; i++) sa += a[i], sb += b[i], sc += c[i], sd += d[i];
        sums[g] = sa, sums[g + 1] = sb, sums[g + 2] = sc, sums[g + 3] = sd;
    }
    for (; g < n_group; g++) {
        sums[g] = 0;
        for (int i = 0; i < group; i++) sums[g] += x[g * group + i];
    }
}

/* What the squared errors of n weights count: the importance times sqrt(2 mean x^2 + x^2), since a
 * measured importance is only a mean; without one, large weights count more: mean + x^2, or for
 * types with minima rms + |x|. All are relative to the largest weight of a block, so that nothing
 * overflows. */
static void error_weights(const kt__codec *codec, const float *x, const float *importance, int n,
                          int n_block, float *w) {
    bool affine = codec->kind == KT__FIT_SUPER_AFFINE || codec->kind == KT__FIT_BLOCK_AFFINE;
    int own_group = codec->form.group ? codec->form.group : 32;
    int group = importance ? n_block : own_group;
    float size[256], square[SPAN], sums[SPAN / 16], heaviest = 0;
    for (int at = 0; at < n; at += n_block) {
        for (int i = 0; i < n_block; i++) size[i] = fabsf(x[at + i]);
        float top = largest_of(size, n_block), inverse = top > 0x1p-100f ? 1.0f / top : 0;
        for (int i = at; i < at + n_block; i++) square[i] = (x[i] * inverse) * (x[i] * inverse);
    }
    sum_groups(square, n, group, sums);
    for (int at = 0; at < n; at += group) {
        float mean = sums[at / group] / (float)group, rms = sqrtf(mean);
        if (importance) heaviest = largest_of(importance + at, group);
        if (heaviest > 0)
            for (int i = at; i < at + group; i++)
                w[i] = importance[i] / heaviest * sqrtf(2.0f * mean + square[i]);
        else
            for (int i = at; i < at + group; i++)
                w[i] = affine ? rms + sqrtf(square[i]) : mean + square[i];
    }
}

/* Up to 8 blocks of 32, which a fit takes together; what is short of them is nought. */
static int encode_eight(const kt__codec *codec, const kt__encoding *how, const kt__fitter *fitter,
                        const float *x, const float *w, int n, int block_bytes, uint8_t *block) {
    float full_x[256] = {0}, full_w[256] = {0};
    kt__fit fit;
    n = n < 256 ? n : 256;
    memcpy(full_x, x, (size_t)n * sizeof *x);
    memcpy(full_w, w, (size_t)n * sizeof *w);
    fitter->fit[codec->kind](&codec->form, how->effort, full_x, full_w, &fit);
    for (int b = 0; b < n / 32; b++, block += block_bytes) {
        fit.d = fit.d_of[b];
        codec->begin(&fit, block);
        codec->set_levels(fit.q + 32 * b, block);
    }
    return n;
}

/* n <= SPAN weights. */
static void encode_span(kt__type type, const kt__encoding *how, const float *x,
                        const float *importance, int n, uint8_t *block) {
    const kt__codec *codec = codecs[type];
    const kt__fitter *fitter = how->fitter ? how->fitter : &kt__fitter_plain;
    const kt__type_info *info = &infos[type];
    float w[SPAN];
    kt__fit fit;
    error_weights(codec, x, importance, n, info->block_elems, w);
    for (int at = 0, taken; at < n;
         at += taken, block += taken / info->block_elems * info->block_bytes) {
        taken = info->block_elems;
        if (codec->encode_block) {
            codec->encode_block(how->effort, x + at, w + at, block);
            continue;
        }
        if (codec->kind == KT__FIT_BLOCK_GROUPS) {
            taken = encode_eight(codec, how, fitter, x + at, w + at, n - at, info->block_bytes,
                                 block);
            continue;
        }
        fitter->fit[codec->kind](&codec->form, how->effort, x + at, w + at, &fit);
        codec->begin(&fit, block);
        codec->set_levels(fit.q, block);
    }
}

void kt__quantize_row_by(kt__type type, const kt__encoding *how, const float *src, int64_t n,
                         void *dst) {
    uint8_t *block = dst;
    assert(n % kt__type_get(type)->block_elems == 0);
    if (codecs[type]->encode_row) {
        codecs[type]->encode_row(src, n, dst);
        return;
    }
    for (int64_t i = 0; i < n; i += SPAN) {
        int here = n - i < SPAN ? (int)(n - i) : SPAN;
        encode_span(type, how, src + i, how->importance ? how->importance + i : NULL, here, block);
        block += kt__type_row_bytes(type, here);
    }
}

void kt__quantize_row(kt__type type, const float *src, int64_t n, void *dst) {
    const kt__encoding plain = {NULL, KT__EFFORT_CAREFUL, NULL};
    kt__quantize_row_by(type, &plain, src, n, dst);
}

bool kt__type_levels(kt__type type, kt__levels *out) {
    const kt__fit_form *form = &codecs[type]->form;
    *out = (kt__levels){form->table, form->lo, form->hi};
    return form->group != 0;
}

void kt__block_set_levels(kt__type type, void *block, const int8_t *q) {
    codecs[type]->set_levels(q, block);
}

bool kt__block_choose_again(kt__type type, const float *x, const float *w, int first, int n,
                            void *block) {
    kt__super now;
    if (!codecs[type]->choose_again) return false;
    if (n == 0) return true;
    codecs[type]->unpack256(block, &now);
    codecs[type]->choose_again(&now, x, w, first, n, block);
    return true;
}
