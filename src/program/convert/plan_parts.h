/* Tensors of a plan by a row of the table: where the folder has them, whether they are of the right
 * shape, and those made of several of the folder's or of parts of one.
 *
 * Owns: the planner, a row's sizes, shape checks. Internal to the plan. */
#ifndef KT_CONVERT_PLAN_PARTS_H
#define KT_CONVERT_PLAN_PARTS_H

#include "convert/planned.h"
#include "convert/sentence.h"

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

#endif
