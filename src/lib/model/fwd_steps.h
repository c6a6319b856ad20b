/* The inside of the forward pass: its state, and the parts of its layer program.
 *
 * Owns: the layout of kt__fwd, and what the files of the pass offer each other: the steps that all parts share
 * (fwd_steps.c), the feed-forward part (feed_forward.c), the mixers (mix_*.c), several residual streams (streams.c),
 * the head (head.c), and the programs that propose tokens (propose.c). The rest of the program sees forward.h only.
 * All of it works on the batch of the pass; one batch at a time, threads as forward.h says. */
#ifndef KT_MODEL_FWD_STEPS_H
#define KT_MODEL_FWD_STEPS_H

#include "model/device_layers.h"
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
    const kt__ops *ops; /* the processor's, or a graphics processor's */
    kt__gpu_pass *gpu;  /* NULL: no layer is on one */
    kt__gpu_set *gpu_buffers;
    bool gpu_recorded,
        gpu_off;          /* something may be under way there; this batch is the processor's */
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

/* ---- a graphics processor ---- */

/* Shares the pass' buffers with it; where it has no memory for that, the log says so, and the
 * processor computes. */
void kt__fwd_gpu_open(kt__fwd *fwd, const kt__dev_limits *limits);
void kt__fwd_gpu_close(kt__fwd *fwd);
/* The operations that follow are of the layer at hand (or, with head, of the head's product): its table. */
void kt__fwd_gpu_choose(kt__fwd *fwd, bool head);
/* Waits for it. false: what it computed is lost, and so are the batch's rows: from now on the
 * processor computes them. */
bool kt__fwd_gpu_settle(kt__fwd *fwd);

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

/* The feed-forward part of a layer (docs/NUMERICS.md, section 10): gate and up, with experts or without, then down. */

/* Gate and up of an input that is there. */
void kt__ff_gate_and_up(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts);
/* The norm of x, gate and up; experts are chosen. */
kt_status kt__ff_up(kt__fwd *fwd, const kt__layer *layer, kt_error *err);
/* x += the product with down. */
kt_status kt__ff_down(kt__fwd *fwd, const kt__layer *layer, kt_error *err);

/* The mixers: what a file mix_*.c exports, the list of them (mixers.def), and the order of what they and the
 * feed-forward do. */

typedef struct kt__mixer {
    /* the norm of x, and what is projected from it */
    kt_status (*input)(kt__fwd *fwd, const kt__layer *layer, kt_error *err);
    /* rows see each other */
    void (*mix)(kt__fwd *fwd, const kt__layer *layer);
    /* x += the projection of what came out */
    kt_status (*out)(kt__fwd *fwd, const kt__layer *layer, kt_error *err);
} kt__mixer;

#define X(kind, row) extern const kt__mixer kt__mix_##row;
#include "model/mixers.def"
#undef X

/* A layer's parts, whatever its mixer.
 *
 * Owns: the order of what the mixers and the feed-forward do. Works on the batch of the pass; threads
 * as forward.h. */

kt_status kt__layer_step(kt__fwd *fwd, const kt__layer *layer, kt__layer_part part,
                         kt_error *err) KT_CHECKED;

/* Several residual streams (Gemma 3n; Baykal et al. 2023): a layer computes with the first, and its result is passed
 * on to the others by factors of each token. Also the low-rank part besides attention, and gates of which few count. */

/* Those of a batch: x holds its embeddings. */
void kt__streams_make(kt__fwd *fwd);
/* Before a layer: what the streams are expected to become; x is the first. */
kt_status kt__streams_begin(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;
/* After its mixer: x and the low-rank part together. */
void kt__streams_join(kt__fwd *fwd);
/* up[n_tok][n] is times the gate of a layer whose gate is cut. */
void kt__streams_gate(kt__fwd *fwd, float *gate, int n, float *up);
/* After the layer, whose result is x: the streams are corrected by it. */
kt_status kt__streams_end(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;
/* Before the head: x is the mean of all. */
void kt__streams_merge(kt__fwd *fwd);

/* Embeddings that each layer has of its own (Gemma 3n and 4): a row of a table for every token, of which
 * every layer takes its part.
 *
 * Owns: their place in the layer program. The table is read by rows alone, where the file's pages
 * lie; nothing asks for the whole. Threads as forward.h. */

/* Those of a batch, for all layers: x holds its embeddings. */
kt_status kt__layer_inputs_make(kt__fwd *fwd, kt_error *err) KT_CHECKED;
/* What the layer makes of x and its own, before its norm: rows of d_model. */
void kt__layer_inputs_rows(kt__fwd *fwd, const kt__layer *layer, float *made);
/* x += what the layer makes of x and its own. */
kt_status kt__layer_inputs_add(kt__fwd *fwd, const kt__layer *layer, kt_error *err) KT_CHECKED;

/* The end of a pass: the wanted rows, normed, times the head. */

/* Which head. */
typedef struct kt__head {
    const float *norm; /* or NULL */
    const kt__weight *w;
    const float *bias; /* or NULL */
} kt__head;

kt_status kt__head_run(kt__fwd *fwd, const kt__head *head, kt_error *err) KT_CHECKED;

/* The block after the layers that proposes tokens (multi-token prediction; docs/NUMERICS.md, section 18), with keys
 * and values of what the layers have computed. Its rows are pairs: a token and the normed state of the position
 * before. */

/* Of a batch of the layers, after its head: the normed states of its rows. */
void kt__mtp_states_make(kt__fwd *fwd);
/* After these: the keys and values of its rows. What is not finite there
 * spoils proposals alone. */
void kt__mtp_fill(kt__fwd *fwd);
/* A batch of the block's own: logits and hidden states of the wanted rows. */
kt_status kt__mtp_run(kt__fwd *fwd, kt_error *err) KT_CHECKED;
/* [n_tok][d_model] where these states are. */
float *kt__mtp_states(const kt__fwd *fwd);

/* An assistant: a small model that proposes another one's tokens (docs/NUMERICS.md, section 18). Its rows are pairs
 * of a token and a state of its host; it reads the host's keys and values and has none of its own. */

/* Logits of the wanted rows, and the states that continue them. Each row sees the positions before
 * its own. */
kt_status kt__assistant_run(kt__fwd *fwd, kt_error *err) KT_CHECKED;

#endif
