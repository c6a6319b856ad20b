/* Numbers by hash: an open table that only grows.
 *
 * Owns: its slots. One user at a time. */
#ifndef KT_BANK_BANK_STATE_H
#define KT_BANK_BANK_STATE_H

#include "bank/words.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread.h"

typedef struct kt__slot {
    uint64_t hash;
    uint32_t value; /* + 1; 0: free */
} kt__slot;

typedef struct kt__slots {
    kt__slot *slots; /* [n_slots], a power of two; NULL: empty */
    size_t n_slots, n;
} kt__slots;

void kt__slots_free(kt__slots *slots);
bool kt__slots_find(const kt__slots *slots, uint64_t hash, uint32_t *value);
/* Room for one more; false: no memory, and all is as it was. */
bool kt__slots_reserve(kt__slots *slots);
/* After kt__slots_reserve. A hash that is there gets the new value. */
void kt__slots_put(kt__slots *slots, uint64_t hash, uint32_t value);

/* The inside of a bank. bank.c adds and asks, subject.c says what an entry is about, summary.c answers what was
 * learned. */

enum {
    KT__BANK_WORDS = 12,   /* candidates of an entry, at most */
    KT__BANK_SHARING = 64, /* entries that may be about one subject */
    KT__BANK_LANGUAGES = 2,
    KT__BANK_ASKS = 16 /* questions for what was learned, in each of these, at most */
};

/* A word that some entry has among its candidates. */
typedef struct kt__bank_word {
    uint64_t hash;
    uint32_t n_entries; /* that count, and have it */
    uint32_t last;      /* of its postings, + 1; 0: none */
    uint32_t text;      /* in texts */
    uint16_t n_text;
    uint8_t kind; /* kt__word_kind */
} kt__bank_word;

/* An entry that has a word; those of one word are a list, the newest first. */
typedef struct kt__bank_posting {
    uint32_t entry, before; /* before: + 1 */
} kt__bank_posting;

enum { KT__BANK_NAME = 1U << 31 }; /* of a word's number in an entry: it is a name there */

typedef struct kt__bank_item {
    uint64_t id, question; /* question: its words' hash */
    size_t text;           /* in texts: question, then answer */
    uint32_t n_question, n_answer;
    uint32_t words; /* in refs */
    uint32_t asks;  /* the kinds of things that its question is for, and its answer says */
    uint8_t n_words;
    bool asked, replaced, too_long;
} kt__bank_item;

struct kt_bank {
    atomic_int n_holders;
    pthread_mutex_t lock;
    kt__bank_item *items;
    kt__bank_word *words;
    kt__bank_posting *postings;
    uint32_t *refs; /* words of items */
    char *texts;
    size_t n_items, cap_items, n_words, cap_words, n_postings, cap_postings;
    size_t n_refs, cap_refs, n_texts, cap_texts;
    kt__slots by_word, by_question;
    uint64_t asks[KT__BANK_LANGUAGES][KT__BANK_ASKS]; /* their words' hashes; zeros: none further */
};

/* Why an entry opens for nothing. */
typedef enum kt__bank_scope {
    KT__SCOPE_SUBJECT, /* it has one */
    KT__SCOPE_NO_QUESTION,
    KT__SCOPE_COMMON,
    KT__SCOPE_CROWDED,
    KT__SCOPE_TOO_LONG,
    KT__SCOPE_REPLACED
} kt__bank_scope;

/* Which of words[n], those of question and answer, are its candidates: out[KT__BANK_WORDS]. */
size_t kt__bank_candidates(const kt__word *question, size_t n_question, const kt__word *answer,
                           size_t n_answer, kt__word *out);
/* Once, of a new bank: its `asks`. */
void kt__bank_hash_asks(kt_bank *bank);
/* Numbers of the words that have to be in a text for item; *n is 0 unless KT__SCOPE_SUBJECT. */
kt__bank_scope kt__bank_subject(const kt_bank *bank, const kt__bank_item *item,
                                uint32_t out[KT__BANK_WORDS], size_t *n);
/* The kinds of things that an entry of these words is about. */
uint32_t kt__bank_answers(const kt__word *question, size_t n_question, const kt__word *answer,
                          size_t n_answer);
/* How words[n] of a text fit what item says about its subject. question: the text is one. */
kt__bank_fit kt__bank_item_fit(const kt_bank *bank, const kt__bank_item *item,
                               const kt__word *words, size_t n, bool question);

#endif
