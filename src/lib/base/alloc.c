#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local int noalloc_depth;

void kt__noalloc_enter(void) {
    noalloc_depth++;
}
void kt__noalloc_leave(void) {
    noalloc_depth--;
}

int kt__noalloc_suspend(void) {
    int depth = noalloc_depth;
    noalloc_depth = 0;
    return depth;
}

void kt__noalloc_resume(int depth) {
    noalloc_depth = depth;
}

static void guard_heap(void) {
    assert(noalloc_depth == 0 && "allocation while a batch runs");
}

void *kt__malloc(size_t size) {
    guard_heap();
    return malloc(size ? size : 1);
}

void *kt__calloc(size_t count, size_t size) {
    guard_heap();
    return count && size ? calloc(count, size) : calloc(1, 1);
}

void *kt__calloc_written(size_t count, size_t size) {
    size_t bytes;
    if (!kt__mul_size(count, size, &bytes)) return NULL;
    void *p = kt__malloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *kt__realloc_array(void *old, size_t count, size_t size) {
    size_t bytes;
    guard_heap();
    if (!kt__mul_size(count, size, &bytes)) return NULL;
    return realloc(old, bytes ? bytes : 1);
}

void *kt__aligned_alloc(size_t align, size_t size) {
    void *p = NULL;
    guard_heap();
    if (size > SIZE_MAX - align) return NULL;
    if (posix_memalign(&p, align, size ? size : align) != 0) return NULL;
    return p;
}

char *kt__strndup(const char *s, size_t len) {
    char *copy = len < SIZE_MAX ? kt__malloc(len + 1) : NULL;
    if (!copy) return NULL;
    if (len) memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *kt__strdup(const char *s) {
    return kt__strndup(s, strlen(s));
}

void kt__free(void *p) {
    free(p);
}
