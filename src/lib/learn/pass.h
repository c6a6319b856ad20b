/* The forward pass with what is needed to go back through it, and the way back.
 *
 * Owns: the layer program of dense decoders in f32 as the forward pass has it, its attention, activations (the
 * residual stream of every layer; the rest too of as many layers as there is room for, else computed again), and the
 * gradients of an adapter's matrices. Weights stay as they are in the file. Knows no losses. Threads: as learn.h
 * says. No allocation after creation. */
#ifndef KT_LEARN_PASS_H
#define KT_LEARN_PASS_H

#include "learn/factors.h"
#include "learn/panel.h"

/* Attention of whole sequences in f32, forward and back.
 *
 * Scores, the soft-cap, the causal and the sliding window's mask, the softmax and their gradients; scores are
 * computed again on the way back. A sequence's work of one key head is one worker's. Threads: as panel.h. */

/* A sequence that grows: its keys and values begin at row0 of those that are kept, n_old of its rows are among them,
 * and n_new follow, whose queries begin at row q_row. */
typedef struct kt__grown {
    int row0, n_old, n_new, q_row;
} kt__grown;

/* Sequences laid end to end: sequence s has rows [at[s], at[s + 1]), and sees those before at[0] ahead of its own. Or
 * those that grow, which see the first n_shared rows of what is kept. */
typedef struct kt__attend {
    const int *at;
    const kt__grown *grown; /* [n_seq], in place of at: forward alone; or NULL */
    int n_shared; /* with grown; the sequence whose row0 is before it is the shared one itself */
    int n_seq;
    int n_head, n_head_kv, head_dim_k, head_dim_v;
    float q_scale;
    const float *q_row_scale; /* [row] besides q_scale, or NULL */
    int64_t window;           /* 0: none */
    float softcap;            /* 0: none */
    const float *q, *k, *v;   /* rows of all heads, kt__pad apart; normed and rotated */
    uint8_t *scratch;         /* [n_worker][kt__attend_bytes] */
    int len_max;
} kt__attend;

size_t kt__attend_bytes(int len_max, int head_dim_k, int head_dim_v);
/* out[row][n_head * head_dim_v] */
void kt__attend_forward(kt__panels *p, const kt__attend *a, float *out);
/* dq, dk, dv of dout; all are written. */
void kt__attend_backward(kt__panels *p, const kt__attend *a, const float *dout, float *dq,
                         float *dk, float *dv);

typedef struct kt__pass kt__pass;

typedef struct kt__pass_params {
    int n_tok_max; /* of a batch */
    int len_max;   /* of a sequence */
    int rank_max;
    uint64_t bytes_max, bytes_keep; /* layers' activations are kept up to the larger one */
    /* Asked between layers, on the calling thread: once false, what comes out is worth nothing. Or
     * NULL. */
    bool (*go_on)(void *user);
    void *go_on_user;
} kt__pass_params;

/* Sequences laid end to end. Rows before at[0] are what all begin with, from position 0 on: they are computed once.
 *
 * Or the next rows of sequences that grow: keys and values of rows that were computed before are read from where they
 * are kept, until a batch of another kind is computed. There is no way back from them. */
typedef struct kt__pass_batch {
    int n_tok;
    const int32_t *ids;
    int n_seq;
    const int *at; /* [n_seq + 1] first rows */
    int n_out;
    const int32_t *out_rows; /* [n_out] ascending: whose hidden states are wanted */
    const kt__grown *grown;  /* [n_seq] in place of at, or NULL */
    int n_shared;            /* with grown, as kt__attend has it */
} kt__pass_batch;

/* KT_E_UNSUPPORTED: a layer program that has no way back here; KT_E_NOMEM. */
kt_status kt__pass_create(const kt__net *net, kt__pool *pool, const kt__kernels *kernels,
                          const kt__pass_params *params, kt__pass **out, kt_error *err) KT_CHECKED;
void kt__pass_destroy(kt__pass *pass); /* NULL allowed */
/* Bytes of activations and scratch at the least, all but the residual stream computed again, with
 * one thread: a size that is chosen by it is the same with any number. */
uint64_t kt__pass_bytes(const kt__net *net, const kt__kernels *kernels,
                        const kt__pass_params *params);
/* The final normed hidden states [n_out][kt__pad(d_model)], adapted (factors NULL: the base);
 * valid until the next forward. The batch stays unchanged until then. */
const float *kt__pass_forward(kt__pass *pass, const kt__factors *factors,
                              const kt__pass_batch *batch);
/* After a forward with the same factors: adds the gradients by their values to grads
 * [factors->n_value]. d_hidden: by the hidden states; is overwritten. */
void kt__pass_backward(kt__pass *pass, const kt__factors *factors, const kt__pass_batch *batch,
                       float *d_hidden, float *grads);
/* Rows of sequences that grow whose keys and values can be kept: at least len_max. */
int kt__pass_grown_max(const kt__pass *pass);
kt__panels *kt__pass_panels(kt__pass *pass);

#endif
