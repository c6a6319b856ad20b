#include "gguf/reader.h"

#include "base/error.h"
#include "base/le.h"
#include "base/math.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int kt__str_compare(kt__str a, kt__str b) {
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.s, b.s, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static kt__str name_of(const kt__name_index *index, uint32_t item) {
    kt__str name;
    memcpy(&name, index->items + index->stride * item, sizeof name);
    return name;
}

static int compare_names(const kt__name_index *index, uint32_t a, uint32_t b) {
    return kt__str_compare(name_of(index, a), name_of(index, b));
}

/* Restores the heap order (largest name first) below `at`. */
static void sift_down(const kt__name_index *index, uint32_t at, uint32_t n) {
    uint32_t *order = index->order;
    uint32_t item = order[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && compare_names(index, order[child], order[child + 1]) < 0) child++;
        if (compare_names(index, item, order[child]) >= 0) break;
        order[at] = order[child];
        at = child;
    }
    order[at] = item;
}

/* Heap sort: n log n whatever the file holds, in place, without recursion. */
static void sort_names(const kt__name_index *index) {
    uint32_t *order = index->order;
    for (uint32_t i = 0; i < index->n; i++) order[i] = i;
    for (uint32_t i = index->n / 2; i-- > 0;) sift_down(index, i, index->n);
    for (uint32_t last = index->n; last-- > 1;) {
        uint32_t largest = order[0];
        order[0] = order[last];
        order[last] = largest;
        sift_down(index, 0, last);
    }
}

bool kt__name_index_build(kt__name_index *index, const void *items, size_t stride, uint32_t n,
                          uint32_t *order, uint32_t dup[2]) {
    *index = (kt__name_index){.items = items, .stride = stride, .n = n, .order = order};
    sort_names(index);
    for (uint32_t i = 1; i < n; i++) {
        if (compare_names(index, order[i - 1], order[i]) != 0) continue;
        dup[0] = order[i - 1] < order[i] ? order[i - 1] : order[i];
        dup[1] = order[i - 1] < order[i] ? order[i] : order[i - 1];
        return false;
    }
    return true;
}

const void *kt__name_index_find(const kt__name_index *index, kt__str name) {
    uint32_t low = 0, high = index->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = kt__str_compare(name_of(index, index->order[mid]), name);
        if (c == 0) return index->items + index->stride * index->order[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Typed reads of metadata. */

/* An integer of any width: its value when it fits i64, else (a large u64) big is set. */
typedef struct integer {
    int64_t value;
    bool big;
} integer;

static bool is_integer(kt__gguf_type type) {
    return type <= KT__GGUF_I32 || type == KT__GGUF_U64 || type == KT__GGUF_I64;
}

static integer read_integer(kt__gguf_type type, const uint8_t *p) {
    switch (type) {
    case KT__GGUF_I8: return (integer){(int8_t)p[0], false};
    case KT__GGUF_U16: return (integer){p[0] | p[1] << 8, false};
    case KT__GGUF_I16: return (integer){(int16_t)(p[0] | p[1] << 8), false};
    case KT__GGUF_U32: return (integer){kt__le_get32(p), false};
    case KT__GGUF_I32: return (integer){(int32_t)kt__le_get32(p), false};
    case KT__GGUF_I64: return (integer){(int64_t)kt__le_get64(p), false};
    case KT__GGUF_U64: {
        uint64_t v = kt__le_get64(p);
        return (integer){(int64_t)v, v > INT64_MAX};
    }
    default: return (integer){p[0], false}; /* U8, BOOL */
    }
}

static double read_float(kt__gguf_type type, const uint8_t *p) {
    uint64_t bits;
    double d;
    if (type == KT__GGUF_F32) return (double)kt__f32_from_bits(kt__le_get32(p));
    bits = kt__le_get64(p);
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* ---- errors ---- */

static kt_status fail_missing(const kt__gguf_part *part, const char *key, const char *expected,
                              kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, part->path, UINT64_MAX,
                       "key %s is missing; %s is expected", key, expected);
}

static kt_status fail_type(const kt__gguf_part *part, const kt__gguf_kv *kv, const char *expected,
                           kt_error *err) {
    char shown[KT__GGUF_SHOWN_BYTES];
    bool array = kv->type == KT__GGUF_ARRAY;
    return kt__fail_at(err, KT_E_FORMAT, part->path, kv->file_offset,
                       "key %s is %s%s; %s is expected", kt__gguf_show(kv->key, shown),
                       array ? "an array of " : "of type ",
                       kt__gguf_type_name(array ? kv->elem_type : kv->type), expected);
}

/* ---- parts ---- */

const kt__gguf_kv *kt__gguf_part_find(const kt__gguf_part *part, const char *key) {
    return kt__name_index_find(&part->kv_index, (kt__str){key, strlen(key)});
}

/* The key where present and of a type that `accepts`; *kv = NULL where absent and not required. */
static kt_status find_typed(const kt__gguf_part *part, const char *key, bool required,
                            const char *expected, bool (*accepts)(kt__gguf_type),
                            const kt__gguf_kv **kv, kt_error *err) {
    *kv = kt__gguf_part_find(part, key);
    if (!*kv) return required ? fail_missing(part, key, expected, err) : KT_OK;
    return accepts((*kv)->type) ? KT_OK : fail_type(part, *kv, expected, err);
}

/* An integer key within [min, max]; max is below 2^63, or UINT64_MAX for all of u64. */
static kt_status get_integer(const kt__gguf_part *part, const char *key, bool required, int64_t min,
                             uint64_t max, uint64_t *out, bool *found, kt_error *err) {
    const kt__gguf_kv *kv;
    kt_status status = find_typed(part, key, required, "an integer", is_integer, &kv, err);
    *found = status == KT_OK && kv;
    if (!*found) return status;
    integer v = read_integer(kv->type, kv->data);
    bool fits = v.big ? max == UINT64_MAX
                      : v.value >= min && (v.value < 0 || (uint64_t)v.value <= max);
    if (!fits && v.big)
        return kt__fail_at(err, KT_E_FORMAT, part->path, kv->file_offset,
                           "key %s is %" PRIu64 "; a value from %" PRId64 " to %" PRIu64
                           " is expected",
                           key, (uint64_t)v.value, min, max);
    if (!fits)
        return kt__fail_at(err, KT_E_FORMAT, part->path, kv->file_offset,
                           "key %s is %" PRId64 "; a value from %" PRId64 " to %" PRIu64
                           " is expected",
                           key, v.value, min, max);
    *out = (uint64_t)v.value;
    return KT_OK;
}

kt_status kt__gguf_part_get_u32(const kt__gguf_part *part, const char *key, bool *found,
                                uint32_t *out, kt_error *err) {
    uint64_t value = 0;
    kt_status status = get_integer(part, key, false, 0, UINT32_MAX, &value, found, err);
    if (*found && status == KT_OK) *out = (uint32_t)value;
    return status;
}

/* ---- the interface ---- */

const kt__gguf_kv *kt__gguf_find(const kt__gguf *g, const char *key) {
    return kt__gguf_part_find(&g->parts[0], key);
}

kt_status kt__gguf_get_u32(const kt__gguf *g, const char *key, bool required, uint32_t *out,
                           kt_error *err) {
    uint64_t value = 0;
    bool found;
    kt_status status = get_integer(&g->parts[0], key, required, 0, UINT32_MAX, &value, &found, err);
    if (status == KT_OK && found) *out = (uint32_t)value;
    return status;
}

kt_status kt__gguf_get_u64(const kt__gguf *g, const char *key, bool required, uint64_t *out,
                           kt_error *err) {
    uint64_t value = 0;
    bool found;
    kt_status status = get_integer(&g->parts[0], key, required, 0, UINT64_MAX, &value, &found, err);
    if (status == KT_OK && found) *out = value;
    return status;
}

static bool is_float(kt__gguf_type type) {
    return type == KT__GGUF_F32 || type == KT__GGUF_F64;
}
static bool is_bool(kt__gguf_type type) {
    return type == KT__GGUF_BOOL;
}
static bool is_string(kt__gguf_type type) {
    return type == KT__GGUF_STRING;
}

kt_status kt__gguf_get_f32(const kt__gguf *g, const char *key, bool required, float *out,
                           kt_error *err) {
    const kt__gguf_kv *kv;
    kt_status status = find_typed(&g->parts[0], key, required, "a float", is_float, &kv, err);
    if (status != KT_OK || !kv) return status;
    float value = (float)read_float(kv->type, kv->data);
    if (!isfinite(value))
        return kt__fail_at(err, KT_E_FORMAT, g->parts[0].path, kv->file_offset,
                           "key %s is %g; a finite number is expected", key, (double)value);
    *out = value;
    return KT_OK;
}

kt_status kt__gguf_get_bool(const kt__gguf *g, const char *key, bool required, bool *out,
                            kt_error *err) {
    const kt__gguf_kv *kv;
    kt_status status = find_typed(&g->parts[0], key, required, "a bool", is_bool, &kv, err);
    if (status != KT_OK || !kv) return status;
    if (kv->data[0] > 1)
        return kt__fail_at(err, KT_E_FORMAT, g->parts[0].path, kv->file_offset,
                           "key %s is a bool with the byte %d; 0 or 1 is expected", key,
                           kv->data[0]);
    *out = kv->data[0] != 0;
    return KT_OK;
}

kt_status kt__gguf_get_str(const kt__gguf *g, const char *key, bool required, kt__str *out,
                           kt_error *err) {
    const kt__gguf_kv *kv;
    kt_status status = find_typed(&g->parts[0], key, required, "a string", is_string, &kv, err);
    if (status != KT_OK || !kv) return status;
    *out = kt__gguf_kv_str(kv);
    return KT_OK;
}

kt_status kt__gguf_get_array(const kt__gguf *g, const char *key, bool required,
                             kt__gguf_type elem_type, const kt__gguf_kv **out, kt_error *err) {
    const kt__gguf_kv *kv = kt__gguf_find(g, key);
    char expected[32] = "an array";
    *out = NULL;
    if (elem_type != KT__GGUF_TYPE_COUNT) {
        strcat(expected, " of ");
        strcat(expected, kt__gguf_type_name(elem_type));
    }
    if (!kv) return required ? fail_missing(&g->parts[0], key, expected, err) : KT_OK;
    if (kv->type != KT__GGUF_ARRAY ||
        (elem_type != KT__GGUF_TYPE_COUNT && kv->elem_type != elem_type))
        return fail_type(&g->parts[0], kv, expected, err);
    *out = kv;
    return KT_OK;
}

kt__str kt__gguf_kv_str(const kt__gguf_kv *kv) {
    return (kt__str){(const char *)kv->data + 8, (size_t)kt__le_get64(kv->data)};
}

kt__str kt__gguf_array_str(const kt__gguf_kv *kv, uint64_t index) {
    const uint8_t *p = kv->data + kv->string_offsets[index];
    return (kt__str){(const char *)p + 8, (size_t)kt__le_get64(p)};
}

float kt__gguf_array_f32(const kt__gguf_kv *kv, uint64_t index) {
    return (float)read_float(kv->elem_type,
                             kv->data + index * kt__gguf_scalar_bytes(kv->elem_type));
}

bool kt__gguf_is_integers(const kt__gguf_kv *kv) {
    return kv->type == KT__GGUF_ARRAY && kv->elem_type != KT__GGUF_STRING &&
           kv->elem_type != KT__GGUF_F32 && kv->elem_type != KT__GGUF_F64;
}

int64_t kt__gguf_array_i64(const kt__gguf_kv *kv, uint64_t index) {
    return read_integer(kv->elem_type, kv->data + index * kt__gguf_scalar_bytes(kv->elem_type))
        .value;
}
