/* The words of a text, as the bank compares them.
 *
 * Owns: what a word is (letters, marks and digits, lower case, composed; a possessive 's dropped, a
 * plural's s and the Indonesian -nya, too), pairs of characters where a script has no blanks between
 * words, which words do not say what a text is about, which are names, and what kind of thing a
 * word asks for. A pure function of the text: no model, no state. Any thread. */
#ifndef KT_BANK_WORDS_H
#define KT_BANK_WORDS_H

#include <kentang.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

typedef enum kt__word_kind {
    KT__WORD_PLAIN,
    KT__WORD_COMMON,   /* says nothing of what a text is about */
    KT__WORD_RELATION, /* what something is asked of: its price, its place, how heavy it is */
    KT__WORD_QUALITY   /* which of several: the blue one */
} kt__word_kind;

typedef struct kt__word {
    uint64_t hash;
    const char *s; /* [len] in the caller's arena or in the text */
    size_t len;
    kt__word_kind kind;
    bool name; /* begins with a capital where no sentence begins */
    uint32_t
        asks; /* what kinds of things it asks for, or says that there are: for kt__asks_other */
} kt__word;

/* Words of text[len] to words[most]; returns how many: those beyond most are left out. Bytes that
 * are not UTF-8 end a word. false: no memory in the arena. */
bool kt__words_of(kt__arena *arena, const char *text, size_t len, kt__word *words, size_t most,
                  size_t *n);
/* Their hash, whatever the case, blanks and punctuation of the text: the same question has the same. */
uint64_t kt__words_hash(const kt__word *words, size_t n);
/* What a text that names an entry's subject has to do with what the entry says. */
typedef enum kt__bank_fit {
    KT__FIT_AKIN, /* a word in common besides the subject, or a kind of thing that is asked for and answered */
    KT__FIT_OPEN,     /* it asks nothing */
    KT__FIT_DOUBTFUL, /* a question in other words, for what they do not say */
    KT__FIT_OTHER     /* one for another kind of thing: the entry does not open */
} kt__bank_fit;

enum { KT__ASKING_WORDS = 32 }; /* the words of a longer text say too many things */
/* Whether text[len] of these words is a question by its form: a mark, or an asking word first. */
bool kt__words_ask(const char *text, size_t len, const kt__word *words, size_t n);
/* Whether a question with the words' `asks` together is for a kind of thing that an entry of `answered` says. */
bool kt__asks_alike(uint32_t asked, uint32_t answered);
/* Whether it is for another kind of thing. akin: they have a word in common besides what they are about. */
bool kt__asks_other(uint32_t asked, uint32_t answered, bool akin);

#endif
