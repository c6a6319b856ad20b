/* What a network keeps of a sequence. */
#include "model/net.h"

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
