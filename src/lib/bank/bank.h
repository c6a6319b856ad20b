/* Corrections, and which of them a text is about.
 *
 * Owns: entries (question, answer, and the words that say what they are about), an index from words
 * to entries, and the test whether an entry's subject is in a text. All of it follows from the
 * entries alone, in whatever order they came, but for corrections of the same question: the last of
 * them counts. Adding one changes nothing but its own words' lists. Knows no model, no tokens, no
 * file. Any thread; a lock of its own, held for microseconds, a leaf.
 *
 * An entry does not open for a question for another kind of thing ("How old is it?", where it says who owns it), as far
 * as words say that.
 *
 * What an entry is about (docs/LEARNING.md): its candidates are the words that question and answer
 * share, or those of the question where they share none, with its names and qualities, without words
 * that say nothing of a subject. Of these count names alone; else all but relations, and but words
 * that many other entries have. */
#ifndef KT_BANK_BANK_H
#define KT_BANK_BANK_H

#include <kentang.h>

#include "bank/words.h"
#include "base/buf.h"

enum {
    KT__BANK_QUESTION_MAX = 1024, /* bytes; longer ones are cut for the note */
    KT__BANK_ANSWER_MAX = 4096,   /* longer ones enter no prompt */
    KT__BANK_TEXT_WORDS = 16384,  /* of a text that are looked at */
    KT__BANK_HITS = 256           /* that are listed of a text, at most */
};

typedef struct kt__bank_entry {
    uint64_t id;          /* higher than all before */
    const char *question; /* [n_question] as the user wrote it; NULL: unknown */
    size_t n_question;
    const char *answer; /* [n_answer] */
    size_t n_answer;
} kt__bank_entry;

typedef struct kt__bank_hit {
    uint64_t id;
    int n_words; /* of its subject */
    kt__bank_fit fit;
} kt__bank_hit;

kt_status kt__bank_open(kt_bank **out, kt_error *err) KT_CHECKED;
/* Texts are copied. After an error it is as before. */
kt_status kt__bank_add(kt_bank *bank, const kt__bank_entry *entry, kt_error *err) KT_CHECKED;
/* Entries whose subject is in text[len], to hits[cap]: those that open first, then those of the longest subjects,
 * of these the newest. Without memory: none. */
size_t kt__bank_find(kt_bank *bank, const char *text, size_t len, kt__bank_hit *hits, size_t cap);
/* Those of them that open. */
size_t kt__bank_open_in(kt_bank *bank, const char *text, size_t len, kt__bank_hit *hits,
                        size_t cap);
/* The same of one entry, whose subject another text named. */
kt__bank_fit kt__bank_fit_of(kt_bank *bank, uint64_t id, const char *text, size_t len);
/* The entry whose question has the words of text[len], whatever the case and punctuation; false: none. */
bool kt__bank_asked(kt_bank *bank, const char *text, size_t len, uint64_t *id);
/* Appends a question and its answer as notes have them. */
void kt__bank_note(const char *question, size_t n_question, const char *answer, size_t n_answer,
                   kt__buf *out);
/* The same of an entry; false: it is not there (any more). */
bool kt__bank_write_note(kt_bank *bank, uint64_t id, kt__buf *out);
/* Its question alone (nothing where it is not known), and its answer. */
bool kt__bank_write_question(kt_bank *bank, uint64_t id, kt__buf *out);
bool kt__bank_write_answer(kt_bank *bank, uint64_t id, kt__buf *out);
/* Where text[len] asks what was learned ("What have you learned?", in some wordings, English and Indonesian): appends
 * the answer, how many corrections count and the newest of them; returns how many are in it, their ids in ids[cap].
 * 0: it does not ask, or there are none. */
size_t kt__bank_summarise(kt_bank *bank, const char *text, size_t len, kt__buf *out, uint64_t *ids,
                          size_t cap);
/* Appends "subject":[...],"scope":"..." as kt_learner_list has them, with a comma before it. Nothing
 * of an id that the bank does not have. */
void kt__bank_write_scope(kt_bank *bank, uint64_t id, kt__buf *out);

#endif
