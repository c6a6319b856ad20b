#include "model/key_bias.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACTOR = 8 };

_Static_assert((int)KT__KV_LAYERS_MAX == (int)KT__MAX_LAYERS, "layers");

static double bias_length(const kt__net *net, int layer) {
    const float *bias = net->layers[layer].bk;
    const kt__layer_sizes *of = &net->layers[layer].sizes;
    double sum = 0;
    for (int i = 0; bias && i < of->n_head_kv * of->head_dim_k; i++)
        sum += (double)bias[i] * (double)bias[i];
    return sqrt(sum);
}

static int compare_lengths(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void kt__key_bias_outliers(const kt__net *net, uint64_t bits[KT__KV_LAYERS_MAX / 64]) {
    double length[KT__MAX_LAYERS], sorted[KT__MAX_LAYERS];
    int n = net->hp.n_layer;
    memset(bits, 0, KT__KV_LAYERS_MAX / 8);
    for (int i = 0; i < n; i++) sorted[i] = length[i] = bias_length(net, i);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_lengths);
    for (int i = 0; i < n; i++) {
        if (length[i] > FACTOR * sorted[n / 2]) bits[i / 64] |= (uint64_t)1 << (i % 64);
    }
}
