/* A model folder's weights: one safetensors file or the shards that an index names.
 *
 * Owns: the open files, their checked headers, and finding a tensor by name. The folder's files are
 * never written. Immutable once opened; any thread. */
#ifndef KT_CONVERT_FOLDER_H
#define KT_CONVERT_FOLDER_H

#include "convert/safetensors.h"
#include "convert/strmap.h"

enum { KT__FOLDER_MAX_SHARDS = 4096 };

typedef struct kt__shard {
    char *path;
    int fd;
    uint64_t bytes;
    int64_t mtime_ns;
    uint64_t device, inode;
    kt__safetensors st;
} kt__shard;

typedef struct kt__folder {
    kt__shard *shards;
    size_t n_shards;
    size_t n_tensors;
    kt__strmap by_name; /* shard << 32 | index in it */
} kt__folder;

/* Freed with kt__folder_close, also after failure. */
kt_status kt__folder_open(const char *dir, kt__folder *out, kt_error *err) KT_CHECKED;
/* One safetensors file of the folder in place of its model's; the same way. */
kt_status kt__folder_open_file(const char *dir, const char *name, kt__folder *out,
                               kt_error *err) KT_CHECKED;
void kt__folder_close(kt__folder *folder); /* also of a zeroed one */
/* NULL: absent. */
const kt__st_tensor *kt__folder_find(const kt__folder *folder, const char *name,
                                     const kt__shard **shard);
#endif
