/* Windows gives large pages only to who may lock memory, and tells nobody which pages of a file it holds. */
#include "host/pages.h"

#include <stdio.h>
#include <sys/mman.h>

void *kt__pages_alloc(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void kt__pages_free(void *p, size_t bytes) {
    if (p) munmap(p, bytes);
}

size_t kt__pages_unit(void) {
    return 1;
}

bool kt__page_use_at(const char *root, const void *data, uint64_t bytes, kt__page_use *out) {
    (void)root;
    (void)data;
    *out = (kt__page_use){.bytes = bytes};
    return false;
}

bool kt__page_use_of_file(const kt__filemap *map, kt__page_use *out) {
    return kt__page_use_at("", map->data, map->size, out);
}

void kt__page_use_text(const kt__page_use *use, char *out, size_t size) {
    (void)use;
    if (size) out[0] = '\0';
}

kt__relay_end kt__relay_run(const kt__filemap *map, bool (*wait)(void *arg), void *arg) {
    (void)map;
    (void)wait;
    (void)arg;
    return KT__RELAY_UNKNOWN;
}

void kt__relay_written(const char *path) {
    (void)path;
}
