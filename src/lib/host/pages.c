#include "host/pages.h"

#include "host/nodes.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The kernel gives a huge page only where a whole aligned one fits: map more, return the ends. */
static void *map_aligned(size_t bytes) {
    size_t align = KT__HUGE_PAGE_BYTES, page = (size_t)sysconf(_SC_PAGESIZE); /* ARM: up to 64K */
    if (bytes > SIZE_MAX - align) {
        errno = ENOMEM;
        return NULL;
    }
    uint8_t *p = map_pages(bytes + align);
    if (!p) return NULL;
    size_t before = (align - (uintptr_t)p % align) % align;
    if (before) (void)munmap(p, before);
    uint8_t *end = p + before + (bytes + page - 1) / page * page, *last = p + bytes + align;
    if (end < last) (void)munmap(end, (size_t)(last - end));
    return p + before;
}

void *kt__pages_alloc(size_t bytes) {
    if (bytes < 2 * (size_t)KT__HUGE_PAGE_BYTES) return map_pages(bytes);
    void *p = map_aligned(bytes);
    if (p) (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint: refusal costs speed only */
    return p;
}

size_t kt__pages_unit(void) {
    return kt__nodes_several() ? KT__HUGE_PAGE_BYTES : 1;
}

void kt__pages_free(void *p, size_t bytes) {
    if (p) munmap(p, bytes);
}
