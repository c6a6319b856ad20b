#include "quant/quant.h"

#include <assert.h>
#include <math.h>
#include <strings.h>

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
        if (strcasecmp(infos[i].name, name) == 0) return (kt__type)i;
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
        float product = block->d * (float)block->q[i];
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
            kt__block32 small;
            codec->unpack32(block, &small);
            block32_decode(&small, dst + i);
        }
    }
}

/* ---- encoding ---- */

/* What the squared errors of n weights count: the importance times sqrt(2 mean x^2 + x^2), since a
 * measured importance is only a mean; without one, large weights count more: mean + x^2, or for types
 * with minima rms + |x|. All are relative to the largest weight, so that nothing overflows. */
static void error_weights(const kt__codec *codec, const float *x, const float *importance, int n,
                          int group, float *w) {
    bool affine = codec->kind == KT__FIT_SUPER_AFFINE || codec->kind == KT__FIT_BLOCK_AFFINE;
    float top = 0, square[256], heaviest = 0;
    for (int i = 0; i < n; i++) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    float inverse = top > 0x1p-100f ? 1.0f / top : 0;
    for (int i = 0; i < n; i++) {
        square[i] = (x[i] * inverse) * (x[i] * inverse);
        heaviest = importance && importance[i] > heaviest ? importance[i] : heaviest;
    }
    for (int at = 0; at < n; at += group) {
        float sum = 0;
        for (int i = at; i < at + group; i++) sum += square[i];
        float mean = sum / (float)group, rms = sqrtf(mean);
        for (int i = at; i < at + group; i++) {
            if (heaviest > 0)
                w[i] = importance[i] / heaviest * sqrtf(2.0f * mean + square[i]);
            else
                w[i] = affine ? rms + sqrtf(square[i]) : mean + square[i];
        }
    }
}

static void encode_block(kt__type type, const kt__encoding *how, const float *x,
                         const float *importance, void *block) {
    const kt__codec *codec = codecs[type];
    const kt__fitter *fitter = how->fitter ? how->fitter : &kt__fitter_plain;
    int n = infos[type].block_elems;
    float w[256];
    kt__fit fit;
    error_weights(codec, x, importance, n, importance ? n : codec->form.group, w);
    fitter->fit[codec->kind](&codec->form, how->effort, x, w, &fit);
    codec->begin(&fit, block);
    codec->set_levels(fit.q, block);
}

void kt__quantize_row_by(kt__type type, const kt__encoding *how, const float *src, int64_t n,
                         void *dst) {
    const kt__type_info *info = kt__type_get(type);
    uint8_t *block = dst;
    assert(n % info->block_elems == 0);
    if (codecs[type]->encode_row) {
        codecs[type]->encode_row(src, n, dst);
        return;
    }
    for (int64_t i = 0; i < n; i += info->block_elems, block += info->block_bytes)
        encode_block(type, how, src + i, how->importance ? how->importance + i : NULL, block);
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
