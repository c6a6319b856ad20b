/* The words of a text, as the bank compares them.
 *
 * Owns: what a word is (letters, marks and digits, lower case, composed; a possessive 's dropped, a
 * plural's s and the Indonesian -nya, too), pairs of characters where a script has no blanks between
 * words, which words do not say what a text is about, and which are names. A pure function of the
 * text: no model, no state. Any thread. */
#ifndef KT_BANK_BANK_H
#define KT_BANK_BANK_H

#include "base/alloc.h"
#include "base/buf.h"

#include <kentang.h>
#include <stdbool.h>

typedef enum kt__word_kind {
    KT__WORD_PLAIN,
    KT__WORD_COMMON,   /* says nothing of what a text is about */
    KT__WORD_RELATION, /* what something is asked of: its price, its place */
    KT__WORD_QUALITY   /* which of several: the blue one */
} kt__word_kind;

typedef struct kt__word {
    uint64_t hash;
    const char *s; /* [len] in the caller's arena or in the text */
    size_t len;
    kt__word_kind kind;
    bool name; /* begins with a capital where no sentence begins */
} kt__word;

/* Words of text[len] to words[most]; returns how many: those beyond most are left out. Bytes that
 * are not UTF-8 end a word. false: no memory in the arena. */
bool kt__words_of(kt__arena *arena, const char *text, size_t len, kt__word *words, size_t most,
                  size_t *n);
/* Their hash, whatever the case, blanks and punctuation of the text: the same question has the same. */
uint64_t kt__words_hash(const kt__word *words, size_t n);

/* Entries, and what of them a text is about. */

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
} kt__bank_hit;

kt_status kt__bank_open(kt_bank **out, kt_error *err) KT_CHECKED;
/* Texts are copied. After an error it is as before. */
kt_status kt__bank_add(kt_bank *bank, const kt__bank_entry *entry, kt_error *err) KT_CHECKED;
/* Entries whose subject is in text[len], to hits[cap]: those of the longest subjects first, of these
 * the newest. Without memory: none. */
size_t kt__bank_find(kt_bank *bank, const char *text, size_t len, kt__bank_hit *hits, size_t cap);
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
/* Where text[len] asks what was learned ("What have you learned?", in some wordings, English and Indonesian): appends the
 * answer, how many corrections count and the newest of them; returns how many are in it, their ids in ids[cap].
 * 0: it does not ask, or there are none. */
size_t kt__bank_summarise(kt_bank *bank, const char *text, size_t len, kt__buf *out, uint64_t *ids,
                          size_t cap);
/* Appends "subject":[...],"scope":"..." as kt_learner_list has them, with a comma before it. Nothing
 * of an id that the bank does not have. */
void kt__bank_write_scope(kt_bank *bank, uint64_t id, kt__buf *out);

#endif
