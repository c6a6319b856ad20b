/* A plan as a list of tensors, and the bytes that they are made from. */
#include "convert/planned.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

kt_status kt__weight_read(const kt__weight_source *source, uint64_t at, void *out, size_t n,
                          kt_error *err) {
    errno = 0;
    if (kt__fd_read_at(source->fd, out, n, source->begin + at)) return KT_OK;
    return kt__fail_at(err, errno ? KT_E_IO : KT_E_TRUNCATED, source->path, source->begin + at,
                       "tensor '%.100s': cannot read: %s", source->name,
                       errno ? strerror(errno) : "the file became shorter");
}

kt_status kt__weight_plan_add(kt__weight_plan *plan, const kt__planned *tensor, kt_error *err) {
    if (plan->n == plan->cap) {
        size_t cap = plan->cap ? 2 * plan->cap : 256;
        kt__planned *grown = kt__realloc_array(plan->tensors, cap, sizeof *grown);
        if (!grown) return kt__fail_nomem(err, "a plan", cap * sizeof *grown);
        plan->tensors = grown;
        plan->cap = cap;
    }
    plan->tensors[plan->n] = *tensor;
    kt__planned *added = &plan->tensors[plan->n++];
    if (added->ne[0] == 0) { /* a matrix or a vector */
        added->ne[0] = (uint64_t)added->n_cols;
        added->ne[1] = (uint64_t)added->n_rows;
    }
    added->row_bytes = kt__type_row_bytes(added->type, added->n_cols);
    plan->n_params += (uint64_t)(added->n_rows * added->n_cols);
    plan->data_bytes += added->row_bytes * (uint64_t)added->n_rows;
    return KT_OK;
}

kt_status kt__weight_same_bytes(const kt__weight_source *a, const kt__weight_source *b,
                                uint64_t size, bool *same, kt_error *err) {
    enum { PIECE = 1 << 20 };
    char *buffer = kt__malloc(2 * PIECE);
    kt_status status = buffer ? KT_OK : kt__fail_nomem(err, "a buffer", 2 * PIECE);
    *same = true;
    for (uint64_t at = 0; status == KT_OK && *same && at < size; at += PIECE) {
        size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        status = kt__weight_read(a, at, buffer, n, err);
        if (status == KT_OK) status = kt__weight_read(b, at, buffer + PIECE, n, err);
        *same = memcmp(buffer, buffer + PIECE, n) == 0;
    }
    kt__free(buffer);
    return status;
}

void kt__weight_plan_free(kt__weight_plan *plan) {
    for (size_t i = 0; i < plan->n; i++) kt__free(plan->tensors[i].parts);
    kt__free(plan->tensors);
    *plan = (kt__weight_plan){0};
}

void kt__weight_plan_declare(const kt__weight_plan *plan, kt__gguf_writer *w) {
    for (size_t i = 0; i < plan->n; i++) {
        const kt__planned *t = &plan->tensors[i];
        kt__gguf_declare_tensor(w, t->name, kt__type_get(t->type)->ggml_id, t->n_dims, t->ne);
    }
}

/* ---- role ---- */

static const struct {
    const char *name; /* after "blk.N.", or whole outside the layers */
    kt__tensor_role role;
    bool in_layer;
} roles[] = {
#define X(name, role, features, pooling) {name, KT__TENSOR_##role, false},
#include "model/globals.def"
#undef X
#define X(slot, name, rows, cols, role, only, unless, needs, mixer) {name, KT__TENSOR_##role, true},
#include "model/weights.def"
#undef X
};

/* Matrices of an encoder of pictures: of its layers, and those after them that the file has as rows of
 * outputs ("mm.input_projection.weight" has the columns first). */
static bool is_of_encoder(const char *name, int *layer) {
    size_t n = strlen(name);
    if (n < 7 || strcmp(name + n - 7, ".weight") != 0) return false;
    if (sscanf(name, "v.blk.%9d.", layer) == 1 || !strncmp(name, "v.deepstack.", 12)) return true;
    return !strncmp(name, "mm.", 3) && strcmp(name, "mm.input_projection.weight") != 0;
}

kt__tensor_role kt__tensor_role_of(const char *name, int *layer) {
    int n = 0;
    *layer = 0;
    if (is_of_encoder(name, layer)) return KT__TENSOR_OTHER;
    bool in_layer = sscanf(name, "blk.%9d.%n", layer, &n) == 1 && n > 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].in_layer == in_layer && strcmp(roles[i].name, name + n) == 0)
            return roles[i].role;
    return KT__TENSOR_VECTOR;
}

/* ---- BitNet's matrices ---- */

enum { PIECE = 1 << 16 };

static double sum_of_sizes(const float *values, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += values[i] < 0.0f ? -(double)values[i] : (double)values[i];
    return sum;
}

kt_status kt__ternary_mean(const kt__weight_source *source, int64_t n, float *out, kt_error *err) {
    size_t bytes = 2 * PIECE * sizeof(float), size = kt__type_row_bytes(source->type, 1);
    float *values = kt__malloc(bytes);
    kt_status status = values ? KT_OK : kt__fail_nomem(err, "a buffer", bytes);
    double sum = 0.0;
    for (int64_t at = 0, some; at < n && status == KT_OK; at += some) {
        some = n - at < PIECE ? n - at : PIECE;
        status = kt__weight_read(source, (uint64_t)at * size, values + PIECE, (size_t)some * size,
                                 err);
        if (status != KT_OK) break;
        kt__dequantize_row(source->type, values + PIECE, some, values);
        sum += sum_of_sizes(values, (size_t)some);
    }
    *out = (float)(sum / (double)n);
    if (!(*out > 1e-5f)) *out = 1e-5f;
    kt__free(values);
    return status;
}

void kt__ternary_round(float *values, int64_t n, float mean) {
    float scale = 1.0f / mean;
    for (int64_t i = 0; i < n; i++) {
        float value = values[i] * scale;
        values[i] = value > 0.5f ? 1.0f : value < -0.5f ? -1.0f : 0.0f;
    }
}

kt_status kt__ternary_unpack(const kt__planned *t, int64_t begin, int64_t end, float *out,
                             kt_error *err) {
    enum { BYTES = 1024 };
    uint8_t packed[BYTES];
    int64_t n_packed = t->n_rows / 4;
    kt_status status = KT_OK;
    for (int64_t r = begin; r < end && status == KT_OK; r++) {
        int shift = 2 * (int)(r / n_packed);
        uint64_t row = (uint64_t)(r % n_packed * t->n_cols);
        for (int64_t at = 0, some; at < t->n_cols && status == KT_OK; at += some) {
            some = t->n_cols - at < BYTES ? t->n_cols - at : BYTES;
            status = kt__weight_read(&t->source, row + (uint64_t)at, packed, (size_t)some, err);
            for (int64_t i = 0; i < some && status == KT_OK; i++)
                *out++ = (float)((packed[i] >> shift & 3) - 1);
        }
    }
    return status;
}
