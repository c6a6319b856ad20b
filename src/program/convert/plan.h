/* The plan of a conversion: which tensors the GGUF file gets, of which type, made from what.
 *
 * Owns: the mapping of tensor names (tensors.def), what is dropped, and the question of tied heads (plan.c); tensors
 * by a row of the table (plan_parts.c); what sentence-transformers puts after a model (sentence.c). Reads no weights
 * but to compare two heads, and for the mean of BitNet's. Immutable once made; any thread. */
#ifndef KT_CONVERT_PLAN_H
#define KT_CONVERT_PLAN_H

#include "convert/config.h"
#include "convert/planned.h"
#include "convert/safetensors.h"
#include "quant/recipe.h"

/* What sentence-transformers puts after a model: modules.json and the folders that it names.
 *
 * How a text's states are pooled, the dense layers after the pooled state, and which two tokens a ranking compares.
 * Its files are hostile as config.json is. Knows no GGUF. Immutable once read; any thread. */

enum { KT__SENTENCE_MAX_DENSE = 2 };

typedef struct kt__sentence {
    int pooling; /* KT__HF_POOL_*, or KT__HF_NONE */
    size_t n_dense;
    kt__folder dense[KT__SENTENCE_MAX_DENSE];
    const kt__st_tensor *dense_weight[KT__SENTENCE_MAX_DENSE]; /* [out, in] */
    const kt__st_tensor *dense_bias[KT__SENTENCE_MAX_DENSE];   /* [out], or NULL */
    bool compares;         /* logit(yes) - logit(no) at the last token is the answer */
    int64_t yes_id, no_id; /* no_id -1: logit(yes) alone */
} kt__sentence;

/* A folder without modules.json says nothing. Freed with kt__sentence_close, also after failure. */
kt_status kt__sentence_open(const char *dir, kt__sentence *out, kt_error *err) KT_CHECKED;
void kt__sentence_close(kt__sentence *sentence); /* also of a zeroed one */

/* Tensors of a plan by a row of the table: where the folder has them, whether they are of the right shape, and those
 * made of several of the folder's or of parts of one.
 *
 * The planner, a row's sizes, shape checks. Internal to the plan. */

typedef enum plan_dim {
#define X(name, value, form) DIM_##name,
#include "model/dims.def"
#undef X
    DIM_CTX, /* of the file alone */
    DIM_TYPES,
    DIM_LABELS,
    DIM_ONE_ROW,
    DIM_LAYER_INPUTS /* of all layers */
} plan_dim;

/* A config's numbers by the names that dims.def has for them. */
typedef struct plan_sizes {
    int64_t d_model, d_ff, n_head, n_head_kv, head_dim_k, head_dim_v, n_expert, d_ff_expert,
        d_ff_shared, conv_width, n_state_key, n_state_value, state_dim, state_rows;
    int64_t d_layer_input, n_stream, d_low, step_rank, n_vocab, d_host;
    int64_t q_rank, kv_rank, head_dim_k_full,
        head_dim_v_full; /* of attention over latent vectors */
} plan_sizes;

typedef struct map_row {
    const char *from, *to;
    kt__hf_archs archs;
    plan_dim rows, cols;
    kt__change change;
    bool must;
} map_row;

enum { MAX_NAME = KT__ST_MAX_NAME + 32 };

typedef struct planner {
    const kt__folder *folder;
    const kt__hf_config *config;
    const kt__recipe *recipe;
    kt__weight_plan *plan;
    plan_sizes sizes;
    bool has_head;             /* a head of its own */
    bool mtp_embeds, mtp_ends; /* the block that proposes has embeddings, a head of its own */
    bool as_source;            /* no recipe was asked for */
    const kt__sentence *sentence;
    int64_t n_labels; /* of a classifier */
    kt_error *err;
} planner;

int64_t kt__plan_dim_of(const planner *p, plan_dim dim);
/* Bytes of a name in a folder before the one that the table has. */
size_t kt__plan_prefix_len(const char *name);
/* "layers.x" of layer 3 is "layers.3.x", "blk.x" is "blk.3.x". */
void kt__plan_with_layer(const char *name, int64_t layer, char *out, size_t size);
/* The name of a row's tensor in a folder, whose blocks that propose may have names of their own. */
void kt__plan_source_name(const kt__hf_config *config, const char *from, int64_t layer, char *out,
                          size_t size);
/* Under any of the prefixes; two spellings of one tensor are refused. NULL: it is not there. */
kt_status kt__plan_find_source(const planner *p, const char *name, const kt__st_tensor **out,
                               const kt__shard **shard) KT_CHECKED;
bool kt__plan_has_source(const planner *p, const char *name);
/* Whether they have one type and the same bytes. */
kt_status kt__plan_same_tensors(const planner *p, const kt__st_tensor *a, const kt__shard *in_a,
                                const kt__st_tensor *b, const kt__shard *in_b,
                                bool *same) KT_CHECKED;
void kt__plan_show_shape(const kt__st_tensor *t, char got[120]);
kt_status kt__plan_check_shape(const planner *p, const kt__st_tensor *t, const kt__shard *shard,
                               int64_t rows, int64_t cols, bool vector) KT_CHECKED;
kt_status kt__plan_check_dtype(const planner *p, const kt__st_tensor *t,
                               const kt__shard *shard) KT_CHECKED;
kt__weight_source kt__plan_source_of(const kt__st_tensor *t, const kt__shard *shard);
/* By the recipe; t's name and shape are set. */
kt__type kt__plan_type_of(const planner *p, const kt__planned *t);

bool kt__plan_is_stacked(kt__change change);
bool kt__plan_is_mxfp4(kt__change change);
bool kt__plan_is_halved(kt__change change);
/* One tensor of those of all experts, in tensors of their own. */
kt_status kt__plan_add_each(planner *p, const map_row *row, int64_t layer) KT_CHECKED;
/* Of all experts in one. */
kt_status kt__plan_add_stacked(planner *p, const map_row *row, int64_t layer) KT_CHECKED;
/* Heads of keys and values in one matrix, of attention over latent vectors. */
kt_status kt__plan_add_heads(planner *p, const map_row *row, int64_t layer) KT_CHECKED;
/* Queries, keys, values and gates by key head. */
kt_status kt__plan_add_grouped(planner *p, const map_row *row, int64_t layer) KT_CHECKED;
kt_status kt__plan_add_blocks(planner *p, const map_row *row, int64_t layer) KT_CHECKED;
/* plan.c: BitNet's matrices. */
bool kt__plan_is_ternary(const planner *p, const map_row *row);
kt_status kt__plan_add_ternary(planner *p, const map_row *row, int64_t layer) KT_CHECKED;

/* recipe NULL: as the source. n_tokens: of the tokenizer; the embedding may have more rows.
 * sentence: what sentence-transformers put after the model; it must outlive the plan. */
kt_status kt__weight_plan_make(const kt__folder *folder, const kt__hf_config *config,
                               const kt__sentence *sentence, int64_t n_tokens,
                               const kt__recipe *recipe, const kt__convert_notes *notes,
                               kt__weight_plan *out, kt_error *err) KT_CHECKED;
/* Rows of the embedding. */
kt_status kt__weight_plan_rows(const kt__folder *folder, const kt__hf_config *config, size_t *out,
                               kt_error *err) KT_CHECKED;
/* The tensor in GGUF, and its change, of a folder's (with any prefix) in a model of this
 * architecture (KT__HF_*); to[size]. false: none that the table has. */
bool kt__tensor_name_find(const char *name, kt__hf_archs arch, char *to, size_t size,
                          kt__change *change);

/* The block after the layers that proposes tokens (multi-token prediction). DeepSeek's class has it as
 * one more layer; Qwen3.5's has the layer, and what is before and after it, under "mtp.". A file gets
 * the first of several blocks.
 *
 * Owns: whether a folder has one, and what of it becomes no tensor. Internal to the plan. */

/* Sets config->n_mtp. */
kt_status kt__plan_find_mtp(const kt__folder *folder, kt__hf_config *config,
                            kt_error *err) KT_CHECKED;
/* Which of its tensors are the model's own once more. */
kt_status kt__plan_look_at_mtp(planner *p) KT_CHECKED;
/* A row of the block that is not in this layer, or in none. */
bool kt__plan_is_left_of_mtp(const planner *p, const map_row *row, int64_t layer);
/* A folder's tensor that is the model's own once more. */
bool kt__plan_is_copy_in_mtp(const planner *p, const char *name);
/* A layer after the last, which proposes tokens. */
bool kt__plan_is_next_layer(const planner *p, const char *name);

#endif
