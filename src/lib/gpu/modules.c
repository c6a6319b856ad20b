/* The shaders as SPIR-V, and pipelines of them.
 *
 * glslang makes a header of each when this is built (CMakeLists.txt). The execution modes that the
 * contract needs depend on the device, so that they are put in here: GLSL has no words for them. */
#include <string.h>

#include "base/alloc.h"
#include "gpu/vk.h"

#include "gpu_modules.inc"

/* SPIR-V of a shader: without and with f64. */
typedef struct binary {
    const uint32_t *words[2];
    size_t bytes[2];
} binary;

static const binary *binary_of(kt__gpu_shader shader) {
    static const binary all[KT__SHADERS] = {
#define X(name)                                                  \
    [KT__SHADER_##name] = {{spirv_##name##_0, spirv_##name##_1}, \
                           {sizeof spirv_##name##_0, sizeof spirv_##name##_1}},
        KT__GPU_SHADERS(X)
#undef X
    };
    return &all[shader];
}

/* ---- execution modes ---- */

enum {
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    HEADER_WORDS = 5,
    MODES_MAX = 3,
    MODE_WORDS = 4,
    CAPABILITY_WORDS = 2
};

/* Of SPIR-V: a capability and the mode that it allows. */
typedef struct mode {
    uint32_t capability, number;
} mode;
static const mode denorm_preserve = {4464, 4459};
static const mode keep_zeros = {4466, 4461}, round_to_nearest = {4467, 4462};

static uint32_t op_of(uint32_t word) {
    return word & 0xffffu;
}

static size_t length_of(uint32_t word) {
    return word >> 16 ? word >> 16 : 1;
}

/* words[n] with the modes, of numbers of 32 bits; returns how many words there are. The entry point's
 * modes begin after it, capabilities after the header. */
static size_t put_modes(const uint32_t *words, size_t n, const mode *modes, int n_mode,
                        uint32_t *out) {
    size_t at = 0, i = HEADER_WORDS;
    memcpy(out, words, HEADER_WORDS * sizeof *out);
    at = HEADER_WORDS;
    for (int m = 0; m < n_mode; m++) {
        out[at++] = CAPABILITY_WORDS << 16 | OP_CAPABILITY;
        out[at++] = modes[m].capability;
    }
    while (i < n) {
        size_t length = length_of(words[i]);
        if (length > n - i) length = n - i;
        memcpy(out + at, words + i, length * sizeof *out);
        at += length;
        for (int m = 0; op_of(words[i]) == OP_ENTRY_POINT && m < n_mode; m++) {
            out[at++] = MODE_WORDS << 16 | OP_EXECUTION_MODE;
            out[at++] = words[i + 2];
            out[at++] = modes[m].number;
            out[at++] = 32;
        }
        i += length;
    }
    return at;
}

static VkShaderModule make_module(kt__gpu *gpu, kt__gpu_shader shader) {
    const binary *module = binary_of(shader);
    bool f64 = gpu->fma == KT__FMA_F64;
    size_t n = module->bytes[f64] / sizeof(uint32_t);
    VkShaderModule out = VK_NULL_HANDLE;
    mode modes[MODES_MAX] = {round_to_nearest, keep_zeros, denorm_preserve};
    uint32_t *words = kt__calloc(n + MODES_MAX * (MODE_WORDS + CAPABILITY_WORDS), sizeof *words);
    if (!words) return out;
    int n_mode = gpu->found.facts.keeps_subnormals ? 3 : 2;
    n = put_modes(module->words[f64], n, modes, n_mode, words);
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = n * sizeof *words,
                                           .pCode = words};
    if (gpu->vk.CreateShaderModule(gpu->device, &info, NULL, &out) != VK_SUCCESS)
        out = VK_NULL_HANDLE;
    kt__free(words);
    return out;
}

static VkPipeline make_pipeline(kt__gpu *gpu, kt__gpu_shader shader, int kind) {
    VkPipeline out = VK_NULL_HANDLE;
    VkShaderModule module = make_module(gpu, shader);
    const int32_t constants[] = {kind, gpu->fma}; /* KIND and FMA */
    const VkSpecializationMapEntry entries[] = {{0, 0, sizeof *constants},
                                                {1, sizeof *constants, sizeof *constants}};
    const VkSpecializationInfo special = {2, entries, sizeof constants, constants};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = gpu->layout};
    if (module && gpu->vk.CreateComputePipelines(gpu->device, VK_NULL_HANDLE, 1, &info, NULL,
                                                 &out) != VK_SUCCESS)
        out = VK_NULL_HANDLE;
    gpu->vk.DestroyShaderModule(gpu->device, module, NULL);
    return out;
}

VkPipeline kt__gpu_pipeline(kt__gpu *gpu, kt__gpu_shader shader, int kind) {
    VkPipeline *at = &gpu->pipelines[gpu->fma][shader][kind];
    pthread_mutex_lock(&gpu->pipeline_lock);
    if (!*at) *at = make_pipeline(gpu, shader, kind);
    VkPipeline out = *at;
    pthread_mutex_unlock(&gpu->pipeline_lock);
    if (!out) atomic_store(&gpu->lost, true);
    return out;
}
