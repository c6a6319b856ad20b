/* The safetensors format: a file's header to checked tensor descriptors.
 *
 * Owns: every rule of the header (length, JSON, names, types, shapes, offsets) and its limits. The
 * bytes are hostile: whatever they are, a header is refused with file, tensor and offset, or every
 * tensor lies inside the file, exactly as long as its shape says, without gap or overlap. Does not
 * read tensor data. A parsed header is immutable; any thread. */
#ifndef KT_CONVERT_SAFETENSORS_H
#define KT_CONVERT_SAFETENSORS_H

#include <kentang.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "quant/quant.h"

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

#endif
