/* What a network keeps of a sequence, and who else may read it. */
#include "model/net.h"

#include "base/error.h"

static void set_local_heads(const kt__net *net, kt__kv_shape *shape) {
    const kt__layer_sizes *of = &net->hp.local;
    shape->n_reread = net->n_kv_reread;
    shape->other = (kt__kv_heads){of->n_head_kv, of->head_dim_k, of->head_dim_v};
    for (int i = 0; i < net->hp.n_layer; i++) {
        int at = net->layers[i].kv_layer;
        if (net->layers[i].local) shape->others[at / 64] |= (uint64_t)1 << (at % 64);
    }
}

/* The window ends within a page: one more than those that it fills is read. */
static void set_window(const kt__net *net, kt__kv_shape *shape) {
    shape->n_window = (int)((net->hp.window + KT__PAGE_POS - 2) / KT__PAGE_POS);
    for (int i = 0; i < net->hp.n_layer; i++) {
        int at = net->layers[i].kv_layer;
        if (net->layers[i].local) shape->locals[at / 64] |= (uint64_t)1 << (at % 64);
    }
}

kt__kv_shape kt__net_kv_shape(const kt__net *net) {
    const kt__hparams *hp = &net->hp;
    kt__kv_shape shape = {
        /* an encoder's are of one layer after the other */
        .n_layer = hp->features & KT__F_ENCODER ? 1 : net->n_kv_layer,
        .n_head_kv = hp->n_head_kv,
        .head_dim_k = hp->head_dim_k,
        .head_dim_v = hp->head_dim_v,
        .state_bytes = net->state_floats * sizeof(float),
    };
    if (shape.n_layer == 0) shape.n_layer = 1; /* pages count positions, and hold next to nothing */
    if (hp->features & KT__F_LOCAL_HEADS) set_local_heads(net, &shape);
    if (hp->window > 1 && !(hp->features & KT__F_ENCODER)) set_window(net, &shape);
    return shape;
}

/* ---- an assistant ---- */

static const kt__layer *last_of_kind(const kt__net *net, bool local) {
    for (int i = net->hp.n_layer - 1; i >= 0; i--)
        if (net->layers[i].local == local) return &net->layers[i];
    return NULL;
}

int kt__net_last_kv(const kt__net *net, bool local) {
    const kt__layer *layer = last_of_kind(net, local);
    return layer ? layer->kv_layer : -1;
}

typedef struct host_number {
    const char *what;
    int64_t wanted, is;
} host_number;

static kt_status check_numbers(const host_number *numbers, size_t n, kt_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (numbers[i].wanted == numbers[i].is) continue;
        return kt__fail(err, KT_E_ARG,
                        "the assistant is for a model with %s %lld, and the model's is %lld: each "
                        "gemma-4 model has an assistant of its own",
                        numbers[i].what, (long long)numbers[i].wanted, (long long)numbers[i].is);
    }
    return KT_OK;
}

static kt_status check_layer(const kt__net *host, const kt__layer *layer, kt_error *err) {
    const kt__layer *from = last_of_kind(host, layer->local);
    const char *kind = layer->local ? "with a sliding window" : "without a window";
    if (!from)
        return kt__fail(err, KT_E_ARG,
                        "the assistant reads keys and values of a layer %s, and the model has none",
                        kind);
    const host_number numbers[] = {
        {"key heads", layer->sizes.n_head_kv, from->sizes.n_head_kv},
        {"a key length of", layer->sizes.head_dim_k, from->sizes.head_dim_k},
        {"a value length of", layer->sizes.head_dim_v, from->sizes.head_dim_v}};
    return check_numbers(numbers, sizeof numbers / sizeof *numbers, err);
}

kt_status kt__net_check_host(const kt__net *assistant, const kt__net *host, kt_error *err) {
    const kt__hparams *hp = &assistant->hp;
    const host_number numbers[] = {{"rows of", hp->d_host, host->hp.d_model},
                                   {"a sliding window of", hp->window, host->hp.window}};
    if (!(host->hp.features & KT__F_LOCAL_HEADS) || host->hp.n_stream ||
        host->hp.features & KT__F_ASSISTANT)
        return kt__fail(err, KT_E_ARG,
                        "%s proposes tokens of gemma4 models, and the model is %s: leave "
                        "--draft-model out, or name a smaller model with the same vocabulary",
                        hp->arch, host->hp.arch);
    KT__STEP(check_numbers(numbers, sizeof numbers / sizeof *numbers, err));
    for (int i = 0; i < hp->n_layer; i++) KT__STEP(check_layer(host, &assistant->layers[i], err));
    return KT_OK;
}
