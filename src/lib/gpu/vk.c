#include "gpu/vk.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

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

kt_status kt__vk_open(kt__vk *vk, const char *library, kt_error *err) {
    memset(vk, 0, sizeof *vk);
    vk->lib = kt__library_open(library ? library : "libvulkan.so.1");
    if (!vk->lib)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "libvulkan.so.1 is not installed; on Debian: libvulkan1, and the graphics "
                        "card's driver");
    void *symbol = kt__library_find(vk->lib, "vkGetInstanceProcAddr");
    memcpy(&vk->get_proc, &symbol, sizeof symbol);
    kt_status status = vk->get_proc ? make_instance(vk, err)
                                    : kt__fail(err, KT_E_UNSUPPORTED,
                                               "libvulkan.so.1 has no vkGetInstanceProcAddr");
    if (status != KT_OK) kt__vk_close(vk);
    return status;
}

void kt__vk_close(kt__vk *vk) {
    if (vk->instance) vk->DestroyInstance(vk->instance, NULL);
    if (vk->lib) kt__library_close(vk->lib);
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
    VkPhysicalDeviceShaderIntegerDotProductProperties dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
        .pNext = f->facts.shares_memory ? &host : NULL};
    p12.pNext = f->facts.has_dots ? (void *)&dots : dots.pNext;
    vk->GetPhysicalDeviceProperties2(f->device, &all);
    f->facts.rounds_to_nearest = p12.shaderRoundingModeRTEFloat32;
    f->facts.keeps_zeros = p12.shaderSignedZeroInfNanPreserveFloat32;
    f->facts.keeps_subnormals = p12.shaderDenormPreserveFloat32;
    snprintf(f->info.driver, sizeof f->info.driver, "%.100s %.100s", p12.driverName,
             p12.driverInfo);
    f->facts.has_fast_dots = dots.integerDotProduct4x8BitPackedSignedAccelerated;
    f->host_align = f->facts.shares_memory ? (size_t)host.minImportedHostPointerAlignment : 4096;
    memcpy(f->uuid, p11.deviceUUID, sizeof f->uuid);
    f->alloc_max = p11.maxMemoryAllocationSize > 1u << 30 ? (size_t)1 << 30
                                                          : (size_t)p11.maxMemoryAllocationSize;
}

static void read_features(const kt__vk *vk, kt__vk_found *f) {
    VkPhysicalDeviceShaderIntegerDotProductFeatures dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = f->facts.has_dots ? &dots : NULL};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &f12};
    vk->GetPhysicalDeviceFeatures2(f->device, &all);
    f->facts.has_addresses = f12.bufferDeviceAddress;
    f->facts.has_dots = dots.shaderIntegerDotProduct;
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
        {"sharing", f->facts.shares_memory || (faults && faults->untested),
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
        f->facts.says_budget = has_extension(vk, f->device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        f->facts.has_dots = has_extension(vk, f->device,
                                          VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
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
