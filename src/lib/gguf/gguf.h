/* GGUF, versions 2 and 3: bytes to checked metadata and tensor descriptors, and the writer.
 *
 * Owns: parsing (a file, a split set, or memory), limits, and the bytes' lifetime. Does not know
 * what an architecture is, nor how a block is decoded (quant does; type sizes needed for bounds
 * come from the one table in quant/types.def). An opened kt__gguf is immutable and may be read from
 * any thread.
 *
 * Every count, length, offset, alignment and dimension is checked without overflow before it is
 * used; no byte sequence makes it crash, hang or allocate more than a small multiple of the file's
 * size. */
#ifndef KT_GGUF_GGUF_H
#define KT_GGUF_GGUF_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__gguf kt__gguf;

/* Limits, stated in errors. */
enum {
    KT__GGUF_MAX_KV = 65536,
    KT__GGUF_MAX_TENSORS = 262144,
    KT__GGUF_MAX_DIMS = 4,
    KT__GGUF_MAX_KEY_BYTES = 65535,
    KT__GGUF_MAX_NAME_BYTES = 63, /* of a tensor; ggml's own limit */
    KT__GGUF_MAX_SPLITS = 999
};

/* value types on disk */
typedef enum kt__gguf_type {
    KT__GGUF_U8,
    KT__GGUF_I8,
    KT__GGUF_U16,
    KT__GGUF_I16,
    KT__GGUF_U32,
    KT__GGUF_I32,
    KT__GGUF_F32,
    KT__GGUF_BOOL,
    KT__GGUF_STRING,
    KT__GGUF_ARRAY,
    KT__GGUF_U64,
    KT__GGUF_I64,
    KT__GGUF_F64,
    KT__GGUF_TYPE_COUNT
} kt__gguf_type;

/* A string inside the file: not NUL-terminated, may hold any byte. */
typedef struct kt__str {
    const char *s;
    size_t len;
} kt__str;

typedef struct kt__gguf_kv {
    kt__str key;
    kt__gguf_type type;
    kt__gguf_type elem_type; /* of an array; arrays of arrays are refused */
    uint64_t count;          /* elements of an array, else 1 */
    const uint8_t *data;     /* the value's bytes in the file (little-endian, unaligned) */
    const uint64_t
        *string_offsets; /* [count] for arrays of strings: offset of each length field from data */
    uint64_t file_offset;
} kt__gguf_kv;

typedef struct kt__gguf_tensor {
    kt__str name;    /* also NUL-terminated at name.s[name.len] */
    uint32_t type;   /* ggml type number as in the file: may be one we do not support */
    uint32_t n_dims; /* 1..4 */
    uint64_t ne[4];  /* elements in each dimension, ne[0] = row length; unused dimensions are 1 */
    uint64_t n_elem;
    uint64_t size;       /* bytes; 0 when the type is not one of ours */
    const uint8_t *data; /* NULL when opened with vocab_only, or the type is unknown */
    uint64_t file_offset;
    int part;          /* which file of a split set */
    const char *fault; /* with `tolerant`: what a model refuses about it; NULL: nothing */
} kt__gguf_tensor;

typedef struct kt__gguf_open_params {
    bool use_mmap, use_mlock;
    bool vocab_only;   /* tensor data is neither required nor checked */
    uint64_t copy_max; /* without use_mmap: bytes that copies may take; 0: any number */
    /* A tensor that cannot be used (its name, type, shape or place) gets a `fault` and no data
     * instead of ending the opening: for looking into a file. */
    bool tolerant;
} kt__gguf_open_params;

kt_status kt__gguf_open(const char *path, const kt__gguf_open_params *params, kt__gguf **out,
                        kt_error *err) KT_CHECKED;
/* data stays the caller's and must outlive the kt__gguf. Where it is not 32-byte aligned (and
 * tensors are wanted) a private aligned copy is taken. */
kt_status kt__gguf_open_memory(const void *data, size_t size, bool vocab_only, kt__gguf **out,
                               kt_error *err) KT_CHECKED;
void kt__gguf_close(kt__gguf *gguf);
/* KT_E_TRUNCATED if a file shrank since it was opened; cheap, called before each step. */
kt_status kt__gguf_check(const kt__gguf *gguf, kt_error *err) KT_CHECKED;

const char *kt__gguf_path(const kt__gguf *gguf); /* "(memory)" */
uint32_t kt__gguf_version(const kt__gguf *gguf);
uint64_t kt__gguf_file_bytes(const kt__gguf *gguf); /* all parts */
uint64_t kt__gguf_alignment(const kt__gguf *gguf);
int kt__gguf_n_parts(const kt__gguf *gguf);
/* All bytes of a part (part < n_parts), and the map of its file (host/filemap.h); NULL: memory. */
const struct kt__filemap *kt__gguf_part_bytes(const kt__gguf *gguf, int part, const uint8_t **data,
                                              uint64_t *size);
size_t kt__gguf_n_kv(const kt__gguf *gguf);
const kt__gguf_kv *kt__gguf_kv_at(const kt__gguf *gguf, size_t index);
const kt__gguf_kv *kt__gguf_find(const kt__gguf *gguf, const char *key); /* NULL: absent */
/* The map of the file that a tensor's bytes at data lie in, and where in it; NULL: in memory. */
const struct kt__filemap *kt__gguf_map_of(const kt__gguf *gguf, const uint8_t *data, uint64_t *at);
/* A table of which few rows are read, now and then: nothing of it is read ahead. */
void kt__gguf_read_sparsely(const kt__gguf *gguf, const kt__gguf_tensor *tensor);
/* Matrices of experts: of each a part of the rows is read. */
void kt__gguf_read_expert_parts(const kt__gguf *gguf);
size_t kt__gguf_n_tensors(const kt__gguf *gguf); /* over all parts */
const kt__gguf_tensor *kt__gguf_tensor_at(const kt__gguf *gguf, size_t index);
const kt__gguf_tensor *kt__gguf_find_tensor(const kt__gguf *gguf, const char *name);

/* Typed reads. `required` false: an absent key leaves *out untouched and returns KT_OK. A key of
 * another type, or a number that does not fit, is KT_E_FORMAT naming file, key, what was found and
 * expected. Integers of every width convert when the value fits; f64 to f32 rounds. */
kt_status kt__gguf_get_u32(const kt__gguf *g, const char *key, bool required, uint32_t *out,
                           kt_error *err) KT_CHECKED;
kt_status kt__gguf_get_u64(const kt__gguf *g, const char *key, bool required, uint64_t *out,
                           kt_error *err) KT_CHECKED;
kt_status kt__gguf_get_f32(const kt__gguf *g, const char *key, bool required, float *out,
                           kt_error *err) KT_CHECKED;
kt_status kt__gguf_get_bool(const kt__gguf *g, const char *key, bool required, bool *out,
                            kt_error *err) KT_CHECKED;
kt_status kt__gguf_get_str(const kt__gguf *g, const char *key, bool required, kt__str *out,
                           kt_error *err) KT_CHECKED;
/* The key as an array of elem_type (exact; KT__GGUF_TYPE_COUNT: any). NULL in *out when absent. */
kt_status kt__gguf_get_array(const kt__gguf *g, const char *key, bool required,
                             kt__gguf_type elem_type, const kt__gguf_kv **out,
                             kt_error *err) KT_CHECKED;
/* The value of a key of type STRING. */
kt__str kt__gguf_kv_str(const kt__gguf_kv *kv);
/* Elements of a found array; index < count is the caller's promise. */
kt__str kt__gguf_array_str(const kt__gguf_kv *kv, uint64_t index);
float kt__gguf_array_f32(const kt__gguf_kv *kv, uint64_t index); /* F32 or F64 */
bool kt__gguf_is_integers(const kt__gguf_kv *kv); /* an array of any integer or bool */
int64_t kt__gguf_array_i64(const kt__gguf_kv *kv, uint64_t index); /* of such */

const char *
kt__gguf_type_name(kt__gguf_type type); /* of a metadata value: "u32", "string", ...; never NULL */

/* Tensor types, by their number in files. The name is known for types that we refuse too ("MXFP4");
 * "unknown" for the rest. */
const char *kt__gguf_tensor_type_name(uint32_t type);
/* The recipe of general.file_type ("Q4_K_M"), or NULL for a number we do not know. */
const char *kt__gguf_file_type_name(uint32_t file_type);
/* Elements and bytes of a block; false when the type is none of quant/types.def. */
bool kt__gguf_tensor_type_layout(uint32_t type, uint32_t *block_elems, uint32_t *block_bytes);

/* ---- writer: metadata first, then tensors in the order declared, streamed ---- */

typedef struct kt__gguf_writer kt__gguf_writer;
/* path: a new file or a regular one that is replaced when the writer closes; of a symbolic link,
 * what it names. Devices, pipes and directories are refused. */
kt_status kt__gguf_writer_open(const char *path, kt__gguf_writer **out, kt_error *err) KT_CHECKED;
/* The setters remember a failure; finish_header reports it. */
void kt__gguf_put_u32(kt__gguf_writer *w, const char *key, uint32_t value);
void kt__gguf_put_i32(kt__gguf_writer *w, const char *key, int32_t value);
void kt__gguf_put_f32(kt__gguf_writer *w, const char *key, float value);
void kt__gguf_put_bool(kt__gguf_writer *w, const char *key, bool value);
void kt__gguf_put_str(kt__gguf_writer *w, const char *key, const char *value);
void kt__gguf_put_strs(kt__gguf_writer *w, const char *key, const kt__str *values, uint64_t count);
void kt__gguf_put_f32s(kt__gguf_writer *w, const char *key, const float *values, uint64_t count);
void kt__gguf_put_i32s(kt__gguf_writer *w, const char *key, const int32_t *values, uint64_t count);
void kt__gguf_put_u8s(kt__gguf_writer *w, const char *key, const uint8_t *values, uint64_t count);
void kt__gguf_put_bools(kt__gguf_writer *w, const char *key, const bool *values, uint64_t count);
void kt__gguf_put_kv(kt__gguf_writer *w, const kt__gguf_kv *kv); /* copied verbatim */
void kt__gguf_declare_tensor(kt__gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                             const uint64_t *ne);
kt_status kt__gguf_finish_header(kt__gguf_writer *w, kt_error *err) KT_CHECKED;
/* Appends bytes of the current tensor; padding is written when its declared size is complete. */
kt_status kt__gguf_write_data(kt__gguf_writer *w, const void *data, size_t size,
                              kt_error *err) KT_CHECKED;
/* Checks that all tensors are complete, flushes, renames the temporary file to path; frees w in any
 * case. */
kt_status kt__gguf_writer_close(kt__gguf_writer *w, kt_error *err) KT_CHECKED;
void kt__gguf_writer_abort(kt__gguf_writer *w); /* removes the temporary file */

/* The same without a file, for a model made in memory: metadata and tensors are declared in the
 * same way, then take_header gives the bytes up to the tensors' data (for kt__free, padded so that
 * the data follows), says how many bytes the data has, and frees w in any case. */
kt_status kt__gguf_writer_open_memory(kt__gguf_writer **out, kt_error *err) KT_CHECKED;
kt_status kt__gguf_writer_take_header(kt__gguf_writer *w, char **head, size_t *head_bytes,
                                      uint64_t *data_bytes, kt_error *err) KT_CHECKED;

#endif
