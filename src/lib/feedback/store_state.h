/* The inside of a store.
 *
 * Owns: its layout, what is known of each record in memory (not what the user wrote), and how versions
 * follow from records. store.c opens and asks, store_change.c changes. With the store's lock. */
#ifndef KT_FEEDBACK_STORE_STATE_H
#define KT_FEEDBACK_STORE_STATE_H

#include "base/thread.h"
#include "feedback/journal.h"
#include "feedback/record.h"

typedef struct kt__feedback_entry {
    uint64_t id; /* the record's serial number */
    kt__feedback_record record;
    kt__feedback_kind kind; /* of an item */
    kt__record_head head;
    uint64_t about; /* a hash of what it is about; 0: of no answer */
    float score;
    uint32_t n_keys;
    uint64_t at; /* of its body */
    size_t n_body;
    kt__record_published published;
} kt__feedback_entry;

struct kt__feedback {
    pthread_mutex_t lock;
    kt__feedback_params params;
    char *dir;
    int lock_fd;
    kt__journal *journal;
    kt__feedback_entry *entries; /* in their order */
    size_t n_entries, cap_entries;
    size_t *versions; /* [n_versions]: the entry that made version i + 1 */
    size_t n_versions, cap_versions;
    uint32_t current;
    bool frozen;
    kt__journal_tail tail; /* as it was when the journal was opened */
};

/* Takes a record in; KT_E_FORMAT where it does not follow from those before. For kt__journal_open
 * and kt__journal_rewrite. */
kt_status kt__feedback_take_record(void *store, const kt__journal_record *record,
                                   kt_error *err) KT_CHECKED;
uint64_t kt__feedback_about_hash(const char *about);
/* NULL: no such id, or another record than an item. */
const kt__feedback_entry *kt__feedback_find(const kt__feedback *store, uint64_t id);
uint64_t kt__feedback_bytes(const kt__feedback *store);
uint64_t kt__feedback_n_items(const kt__feedback *store);

#endif
