/* Which pages memory lies in.
 *
 * Owns: how much of a stretch of this process's memory is mapped, and how much of that by large
 * pages, as the kernel counts it. A mapped file that was written lies in small pages of the page
 * cache, one that was read from its disk often in large ones; the same holds for each process that
 * maps it. Any thread. */
#ifndef KT_HOST_PAGE_USE_H
#define KT_HOST_PAGE_USE_H

#include "host/filemap.h"

#include <stddef.h>

typedef struct kt__page_use {
    uint64_t bytes;        /* of the stretch */
    uint64_t mapped_bytes; /* of it, in this process's page tables */
    uint64_t large_bytes;  /* of these, by large pages */
} kt__page_use;

/* The mappings that lie in [data, data + bytes). False where the kernel does not say. root: as
 * kt__text_open. */
bool kt__page_use_at(const char *root, const void *data, uint64_t bytes, kt__page_use *out);
/* The same of a file. Of a mapped one each large page that is in memory is touched before, so that it
 * counts though nothing was read yet; nothing is read from a disk. */
bool kt__page_use_of_file(const kt__filemap *map, kt__page_use *out);

/* "in large pages", "61% in large pages", "in small pages"; "" where little of it is mapped. */
void kt__page_use_text(const kt__page_use *use, char *out, size_t size);

#endif
