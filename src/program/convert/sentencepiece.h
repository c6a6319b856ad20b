/* tokenizer.model: a SentencePiece model, as far as a GGUF file needs it.
 *
 * Owns: reading the protobuf (varints, lengths and fixed 32 and 64 bits are all it uses). The bytes
 * are hostile; texts are used where they lie. Knows no GGUF. Any thread. */
#ifndef KT_CONVERT_SENTENCEPIECE_H
#define KT_CONVERT_SENTENCEPIECE_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "gguf/gguf.h"

typedef struct kt__sp_piece {
    kt__str text;
    float score;
    int32_t type; /* 1..6, as GGUF's token_type */
} kt__sp_piece;

enum { KT__SP_UNIGRAM = 1, KT__SP_BPE = 2 };

typedef struct kt__sp_model {
    kt__sp_piece *pieces; /* [n], in the arena */
    size_t n;
    int32_t model_type;
    bool add_dummy_prefix, remove_extra_whitespaces;
    kt__str charsmap; /* of a normaliser that is more than a prefix */
} kt__sp_model;

/* data must outlive the model. path is for messages. */
kt_status kt__sp_parse(const void *data, size_t size, const char *path, kt__arena *arena,
                       kt__sp_model *out, kt_error *err) KT_CHECKED;

#endif
