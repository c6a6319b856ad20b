#include "convert/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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
    const char *path, *text; /* text: the header */
    kt__json_scan scan;
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

/* What a scan leaves of a tensor's object. */
typedef struct tensor_object {
    kt__str dtype;
    uint64_t shape[KT__ST_MAX_DIMS], offsets[2];
    size_t n_dims, n_offsets;
    unsigned seen; /* bits of the three keys */
} tensor_object;

static kt_status not_json(const st_reader *r) {
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, 8 + (uint64_t)(r->scan.at - r->text),
                       "not valid JSON: %s is expected", r->scan.wrong);
}

/* A list of sizes; more than `most` are counted as one more, and the rest is not looked at. */
static bool scan_sizes(kt__json_scan *s, uint64_t *out, size_t most, size_t *n) {
    if (!kt__json_scan_enter(s, '[')) return false;
    for (*n = 0; kt__json_scan_more(s, ']', *n); ++*n)
        if (*n == most || !kt__json_scan_size(s, &out[*n])) return false;
    return !s->wrong;
}

static bool str_is(kt__str s, const char *text) {
    return s.len == strlen(text) && memcmp(s.s, text, s.len) == 0;
}

static kt_status scan_tensor_key(st_reader *r, const char *name, kt__str key, tensor_object *o) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    kt__json_scan *s = &r->scan;
    unsigned which = 0;
    while (which < 3 && !str_is(key, keys[which])) which++;
    if (which == 3 || o->seen >> which & 1)
        return bad_tensor(r, name, "an object of dtype, shape and data_offsets is expected");
    o->seen |= 1u << which;
    if (which == 0 && !kt__json_scan_text(s, &o->dtype))
        return bad_tensor(r, name, "\"dtype\" is not a string");
    if (which == 1 && !scan_sizes(s, o->shape, KT__ST_MAX_DIMS, &o->n_dims))
        return bad_tensor(r, name, "\"shape\" is not a list of at most 8 sizes");
    if (which == 2 && (!scan_sizes(s, o->offsets, 2, &o->n_offsets) || o->n_offsets != 2))
        return bad_tensor(r, name, "\"data_offsets\" is not a pair of offsets");
    return KT_OK;
}

static kt_status scan_tensor(st_reader *r, const char *name, tensor_object *o) {
    kt__json_scan *s = &r->scan;
    *o = (tensor_object){0};
    if (!kt__json_scan_enter(s, '{'))
        return bad_tensor(r, name, "an object of dtype, shape and data_offsets is expected");
    for (size_t n = 0; kt__json_scan_more(s, '}', n); n++) {
        kt__str key;
        if (!kt__json_scan_key(s, &key)) break;
        KT__STEP(scan_tensor_key(r, name, key, o));
    }
    if (s->wrong) return not_json(r);
    if (o->seen != 7)
        return bad_tensor(r, name, "an object of dtype, shape and data_offsets is expected");
    return KT_OK;
}

static kt_status find_dtype(const st_reader *r, kt__str name, kt__st_tensor *t, uint32_t *bits) {
    for (int i = 0; i < N_DTYPES; i++) {
        if (!str_is(name, dtypes[i].name)) continue;
        t->dtype = dtypes[i].name;
        t->type = dtypes[i].type;
        *bits = dtypes[i].bits;
        return KT_OK;
    }
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, 8, "tensor '%.100s': unknown dtype '%.40s'",
                       t->name, name.s);
}

/* end - begin must be what shape and dtype say, inside the data. */
static kt_status read_extent(const st_reader *r, const uint64_t offsets[2], uint32_t bits,
                             kt__st_tensor *t) {
    uint64_t begin = offsets[0], end = offsets[1], n_bits = bits;
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

static kt_status read_tensor(st_reader *r, kt__arena *arena, kt__str name, kt__st_tensor *t) {
    uint32_t bits = 0;
    tensor_object o;
    if (name.len > KT__ST_MAX_NAME || name.len == 0)
        return bad_tensor(r, name.s, "a name of 1 to 512 bytes is expected");
    *t = (kt__st_tensor){.name = kt__arena_strndup(arena, name.s, name.len)};
    if (!t->name) return kt__fail_nomem(r->err, "a tensor's name", name.len);
    KT__STEP(scan_tensor(r, t->name, &o));
    t->n_dims = (uint32_t)o.n_dims;
    memcpy(t->shape, o.shape, sizeof t->shape);
    KT__STEP(find_dtype(r, o.dtype, t, &bits));
    return read_extent(r, o.offsets, bits, t);
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
    if (st->n) qsort(st->tensors, st->n, sizeof *st->tensors, compare_places);
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

static kt_status pass_metadata(st_reader *r) {
    kt__json_scan *s = &r->scan;
    kt__str key, value;
    size_t n = 0;
    bool good = kt__json_scan_enter(s, '{');
    while (good && kt__json_scan_more(s, '}', n++))
        good = kt__json_scan_key(s, &key) && kt__json_scan_text(s, &value);
    if (good && !s->wrong) return KT_OK;
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, 8 + (uint64_t)(s->at - r->text),
                       "__metadata__ is not an object of strings");
}

static kt_status add_tensor(st_reader *r, kt__str name, kt__safetensors *st, size_t *room) {
    if (st->n == KT__ST_MAX_TENSORS)
        return kt__fail_at(r->err, KT_E_LIMIT, r->path, 8, "over %d tensors", KT__ST_MAX_TENSORS);
    if (st->n == *room) {
        size_t more = *room ? 2 * *room : 64;
        void *tensors = kt__realloc_array(st->tensors, more, sizeof *st->tensors);
        if (!tensors) return kt__fail_nomem(r->err, "a tensor table", more * sizeof *st->tensors);
        st->tensors = tensors;
        *room = more;
    }
    return read_tensor(r, &st->arena, name, &st->tensors[st->n++]);
}

static kt_status read_tensors(st_reader *r, kt__safetensors *st) {
    kt__json_scan *s = &r->scan;
    size_t room = 0, n_meta = 0;
    (void)kt__json_scan_enter(s, '{');
    for (size_t n = 0; kt__json_scan_more(s, '}', n); n++) {
        kt__str key;
        if (!kt__json_scan_key(s, &key)) break;
        bool meta = str_is(key, "__metadata__") && n_meta++ == 0;
        KT__STEP(meta ? pass_metadata(r) : add_tensor(r, key, st, &room));
    }
    if (!s->wrong && (kt__json_scan_peek(s) || s->at != s->end)) s->wrong = "the end of the header";
    return s->wrong ? not_json(r) : KT_OK;
}

static kt_status check_names(const st_reader *r, const kt__safetensors *st) {
    kt__strmap names;
    kt_status status = KT_OK;
    if (!kt__strmap_init(&names, st->n)) return kt__fail_nomem(r->err, "tensor names", st->n);
    for (size_t i = 0; i < st->n && status == KT_OK; i++) {
        const char *name = st->tensors[i].name;
        if (!kt__strmap_put(&names, (kt__str){name, strlen(name)}, 0))
            status = bad_tensor(r, name, "the header has it twice");
    }
    kt__strmap_free(&names);
    return status;
}

kt_status kt__safetensors_parse(const char *header, size_t header_bytes, uint64_t file_bytes,
                                const char *path, kt__safetensors *out, kt_error *err) {
    kt_status status;
    *out = (kt__safetensors){0};
    kt__arena_init(&out->arena, 1 << 16, (size_t)KT__ST_MAX_TENSORS * 256);
    if (header_bytes == 0 || header[0] != '{')
        return kt__fail_at(err, KT_E_FORMAT, path, 8, "the header does not begin with '{'");
    char *text = kt__strndup(header, header_bytes); /* a scan changes it */
    if (!text) return kt__fail_nomem(err, path, header_bytes);
    st_reader r = {.path = path,
                   .text = text,
                   .scan = {text, text + header_bytes, NULL},
                   .data_at = 8 + header_bytes,
                   .data_bytes = file_bytes - 8 - header_bytes,
                   .err = err};
    KT__TRY(read_tensors(&r, out));
    KT__TRY(check_names(&r, out));
    status = check_cover(&r, out);
out:
    kt__free(text);
    if (status != KT_OK) kt__safetensors_free(out);
    return status;
}

void kt__safetensors_free(kt__safetensors *st) {
    kt__arena_free(&st->arena);
    kt__free(st->tensors);
    *st = (kt__safetensors){0};
}
