/* Synthetic models: a real model's geometry with seeded random weights.
 *
 * Owns: the presets, the plan (which tensors, of which type and statistics) and the bytes of any row of a planned
 * tensor; adapters of random matrices (synth_lora.c). The plan is apart from writing, so that the same model can be a
 * file (synth) or live in memory (bench: synth_image.c). Does not compute with the weights. A plan is immutable once
 * made; kt__synth_fill may be called from any thread. */
#ifndef KT_SYNTH_SYNTH_H
#define KT_SYNTH_SYNTH_H

#include "gguf/gguf.h"
#include "quant/quant.h"
#include "quant/recipe.h"

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

/* See synth_presets.def. */
typedef struct kt__synth_preset {
    const char *name, *arch, *pre;
    int n_layer, d_model, d_ff, n_head, n_head_kv, head_dim;
    int n_rot; /* 0: head_dim */
    int n_vocab, n_ctx;
    float eps, rope_base, local_rope_base, rope_alpha;
    bool head_keys, tied, biases, head_bias, longrope;
    int conv_width;
    uint64_t attention_layers; /* LFM2, Mamba-2: bits of the layers that are not recurrent */
    int n_state_key, step_rank, n_state_value, state_dim,
        attention_every; /* Qwen 3.5: delta nets */
    int state_rows;      /* Mamba-2: of a head's state; 0: there is none */
    bool nope;           /* nothing is rotated */
    uint64_t ff_layers;  /* Nemotron H: bits of the layers that are a feed-forward part alone */
    int n_mtp;           /* blocks that propose tokens, after the layers */
    bool mtp_ends;       /* with embeddings and a head of their own */
    /* The layers add nothing, so that the next token depends on the last one alone, and the block finds
     * the same: it is right wherever the most likely token is drawn. */
    bool mtp_agrees;
    int d_host;                      /* Gemma 4's assistants: d_model of their model */
    int q_rank, kv_rank, head_dim_v; /* DeepSeek: head_dim is a key's before, n_rot of it rotated */
    int n_expert, n_expert_used, ff_expert, ff_shared; /* 0: none */
    int gating, dense_lead, expert_step;               /* 0: no key */
    bool pick_bias, shares_normed;
    float expert_scale;
    int window;
    int window_every; /* Gemma 4: all but every so many-th layer are local, and these have */
    int local_head_kv, local_head_dim; /* heads of their own; 0: as the others */
    int n_kv_shared, ff_shared_kv; /* the last layers, and their feed-forward's width; 0: d_ff */
    int d_layer_input;
    const char *hidden_act; /* BitNet; NULL: no key */
    bool k_is_v;            /* global layers have no attn_v */
    float attn_cap, final_cap;
    float embedding_scale, residual_scale, attention_scale, logit_scale; /* 0: no key */
    float temperature;
    int llama3_factor, linear_factor, yarn_factor, orig_ctx;
    /* encoders */
    bool wordpiece, dense;
    int pooling;  /* 0: no key */
    int n_labels; /* of a reranker's head; 0: none */
} kt__synth_preset;

size_t kt__synth_n_presets(void);
const kt__synth_preset *kt__synth_preset_at(size_t index);
/* A preset and a recipe by their names; KT_E_ARG with the nearest name for one that there is not. */
kt_status KT_CHECKED kt__synth_find(const char *preset, const char *quant,
                                    const kt__synth_preset **out, const kt__recipe **recipe,
                                    kt_error *err);

/* ---- plan ---- */

typedef enum kt__synth_content {
    KT__CONTENT_RANDOM,
    KT__CONTENT_LLAMA3_FREQS,
    KT__CONTENT_LONG_FACTORS,
    KT__CONTENT_SHORT_FACTORS,
    KT__CONTENT_QUARTER_FREQS, /* the first quarter is rotated, and the rest is not */
    KT__CONTENT_SIGNS,         /* the mean, or minus it */
    KT__CONTENT_FIRST_HALF     /* of its input is what comes out */
} kt__synth_content;

typedef struct kt__synth_tensor {
    char name[48];
    kt__type type;
    uint32_t n_dims;
    int64_t n_cols, n_rows; /* n_rows = 1 for a vector, */
    int n_expert;           /* those of all experts together where there are 3 dimensions */
    kt__synth_content content;
    float mean, std; /* of random content */
} kt__synth_tensor;

typedef struct kt__synth_plan {
    const kt__synth_preset *preset;
    const kt__recipe *recipe;
    uint64_t seed;
    int n_vocab;
    kt__synth_tensor *tensors; /* [n_tensors], in file order */
    size_t n_tensors;
    uint64_t n_params, bytes;
} kt__synth_plan;

/* n_vocab 0: the preset's. Freed with kt__synth_plan_free, also after failure. */
kt_status kt__synth_plan_make(const kt__synth_preset *preset, const kt__recipe *recipe,
                              uint64_t seed, int n_vocab, kt__synth_plan *out,
                              kt_error *err) KT_CHECKED;
void kt__synth_plan_free(kt__synth_plan *plan);
/* Rows [begin, end) of a tensor to out; each row depends on seed, tensor and row alone. */
void kt__synth_fill(const kt__synth_plan *plan, size_t tensor, int64_t begin, int64_t end,
                    void *out);

/* general.* and the architecture's keys. */
void kt__synth_put_meta(const kt__synth_plan *plan, kt__gguf_writer *w);
/* tokenizer.* keys: made up for the preset (a byte-level BPE or a SentencePiece vocabulary that
 * encodes any text), or copied from another file and padded with unused tokens to plan->n_vocab. */
kt_status kt__synth_put_vocab(const kt__synth_plan *plan, const kt__gguf *from, kt__gguf_writer *w,
                              kt_error *err) KT_CHECKED;
/* The same with the description of every tensor: all that comes before the data. */
kt_status kt__synth_put_header(const kt__synth_plan *plan, const kt__gguf *from, kt__gguf_writer *w,
                               kt_error *err) KT_CHECKED;

/* ---- a planned model in memory, as the bytes of a GGUF file ---- */

typedef struct kt__synth_image {
    void *data; /* pages as a mapped file has them */
    size_t size;
} kt__synth_image;

kt_status kt__synth_image_make(const kt__synth_plan *plan, int n_threads, kt__synth_image *out,
                               kt_error *err) KT_CHECKED;
void kt__synth_image_free(kt__synth_image *image); /* also of a zeroed one */

/* Blocks of codebooks and of few levels, drawn code by code.
 *
 * Random blocks of the types whose codes are all equally likely (IQ1 to IQ3, TQ, Q1_0, Q2_0, NVFP4). No state; any
 * thread. */

bool kt__synth_has_codes(kt__type type);
/* A block of random codes with the scale d; random(state) gives 64 bits. */
void kt__synth_draw_codes(kt__type type, float d, uint64_t (*random)(void *), void *state,
                          void *block);
/* Root mean square of a weight where d = 1. */
float kt__synth_codes_rms(kt__type type);

/* Synthetic adapters: random matrices of a rank next to every matrix of a model that a kind names, as a GGUF file:
 * for speed measurements and tests.
 *
 * Which matrices a kind has, and the bytes, which depend on the seed, the matrix and the row alone. One thread. */

typedef enum kt__synth_lora_kind {
    KT__SYNTH_LORA_ALL,   /* every matrix of every layer */
    KT__SYNTH_LORA_LAST,  /* the last layer's after its keys and values */
    KT__SYNTH_LORA_HIDDEN /* the final hidden state */
} kt__synth_lora_kind;

typedef struct kt__synth_lora_params {
    const char *base; /* the model's file */
    int rank;
    kt__synth_lora_kind kind;
    uint64_t seed;
} kt__synth_lora_params;

kt_status KT_CHECKED kt__synth_lora_write(const kt__synth_lora_params *params, const char *path,
                                          kt_error *err);

#endif
