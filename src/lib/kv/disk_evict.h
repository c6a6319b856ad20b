/* The size of the disk cache's directory.
 *
 * Owns: what is in it, what was used last, and which blocks go. Does not know what a block holds.
 * Any thread; processes exclude each other by a lock file. */
#ifndef KT_KV_DISK_EVICT_H
#define KT_KV_DISK_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/prefix.h"

typedef struct kt__disk_swept {
    uint64_t n_removed; /* blocks */
    uint64_t bytes;     /* of the files that are left */
} kt__disk_swept;

/* Looks at everything below root; if it is more than max_bytes, removes blocks until 15/16 of that
 * are left. Temporary files of processes that have ended go too. One process at a time does it:
 * false where another is at it and wait is false, or where the directory cannot be read. */
bool kt__disk_sweep(int root, uint64_t max_bytes, bool wait, kt__disk_swept *out);

/* Names of the disk cache's files.
 *
 * Owns: INDEX-KEY-PARENT.kv, all hexadecimal, of a block, the same with .end of the end after it;
 * and the length of a binding's directory. Any thread. */

enum {
    KT__DISK_NAME_BYTES = 80, /* of a file, with its NUL, at most */
    KT__DISK_DIR_BYTES = 32   /* of a binding's directory, without */
};

typedef enum kt__disk_kind { KT__DISK_BLOCK, KT__DISK_END } kt__disk_kind;

void kt__disk_name(const kt__kv_block *block, kt__disk_kind kind, char out[KT__DISK_NAME_BYTES]);
/* The key, parent and index of a block, and what the file holds of it; false for other names. */
bool kt__disk_parse_name(const char *name, kt__kv_block *out, kt__disk_kind *kind);

#endif
