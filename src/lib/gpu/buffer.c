/* Buffers of a device: its own memory, or pages of this process. */
#include <string.h>

#include "base/error.h"
#include "gpu/vk.h"

/* The first type of memory among `types` with all of `wanted`; -1: there is none. */
static int type_with(const kt__gpu *gpu, uint32_t types, VkMemoryPropertyFlags wanted) {
    for (uint32_t i = 0; i < gpu->memory.memoryTypeCount; i++)
        if (types >> i & 1 && (gpu->memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            return (int)i;
    return -1;
}

static int type_for(const kt__gpu *gpu, uint32_t types, bool mapped) {
    const VkMemoryPropertyFlags seen = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    int type = type_with(gpu, types, mapped ? seen : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    return type >= 0 || mapped ? type : type_with(gpu, types, 0);
}

/* Of its largest own heap. */
uint64_t kt__gpu_free_bytes(const kt__gpu *gpu) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = gpu->found.facts.says_budget ? &budget : NULL};
    uint32_t best = 0;
    if (gpu->faults.free_bytes) return gpu->faults.free_bytes;
    gpu->vk.GetPhysicalDeviceMemoryProperties2(gpu->found.device, &all);
    const VkPhysicalDeviceMemoryProperties *m = &all.memoryProperties;
    for (uint32_t i = 1; i < m->memoryHeapCount; i++) {
        bool own = m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
        bool had = m->memoryHeaps[best].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
        if (own && (!had || m->memoryHeaps[i].size > m->memoryHeaps[best].size)) best = i;
    }
    uint64_t has = m->memoryHeaps[best].size,
             used = atomic_load_explicit(&gpu->memory_bytes, memory_order_relaxed);
    if (gpu->found.facts.says_budget) {
        has = budget.heapBudget[best];
        used = budget.heapUsage[best];
    }
    return has > used ? has - used : 0;
}

bool kt__gpu_copies(const kt__gpu *gpu) {
    return !gpu->found.info.integrated || gpu->faults.copies;
}

static VkResult make_buffer(kt__gpu *gpu, size_t bytes, bool import, VkBuffer *out) {
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = import ? &external : NULL,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    return gpu->vk.CreateBuffer(gpu->device, &info, NULL, out);
}

/* import: what to add to the allocation, or NULL. */
static VkResult bind_memory(kt__gpu *gpu, kt__gpu_buffer *b, size_t bytes, uint32_t types,
                            bool mapped, const void *import) {
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .pNext = import,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    int type = type_for(gpu, types, mapped);
    if (type < 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = bytes,
                                       .memoryTypeIndex = (uint32_t)type};
    VkResult result = gpu->vk.AllocateMemory(gpu->device, &info, NULL, &b->memory);
    if (result != VK_SUCCESS) return result;
    result = gpu->vk.BindBufferMemory(gpu->device, b->buffer, b->memory, 0);
    if (result != VK_SUCCESS) return result;
    const VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                             .buffer = b->buffer};
    b->address = gpu->vk.GetBufferDeviceAddress(gpu->device, &where);
    return VK_SUCCESS;
}

void kt__gpu_buffer_free(kt__gpu *gpu, kt__gpu_buffer *b) {
    gpu->vk.DestroyBuffer(gpu->device, b->buffer, NULL);
    gpu->vk.FreeMemory(gpu->device, b->memory, NULL); /* which unmaps it */
    if (b->own) atomic_fetch_sub(&gpu->memory_bytes, b->bytes);
    memset(b, 0, sizeof *b);
}

kt_status kt__gpu_buffer_make(kt__gpu *gpu, size_t bytes, bool mapped, kt__gpu_buffer *out,
                              kt_error *err) {
    VkMemoryRequirements needs;
    memset(out, 0, sizeof *out);
    VkResult result = make_buffer(gpu, bytes, false, &out->buffer);
    if (result == VK_SUCCESS) {
        gpu->vk.GetBufferMemoryRequirements(gpu->device, out->buffer, &needs);
        result = bind_memory(gpu, out, (size_t)needs.size, needs.memoryTypeBits, mapped, NULL);
    }
    if (gpu->faults.no_memory && !mapped) result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (result == VK_SUCCESS && mapped)
        result = gpu->vk.MapMemory(gpu->device, out->memory, 0, VK_WHOLE_SIZE, 0, &out->mapped);
    if (result != VK_SUCCESS) {
        kt__gpu_buffer_free(gpu, out);
        return kt__fail(err, KT_E_NOMEM, "%.100s has no %zu MB of memory left (%d)",
                        gpu->found.info.name, (bytes >> 20) + 1, (int)result);
    }
    out->bytes = bytes;
    out->own = !mapped;
    if (out->own) atomic_fetch_add(&gpu->memory_bytes, bytes);
    return KT_OK;
}

VkResult kt__gpu_buffer_import(kt__gpu *gpu, void *host, size_t bytes, kt__gpu_buffer *out) {
    const VkExternalMemoryHandleTypeFlagBits kind =
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    VkMemoryHostPointerPropertiesEXT pointer = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkMemoryRequirements needs;
    memset(out, 0, sizeof *out);
    VkResult result = gpu->vk.GetMemoryHostPointerPropertiesEXT(gpu->device, kind, host, &pointer);
    if (result == VK_SUCCESS) result = make_buffer(gpu, bytes, true, &out->buffer);
    if (result == VK_SUCCESS) {
        const VkImportMemoryHostPointerInfoEXT import = {
            .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
            .handleType = kind,
            .pHostPointer = host};
        gpu->vk.GetBufferMemoryRequirements(gpu->device, out->buffer, &needs);
        result = bind_memory(gpu, out, bytes, needs.memoryTypeBits & pointer.memoryTypeBits, true,
                             &import);
    }
    if (result != VK_SUCCESS) kt__gpu_buffer_free(gpu, out);
    out->bytes = bytes;
    return result;
}
