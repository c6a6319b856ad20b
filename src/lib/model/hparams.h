/* Hyper-parameters: what a layer program is made of, a GGUF file's metadata as checked numbers.
 *
 * Owns: the features of architectures, the structure that is read from a file, every bound that later code relies on
 * (a kt__hparams that was read without error cannot make an index or a size overflow), and sizes that follow from it.
 * Does not look at tensors. Immutable once read; any thread. */
#ifndef KT_MODEL_HPARAMS_H
#define KT_MODEL_HPARAMS_H

#include "gguf/gguf.h"
#include "ops/ops.h"

#include <kentang.h>

/* What a layer program does beyond the plain pre-norm decoder: bits of kt__features. */
typedef uint64_t kt__features;
#define KT__F_ROPE_NORM (UINT64_C(1) << 0) /* rotary pairs (2i, 2i+1); else (i, i + n_rot/2) */
#define KT__F_QKV_BIAS (UINT64_C(1) << 1)  /* q, k and v biases are required */
#define KT__F_QK_NORM (UINT64_C(1) << 2)   /* RMS norm of each q and k head before RoPE */
#define KT__F_POST_NORM \
    (UINT64_C(1) << 3) /* norms after attention and feed-forward, before the residual */
#define KT__F_GELU (UINT64_C(1) << 4)        /* tanh-form GELU in the gate; else SiLU */
#define KT__F_EMBED_SCALE (UINT64_C(1) << 5) /* embeddings times sqrt(d_model) */
#define KT__F_FUSED_QKV (UINT64_C(1) << 6)   /* one tensor attn_qkv */
#define KT__F_FUSED_GLU (UINT64_C(1) << 7)   /* ffn_up holds gate, then up */
#define KT__F_NOPE_FOURTH (UINT64_C(1) << 8) /* every fourth layer is not rotated */
#define KT__F_SCALES \
    (UINT64_C(1) << 9) /* keys of Granite's four scales, and of whether there is RoPE */
#define KT__F_NORM_ROTATED (UINT64_C(1) << 10) /* with QK_NORM: the norm comes after RoPE */
#define KT__F_TEMPERATURE \
    (UINT64_C(1) << 11) /* queries grow with their position; YaRN with a divisor */
#define KT__F_NO_PRE_NORM (UINT64_C(1) << 12) /* attention and feed-forward read x itself */
#define KT__F_NOPE_GLOBAL \
    (UINT64_C(1) << 13) /* with a sliding window: layers without it are not rotated */
#define KT__F_LOCAL_PLAIN (UINT64_C(1) << 14) /* layers with a sliding window are not stretched */
#define KT__F_QK_NORM_ROWS \
    (UINT64_C(1) << 15) /* RMS norm of all q heads as one row, and of all k heads */
#define KT__F_PARALLEL \
    (UINT64_C(1) << 16) /* feed-forward reads what attention reads; no norm of its own */
#define KT__F_CENTRED (UINT64_C(1) << 17)     /* norms subtract the mean first: layer norms */
#define KT__F_LOGIT_SCALE (UINT64_C(1) << 18) /* key of a factor of the logits */
#define KT__F_EXPERTS (UINT64_C(1) << 19)     /* a router and experts make the feed-forward */
#define KT__F_SHARES_OF_ALL \
    (UINT64_C(1) << 20) /* an expert's share is of the softmax over all; else over the chosen */
#define KT__F_SHARED_EXPERT \
    (UINT64_C(1) << 21) /* next to them one that every token has, weighed by a gate */
#define KT__F_SINKS (UINT64_C(1) << 22)   /* a logit of each head that takes weight from the keys */
#define KT__F_CLAMPED (UINT64_C(1) << 23) /* gpt-oss's gate */
#define KT__F_FFN_NORM_POST \
    (UINT64_C(1) << 24) /* the feed-forward's norm is called post_attention_norm */
#define KT__F_SHORT_CONV \
    (UINT64_C(1) << 25) /* layers without keys and values are short convolutions */
#define KT__F_ENCODER (UINT64_C(1) << 26) /* attention in both directions; no logits */
#define KT__F_LAYER_NORMS \
    (UINT64_C(1) << 27) /* layer norms with biases after each block, none before the head */
#define KT__F_PLAIN_FF (UINT64_C(1) << 28)  /* a feed-forward part without a gate */
#define KT__F_POSITIONS (UINT64_C(1) << 29) /* a table of positions; no RoPE */
#define KT__F_DELTA \
    (UINT64_C(1) << 30) /* gated delta nets, and attention with gates every few layers */
#define KT__F_DELTA_GROUPED \
    (UINT64_C(1)            \
     << 31) /* value heads side by side share a key head; alpha and beta in one tensor */
#define KT__F_MAY_EXPERTS (UINT64_C(1) << 32) /* with EXPERTS: where the file counts any */
#define KT__F_FREE_CHOICE \
    (UINT64_C(1) << 33) /* the file says how experts are chosen and shared; a bias of the choice */
#define KT__F_DENSE_LEAD \
    (UINT64_C(1) << 34) /* the first layers, and some between, have no experts */
#define KT__F_SHARED_WHOLE \
    (UINT64_C(1) << 35)                 /* with SHARED_EXPERT: it has no gate, and may be missing */
#define KT__F_MAMBA (UINT64_C(1) << 36) /* layers without keys and values are Mamba-2 */
#define KT__F_BOTH (UINT64_C(1) << 37)  /* every layer is attention and Mamba-2 side by side */
#define KT__F_ONE_PART \
    (UINT64_C(1) << 38) /* a layer is either a mixer or a feed-forward part; no RoPE */
#define KT__F_RELU2 (UINT64_C(1) << 39)  /* relu(u)^2 in place of gate and up */
#define KT__F_LATENT (UINT64_C(1) << 40) /* attention over a latent vector of each position */
#define KT__F_LATENT_Q \
    (UINT64_C(1) << 41) /* with LATENT: queries too come out of a latent vector; the file says it */
#define KT__F_EMBED_NORM \
    (UINT64_C(1) << 42) /* a layer norm of the embeddings in place of the first layer's own */
#define KT__F_GLOBAL_FIRST \
    (UINT64_C(1)           \
     << 43) /* with a sliding window: of each period the first layer has none, not the last */
#define KT__F_LOCAL_HEADS \
    (UINT64_C(1) << 44) /* layers with a sliding window have heads of other numbers and sizes */
#define KT__F_SHARED_KV (UINT64_C(1) << 45) /* of a layer: it reads keys and values of one before */
#define KT__F_V_NORM \
    (UINT64_C(1) << 46) /* RMS norm of each v head; a layer without attn_v takes its raw keys */
#define KT__F_LAYER_INPUTS \
    (UINT64_C(1)           \
     << 47) /* each layer has an embedding of its own of every token, if the file says */
#define KT__F_BRANCHES \
    (UINT64_C(1) << 48) /* with EXPERTS: a dense feed-forward next to them, each with its norms */
#define KT__F_OUT_SCALE (UINT64_C(1) << 49) /* a layer's result times a factor of the file */
#define KT__F_SUB_NORMS \
    (UINT64_C(1) << 50) /* norms before the last product of each block; factors of matrices */
#define KT__F_NO_ATTENTION \
    (UINT64_C(1) << 51) /* with MAMBA: layers are that alone, without feed-forward parts */
#define KT__F_STREAMS (UINT64_C(1) << 52) /* several residual streams; gates that are cut */
#define KT__F_SCAN (UINT64_C(1) << 53)    /* with MAMBA: the first kind, a state of each channel */
#define KT__F_CHUNKS \
    (UINT64_C(1) << 54) /* a sliding window does not slide: it begins at a multiple of its size */
#define KT__F_HEADS_NORMED \
    (UINT64_C(1) << 55) /* rotated q and k heads are normed, without weights */
#define KT__F_WEIGHED_INPUT (UINT64_C(1) << 56) /* an expert's share is a factor of what it reads */
#define KT__F_MTP \
    (UINT64_C(1) << 57) /* of a block after the layers, which proposes tokens: it reads pairs */
#define KT__F_ASSISTANT \
    (UINT64_C(1) << 58) /* it proposes another model's tokens, whose keys and values it reads */
#define KT__F_AXES \
    (UINT64_C(1)   \
     << 59) /* a picture's positions have several axes, on which a text's are the same */
#define KT__F_MAY_QK_NORM (UINT64_C(1) << 60) /* with QK_NORM: where the file has its tensors */
#define KT__F_AXES_WOVEN \
    (UINT64_C(1) << 61)                 /* with AXES: pairs take them in turn, not in sections */
#define KT__F_NEVER (UINT64_C(1) << 63) /* no architecture requires the tensor */

enum {
    KT__MAX_LAYERS = 1024,
    KT__MAX_HEADS = 4096,
    KT__MAX_HEAD_DIM = 1024,
    KT__MAX_TOKEN_TYPES = 256,
    KT__MAX_CTX = KT_CTX_MAX
};

typedef enum kt__rope_kind {
    KT__ROPE_PLAIN,
    KT__ROPE_LINEAR,
    KT__ROPE_YARN,
    KT__ROPE_LONGROPE
} kt__rope_kind;

/* Values of the key pooling_type: what a text's embedding is made of. */
typedef enum kt__pool_kind {
    KT__POOL_UNSAID = -1,
    KT__POOL_NONE,
    KT__POOL_MEAN,
    KT__POOL_CLS, /* the first token's state */
    KT__POOL_LAST,
    KT__POOL_RANK /* a reranker: the first token's (a decoder's last) through its head */
} kt__pool_kind;

typedef struct kt__rope_params {
    kt__rope_kind kind;
    int n_rot;
    float freq_base;
    int local_n_rot;
    float local_freq_base; /* of layers with a sliding window; they are never scaled */
    float freq_scale;      /* 1 / factor */
    float attn_factor;
    float log_multiplier;                   /* k of the magnitude's divisor; 0: none */
    float ext_factor, beta_fast, beta_slow; /* YaRN */
    int64_t orig_ctx;
    int sections
        [3]; /* pairs that a picture's time, line and column rotate; all 0: one position rotates all */
} kt__rope_params;

/* What layers of one model may have of different sizes. */
typedef struct kt__layer_sizes {
    int n_head_kv, head_dim_k, head_dim_v, d_ff;
} kt__layer_sizes;

typedef struct kt__hparams {
    const char *arch;
    kt__features features;
    int n_layer, d_model, d_ff, n_head, n_head_kv, head_dim_k, head_dim_v, n_vocab;
    kt__layer_sizes local; /* with KT__F_LOCAL_HEADS, of layers with a sliding window; d_ff is 0 */
    int d_ff_of[KT__MAX_LAYERS]; /* 0: d_ff, which is the largest */
    int n_kv_own;        /* layers with keys and values of their own, before those without */
    int n_stream, d_low; /* with KT__F_STREAMS: of the low-rank part besides attention */
    float gate_cut
        [KT__MAX_LAYERS]; /* deviations above a row's mean from which a gate counts; -INFINITY:
                                       everywhere */
    int d_layer_input;    /* of a layer's own embedding of a token; 0: there are none */
    int n_expert, n_expert_used; /* 0: none */
    int d_ff_expert, d_ff_shared;
    float expert_scale; /* of the shares */
    kt__share_kind shares;
    bool shares_normed;               /* divided by their sum */
    int n_expert_group, n_group_used; /* experts are chosen from the best groups; 1: all */
    bool dense[KT__MAX_LAYERS];       /* with experts: layers that have none */
    bool no_ff[KT__MAX_LAYERS];       /* with KT__F_ONE_PART: layers that are a mixer alone, */
    bool no_mixer[KT__MAX_LAYERS];    /* and a feed-forward part alone */
    int64_t n_ctx_train;
    float norm_eps;
    float state_eps;   /* of norms after a recurrent layer's state, which do not read x */
    float embed_scale; /* of the embeddings */
    float q_scale;
    float logit_scale;
    float temperature;                 /* of queries beyond the first span; 0: none */
    int64_t temperature_span;          /* positions; with KT__F_CHUNKS, else rope.orig_ctx */
    float attn_softcap, final_softcap; /* 0: none */
    bool no_rope;
    bool relu2_gate; /* with KT__F_SUB_NORMS: relu(gate)^2 * up; else silu(gate) * up */
    kt__pool_kind pooling;
    int64_t window; /* positions; 0: none */
    int window_period;
    bool has_pattern; /* the file says which layers are local: */
    bool pattern[KT__MAX_LAYERS];
    /* attention over latent vectors: a head's numbers are kv_rank + rope.n_rot of the key, of which
     * head_dim_k_full are its own before they are taken into the latent space */
    int q_rank, kv_rank; /* q_rank 0: there is none */
    int head_dim_k_full, head_dim_v_full;
    /* recurrent layers */
    bool recurrent[KT__MAX_LAYERS];
    int conv_width;                 /* tokens that their convolution sees */
    int n_state_key, n_state_value; /* heads of a delta net; groups and heads of Mamba-2 */
    int step_rank;                  /* of what a token's steps are made of; with KT__F_SCAN */
    int state_dim;                  /* of its keys */
    int state_rows;                 /* of its values: rows of a head's state */
    int d_host; /* with KT__F_ASSISTANT: d_model of the model whose tokens it proposes */
    int n_mtp;  /* blocks of the file after the layers, of which the first proposes tokens */
    kt__rope_params rope;
} kt__hparams;

/* The largest of each of the layers' sizes. */
kt__layer_sizes kt__hparams_widest(const kt__hparams *hp);
/* Numbers that a recurrent layer's heads make of a token. */
int kt__hparams_inner(const kt__hparams *hp);
/* Channels of a recurrent layer's convolution. */
int kt__hparams_channels(const kt__hparams *hp);
/* The longest row that a layer's last product reads. */
int kt__hparams_mixed(const kt__hparams *hp);

/* Reading them (hparams_read.c), and what follows from them for a layer. */

/* params gives the RoPE overrides (NULL: none). n_vocab is the tokenizer's count when the file has
 * no vocab_size key. */
kt_status kt__hparams_read(const kt__gguf *gguf, const kt_model_params *params, kt__hparams *out,
                           kt_error *err) KT_CHECKED;
/* What a layer's program does: as the features, but that a layer may be without experts. */
kt__features kt__hparams_features_of(const kt__hparams *hp, int layer);
kt__layer_sizes kt__hparams_sizes(const kt__hparams *hp, int layer);
/* Whether a layer attends through the sliding window. */
bool kt__hparams_is_local(const kt__hparams *hp, int layer);
/* The layer whose keys and values it reads: itself, or the last one before of its kind that has any. */
int kt__hparams_kv_source(const kt__hparams *hp, int layer);
/* Whether a layer's queries and keys are rotated. */
bool kt__hparams_is_rotated(const kt__hparams *hp, int layer);
/* What arch.def says of an architecture, without what a file adds; 0 for one that it does not have. */
kt__features kt__arch_features(const char *arch);

#endif
