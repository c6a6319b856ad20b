/* Feedbacks and published adapters as bytes of a journal.
 *
 * Owns: what bodies of the journal's records hold, written and read, and every check of what is read.
 * Any thread. */
#ifndef KT_FEEDBACK_RECORD_H
#define KT_FEEDBACK_RECORD_H

#include <stdbool.h>

#include "base/buf.h"
#include "feedback/types.h"

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
