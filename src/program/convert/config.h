/* config.json: what kind of model a folder holds, as checked numbers.
 *
 * Owns: the classes that can be converted (archs.def), the names of their numbers (config_keys.def), what a class
 * means where the file is silent (config_defaults.def), the refusal of what GGUF cannot express, and of weights that
 * another tool has quantised already; notes to the user on what is converted but not wholly. Hostile as every file of
 * a folder. Any thread. */
#ifndef KT_CONVERT_CONFIG_H
#define KT_CONVERT_CONFIG_H

#include "convert/safetensors.h"
#include "gguf/gguf.h"

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

/* Notes: the receiver is the caller's. */

/* Called with one line for the user: something is converted, but not all of it. */
typedef void kt__convert_note_fn(void *user, const char *line);
typedef struct kt__convert_notes {
    kt__convert_note_fn *fn; /* may be NULL */
    void *user;
} kt__convert_notes;
void kt__convert_note(const kt__convert_notes *notes, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A set of architectures: the KT__HF_NAME of archs.def, joined by |. */
typedef uint64_t kt__hf_archs;

/* Bits by the order of the rows. */
enum {
#define ARCH(name, arch_name) KT__HF_AT_##name,
#include "convert/archs.def"
    KT__HF_N_ARCHS
};
_Static_assert(KT__HF_N_ARCHS <= 64, "a kt__hf_archs has no bit for the last rows of archs.def");
/* Constants wider than an int: C23, and an extension of the compilers before it. */
__extension__ enum {
#define ARCH(name, arch_name) KT__HF_##name = (kt__hf_archs)1 << KT__HF_AT_##name,
#define GROUP(name, set) KT__HF_##name = (set),
#include "convert/archs.def"
};
enum { KT__HF_XLMR_FIRST = 2 }; /* of XLM-R's table of positions */
/* Values of the key pooling_type. */
enum { KT__HF_POOL_MEAN = 1, KT__HF_POOL_CLS, KT__HF_POOL_LAST, KT__HF_POOL_RANK };
enum { KT__HF_NONE = -1, KT__HF_MAX_FACTORS = 512, KT__HF_MAX_LAYERS = 1024 };

typedef enum kt__hf_rope_kind {
    KT__HF_ROPE_PLAIN,
    KT__HF_ROPE_LINEAR,
    KT__HF_ROPE_YARN,
    KT__HF_ROPE_LLAMA3,
    KT__HF_ROPE_LONGROPE,
    KT__HF_ROPE_PROPORTIONAL
} kt__hf_rope_kind;

typedef struct kt__hf_rope {
    kt__hf_rope_kind kind;
    double factor, attn_factor; /* NaN: absent */
    double beta_fast, beta_slow;
    double stretch;     /* alpha of base * alpha^(d / (d - 2)) */
    double temperature; /* growth of queries beyond orig_ctx */
    double log_multiplier;
    int64_t orig_ctx; /* KT__HF_NONE: absent */
    int n_factors;    /* divisors of the frequencies: llama3, longrope, proportional */
    float factors[KT__HF_MAX_FACTORS], short_factors[KT__HF_MAX_FACTORS];
} kt__hf_rope;

typedef struct kt__hf_config {
    const char *path;
    json_t *root;           /* owned */
    json_t *text;           /* of root: the language model's part */
    const char *model_type; /* of that part: whose defaults count */
    const char *class_name, *arch_name;
    kt__hf_archs arch; /* one */
    int64_t n_layer, n_ctx, d_model, d_ff, n_head, n_head_kv, head_dim, n_vocab, window,
        window_pattern, orig_ctx, n_expert, n_expert_used, d_ff_expert, d_ff_shared, n_types,
        conv_width, n_shared, n_dense_lead, n_group, n_group_used, q_rank, kv_rank, nope_dim,
        rope_dim, value_dim, n_state_key, n_state_value, state_dim, state_value_dim,
        attention_every, mamba_expand, mamba_inner, mamba_head, global_head_dim, n_head_kv_global,
        n_shared_kv, d_layer_input, n_stream, d_low, step_rank, expert_step, temperature_span,
        d_host;
    double eps, layer_eps, rope_theta, rope_theta_local, attn_cap, final_cap, query_scalar,
        rotary_share, attention_scale, embedding_scale, residual_scale, logit_scale, expert_scale,
        temperature;
    int64_t n_rot;
    int64_t n_mtp;                           /* blocks after the layers that propose tokens */
    bool tied;                               /* tie_word_embeddings */
    bool ranks;                              /* a classifier is its head */
    int pooling;                             /* KT__HF_POOL_* of a text's states, or KT__HF_NONE */
    bool has_head_keys;                      /* head_dim is not d_model / n_head */
    bool has_locals;                         /* the file gets a flag for each layer: */
    bool local[KT__HF_MAX_LAYERS];           /* it attends through the sliding window */
    char parts[KT__HF_MAX_LAYERS];           /* of NEMOTRONS: M, *, - or E */
    bool recurrent[KT__HF_MAX_LAYERS];       /* it has a state and no attention */
    int64_t local_head_dim, local_n_head_kv; /* of GEMMA4: of layers with a window */
    kt__hf_rope rope;
} kt__hf_config;

/* Takes root over, also on failure; path must outlive the config. */
kt_status kt__hf_config_read(json_t *root, const char *path, const kt__convert_notes *notes,
                             kt__hf_config *out, kt_error *err) KT_CHECKED;
void kt__hf_config_free(kt__hf_config *config);
/* The first row of a general.architecture in archs.def; 0: none that can be converted. */
kt__hf_archs kt__hf_arch_of(const char *arch_name);
/* The architecture's keys. n_vocab: the rows of the embedding. */
void kt__hf_config_put(const kt__hf_config *config, int64_t n_vocab, kt__gguf_writer *w);

/* config_values.c */
/* A value of the language model's part, else of the file's root; NULL: in neither. */
json_t *kt__hf_config_get(const kt__hf_config *config, const char *name);
/* The same of a truth value; where both are silent, the class's default, else the fallback. */
bool kt__hf_flag(const kt__hf_config *config, const char *name, bool fallback);
/* "name": why. */
kt_status kt__hf_refuse(const kt__hf_config *config, const char *name, const char *why,
                        kt_error *err) KT_CHECKED;
/* What the class means where the file is silent; NULL: nothing. */
const double *kt__hf_default(const kt__hf_config *config, const char *name);

/* config_experts.c: models with experts. */
/* Which of a class's two architectures, where one of them has experts. */
void kt__hf_experts_choose(kt__hf_config *config);
/* Refuses what the formats imply otherwise. */
kt_status kt__hf_experts_read(kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_experts_put(const kt__hf_config *config, kt__gguf_writer *w);
/* A layer with one feed-forward part, in a model that has experts. */
bool kt__hf_is_dense(const kt__hf_config *config, int64_t layer);

/* config_experts.c: attention over latent vectors. */
/* Sizes of heads. */
kt_status kt__hf_latent_derive(kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_latent_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_kinds.c: layers of two kinds, with heads of their own. */
/* A layer's own sizes. */
typedef struct kt__hf_layer {
    int64_t d_ff, n_head_kv, head_dim;
    bool has_keys, has_values; /* matrices for them */
} kt__hf_layer;
kt__hf_layer kt__hf_layer_of(const kt__hf_config *config, int64_t layer);
/* Sizes of heads; then, once it is known which layers have a window, what the format implies. */
kt_status kt__hf_kinds_derive(kt__hf_config *config, kt_error *err) KT_CHECKED;
kt_status kt__hf_kinds_check(const kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_kinds_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_kinds.c: chunked attention, layers that are not rotated, experts in some layers (LLAMA4). */
/* Refuses what the format implies otherwise. */
kt_status kt__hf_chunks_read(kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_chunks_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_experts.c: several residual streams. */
/* First a list of equal widths becomes one; later, what the format implies. */
void kt__hf_streams_read(kt__hf_config *config);
kt_status kt__hf_streams_check(const kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_streams_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_recurrent.c: models whose layers have one part each. */
/* Which of the two architectures; the parts, and what the formats imply of them. */
void kt__hf_parts_choose(kt__hf_config *config);
kt_status kt__hf_parts_read(kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_parts_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_recurrent.c: Mamba and Mamba-2. */
/* Sizes of the first kind, whose channels are heads of their own. "auto" is no number. */
void kt__hf_scan_read(const kt__hf_config *config);
void kt__hf_scan_derive(kt__hf_config *config);
/* Refuses what the formats imply otherwise. */
kt_status kt__hf_mamba_read(const kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_mamba_put(const kt__hf_config *config, kt__gguf_writer *w);
/* Rows of a tensor, one stretch after the other, that are multiplied by a number before they are
 * written. */
enum { KT__HF_MAX_SCALES = 5 };
typedef struct kt__hf_scale {
    int64_t n_rows;
    float by;
} kt__hf_scale;
/* What a model's multipliers make of the tensor of this name in GGUF, without a layer's number
 * ("blk.attn_q.weight"); 0: nothing. */
int kt__hf_scales_of(const kt__hf_config *config, const char *name,
                     kt__hf_scale out[KT__HF_MAX_SCALES]);
/* What of n > 0 stretches a row is in; rows after them count with the last. */
float kt__hf_scale_of_row(const kt__hf_scale *scales, int n, int64_t row);
/* Rows of a state's head. */
int64_t kt__hf_state_rows(const kt__hf_config *config);

/* config_recurrent.c: models that have layers with a state. */
/* The width that a class makes of what config.json says. */
kt_status kt__hf_fit_width(kt__hf_config *config, kt_error *err) KT_CHECKED;
/* Which layers have a state; refuses what the formats imply otherwise. */
kt_status kt__hf_recurrent_read(kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_recurrent_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_kinds.c: which layers have the sliding window, and which are rotated. Refuses what the
 * format implies otherwise. */
kt_status kt__hf_layers_read(kt__hf_config *config, const kt__convert_notes *notes,
                             kt_error *err) KT_CHECKED;
void kt__hf_layers_put(const kt__hf_config *config, kt__gguf_writer *w);

/* config_rope.c */
/* First the kind and what is under other names; once the numbers are read, the factors. */
kt_status kt__hf_rope_read(kt__hf_config *config, kt_error *err) KT_CHECKED;
kt_status kt__hf_rope_finish(kt__hf_config *config, kt_error *err) KT_CHECKED;
void kt__hf_rope_put(const kt__hf_config *config, kt__gguf_writer *w);

/* Weights that another tool has quantised already: refused, by the name that users know.
 *
 * The signs by which AWQ, GPTQ, FP8, bitsandbytes and others are told, in config.json and in the names and types of
 * tensors. Any thread; no state. */

/* config: config.json, or its part for the language model. */
kt_status kt__prequantised_config(const json_t *config, const char *path, kt_error *err) KT_CHECKED;
/* Whether it says that the weights are in MXFP4, and nothing else. */
bool kt__prequantised_mxfp4(const json_t *config);
/* Whether it says that they are BitNet's; that those are packed; and that they are times their
 * factors, not divided by them. */
bool kt__prequantised_bitnet(const json_t *config);
bool kt__prequantised_bitnet_packed(const json_t *config);
bool kt__prequantised_bitnet_multiplies(const json_t *config);
kt_status kt__prequantised_tensors(const kt__folder *folder, kt_error *err) KT_CHECKED;

#endif
