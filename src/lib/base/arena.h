/* Arenas: memory of one lifetime.
 *
 * Owns: blocks that are released together (a model's tables, a template's values, a batch's
 * scratch). Not thread-safe: one user at a time. Never shrinks until reset or free. */
#ifndef KT_BASE_ARENA_H
#define KT_BASE_ARENA_H

#include <stddef.h>

typedef struct kt__arena_block kt__arena_block;
typedef struct kt__arena {
    kt__arena_block *head; /* newest block */
    size_t used_bytes;     /* handed out since the last reset */
    size_t max_bytes;      /* allocation beyond this fails */
    size_t block_bytes;    /* size of a usual block */
} kt__arena;

/* No memory is taken before the first allocation. */
void kt__arena_init(kt__arena *arena, size_t block_bytes, size_t max_bytes);
/* NULL when memory or the cap is exhausted; 16-byte aligned (or `align`, a power of two <= 4096).
 */
void *kt__arena_alloc(kt__arena *arena, size_t size) __attribute__((warn_unused_result));
void *kt__arena_alloc_aligned(kt__arena *arena, size_t size, size_t align)
    __attribute__((warn_unused_result));
void *kt__arena_calloc(kt__arena *arena, size_t count, size_t size)
    __attribute__((warn_unused_result));
char *kt__arena_strndup(kt__arena *arena, const char *s, size_t len)
    __attribute__((warn_unused_result));
/* Everything handed out is gone; one block is kept for reuse. */
void kt__arena_reset(kt__arena *arena);
void kt__arena_free(kt__arena *arena);

#endif
