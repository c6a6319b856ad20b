/* Large anonymous memory.
 *
 * Owns: mappings that are zero at first, take memory only as they are used, and lie on huge pages
 * where they are large enough and the system allows it. Not for small or short-lived memory
 * (base/alloc.h). Any thread. */
#ifndef KT_HOST_PAGES_H
#define KT_HOST_PAGES_H

#include <stdatomic.h>
#include <stddef.h>

#include "host/filemap.h"

enum { KT__HUGE_PAGE_BYTES = 2 << 20 };

/* bytes > 0; at least 4096-aligned, and by KT__HUGE_PAGE_BYTES where it holds one. NULL: refused.
 */
void *kt__pages_alloc(size_t bytes);
/* The unit of which the per-thread parts of one allocation are multiples. With several NUMA nodes
 * it is a huge page, which lies on one node as a whole, so that no part lies on another thread's
 * node; with one node it is 1. */
size_t kt__pages_unit(void);
void kt__pages_free(void *p, size_t bytes); /* the same bytes; NULL allowed */

/* Which pages memory lies in.
 *
 * Owns: how much of a stretch of this process's memory is mapped, and how much of that by large
 * pages, as the kernel counts it. A mapped file that was written lies in small pages of the page
 * cache, one that was read from its disk often in large ones; the same holds for each process that
 * maps it. Any thread. */

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

/* Brings a mapped file from small pages of the page cache into large ones.
 *
 * Owns: dropping the file's cached pages a slice at a time and reading them again, for which the
 * kernel takes large pages where it can (ext4 since Linux 6.16, XFS since 5.18; elsewhere nothing
 * changes). Memory never holds a slice twice, and readers of the mapping wait at most for their
 * slice. It ends by itself where it would do harm: a slow disk, or another process that maps the
 * file, whose pages cannot be dropped. One thread at a time for a file; any number may read it. */

typedef enum kt__relay_end {
    KT__RELAY_DONE,    /* every slice that was in memory was read again */
    KT__RELAY_LARGE,   /* nothing to do: it lies in large pages, or little of it is in memory */
    KT__RELAY_STOPPED, /* asked to stop */
    KT__RELAY_SLOW,    /* the disk is slow */
    KT__RELAY_SHARED,  /* pages cannot be dropped: another process maps them, or they are locked */
    KT__RELAY_UNKNOWN  /* the kernel does not offer it, or does not say which pages are in memory */
} kt__relay_end;

enum { KT__RELAY_BYTES = 16 << 20, KT__RELAY_LEAST_MB_S = 400 };

/* One slice after another. wait: called before each; false: stop. NULL: there is no reason to. */
kt__relay_end kt__relay_run(const kt__filemap *map, bool (*wait)(void *arg), void *arg);
/* A file that was just written, before somebody maps it. Nothing happens where it cannot be opened. */
void kt__relay_written(const char *path);

#endif
