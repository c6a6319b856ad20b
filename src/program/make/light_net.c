#include "make/light_net.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"
#include "quant/quant.h"

enum { N_MATRICES = 7, BLOCK = 32 };

static void list_matrices(kt__layer *layer, kt__weight *out[N_MATRICES]) {
    kt__weight *all[N_MATRICES] = {
        &layer->wq,   &layer->wk, &layer->wv,  &layer->t[KT__SLOT_ATTN_OUT].w,
        &layer->gate, &layer->up, &layer->down};
    memcpy(out, all, sizeof all);
}

static bool is_heavy(const kt__weight *w) {
    bool floats = w->type == KT__TYPE_F32 || w->type == KT__TYPE_F16 || w->type == KT__TYPE_BF16;
    return w->data && floats && w->n_col % BLOCK == 0;
}

static size_t light_bytes(const kt__weight *w) {
    return kt__align_up((size_t)w->n_row * kt__type_row_bytes(KT__TYPE_Q8_0, w->n_col), 64);
}

/* The most bytes that a layer takes, and the longest row. */
static void measure_layers(kt__light_net *light) {
    for (int i = 0; i < light->net.hp.n_layer; i++) {
        kt__weight *matrices[N_MATRICES];
        size_t bytes = 0;
        list_matrices(&light->net.layers[i], matrices);
        for (int m = 0; m < N_MATRICES; m++) {
            if (!is_heavy(matrices[m])) continue;
            bytes += light_bytes(matrices[m]);
            if (matrices[m]->n_col > light->n_longest) light->n_longest = matrices[m]->n_col;
        }
        if (bytes > light->room_bytes) light->room_bytes = bytes;
    }
}

kt_status kt__light_net_make(const kt__net *net, kt__pool *pool, kt__light_net *out,
                             kt_error *err) {
    size_t n = (size_t)net->hp.n_layer;
    *out = (kt__light_net){.net = *net, .plain = net->layers, .pool = pool, .layer = -1};
    out->net.layers = kt__calloc(n, sizeof *out->net.layers);
    if (!out->net.layers) return kt__fail_nomem(err, "a table of layers", n);
    memcpy(out->net.layers, net->layers, n * sizeof *net->layers);
    measure_layers(out);
    if (out->room_bytes == 0) return KT_OK;
    size_t row_floats = (size_t)kt__pool_size(pool) * (size_t)out->n_longest;
    out->room = kt__pages_alloc(out->room_bytes);
    out->rows = kt__calloc(row_floats, sizeof *out->rows);
    if (!out->room || !out->rows)
        return kt__fail_nomem(err, "a layer in 8 bits", out->room_bytes + 4 * row_floats);
    return KT_OK;
}

typedef struct lighten_job {
    const kt__light_net *light;
    const kt__weight *from;
    uint8_t *to;
    size_t to_bytes; /* of a row */
} lighten_job;

static void lighten_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const lighten_job *job = arg;
    const kt__weight *w = job->from;
    float *row = job->light->rows + (size_t)worker * (size_t)job->light->n_longest;
    for (int64_t r = begin; r < end; r++) {
        kt__dequantize_row(w->type, w->data + (size_t)r * w->row_bytes, w->n_col, row);
        kt__quantize_row(KT__TYPE_Q8_0, row, w->n_col, job->to + (size_t)r * job->to_bytes);
    }
}

void kt__light_net_enter(kt__light_net *light, int layer) {
    kt__weight *matrices[N_MATRICES];
    uint8_t *to = light->room;
    if (light->layer == layer) return;
    if (light->layer >= 0) light->net.layers[light->layer] = light->plain[light->layer];
    light->layer = layer;
    list_matrices(&light->net.layers[layer], matrices);
    for (int m = 0; m < N_MATRICES; m++) {
        kt__weight *w = matrices[m];
        if (!is_heavy(w)) continue;
        lighten_job job = {light, w, to, kt__type_row_bytes(KT__TYPE_Q8_0, w->n_col)};
        size_t bytes = light_bytes(w);
        kt__pool_run(light->pool, w->n_row, 16, lighten_rows, &job);
        *w = (kt__weight){to, KT__TYPE_Q8_0, w->n_row, w->n_col, job.to_bytes};
        to += bytes;
    }
}

void kt__light_net_free(kt__light_net *light) {
    if (light->room) kt__pages_free(light->room, light->room_bytes);
    kt__free(light->rows);
    kt__free(light->net.layers);
    *light = (kt__light_net){0};
}
