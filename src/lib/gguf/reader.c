/* One file's bytes to checked metadata and tensor descriptors. */
#include "gguf/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/le.h"

/* Smallest possible encodings, which bound the counts that a header may claim. */
enum {
    HEADER_BYTES = 24,
    MIN_KV_BYTES = 8 + 1 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
    MIN_STRING_BYTES = 8,
    MIN_ALIGNMENT = 8, /* the format's own rule; block types need 4 */
    MAX_ALIGNMENT = 1 << 20,
    DEFAULT_ALIGNMENT = 32,
    SHOWN_BYTES = KT__GGUF_SHOWN_BYTES + 8
};

typedef struct cursor {
    const uint8_t *data;
    uint64_t size, at;
    const char *path;
    kt_error *err;
} cursor;

static kt_status reader_take(cursor *c, uint64_t bytes, const char *what, const uint8_t **out) {
    uint64_t left = c->size - c->at;
    *out = c->data + c->at;
    if (bytes > left)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, c->at,
                           "%s needs %" PRIu64 " bytes, but the file has %" PRIu64
                           " left: it is truncated or damaged",
                           what, bytes, left);
    c->at += bytes;
    return KT_OK;
}

static kt_status take_u32(cursor *c, const char *what, uint32_t *out) {
    const uint8_t *p;
    kt_status status = reader_take(c, 4, what, &p);
    if (status == KT_OK) *out = kt__le_get32(p);
    return status;
}

static kt_status take_u64(cursor *c, const char *what, uint64_t *out) {
    const uint8_t *p;
    kt_status status = reader_take(c, 8, what, &p);
    if (status == KT_OK) *out = kt__le_get64(p);
    return status;
}

/* "key general.name": what a message is about. */
static void show_name(const char *kind, kt__str name, char out[SHOWN_BYTES]) {
    char text[KT__GGUF_SHOWN_BYTES];
    snprintf(out, SHOWN_BYTES, "%s %s", kind, kt__gguf_show(name, text));
}

/* A key or a tensor's name: a length and that many bytes, none of them NUL. */
static kt_status take_name(cursor *c, const char *what, uint64_t max, kt__str *out) {
    uint64_t len, at = c->at;
    const uint8_t *p;
    kt_status status = take_u64(c, what, &len);
    if (status != KT_OK) return status;
    if (len == 0 || len > max)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at,
                           "%s is %" PRIu64 " bytes long; 1 to %" PRIu64 " are allowed", what, len,
                           max);
    status = reader_take(c, len, what, &p);
    if (status != KT_OK) return status;
    if (memchr(p, 0, (size_t)len))
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at, "%s holds a NUL byte", what);
    *out = (kt__str){(const char *)p, (size_t)len};
    return KT_OK;
}

/* ---- header ---- */

static kt_status fail_magic(cursor *c) {
    const char *hint = "";
    if (c->size >= 8 && memcmp(c->data, "version ", 8) == 0)
        hint = "; it looks like a Git LFS pointer: fetch the real file";
    else if (c->size >= 1 && c->data[0] == '<')
        hint = "; it looks like a web page: the download failed";
    else if (c->size >= 4 && (memcmp(c->data, "tjgg", 4) == 0 || memcmp(c->data, "lmgg", 4) == 0))
        hint = "; it is the older GGML format: convert it to GGUF";
    return kt__fail_at(c->err, KT_E_FORMAT, c->path, 0,
                       "not a GGUF file: the first 4 bytes are not \"GGUF\"%s", hint);
}

static kt_status check_version(cursor *c, uint32_t version) {
    if (version == 2 || version == 3) return KT_OK;
    if (version == 1)
        return kt__fail_at(
            c->err, KT_E_UNSUPPORTED, c->path, 4,
            "GGUF version 1 is not supported: convert the model again (versions 2 and 3 are read)");
    if (version != 0 && (version & 0xffff) == 0)
        return kt__fail_at(c->err, KT_E_UNSUPPORTED, c->path, 4,
                           "this is a big-endian GGUF file; only little-endian ones are supported");
    return kt__fail_at(c->err, KT_E_UNSUPPORTED, c->path, 4,
                       "GGUF version %" PRIu32 " is not supported (versions 2 and 3 are read)",
                       version);
}

static kt_status check_count(cursor *c, uint64_t at, const char *what, uint64_t count,
                             uint64_t limit, uint64_t min_bytes) {
    uint64_t left = c->size - HEADER_BYTES;
    if (count > left / min_bytes)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at,
                           "the header claims %" PRIu64 " %s, but %" PRIu64
                           " bytes follow: it is truncated or damaged",
                           count, what, left);
    if (count > limit)
        return kt__fail_at(c->err, KT_E_LIMIT, c->path, at, "%" PRIu64 " %s; the limit is %" PRIu64,
                           count, what, limit);
    return KT_OK;
}

static kt_status parse_header(cursor *c, kt__gguf_part *part, uint64_t *n_kv) {
    const uint8_t *p;
    if (c->size < 4 || memcmp(c->data, "GGUF", 4) != 0) return fail_magic(c);
    KT__STEP(reader_take(c, HEADER_BYTES, "the header", &p));
    part->version = kt__le_get32(p + 4);
    part->n_tensors = kt__le_get64(p + 8);
    *n_kv = kt__le_get64(p + 16);
    KT__STEP(check_version(c, part->version));
    KT__STEP(check_count(c, 8, "tensors", part->n_tensors, KT__GGUF_MAX_TENSORS, MIN_TENSOR_BYTES));
    return check_count(c, 16, "metadata keys", *n_kv, KT__GGUF_MAX_KV, MIN_KV_BYTES);
}

/* ---- metadata ---- */

static kt_status parse_strings(kt__gguf *g, cursor *c, const char *shown, kt__gguf_kv *kv) {
    const uint8_t *p;
    uint64_t base = c->at, len;
    uint64_t *offsets = kt__arena_alloc(&g->arena, (size_t)kv->count * sizeof *offsets);
    if (!offsets)
        return kt__fail_nomem(c->err, "string offsets", (size_t)kv->count * sizeof *offsets);
    for (uint64_t i = 0; i < kv->count; i++) {
        offsets[i] = c->at - base;
        KT__STEP(take_u64(c, shown, &len));
        KT__STEP(reader_take(c, len, shown, &p));
    }
    kv->string_offsets = offsets;
    return KT_OK;
}

static kt_status parse_array(kt__gguf *g, cursor *c, const char *shown, kt__gguf_kv *kv) {
    uint32_t elem_type = 0;
    uint64_t at = c->at;
    kt_status status = take_u32(c, shown, &elem_type);
    if (status != KT_OK) return status;
    if (elem_type == KT__GGUF_ARRAY)
        return kt__fail_at(c->err, KT_E_UNSUPPORTED, c->path, at, "%s is an array of arrays",
                           shown);
    if (elem_type >= KT__GGUF_TYPE_COUNT)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at,
                           "%s is an array of type %" PRIu32 "; types 0 to %d exist", shown,
                           elem_type, KT__GGUF_TYPE_COUNT - 1);
    kv->elem_type = (kt__gguf_type)elem_type;
    at = c->at;
    status = take_u64(c, shown, &kv->count);
    if (status != KT_OK) return status;
    uint64_t elem_bytes = elem_type == KT__GGUF_STRING ? MIN_STRING_BYTES
                                                       : kt__gguf_scalar_bytes(elem_type);
    if (kv->count > (c->size - c->at) / elem_bytes)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at,
                           "%s claims %" PRIu64 " elements, but %" PRIu64
                           " bytes are left: the file is truncated or damaged",
                           shown, kv->count, c->size - c->at);
    kv->data = c->data + c->at;
    if (elem_type == KT__GGUF_STRING) return parse_strings(g, c, shown, kv);
    return reader_take(c, kv->count * elem_bytes, shown, &kv->data);
}

static kt_status parse_kv(kt__gguf *g, cursor *c, kt__gguf_kv *kv) {
    char shown[SHOWN_BYTES];
    uint32_t type = 0;
    uint64_t len, at;
    kv->file_offset = c->at;
    KT__STEP(take_name(c, "a metadata key", KT__GGUF_MAX_KEY_BYTES, &kv->key));
    show_name("key", kv->key, shown);
    at = c->at;
    KT__STEP(take_u32(c, shown, &type));
    if (type >= KT__GGUF_TYPE_COUNT)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at,
                           "%s has value type %" PRIu32 "; types 0 to %d exist", shown, type,
                           KT__GGUF_TYPE_COUNT - 1);
    kv->type = kv->elem_type = (kt__gguf_type)type;
    kv->count = 1;
    if (type == KT__GGUF_ARRAY) return parse_array(g, c, shown, kv);
    if (type != KT__GGUF_STRING)
        return reader_take(c, kt__gguf_scalar_bytes(type), shown, &kv->data);
    kv->data = c->data + c->at; /* a string keeps its length field */
    const uint8_t *p;
    KT__STEP(take_u64(c, shown, &len));
    return reader_take(c, len, shown, &p);
}

static kt_status index_keys(kt__gguf *g, kt__gguf_part *part, kt_error *err) {
    char shown[KT__GGUF_SHOWN_BYTES];
    uint32_t dup[2];
    uint32_t *order = kt__arena_alloc(&g->arena, part->n_kv * sizeof *order);
    if (!order) return kt__fail_nomem(err, "the key index", part->n_kv * sizeof *order);
    if (kt__name_index_build(&part->kv_index, part->kv, sizeof *part->kv, part->n_kv, order, dup))
        return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, part->path, part->kv[dup[1]].file_offset,
                       "key %s occurs twice (first at byte %" PRIu64 ")",
                       kt__gguf_show(part->kv[dup[0]].key, shown), part->kv[dup[0]].file_offset);
}

static kt_status read_alignment(kt__gguf_part *part, kt_error *err) {
    bool found = false;
    uint32_t alignment = DEFAULT_ALIGNMENT;
    kt_status status = kt__gguf_part_get_u32(part, "general.alignment", &found, &alignment, err);
    if (status != KT_OK) return status;
    if (alignment < MIN_ALIGNMENT || alignment > MAX_ALIGNMENT ||
        (alignment & (alignment - 1)) != 0)
        return kt__fail_at(err, KT_E_FORMAT, part->path,
                           kt__gguf_part_find(part, "general.alignment")->file_offset,
                           "general.alignment is %" PRIu32
                           "; a power of two from %d to %d is expected",
                           alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
    part->alignment = alignment;
    return KT_OK;
}

kt_status kt__gguf_parse_meta(kt__gguf *g, kt__gguf_part *part, kt_error *err) {
    cursor c = {.data = part->data, .size = part->size, .path = part->path, .err = err};
    uint64_t n_kv = 0;
    KT__STEP(parse_header(&c, part, &n_kv));
    part->kv = kt__arena_calloc(&g->arena, (size_t)n_kv, sizeof *part->kv);
    if (!part->kv) return kt__fail_nomem(err, "metadata", (size_t)n_kv * sizeof *part->kv);
    for (; part->n_kv < n_kv; part->n_kv++) KT__STEP(parse_kv(g, &c, &part->kv[part->n_kv]));
    KT__STEP(index_keys(g, part, err));
    KT__STEP(read_alignment(part, err));
    part->tensors_at = c.at;
    return KT_OK;
}

/* ---- tensors ---- */

kt_status kt__gguf_fail_tensor(kt__gguf *g, kt__gguf_tensor *t, uint64_t at, kt_error *err,
                               const char *fmt, ...) {
    char message[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (!g->tolerant)
        return kt__fail_at(err, KT_E_FORMAT, g->parts[t->part].path, at, "%s", message);
    t->data = NULL;
    if (t->fault) return KT_OK;
    if (len >= (int)sizeof message) len = (int)sizeof message - 1;
    t->fault = kt__arena_strndup(&g->arena, message, len > 0 ? (size_t)len : 0);
    return t->fault ? KT_OK : kt__fail_nomem(err, "a tensor's fault", (size_t)len);
}

/* Sets n_elem; 0 for dimensions that cannot be. */
static kt_status count_elements(kt__gguf *g, cursor *c, uint64_t at, const char *shown,
                                kt__gguf_tensor *t) {
    t->n_elem = 1;
    for (uint32_t d = 0; d < t->n_dims; d++) {
        uint64_t n = t->n_elem;
        if (t->ne[d] && !__builtin_mul_overflow(n, t->ne[d], &t->n_elem) && t->n_elem <= INT64_MAX)
            continue;
        t->n_elem = 0;
        if (!t->ne[d])
            return kt__gguf_fail_tensor(g, t, at + 8 * d, c->err,
                                        "%s: dimension %" PRIu32 " is zero", shown, d);
        return kt__gguf_fail_tensor(g, t, at + 8 * d, c->err,
                                    "%s: the product of its dimensions overflows 63 bits", shown);
    }
    return KT_OK;
}

static kt_status parse_dims(kt__gguf *g, cursor *c, const char *shown, kt__gguf_tensor *t) {
    uint64_t at = c->at;
    KT__STEP(take_u32(c, shown, &t->n_dims));
    if (t->n_dims < 1 || t->n_dims > KT__GGUF_MAX_DIMS)
        return kt__fail_at(c->err, KT_E_FORMAT, c->path, at,
                           "%s has %" PRIu32 " dimensions; 1 to %d are allowed", shown, t->n_dims,
                           KT__GGUF_MAX_DIMS);
    at = c->at;
    for (uint32_t d = 0; d < KT__GGUF_MAX_DIMS; d++) {
        t->ne[d] = 1;
        if (d < t->n_dims) KT__STEP(take_u64(c, shown, &t->ne[d]));
    }
    return count_elements(g, c, at, shown, t);
}

/* Size in bytes from the block layout. Leaves 0 for an unknown type, which is an error only where
 * the tensor is needed. */
static kt_status size_tensor(kt__gguf *g, cursor *c, uint64_t at, const char *shown,
                             kt__gguf_tensor *t) {
    uint32_t block_elems, block_bytes;
    if (!kt__gguf_tensor_type_layout(t->type, &block_elems, &block_bytes)) {
        if (!g->tolerant) return KT_OK;
        return kt__gguf_fail_tensor(g, t, at, c->err,
                                    "%s has type %s (number %" PRIu32 "), which is not supported",
                                    shown, kt__gguf_tensor_type_name(t->type), t->type);
    }
    if (t->ne[0] % block_elems != 0)
        return kt__gguf_fail_tensor(
            g, t, at, c->err,
            "%s: rows of %" PRIu64 " elements are no multiple of the %" PRIu32
            "-element blocks of %s",
            shown, t->ne[0], block_elems, kt__gguf_tensor_type_name(t->type));
    if (!__builtin_mul_overflow(t->n_elem / block_elems, (uint64_t)block_bytes, &t->size))
        return KT_OK;
    t->size = 0;
    return kt__gguf_fail_tensor(g, t, at, c->err, "%s: its size overflows 64 bits", shown);
}

static kt_status parse_tensor(kt__gguf *g, cursor *c, kt__gguf_tensor *t) {
    char shown[SHOWN_BYTES];
    kt__str name;
    uint64_t at = c->at;
    KT__STEP(take_name(c, "a tensor name",
                       g->tolerant ? KT__GGUF_MAX_KEY_BYTES : KT__GGUF_MAX_NAME_BYTES, &name));
    show_name("tensor", name, shown);
    t->name = (kt__str){kt__arena_strndup(&g->arena, name.s, name.len), name.len};
    if (!t->name.s) return kt__fail_nomem(c->err, "a tensor name", name.len + 1);
    if (name.len > KT__GGUF_MAX_NAME_BYTES)
        KT__STEP(kt__gguf_fail_tensor(g, t, at, c->err,
                                      "%s: its name is %zu bytes long; 1 to %d are allowed", shown,
                                      name.len, KT__GGUF_MAX_NAME_BYTES));
    KT__STEP(parse_dims(g, c, shown, t));
    at = c->at;
    KT__STEP(take_u32(c, shown, &t->type));
    KT__STEP(size_tensor(g, c, at, shown, t));
    KT__STEP(
        take_u64(c, shown, &t->file_offset)); /* from the start of the data, until place_tensor */
    return KT_OK;
}

/* Turns the offset in the data section into one in the file, and checks that the data is there. */
static kt_status place_tensor(kt__gguf *g, const kt__gguf_part *part, uint64_t data_start,
                              kt__gguf_tensor *t, kt_error *err) {
    char shown[SHOWN_BYTES];
    uint64_t offset = t->file_offset, end;
    show_name("tensor", t->name, shown);
    if (__builtin_add_overflow(data_start, offset, &t->file_offset) ||
        __builtin_add_overflow(t->file_offset, t->size, &end)) {
        t->file_offset = 0;
        return kt__gguf_fail_tensor(g, t, data_start, err,
                                    "%s: data offset %" PRIu64 " plus %" PRIu64 " bytes overflows",
                                    shown, offset, t->size);
    }
    if (offset % part->alignment != 0)
        return kt__gguf_fail_tensor(g, t, data_start, err,
                                    "%s: data offset %" PRIu64
                                    " is no multiple of the alignment %" PRIu64,
                                    shown, offset, part->alignment);
    if (g->vocab_only || t->size == 0) return KT_OK;
    if (end > part->size)
        return kt__gguf_fail_tensor(g, t, t->file_offset, err,
                                    "%s ends at byte %" PRIu64 ", but the file has %" PRIu64
                                    ": it is truncated (an unfinished download?) or damaged",
                                    shown, end, part->size);
    if (!t->fault) t->data = part->data + t->file_offset;
    return KT_OK;
}

kt_status kt__gguf_parse_tensors(kt__gguf *g, int part_index, uint32_t first, kt_error *err) {
    const kt__gguf_part *part = &g->parts[part_index];
    cursor c = {.data = part->data,
                .size = part->size,
                .at = part->tensors_at,
                .path = part->path,
                .err = err};
    kt__gguf_tensor *tensors = g->tensors + first;
    for (uint64_t i = 0; i < part->n_tensors; i++) {
        tensors[i].part = part_index;
        KT__STEP(parse_tensor(g, &c, &tensors[i]));
    }
    /* at most the file's size plus 1 MiB: no overflow */
    uint64_t data_start = (c.at + part->alignment - 1) & ~(part->alignment - 1);
    for (uint64_t i = 0; i < part->n_tensors; i++)
        KT__STEP(place_tensor(g, part, data_start, &tensors[i], err));
    return KT_OK;
}
