/* Inside of the forward pass: its state, and the steps that the parts of a layer share.
 *
 * Owns: the layout of kt__fwd; a block's input (norm and activations), its sum after it, adapters'
 * terms and errors. Knows no mixer. The files of the pass (forward.c, mix_*.c, feed_forward.c,
 * head.c) work on it; the rest of the program sees forward.h only. One batch at a time. */
#ifndef KT_MODEL_FWD_STEPS_H
#define KT_MODEL_FWD_STEPS_H

#include "model/experts.h"
#include "model/fwd_batch.h"
#include "model/profile.h"
#include "model/rope.h"

/* Address-space buffers of a batch, one mapping each; [n_tok_max] rows. */
typedef enum kt__fwd_buf {
    KT__BUF_X,
    KT__BUF_Q,
    KT__BUF_Q_CODES, /* where keys are quantised */
    KT__BUF_ATTN,
    KT__BUF_FF,
    KT__BUF_TMP,
    KT__BUF_CS,
    KT__BUF_CS_LOCAL,
    KT__BUF_Q_SCALE, /* with KT__F_TEMPERATURE */
    KT__BUF_Q_ROWS,  /* with KT__F_QK_NORM_ROWS */
    KT__BUF_K_ROWS,
    KT__BUF_V_ROWS, /* with KT__F_LATENT */
    KT__BUF_LATENT, /* what keys and values come out of */
    KT__BUF_MIX_IN, /* recurrent layers: what is projected for the mixer; queries with their gates, */
    KT__BUF_MIX,    /* its convolution's result, */
    KT__BUF_GATE,   /* gates of what comes out, of attention with gates too, */
    KT__BUF_UP,     /* with KT__F_SUB_NORMS, next to the gate's rows */
    KT__BUF_BRANCH,     /* a dense feed-forward's result next to that of experts */
    KT__BUF_INPUTS,     /* [n_tok][n_layer][d_layer_input]: each layer's own embeddings, */
    KT__BUF_INPUT_ROWS, /* and room for what they are made of */
    KT__BUF_STREAMS,    /* [n_stream][n_tok][d_model], */
    KT__BUF_ROUTES,     /* [n_tok][n_stream] what their factors are made of, */
    KT__BUF_LOW,        /* and the low-rank part besides attention */
    KT__BUF_TOKENS,     /* of an assistant: its host's embeddings, [n_tok][d_host], */
    KT__BUF_PROPOSED,   /* and the states that its next rows continue from */
    KT__BUF_DECAY,      /* and of each head of a delta net */
    KT__BUF_BETA,
    KT__BUF_LOGITS,
    KT__BUF_LORA_U,
    KT__BUF_ACT0,                                   /* activation rows of d_model or of the heads */
    KT__BUF_FF_ACT0 = KT__BUF_ACT0 + KT__ACT_COUNT, /* of d_ff */
    KT__BUF_COUNT = KT__BUF_FF_ACT0 + KT__ACT_COUNT
} kt__fwd_buf;

/* A layer's parts: between two of them a run may stop. */
typedef enum kt__layer_part {
    KT__PART_INPUT,
    KT__PART_MIX,
    KT__PART_OUT,
    KT__PART_FF,
    KT__PART_DOWN,
    KT__PARTS
} kt__layer_part;

typedef struct kt__fwd kt__fwd;
struct kt__fwd {
    const kt__net *net;
    kt__fwd_params params;
    kt__dev *dev;
    const kt__ops *ops;
    kt__experts *experts; /* NULL: no layer has any */
    kt__arena arena;
    kt__rope rope, rope_local;
    bool has_local;
    /* with params.host: which of its keys and values layers without and with a window read */
    int host_kv[2];
    void *buf[KT__BUF_COUNT];
    size_t buf_bytes[KT__BUF_COUNT];
    /* the batch */
    kt__batch batch;
    const kt__kv *kv;
    kt__lora_terms lora;      /* of the block at hand; without rows: no adapter is in the batch */
    int32_t *table_ids;       /* [n_tok_max] with KT__F_LAYER_NORMS */
    int32_t *plain_ids;       /* [n_tok_max] the batch's, with others where rows are given */
    kt__lora_rows *head_lora; /* [n_tok_max] the batch's, as rows of those that are wanted */
    int layer;                /* cursor: -1 before the embedding, n_layer before the head */
    kt__layer_part part;
    bool keys_alone;                /* of the layer at hand: no queries */
    int64_t part_us[KT__PARTS];     /* of the layer before; 0: not measured */
    int64_t part_sum_us[KT__PARTS]; /* of all layers, */
    int n_timed[KT__PARTS];         /* so many */
    kt__profile *profile;
};

static inline float *kt__fwd_f32(const kt__fwd *fwd, kt__fwd_buf id) {
    return fwd->buf[id];
}

static inline bool kt__fwd_is_encoder(const kt__fwd *fwd) {
    return fwd->net->hp.features & KT__F_ENCODER;
}

static inline void kt__fwd_lap(const kt__fwd *fwd, kt_profile_part part) {
    kt__profile_lap(fwd->profile, part);
}

/* Activation rows of n_col, from the buffers `first`.., for the products with the given weights
 * (absent ones are skipped). */
kt__acts kt__fwd_acts_in(const kt__fwd *fwd, kt__fwd_buf first, int n_tok, int n_col,
                         const kt__weight *const *users, int n);
static inline kt__acts kt__fwd_acts(const kt__fwd *fwd, int n_tok, int n_col,
                                    const kt__weight *const *users, int n) {
    return kt__fwd_acts_in(fwd, KT__BUF_ACT0, n_tok, n_col, users, n);
}

/* ---- adapters ---- */

/* Adapters see an input as it is before it is quantised. */
void kt__fwd_want_f32(kt__acts *acts, const kt__fwd *fwd, kt__fwd_buf first);
/* The same where the batch's adapters read this input. */
void kt__fwd_lora_input(kt__fwd *fwd, kt__net_input input, kt__fwd_buf first, kt__acts *acts);
/* The terms of an input whose rows are there: u is made with the next product. NULL: no adapter
 * reads it. */
const kt__lora_terms *kt__fwd_lora(kt__fwd *fwd, kt__net_input input, const kt__acts *acts);

/* ---- blocks ---- */

/* The rotations of the batch's positions. */
void kt__fwd_rotate(kt__fwd *fwd);
/* x, through the pre-norm where the architecture has one, as activations; false: not finite. */
bool kt__fwd_block_input(kt__fwd *fwd, const float *norm, kt__acts *acts);
/* Shows them to who wants to see them. */
void kt__fwd_show_input(const kt__fwd *fwd, kt__net_input input, const kt__acts *acts);
/* x += projection of the block's output, through the post-norm where the architecture has one;
 * false: not finite. */
bool kt__fwd_add_block(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, const float *bias,
                       const float *post_norm, kt__lora_site site, kt_profile_part part);
/* The same of a mixer whose last product reads the rows of a buffer. `where` as of kt__fwd_fail. */
/* A recurrent layer's norm of x, and its one product, to KT__BUF_MIX_IN; not charged to a lap. */
kt_status kt__fwd_mix_input(kt__fwd *fwd, const kt__layer *layer, const kt__weight *in,
                            const char *where, kt_error *err) KT_CHECKED;
kt_status kt__fwd_add_mixed(kt__fwd *fwd, const kt__weight *w, kt__fwd_buf from, const char *where,
                            kt_error *err);
/* The short convolution of a layer's channels, before their state: x, rows of ld_x floats, to
 * KT__BUF_MIX. bias may be NULL. */
void kt__fwd_convolve(kt__fwd *fwd, const kt__layer *layer, const float *x, size_t ld_x,
                      const float *bias);
/* The layer norm after a block, where the architecture has one; false: not finite. */
bool kt__fwd_end_block(kt__fwd *fwd, const kt__layer_norm *norm);
/* KT_E_NUMERIC before `where` of the layer at hand. */
kt_status kt__fwd_fail(const kt__fwd *fwd, const char *where, kt_error *err);

#endif
