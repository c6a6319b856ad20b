/* Heap memory, and arenas.
 *
 * Owns: every malloc and free of the library, the debug guard that makes allocation fatal while a batch runs, and
 * arenas: blocks of one lifetime that are released together. Knows nothing of what is stored. Any thread; an arena
 * has one user at a time. */
#ifndef KT_BASE_ALLOC_H
#define KT_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#define KT__MALLOC_ATTR __attribute__((malloc, warn_unused_result))
#else
#define KT__MALLOC_ATTR
#endif

/* NULL when memory is short or a size overflows. A zero size gives a pointer that can be freed. */
void *kt__malloc(size_t size) KT__MALLOC_ATTR;
void *kt__calloc(size_t count, size_t size) KT__MALLOC_ATTR;
/* kt__calloc for a large table that will be filled in random order: its pages are written now. A
 * zero page that is read before it is written costs a second page fault, and an interrupt of every
 * other processor that runs this process. */
void *kt__calloc_written(size_t count, size_t size) KT__MALLOC_ATTR;
void *kt__realloc_array(void *old, size_t count, size_t size) __attribute__((warn_unused_result));
/* align: a power of two, at least sizeof(void *). Released with kt__free. */
void *kt__aligned_alloc(size_t align, size_t size) KT__MALLOC_ATTR;
char *kt__strdup(const char *s) KT__MALLOC_ATTR;
char *kt__strndup(const char *s, size_t len) KT__MALLOC_ATTR;
void kt__free(void *p);

/* Between enter and leave an allocation by this thread is a bug of this library: fatal in debug
 * builds, ignored in release builds. suspend/resume bracket user callbacks. Nestable. */
void kt__noalloc_enter(void);
void kt__noalloc_leave(void);
int kt__noalloc_suspend(void);
void kt__noalloc_resume(int depth);

/* a * b and a + b without overflow; false when the result does not fit. */
static inline bool kt__mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool kt__add_size(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* n rounded up to a multiple of align, a power of two; the sum must fit. */
static inline size_t kt__align_up(size_t n, size_t align) {
    return (n + align - 1) & ~(align - 1);
}

/* Arenas: memory of one lifetime (a model's tables, a template's values, a batch's scratch). An arena never shrinks
 * until it is reset or freed. */

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
