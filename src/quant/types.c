#include "quant/quant.h"

#include <assert.h>
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

void kt__quantize_row(kt__type type, const float *src, int64_t n, void *dst) {
    const kt__type_info *info = kt__type_get(type);
    const kt__codec *codec = codecs[type];
    assert(n % info->block_elems == 0);
    if (codec->encode_row) {
        codec->encode_row(src, n, dst);
        return;
    }
    uint8_t *block = dst;
    for (int64_t i = 0; i < n; i += info->block_elems, block += info->block_bytes) {
        codec->encode(src + i, block);
    }
}
