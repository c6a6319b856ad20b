/* Buffers of a device, and which memory of this process it reaches. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/vk.h"

/* ---- buffers ---- */

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
    atomic_fetch_add(&gpu->memory_bytes, mapped ? 0 : bytes);
    return KT_OK;
}

/* Whole pages of this process's memory as a buffer. */
static VkResult import_pages(kt__gpu *gpu, void *host, size_t bytes, kt__gpu_buffer *out) {
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

/* ---- sets ---- */

typedef struct stretch {
    const uint8_t *host;
    size_t bytes;
    uint64_t address;
} stretch;

enum { BLOCK_BYTES = 1 << 20 }; /* of copies, which are as large where one of them is larger */

struct kt__gpu_set {
    kt__gpu *gpu;
    stretch *stretches; /* by ascending host */
    size_t n, cap;
    kt__gpu_buffer *buffers;
    size_t n_buffer, buffer_cap;
    size_t block_used; /* of the last buffer, where that is a block of copies */
    bool in_block;
};

kt_status kt__gpu_set_create(kt__gpu *gpu, kt__gpu_set **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a device's memory", sizeof **out);
    (*out)->gpu = gpu;
    return KT_OK;
}

void kt__gpu_set_destroy(kt__gpu_set *set) {
    if (!set) return;
    for (size_t i = 0; i < set->n_buffer; i++) kt__gpu_buffer_free(set->gpu, &set->buffers[i]);
    kt__free(set->buffers);
    kt__free(set->stretches);
    kt__free(set);
}

static bool grow_array(void **array, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 16;
    void *bigger = kt__realloc_array(*array, more, size);
    if (!bigger) return false;
    *array = bigger;
    *cap = more;
    return true;
}

static bool add_stretch(kt__gpu_set *set, const void *host, size_t bytes, uint64_t address) {
    if (!grow_array((void **)&set->stretches, set->n, &set->cap, sizeof *set->stretches))
        return false;
    size_t at = set->n++;
    for (; at > 0 && set->stretches[at - 1].host > (const uint8_t *)host; at--)
        set->stretches[at] = set->stretches[at - 1];
    set->stretches[at] = (stretch){host, bytes, address};
    return true;
}

static kt__gpu_buffer *next_buffer(kt__gpu_set *set) {
    if (!grow_array((void **)&set->buffers, set->n_buffer, &set->buffer_cap, sizeof *set->buffers))
        return NULL;
    set->in_block = false;
    return &set->buffers[set->n_buffer];
}

static kt_status share_pages(kt__gpu_set *set, uint8_t *from, size_t bytes, kt_error *err) {
    kt__gpu_buffer *buffer = next_buffer(set);
    if (!buffer) return kt__fail_nomem(err, "a device's memory", 0);
    VkResult result = import_pages(set->gpu, from, bytes, buffer);
    if (result != VK_SUCCESS)
        return kt__fail(err, KT_E_NOMEM,
                        "%.100s does not take %zu MB of this program's memory (%d)",
                        set->gpu->found.info.name, (bytes >> 20) + 1, (int)result);
    set->n_buffer++;
    if (!add_stretch(set, from, bytes, buffer->address))
        return kt__fail_nomem(err, "a device's memory", 0);
    return KT_OK;
}

kt_status kt__gpu_set_share(kt__gpu_set *set, const void *host, size_t bytes, kt_error *err) {
    size_t align = set->gpu->found.host_align, most = set->gpu->found.alloc_max / align * align;
    uintptr_t from = (uintptr_t)host / align * align;
    uintptr_t to = ((uintptr_t)host + bytes + align - 1) / align * align;
    for (; from < to; from += most) {
        size_t part = to - from < most ? to - from : most;
        KT__STEP(share_pages(set, (uint8_t *)from, part, err));
    }
    return KT_OK;
}

/* Through a buffer that both see. */
static kt_status upload_bytes(kt__gpu_set *set, const uint8_t *host, size_t bytes,
                              const kt__gpu_buffer *to, size_t to_at, kt_error *err) {
    enum { STAGE = 16 << 20 };
    kt__gpu_buffer stage;
    kt__gpu_tape tape;
    kt_status status;
    bool done = true;
    size_t stage_bytes = bytes < STAGE ? kt__align_up(bytes, 4) : STAGE;
    KT__STEP(kt__gpu_tape_create(set->gpu, &tape, err));
    KT__TRY(kt__gpu_buffer_make(set->gpu, stage_bytes, true, &stage, err));
    for (size_t at = 0; done && at < bytes; at += stage_bytes) {
        size_t part = bytes - at < stage_bytes ? bytes - at : stage_bytes;
        memcpy(stage.mapped, host + at, part);
        kt__gpu_tape_copy(&tape, &stage, 0, to, to_at + at, kt__align_up(part, 4));
        done = kt__gpu_tape_run(&tape);
    }
    kt__gpu_buffer_free(set->gpu, &stage);
    if (!done)
        status = kt__fail(err, KT_E_UNSUPPORTED, "%.100s failed while weights were copied to it",
                          set->gpu->found.info.name);
out:
    kt__gpu_tape_destroy(&tape);
    return status;
}

/* Room in a block; its address and place. */
static kt_status take_room(kt__gpu_set *set, size_t bytes, size_t *at, kt_error *err) {
    kt__gpu_buffer *block = set->n_buffer ? &set->buffers[set->n_buffer - 1] : NULL;
    *at = kt__align_up(set->block_used, 256);
    if (!set->in_block || *at + bytes > block->bytes) {
        block = next_buffer(set);
        if (!block) return kt__fail_nomem(err, "a device's memory", 0);
        KT__STEP(kt__gpu_buffer_make(set->gpu, bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES, false,
                                     block, err));
        set->n_buffer++;
        set->in_block = true;
        *at = 0;
    }
    set->block_used = *at + bytes;
    return KT_OK;
}

kt_status kt__gpu_set_copy(kt__gpu_set *set, const void *host, size_t bytes, kt_error *err) {
    size_t at, room = kt__align_up(bytes, 4) + 4; /* shaders read words */
    if (kt__gpu_set_find(set, host, bytes)) return KT_OK;
    KT__STEP(take_room(set, room, &at, err));
    const kt__gpu_buffer *block = &set->buffers[set->n_buffer - 1];
    KT__STEP(upload_bytes(set, host, bytes, block, at, err));
    if (!add_stretch(set, host, bytes, block->address + at))
        return kt__fail_nomem(err, "a device's memory", 0);
    return KT_OK;
}

kt_status kt__gpu_set_place(kt__gpu_set *set, const void *host, size_t bytes, kt_error *err) {
    kt_error refused;
    bool shared = set->gpu->found.info.integrated && !set->gpu->faults.copies;
    if (shared && kt__gpu_set_share(set, host, bytes, &refused) == KT_OK) return KT_OK;
    return kt__gpu_set_copy(set, host, bytes, err);
}

uint64_t kt__gpu_set_find(const kt__gpu_set *set, const void *host, size_t bytes) {
    const uint8_t *p = host;
    size_t low = 0, high = set->n;
    while (low < high) { /* the last stretch that begins at p or before it */
        size_t mid = (low + high) / 2;
        if (set->stretches[mid].host <= p)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i-- > 0;) {
        const stretch *s = &set->stretches[i];
        size_t at = (size_t)(p - s->host);
        if (at <= s->bytes && bytes <= s->bytes - at) return s->address + at;
        if (low - i >= 4) break; /* only stretches that share a page overlap */
    }
    return 0;
}
