/* Which memory of this process a device reaches, by sharing or by copies. */
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "gpu/vk.h"

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
    kt__gpu_tape tape; /* of copies, and what they pass through; made for the first one */
    kt__gpu_buffer stage;
};

kt_status kt__gpu_set_create(kt__gpu *gpu, kt__gpu_set **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a device's memory", sizeof **out);
    (*out)->gpu = gpu;
    return KT_OK;
}

void kt__gpu_set_destroy(kt__gpu_set *set) {
    if (!set) return;
    kt__gpu_buffer_free(set->gpu, &set->stage);
    kt__gpu_tape_destroy(&set->tape);
    for (size_t i = 0; i < set->n_buffer; i++) kt__gpu_buffer_free(set->gpu, &set->buffers[i]);
    kt__free(set->buffers);
    kt__free(set->stretches);
    kt__free(set);
}

static bool add_stretch(kt__gpu_set *set, const void *host, size_t bytes, uint64_t address) {
    if (!kt__vec_reserve(set->stretches, set->cap, set->n + 1)) return false;
    size_t at = set->n++;
    for (; at > 0 && set->stretches[at - 1].host > (const uint8_t *)host; at--)
        set->stretches[at] = set->stretches[at - 1];
    set->stretches[at] = (stretch){host, bytes, address};
    return true;
}

static kt__gpu_buffer *next_buffer(kt__gpu_set *set) {
    if (!kt__vec_reserve(set->buffers, set->buffer_cap, set->n_buffer + 1)) return NULL;
    set->in_block = false;
    return &set->buffers[set->n_buffer];
}

static kt_status share_pages(kt__gpu_set *set, uint8_t *from, size_t bytes, kt_error *err) {
    kt__gpu_buffer *buffer = next_buffer(set);
    if (!buffer) return kt__fail_nomem(err, "a device's memory", 0);
    VkResult result = kt__gpu_buffer_import(set->gpu, from, bytes, buffer);
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

enum { STAGE_BYTES = 4 << 20 };

static kt_status open_stage(kt__gpu_set *set, kt_error *err) {
    if (!set->tape.gpu) KT__STEP(kt__gpu_tape_create(set->gpu, &set->tape, err));
    if (set->stage.mapped) return KT_OK;
    return kt__gpu_buffer_make(set->gpu, STAGE_BYTES, true, &set->stage, err);
}

/* Through a buffer that both see. */
static kt_status upload_bytes(kt__gpu_set *set, const uint8_t *host, size_t bytes,
                              const kt__gpu_buffer *to, size_t to_at, kt_error *err) {
    KT__STEP(open_stage(set, err));
    for (size_t at = 0; at < bytes; at += STAGE_BYTES) {
        size_t part = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        memcpy(set->stage.mapped, host + at, part);
        if (!kt__gpu_tape_copy(&set->tape, &set->stage, 0, to, to_at + at, kt__align_up(part, 4)))
            return kt__fail(err, KT_E_UNSUPPORTED, "%.100s failed while weights were copied to it",
                            set->gpu->found.info.name);
    }
    return KT_OK;
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
    if (!kt__gpu_copies(set->gpu) && kt__gpu_set_share(set, host, bytes, &refused) == KT_OK)
        return KT_OK;
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
