/* Memory and mapped files: ../../memory.c. */
#ifndef KT_HOST_WINDOWS_MMAN_H
#define KT_HOST_WINDOWS_MMAN_H

#include <stddef.h>
#include <stdint.h>

enum {
    PROT_NONE = 0,
    PROT_READ = 1,
    PROT_WRITE = 2,
    MAP_SHARED = 1,
    MAP_PRIVATE = 2,
    MAP_ANONYMOUS = 4,
    MAP_NORESERVE = 8,
    MADV_NORMAL = 0,
    MADV_RANDOM,
    MADV_WILLNEED,
    MADV_DONTNEED,
    MADV_HUGEPAGE,
    MADV_NOHUGEPAGE,
    MADV_SEQUENTIAL
};
#define MAP_FAILED ((void *)-1)

void *kt__win_mmap(void *at, size_t n, int may, int flags, int fd, int64_t offset);
int kt__win_munmap(void *p, size_t n); /* the whole of what mmap gave */
int kt__win_mprotect(void *p, size_t n, int may);
int kt__win_madvise(void *p, size_t n, int advice);
int kt__win_mincore(void *p, size_t n, unsigned char *present);
int kt__win_mlock(const void *p, size_t n);
int kt__win_munlock(const void *p, size_t n);
#define mmap kt__win_mmap
#define munmap kt__win_munmap
#define mprotect kt__win_mprotect
#define madvise kt__win_madvise
#define mincore kt__win_mincore
#define mlock kt__win_mlock
#define munlock kt__win_munlock

#endif
