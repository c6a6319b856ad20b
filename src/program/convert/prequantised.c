#include "convert/config.h"

#include <string.h>

#include "base/error.h"

static const struct {
    const char *method, *name;
} methods[] = {{"awq", "AWQ"},
               {"gptq", "GPTQ"},
               {"fp8", "FP8"},
               {"fbgemm_fp8", "FP8"},
               {"bitsandbytes", "bitsandbytes"},
               {"compressed-tensors", "compressed-tensors"},
               {"modelopt", "ModelOpt"},
               {"mxfp4", "MXFP4"},
               {"hqq", "HQQ"},
               {"aqlm", "AQLM"},
               {"eetq", "EETQ"},
               {"quanto", "Quanto"},
               {"torchao", "torchao"}};
enum { N_METHODS = sizeof methods / sizeof *methods };

static const char *name_of(const char *method) {
    for (int i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i].method, method) == 0) return methods[i].name;
    return method;
}

kt_status kt__prequantised_config(const json_t *config, const char *path, kt_error *err) {
    json_t *found = json_object_get(config, "quantization_config");
    if (!json_is_object(found)) found = json_object_get(config, "compression_config");
    if (!json_is_object(found)) return KT_OK;
    const char *method = json_string_value(json_object_get(found, "quant_method"));
    return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                       "the weights are quantised already (%.60s): convert the original model, "
                       "whose tensors are BF16, F16 or F32",
                       method ? name_of(method) : "quantization_config");
}

static bool config_says(const json_t *config, const char *name, const char *value) {
    const char *said = json_string_value(
        json_object_get(json_object_get(config, "quantization_config"), name));
    return said && strcmp(said, value) == 0;
}

bool kt__prequantised_mxfp4(const json_t *config) {
    return config_says(config, "quant_method", "mxfp4");
}

bool kt__prequantised_bitnet(const json_t *config) {
    return config_says(config, "quant_method", "bitnet");
}

bool kt__prequantised_bitnet_packed(const json_t *config) {
    return kt__prequantised_bitnet(config) && !config_says(config, "quantization_mode", "online");
}

bool kt__prequantised_bitnet_multiplies(const json_t *config) {
    return config_says(config, "linear_class", "autobitlinear");
}

/* What the tools add besides a matrix, or put in its place. */
static const struct {
    const char *tail, *name;
} signs[] = {{".qweight", "GPTQ or AWQ"},
             {".qzeros", "GPTQ or AWQ"},
             {".g_idx", "GPTQ"},
             {".weight.absmax", "bitsandbytes"},
             {".weight.quant_map", "bitsandbytes"},
             {".weight_format", "bitsandbytes"},
             {".SCB", "bitsandbytes"},
             {".weight_scale_inv", "FP8"},
             {".weight_packed", "compressed-tensors"},
             {".weight_scale", "FP8 or compressed-tensors"}};
enum { N_SIGNS = sizeof signs / sizeof *signs };

static const char *sign_of(const kt__st_tensor *t) {
    size_t len = strlen(t->name);
    for (int i = 0; i < N_SIGNS; i++) {
        size_t tail = strlen(signs[i].tail);
        if (len > tail && strcmp(t->name + len - tail, signs[i].tail) == 0) return signs[i].name;
    }
    return strncmp(t->dtype, "F8_", 3) == 0 ? "FP8" : NULL;
}

kt_status kt__prequantised_tensors(const kt__folder *folder, kt_error *err) {
    for (size_t s = 0; s < folder->n_shards; s++) {
        const kt__shard *shard = &folder->shards[s];
        for (size_t i = 0; i < shard->st.n; i++) {
            const kt__st_tensor *t = &shard->st.tensors[i];
            const char *name = sign_of(t);
            if (!name) continue;
            return kt__fail_at(err, KT_E_UNSUPPORTED, shard->path, t->begin,
                               "tensor '%.100s' of type %s: the weights are quantised already "
                               "(%s): convert the original model, whose tensors are BF16, F16 or "
                               "F32",
                               t->name, t->dtype, name);
        }
    }
    return KT_OK;
}
