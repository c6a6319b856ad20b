/* Operations that are put down, submitted together, and waited for.
 *
 * From one token to the next they are the same, with other numbers in the ring and in memory: the driver's commands are then
 * submitted again, since recording them costs the processor more than all else. */
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
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

static VkResult add_commands(kt__gpu_tape *tape, VkCommandBuffer *out) {
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = tape->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    return tape->gpu->vk.AllocateCommandBuffers(tape->gpu->device, &info, out);
}

static VkResult make_commands(kt__gpu_tape *tape) {
    const kt__vk *vk = &tape->gpu->vk;
    VkDevice device = tape->gpu->device;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = tape->gpu->found.queue_family};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkResult result = vk->CreateCommandPool(device, &pool, NULL, &tape->pool);
    if (result == VK_SUCCESS) result = vk->CreateFence(device, &fence, NULL, &tape->fence);
    if (result == VK_SUCCESS) result = add_commands(tape, &tape->copies);
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
    for (int i = 0; i < tape->n_record; i++) kt__free(tape->records[i].entries);
    kt__free(tape->now.entries);
    memset(tape, 0, sizeof *tape);
}

static void lose_device(kt__gpu_tape *tape) {
    atomic_store(&tape->gpu->lost, true);
    tape->failed = true;
}

static bool is_lost(const kt__gpu_tape *tape) {
    return tape->failed || kt__gpu_lost(tape->gpu);
}

/* ---- the driver's commands ---- */

/* What comes next sees what came before. */
static void put_barrier(const kt__vk *vk, VkCommandBuffer commands, VkPipelineStageFlags to,
                        VkAccessFlags access) {
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT |
                                                      VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = access};
    vk->CmdPipelineBarrier(commands,
                           VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                           to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static bool begin_commands(const kt__vk *vk, VkCommandBuffer commands) {
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    return vk->BeginCommandBuffer(commands, &info) == VK_SUCCESS;
}

static bool end_commands(const kt__vk *vk, VkCommandBuffer commands) {
    put_barrier(vk, commands, VK_PIPELINE_STAGE_HOST_BIT,
                VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
    return vk->EndCommandBuffer(commands) == VK_SUCCESS;
}

static bool submit_commands(kt__gpu_tape *tape, VkCommandBuffer commands) {
    const kt__vk *vk = &tape->gpu->vk;
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands};
    uint64_t n = atomic_fetch_add(&tape->gpu->n_submits, 1);
    int most = tape->gpu->faults.lost_after;
    if (most > 0 && n >= (uint64_t)most) return false;
    int64_t begin_us = kt__now_us();
    pthread_mutex_lock(&tape->gpu->queue_lock);
    VkResult result = vk->QueueSubmit(tape->gpu->queue, 1, &info, tape->fence);
    pthread_mutex_unlock(&tape->gpu->queue_lock);
    if (result == VK_SUCCESS)
        result = vk->WaitForFences(tape->gpu->device, 1, &tape->fence, VK_TRUE, UINT64_MAX);
    atomic_fetch_add(&tape->gpu->wait_us, kt__now_us() - begin_us);
    return result == VK_SUCCESS &&
           vk->ResetFences(tape->gpu->device, 1, &tape->fence) == VK_SUCCESS;
}

/* ---- what is put down ---- */

void kt__gpu_tape_put(kt__gpu_tape *tape, kt__gpu_shader shader, int kind, const kt__gpu_args *args,
                      uint32_t x, uint32_t y, uint32_t z) {
    kt__gpu_record *now = &tape->now;
    VkPipeline pipeline = kt__gpu_pipeline(tape->gpu, shader, kind);
    if (!pipeline || is_lost(tape)) return;
    if (!kt__vec_reserve(now->entries, now->cap, now->n + 1)) {
        lose_device(tape);
        return;
    }
    now->entries[now->n++] = (kt__gpu_entry){pipeline, *args, x, y, z, 0};
    tape->n_put++;
}

static bool is_same(const kt__gpu_record *a, const kt__gpu_record *b) {
    return a->n == b->n && memcmp(a->entries, b->entries, a->n * sizeof *a->entries) == 0;
}

/* What has the commands of what was put down, or NULL. */
static kt__gpu_record *find_record(kt__gpu_tape *tape) {
    for (int i = 0; i < tape->n_record; i++) {
        int at = (tape->last + 1 + i) % tape->n_record;
        if (!is_same(&tape->records[at], &tape->now)) continue;
        tape->last = at;
        return &tape->records[at];
    }
    return NULL;
}

/* A new one, or the one after the last, which is the oldest where all are new. */
static kt__gpu_record *take_record(kt__gpu_tape *tape) {
    if (tape->n_record < KT__GPU_RECORDS) {
        kt__gpu_record *added = &tape->records[tape->n_record];
        if (add_commands(tape, &added->commands) != VK_SUCCESS) return NULL;
        tape->last = tape->n_record++;
    } else {
        tape->last = (tape->last + 1) % KT__GPU_RECORDS;
    }
    return &tape->records[tape->last];
}

static bool write_commands(const kt__gpu_tape *tape, const kt__gpu_record *r) {
    const kt__vk *vk = &tape->gpu->vk;
    if (!begin_commands(vk, r->commands)) return false;
    for (size_t i = 0; i < r->n; i++) {
        const kt__gpu_entry *e = &r->entries[i];
        vk->CmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, e->pipeline);
        vk->CmdPushConstants(r->commands, tape->gpu->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             sizeof e->args, &e->args);
        vk->CmdDispatch(r->commands, e->x, e->y, e->z);
        put_barrier(vk, r->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    return end_commands(vk, r->commands);
}

static kt__gpu_record *make_record(kt__gpu_tape *tape) {
    kt__gpu_record *r = take_record(tape);
    if (!r) return NULL;
    const kt__gpu_record room = *r;
    *r = tape->now;
    r->commands = room.commands;
    tape->now = (kt__gpu_record){.entries = room.entries, .cap = room.cap};
    if (write_commands(tape, r)) return r;
    r->n = 0; /* nothing is the same */
    return NULL;
}

bool kt__gpu_tape_run(kt__gpu_tape *tape) {
    if (tape->now.n && !is_lost(tape)) {
        const kt__gpu_record *r = find_record(tape);
        if (!r) r = make_record(tape);
        if (!r || !submit_commands(tape, r->commands)) lose_device(tape);
    }
    tape->now.n = 0;
    tape->ring_used = RING_ALIGN;
    tape->work = 0;
    return !is_lost(tape);
}

void kt__gpu_tape_ready(kt__gpu_tape *tape) {
    if (tape->work > WORK_MOST || tape->ring_used > RING_BYTES / 2) (void)kt__gpu_tape_run(tape);
}

bool kt__gpu_tape_copy(kt__gpu_tape *tape, const kt__gpu_buffer *from, size_t from_at,
                       const kt__gpu_buffer *to, size_t to_at, size_t bytes) {
    const kt__vk *vk = &tape->gpu->vk;
    const VkBufferCopy region = {from_at, to_at, bytes};
    if (is_lost(tape)) return false;
    bool done = begin_commands(vk, tape->copies);
    if (done) {
        vk->CmdCopyBuffer(tape->copies, from->buffer, to->buffer, 1, &region);
        done = end_commands(vk, tape->copies) && submit_commands(tape, tape->copies);
    }
    if (!done) lose_device(tape);
    return done;
}

void *kt__gpu_tape_room(kt__gpu_tape *tape, size_t bytes, uint64_t *address) {
    bytes = (bytes + RING_ALIGN - 1) / RING_ALIGN * RING_ALIGN;
    if (tape->failed || bytes > RING_BYTES - tape->ring_used) return NULL;
    size_t at = tape->ring_used;
    tape->ring_used += bytes;
    *address = tape->ring.address + at;
    return (uint8_t *)tape->ring.mapped + at;
}
