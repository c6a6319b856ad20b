#include "convert/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "convert/json_file.h"

static const struct {
    const char *name;
    uint32_t bits;
    kt__type type;
} dtypes[] = {
#define X(name, bits, type) {name, bits, type},
#include "convert/dtypes.def"
#undef X
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* What a message is about: file, tensor, and where the header ends. */
typedef struct st_reader {
    const char *path;
    uint64_t data_at, data_bytes;
    kt_error *err;
} st_reader;

kt_status kt__safetensors_header_bytes(const uint8_t head[8], uint64_t file_bytes, const char *path,
                                       size_t *header_bytes, kt_error *err) {
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | head[i];
    if (file_bytes < 8 || n > file_bytes - 8)
        return kt__fail_at(err, KT_E_FORMAT, path, 0,
                           "the header claims %" PRIu64 " bytes, the file has %" PRIu64
                           " in all: it is truncated, or no safetensors file",
                           n, file_bytes);
    if (n > KT__ST_MAX_HEADER)
        return kt__fail_at(err, KT_E_LIMIT, path, 0,
                           "a header of %" PRIu64 " bytes is over the limit of %d", n,
                           KT__ST_MAX_HEADER);
    *header_bytes = (size_t)n;
    return KT_OK;
}

static kt_status bad_tensor(const st_reader *r, const char *name, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, 8, "tensor '%.100s': %s", name, what);
}

/* A JSON integer that is not negative. */
static bool take_u64(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static kt_status read_shape(const st_reader *r, const json_t *shape, kt__st_tensor *t) {
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > KT__ST_MAX_DIMS)
        return bad_tensor(r, t->name, "\"shape\" is not a list of at most 8 sizes");
    t->n_dims = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        if (!take_u64(json_array_get(shape, i), &t->shape[i]))
            return bad_tensor(r, t->name, "\"shape\" holds something that is not a size");
    return KT_OK;
}

static kt_status read_dtype(const st_reader *r, const json_t *value, kt__st_tensor *t,
                            uint32_t *bits) {
    const char *name = json_string_value(value);
    for (int i = 0; name && i < N_DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        t->dtype = dtypes[i].name;
        t->type = dtypes[i].type;
        *bits = dtypes[i].bits;
        return KT_OK;
    }
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, 8, "tensor '%.100s': unknown dtype '%.40s'",
                       t->name, name ? name : "(not a string)");
}

/* end - begin must be what shape and dtype say, inside the data. */
static kt_status read_extent(const st_reader *r, const json_t *offsets, uint32_t bits,
                             kt__st_tensor *t) {
    uint64_t begin, end, n_bits = bits;
    if (json_array_size(offsets) != 2 || !take_u64(json_array_get(offsets, 0), &begin) ||
        !take_u64(json_array_get(offsets, 1), &end))
        return bad_tensor(r, t->name, "\"data_offsets\" is not a pair of offsets");
    if (begin > end || end > r->data_bytes)
        return kt__fail_at(r->err, KT_E_FORMAT, r->path, r->data_at,
                           "tensor '%.100s': data_offsets [%" PRIu64 ", %" PRIu64
                           "] are not inside the %" PRIu64 " bytes of data",
                           t->name, begin, end, r->data_bytes);
    for (uint32_t d = 0; d < t->n_dims; d++)
        if (__builtin_mul_overflow(n_bits, t->shape[d], &n_bits))
            return bad_tensor(r, t->name, "the shape's product overflows");
    if (n_bits % 8 != 0 || n_bits / 8 != end - begin)
        return kt__fail_at(r->err, KT_E_FORMAT, r->path, r->data_at + begin,
                           "tensor '%.100s': %" PRIu64 " bytes of data, but shape and dtype %s "
                           "need %" PRIu64 " bits",
                           t->name, end - begin, t->dtype, n_bits);
    t->begin = r->data_at + begin;
    t->end = r->data_at + end;
    return KT_OK;
}

static kt_status read_tensor(const st_reader *r, kt__arena *arena, const char *name,
                             const json_t *value, kt__st_tensor *t) {
    uint32_t bits = 0;
    kt_status status;
    if (strlen(name) > KT__ST_MAX_NAME || !name[0])
        return bad_tensor(r, name, "a name of 1 to 512 bytes is expected");
    if (!json_is_object(value) || json_object_size(value) != 3)
        return bad_tensor(r, name, "an object of dtype, shape and data_offsets is expected");
    *t = (kt__st_tensor){.name = kt__arena_strndup(arena, name, strlen(name))};
    if (!t->name) return kt__fail_nomem(r->err, "a tensor's name", strlen(name));
    KT__TRY(read_dtype(r, json_object_get(value, "dtype"), t, &bits));
    KT__TRY(read_shape(r, json_object_get(value, "shape"), t));
    KT__TRY(read_extent(r, json_object_get(value, "data_offsets"), bits, t));
out:
    return status;
}

static int compare_places(const void *a, const void *b) {
    const kt__st_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The tensors cover the data from its first byte to its last: no gap, no overlap, no tail. */
static kt_status check_cover(const st_reader *r, kt__safetensors *st) {
    uint64_t at = r->data_at;
    qsort(st->tensors, st->n, sizeof *st->tensors, compare_places);
    for (size_t i = 0; i < st->n; i++) {
        const kt__st_tensor *t = &st->tensors[i];
        if (t->begin != at)
            return kt__fail_at(
                r->err, KT_E_FORMAT, r->path, t->begin < at ? t->begin : at, "tensor '%.100s' %s",
                t->name, t->begin < at ? "overlaps the one before it" : "leaves a gap before it");
        at = t->end;
    }
    if (at != r->data_at + r->data_bytes)
        return kt__fail_at(r->err, KT_E_FORMAT, r->path, at,
                           "%" PRIu64 " bytes at the file's end belong to no tensor",
                           r->data_at + r->data_bytes - at);
    return KT_OK;
}

static kt_status check_metadata(const st_reader *r, json_t *meta) {
    const char *key;
    json_t *value;
    bool good = json_is_object(meta);
    json_object_foreach(meta, key, value) good = good && json_is_string(value);
    return good ? KT_OK
                : kt__fail_at(r->err, KT_E_FORMAT, r->path, 8,
                              "__metadata__ is not an object of strings");
}

static kt_status read_tensors(const st_reader *r, json_t *root, kt__safetensors *st) {
    const char *key;
    json_t *value;
    kt_status status = KT_OK;
    size_t n = json_object_size(root);
    if (n > KT__ST_MAX_TENSORS)
        return kt__fail_at(r->err, KT_E_LIMIT, r->path, 8, "%zu tensors are over the limit of %d",
                           n, KT__ST_MAX_TENSORS);
    st->tensors = kt__arena_calloc(&st->arena, n + 1, sizeof *st->tensors);
    if (!st->tensors) return kt__fail_nomem(r->err, "a tensor table", n * sizeof *st->tensors);
    json_object_foreach(root, key, value) {
        if (strcmp(key, "__metadata__") == 0)
            KT__TRY(check_metadata(r, value));
        else
            KT__TRY(read_tensor(r, &st->arena, key, value, &st->tensors[st->n++]));
    }
    status = check_cover(r, st);
out:
    return status;
}

kt_status kt__safetensors_parse(const char *header, size_t header_bytes, uint64_t file_bytes,
                                const char *path, kt__safetensors *out, kt_error *err) {
    json_t *root = NULL;
    kt_status status;
    *out = (kt__safetensors){0};
    kt__arena_init(&out->arena, 1 << 16, (size_t)KT__ST_MAX_TENSORS * 256);
    if (header_bytes == 0 || header[0] != '{')
        return kt__fail_at(err, KT_E_FORMAT, path, 8, "the header does not begin with '{'");
    st_reader r = {path, 8 + header_bytes, file_bytes - 8 - header_bytes, err};
    while (header[header_bytes - 1] == ' ') header_bytes--;
    KT__TRY(kt__folder_parse_strict(header, header_bytes, path, &root, err));
    KT__TRY(read_tensors(&r, root, out));
out:
    json_decref(root);
    if (status != KT_OK) kt__safetensors_free(out);
    return status;
}

void kt__safetensors_free(kt__safetensors *st) {
    kt__arena_free(&st->arena);
    *st = (kt__safetensors){0};
}
