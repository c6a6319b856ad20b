/* Feedbacks and published adapters as bytes of a journal.
 *
 * Owns: what bodies of the journal's records hold, written and read, and every check of what is read.
 * Any thread. */
#ifndef KT_FEEDBACK_RECORD_H
#define KT_FEEDBACK_RECORD_H

#include <kentang.h>
#include <stdbool.h>

#include "base/buf.h"

/* A feedback, and what a store of them is opened with.
 *
 * Owns: layouts, no behaviour. What they point to belongs to their maker. */

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

typedef enum kt__feedback_record {
    KT__RECORD_ITEM = 1,
    KT__RECORD_PUBLISHED,
    KT__RECORD_DELETED,  /* an item that was */
    KT__RECORD_WITHDRAWN /* an adapter that was made from a deleted one */
} kt__feedback_record;

/* What every body begins with. */
typedef struct kt__record_head {
    uint32_t version, parent; /* version 0: it made none */
    int64_t time_us;
} kt__record_head;

typedef struct kt__record_published {
    double quality;
    uint64_t bytes; /* of its folder */
} kt__record_published;

void kt__record_put_head(kt__buf *out, const kt__record_head *head);
void kt__record_put_item(kt__buf *out, const kt__record_head *head, const kt__feedback_item *item,
                         uint32_t d_model);
void kt__record_put_published(kt__buf *out, const kt__record_head *head,
                              const kt__record_published *published);

/* All three: false where the bytes are none such. */
bool kt__record_get_head(const uint8_t *body, size_t n, kt__record_head *out);
/* What the item points to lies in body, which is aligned to 8 bytes. Tokens are below n_vocab. */
bool kt__record_get_item(const uint8_t *body, size_t n, uint32_t d_model, uint32_t n_vocab,
                         kt__feedback_item *out);
bool kt__record_get_published(const uint8_t *body, size_t n, kt__record_published *out);

#endif
