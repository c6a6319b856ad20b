/* Hyper-parameters: a GGUF file's metadata as checked numbers.
 *
 * Owns: the architecture table and every bound that later code relies on (a kt__hparams that was
 * read without error cannot make an index or a size overflow). Does not look at tensors. Any
 * thread; immutable. */
#ifndef KT_MODEL_HPARAMS_H
#define KT_MODEL_HPARAMS_H

#include <kentang.h>

#include "gguf/gguf.h"

/* What a layer program does beyond the plain pre-norm decoder. */
enum {
    KT__F_ROPE_NORM = 1 << 0,     /* rotary pairs (2i, 2i+1); else (i, i + n_rot/2) */
    KT__F_QKV_BIAS = 1 << 1,      /* q, k and v biases are required */
    KT__F_QK_NORM = 1 << 2,       /* RMS norm of each q and k head before RoPE */
    KT__F_POST_NORM = 1 << 3,     /* norms after attention and feed-forward, before the residual */
    KT__F_GELU = 1 << 4,          /* tanh-form GELU in the gate; else SiLU */
    KT__F_EMBED_SCALE = 1 << 5,   /* embeddings times sqrt(d_model) */
    KT__F_FUSED_QKV = 1 << 6,     /* one tensor attn_qkv */
    KT__F_FUSED_GLU = 1 << 7,     /* ffn_up holds gate, then up */
    KT__F_NOPE_FOURTH = 1 << 8,   /* every fourth layer is not rotated */
    KT__F_SCALES = 1 << 9,        /* keys of Granite's four scales, and of whether there is RoPE */
    KT__F_NORM_ROTATED = 1 << 10, /* with QK_NORM: the norm comes after RoPE */
    KT__F_TEMPERATURE = 1 << 11,  /* queries grow with their position; YaRN with a divisor */
    KT__F_NO_PRE_NORM = 1 << 12,  /* attention and feed-forward read x itself */
    KT__F_NOPE_GLOBAL = 1 << 13,  /* with a sliding window: layers without it are not rotated */
    KT__F_LOCAL_PLAIN = 1 << 14,  /* layers with a sliding window are not stretched */
    KT__F_QK_NORM_ROWS = 1 << 15, /* RMS norm of all q heads as one row, and of all k heads */
    KT__F_PARALLEL = 1 << 16,     /* feed-forward reads what attention reads; no norm of its own */
    KT__F_CENTRED = 1 << 17,      /* norms subtract the mean first: layer norms */
    KT__F_LOGIT_SCALE = 1 << 18,  /* key of a factor of the logits */
    KT__F_EXPERTS = 1 << 19,      /* a router and experts make the feed-forward */
    KT__F_SHARES_OF_ALL =
        1 << 20, /* an expert's share is of the softmax over all; else over the chosen */
    KT__F_SHARED_EXPERT = 1 << 21, /* beside them one that every token has, weighed by a gate */
    KT__F_SINKS = 1 << 22,         /* a logit of each head that takes weight from the keys */
    KT__F_CLAMPED = 1 << 23,       /* gpt-oss's gate */
    KT__F_FFN_NORM_POST = 1 << 24, /* the feed-forward's norm is called post_attention_norm */
    KT__F_SHORT_CONV = 1 << 25,    /* layers without keys and values are short convolutions */
    KT__F_ENCODER = 1 << 26,       /* attention in both directions; no logits */
    KT__F_LAYER_NORMS =
        1 << 27,               /* layer norms with biases behind each block, none before the head */
    KT__F_PLAIN_FF = 1 << 28,  /* a feed-forward part without a gate */
    KT__F_POSITIONS = 1 << 29, /* a table of positions; no RoPE */
    KT__F_DELTA = 1 << 30      /* gated delta nets, and attention with gates every few layers */
};

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
    float local_freq_base; /* of layers with a sliding window; they are never scaled */
    float freq_scale;      /* 1 / factor */
    float attn_factor;
    float log_multiplier;                   /* k of the magnitude's divisor; 0: none */
    float ext_factor, beta_fast, beta_slow; /* YaRN */
    int64_t orig_ctx;
} kt__rope_params;

typedef struct kt__hparams {
    const char *arch;
    unsigned features;
    int n_layer, d_model, d_ff, n_head, n_head_kv, head_dim_k, head_dim_v, n_vocab;
    int n_expert, n_expert_used; /* 0: none */
    int d_ff_expert, d_ff_shared;
    float expert_scale; /* of the shares */
    int64_t n_ctx_train;
    float norm_eps;
    float embed_scale; /* of the embeddings */
    float q_scale;
    float logit_scale;
    float temperature;                 /* of queries beyond rope.orig_ctx; 0: none */
    float attn_softcap, final_softcap; /* 0: none */
    bool no_rope;
    kt__pool_kind pooling;
    int64_t window; /* positions; 0: none */
    int window_period;
    bool has_pattern; /* the file says which layers are local: */
    bool pattern[KT__MAX_LAYERS];
    /* recurrent layers */
    bool recurrent[KT__MAX_LAYERS];
    int conv_width;                 /* tokens that their convolution sees */
    int n_state_key, n_state_value; /* heads of a delta net */
    int state_dim;                  /* of its keys and of its values */
    int n_extra;                    /* blocks of the file behind the layers, which are not used */
    kt__rope_params rope;
} kt__hparams;

/* params gives the RoPE overrides (NULL: none). n_vocab is the tokenizer's count when the file has
 * no vocab_size key. */
kt_status kt__hparams_read(const kt__gguf *gguf, const kt_model_params *params, kt__hparams *out,
                           kt_error *err) KT_CHECKED;
/* Channels of a recurrent layer's convolution. */
int kt__hparams_channels(const kt__hparams *hp);
/* The longest row that a layer's last product reads. */
int kt__hparams_mixed(const kt__hparams *hp);
/* Whether a layer attends through the sliding window. */
bool kt__hparams_is_local(const kt__hparams *hp, int layer);
/* Whether a layer's queries and keys are rotated. */
bool kt__hparams_is_rotated(const kt__hparams *hp, int layer);
/* A comma-separated list of the architectures, for messages. */
const char *kt__arch_list(void);

#endif
