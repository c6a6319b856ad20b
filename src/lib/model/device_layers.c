#include "model/device_layers.h"

#include "base/alloc.h"
#include "base/error.h"

/* What a layer's program does besides attention and a gated feed-forward part. */
static const uint64_t others = KT__F_ENCODER | KT__F_LAYER_NORMS | KT__F_STREAMS | KT__F_LATENT |
                               KT__F_LAYER_INPUTS | KT__F_BRANCHES | KT__F_SUB_NORMS |
                               KT__F_ASSISTANT;

/* A layer's matrix, or one of each expert. */
typedef struct matrix {
    const uint8_t *data; /* NULL: absent */
    kt__type type;
    size_t n, stride, last; /* so many, so far apart; bytes of the last one */
} matrix;

enum { DENSE = 9, MATRICES = DENSE + 3 };

static matrix one_matrix(const kt__weight *w) {
    size_t bytes = (size_t)w->n_row * w->row_bytes;
    return (matrix){w->data, w->type, 1, bytes, bytes};
}

static matrix matrix_of_experts(const kt__net *net, const kt__expert_weights *w) {
    return (matrix){w->w.data, w->w.type, (size_t)net->hp.n_expert, w->stride,
                    (size_t)w->w.n_row * w->w.row_bytes};
}

static void matrices_of(const kt__net *net, int i, matrix out[MATRICES]) {
    const kt__layer *l = &net->layers[i];
    const kt__weight *dense[DENSE] = {&l->wq,          &l->wk, &l->wv,   &l->t[KT__SLOT_ATTN_OUT].w,
                                      &l->gate,        &l->up, &l->down, &l->t[KT__SLOT_ROUTER].w,
                                      &l->shared_share};
    for (int m = 0; m < DENSE; m++) out[m] = one_matrix(dense[m]);
    matrix *gate = &out[DENSE], *up = gate + 1;
    *gate = matrix_of_experts(net, &l->gate_exps);
    *up = matrix_of_experts(net, &l->up_exps);
    out[DENSE + 2] = matrix_of_experts(net, &l->down_exps);
    if (up->data > gate->data && up->data < gate->data + gate->stride) { /* both in turn */
        gate->last = gate->stride;
        up->data = NULL;
    }
}

static bool prove_type(kt__device_layers *d, kt__type type) {
    kt_error why;
    if (d->refused >> type & 1) return false;
    if (kt__gpu_prove_type(d->gpu, type, &why) == KT_OK) return true;
    d->refused |= (uint64_t)1 << type;
    kt__log_line(d->log, KT_LOG_WARN, "%s", why.message);
    return false;
}

static bool is_fit(const kt__net *net, int i) {
    const kt__layer *layer = &net->layers[i];
    matrix all[MATRICES];
    bool gated = layer->gate.data || (layer->down_exps.w.data && !layer->up.data);
    if (net->hp.features & others || layer->mixer != KT__MIX_ATTENTION || net->hp.no_ff[i] ||
        !gated)
        return false;
    matrices_of(net, i, all);
    for (int m = 0; m < MATRICES; m++)
        if (all[m].data && !kt__gpu_takes(all[m].type)) return false;
    return true;
}

/* Whether the device multiplies with all types of the layer; where not, the log has said why, once for a type. */
static bool is_proved(kt__device_layers *d, const kt__net *net, int i) {
    matrix all[MATRICES];
    bool proved = true;
    matrices_of(net, i, all);
    for (int m = 0; m < MATRICES; m++) proved &= !all[m].data || prove_type(d, all[m].type);
    return proved;
}

/* Memory that buffers of passes need, and other programs: of what a device has. */
enum { LEFT_SHARE = 8 };
#define LEFT_LEAST ((uint64_t)384 << 20)

/* Whether weights find room by themselves; others are given what there is. */
static bool has_room(const kt__device_layers *d, uint64_t bytes) {
    uint64_t has = kt__gpu_get_info(d->gpu)->memory_bytes, left = has / LEFT_SHARE;
    if (!d->by_itself || !kt__gpu_copies(d->gpu)) return true;
    if (left < LEFT_LEAST) left = LEFT_LEAST;
    return kt__gpu_free_bytes(d->gpu) >= bytes + left;
}

static uint64_t layer_bytes(const kt__net *net, int i) {
    matrix all[MATRICES];
    uint64_t bytes = 0;
    matrices_of(net, i, all);
    for (int m = 0; m < MATRICES; m++)
        if (all[m].data) bytes += (uint64_t)all[m].n * all[m].stride;
    return bytes;
}

/* Whole experts at once: a device takes no more than some bytes in one piece, and no matrix may lie in two. */
enum { PIECE_BYTES = 256 << 20 };

static kt_status place_matrix(kt__gpu_set *set, matrix m, kt_error *err) {
    size_t most = m.data && m.stride < PIECE_BYTES ? PIECE_BYTES / m.stride : 1;
    for (size_t i = 0; m.data && i < m.n; i += most) {
        size_t n = m.n - i < most ? m.n - i : most;
        KT__STEP(kt__gpu_set_place(set, m.data + i * m.stride, (n - 1) * m.stride + m.last, err));
    }
    return KT_OK;
}

/* Norms and biases: all of the layer's tensors that are values. */
static kt_status place_vectors(kt__gpu_set *set, const kt__net *net, int i, kt_error *err) {
    const kt__layer *layer = &net->layers[i];
    for (int slot = 0; slot < KT__SLOT_COUNT; slot++) {
        kt__slot_shape shape;
        if (!layer->t[slot].v || !kt__slot_shape_of(&net->hp, i, (kt__slot)slot, &shape)) continue;
        size_t n = (size_t)(shape.n_cols * shape.n_rows * (shape.n_in > 0 ? shape.n_in : 1));
        KT__STEP(kt__gpu_set_copy(set, layer->t[slot].v, n * sizeof(float), err));
    }
    return KT_OK;
}

static kt_status place_layer(kt__gpu_set *set, const kt__net *net, int i, kt_error *err) {
    matrix all[MATRICES];
    matrices_of(net, i, all);
    for (int m = 0; m < MATRICES; m++) KT__STEP(place_matrix(set, all[m], err));
    return place_vectors(set, net, i, err);
}

static kt_status place_head(kt__device_layers *d, const kt__net *net, kt_error *err) {
    if (!net->head.data || !kt__gpu_takes(net->head.type) || !prove_type(d, net->head.type) ||
        !has_room(d, (uint64_t)net->head.n_row * net->head.row_bytes))
        return KT_OK;
    KT__STEP(place_matrix(d->weights, one_matrix(&net->head), err));
    if (net->head_bias)
        KT__STEP(kt__gpu_set_copy(d->weights, net->head_bias,
                                  (size_t)net->hp.n_vocab * sizeof(float), err));
    d->head = true;
    return KT_OK;
}

static bool is_full(kt_status status) {
    return status == KT_E_NOMEM;
}

/* From the last on, until memory is used up, which is no error. */
static kt_status place_layers(kt__device_layers *d, const kt__net *net, bool head, kt_error *err) {
    kt_error full;
    int n = net->hp.n_layer;
    kt_status status = head ? place_head(d, net, &full) : KT_OK;
    for (int i = n - 1; status == KT_OK && i >= n - d->n_asked; i--) {
        if (!is_fit(net, i) || !is_proved(d, net, i)) {
            d->n_unfit++;
            continue;
        }
        if (!has_room(d, layer_bytes(net, i))) break;
        status = place_layer(d->weights, net, i, &full);
        d->has[i] = status == KT_OK;
        d->n += d->has[i];
    }
    if (status == KT_OK) return KT_OK;
    if (!is_full(status)) return kt__fail(err, status, "%s", full.message);
    kt__log_line(d->log, KT_LOG_WARN, "%s: %d of %d layers are there, the others on the processor",
                 full.message, d->n, d->n_asked);
    return KT_OK;
}

static void report_layers(const kt__device_layers *d, const kt__net *net) {
    const kt__gpu_info *info = kt__gpu_get_info(d->gpu);
    kt__log_line(
        d->log, KT_LOG_INFO, "%d of %d layers%s on %s (%s; fma %s; exact by %s)%s", d->n,
        net->hp.n_layer, d->head ? " and the head" : "", info->name, info->driver,
        kt__gpu_fma_name(d->gpu), info->by_word ? "the driver's word and test" : "test",
        d->n_unfit
            ? "; layers of other kinds (recurrent parts, other types of weights) stay on the processor"
            : "");
}

static int longest_head(const kt__net *net) {
    const kt__layer_sizes wide = kt__hparams_widest(&net->hp);
    return wide.head_dim_k > wide.head_dim_v ? wide.head_dim_k : wide.head_dim_v;
}

kt_status kt__device_layers_place(const kt__net *net, kt__gpu *gpu, int n, kt__logger *log,
                                  kt__device_layers **out, kt_error *err) {
    kt_status status;
    int n_layer = net->hp.n_layer;
    *out = NULL;
    kt__device_layers *d = kt__calloc(1, sizeof *d);
    if (!d) return kt__fail_nomem(err, "a device's layers", sizeof *d);
    d->gpu = gpu;
    d->log = log;
    d->by_itself = n < 0;
    d->n_asked = n < 0 || n > n_layer ? n_layer : n;
    if (d->by_itself && kt__gpu_get_info(gpu)->software) n = d->n_asked = 0;
    d->has = kt__calloc((size_t)n_layer, sizeof *d->has);
    if (!d->has) {
        status = kt__fail_nomem(err, "a device's layers", (size_t)n_layer);
        goto out;
    }
    KT__TRY(kt__gpu_set_create(gpu, &d->weights, err));
    KT__TRY(place_layers(d, net, n < 0 || n > n_layer, err));
    if (net->ones && d->n)
        KT__TRY(kt__gpu_set_copy(d->weights, net->ones, (size_t)longest_head(net) * sizeof(float),
                                 err));
    report_layers(d, net);
    d->before_us = kt__gpu_get_use(gpu).wait_us;
    *out = d;
    d = NULL;
out:
    kt__device_layers_free(d);
    return status;
}

void kt__device_layers_free(kt__device_layers *d) {
    if (!d) return;
    kt__gpu_set_destroy(d->weights);
    kt__free(d->has);
    kt__free(d);
}
