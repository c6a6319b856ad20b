/* What is learned from: examples as token ids, and what the training of them is told.
 *
 * Owns: the plain types that a training is called with. Knows neither texts nor where examples come
 * from: the caller that has feedback makes them. No state; any thread. */
#ifndef KT_LEARN_SAMPLE_H
#define KT_LEARN_SAMPLE_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum kt__sample_kind {
    KT__SAMPLE_CORRECTION, /* what the answer should have been: -log p */
    KT__SAMPLE_UP,         /* an answer that was liked: the same */
    KT__SAMPLE_DOWN,       /* one that was not: -log(1 - p), clipped */
    KT__SAMPLE_REPLAY,     /* what shall stay as it is: KL(base, adapted) */
    KT__SAMPLE_NEIGHBOUR,  /* the same of a question close to a correction, with the base's own
                              answer; the gate looks whether taught answers leak into it */
    KT__SAMPLE_KINDS
} kt__sample_kind;

/* Who decides whether a sample is trained or only measured. */
typedef enum kt__sample_use {
    KT__SAMPLE_DRAWN,   /* with its conversation, at random */
    KT__SAMPLE_TRAINED, /* another wording of a question that is measured in one more */
    KT__SAMPLE_MEASURED /* and that one: the rest of its conversation is trained; or a neighbour that never is */
} kt__sample_use;

/* ids[i] is predicted from those before it where mask[i] is set; mask[0] is not. All arrays stay
 * the caller's, unchanged until the training is over. */
typedef struct kt__sample {
    kt__sample_kind kind;
    const int32_t *ids;
    const uint8_t *mask;
    int n;
    float weight; /* 0..1, of its tokens, compared with those of other samples of its kind */
    uint64_t
        group; /* its conversation: never divided between training and measurement, but by a measured wording */
    kt__sample_use use;
    bool earlier; /* a correction that an earlier version learned: recalled still? */
} kt__sample;

/* Which matrices are trained. The first two change no key and no value of any position. */
typedef enum kt__learn_where {
    KT__LEARN_HIDDEN, /* the final hidden state */
    KT__LEARN_LAST,   /* the last layer after its keys and values, and the final hidden state */
    KT__LEARN_ALL     /* every matrix of every layer */
} kt__learn_where;

typedef struct kt__learn_settings {
    kt__learn_where where;
    int rank;
    float alpha; /* the adapter adds alpha / rank times B A x */
    int n_step;
    float rate; /* Adam's, at the highest; it falls to 0 in the end. 0: kt__learn_rate */
    int batch, batch_replay, batch_neighbour; /* samples a step */
    /* Of KL, compared with the rest: of replay (0: no replay, neither of the two), and of neighbours. */
    float replay_weight, neighbour_weight;
    float ewc_lambda; /* of the penalty, where a consolidation is given */
    uint64_t seed;
    double held_out;   /* share of conversations that are only measured, 0.2 */
    double anchor_max; /* KL(base, adapted) on the anchor that the gate allows, 0.01 nats a token */
    bool shrink; /* what was trained is scaled down until it is half of that on other replay */
    /* Used only where a correction opens: nothing else changes, so that neither replay nor neighbours bound it,
     * and its share is the one at which most held-out answers are right. */
    bool scoped;
    double leak_max;     /* share of neighbours, and of siblings, that may leak, 0.4 */
    double sibling_part; /* share of siblings up to which what is scoped may be scaled, 0.2 */
    double recall_min;   /* of what earlier corrections were recalled, 0.95 */
    int64_t cpu_ms_max;  /* processor time of the process while it trains; 0: no limit */
    uint64_t bytes_max;  /* of activations and scratch; 0: 512 MiB. Less may mean smaller
                                             batches, and then other bytes */
    uint64_t
        bytes_keep; /* more than that, where it saves time: it changes no byte of the result; 0: no more */
    const char
        *resume; /* a file from which a training is resumed where it was interrupted; NULL: none */
    /* Asked many times a second on the calling thread, which waits meanwhile; false: the training
     * is cancelled. Or NULL. */
    bool (*go_on)(void *user);
    void *go_on_user;
    void (*progress)(void *user, int step, double loss); /* or NULL */
    void *progress_user;
} kt__learn_settings;

/* All layers, rank 8, and what was measured to be good (docs/LEARNING.md). */
void kt__learn_defaults(kt__learn_settings *settings);
/* KT_E_ARG names what is out of its range. */
kt_status kt__learn_check(const kt__learn_settings *settings, kt_error *err) KT_CHECKED;
/* Of n samples: ids in 0..n_vocab-1, at least one masked each, at most n_max ids. KT_E_ARG. */
kt_status kt__samples_check(const kt__sample *samples, size_t n, int n_vocab, int n_max,
                            kt_error *err) KT_CHECKED;

#endif
