/* Arenas; apart from alloc.c, in whose place tests put a heap that fails. */
#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

struct kt__arena_block {
    kt__arena_block *next;
    size_t size, used; /* of the bytes that follow this header */
    _Alignas(16) unsigned char data[];
};

void kt__arena_init(kt__arena *arena, size_t block_bytes, size_t max_bytes) {
    *arena = (kt__arena){.block_bytes = block_bytes, .max_bytes = max_bytes};
}

static kt__arena_block *block_new(kt__arena *arena, size_t need) {
    size_t size = need > arena->block_bytes ? need : arena->block_bytes;
    if (size > SIZE_MAX - sizeof(kt__arena_block)) return NULL;
    kt__arena_block *block = kt__malloc(sizeof *block + size);
    if (!block) return NULL;
    block->next = arena->head;
    block->size = size;
    block->used = 0;
    arena->head = block;
    return block;
}

static size_t arena_padding(const kt__arena_block *block, size_t align) {
    uintptr_t at = (uintptr_t)block->data + block->used;
    return (size_t)(-at & (align - 1));
}

void *kt__arena_alloc_aligned(kt__arena *arena, size_t size, size_t align) {
    if (size > arena->max_bytes - arena->used_bytes) return NULL;
    kt__arena_block *block = arena->head;
    size_t pad = block ? arena_padding(block, align) : 0;
    if (!block || block->size - block->used < pad || block->size - block->used - pad < size) {
        if (size > SIZE_MAX - align) return NULL;
        block = block_new(arena, size + align);
        if (!block) return NULL;
        pad = arena_padding(block, align);
    }
    void *p = block->data + block->used + pad;
    block->used += pad + size;
    arena->used_bytes += size;
    return p;
}

void *kt__arena_alloc(kt__arena *arena, size_t size) {
    return kt__arena_alloc_aligned(arena, size, 16);
}

void *kt__arena_calloc(kt__arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!kt__mul_size(count, size, &bytes)) return NULL;
    void *p = kt__arena_alloc(arena, bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

char *kt__arena_strndup(kt__arena *arena, const char *s, size_t len) {
    if (len == SIZE_MAX) return NULL;
    char *copy = kt__arena_alloc_aligned(arena, len + 1, 1);
    if (!copy) return NULL;
    if (len) memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

void kt__arena_reset(kt__arena *arena) {
    kt__arena_block *keep = arena->head;
    if (keep) {
        for (kt__arena_block *b = keep->next, *next; b; b = next) {
            next = b->next;
            kt__free(b);
        }
        keep->next = NULL;
        keep->used = 0;
    }
    arena->used_bytes = 0;
}

void kt__arena_free(kt__arena *arena) {
    for (kt__arena_block *b = arena->head, *next; b; b = next) {
        next = b->next;
        kt__free(b);
    }
    arena->head = NULL;
    arena->used_bytes = 0;
}
