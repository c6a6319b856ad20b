/* Block formats against llama.cpp's own codec: decoding bit for bit, encoding by its error.
 * Usage: quant libggml-base.so. Built and run by quant.sh. */
#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "quant/quant.h"

typedef void decode_fn(const void *src, float *dst, int64_t n);
typedef size_t chunk_fn(int type, const float *src, void *dst, int64_t start, int64_t n_row,
                        int64_t n_per_row, const float *importance);

enum { N = 256 * 256 };
static float x[N], ours[N], theirs[N];
static uint8_t bytes[N * 4];

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static float normal(uint64_t *state) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += (float)(next(state) >> 40) * 0x1p-24f;
    return sum - 6;
}

/* dequantize_row_q4_K: the family in lower case, the K in upper case */
static decode_fn *find_decode(void *library, const char *type) {
    char name[64];
    int n = snprintf(name, sizeof name, "dequantize_row_%s", type);
    for (int i = 15; i < n; i++) {
        bool k = name[i] == 'K' && name[i - 1] == '_';
        if (!k) name[i] = (char)tolower((unsigned char)name[i]);
    }
    decode_fn *fn;
    void *symbol = dlsym(library, name);
    memcpy(&fn, &symbol, sizeof fn);
    return fn;
}

/* Any bytes at all, infinite and NaN scales among them. */
static int compare_decode(kt__type type, decode_fn *decode) {
    uint64_t seed = 1;
    size_t size = kt__type_row_bytes(type, N);
    int differing = 0;
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)next(&seed);
    kt__dequantize_row(type, bytes, N, ours);
    decode(bytes, theirs, N);
    for (int i = 0; i < N; i++) {
        bool both_nan = ours[i] != ours[i] && theirs[i] != theirs[i];
        differing += !both_nan && ours[i] != theirs[i];
    }
    return differing;
}

static double error_percent(kt__type type) {
    double error = 0, power = 0;
    kt__dequantize_row(type, bytes, N, ours);
    for (int i = 0; i < N; i++) {
        error += ((double)x[i] - (double)ours[i]) * ((double)x[i] - (double)ours[i]);
        power += (double)x[i] * (double)x[i];
    }
    return 100 * sqrt(error / power);
}

static int compare_type(void *library, chunk_fn *chunk, kt__type type) {
    const kt__type_info *info = kt__type_get(type);
    decode_fn *decode = find_decode(library, info->name);
    if (!decode || info->act == KT__ACT_F32) return 0;
    int differing = compare_decode(type, decode), worse = 0;
    printf("%-7s decode: %d of %d differ; encode, relative rms error %% kentang / llama.cpp:",
           info->name, differing, N);
    for (int shape = 0; shape < 2; shape++) {
        uint64_t seed = 2;
        for (int i = 0; i < N; i++) {
            float z = normal(&seed);
            x[i] = 0.02f * (shape ? z * z * z : z);
        }
        kt__quantize_row(type, x, N, bytes);
        double mine = error_percent(type);
        chunk((int)info->ggml_id, x, bytes, 0, N / 256, 256, NULL);
        double other = error_percent(type);
        printf(" %s %.3f / %.3f", shape ? "heavy-tailed" : "normal", mine, other);
        worse += mine > 1.01 * other;
    }
    printf("%s\n", worse ? "  WORSE" : "");
    return differing + worse;
}

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "usage: quant libggml-base.so (%s)\n",
                argc == 2 ? dlerror() : "none given");
        return 2;
    }
    chunk_fn *chunk;
    void *symbol = dlsym(library, "ggml_quantize_chunk");
    if (!symbol) {
        fprintf(stderr, "no ggml_quantize_chunk in %s\n", argv[1]);
        return 2;
    }
    memcpy(&chunk, &symbol, sizeof chunk);
    int bad = 0;
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++)
        bad += compare_type(library, chunk, type);
    return bad ? 1 : 0;
}
