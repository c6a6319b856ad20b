/* Internal to the gguf room: the opened file.
 *
 * Owns: the layout of kt__gguf and what the files reader.c, open.c and get.c share. Not
 * for other rooms. Written by one thread while opening, read-only afterwards. */
#ifndef KT_GGUF_READER_H
#define KT_GGUF_READER_H

#include "base/alloc.h"
#include "gguf/gguf.h"
#include "host/filemap.h"

/* Items sorted by name: binary search, and duplicates side by side. Unlike a hash table it has no
 * worst-case inputs. Items begin with their kt__str. */
typedef struct kt__name_index {
    const char *items;
    size_t stride;
    uint32_t n;
    uint32_t *order; /* [n] */
} kt__name_index;

/* order must hold n entries. Returns false and the two items when a name occurs twice. */
bool kt__name_index_build(kt__name_index *index, const void *items, size_t stride, uint32_t n,
                          uint32_t *order, uint32_t dup[2]);
/* The item, or NULL. */
const void *kt__name_index_find(const kt__name_index *index, kt__str name);
int kt__str_compare(kt__str a, kt__str b);

/* One file of a set (or the only one, or memory). */
typedef struct kt__gguf_part {
    kt__filemap map;
    bool has_map;
    void *copy; /* aligned copy of a memory source, else NULL */
    const uint8_t *data;
    uint64_t size;
    char *path;
    uint32_t version;
    uint64_t alignment;
    uint64_t tensors_at; /* file offset of the tensor table */
    uint64_t n_tensors;
    kt__gguf_kv *kv; /* [n_kv] */
    uint32_t n_kv;
    kt__name_index kv_index;
} kt__gguf_part;

struct kt__gguf {
    kt__gguf_part *parts; /* [n_parts] */
    int n_parts;
    bool vocab_only, tolerant;
    kt__gguf_tensor *tensors; /* [n_tensors], of all parts in order */
    uint32_t n_tensors;
    kt__name_index tensor_index;
    kt__arena arena; /* its cap grows with the bytes opened: the bound on our memory */
};

/* Header and metadata of a part whose bytes are set. */
kt_status kt__gguf_parse_meta(kt__gguf *g, kt__gguf_part *part, kt_error *err) KT_CHECKED;
/* The tensor table of parts[part_index], into g->tensors[first...]. */
kt_status kt__gguf_parse_tensors(kt__gguf *g, int part_index, uint32_t first,
                                 kt_error *err) KT_CHECKED;
/* KT_E_FORMAT, or in a tolerant opening the tensor's fault and KT_OK: only its first one is kept,
 * and it loses its data. */
kt_status kt__gguf_fail_tensor(kt__gguf *g, kt__gguf_tensor *tensor, uint64_t at, kt_error *err,
                               const char *fmt, ...) __attribute__((format(printf, 5, 6)));
const kt__gguf_kv *kt__gguf_part_find(const kt__gguf_part *part, const char *key);
/* An integer key of a part. Absent: *found = false. */
kt_status kt__gguf_part_get_u32(const kt__gguf_part *part, const char *key, bool *found,
                                uint32_t *out, kt_error *err) KT_CHECKED;

/* Bytes of a scalar value type; 0 for strings, arrays and unknown types. */
uint32_t kt__gguf_scalar_bytes(uint32_t type);

/* A name from the file for use in a message: printable ASCII, shortened. */
enum { KT__GGUF_SHOWN_BYTES = 72 };
const char *kt__gguf_show(kt__str s, char out[KT__GGUF_SHOWN_BYTES]);

#endif
