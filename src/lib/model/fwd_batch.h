/* What a forward pass is made for, and what it is given.
 *
 * Owns: its parameters, and the layout of a batch. Types only. */
#ifndef KT_MODEL_FWD_BATCH_H
#define KT_MODEL_FWD_BATCH_H

#include "model/net.h"

/* Of kt__net_input, those of a layer. */
enum { KT__LAYER_INPUTS = KT__INPUT_DOWN + 1 };

typedef struct kt__fwd_params {
    int n_tok_max;       /* rows of a batch */
    int n_out_max;       /* rows of a batch whose logits are wanted */
    int64_t n_ctx;       /* positions of a sequence */
    bool keys_quantised; /* of the store that batches will use */
    bool mtp;    /* the block that proposes tokens is kept up, and the store has its layer */
    bool states; /* normed states of all rows stay, for kt__fwd_state: with mtp in any case */
    /* Of an assistant's pass, the model whose keys and values are in the store that it reads. */
    const kt__net *host;
    bool exact;
    bool plain_attention;             /* over a store of f16 */
    const kt__blas *blas;             /* or NULL; outlives the pass */
    struct kt__expert_store *experts; /* that reads them as they are needed, if it is on; or NULL */
    /* Other processes run the same batches, each with its part; NULL: all is computed here. Outlives the pass. */
    const kt__division *split;
    /* Those that a graphics processor computes, over such a store; NULL: none. Both outlive the pass. */
    struct kt__device_layers *device;
    const struct kt__gpu_set *device_kv;
    /* Sees the final normed hidden state of each wanted row, f32 [d_model], before the head, and
     * may change it. */
    void (*on_hidden)(void *user, int row, float *hidden);
    void *on_hidden_user;
    /* Sees the activations before a layer's products, or NULL. */
    void (*on_input)(void *user, int layer, kt__net_input input, const kt__acts *acts);
    void *on_input_user;
    bool f32_inputs; /* they are there as f32, too, whatever the products need */
} kt__fwd_params;

/* Rows row0.. of a batch that are given, in place of their tokens' embeddings: x[n_tok], each d_model numbers, and
 * n_deep times as many, which are added to what layers 0..n_deep - 1 make of the row. */
typedef struct kt__given {
    int row0, n_tok, n_deep;
    const float *x;
} kt__given;

/* A batch: all arrays stay the caller's and unchanged until it is done. Segments cover rows
 * 0..n_tok-1, each once, in any order; their tables have pages for every position up to the last.
 * Between two runs a segment's n_tok may be set to 0: its pages are not touched from then on, and
 * its rows are undefined; other segments are not affected. */
typedef struct kt__batch {
    int n_tok;
    const int32_t *ids; /* [n_tok], in range, but of rows that are given */
    const kt__seg *segs;
    int n_seg;
    const int32_t *out_rows; /* [n_out] ascending */
    int n_out;
    /* Rows with adapters, in order, without overlap; what they point to, too, stays until the batch
     * is done. */
    const kt__lora_rows *lora;
    int n_lora;   /* at most n_seg */
    bool no_head; /* the hook sees the wanted rows (up to all), and no logits are made */
    /* With kt__fwd_params.mtp or host: the normed state of the position before each segment, [n_seg] of
     * [d_model]; NULL where nobody knows it. */
    const float *const *before;
    bool mtp; /* rows are of the block that proposes, one a segment, without adapters */
    /* With mtp or host: products of the head's first rows alone, not finished; 0: of all. */
    int n_head_rows;
    const kt__given *given; /* [n_given] apart from each other */
    int n_given;
} kt__batch;

#endif
