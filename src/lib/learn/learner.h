/* Samples through the passes: batches of them, their losses, their gradients, what a model writes.
 *
 * Owns: the division of samples into batches that fit, the losses of predicted tokens with their gradients, and the
 * base's hidden states that replay is compared with. Knows neither optimiser nor gate. Threads: as learn.h says. */
#ifndef KT_LEARN_LEARNER_H
#define KT_LEARN_LEARNER_H

#include "learn/panel.h"
#include "learn/report.h"
#include "model/net.h"

/* Losses of predicted tokens, and their gradients by the hidden states before the head.
 *
 * The head's product in stretches of rows, the soft-cap, and three losses: cross entropy, clipped unlikelihood, and
 * the divergence from what the base predicts. Knows no samples. Threads: as panel.h. */

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

typedef struct kt__learner kt__learner;

/* Of one sample under an adapter. */
typedef struct kt__sample_score {
    double loss; /* the sum over its tokens: -log p, or of thumbs down -log(1 - p) */
    int n_tok;
    bool recalled; /* every token is the likeliest one */
} kt__sample_score;

/* samples[n] outlive the learner. */
kt_status kt__learner_create(const kt__learn_on *on, const kt__sample *samples, size_t n,
                             const kt__learn_settings *settings, kt__learner **out,
                             kt_error *err) KT_CHECKED;
void kt__learner_destroy(kt__learner *learner); /* NULL allowed */
/* Samples that answer for as much as they did before training: REPLAY and NEIGHBOUR. */
static inline bool kt__sample_is_kept(const kt__sample *s) {
    return s->kind == KT__SAMPLE_REPLAY || s->kind == KT__SAMPLE_NEIGHBOUR;
}
/* The base's hidden states of the samples list[n] of kind REPLAY or NEIGHBOUR, before they are in a
 * step. KT_E_NOMEM, KT_E_CANCELLED. */
kt_status kt__learner_keep_base(kt__learner *learner, const size_t *list, size_t n,
                                kt_error *err) KT_CHECKED;
/* scores[n] of the samples list[n]; factors NULL: the base, from its states where they are kept. KT_E_CANCELLED. */
kt_status kt__learner_score(kt__learner *learner, const kt__factors *factors, const size_t *list,
                            size_t n, kt__sample_score *scores, kt_error *err) KT_CHECKED;
/* The sum of KL(base, factors) over the tokens of the samples list[n] of kind REPLAY or NEIGHBOUR, and how many these
 * are; factors NULL: 0. scores: NULL, or theirs, as kt__learner_score. KT_E_NOMEM, KT_E_CANCELLED. */
kt_status kt__learner_diverge(kt__learner *learner, const kt__factors *factors, const size_t *list,
                              size_t n, kt__sample_score *scores, double *kl, int *n_tok,
                              kt_error *err) KT_CHECKED;
/* The same of other samples than the learner's, of at most kt__learner_len_max tokens. */
kt_status kt__learner_score_others(kt__learner *learner, const kt__factors *factors,
                                   const kt__sample *others, size_t n, kt__sample_score *scores,
                                   kt_error *err) KT_CHECKED;
int kt__learner_len_max(const kt__learner *learner);
/* A step's samples list[n], those of the base last: adds to grads[factors->n_value]; weights[n]: of
 * each token of a sample. *loss: the weighted sum. KT_E_CANCELLED. */
kt_status kt__learner_step(kt__learner *learner, const kt__factors *factors, const size_t *list,
                           const float *weights, size_t n, float *grads, double *loss,
                           kt_error *err) KT_CHECKED;
enum { KT__WRITTEN_MAX = 32 };
/* What a model answers to the tokens ahead of a sample's first masked one: the likeliest ones, up to
 * KT__WRITTEN_MAX, or to what ends the answer, which is not counted. */
typedef struct kt__written {
    int n;
    int32_t ids[KT__WRITTEN_MAX];
} kt__written;
/* Asked ahead of each pass, and of what is whole: whether the answer to list[i] needs no more than what is written of
 * it so far. */
typedef bool kt__writing_over(void *user, size_t i, const kt__written *so_far);
/* out[n] of the samples list[n]; over: NULL, or what ends one early. KT_E_NOMEM, KT_E_CANCELLED. */
kt_status kt__learner_write(kt__learner *learner, const kt__factors *factors, const size_t *list,
                            size_t n, kt__writing_over *over, void *over_user, kt__written *out,
                            kt_error *err) KT_CHECKED;
/* A sample's first masked token, and so how many are ahead of it. */
int kt__sample_first_masked(const kt__sample *s);
/* Masked tokens of a sample. */
int kt__sample_n_masked(const kt__sample *s);

#endif
