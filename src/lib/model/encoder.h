/* What encoders compute beyond the layer program of decoders, and what becomes of their hidden
 * states.
 *
 * Owns: tables of positions and token types, layer norms with a bias after each block, a
 * feed-forward part without a gate, and the matrices after the pooled state (dense layers, a
 * reranker's head) with their binding. Knows rows and weights; not sequences' tables or requests.
 * Parts that run in a batch belong to its forward pass; kt__pool_* may be called from any
 * thread. */
#ifndef KT_MODEL_ENCODER_H
#define KT_MODEL_ENCODER_H

#include "ops/ops.h"

/* A layer norm with both its vectors. */
typedef struct kt__layer_norm {
    const float *w, *b; /* NULL: there is none */
} kt__layer_norm;

/* The tables next to the embedding of tokens. */
typedef struct kt__input_tables {
    kt__weight positions, types; /* absent without data */
    kt__layer_norm norm;
} kt__input_tables;

/* x[n_tok][n] += the rows of each token's position and type; then the norm. ids: [n_tok] of room;
 * tmp: as large as x. false: a row is not finite. */
bool kt__encoder_embed(kt__dev *dev, const kt__input_tables *tables, const kt__seg *segs, int n_seg,
                       float eps, int n_tok, int n, int32_t *ids, float *tmp, float *x);
/* x[n_tok][n] = layer_norm(x), with or without a bias; false: a row is not finite. */
bool kt__encoder_norm(kt__dev *dev, const kt__layer_norm *norm, float eps, int n_tok, int n,
                      float *x);
/* out = gelu(up . acts + bias) as activation rows; rows: [n_tok][up.n_row] of room. */
void kt__encoder_up(kt__dev *dev, const kt__weight *up, const float *bias, const kt__acts *acts,
                    const kt__lora_terms *lora, float *rows, kt__acts *out);

/* ---- after the last layer ---- */

enum { KT__POOL_DENSE = 2, KT__POOL_MAX_LABELS = 256 };

typedef struct kt__pool_head {
    kt__weight dense[KT__POOL_DENSE];        /* one after the other; absent without data */
    const float *dense_bias[KT__POOL_DENSE]; /* or NULL */
    kt__weight hidden, labels; /* of a reranker: tanh(hidden . x + bias), then the labels */
    const float *hidden_bias, *labels_bias; /* or NULL */
} kt__pool_head;

/* Floats of room that the calls below need. */
size_t kt__pool_scratch_floats(const kt__pool_head *head, int d_model);
/* The pooled state x[d_model] through the dense layers, in place. */
void kt__pool_project(const kt__pool_head *head, int d_model, float *x, float *scratch);
/* A reranker's answer for the pooled state: from 0, not relevant, to 1. One label: its logistic
 * function; more: the first one's share of the softmax. */
float kt__pool_relevance(const kt__pool_head *head, int d_model, const float *x, float *scratch);

#endif
