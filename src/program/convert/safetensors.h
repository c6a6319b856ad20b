/* A model folder's weights: one safetensors file or the shards that an index names.
 *
 * Owns: every rule of a file's header and its limits (safetensors.c); the open files and finding a tensor by name
 * (folder.c); the map from strings to numbers that both need (strmap.c). Files are never written. Immutable once
 * opened; any thread. */
#ifndef KT_CONVERT_SAFETENSORS_H
#define KT_CONVERT_SAFETENSORS_H

#include "base/alloc.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A map from strings to numbers.
 *
 * An open-addressing table over strings that lie elsewhere. Made for vocabularies: built once, read often, never
 * shrunk. One writer; readers of a finished map from any thread. */

typedef struct kt__strmap_slot {
    const char *s; /* NULL: empty */
    uint32_t len, hash;
    int64_t value;
} kt__strmap_slot;

typedef struct kt__strmap {
    kt__strmap_slot *slots;
    size_t cap; /* a power of two, at least twice the keys */
    size_t n;
    uint64_t seed;
} kt__strmap;

/* Room for n_max keys; false: no memory. */
bool kt__strmap_init(kt__strmap *map, size_t n_max);
void kt__strmap_free(kt__strmap *map); /* also of a zeroed one */
/* The key's bytes, below 4 GiB, must outlive the map. At most n_max keys.
 * false: the key is there already (its value stays). */
bool kt__strmap_put(kt__strmap *map, kt__str key, int64_t value);
/* -1: absent. */
int64_t kt__strmap_get(const kt__strmap *map, kt__str key);

/* The safetensors format: a file's header to checked tensor descriptors.
 *
 * Every rule of the header (length, JSON, names, types, shapes, offsets) and its limits. The bytes are hostile:
 * whatever they are, a header is refused with file, tensor and offset, or every tensor lies inside the file, exactly
 * as long as its shape says, without gap or overlap. Does not read tensor data. A parsed header is immutable; any
 * thread. */

enum {
    KT__ST_MAX_HEADER = 16 << 20, /* bytes: some 150,000 tensors */
    KT__ST_MAX_TENSORS = 262144,
    KT__ST_MAX_NAME = 512,
    KT__ST_MAX_DIMS = 8
};

typedef struct kt__st_tensor {
    const char *name;
    const char *dtype; /* as dtypes.def spells it */
    kt__type type;     /* KT__TYPE_COUNT: none that we read */
    uint32_t n_dims;
    uint64_t shape[KT__ST_MAX_DIMS];
    uint64_t begin, end; /* bytes in the file */
} kt__st_tensor;

typedef struct kt__safetensors {
    kt__st_tensor *tensors; /* [n], by place in the file */
    size_t n;
    kt__arena arena;
} kt__safetensors;

/* The length field at a file's begin: KT_E_FORMAT unless 8 + length fits the file, KT_E_LIMIT over
 * KT__ST_MAX_HEADER. */
kt_status kt__safetensors_header_bytes(const uint8_t head[8], uint64_t file_bytes, const char *path,
                                       size_t *header_bytes, kt_error *err) KT_CHECKED;
/* header[header_bytes]: the JSON that follows. On failure out is empty; free it in any case. */
kt_status kt__safetensors_parse(const char *header, size_t header_bytes, uint64_t file_bytes,
                                const char *path, kt__safetensors *out, kt_error *err) KT_CHECKED;
void kt__safetensors_free(kt__safetensors *st);

/* A model folder's weights: one safetensors file or the shards that an index names.
 *
 * The open files, their checked headers, and finding a tensor by name. The folder's files are never written.
 * Immutable once opened; any thread. */

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
