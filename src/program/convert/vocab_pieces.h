/* What a unigram tokenizer.json does to a text before its words are written in pieces.
 *
 * Owns: the normaliser and the pre-tokenizer as one list of steps, of those that a SentencePiece file
 * can mean; others are refused. Immutable once read; texts are tokenizer.json's. Any thread. */
#ifndef KT_CONVERT_VOCAB_PIECES_H
#define KT_CONVERT_VOCAB_PIECES_H

#include <jansson.h>
#include <kentang.h>

#include "gguf/gguf.h"

typedef enum kt__vocab_step_kind {
    KT__STEP_CHARSMAP,     /* text: base64 */
    KT__STEP_STRIP,        /* spaces at the ends of the text: left, right */
    KT__STEP_JOIN_SPACES,  /* two spaces or more become `text` */
    KT__STEP_REPLACE,      /* a space becomes U+2581 */
    KT__STEP_PREPEND,      /* U+2581 before the text */
    KT__STEP_SPLIT_SPACES, /* words are what lies between spaces */
    KT__STEP_METASPACE /* spaces to U+2581; one before each word (left); words begin there (right) */
} kt__vocab_step_kind;

enum { KT__VOCAB_MAX_STEPS = 8 };

typedef struct kt__vocab_step {
    kt__vocab_step_kind kind;
    kt__str text;
    bool left, right;
} kt__vocab_step;

typedef struct kt__vocab_steps {
    kt__vocab_step list[KT__VOCAB_MAX_STEPS];
    size_t n;
} kt__vocab_steps;

kt_status kt__vocab_steps_read(const json_t *tokenizer, const char *path, kt__vocab_steps *out,
                               kt_error *err) KT_CHECKED;

#endif
