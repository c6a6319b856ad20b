/* Choosing a device, its test, opening and closing it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/vk.h"

kt_status kt__gpu_list(kt__gpu_info out[KT__GPUS_MAX], int *n, kt_error *err) {
    kt__vk vk;
    *n = 0;
    kt__vk_found *found = kt__calloc(KT__GPUS_MAX, sizeof *found);
    if (!found) return kt__fail_nomem(err, "the list of devices", 0);
    kt_status status = kt__vk_open(&vk, NULL, err);
    if (status == KT_OK) {
        status = kt__vk_find(&vk, NULL, found, n, err);
        kt__vk_close(&vk);
    }
    for (int i = 0; i < *n; i++) out[i] = found[i].info;
    kt__free(found);
    return status;
}

/* ---- choosing one ---- */

static bool is_number(const char *s, int *out) {
    char *end;
    long n = strtol(s, &end, 10);
    *out = (int)n;
    return *s && !*end && n >= 0 && n < KT__GPUS_MAX;
}

static int rank_of(const kt__vk_found *f) {
    if (f->info.software || f->info.refusal[0]) return 0;
    return f->info.integrated ? 1 : 2;
}

static int best_of(const kt__vk_found *found, int n) {
    int best = -1, rank = 0;
    for (int i = 0; i < n; i++)
        if (rank_of(&found[i]) > rank) {
            best = i;
            rank = rank_of(&found[i]);
        }
    return best;
}

static int device_named(const kt__vk_found *found, int n, const char *name) {
    int number;
    if (is_number(name, &number)) return number < n ? number : -1;
    for (int i = 0; i < n; i++)
        if (strcasestr(found[i].info.name, name)) return i;
    return -1;
}

static kt_status choose_device(const kt__vk_found *found, int n, const char *name, int *at,
                               kt_error *err) {
    *at = name ? device_named(found, n, name) : best_of(found, n);
    if (n == 0)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "Vulkan finds no graphics processor; is its driver installed?");
    if (*at < 0 && name)
        return kt__fail(err, KT_E_ARG, "no device is called %.80s; kentang doctor lists them",
                        name);
    const kt__gpu_info *info = &found[*at < 0 ? 0 : *at].info;
    if (*at < 0 && info->refusal[0])
        return kt__fail(err, KT_E_UNSUPPORTED, "%.100s cannot be used: %s", info->name,
                        info->refusal);
    if (*at < 0)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "there is only %.100s, which is this processor: slower than without it. "
                        "Name it with --device where it is wanted for a test",
                        info->name);
    if (info->refusal[0])
        return kt__fail(err, KT_E_UNSUPPORTED, "%.100s cannot be used: %s", info->name,
                        info->refusal);
    return KT_OK;
}

/* ---- opening it ---- */

static VkResult make_device(kt__gpu *gpu) {
    const float priority = 0.5f;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = gpu->found.queue_family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    bool has_dots = gpu->found.facts.has_dots;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE};
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = has_dots ? &dots : NULL,
        .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &f12,
                                          .features = {.shaderFloat64 = gpu->found.facts.has_f64}};
    const char *extensions[2];
    uint32_t n = 0;
    if (gpu->found.facts.shares_memory)
        extensions[n++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    if (has_dots) extensions[n++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = n,
                                     .ppEnabledExtensionNames = extensions};
    kt__vk *vk = &gpu->vk;
    gpu->dots = has_dots && (gpu->found.facts.has_fast_dots || gpu->faults.slow_dots);
    VkResult result = vk->CreateDevice(gpu->found.device, &info, NULL, &gpu->device);
    if (result != VK_SUCCESS) return result;
#define X(name) vk->name = (PFN_vk##name)vk->GetDeviceProcAddr(gpu->device, "vk" #name);
    KT__VK_OF_DEVICE(X)
#undef X
    vk->GetDeviceQueue(gpu->device, gpu->found.queue_family, 0, &gpu->queue);
    vk->GetPhysicalDeviceMemoryProperties(gpu->found.device, &gpu->memory);
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(kt__gpu_args)};
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range};
    return vk->CreatePipelineLayout(gpu->device, &layout, NULL, &gpu->layout);
}

void kt__gpu_name_of_test(const kt__gpu *gpu, char *out, size_t size) {
    snprintf(out, size, "kentang %s numerics %d device %04x:%04x driver %08x %s fma ", KT_VERSION,
             KENTANG_NUMERICS, gpu->found.vendor, gpu->found.id, gpu->found.driver_version,
             gpu->found.info.driver);
}

/* "arithmetic", "Q4_K", "keys and values in q8_0" */
static void name_check(int check, char *out, size_t size) {
    static const char *const forms[KT__KV_FORMS] = {"f16", "q8_0", "q4_0"};
    if (check == KT__CHECK_BASE)
        snprintf(out, size, "arithmetic");
    else if (check < KT__CHECK_FORMS)
        snprintf(out, size, "%s", kt__type_get((kt__type)(check - KT__CHECK_TYPES))->name);
    else
        snprintf(out, size, "keys and values in %s", forms[check - KT__CHECK_FORMS]);
}

/* Of the arithmetic it is the fma, too, that is kept. */
static bool passed_before(kt__gpu *gpu, int check) {
    char line[640], wanted[640], rest[80], name[64];
    bool same = false;
    FILE *f = gpu->kept ? fopen(gpu->kept, "r") : NULL;
    if (!f) return false;
    kt__gpu_name_of_test(gpu, wanted, sizeof wanted);
    name_check(check, name, sizeof name);
    snprintf(rest, sizeof rest, ": %s\n", name);
    while (fgets(line, sizeof line, f)) {
        size_t n = strlen(wanted);
        if (strncmp(line, wanted, n) != 0) continue;
        int fma = line[n] - '0';
        bool known = fma >= 0 && fma < KT__FMAS && strcmp(line + n + 1, rest) == 0;
        if (check != KT__CHECK_BASE) {
            same |= known && fma == (int)gpu->fma;
            continue;
        }
        same = known;
        if (same) gpu->fma = (kt__gpu_fma)fma;
    }
    fclose(f);
    return same;
}

/* A result that cannot be kept is found again next time. */
static void keep_result(const kt__gpu *gpu, int check) {
    char line[640], name[64];
    FILE *f = gpu->kept ? fopen(gpu->kept, "a") : NULL;
    if (!f) return;
    kt__gpu_name_of_test(gpu, line, sizeof line);
    name_check(check, name, sizeof name);
    fprintf(f, "%s%d: %s\n", line, (int)gpu->fma, name);
    fclose(f);
}

static kt_status test_once(kt__gpu *gpu, int check, kt_error *err) {
    if (gpu->faults.untested || passed_before(gpu, check)) return KT_OK;
    KT__STEP(kt__gpu_self_test(gpu, check, err));
    keep_result(gpu, check);
    return KT_OK;
}

static kt_status prove_check(kt__gpu *gpu, int check, kt_error *err) {
    kt_status status = KT_OK;
    if (kt__gpu_passed(gpu, check)) return KT_OK;
    pthread_mutex_lock(&gpu->test_lock);
    if (!kt__gpu_passed(gpu, check)) status = test_once(gpu, check, err);
    if (status == KT_OK) atomic_store(&gpu->passed[check], true);
    pthread_mutex_unlock(&gpu->test_lock);
    return status;
}

kt_status kt__gpu_prove_type(kt__gpu *gpu, kt__type type, kt_error *err) {
    return prove_check(gpu, KT__CHECK_TYPES + (int)type, err);
}

kt_status kt__gpu_prove_form(kt__gpu *gpu, kt__kv_form form, kt_error *err) {
    return prove_check(gpu, KT__CHECK_FORMS + (int)form, err);
}

/* The device of that name, or the best. */
static kt_status find_device(kt__gpu *gpu, const char *name, kt_error *err) {
    int n, at;
    kt_status status;
    kt__vk_found *found = kt__calloc(KT__GPUS_MAX, sizeof *found);
    if (!found) return kt__fail_nomem(err, "the list of devices", 0);
    KT__TRY(kt__vk_find(&gpu->vk, &gpu->faults, found, &n, err));
    KT__TRY(choose_device(found, n, name, &at, err));
    gpu->found = found[at];
out:
    kt__free(found);
    return status;
}

static kt_status open_device(kt__gpu *gpu, const char *name, const char *kept, kt_error *err) {
    gpu->kept = kept ? kt__strdup(kept) : NULL; /* without it, tests are repeated */
    KT__STEP(kt__vk_open(&gpu->vk, gpu->faults.library, err));
    KT__STEP(find_device(gpu, name && *name ? name : NULL, err));
    VkResult result = make_device(gpu);
    if (result != VK_SUCCESS)
        return kt__fail(err, KT_E_UNSUPPORTED, "%.100s cannot be opened (%d)", gpu->found.info.name,
                        (int)result);
    kt__gpu_health_open(gpu);
    return prove_check(gpu, KT__CHECK_BASE, err);
}

kt_status kt__gpu_open(const char *name, const char *kept, const kt__gpu_faults *faults,
                       kt__gpu **out, kt_error *err) {
    *out = NULL;
    kt__gpu *gpu = kt__calloc(1, sizeof *gpu);
    if (!gpu) return kt__fail_nomem(err, "a device", sizeof *gpu);
    pthread_mutex_init(&gpu->queue_lock, NULL);
    pthread_mutex_init(&gpu->pipeline_lock, NULL);
    pthread_mutex_init(&gpu->test_lock, NULL);
    if (faults) gpu->faults = *faults;
    kt_status status = open_device(gpu, name, kept, err);
    if (status == KT_OK)
        *out = gpu;
    else
        kt__gpu_close(gpu);
    return status;
}

void kt__gpu_close(kt__gpu *gpu) {
    if (!gpu) return;
    kt__vk *vk = &gpu->vk;
    if (gpu->device) {
        (void)vk->DeviceWaitIdle(gpu->device);
        for (int fma = 0; fma < KT__FMAS; fma++)
            for (int s = 0; s < KT__SHADERS; s++)
                for (int k = 0; k < KT__SHADER_KINDS; k++)
                    vk->DestroyPipeline(gpu->device, gpu->pipelines[fma][s][k], NULL);
        vk->DestroyPipelineLayout(gpu->device, gpu->layout, NULL);
        vk->DestroyDevice(gpu->device, NULL);
    }
    kt__gpu_health_close(gpu);
    kt__vk_close(vk);
    pthread_mutex_destroy(&gpu->queue_lock);
    pthread_mutex_destroy(&gpu->pipeline_lock);
    pthread_mutex_destroy(&gpu->test_lock);
    kt__free(gpu->kept);
    kt__free(gpu);
}

const kt__gpu_info *kt__gpu_get_info(const kt__gpu *gpu) {
    return &gpu->found.info;
}

const char *kt__gpu_fma_name(const kt__gpu *gpu) {
    static const char *const names[KT__FMAS] = {"the driver's", "in f64", "in integers"};
    return names[gpu->fma];
}

bool kt__gpu_is_lost(const kt__gpu *gpu) {
    return kt__gpu_lost(gpu);
}

kt__gpu_use kt__gpu_get_use(const kt__gpu *gpu) {
    return (kt__gpu_use){
        .wait_us = atomic_load_explicit(&gpu->wait_us, memory_order_relaxed),
        .n_submits = atomic_load_explicit(&gpu->n_submits, memory_order_relaxed),
        .memory_bytes = atomic_load_explicit(&gpu->memory_bytes, memory_order_relaxed)};
}
