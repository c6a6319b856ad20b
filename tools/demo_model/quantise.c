/*
 * quantise TYPE ROW_LEN [--back] < f32 rows > blocks (or, with --back, the f32 they decode to)
 *
 * The filter through which export.py reaches kentang's own encoders (src/quant).
 */
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    kt__type type = argc > 2 ? kt__type_from_name(argv[1]) : KT__TYPE_COUNT;
    long n = argc > 2 ? atol(argv[2]) : 0;
    int back = argc > 3 && !strcmp(argv[3], "--back");
    if (type == KT__TYPE_COUNT || n < 1 || n % kt__type_get(type)->block_elems) {
        fprintf(stderr, "quantise: usage: quantise TYPE ROW_LEN [--back]; the row must be whole "
                        "blocks of the type\n");
        return 2;
    }
    size_t bytes = kt__type_row_bytes(type, n);
    float *row = malloc(sizeof(float) * (size_t)n);
    void *out = malloc(bytes);
    if (!row || !out) return 1;
    while (fread(row, sizeof(float), (size_t)n, stdin) == (size_t)n) {
        kt__quantize_row(type, row, n, out);
        if (back) kt__dequantize_row(type, out, n, row);
        size_t size = back ? sizeof(float) * (size_t)n : bytes;
        if (fwrite(back ? (const void *)row : out, 1, size, stdout) != size) return 1;
    }
    free(row), free(out);
    return fflush(stdout) ? 1 : 0;
}
