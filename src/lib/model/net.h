/* A network: hyper-parameters with the tensors bound to them.
 *
 * Owns: which tensor is which (weights.def), shape and type checks with errors that name the
 * tensor, the refusal of tensors that the layer program has no place for, and the f32 copies of
 * vectors that a file holds in another type. Weights themselves stay in the file. Knows no tokens'
 * texts and no requests. Immutable once bound; any thread. */
#ifndef KT_MODEL_NET_H
#define KT_MODEL_NET_H

#include "base/alloc.h"
#include "kv/shape.h"
#include "model/encoder.h"
#include "model/hparams.h"
#include "ops/ops.h"
#include "quant/recipe.h"

typedef enum kt__slot {
#define X(slot, name, rows, cols, role, only, unless, needs, mixer) KT__SLOT_##slot,
#include "model/weights.def"
#undef X
    KT__SLOT_COUNT
} kt__slot;

/* What lets a layer's rows see each other. */
typedef enum kt__mixer_kind {
#define X(kind, row) KT__MIX_##kind,
#include "model/mixers.def"
#undef X
    KT__MIX_ANY,
    KT__MIX_FF /* of weights.def alone */
} kt__mixer_kind;

/* A matrix has w.data, a vector has v; an absent one has neither. */
typedef struct kt__bound {
    kt__weight w;
    const float *v;
} kt__bound;

typedef struct kt__layer {
    kt__mixer_kind mixer;
    kt__layer_sizes sizes;
    kt__bound t[KT__SLOT_COUNT];
    /* separate or as rows of the fused tensors; biases are NULL where there are none */
    kt__weight wq, wk, wv, gate, up,
        down; /* gate, up and down: of all tokens (the shared expert's) */
    const float *bq, *bk, *bv, *gate_bias, *up_bias, *down_bias;
    kt__expert_weights gate_exps, up_exps, down_exps;
    const float *ffn_norm;
    kt__layer_norm attn_end, layer_end; /* with KT__F_LAYER_NORMS */
    kt__weight shared_share;            /* one row: the gate of the shared expert */
    bool local;                         /* sliding window */
    bool rotated;                       /* RoPE on queries and keys */
    bool shares_kv;                     /* it has no keys and values of its own */
    bool v_is_k;                        /* values are its raw keys */
    const float *v_norm;                /* with KT__F_V_NORM: ones */
    const float *attn_sub_norm;         /* with KT__F_SUB_NORMS, times the last product's factor */
    const float *ffn_sub_norm;
    float qk_factor, v_factor, gate_factor, up_factor; /* of products; 1: none */
    const float *router_norm; /* of the router's input: with KT__F_BRANCHES, and KT__F_STREAMS */
    int kv_layer;             /* with attention: of the store of keys and values */
    size_t state_at;          /* else: floats of a state before this layer's */
    const float *taps; /* [hp.conv_width][channels] of its convolution, the token's own last */
    const float *heads_norm; /* of rotated q and k heads, without weights of the file; or NULL */
    const float *state_norm; /* of what a delta net or Mamba-2 makes of a token; or NULL */
} kt__layer;

typedef struct kt__net {
    kt__hparams hp;
    kt__layer *layers;    /* [hp.n_layer], and the block of mtp */
    const kt__layer *mtp; /* proposes tokens; NULL: the file has no such block */
    kt__weight embed, head;
    const float *out_norm, *head_bias; /* or NULL; head_bias: [n_vocab] */
    const float *ones;                 /* of a head's size, for norms without weights; or NULL */
    int32_t *suppressed;               /* [n_suppressed] tokens that are never chosen */
    size_t n_suppressed;
    kt__weight input_table, input_proj;    /* with KT__F_LAYER_INPUTS: of all layers together */
    const float *input_norm;               /* [d_layer_input] */
    kt__weight stream_proj, stream_unproj; /* with KT__F_STREAMS: of the second, others follow */
    kt__weight host_in, host_out; /* with KT__F_ASSISTANT: from its host's rows, and to them */
    kt__input_tables tables;      /* with KT__F_LAYER_NORMS; with KT__F_EMBED_NORM a norm */
    kt__pool_head pool;           /* after what is pooled */
    const float *rope_factors;    /* [n_rot/2] or NULL: Llama 3 */
    const float *rope_long, *rope_short; /* [n_rot/2] or NULL: longrope */
    uint64_t n_params, weight_bytes, decode_bytes;
    uint64_t mtp_bytes;    /* of weight_bytes: blocks that propose tokens, */
    uint64_t expert_bytes; /* matrices of experts, */
    uint64_t lookup_bytes; /* and a table of which tokens read a row each, and nothing the whole */
    int n_kv_layer;        /* layers with keys and values; */
    int n_kv_reread;       /* of the last ones: up to the first that further layers read again */
    size_t state_floats;   /* of the others, together; 0: there are none */
    kt__arena arena;
} kt__net;

/* What a layer's slot holds in a model of given hyper-parameters. */
typedef struct kt__slot_shape {
    const char *name; /* after blk.N. */
    kt__tensor_role role;
    int n_dims;                   /* 1: a vector, 2: a matrix or a table, 3: several matrices */
    int64_t n_cols, n_rows, n_in; /* n_in of n_rows rows each; else 1 */
    bool floats;                  /* f32 values, whatever the file has */
    bool required;
} kt__slot_shape;
/* false: the layer program has no place for it. */
bool kt__slot_shape_of(const kt__hparams *hp, int layer, kt__slot slot, kt__slot_shape *out);

kt_status kt__net_bind(const kt__gguf *gguf, const kt_model_params *params, kt__net **out,
                       kt_error *err) KT_CHECKED;
void kt__net_free(kt__net *net);
/* What a store of its keys and values, and of its states, is made for; all of it in f16. */
kt__kv_shape kt__net_kv_shape(const kt__net *net);
/* Where a store has the keys and values that the last layer of a kind reads; -1: there is no such layer. */
int kt__net_last_kv(const kt__net *net, bool local);
/* Whether an assistant fits a model; KT_E_ARG with what differs. */
kt_status kt__net_check_host(const kt__net *assistant, const kt__net *host,
                             kt_error *err) KT_CHECKED;
/* What a layer hands to the next one, of a token. */
static inline size_t kt__net_row_floats(const kt__net *net) {
    return (size_t)net->hp.d_model * (size_t)(net->hp.n_stream ? net->hp.n_stream : 1);
}
/* Whether the layer program of hp has a use for a tensor of this name, or does right without it. */
bool kt__net_has_place(const kt__hparams *hp, kt__str name);

/* Layers whose keys have a bias far beyond the others'.
 *
 * Owns: the rule. Such keys (of Qwen2 and 2.5) leave quantised ones too few levels. Any
 * thread. */

/* Sets the bits of layers whose key bias is longer than 8 times the median of all layers'. */
void kt__key_bias_outliers(const kt__net *net, uint64_t bits[KT__KV_LAYERS_MAX / 64]);

#endif
