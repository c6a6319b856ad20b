#include "model/experts.h"

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

/* Address-space buffers of a batch, as the forward pass has them. */
typedef enum expert_buf {
    BUF_ROUTER, /* [n_tok][n_expert] logits */
    BUF_SHARED, /* [n_tok] the shared expert's gate */
    BUF_ROWS,   /* few tokens: [slots][d_ff_expert] */
    BUF_ACT0,   /* [slots] activation rows of d_ff_expert */
    BUF_ROUTING = BUF_ACT0 + KT__ACT_COUNT,
    BUF_GUESS, /* the routing that a layer's input suggests for the next layer, of few tokens */
    BUFS
} expert_buf;

struct kt__experts {
    const kt__net *net;
    kt__dev *dev;
    const kt__ops *ops;      /* of the layer at hand */
    kt__expert_store *store; /* or NULL */
    uint64_t need;           /* the store's number of the layer's need */
    kt__routing routing, guess;
    void *buf[BUFS];
    size_t buf_bytes[BUFS];
};

/* The kinds of activations that some layer's down product reads, in a pass that is exact or not. */
static unsigned down_kinds(const kt__net *net) {
    unsigned kinds = 1u << KT__ACT_F32; /* exact */
    for (int i = 0; i < net->hp.n_layer; i++) {
        const kt__weight *down = &net->layers[i].down_exps.w;
        if (down->data) kinds |= 1u << kt__type_get(down->type)->act;
    }
    return kinds;
}

static int few_tokens(int n_tok) {
    return n_tok < KT__GLU_ROWWISE ? n_tok : KT__GLU_ROWWISE;
}

static uint64_t plan_buffers(const kt__net *net, int n_tok, size_t *bytes) {
    const kt__hparams *hp = &net->hp;
    size_t n = (size_t)n_tok, slots = n * (size_t)hp->n_expert_used, f = sizeof(float);
    int few = few_tokens(n_tok);
    unsigned kinds = down_kinds(net);
    uint64_t sum = 0;
    bytes[BUF_ROUTER] = n * (size_t)hp->n_expert * f;
    bytes[BUF_SHARED] = n * f;
    bytes[BUF_ROWS] = (size_t)few * (size_t)hp->n_expert_used * (size_t)hp->d_ff_expert * f;
    bytes[BUF_ROUTING] = kt__routing_bytes(n_tok, hp->n_expert, hp->n_expert_used);
    bytes[BUF_GUESS] = kt__routing_bytes(few, hp->n_expert, hp->n_expert_used);
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        bytes[BUF_ACT0 + kind] = 0;
        if (!(kinds >> kind & 1)) continue;
        size_t row = kt__act_layout_of((kt__act_kind)kind, hp->d_ff_expert).row_bytes;
        bytes[BUF_ACT0 + kind] = slots * row;
    }
    for (int i = 0; i < BUFS; i++) sum += bytes[i];
    return sum;
}

uint64_t kt__experts_plan_bytes(const kt__net *net, int n_tok) {
    size_t bytes[BUFS];
    return net->hp.n_expert ? plan_buffers(net, n_tok, bytes) : 0;
}

kt_status kt__experts_create(const kt__net *net, kt__dev *dev, kt__expert_store *store, int n_tok,
                             kt__experts **out, kt_error *err) {
    kt_status status = KT_OK;
    *out = NULL;
    if (net->hp.n_expert == 0) return KT_OK;
    kt__experts *e = kt__calloc(1, sizeof *e);
    if (!e) return kt__fail_nomem(err, "the experts' scratch", sizeof *e);
    e->net = net;
    e->dev = dev;
    e->store = kt__expert_store_bytes(store) ? store : NULL;
    (void)plan_buffers(net, n_tok, e->buf_bytes);
    for (int i = 0; i < BUFS; i++) {
        if (e->buf_bytes[i] == 0) continue;
        e->buf[i] = kt__pages_alloc(e->buf_bytes[i]);
        if (e->buf[i]) continue;
        status = kt__fail_nomem(err, "the experts' scratch", e->buf_bytes[i]);
        goto out;
    }
    kt__routing_place(&e->routing, n_tok, net->hp.n_expert, net->hp.n_expert_used,
                      e->buf[BUF_ROUTING]);
    kt__routing_place(&e->guess, few_tokens(n_tok), net->hp.n_expert, net->hp.n_expert_used,
                      e->buf[BUF_GUESS]);
    *out = e;
    e = NULL;
out:
    kt__experts_destroy(e);
    return status;
}

void kt__experts_destroy(kt__experts *experts) {
    if (!experts) return;
    for (int i = 0; i < BUFS; i++) kt__pages_free(experts->buf[i], experts->buf_bytes[i]);
    kt__free(experts);
}

kt_status kt__experts_share(const kt__experts *experts, kt__gpu_set *set, kt_error *err) {
    for (int i = 0; i < BUFS; i++)
        if (experts->buf[i])
            KT__STEP(kt__gpu_set_share(set, experts->buf[i], experts->buf_bytes[i], err));
    return KT_OK;
}

kt__glu_kind kt__glu_kind_of(kt__features features) {
    if (features & KT__F_CLAMPED) return KT__GLU_CLAMPED;
    if (features & KT__F_RELU2) return KT__GLU_RELU2;
    if (features & KT__F_PLAIN_FF) return KT__GLU_GELU_ALONE;
    return features & KT__F_GELU ? KT__GLU_GELU : KT__GLU_SILU;
}

int kt__experts_readers(const kt__layer *layer, const kt__weight *out[KT__EXPERT_READERS]) {
    int n = 0;
    const kt__weight *all[KT__EXPERT_READERS] = {
        &layer->t[KT__SLOT_ROUTER].w, &layer->gate_exps.w, &layer->up_exps.w,
        &layer->shared_share,         &layer->gate,        &layer->up,
    };
    for (int i = 0; i < KT__EXPERT_READERS; i++)
        if (all[i]->data) out[n++] = all[i];
    return n;
}

static bool route_by(kt__experts *e, const kt__layer *layer, const kt__acts *acts, float *shared,
                     kt__routing *routing) {
    const kt__hparams *hp = &e->net->hp;
    float *logits = e->buf[BUF_ROUTER];
    e->ops->matmul(e->dev, &layer->t[KT__SLOT_ROUTER].w, acts, layer->t[KT__SLOT_ROUTER_BIAS].v,
                   NULL, NULL, 0, logits, (size_t)hp->n_expert);
    const kt__route route = {.logits = logits,
                             .n_tok = acts->n_tok,
                             .shares = hp->shares,
                             .normed = hp->shares_normed,
                             .pick_bias = layer->t[KT__SLOT_PICK_BIAS].v,
                             .n_group = hp->n_expert_group,
                             .n_group_used = hp->n_group_used,
                             .scale = hp->expert_scale,
                             .expert_scale = layer->t[KT__SLOT_DOWN_SCALE].v,
                             .shared_gate = shared};
    return e->ops->route(e->dev, &route, routing);
}

/* The next layer's router, of what this one's reads, since a layer changes that little; of many tokens all of its
 * experts. */
static void expect_next(kt__experts *e, const kt__layer *layer, const kt__acts *acts) {
    const kt__net *net = e->net;
    const kt__layer *end = net->layers + net->hp.n_layer, *next = layer + 1;
    while (next < end && !next->down_exps.w.data) next++;
    if (next >= end) return;
    const kt__weight *router = &next->t[KT__SLOT_ROUTER].w;
    unsigned kind = 1u << kt__dev_act_kind(e->dev, router, acts->n_tok);
    int number = (int)(next - net->layers);
    if (acts->n_tok > KT__GLU_ROWWISE)
        kt__expert_store_expect(e->store, number, NULL);
    else if (acts->kinds & kind && route_by(e, next, acts, NULL, &e->guess))
        kt__expert_store_expect(e->store, number, &e->guess);
}

/* Where the layer's experts are read as they are needed: not those that a device has. */
static kt__expert_store *store_of(const kt__experts *e) {
    return e->ops == kt__dev_ops(e->dev) ? e->store : NULL;
}

bool kt__experts_choose(kt__experts *e, const kt__ops *ops, const kt__layer *layer,
                        const kt__acts *acts) {
    float *shared = NULL;
    e->ops = ops;
    if (layer->shared_share.data) {
        shared = e->buf[BUF_SHARED];
        ops->matmul(e->dev, &layer->shared_share, acts, NULL, NULL, NULL, 0, shared, 1);
    }
    if (!route_by(e, layer, acts, shared, &e->routing)) return false;
    if (!store_of(e)) return true;
    e->need = kt__expert_store_need(e->store, (int)(layer - e->net->layers), &e->routing, true);
    expect_next(e, layer, acts);
    return true;
}

/* ---- where they are read as they are needed ---- */

enum { PART_GATE, PART_UP, PART_DOWN };

static kt_status await_parts(const kt__experts *e, unsigned parts, kt_error *err) {
    return store_of(e) ? kt__expert_store_wait(e->store, parts, err) : KT_OK;
}

/* Between the parts of a layer another pass may have needed others. */
static void need_again(kt__experts *e, const kt__layer *layer) {
    if (!store_of(e) || kt__expert_store_is_last(e->store, e->need)) return;
    e->need = kt__expert_store_need(e->store, (int)(layer - e->net->layers), &e->routing, false);
}

static kt__expert_weights weights_in(const kt__experts *e, const kt__layer *layer, int part) {
    const kt__expert_weights *mapped[] = {&layer->gate_exps, &layer->up_exps, &layer->down_exps};
    if (!store_of(e)) return *mapped[part];
    return *kt__expert_store_part(e->store, (int)(layer - e->net->layers), part);
}

/* The slots' activation rows for the down product. */
static kt__acts slot_acts(const kt__experts *e, const kt__layer *layer) {
    const kt__weight *down = &layer->down_exps.w;
    kt__act_kind kind = kt__dev_act_kind(e->dev, down, KT__EXPERT_TOKENS);
    kt__acts acts = {.n_tok = e->routing.n_slot, .n_col = down->n_col, .kinds = 1u << kind};
    acts.layout[kind] = kt__act_layout_of(kind, down->n_col);
    acts.data[kind] = e->buf[BUF_ACT0 + (int)kind];
    return acts;
}

kt_status kt__experts_up(kt__experts *e, const kt__layer *layer, const kt__acts *acts,
                         kt_error *err) {
    KT__STEP(await_parts(e, 1u << PART_GATE | 1u << PART_UP, err));
    const kt__experts_glu glu = {
        .routing = &e->routing,
        .gate = weights_in(e, layer, PART_GATE),
        .up = weights_in(e, layer, PART_UP),
        .kind = kt__glu_kind_of(e->net->hp.features),
        .weighed = e->net->hp.features & KT__F_WEIGHED_INPUT,
        .rows = e->buf[BUF_ROWS],
    };
    kt__acts out = slot_acts(e, layer);
    e->ops->experts_glu(e->dev, acts, &glu, &out);
    return KT_OK;
}

kt_status kt__experts_add(kt__experts *e, const kt__layer *layer, float *sum, float *x,
                          kt_error *err) {
    need_again(e, layer);
    KT__STEP(await_parts(e, 1u << PART_DOWN, err));
    const kt__acts acts = slot_acts(e, layer);
    const kt__experts_down down = {
        .routing = &e->routing,
        .down = weights_in(e, layer, PART_DOWN),
        .weighed = e->net->hp.features & KT__F_WEIGHED_INPUT,
        .shared = x && layer->down.data,
        .shared_share = layer->shared_share.data ? e->buf[BUF_SHARED] : NULL,
        .sum = sum,
        .x = x,
    };
    e->ops->experts_down(e->dev, &acts, &down);
    return KT_OK;
}
