/* Operations that are recorded, submitted together, and waited for. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "gpu/vk.h"

enum {
    RING_BYTES = 8 << 20,
    RING_ALIGN = 64,
    /* about as many multiplications take a slow device a tenth of a second: drivers end what takes
     * them seconds */
    WORK_MOST = 1 << 30
};

static VkResult make_commands(kt__gpu_tape *tape) {
    const kt__vk *vk = &tape->gpu->vk;
    VkDevice device = tape->gpu->device;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = tape->gpu->found.queue_family};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkResult result = vk->CreateCommandPool(device, &pool, NULL, &tape->pool);
    if (result == VK_SUCCESS) result = vk->CreateFence(device, &fence, NULL, &tape->fence);
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = tape->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    if (result == VK_SUCCESS) result = vk->AllocateCommandBuffers(device, &info, &tape->commands);
    return result;
}

kt_status kt__gpu_tape_create(kt__gpu *gpu, kt__gpu_tape *out, kt_error *err) {
    memset(out, 0, sizeof *out);
    out->gpu = gpu;
    kt_status status = kt__gpu_buffer_make(gpu, RING_BYTES, true, &out->ring, err);
    if (status == KT_OK && make_commands(out) != VK_SUCCESS)
        status = kt__fail(err, KT_E_NOMEM, "%.100s has no memory for commands",
                          gpu->found.info.name);
    if (status == KT_OK) {
        atomic_store(kt__gpu_tape_bad(out), 0);
        out->ring_used = RING_ALIGN;
    } else {
        kt__gpu_tape_destroy(out);
    }
    return status;
}

void kt__gpu_tape_destroy(kt__gpu_tape *tape) {
    if (!tape->gpu) return;
    const kt__vk *vk = &tape->gpu->vk;
    vk->DestroyFence(tape->gpu->device, tape->fence, NULL);
    vk->DestroyCommandPool(tape->gpu->device, tape->pool, NULL);
    kt__gpu_buffer_free(tape->gpu, &tape->ring);
    memset(tape, 0, sizeof *tape);
}

static void lose_device(kt__gpu_tape *tape) {
    atomic_store(&tape->gpu->lost, true);
    tape->failed = true;
}

/* What is recorded next sees what was recorded before. */
static void put_barrier(kt__gpu_tape *tape, VkPipelineStageFlags to, VkAccessFlags access) {
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT |
                                                      VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = access};
    tape->gpu->vk.CmdPipelineBarrier(
        tape->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, to,
        0, 1, &barrier, 0, NULL, 0, NULL);
}

static bool begin_tape(kt__gpu_tape *tape) {
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (tape->failed || kt__gpu_lost(tape->gpu)) return false;
    if (tape->recording) return true;
    if (tape->gpu->vk.ResetCommandPool(tape->gpu->device, tape->pool, 0) != VK_SUCCESS ||
        tape->gpu->vk.BeginCommandBuffer(tape->commands, &info) != VK_SUCCESS) {
        lose_device(tape);
        return false;
    }
    tape->recording = true;
    return true;
}

void kt__gpu_tape_put(kt__gpu_tape *tape, kt__gpu_shader shader, int kind, const kt__gpu_args *args,
                      uint32_t x, uint32_t y, uint32_t z) {
    const kt__vk *vk = &tape->gpu->vk;
    VkPipeline pipeline = kt__gpu_pipeline(tape->gpu, shader, kind);
    if (!pipeline || !begin_tape(tape)) return;
    vk->CmdBindPipeline(tape->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vk->CmdPushConstants(tape->commands, tape->gpu->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                         sizeof *args, args);
    vk->CmdDispatch(tape->commands, x, y, z);
    tape->n_put++;
    put_barrier(tape, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

void kt__gpu_tape_ready(kt__gpu_tape *tape) {
    if (tape->work > WORK_MOST || tape->ring_used > RING_BYTES / 2) (void)kt__gpu_tape_run(tape);
}

void kt__gpu_tape_copy(kt__gpu_tape *tape, const kt__gpu_buffer *from, size_t from_at,
                       const kt__gpu_buffer *to, size_t to_at, size_t bytes) {
    const VkBufferCopy region = {from_at, to_at, bytes};
    if (!begin_tape(tape)) return;
    tape->gpu->vk.CmdCopyBuffer(tape->commands, from->buffer, to->buffer, 1, &region);
    put_barrier(tape, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT);
}

void *kt__gpu_tape_room(kt__gpu_tape *tape, size_t bytes, uint64_t *address) {
    bytes = (bytes + RING_ALIGN - 1) / RING_ALIGN * RING_ALIGN;
    if (tape->failed || bytes > RING_BYTES - tape->ring_used) return NULL;
    size_t at = tape->ring_used;
    tape->ring_used += bytes;
    *address = tape->ring.address + at;
    return (uint8_t *)tape->ring.mapped + at;
}

static bool submit_tape(kt__gpu_tape *tape) {
    const kt__vk *vk = &tape->gpu->vk;
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &tape->commands};
    put_barrier(tape, VK_PIPELINE_STAGE_HOST_BIT,
                VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
    uint64_t n = atomic_fetch_add(&tape->gpu->n_submits, 1);
    int most = tape->gpu->faults.lost_after;
    if (most > 0 && n >= (uint64_t)most) return false;
    if (vk->EndCommandBuffer(tape->commands) != VK_SUCCESS) return false;
    pthread_mutex_lock(&tape->gpu->queue_lock);
    VkResult result = vk->QueueSubmit(tape->gpu->queue, 1, &info, tape->fence);
    pthread_mutex_unlock(&tape->gpu->queue_lock);
    if (result != VK_SUCCESS) return false;
    if (vk->WaitForFences(tape->gpu->device, 1, &tape->fence, VK_TRUE, UINT64_MAX) != VK_SUCCESS)
        return false;
    return vk->ResetFences(tape->gpu->device, 1, &tape->fence) == VK_SUCCESS;
}

bool kt__gpu_tape_run(kt__gpu_tape *tape) {
    if (tape->recording) {
        int64_t begin_us = kt__now_us();
        tape->recording = false;
        if (!submit_tape(tape)) lose_device(tape);
        atomic_fetch_add(&tape->gpu->wait_us, kt__now_us() - begin_us);
    }
    tape->ring_used = RING_ALIGN;
    tape->work = 0;
    return !tape->failed && !kt__gpu_lost(tape->gpu);
}
