#include "model/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef enum dim_id {
#define X(name, value, form) DIM_##name,
#include "model/dims.def"
#undef X
} dim_id;

typedef enum dim_form { FORM_MATRIX, FORM_FLOATS, FORM_EXPERTS, FORM_HEADS } dim_form;

static const dim_form forms[] = {
#define X(name, value, form) [DIM_##name] = FORM_##form,
#include "model/dims.def"
#undef X
};

static const struct slot_row {
    const char *name;
    dim_id rows, cols;
    kt__tensor_role role;
    kt__features only, unless, needs;
    kt__mixer_kind mixer;
} slots[] = {
#define X(slot, name, rows, cols, role, only, unless, needs, mixer) \
    {name, DIM_##rows, DIM_##cols, KT__TENSOR_##role, only, unless, needs, KT__MIX_##mixer},
#include "model/weights.def"
#undef X
};

static int dim_of(const kt__hparams *hp, const kt__layer_sizes *of, dim_id dim) {
    switch (dim) {
#define X(name, value, form) \
    case DIM_##name:         \
        return value;
#include "model/dims.def"
#undef X
    }
    return 0;
}

typedef struct binder {
    const kt__gguf *gguf;
    kt__net *net;
    kt_error *err;
} binder;

/* What a tensor must be. */
typedef struct shape {
    int cols, rows, depth;
} shape;

static kt_status fail_shape(const binder *b, const char *name, const kt__gguf_tensor *t,
                            shape want) {
    char depth[24] = "";
    if (want.depth > 1) snprintf(depth, sizeof depth, ", %d", want.depth);
    return kt__fail_at(b->err, KT_E_FORMAT, name, t->file_offset,
                       "%s: tensor '%s' has shape [%llu, %llu, %llu, %llu], expected [%d, %d%s]",
                       kt__gguf_path(b->gguf), name, (unsigned long long)t->ne[0],
                       (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
                       (unsigned long long)t->ne[3], want.cols, want.rows, depth);
}

/* The tensor of this name with its type and shape checked; NULL in *out if absent and not required.
 */
static kt_status find_tensor(const binder *b, const char *name, shape want, bool required,
                             const kt__gguf_tensor **out, kt__type *type) {
    const char *path = kt__gguf_path(b->gguf);
    const kt__gguf_tensor *t = kt__gguf_find_tensor(b->gguf, name);
    *out = t;
    if (!t) {
        if (!required) return KT_OK;
        return kt__fail_at(b->err, KT_E_FORMAT, name, UINT64_MAX,
                           "%s: tensor '%s' is missing; the %s architecture needs it", path, name,
                           b->net->hp.arch);
    }
    *type = kt__type_from_ggml(t->type);
    if (*type == KT__TYPE_COUNT || !t->data) {
        return kt__fail_at(
            b->err, KT_E_UNSUPPORTED, name, t->file_offset,
            "%s: tensor '%s' has type %s (number %u), which is not supported: it "
            "needs a codec and products of that type, or the model's file in another "
            "one, such as Q4_K or Q8_0",
            path, name, kt__gguf_tensor_type_name(t->type), t->type);
    }
    bool shape_ok = t->ne[0] == (uint64_t)want.cols && t->ne[1] == (uint64_t)want.rows &&
                    t->ne[2] == (uint64_t)want.depth && t->ne[3] == 1;
    if (!shape_ok) return fail_shape(b, name, t, want);
    return KT_OK;
}

/* Of several matrices, one after the other, out is the first. */
static kt_status bind_matrices(const binder *b, const char *name, shape want, bool required,
                               kt__weight *out) {
    const kt__gguf_tensor *t = NULL;
    kt__type type = KT__TYPE_COUNT;
    kt_status status = find_tensor(b, name, want, required, &t, &type);
    if (status != KT_OK || !t) return status;
    *out = (kt__weight){t->data, type, want.rows, want.cols, kt__type_row_bytes(type, want.cols)};
    return KT_OK;
}

static kt_status bind_matrix(const binder *b, const char *name, int rows, int cols, bool required,
                             kt__weight *out) {
    return bind_matrices(b, name, (shape){cols, rows, 1}, required, out);
}

/* Vectors are used as f32: in place where the file has them so and aligned, else from a copy. */
static kt_status bind_vectors(const binder *b, const char *name, int rows, int cols, bool required,
                              const float **out) {
    const kt__gguf_tensor *t = NULL;
    kt__type type = KT__TYPE_COUNT;
    int64_t n = (int64_t)rows * cols;
    kt_status status = find_tensor(b, name, (shape){cols, rows, 1}, required, &t, &type);
    if (status != KT_OK || !t) return status;
    if (type == KT__TYPE_F32 && (uintptr_t)t->data % sizeof(float) == 0) {
        *out = (const float *)(const void *)t->data;
        return KT_OK;
    }
    float *copy = kt__arena_calloc(&b->net->arena, (size_t)n, sizeof *copy);
    if (!copy) return kt__fail_nomem(b->err, name, (size_t)n * sizeof *copy);
    kt__dequantize_row(type, t->data, n, copy);
    *out = copy;
    return KT_OK;
}

static kt_status bind_vector(const binder *b, const char *name, int n, bool required,
                             const float **out) {
    return bind_vectors(b, name, 1, n, required, out);
}

static kt__mixer_kind mixer_of(const kt__hparams *hp, int layer) {
    if (hp->no_mixer[layer]) return KT__MIX_NONE;
    if (hp->features & KT__F_BOTH) return KT__MIX_BOTH;
    if (hp->features & KT__F_LATENT) return KT__MIX_LATENT;
    if (!hp->recurrent[layer]) return KT__MIX_ATTENTION;
    if (hp->features & KT__F_SCAN) return KT__MIX_SCAN;
    if (hp->features & KT__F_MAMBA) return KT__MIX_MAMBA;
    return hp->features & KT__F_DELTA ? KT__MIX_DELTA : KT__MIX_CONV;
}

static bool has_part(const kt__hparams *hp, int layer, kt__mixer_kind part) {
    kt__mixer_kind mixer = mixer_of(hp, layer);
    if (part == KT__MIX_FF) return !hp->no_ff[layer];
    if (mixer == KT__MIX_BOTH && (part == KT__MIX_ATTENTION || part == KT__MIX_MAMBA)) return true;
    return part == KT__MIX_ANY || part == mixer;
}

/* Whether the layer program has a place for the slot's tensor. */
static bool has_place(const kt__hparams *hp, int layer, const struct slot_row *row) {
    kt__features features = kt__hparams_features_of(hp, layer);
    return has_part(hp, layer, row->mixer) && (features & row->only) == row->only &&
           !(features & row->unless);
}

bool kt__slot_shape_of(const kt__hparams *hp, int layer, kt__slot slot, kt__slot_shape *out) {
    const struct slot_row *row = &slots[slot];
    const kt__layer_sizes sizes = kt__hparams_sizes(hp, layer);
    dim_form form = forms[row->rows];
    bool several = form == FORM_EXPERTS || form == FORM_HEADS;
    if (!has_place(hp, layer, row)) return false;
    *out = (kt__slot_shape){.name = row->name,
                            .role = row->role,
                            .n_dims = row->rows == DIM_ONE ? 1
                                      : several            ? 3
                                                           : 2,
                            .n_cols = dim_of(hp, &sizes, row->cols),
                            .n_rows = dim_of(hp, &sizes, row->rows),
                            .n_in = !several               ? 1
                                    : form == FORM_EXPERTS ? hp->n_expert
                                                           : hp->n_head,
                            .floats = form == FORM_FLOATS,
                            .required = (hp->features & row->needs) == row->needs};
    return true;
}

static kt_status bind_slot(const binder *b, int layer, kt__slot slot) {
    kt__bound *bound = &b->net->layers[layer].t[slot];
    kt__slot_shape s;
    char name[64];
    if (!kt__slot_shape_of(&b->net->hp, layer, slot, &s)) return KT_OK;
    snprintf(name, sizeof name, "blk.%d.%s", layer, s.name);
    shape want = {(int)s.n_cols, (int)s.n_rows, (int)s.n_in};
    if (s.floats) return bind_vectors(b, name, want.rows, want.cols, s.required, &bound->v);
    return bind_matrices(b, name, want, s.required, &bound->w);
}

static const float *floats_from(const float *v, int at) {
    return v ? v + at : NULL;
}

/* The projections as the layer program wants them, whether fused in the file or not. */
static void split_qkv(const kt__hparams *hp, kt__layer *layer) {
    const kt__bound *t = layer->t;
    if (hp->features & KT__F_FUSED_QKV) {
        const kt__layer_sizes *of = &layer->sizes;
        int q = dim_of(hp, of, DIM_Q), k = dim_of(hp, of, DIM_K), v = dim_of(hp, of, DIM_V);
        const float *bias = t[KT__SLOT_ATTN_QKV_BIAS].v;
        layer->wq = kt__weight_rows(&t[KT__SLOT_ATTN_QKV].w, 0, q);
        layer->wk = kt__weight_rows(&t[KT__SLOT_ATTN_QKV].w, q, k);
        layer->wv = kt__weight_rows(&t[KT__SLOT_ATTN_QKV].w, q + k, v);
        layer->bq = bias;
        layer->bk = floats_from(bias, q);
        layer->bv = floats_from(bias, q + k);
    } else {
        layer->wq = t[hp->features & KT__F_DELTA ? KT__SLOT_ATTN_Q_GATE : KT__SLOT_ATTN_Q].w;
        layer->wk = t[KT__SLOT_ATTN_K].w;
        layer->v_is_k = hp->features & KT__F_V_NORM && !t[KT__SLOT_ATTN_V_OR_K].w.data;
        layer->wv = hp->features & KT__F_V_NORM ? t[KT__SLOT_ATTN_V_OR_K].w : t[KT__SLOT_ATTN_V].w;
        if (layer->v_is_k) layer->wv = layer->wk;
        layer->bq = t[KT__SLOT_ATTN_Q_BIAS].v;
        layer->bk = t[KT__SLOT_ATTN_K_BIAS].v;
        layer->bv = t[KT__SLOT_ATTN_V_BIAS].v;
    }
}

static void split_glu(const kt__hparams *hp, kt__layer *layer) {
    const kt__bound *t = layer->t;
    int ff = layer->sizes.d_ff;
    if (hp->features & KT__F_FUSED_GLU) {
        layer->gate = kt__weight_rows(&t[KT__SLOT_FFN_GATE_UP].w, 0, ff);
        layer->up = kt__weight_rows(&t[KT__SLOT_FFN_GATE_UP].w, ff, ff);
        layer->gate_bias = t[KT__SLOT_FFN_GATE_UP_BIAS].v;
        layer->up_bias = floats_from(layer->gate_bias, ff);
    } else {
        layer->gate = t[KT__SLOT_FFN_GATE].w;
        layer->up = t[KT__SLOT_FFN_UP].w;
        layer->gate_bias = t[KT__SLOT_FFN_GATE_BIAS].v;
        layer->up_bias = t[KT__SLOT_FFN_UP_BIAS].v;
    }
}

/* Tokens by channels: a channel's taps lie apart, since channels are computed side by side. */
static kt_status turn_taps(const binder *b, kt__layer *layer) {
    const kt__hparams *hp = &b->net->hp;
    const kt__mixer_kind mixer = layer->mixer;
    const kt__slot slot = mixer == KT__MIX_DELTA  ? KT__SLOT_DELTA_TAPS
                          : mixer == KT__MIX_CONV ? KT__SLOT_CONV_TAPS
                          : mixer == KT__MIX_SCAN ? KT__SLOT_SCAN_TAPS
                                                  : KT__SLOT_MAMBA_TAPS;
    const float *taps = layer->t[slot].v;
    size_t n = (size_t)kt__hparams_channels(hp), width = (size_t)hp->conv_width;
    float *turned = kt__arena_calloc(&b->net->arena, n * width, sizeof *turned);
    if (!turned) return kt__fail_nomem(b->err, "a convolution", n * width * sizeof *turned);
    for (size_t i = 0; i < n * width; i++) turned[i % width * n + i / width] = taps[i];
    layer->taps = turned;
    return KT_OK;
}

static void read_again(kt__net *net, kt__layer *layer, int source) {
    layer->kv_layer = net->layers[source].kv_layer;
    int n = net->n_kv_layer - layer->kv_layer;
    if (net->n_kv_reread < n) net->n_kv_reread = n;
}

/* Which layers have keys and values, and where the others' parts of a state begin. */
static kt_status place_layer(const binder *b, int i) {
    kt__net *net = b->net;
    const kt__hparams *hp = &net->hp;
    kt__layer *layer = &net->layers[i];
    size_t inputs = (size_t)(hp->conv_width - 1) * (size_t)kt__hparams_channels(hp);
    bool both = layer->mixer == KT__MIX_BOTH;
    bool attends = layer->mixer == KT__MIX_ATTENTION || layer->mixer == KT__MIX_LATENT;
    bool proposes = i >= hp->n_layer;
    layer->shares_kv = i >= hp->n_kv_own && !proposes;
    if (proposes)
        layer->kv_layer = net->n_kv_layer; /* after the others', in stores that have it */
    else if (layer->shares_kv && hp->n_kv_own > 0)
        read_again(net, layer, kt__hparams_kv_source(hp, i));
    else if (!layer->shares_kv && (both || attends))
        layer->kv_layer = net->n_kv_layer++;
    if (attends || layer->mixer == KT__MIX_NONE) return KT_OK;
    layer->state_at = net->state_floats;
    net->state_floats += inputs + (size_t)kt__hparams_inner(hp) * (size_t)hp->state_dim;
    return turn_taps(b, layer);
}

/* Where there is no gate, what is squared takes its place. */
static void place_alone(const kt__hparams *hp, kt__layer *layer) {
    if (!(hp->features & KT__F_RELU2)) return;
    layer->gate = layer->up;
    layer->gate_bias = layer->up_bias;
    layer->up = (kt__weight){0};
    layer->up_bias = NULL;
}

static void find_ends(kt__layer *layer) {
    const kt__bound *t = layer->t;
    layer->attn_end = (kt__layer_norm){t[KT__SLOT_ATTN_OUT_NORM].v,
                                       t[KT__SLOT_ATTN_OUT_NORM_BIAS].v};
    layer->layer_end = (kt__layer_norm){t[KT__SLOT_LAYER_OUT_NORM].v,
                                        t[KT__SLOT_LAYER_OUT_NORM_BIAS].v};
}

static void split_rest(kt__layer *layer) {
    const kt__bound *t = layer->t;
    bool shared = t[KT__SLOT_SHARED_DOWN].w.data, branch = t[KT__SLOT_BRANCH_DOWN].w.data;
    layer->down = t[shared   ? KT__SLOT_SHARED_DOWN
                    : branch ? KT__SLOT_BRANCH_DOWN
                             : KT__SLOT_FFN_DOWN]
                      .w;
    layer->down_bias = t[KT__SLOT_FFN_DOWN_BIAS].v;
    static const kt__slot norms[] = {KT__SLOT_FFN_NORM, KT__SLOT_FFN_NORM_POST,
                                     KT__SLOT_FFN_NORM_BARE};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (t[norms[i]].v) layer->ffn_norm = t[norms[i]].v;
    if (layer->mixer == KT__MIX_NONE) layer->ffn_norm = t[KT__SLOT_ATTN_NORM].v;
    static const kt__slot state_norms[] = {KT__SLOT_DELTA_NORM, KT__SLOT_MAMBA_NORM,
                                           KT__SLOT_MAMBA_NORM_BOTH};
    for (size_t i = 0; i < sizeof state_norms / sizeof *state_norms; i++)
        if (t[state_norms[i]].v) layer->state_norm = t[state_norms[i]].v;
    if (branch) {
        layer->gate = t[KT__SLOT_BRANCH_GATE].w;
        layer->up = t[KT__SLOT_BRANCH_UP].w;
    }
    if (!shared) return;
    layer->gate = t[KT__SLOT_SHARED_GATE].w;
    layer->up = t[KT__SLOT_SHARED_UP].w;
    const float *share = t[KT__SLOT_SHARED_SHARE].v;
    if (share)
        layer->shared_share = (kt__weight){(const uint8_t *)share, KT__TYPE_F32, 1, layer->up.n_col,
                                           kt__type_row_bytes(KT__TYPE_F32, layer->up.n_col)};
}

/* Rows [first, first + count) of every expert's matrix. */
static kt__expert_weights expert_rows(const kt__bound *bound, const float *bias, int first,
                                      int count) {
    kt__expert_weights rows = {.w = bound->w};
    if (!bound->w.data) return rows;
    rows.bias = floats_from(bias, first);
    rows.bias_stride = (size_t)bound->w.n_row;
    rows.stride = bound->w.row_bytes * (size_t)bound->w.n_row;
    rows.w = kt__weight_rows(&bound->w, first, count);
    return rows;
}

/* Gate and up are two tensors or one, gate first. */
static kt_status split_experts(const binder *b, int i) {
    const kt__hparams *hp = &b->net->hp;
    kt__layer *layer = &b->net->layers[i];
    const kt__bound *t = layer->t, *fused = &t[KT__SLOT_GATE_UP_EXPS];
    int ff = hp->d_ff_expert;
    bool alone = hp->features & (KT__F_RELU2 | KT__F_PLAIN_FF); /* up takes the gate's place */
    if (!has_place(hp, i, &slots[KT__SLOT_DOWN_EXPS])) return KT_OK;
    layer->down_exps = expert_rows(&t[KT__SLOT_DOWN_EXPS], t[KT__SLOT_DOWN_EXPS_BIAS].v, 0,
                                   hp->d_model);
    if (alone) {
        layer->gate_exps = expert_rows(&t[KT__SLOT_UP_EXPS], t[KT__SLOT_UP_EXPS_BIAS].v, 0, ff);
    } else if (fused->w.data) {
        const float *bias = t[KT__SLOT_GATE_UP_EXPS_BIAS].v;
        layer->gate_exps = expert_rows(fused, bias, 0, ff);
        layer->up_exps = expert_rows(fused, bias, ff, ff);
    } else {
        layer->gate_exps = expert_rows(&t[KT__SLOT_GATE_EXPS], t[KT__SLOT_GATE_EXPS_BIAS].v, 0, ff);
        layer->up_exps = expert_rows(&t[KT__SLOT_UP_EXPS], t[KT__SLOT_UP_EXPS_BIAS].v, 0, ff);
    }
    bool both = t[KT__SLOT_GATE_EXPS].w.data && t[KT__SLOT_UP_EXPS].w.data;
    bool none = !t[KT__SLOT_GATE_EXPS].w.data && !t[KT__SLOT_UP_EXPS].w.data;
    if (alone && t[KT__SLOT_UP_EXPS].w.data) return KT_OK;
    if (alone)
        return kt__fail(b->err, KT_E_FORMAT, "%s: tensor 'blk.%d.ffn_up_exps.weight' is missing",
                        kt__gguf_path(b->gguf), i);
    if (fused->w.data ? none : both) return KT_OK;
    return kt__fail(b->err, KT_E_FORMAT,
                    "%s: blk.%d needs either the tensors 'ffn_gate_exps.weight' and "
                    "'ffn_up_exps.weight' or 'ffn_gate_up_exps.weight'; it has %s",
                    kt__gguf_path(b->gguf), i,
                    fused->w.data ? "both forms"
                    : none        ? "neither form"
                                  : "one of the two");
}

static float *ones_of(kt__net *net) {
    const kt__layer_sizes wide = kt__hparams_widest(&net->hp);
    int n = wide.head_dim_k > wide.head_dim_v ? wide.head_dim_k : wide.head_dim_v;
    float *ones = kt__arena_calloc(&net->arena, (size_t)n, sizeof *ones);
    for (int i = 0; ones && i < n; i++) ones[i] = 1.0f;
    return ones;
}

/* n weights of a norm times a factor. */
static const float *scaled_norm(kt__net *net, const float *norm, int n, float factor) {
    if (factor == 1.0f) return norm;
    float *scaled = kt__arena_calloc(&net->arena, (size_t)n, sizeof *scaled);
    for (int i = 0; scaled && i < n; i++) scaled[i] = norm[i] * factor;
    return scaled;
}

/* Of streams: what the router reads is small. */
static kt_status make_stream_norm(const binder *b, kt__layer *layer) {
    int d = b->net->hp.d_model;
    const float *norm = layer->t[KT__SLOT_STREAM_NORM].v;
    if (!norm) return KT_OK;
    layer->router_norm = scaled_norm(b->net, norm, d, 1.0f / (float)d);
    return layer->router_norm ? KT_OK : kt__fail_nomem(b->err, "a router's norm", (size_t)d);
}

/* Norms without weights: of values, and of rotated heads. */
static kt_status make_plain_norms(const binder *b, int i) {
    kt__net *net = b->net;
    const kt__features features = net->hp.features;
    kt__layer *layer = &net->layers[i];
    if (!(features & (KT__F_V_NORM | KT__F_HEADS_NORMED))) return KT_OK;
    if (!net->ones) net->ones = ones_of(net);
    if (!net->ones) return kt__fail_nomem(b->err, "norms of heads", 0);
    if (features & KT__F_V_NORM) layer->v_norm = net->ones;
    if (features & KT__F_HEADS_NORMED && layer->rotated) layer->heads_norm = net->ones;
    return KT_OK;
}

/* Norms that a layer has besides those of the file: those without weights; of what the router reads,
 * with the factor that comes after it. */
static kt_status make_norms(const binder *b, int i) {
    kt__net *net = b->net;
    const kt__hparams *hp = &net->hp;
    kt__layer *layer = &net->layers[i];
    const float *scale = layer->t[KT__SLOT_ROUTER_SCALE].v;
    if (layer->v_is_k && layer->sizes.head_dim_k != layer->sizes.head_dim_v)
        return kt__fail(b->err, KT_E_FORMAT,
                        "%s: tensor 'blk.%d.attn_v.weight' is missing, and values of %d numbers "
                        "are no keys of %d",
                        kt__gguf_path(b->gguf), i, layer->sizes.head_dim_v,
                        layer->sizes.head_dim_k);
    KT__STEP(make_plain_norms(b, i));
    KT__STEP(make_stream_norm(b, layer));
    if (!scale) return KT_OK;
    float *norm = kt__arena_calloc(&net->arena, (size_t)hp->d_model, sizeof *norm);
    if (!norm) return kt__fail_nomem(b->err, "a router's norm", (size_t)hp->d_model);
    for (int c = 0; c < hp->d_model; c++) norm[c] = scale[c] / sqrtf((float)hp->d_model);
    layer->router_norm = norm;
    return KT_OK;
}

static float factor_of(const kt__layer *layer, kt__slot slot) {
    const float *factor = layer->t[slot].v;
    return factor ? *factor : 1.0f;
}

/* Factors of matrices go to where what they make is scaled or normed anyway. */
static kt_status place_factors(const binder *b, kt__layer *layer) {
    kt__net *net = b->net;
    const kt__bound *t = layer->t;
    layer->qk_factor = factor_of(layer, KT__SLOT_ATTN_Q_FACTOR) *
                       factor_of(layer, KT__SLOT_ATTN_K_FACTOR);
    layer->v_factor = factor_of(layer, KT__SLOT_ATTN_V_FACTOR);
    layer->gate_factor = factor_of(layer, KT__SLOT_FFN_GATE_FACTOR);
    layer->up_factor = factor_of(layer, KT__SLOT_FFN_UP_FACTOR);
    if (!(net->hp.features & KT__F_SUB_NORMS)) return KT_OK;
    int n_attn = net->hp.n_head * layer->sizes.head_dim_v, n_ff = layer->sizes.d_ff;
    layer->attn_sub_norm = scaled_norm(net, t[KT__SLOT_ATTN_SUB_NORM].v, n_attn,
                                       factor_of(layer, KT__SLOT_ATTN_OUT_FACTOR));
    layer->ffn_sub_norm = scaled_norm(net, t[KT__SLOT_FFN_SUB_NORM].v, n_ff,
                                      factor_of(layer, KT__SLOT_FFN_DOWN_FACTOR));
    if (layer->attn_sub_norm && layer->ffn_sub_norm) return KT_OK;
    return kt__fail_nomem(b->err, "norms within blocks", (size_t)(n_attn + n_ff));
}

static kt_status bind_layer(const binder *b, int i) {
    kt__net *net = b->net;
    kt__layer *layer = &net->layers[i];
    layer->mixer = mixer_of(&net->hp, i);
    layer->sizes = kt__hparams_sizes(&net->hp, i);
    layer->local = kt__hparams_is_local(&net->hp, i);
    layer->rotated = kt__hparams_is_rotated(&net->hp, i);
    for (int slot = 0; slot < KT__SLOT_COUNT; slot++) KT__STEP(bind_slot(b, i, (kt__slot)slot));
    split_qkv(&net->hp, layer);
    split_glu(&net->hp, layer);
    find_ends(layer);
    split_rest(layer);
    place_alone(&net->hp, layer);
    KT__STEP(split_experts(b, i));
    KT__STEP(make_norms(b, i));
    KT__STEP(place_factors(b, layer));
    return place_layer(b, i);
}

static kt_status bind_layers(const binder *b) {
    kt__net *net = b->net;
    size_t n_tensors = kt__gguf_n_tensors(b->gguf), n_layer = (size_t)net->hp.n_layer;
    if (n_layer > n_tensors) /* nothing is reserved for layers that cannot be there */
        return kt__fail(b->err, KT_E_FORMAT, "%s: block_count is %d, and there are %zu tensors",
                        kt__gguf_path(b->gguf), net->hp.n_layer, n_tensors);
    net->layers = kt__arena_calloc(&net->arena, n_layer + 1, sizeof *net->layers);
    if (!net->layers)
        return kt__fail_nomem(b->err, "the layers", (n_layer + 1) * sizeof *net->layers);
    for (int i = 0; i < net->hp.n_layer; i++) KT__STEP(bind_layer(b, i));
    return KT_OK;
}

/* Files may have the block's number and not its tensors, which only propose. */
static kt_status bind_mtp(const binder *b) {
    kt__net *net = b->net;
    int i = net->hp.n_layer;
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", i, slots[KT__SLOT_MTP_IN].name);
    if (net->hp.n_mtp == 0 || !kt__gguf_find_tensor(b->gguf, name)) return KT_OK;
    KT__STEP(bind_layer(b, i));
    net->mtp = &net->layers[i];
    return KT_OK;
}

/* ---- encoders ---- */

/* A tensor's second dimension, where the file alone says it; else 1. */
static int rows_in_file(const binder *b, const char *name, int most) {
    const kt__gguf_tensor *t = kt__gguf_find_tensor(b->gguf, name);
    return t && t->ne[1] >= 1 && t->ne[1] <= (uint64_t)most ? (int)t->ne[1] : 1;
}

static kt_status bind_tables(const binder *b) {
    kt__input_tables *tables = &b->net->tables;
    const kt__hparams *hp = &b->net->hp;
    int d = hp->d_model, n_type = rows_in_file(b, "token_types.weight", KT__MAX_TOKEN_TYPES);
    if (hp->features & KT__F_EMBED_NORM)
        return bind_vector(b, "token_embd_norm.weight", d, true, &tables->norm.w);
    if (!(hp->features & KT__F_LAYER_NORMS)) return KT_OK;
    if (hp->features & KT__F_POSITIONS)
        KT__STEP(bind_matrix(b, "position_embd.weight", (int)hp->n_ctx_train, d, true,
                             &tables->positions));
    KT__STEP(bind_matrix(b, "token_types.weight", n_type, d, false, &tables->types));
    KT__STEP(bind_vector(b, "token_embd_norm.weight", d, true, &tables->norm.w));
    return bind_vector(b, "token_embd_norm.bias", d, true, &tables->norm.b);
}

/* What leads from the pooled state to the embedding, in one step or two, must end at the model's
 * width. */
static kt_status bind_dense(const binder *b) {
    kt__pool_head *pool = &b->net->pool;
    const kt__hparams *hp = &b->net->hp;
    int inner = rows_in_file(b, "dense_2.weight", KT__MAX_COL);
    if (!(hp->features & KT__F_ENCODER)) return KT_OK;
    KT__STEP(bind_matrix(b, "dense_2.weight", inner, hp->d_model, false, &pool->dense[0]));
    bool more = pool->dense[0].data && inner != hp->d_model;
    KT__STEP(bind_matrix(b, "dense_3.weight", hp->d_model, inner, more, &pool->dense[1]));
    KT__STEP(bind_vector(b, "dense_2.bias", inner, false, &pool->dense_bias[0]));
    return bind_vector(b, "dense_3.bias", hp->d_model, false, &pool->dense_bias[1]);
}

static kt_status bind_ranker(const binder *b) {
    kt__pool_head *pool = &b->net->pool;
    int d = b->net->hp.d_model, n = rows_in_file(b, "cls.output.weight", KT__POOL_MAX_LABELS);
    if (b->net->hp.pooling != KT__POOL_RANK) return KT_OK;
    KT__STEP(bind_matrix(b, "cls.weight", d, d, false, &pool->hidden));
    KT__STEP(bind_vector(b, "cls.bias", d, false, &pool->hidden_bias));
    KT__STEP(bind_matrix(b, "cls.output.weight", n, d, true, &pool->labels));
    return bind_vector(b, "cls.output.bias", n, false, &pool->labels_bias);
}

static kt_status bind_layer_inputs(const binder *b) {
    kt__net *net = b->net;
    const kt__hparams *hp = &net->hp;
    int n = hp->d_layer_input * hp->n_layer;
    const char *table = "per_layer_token_embd.weight";
    if (!(hp->features & KT__F_LAYER_INPUTS)) return KT_OK;
    KT__STEP(bind_matrix(b, table, hp->n_vocab, n, true, &net->input_table));
    KT__STEP(bind_matrix(b, "per_layer_model_proj.weight", n, hp->d_model, true, &net->input_proj));
    KT__STEP(
        bind_vector(b, "per_layer_proj_norm.weight", hp->d_layer_input, true, &net->input_norm));
    kt__gguf_read_sparsely(b->gguf, kt__gguf_find_tensor(b->gguf, table));
    return KT_OK;
}

static kt_status bind_streams(const binder *b) {
    const kt__hparams *hp = &b->net->hp;
    const shape each = {hp->d_model, hp->d_model, hp->n_stream - 1};
    if (!(hp->features & KT__F_STREAMS)) return KT_OK;
    KT__STEP(bind_matrices(b, "altup_proj.weight", each, true, &b->net->stream_proj));
    return bind_matrices(b, "altup_unembd_proj.weight", each, true, &b->net->stream_unproj);
}

static kt_status bind_assistant(const binder *b) {
    kt__net *net = b->net;
    int d = net->hp.d_model, host = net->hp.d_host;
    if (!(net->hp.features & KT__F_ASSISTANT)) return KT_OK;
    const char *in = "nextn.pre_projection.weight", *out = "nextn.post_projection.weight";
    if (kt__gguf_find_tensor(b->gguf, "mtp.pre_projection.weight")) { /* as first published */
        in = "mtp.pre_projection.weight";
        out = "mtp.post_projection.weight";
    }
    KT__STEP(bind_matrix(b, in, d, 2 * host, true, &net->host_in));
    return bind_matrix(b, out, host, d, true, &net->host_out);
}

/* Tokens that the file does not want as answers: of markers that the model would write by mistake. */
static kt_status bind_suppressed(const binder *b) {
    const kt__gguf_kv *kv = NULL;
    const char *key = "tokenizer.ggml.suppress_tokens";
    kt__net *net = b->net;
    kt_status status = kt__gguf_get_array(b->gguf, key, false, KT__GGUF_TYPE_COUNT, &kv, b->err);
    if (status != KT_OK || !kv) return status;
    if (!kt__gguf_is_integers(kv) || kv->count > (uint64_t)net->hp.n_vocab)
        return kt__fail_at(b->err, KT_E_FORMAT, key, kv->file_offset,
                           "%s: key '%s' should be a list of at most %d token ids",
                           kt__gguf_path(b->gguf), key, net->hp.n_vocab);
    net->suppressed = kt__arena_calloc(&net->arena, (size_t)kv->count + 1, sizeof *net->suppressed);
    if (!net->suppressed) return kt__fail_nomem(b->err, key, (size_t)kv->count);
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t id = kt__gguf_array_i64(kv, i);
        if (id >= 0 && id < net->hp.n_vocab) net->suppressed[net->n_suppressed++] = (int32_t)id;
    }
    return KT_OK;
}

static kt_status bind_globals(const binder *b) {
    kt_status status;
    kt__net *net = b->net;
    const kt__hparams *hp = &net->hp;
    int half = hp->rope.n_rot / 2;
    KT__TRY(bind_matrix(b, "token_embd.weight", hp->n_vocab, hp->d_model, true, &net->embed));
    KT__TRY(bind_matrix(b, "output.weight", hp->n_vocab, hp->d_model, false, &net->head));
    if (!net->head.data) net->head = net->embed; /* tied */
    KT__TRY(bind_vector(b, "output.bias", hp->n_vocab, false, &net->head_bias));
    if (!(hp->features & KT__F_LAYER_NORMS))
        KT__TRY(bind_vector(
            b, hp->features & KT__F_SHORT_CONV ? "token_embd_norm.weight" : "output_norm.weight",
            hp->d_model, true, &net->out_norm));
    KT__TRY(bind_tables(b));
    KT__TRY(bind_dense(b));
    KT__TRY(bind_ranker(b));
    KT__TRY(bind_layer_inputs(b));
    KT__TRY(bind_streams(b));
    KT__TRY(bind_assistant(b));
    KT__TRY(bind_suppressed(b));
    if (half == 0) goto out;
    KT__TRY(bind_vector(b, "rope_freqs.weight", half, false, &net->rope_factors));
    bool need = hp->rope.kind == KT__ROPE_LONGROPE;
    KT__TRY(bind_vector(b, "rope_factors_long.weight", half, need, &net->rope_long));
    KT__TRY(bind_vector(b, "rope_factors_short.weight", half, need, &net->rope_short));
out:
    return status;
}

/* ---- tensors without a place ---- */

static const struct global_row {
    const char *name;
    kt__features features; /* one of them; 0: no matter */
    kt__pool_kind pooling;
} globals[] = {
#define X(name, role, features, pooling) {name, features, pooling},
#include "model/globals.def"
#undef X
};

/* After blk.N.: tables that follow from the hyper-parameters, which old converters wrote. */
static const char *const harmless_in_layer[] = {"attn_rot_embd.weight", "attn_rot_embd.inv_freq"};

/* Of a layer that reads another's keys and values: what its own would be, if training left it there. */
static const char *const harmless_in_shared[] = {"attn_k.weight", "attn_v.weight",
                                                 "attn_k_norm.weight"};

static bool is_among(const char *name, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, list[i]) == 0) return true;
    }
    return false;
}
#define IS_AMONG(name, list) is_among(name, list, sizeof list / sizeof list[0])

/* The part of "blk.N.rest" after the layer's number; NULL for other names and layers beyond the
 * last. */
static const char *name_in_layer(const kt__hparams *hp, const char *name, int *layer) {
    char prefix[32];
    *layer = -1;
    if (sscanf(name, "blk.%d.", layer) != 1 || *layer < 0 || *layer >= hp->n_layer + hp->n_mtp)
        return NULL;
    int n = snprintf(prefix, sizeof prefix, "blk.%d.", *layer);
    return strncmp(name, prefix, (size_t)n) == 0 ? name + n : NULL;
}

static bool is_global(const kt__hparams *hp, const char *name) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        const struct global_row *row = &globals[i];
        if (strcmp(name, row->name) != 0) continue;
        return (!row->features || hp->features & row->features) &&
               (row->pooling == KT__POOL_UNSAID || hp->pooling == row->pooling);
    }
    return false;
}

bool kt__net_has_place(const kt__hparams *hp, kt__str tensor) {
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)(tensor.len < 80 ? tensor.len : 80), tensor.s);
    if (is_global(hp, name)) return true;
    int layer;
    const char *rest = name_in_layer(hp, name, &layer);
    if (!rest) return false;
    if (layer >= hp->n_layer) return true; /* of a block that proposes tokens: no answer changes */
    if (IS_AMONG(rest, harmless_in_layer)) return true;
    if (layer >= hp->n_kv_own && IS_AMONG(rest, harmless_in_shared)) return true;
    for (int slot = 0; slot < KT__SLOT_COUNT; slot++) {
        if (strcmp(rest, slots[slot].name) == 0 && has_place(hp, layer, &slots[slot])) return true;
    }
    return false;
}

/* A model computed without one of its tensors would give other answers than it was made to. */
static kt_status refuse_unused(const binder *b) {
    for (size_t i = 0; i < kt__gguf_n_tensors(b->gguf); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(b->gguf, i);
        char name[96];
        if (kt__net_has_place(&b->net->hp, t->name)) continue;
        snprintf(name, sizeof name, "%.*s", (int)(t->name.len < 80 ? t->name.len : 80), t->name.s);
        return kt__fail_at(b->err, KT_E_UNSUPPORTED, name, t->file_offset,
                           "%s: tensor '%s' has no place in the %s architecture as kentang "
                           "computes it; the answers would be wrong without it",
                           kt__gguf_path(b->gguf), name, b->net->hp.arch);
    }
    return KT_OK;
}

/* Bytes of the matrices of all experts. */
static uint64_t bytes_of_experts(const kt__net *net) {
    uint64_t sum = 0;
    for (int i = 0; i < net->hp.n_layer; i++) {
        const kt__layer *l = &net->layers[i];
        const kt__expert_weights *parts[] = {&l->gate_exps, &l->up_exps, &l->down_exps};
        for (int p = 0; p < 3; p++)
            sum += (uint64_t)parts[p]->w.row_bytes * (uint64_t)parts[p]->w.n_row;
    }
    return sum * (uint64_t)net->hp.n_expert;
}

static bool is_of_mtp(const kt__hparams *hp, kt__str tensor) {
    char name[96];
    int layer;
    snprintf(name, sizeof name, "%.*s", (int)(tensor.len < 80 ? tensor.len : 80), tensor.s);
    return name_in_layer(hp, name, &layer) && layer >= hp->n_layer;
}

/* A decoded token reads every matrix once, the embedding's one row apart (unless it is the head
 * too), and of experts those that it chooses. */
static void count_bytes(kt__net *net, const kt__gguf *gguf) {
    for (size_t i = 0; i < kt__gguf_n_tensors(gguf); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(gguf, i);
        net->n_params += t->n_elem;
        net->weight_bytes += t->size;
        if (is_of_mtp(&net->hp, t->name)) net->mtp_bytes += t->size;
    }
    const kt__weight *table = &net->input_table;
    net->lookup_bytes = (uint64_t)table->row_bytes * (uint64_t)table->n_row;
    net->decode_bytes = net->weight_bytes - net->lookup_bytes - net->mtp_bytes;
    if (net->head.data != net->embed.data) {
        net->decode_bytes -= (uint64_t)net->embed.row_bytes * (uint64_t)net->embed.n_row;
    }
    if (net->hp.n_expert == 0) return;
    net->expert_bytes = bytes_of_experts(net);
    uint64_t unused = (uint64_t)(net->hp.n_expert - net->hp.n_expert_used);
    net->decode_bytes -= net->expert_bytes / (uint64_t)net->hp.n_expert * unused;
}

kt_status kt__net_bind(const kt__gguf *gguf, const kt_model_params *params, kt__net **out,
                       kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__net *net = kt__calloc(1, sizeof *net);
    if (!net) return kt__fail_nomem(err, "the network", sizeof *net);
    kt__arena_init(&net->arena, 64 * 1024, (size_t)1 << 30);
    binder b = {gguf, net, err};
    KT__TRY(kt__hparams_read(gguf, params, &net->hp, err));
    KT__TRY(bind_globals(&b));
    KT__TRY(bind_layers(&b));
    KT__TRY(bind_mtp(&b));
    KT__TRY(refuse_unused(&b));
    count_bytes(net, gguf);
    *out = net;
    net = NULL;
out:
    kt__net_free(net);
    return status;
}

void kt__net_free(kt__net *net) {
    if (!net) return;
    kt__arena_free(&net->arena);
    kt__free(net);
}

/* ---- key bias ---- */

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
