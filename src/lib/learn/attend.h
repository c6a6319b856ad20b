/* Attention of whole sequences in f32, forward and back.
 *
 * Owns: scores, the soft-cap, the causal and the sliding window's mask, the softmax and their
 * gradients; scores are computed again on the way back. A sequence's work of one key head is one
 * worker's. Threads: as panel.h. */
#ifndef KT_LEARN_ATTEND_H
#define KT_LEARN_ATTEND_H

#include "learn/panel.h"

/* Sequences laid end to end: sequence s has rows [at[s], at[s + 1]). */
typedef struct kt__attend {
    const int *at;
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

#endif
