/* kt__malloc & co. of a test program: they count what lives and fail on demand. The linker then
 * leaves the library's out. */
#ifndef KT_TEST_FAULT_ALLOC_H
#define KT_TEST_FAULT_ALLOC_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct head {
    size_t size;
    size_t pad; /* bytes before this head in its block */
} head;

static size_t live, peak;
static long fail_at = -1, n_calls; /* fail the fail_at-th call; -1: never */

static void *count_alloc(size_t align, size_t size) {
    if (n_calls++ == fail_at || size > SIZE_MAX / 2) return NULL;
    size_t pad = align > sizeof(head) ? align - sizeof(head) : 0;
    char *block = NULL;
    if (posix_memalign((void **)&block, align < 16 ? 16 : align, pad + sizeof(head) + size) != 0)
        return NULL;
    *(head *)(void *)(block + pad) = (head){size, pad};
    live += size + 1; /* an empty one lives too */
    if (live > peak) peak = live;
    return block + pad + sizeof(head);
}

void kt__free(void *p) {
    if (!p) return;
    head *h = (head *)p - 1;
    live -= h->size + 1;
    free((char *)h - h->pad);
}

void *kt__malloc(size_t size) {
    return count_alloc(16, size);
}
void *kt__aligned_alloc(size_t align, size_t size) {
    return count_alloc(align, size);
}

void *kt__calloc(size_t count, size_t size) {
    size_t bytes;
    void *p = kt__mul_size(count, size, &bytes) ? count_alloc(16, bytes) : NULL;
    return p ? memset(p, 0, bytes) : NULL;
}

void *kt__calloc_written(size_t count, size_t size) {
    return kt__calloc(count, size);
}

void *kt__realloc_array(void *old, size_t count, size_t size) {
    size_t bytes, old_bytes = old ? ((head *)old - 1)->size : 0;
    void *p = kt__mul_size(count, size, &bytes) ? count_alloc(16, bytes) : NULL;
    if (p && old) memcpy(p, old, old_bytes < bytes ? old_bytes : bytes);
    if (p) kt__free(old);
    return p;
}

char *kt__strndup(const char *s, size_t len) {
    char *p = count_alloc(16, len + 1);
    if (!p) return NULL;
    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

char *kt__strdup(const char *s) {
    return kt__strndup(s, strlen(s));
}
void kt__noalloc_enter(void) {}
void kt__noalloc_leave(void) {}
int kt__noalloc_suspend(void) {
    return 0;
}
void kt__noalloc_resume(int depth) {
    (void)depth;
}

#endif
