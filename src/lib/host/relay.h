/* Brings a mapped file from small pages of the page cache into large ones.
 *
 * Owns: dropping the file's cached pages a slice at a time and reading them again, for which the
 * kernel takes large pages where it can (ext4 since Linux 6.16, XFS since 5.18; elsewhere nothing
 * changes). Memory never holds a slice twice, and readers of the mapping wait at most for their
 * slice. It ends by itself where it would do harm: a slow disk, or another process that maps the
 * file, whose pages cannot be dropped. One thread at a time for a file; any number may read it. */
#ifndef KT_HOST_RELAY_H
#define KT_HOST_RELAY_H

#include "host/filemap.h"

#include <stdatomic.h>

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
