/* A plain reading of tokenizer.json: what it makes of a text, rule by rule.
 *
 * Owns: Hugging Face's rules (added tokens, normaliser, words, and then merges by rank, the best sum of scores, or
 * the longest piece), written to be compared with the tokenizer that reads the GGUF file. It shares with that one
 * only the cut into words of byte-level BPE, whose expressions were compared letter by letter, the character map and
 * Unicode's tables. One user at a time. */
#ifndef KT_CONVERT_VOCAB_READER_H
#define KT_CONVERT_VOCAB_READER_H

#include "convert/vocab.h"
#include "gguf/gguf.h"
#include "tokenizer/piece_index.h"

#include <jansson.h>
#include <kentang.h>

/* What a unigram tokenizer.json does to a text before its words are written in pieces.
 *
 * The normaliser and the pre-tokenizer as one list of steps, of those that a SentencePiece file can mean; others are
 * refused. Immutable once read; texts are tokenizer.json's. Any thread. */

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

typedef struct kt__vocab_reader {
    const kt__vocab *v;
    kt__arena arena; /* of a line */
    kt__arena kept;
    kt__strmap ranks; /* left NUL right */
    kt__str alphabet[256];
    kt__str *added;
    int32_t *added_ids;
    size_t n_added;
    size_t longest; /* bytes of a unigram's longest piece */
    double unknown_score;
    bool whole_words, nfc, by_space;
    kt__vocab_steps steps; /* of unigram */
    kt__charsmap charsmap;
    kt__ids ids; /* of the line read last */
    kt_error *err;
} kt__vocab_reader;

/* vocab must have been read whole, and must outlive the reader. Freed with kt__vocab_reader_close,
 * also after failure. */
kt_status kt__vocab_reader_open(kt__vocab_reader *reader, const kt__vocab *vocab,
                                kt_error *err) KT_CHECKED;
void kt__vocab_reader_close(kt__vocab_reader *reader);
/* s[len], valid UTF-8, to reader->ids; no special tokens are put around it. */
kt_status kt__vocab_reader_line(kt__vocab_reader *reader, const char *s, size_t len) KT_CHECKED;
/* Whether the merges make this token of its letters; of a BPE. */
kt_status kt__vocab_reader_reached(kt__vocab_reader *reader, int32_t id, bool *reached) KT_CHECKED;

/* ---- inside: vocab_reader.c ---- */

kt_status kt__vocab_reader_open_unigram(kt__vocab_reader *reader) KT_CHECKED;
/* A stretch between added tokens. */
kt_status kt__vocab_reader_unigram(kt__vocab_reader *reader, const char *s, size_t len) KT_CHECKED;
kt_status kt__vocab_reader_wordpiece(kt__vocab_reader *reader, const char *s,
                                     size_t len) KT_CHECKED;

#endif
