/* Losses of predicted tokens, and their gradients by the hidden states before the head.
 *
 * Owns: the head's product in stretches of rows, the soft-cap, and three losses: cross entropy,
 * clipped unlikelihood, and the divergence from what the base predicts. Knows no samples. Threads:
 * as panel.h. */
#ifndef KT_LEARN_LOSS_H
#define KT_LEARN_LOSS_H

#include "learn/panel.h"
#include "model/net.h"

typedef enum kt__loss_kind {
    KT__LOSS_LIKE,   /* -log p */
    KT__LOSS_UNLIKE, /* -log(1 - p), p held to 0.95 */
    KT__LOSS_KL      /* sum of base p log(base p / p) */
} kt__loss_kind;

typedef struct kt__loss_row {
    int32_t target;
    kt__loss_kind kind;
    float weight; /* of its gradient */
    /* out */
    float loss; /* without the weight */
    bool hit;   /* the target is the likeliest token */
    int32_t best;
} kt__loss_row;

typedef struct kt__losses kt__losses;

kt_status kt__losses_create(const kt__net *net, kt__panels *panels, int n_row_max, kt__losses **out,
                            kt_error *err) KT_CHECKED;
void kt__losses_destroy(kt__losses *losses); /* NULL allowed */
/* rows[n] of hidden[n][kt__pad(d_model)]; rows of kind KL are the last n_kl, with base[n_kl]
 * besides them. d_hidden[n] is written; NULL: losses alone. */
void kt__losses_run(kt__losses *losses, const float *hidden, const float *base, int n, int n_kl,
                    kt__loss_row *rows, float *d_hidden);

#endif
