#include "gpu/vk.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static kt_status make_instance(kt__vk *vk, kt_error *err) {
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "kentang",
                                   .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &app};
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)vk->get_proc(VK_NULL_HANDLE,
                                                                     "vkCreateInstance");
    VkResult result = create ? create(&info, NULL, &vk->instance) : VK_ERROR_INITIALIZATION_FAILED;
    if (result != VK_SUCCESS)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "Vulkan cannot be started (%d): is a driver installed? On Debian: "
                        "mesa-vulkan-drivers, or the graphics card maker's",
                        (int)result);
#define X(name) vk->name = (PFN_vk##name)vk->get_proc(vk->instance, "vk" #name);
    KT__VK_OF_INSTANCE(X)
#undef X
    return KT_OK;
}

kt_status kt__vk_open(kt__vk *vk, kt_error *err) {
    memset(vk, 0, sizeof *vk);
    vk->lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!vk->lib)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "libvulkan.so.1 is not installed; on Debian: libvulkan1, and the graphics "
                        "card's driver");
    void *symbol = dlsym(vk->lib, "vkGetInstanceProcAddr");
    memcpy(&vk->get_proc, &symbol, sizeof symbol);
    kt_status status = vk->get_proc ? make_instance(vk, err)
                                    : kt__fail(err, KT_E_UNSUPPORTED,
                                               "libvulkan.so.1 has no vkGetInstanceProcAddr");
    if (status != KT_OK) kt__vk_close(vk);
    return status;
}

void kt__vk_close(kt__vk *vk) {
    if (vk->instance) vk->DestroyInstance(vk->instance, NULL);
    if (vk->lib) dlclose(vk->lib);
    memset(vk, 0, sizeof *vk);
}

/* ---- what there is ---- */

static bool has_extension(const kt__vk *vk, VkPhysicalDevice device, const char *name) {
    uint32_t n = 0;
    bool has = false;
    if (vk->EnumerateDeviceExtensionProperties(device, NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    VkExtensionProperties *all = kt__calloc(n, sizeof *all);
    if (!all) return false;
    (void)vk->EnumerateDeviceExtensionProperties(device, NULL, &n, all);
    for (uint32_t i = 0; i < n; i++) has |= strcmp(all[i].extensionName, name) == 0;
    kt__free(all);
    return has;
}

/* The first family of queues that computes. */
static bool find_queue(const kt__vk *vk, VkPhysicalDevice device, uint32_t *family) {
    VkQueueFamilyProperties all[32];
    uint32_t n = 32;
    vk->GetPhysicalDeviceQueueFamilyProperties(device, &n, all);
    for (*family = 0; *family < n; ++*family)
        if (all[*family].queueFlags & VK_QUEUE_COMPUTE_BIT) return true;
    return false;
}

static void read_properties(const kt__vk *vk, kt__vk_found *f) {
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceVulkan12Properties p12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties p11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &p12};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &p11};
    if (f->facts.shares_memory) p12.pNext = &host;
    vk->GetPhysicalDeviceProperties2(f->device, &all);
    f->facts.rounds_to_nearest = p12.shaderRoundingModeRTEFloat32;
    f->facts.keeps_zeros = p12.shaderSignedZeroInfNanPreserveFloat32;
    f->facts.keeps_subnormals = p12.shaderDenormPreserveFloat32;
    snprintf(f->info.driver, sizeof f->info.driver, "%.100s %.100s", p12.driverName,
             p12.driverInfo);
    f->host_align = f->facts.shares_memory ? (size_t)host.minImportedHostPointerAlignment : 4096;
    f->alloc_max = p11.maxMemoryAllocationSize > 1u << 30 ? (size_t)1 << 30
                                                          : (size_t)p11.maxMemoryAllocationSize;
}

static void read_features(const kt__vk *vk, kt__vk_found *f) {
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &f12};
    vk->GetPhysicalDeviceFeatures2(f->device, &all);
    f->facts.has_addresses = f12.bufferDeviceAddress;
    f->facts.has_f64 = all.features.shaderFloat64;
}

static void read_memory(const kt__vk *vk, kt__vk_found *f) {
    VkPhysicalDeviceMemoryProperties memory;
    vk->GetPhysicalDeviceMemoryProperties(f->device, &memory);
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++) {
        bool own = memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
        if (own && memory.memoryHeaps[i].size > f->info.memory_bytes)
            f->info.memory_bytes = memory.memoryHeaps[i].size;
    }
}

/* What it needs, in the order asked; the first that it lacks is its refusal. */
static void judge_device(kt__vk_found *f, const kt__gpu_faults *faults) {
    const struct {
        const char *name;
        bool has;
        const char *words;
    } needs[] = {
        {"vulkan", f->facts.api >= VK_API_VERSION_1_2, "its driver is older than Vulkan 1.2"},
        {"compute", f->facts.compute, "it has no queue that computes"},
        {"rounding", f->facts.rounds_to_nearest,
         "its driver does not promise to round to the nearest number "
         "(shaderRoundingModeRTEFloat32)"},
        {"zeros", f->facts.keeps_zeros,
         "its driver does not promise to keep the sign of zeros "
         "(shaderSignedZeroInfNanPreserveFloat32)"},
        {"addresses", f->facts.has_addresses,
         "its driver has no addresses of buffers (bufferDeviceAddress)"},
        {"sharing", f->facts.shares_memory,
         "its driver does not reach this program's memory (VK_EXT_external_memory_host)"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        bool missing = faults && faults->missing && strcmp(faults->missing, needs[i].name) == 0;
        if (needs[i].has && !missing) continue;
        snprintf(f->info.refusal, sizeof f->info.refusal, "%s", needs[i].words);
        return;
    }
}

static void look_at(const kt__vk *vk, const kt__gpu_faults *faults, kt__vk_found *f) {
    VkPhysicalDeviceProperties p;
    vk->GetPhysicalDeviceProperties(f->device, &p);
    snprintf(f->info.name, sizeof f->info.name, "%s", p.deviceName);
    f->info.integrated = p.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                         p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    f->info.software = p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    f->facts.api = p.apiVersion;
    f->driver_version = p.driverVersion;
    f->vendor = p.vendorID;
    f->id = p.deviceID;
    f->facts.compute = find_queue(vk, f->device, &f->queue_family);
    if (p.apiVersion >= VK_API_VERSION_1_2) {
        f->facts.shares_memory = has_extension(vk, f->device,
                                               VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
        read_properties(vk, f);
        read_features(vk, f);
    }
    f->info.by_word = f->facts.keeps_subnormals;
    read_memory(vk, f);
    judge_device(f, faults);
}

kt_status kt__vk_find(const kt__vk *vk, const kt__gpu_faults *faults,
                      kt__vk_found out[KT__GPUS_MAX], int *n, kt_error *err) {
    VkPhysicalDevice devices[KT__GPUS_MAX];
    uint32_t count = KT__GPUS_MAX;
    VkResult result = vk->EnumeratePhysicalDevices(vk->instance, &count, devices);
    *n = 0;
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return kt__fail(err, KT_E_UNSUPPORTED, "Vulkan names no devices (%d)", (int)result);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (kt__vk_found){.device = devices[i]};
        look_at(vk, faults, &out[i]);
    }
    *n = (int)count;
    return KT_OK;
}

kt_status kt__gpu_list(kt__gpu_info out[KT__GPUS_MAX], int *n, kt_error *err) {
    kt__vk vk;
    *n = 0;
    kt__vk_found *found = kt__calloc(KT__GPUS_MAX, sizeof *found);
    if (!found) return kt__fail_nomem(err, "the list of devices", 0);
    kt_status status = kt__vk_open(&vk, err);
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
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &f12,
                                          .features = {.shaderFloat64 = gpu->found.facts.has_f64}};
    const char *const extensions[] = {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = 1,
                                     .ppEnabledExtensionNames = extensions};
    kt__vk *vk = &gpu->vk;
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

static bool passed_before(kt__gpu *gpu, const char *kept) {
    char line[640], wanted[640];
    bool same = false;
    FILE *f = kept ? fopen(kept, "r") : NULL;
    if (!f) return false;
    kt__gpu_name_of_test(gpu, wanted, sizeof wanted);
    while (fgets(line, sizeof line, f)) {
        size_t n = strlen(wanted);
        if (strncmp(line, wanted, n) != 0) continue;
        int fma = line[n] - '0';
        same = fma >= 0 && fma < KT__FMAS && line[n + 1] == '\n';
        if (same) gpu->fma = (kt__gpu_fma)fma;
    }
    fclose(f);
    return same;
}

/* A result that cannot be kept is found again next time. */
static void keep_result(const kt__gpu *gpu, const char *kept) {
    char line[640];
    FILE *f = kept ? fopen(kept, "a") : NULL;
    if (!f) return;
    kt__gpu_name_of_test(gpu, line, sizeof line);
    fprintf(f, "%s%d\n", line, (int)gpu->fma);
    fclose(f);
}

static kt_status test_once(kt__gpu *gpu, const char *kept, kt_error *err) {
    if (passed_before(gpu, kept)) return KT_OK;
    KT__STEP(kt__gpu_self_test(gpu, err));
    keep_result(gpu, kept);
    return KT_OK;
}

static kt_status open_found(kt__gpu *gpu, const char *name, const char *kept, kt_error *err) {
    int n, at;
    kt__vk_found *found = kt__calloc(KT__GPUS_MAX, sizeof *found);
    if (!found) return kt__fail_nomem(err, "the list of devices", 0);
    kt_status status = kt__vk_find(&gpu->vk, &gpu->faults, found, &n, err);
    if (status == KT_OK) status = choose_device(found, n, name, &at, err);
    if (status == KT_OK) gpu->found = found[at];
    kt__free(found);
    if (status != KT_OK) return status;
    VkResult result = make_device(gpu);
    if (result != VK_SUCCESS)
        return kt__fail(err, KT_E_UNSUPPORTED, "%.100s cannot be opened (%d)", gpu->found.info.name,
                        (int)result);
    return test_once(gpu, kept, err);
}

kt_status kt__gpu_open(const char *name, const char *kept, const kt__gpu_faults *faults,
                       kt__gpu **out, kt_error *err) {
    *out = NULL;
    kt__gpu *gpu = kt__calloc(1, sizeof *gpu);
    if (!gpu) return kt__fail_nomem(err, "a device", sizeof *gpu);
    if (faults) gpu->faults = *faults;
    kt_status status = kt__vk_open(&gpu->vk, err);
    if (status == KT_OK) status = open_found(gpu, name && *name ? name : NULL, kept, err);
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
    kt__vk_close(vk);
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
    return atomic_load_explicit(&gpu->lost, memory_order_relaxed);
}

kt__gpu_use kt__gpu_get_use(const kt__gpu *gpu) {
    return (kt__gpu_use){
        .wait_us = atomic_load_explicit(&gpu->wait_us, memory_order_relaxed),
        .n_submits = atomic_load_explicit(&gpu->n_submits, memory_order_relaxed),
        .memory_bytes = atomic_load_explicit(&gpu->memory_bytes, memory_order_relaxed)};
}
