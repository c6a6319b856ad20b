/* K/V blocks on disk: a kt__kv_store (kv/prefix.h) over a directory.
 *
 * Owns: one file a block, named by what it was computed from, so that the file system is the index; a thread that
 * writes them; and the size of the directory, with what has to go (disk_evict.c). Does not know what the binding says
 * nor when a block is wanted.
 *
 * DIR/BINDING/INDEX-KEY-PARENT.kv, all hexadecimal: a directory for each model and its options. Where blocks alone
 * are not enough to continue after them, ends (kv/prefix.h) lie next to them, as INDEX-KEY-PARENT.end: KEY is that of
 * the last block, PARENT that of the last one that is read quantised there. A file is written under a temporary name
 * and renamed, and carries digests of its header and its block: a process may be killed at any moment, and several
 * may use one directory, without a lock. A file that is damaged, cut short or of something else counts as not found,
 * and is removed; so is a block whose model had another hash of all its bytes than this one, where both are known.
 * Files are read, not mapped: one that is truncated meanwhile is a short read.
 *
 * Least recently used first: a file's time of modification is its last use. A block is as recent as the most recent
 * of those that follow it, so that a chain is removed from its end.
 *
 * Threads: get, put and has come from one thread at a time; everything else from any. put copies the block into a
 * queue of fixed size, and drops it when that is full. No allocation after opening, except in the writing thread. */
#ifndef KT_KV_DISK_H
#define KT_KV_DISK_H

#include "base/error.h"
#include "kv/prefix.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct kt__disk kt__disk;

enum { KT__DISK_HASH_BYTES = 32 };

typedef struct kt__disk_params {
    const char *dir;
    uint64_t max_bytes;   /* of all files in dir; 0: 8 GiB */
    uint64_t queue_bytes; /* 0: 32 MiB, but 40 blocks at least */
    const void *binding;  /* what every block depends on besides its key */
    size_t n_binding;
    /* The hash of the model's files, or zeros while it is not known; called by any thread, with no
     * lock held. NULL: never known. */
    void (*full_hash)(void *user, uint8_t out[KT__DISK_HASH_BYTES]);
    void *full_hash_user;
    kt__logger *log; /* NULL: silent */
} kt__disk_params;

kt_status kt__disk_open(const kt__disk_params *params, const kt__kv_shape *shape, kt__disk **out,
                        kt_error *err) KT_CHECKED;
void kt__disk_close(kt__disk *disk); /* writes what waits */
void kt__disk_flush(kt__disk *disk); /* waits until the queue is empty */
kt__kv_store kt__disk_store(kt__disk *disk);
uint64_t kt__disk_queue_bytes(const kt__disk *disk); /* memory, when it is full */
void kt__disk_get_stats(kt__disk *disk, kt_cache_stats *out);

/* The size of the disk cache's directory.
 *
 * What is in it, what was used last, and which blocks go. Does not know what a block holds. Any thread; processes
 * exclude each other by a lock file. */

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
