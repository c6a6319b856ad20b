#include "convert/ternary.h"

#include "base/alloc.h"
#include "base/error.h"

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
