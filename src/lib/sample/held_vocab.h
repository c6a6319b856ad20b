/* A model's vocabulary, prepared for answers that are held to a form.
 *
 * Owns: the vocabulary for masks (grammar/mask.h) with control tokens in it, which tokens end an
 * answer, and control tokens' names in a text. Immutable once made: any thread.
 *
 * A control token writes nothing into an answer, but forms see it: as the byte 0xff, which no text
 * has, and its name. */
#ifndef KT_SAMPLE_HELD_VOCAB_H
#define KT_SAMPLE_HELD_VOCAB_H

#include "base/buf.h"
#include "grammar/mask.h"

enum { KT__HELD_MARK = 0xff };

/* Used while the vocabulary is made only. */
typedef struct kt__held_vocab_source {
    /* what a token writes into a text; *len = 0: nothing */
    const char *(*bytes)(void *ctx, int32_t id, size_t *len);
    /* a control token's name; *len = 0: it is none */
    const char *(*name)(void *ctx, int32_t id, size_t *len);
    bool (*ends)(void *ctx, int32_t id); /* an answer */
    void *ctx;
    int32_t n_vocab;
} kt__held_vocab_source;

typedef struct kt__held_vocab {
    kt__gvocab *tokens;
    uint64_t *ends;      /* a set of tokens */
    int32_t *controls;   /* [n_controls] longer names first */
    uint32_t n_controls; /* with names */
} kt__held_vocab;

/* Takes some 200 ms for 150,000 tokens. */
kt_status KT_CHECKED kt__held_vocab_create(const kt__held_vocab_source *source,
                                           kt__held_vocab **out, kt_error *err);
void kt__held_vocab_free(kt__held_vocab *vocab);
size_t kt__held_vocab_bytes(const kt__held_vocab *vocab);
/* The text as forms see it: with 0xff before each name of a control token. */
void kt__held_vocab_mark(const kt__held_vocab *vocab, const char *text, kt__buf *out);

/* Tokens that write the bytes, each the longest that fits: at most cap into ids; the number of all of
 * them, or SIZE_MAX where some bytes have no token. *n_bytes: what those in ids write. */
size_t kt__held_vocab_cut(const kt__held_vocab *vocab, const char *bytes, size_t len, int32_t *ids,
                          size_t cap, size_t *n_bytes);

static inline bool kt__held_vocab_ends(const kt__held_vocab *vocab, int32_t id) {
    return vocab->ends[id / 64] >> id % 64 & 1;
}

#endif
