/* The size of the disk cache's directory.
 *
 * Owns: what is in it, what was used last, and which blocks go. Does not know what a block holds.
 * Any thread; processes exclude each other by a lock file. */
#ifndef KT_KV_DISK_EVICT_H
#define KT_KV_DISK_EVICT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kt__disk_swept {
    uint64_t n_removed; /* blocks */
    uint64_t bytes;     /* of the files that are left */
} kt__disk_swept;

/* Looks at everything below root; if it is more than max_bytes, removes blocks until 15/16 of that
 * are left. Temporary files of processes that have ended go too. One process at a time does it:
 * false where another is at it and wait is false, or where the directory cannot be read. */
bool kt__disk_sweep(int root, uint64_t max_bytes, bool wait, kt__disk_swept *out);

#endif
