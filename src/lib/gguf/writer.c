/* The writer: metadata first, then the declared tensors in order, streamed into a temporary file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/files.h"
#include "base/le.h"
#include "base/math.h"
#include "base/system.h"
#include "gguf/reader.h"
#include "host/pages.h"

enum { WRITER_VERSION = 3, WRITER_ALIGNMENT = 32, STREAM_BUFFER = 1 << 20 };
/* Metadata is collected in memory before it is written. */
#define MAX_META_BYTES ((size_t)1 << 30)

typedef struct declared {
    uint64_t size, offset; /* bytes, and from the start of the data */
} declared;

struct kt__gguf_writer {
    char *path, *temp_path;
    FILE *file;
    kt__buf kv, infos; /* encoded metadata; encoded tensor table, its offsets filled in last */
    uint64_t n_kv;
    declared *tensors;
    uint64_t n_tensors, current;
    size_t cap_tensors;
    uint64_t written; /* of the current tensor */
    uint64_t data_bytes, alignment;
    kt_error failure; /* the first one of the setters */
    bool header_done;
};

/* ---- encoding ---- */

static void fail_setter(kt__gguf_writer *w, kt_status code, const char *key, const char *why) {
    if (w->failure.code != KT_OK) return;
    (void)kt__fail_at(&w->failure, code, w->path ? w->path : "(memory)", UINT64_MAX, "%s: %s", key,
                      why);
}

static void put_le(kt__buf *buf, uint64_t value, int bytes) {
    char out[8];
    for (int i = 0; i < bytes; i++) out[i] = (char)(value >> (8 * i) & 0xff);
    kt__buf_append(buf, out, (size_t)bytes);
}

static void put_string(kt__buf *buf, const char *s, size_t len) {
    put_le(buf, len, 8);
    kt__buf_append(buf, s, len);
}

/* Key and type; the caller appends the value. */
static bool begin_kv(kt__gguf_writer *w, kt__str key, kt__gguf_type type) {
    if (w->header_done) {
        fail_setter(w, KT_E_STATE, "metadata", "the header is already written");
        return false;
    }
    if (key.len == 0 || key.len > KT__GGUF_MAX_KEY_BYTES || w->n_kv >= KT__GGUF_MAX_KV) {
        fail_setter(w, KT_E_LIMIT, "metadata", "a key is empty or too long, or there are too many");
        return false;
    }
    put_string(&w->kv, key.s, key.len);
    put_le(&w->kv, type, 4);
    w->n_kv++;
    return true;
}

static void put_scalar(kt__gguf_writer *w, const char *key, kt__gguf_type type, uint64_t bits) {
    if (begin_kv(w, (kt__str){key, strlen(key)}, type))
        put_le(&w->kv, bits, (int)kt__gguf_scalar_bytes(type));
}

static bool begin_array(kt__gguf_writer *w, const char *key, kt__gguf_type elem_type,
                        uint64_t count) {
    if (!begin_kv(w, (kt__str){key, strlen(key)}, KT__GGUF_ARRAY)) return false;
    put_le(&w->kv, elem_type, 4);
    put_le(&w->kv, count, 8);
    return true;
}

/* ---- metadata ---- */

void kt__gguf_put_u32(kt__gguf_writer *w, const char *key, uint32_t value) {
    put_scalar(w, key, KT__GGUF_U32, value);
}

void kt__gguf_put_i32(kt__gguf_writer *w, const char *key, int32_t value) {
    put_scalar(w, key, KT__GGUF_I32, (uint32_t)value);
}

void kt__gguf_put_f32(kt__gguf_writer *w, const char *key, float value) {
    put_scalar(w, key, KT__GGUF_F32, kt__f32_bits(value));
}

void kt__gguf_put_bool(kt__gguf_writer *w, const char *key, bool value) {
    put_scalar(w, key, KT__GGUF_BOOL, value);
}

void kt__gguf_put_str(kt__gguf_writer *w, const char *key, const char *value) {
    if (begin_kv(w, (kt__str){key, strlen(key)}, KT__GGUF_STRING))
        put_string(&w->kv, value, strlen(value));
}

void kt__gguf_put_strs(kt__gguf_writer *w, const char *key, const kt__str *values, uint64_t count) {
    if (!begin_array(w, key, KT__GGUF_STRING, count)) return;
    for (uint64_t i = 0; i < count; i++) put_string(&w->kv, values[i].s, values[i].len);
}

void kt__gguf_put_f32s(kt__gguf_writer *w, const char *key, const float *values, uint64_t count) {
    if (!begin_array(w, key, KT__GGUF_F32, count)) return;
    for (uint64_t i = 0; i < count; i++) put_le(&w->kv, kt__f32_bits(values[i]), 4);
}

void kt__gguf_put_i32s(kt__gguf_writer *w, const char *key, const int32_t *values, uint64_t count) {
    if (!begin_array(w, key, KT__GGUF_I32, count)) return;
    for (uint64_t i = 0; i < count; i++) put_le(&w->kv, (uint32_t)values[i], 4);
}

void kt__gguf_put_u8s(kt__gguf_writer *w, const char *key, const uint8_t *values, uint64_t count) {
    if (!begin_array(w, key, KT__GGUF_U8, count)) return;
    for (uint64_t i = 0; i < count; i++) put_le(&w->kv, values[i], 1);
}

void kt__gguf_put_bools(kt__gguf_writer *w, const char *key, const bool *values, uint64_t count) {
    if (!begin_array(w, key, KT__GGUF_BOOL, count)) return;
    for (uint64_t i = 0; i < count; i++) put_le(&w->kv, values[i], 1);
}

/* Bytes of the value that kv->data points to. */
static size_t value_bytes(const kt__gguf_kv *kv) {
    if (kv->type == KT__GGUF_STRING) return 8 + (size_t)kt__le_get64(kv->data);
    if (kv->type != KT__GGUF_ARRAY) return kt__gguf_scalar_bytes(kv->type);
    if (kv->elem_type != KT__GGUF_STRING)
        return (size_t)kv->count * kt__gguf_scalar_bytes(kv->elem_type);
    if (kv->count == 0) return 0;
    const uint8_t *last = kv->data + kv->string_offsets[kv->count - 1];
    return (size_t)(last - kv->data) + 8 + (size_t)kt__le_get64(last);
}

void kt__gguf_put_kv(kt__gguf_writer *w, const kt__gguf_kv *kv) {
    static const char alignment_key[] = "general.alignment";
    if (kv->key.len == sizeof alignment_key - 1 &&
        memcmp(kv->key.s, alignment_key, kv->key.len) == 0)
        return; /* describes the file it came from; this one has its own */
    if (!begin_kv(w, kv->key, kv->type)) return;
    if (kv->type == KT__GGUF_ARRAY) {
        put_le(&w->kv, kv->elem_type, 4);
        put_le(&w->kv, kv->count, 8);
    }
    kt__buf_append(&w->kv, kv->data, value_bytes(kv));
}

/* ---- tensors ---- */

static bool declared_size(kt__gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                          const uint64_t *ne, uint64_t *size) {
    uint32_t block_elems, block_bytes;
    uint64_t n_elem = 1;
    bool ok = kt__gguf_tensor_type_layout(type, &block_elems, &block_bytes) && n_dims >= 1 &&
              n_dims <= KT__GGUF_MAX_DIMS && name[0] && strlen(name) <= KT__GGUF_MAX_NAME_BYTES;
    for (uint32_t d = 0; ok && d < n_dims; d++)
        ok = ne[d] != 0 && !__builtin_mul_overflow(n_elem, ne[d], &n_elem) && n_elem <= INT64_MAX;
    ok = ok && ne[0] % block_elems == 0 &&
         !__builtin_mul_overflow(n_elem / block_elems, (uint64_t)block_bytes, size) &&
         *size <= INT64_MAX;
    if (!ok)
        fail_setter(w, KT_E_ARG, name,
                    "not a tensor that can be written (name, type or dimensions)");
    return ok;
}

static bool grow_tensors(kt__gguf_writer *w) {
    if (w->n_tensors < KT__GGUF_MAX_TENSORS &&
        kt__vec_reserve(w->tensors, w->cap_tensors, (size_t)w->n_tensors + 1))
        return true;
    fail_setter(w, KT_E_NOMEM, "tensor table", "out of memory or too many tensors");
    return false;
}

void kt__gguf_declare_tensor(kt__gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                             const uint64_t *ne) {
    uint64_t size;
    if (w->header_done) fail_setter(w, KT_E_STATE, name, "the header is already written");
    if (w->failure.code != KT_OK || !declared_size(w, name, type, n_dims, ne, &size) ||
        !grow_tensors(w))
        return;
    declared *t = &w->tensors[w->n_tensors++];
    *t = (declared){.size = size, .offset = w->data_bytes};
    put_string(&w->infos, name, strlen(name));
    put_le(&w->infos, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++) put_le(&w->infos, ne[d], 8);
    put_le(&w->infos, type, 4);
    put_le(&w->infos, t->offset, 8);
    uint64_t padded = (size + w->alignment - 1) & ~(w->alignment - 1);
    if (__builtin_add_overflow(w->data_bytes, padded, &w->data_bytes))
        fail_setter(w, KT_E_LIMIT, name, "the file would exceed 64-bit sizes");
}

/* ---- the file ---- */

static kt_status fail_io(const kt__gguf_writer *w, kt_error *err) {
    return kt__fail_system(err, errno, w->path, "cannot write");
}

/* The file to be replaced: after a symbolic link, what it names. Renaming over a device, a pipe or
 * the link itself would destroy it. */
static kt_status find_target(kt__gguf_writer *w, const char *path, kt_error *err) {
    kt__file_info st;
    char *resolved = NULL;
    kt_status status = KT_OK;
    bool is_link = kt__file_look_here(path, &st) && st.is_link;
    if (is_link) {
        resolved = realpath(path, NULL);
        if (!resolved || !kt__file_look(resolved, &st)) {
            status = kt__fail_system(err, errno, path,
                                     "cannot write: the symbolic link leads nowhere");
            goto out;
        }
    }
    if ((is_link || kt__file_look_here(path, &st)) && !st.is_file) {
        status = kt__fail_at(err, KT_E_ARG, path, UINT64_MAX,
                             "cannot write: there is something that is not a regular file");
        goto out;
    }
    w->path = kt__strdup(resolved ? resolved : path);
    if (!w->path) status = kt__fail_nomem(err, "a path", strlen(path));
out:
    free(resolved);
    return status;
}

/* Created with the user's usual permissions (mkstemp's would be private), never over an existing
 * file. */
static kt_status create_temp(kt__gguf_writer *w, kt_error *err) {
    size_t size = strlen(w->path) + 48;
    w->temp_path = kt__malloc(size);
    if (!w->temp_path) return kt__fail_nomem(err, "a path", size);
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {
        snprintf(w->temp_path, size, "%s.%ld-%d.tmp", w->path, kt__process_number(), i);
        fd = kt__fd_open(w->temp_path, KT__OPEN_CREATE | KT__OPEN_NEW | KT__OPEN_WRITE);
        if (fd < 0 && errno != EEXIST) break;
    }
    w->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!w->file) {
        kt_status status = fail_io(w, err);
        if (fd >= 0) {
            kt__fd_close(fd);
            kt__file_remove(w->temp_path);
        }
        return status;
    }
    (void)setvbuf(w->file, NULL, _IOFBF, STREAM_BUFFER);
    return KT_OK;
}

kt_status kt__gguf_writer_open_memory(kt__gguf_writer **out, kt_error *err) {
    *out = NULL;
    kt__gguf_writer *w = kt__calloc(1, sizeof *w);
    if (!w) return kt__fail_nomem(err, "a file writer", sizeof *w);
    kt__buf_init(&w->kv, MAX_META_BYTES);
    kt__buf_init(&w->infos, MAX_META_BYTES);
    w->alignment = WRITER_ALIGNMENT;
    *out = w;
    return KT_OK;
}

kt_status kt__gguf_writer_open(const char *path, kt__gguf_writer **out, kt_error *err) {
    kt__gguf_writer *w = NULL;
    kt_status status;
    *out = NULL;
    KT__TRY(kt__gguf_writer_open_memory(&w, err));
    KT__TRY(find_target(w, path, err));
    KT__TRY(create_temp(w, err));
    *out = w;
out:
    if (status != KT_OK) kt__gguf_writer_abort(w);
    return status;
}

static kt_status write_bytes(kt__gguf_writer *w, const void *data, size_t size, kt_error *err) {
    if (size && fwrite(data, 1, size, w->file) != size) return fail_io(w, err);
    return KT_OK;
}

static kt_status write_zeros(kt__gguf_writer *w, uint64_t size, kt_error *err) {
    static const char zeros[WRITER_ALIGNMENT];
    return write_bytes(w, zeros, (size_t)size, err);
}

static uint64_t writer_padding(const kt__gguf_writer *w, uint64_t size) {
    return -size & (w->alignment - 1);
}

/* Magic, version and counts into head; the first failure of all the setters. */
static kt_status begin_header(kt__gguf_writer *w, kt__buf *head, kt_error *err) {
    kt__buf_puts(head, "GGUF");
    put_le(head, WRITER_VERSION, 4);
    put_le(head, w->n_tensors, 8);
    put_le(head, w->n_kv, 8);
    if (head->failed || w->kv.failed || w->infos.failed)
        fail_setter(w, KT_E_NOMEM, "metadata", "out of memory or over 1 GiB");
    if (w->failure.code != KT_OK && err) *err = w->failure;
    return w->failure.code;
}

kt_status kt__gguf_finish_header(kt__gguf_writer *w, kt_error *err) {
    kt__buf head;
    kt_status status = KT_OK;
    kt__buf_init(&head, 64);
    KT__TRY(begin_header(w, &head, err));
    KT__TRY(write_bytes(w, head.data, head.len, err));
    KT__TRY(write_bytes(w, w->kv.data, w->kv.len, err));
    KT__TRY(write_bytes(w, w->infos.data, w->infos.len, err));
    KT__TRY(write_zeros(w, writer_padding(w, head.len + w->kv.len + w->infos.len), err));
    w->header_done = true;
out:
    kt__buf_free(&head);
    return status;
}

kt_status kt__gguf_write_data(kt__gguf_writer *w, const void *data, size_t size, kt_error *err) {
    if (!w->header_done) return kt__fail(err, KT_E_STATE, "the header is not written yet");
    if (size == 0) return KT_OK;
    if (w->current >= w->n_tensors || size > w->tensors[w->current].size - w->written)
        return kt__fail_at(err, KT_E_STATE, w->path, UINT64_MAX,
                           "%zu bytes are more than tensor %" PRIu64 " was declared with", size,
                           w->current);
    KT__STEP(write_bytes(w, data, size, err));
    w->written += size;
    uint64_t declared_bytes = w->tensors[w->current].size;
    if (w->written < declared_bytes) return KT_OK;
    w->current++;
    w->written = 0;
    return write_zeros(w, writer_padding(w, declared_bytes), err);
}

static void writer_free(kt__gguf_writer *w) {
    if (w->file) fclose(w->file);
    kt__buf_free(&w->kv);
    kt__buf_free(&w->infos);
    kt__free(w->tensors);
    kt__free(w->temp_path);
    kt__free(w->path);
    kt__free(w);
}

void kt__gguf_writer_abort(kt__gguf_writer *w) {
    if (!w) return;
    if (w->file) kt__file_remove(w->temp_path);
    writer_free(w);
}

kt_status kt__gguf_writer_close(kt__gguf_writer *w, kt_error *err) {
    kt_status status = KT_OK;
    if (!w->header_done || w->current != w->n_tensors) {
        status = kt__fail_at(err, KT_E_STATE, w->path, UINT64_MAX,
                             "%" PRIu64 " of %" PRIu64 " declared tensors are complete", w->current,
                             w->n_tensors);
        goto out;
    }
    bool whole = fflush(w->file) == 0 && kt__fd_sync(fileno(w->file));
    if (!whole) status = fail_io(w, err);
    whole = fclose(w->file) == 0 && whole;
    w->file = NULL;
    if (!whole || rename(w->temp_path, w->path) != 0) {
        if (status == KT_OK) status = fail_io(w, err);
        kt__file_remove(w->temp_path);
        goto out;
    }
    kt__sync_folder_of(w->path);
    kt__relay_written(w->path);
    writer_free(w);
    return KT_OK;
out:
    kt__gguf_writer_abort(w);
    return status;
}

kt_status kt__gguf_writer_take_header(kt__gguf_writer *w, char **head, size_t *head_bytes,
                                      uint64_t *data_bytes, kt_error *err) {
    static const char zeros[WRITER_ALIGNMENT];
    kt__buf all;
    kt_status status;
    *head = NULL;
    kt__buf_init(&all, 3 * MAX_META_BYTES);
    KT__TRY(begin_header(w, &all, err));
    (void)kt__buf_append(&all, w->kv.data, w->kv.len);
    (void)kt__buf_append(&all, w->infos.data, w->infos.len);
    (void)kt__buf_append(&all, zeros, (size_t)writer_padding(w, all.len));
    *data_bytes = w->data_bytes;
    if (!all.failed) *head = kt__buf_take(&all, head_bytes);
    if (!*head) status = kt__fail_nomem(err, "a model's metadata", w->kv.len + w->infos.len);
out:
    kt__buf_free(&all);
    writer_free(w);
    return status;
}
