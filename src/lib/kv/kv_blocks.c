#include <string.h>

#include "kv/kv_store.h"

/* ---- a page as one block ---- */

size_t kt__kv_block_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (kt__slabs_k_bytes(s, layer) + kt__slabs_v_bytes(s, layer)) *
                 (size_t)kt__kv_heads_of(s, layer).n;
    return bytes;
}

/* n bytes between a page's part, which may be nowhere, and a block. */
static void part_copy(void *part, void *block, size_t n, bool out) {
    if (!part && out) memset(block, 0, n);
    if (part) memcpy(out ? block : part, out ? part : block, n);
}

uint8_t *kt__kv_own_k(const kt__kv *kv, int32_t page, int layer, int head) {
    bool f16 = kt__kv_k_form(&kv->shape, layer) == KT__KV_F16;
    return f16 ? (uint8_t *)kt__kv_k(kv, page, layer, head)
               : kt__kv_quantised_k(kv, page, layer, head);
}

static void *block_v(const kt__kv *kv, int32_t page, int layer, int head) {
    bool f16 = kv->shape.v_form == KT__KV_F16;
    return f16 ? (void *)kt__kv_v(kv, page, layer, head)
               : kt__kv_quantised_v(kv, page, layer, head);
}

/* Between the page and a block: its own parts, or the f16 copy of what is f16 anyway. */
static void block_copy(const kt__kv *kv, int32_t page, uint8_t *at, bool local, bool out) {
    const kt__kv_shape *s = &kv->shape;
    for (int layer = 0; layer < s->n_layer; layer++) {
        size_t k_bytes = kt__slabs_k_bytes(s, layer), v_bytes = kt__slabs_v_bytes(s, layer);
        bool skipped = !local && kt__kv_is_local(s, layer);
        for (int head = 0; head < kt__kv_heads_of(s, layer).n; head++, at += k_bytes + v_bytes) {
            part_copy(skipped ? NULL : kt__kv_own_k(kv, page, layer, head), at, k_bytes, out);
            part_copy(skipped ? NULL : block_v(kv, page, layer, head), at + k_bytes, v_bytes, out);
        }
    }
}

void kt__kv_block_read(const kt__kv *kv, int32_t page, void *out) {
    block_copy(kv, page, out, true, true);
}

void kt__kv_block_read_global(const kt__kv *kv, int32_t page, void *out) {
    block_copy(kv, page, out, false, true);
}

void kt__kv_block_write(kt__kv *kv, int32_t page, const void *block) {
    block_copy(kv, page, (uint8_t *)(uintptr_t)block, true, false);
    if (kv->copies && kt__store_place_of(kv, page) != KT__NO_PLACE &&
        !kt__kv_page_has_f16(kv, page))
        kv->quantised[page] = (uint16_t)kv->shape.n_layer;
}

/* ---- f16 copies ---- */

static size_t f16_k_bytes(const kt__kv_shape *s, int layer) {
    if (kt__kv_k_form(s, layer) == KT__KV_F16) return 0;
    return (size_t)kt__kv_heads_of(s, layer).dim_k * KT__PAGE_POS * sizeof(kt__f16);
}

static size_t f16_v_bytes(const kt__kv_shape *s, int layer) {
    if (s->v_form == KT__KV_F16) return 0;
    return (size_t)kt__kv_heads_of(s, layer).dim_v * KT__PAGE_POS * sizeof(kt__f16);
}

size_t kt__kv_f16_copy_bytes(const kt__kv_shape *s) {
    size_t bytes = 0;
    for (int layer = 0; layer < s->n_layer; layer++)
        bytes += (f16_k_bytes(s, layer) + f16_v_bytes(s, layer)) *
                 (size_t)kt__kv_heads_of(s, layer).n;
    return bytes;
}

/* Between the page's f16 copy and one block of memory; the page has one. */
static void f16_copy(const kt__kv *kv, int32_t page, uint8_t *piece, bool out) {
    for (int layer = 0; layer < kv->shape.n_layer; layer++) {
        size_t k_bytes = f16_k_bytes(&kv->shape, layer), v_bytes = f16_v_bytes(&kv->shape, layer);
        int n = kt__kv_heads_of(&kv->shape, layer).n;
        for (int head = 0; head < n; head++, piece += k_bytes + v_bytes) {
            void *k = kt__f16_copy_k(kv->copies, page, layer, head);
            void *v = kt__f16_copy_v(kv->copies, page, layer, head);
            if (k_bytes) memcpy(out ? piece : k, out ? k : piece, k_bytes);
            if (v_bytes) memcpy(out ? piece + k_bytes : v, out ? v : piece + k_bytes, v_bytes);
        }
    }
}

void kt__kv_f16_copy_read(const kt__kv *kv, int32_t page, void *out) {
    f16_copy(kv, page, out, true);
}

void kt__kv_f16_copy_write(kt__kv *kv, int32_t page, const void *f16) {
    f16_copy(kv, page, (uint8_t *)(uintptr_t)f16, false);
}
