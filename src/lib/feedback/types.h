/* A feedback, and what a store of them is opened with.
 *
 * Owns: layouts, no behaviour. What they point to belongs to their maker. */
#ifndef KT_FEEDBACK_TYPES_H
#define KT_FEEDBACK_TYPES_H

#include <kentang.h>

typedef struct kt__feedback kt__feedback;

typedef struct kt__feedback_params {
    const char *dir;
    /* of the model that is learned on; KT_E_STATE where the folder is of another one */
    uint8_t base[KT_FINGERPRINT_BYTES];
    uint32_t d_model, n_vocab;
    uint64_t max_entries; /* feedbacks, deleted ones not counted; 0: 10,000 */
    uint64_t max_bytes;   /* of the journal and the published adapters; 0: 64 MiB */
    bool read_only;       /* nothing is changed, and no other process kept out */
} kt__feedback_params;

typedef enum kt__feedback_kind {
    KT__FEEDBACK_SCORE = 1,  /* of an answer: 0 to 1 */
    KT__FEEDBACK_CORRECTION, /* of an answer: what it should have been */
    KT__FEEDBACK_PAIR        /* a prompt and its answer, from a file */
} kt__feedback_kind;

/* Of a place in a text: the hidden state's key, and the token that is right there. */
typedef struct kt__feedback_keys {
    size_t n;
    const int32_t *ids; /* [n] */
    const int8_t *keys; /* [n][d_model] */
} kt__feedback_keys;

typedef struct kt__feedback_item {
    uint64_t id; /* out: of the store, never used again */
    int64_t time_us;
    kt__feedback_kind kind;
    float score;                            /* KT__FEEDBACK_SCORE */
    const char *about;                      /* the answer's id, or "" */
    const int32_t *prompt, *answer, *right; /* tokens: asked, answered, correct; with their end */
    size_t n_prompt, n_answer, n_right;
    const char *text; /* of the correction, UTF-8 */
    size_t n_text;
    const char *question; /* what the user said last; NULL: unknown */
    size_t n_question;
    kt__feedback_keys keys; /* n 0: it changes no answer by itself */
} kt__feedback_item;

#endif
