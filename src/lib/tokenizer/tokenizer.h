/* Tokenizers: text to ids and ids to text, for the vocabularies that GGUF files carry.
 *
 * Owns: the vocabulary (token texts, attributes, special ids), byte-level BPE ("gpt2") with its
 * pre-tokenizers, SentencePiece-type merging ("llama"), unigram ("t5"), WordPiece ("bert"),
 * recognition of special tokens, decoding and the streaming detokeniser. Knows nothing of chat
 * templates (they hand over segments), of stop strings or of tensors.
 *
 * Threads: a kt__tokenizer is immutable once loaded; any number of threads may use it at once (what
 * it learns lazily is kept in atomics). kt__ids and kt__detok belong to one user at a time.
 *
 * Lifetime: token texts are used where they lie, so the kt__gguf (or the kt__tok_vocab's strings)
 * must outlive the tokenizer. */
#ifndef KT_TOKENIZER_TOKENIZER_H
#define KT_TOKENIZER_TOKENIZER_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gguf/gguf.h"

typedef struct kt__tokenizer kt__tokenizer;

enum {
    KT__TOK_MAX_VOCAB = 1 << 22,    /* tokens */
    KT__TOK_MAX_TOKEN_BYTES = 65535 /* of one token's text */
};

/* ---- ids: a growable vector with a cap ---- */

typedef struct kt__ids {
    int32_t *data; /* NULL while empty and unused; kt__free */
    size_t len, cap, max;
} kt__ids;

/* max: ids at most (SIZE_MAX: no cap); an encode that needs more fails with KT_E_LIMIT. */
void kt__ids_init(kt__ids *ids, size_t max);
void kt__ids_free(kt__ids *ids);
kt_status kt__ids_push(kt__ids *ids, int32_t id, kt_error *err) KT_CHECKED;
/* The content as a heap array for kt__free (also when empty); ids is empty afterwards. NULL: no
 * memory. */
int32_t *kt__ids_take(kt__ids *ids, size_t *n);

/* ---- the vocabulary ---- */

/* Values of tokenizer.ggml.token_type. */
typedef enum kt__tok_attr {
    KT__TOK_UNDEFINED,
    KT__TOK_NORMAL,
    KT__TOK_UNKNOWN,
    KT__TOK_CONTROL, /* matched in text only with KT_TOK_PARSE_SPECIAL; not rendered by default */
    KT__TOK_USER_DEFINED, /* always matched in text, marks of turns as control tokens are */
    KT__TOK_UNUSED,       /* byte-level: fills the vocabulary up, means nothing */
    KT__TOK_BYTE          /* "<0xXX>" */
} kt__tok_attr;

/* White space before or after a special token in a text that belongs to it. */
enum { KT__TOK_LSTRIP = 1, KT__TOK_RSTRIP = 2 };

typedef enum kt__tok_role {
    KT__ROLE_BOS,
    KT__ROLE_EOS,
    KT__ROLE_EOT,
    KT__ROLE_EOM,
    KT__ROLE_UNK,
    KT__ROLE_SEP,
    KT__ROLE_PAD,
    KT__ROLE_CLS,
    KT__ROLE_MASK,
    KT__ROLE_FIM_PRE,
    KT__ROLE_FIM_SUF,
    KT__ROLE_FIM_MID,
    KT__ROLE_FIM_PAD,
    KT__ROLE_FIM_REP,
    KT__ROLE_FIM_SEP,
    KT__ROLE_COUNT
} kt__tok_role;

/* A vocabulary in memory, for tests and generated models; fields as the GGUF keys of the same
 * names. */
typedef struct kt__tok_vocab {
    const char *model;     /* "gpt2", "llama", "gemma4", "t5" or "bert" */
    const char *pre;       /* NULL: absent */
    const char *arch;      /* general.architecture; NULL: absent */
    const kt__str *tokens; /* [n_tokens] */
    size_t n_tokens;
    const float *scores;   /* [n_tokens] or NULL */
    const int32_t *types;  /* [n_tokens] or NULL: all normal */
    const uint8_t *strips; /* [n_tokens] of KT__TOK_LSTRIP and KT__TOK_RSTRIP, or NULL: none */
    const kt__str *merges; /* [n_merges] "left right" */
    size_t n_merges;
    int32_t role_ids[KT__ROLE_COUNT];       /* -1: none */
    int add_bos, add_eos, add_space_prefix; /* 0, 1, or -1: the model's default */
    int lowercase, strip_accents;           /* of the model "bert" */
    int remove_extra_spaces;                /* of the model "t5"; the key's name says whitespaces */
    kt__str charsmap;                       /* of the model "t5"; s NULL: none */
} kt__tok_vocab;

/* All strings NULL, all ids and flags -1. */
void kt__tok_vocab_init(kt__tok_vocab *vocab);

/* Every array's type, length and content is checked; an error names the key and the index. */
kt_status kt__tokenizer_load(const kt__gguf *gguf, kt__tokenizer **out, kt_error *err) KT_CHECKED;
kt_status kt__tokenizer_new(const kt__tok_vocab *vocab, kt__tokenizer **out,
                            kt_error *err) KT_CHECKED;
void kt__tokenizer_free(kt__tokenizer *tok);

const char *kt__tokenizer_kind(const kt__tokenizer *tok); /* "gpt2/qwen2", "llama" */
const char *
kt__tokenizer_warning(const kt__tokenizer *tok); /* for the log at load; NULL: nothing to say */
int32_t kt__tokenizer_n_vocab(const kt__tokenizer *tok);
int32_t kt__tokenizer_role_id(const kt__tokenizer *tok, kt__tok_role role); /* -1: none */
bool kt__tokenizer_add_bos(const kt__tokenizer *tok);
bool kt__tokenizer_add_eos(const kt__tokenizer *tok);
/* Bytes of text that one id means at most: a text has at least len divided by this many
 * tokens, which is known before it is encoded. 0: there is no bound, since bytes may be dropped. */
size_t kt__tokenizer_bytes_per_id(const kt__tokenizer *tok);

/* An id outside 0..n_vocab-1 gives an empty string, KT__TOK_UNDEFINED, false. */
kt__str kt__tokenizer_token_text(const kt__tokenizer *tok, int32_t id); /* as the file has it */
/* What it decodes to; for a control token, its text. */
kt__str kt__tokenizer_token_bytes(const kt__tokenizer *tok, int32_t id);
kt__tok_attr kt__tokenizer_token_attr(const kt__tokenizer *tok, int32_t id);
/* Ends a generation: the eos, eot and eom ids and tokens with a known end-of-turn text. */
bool kt__tokenizer_is_eog(const kt__tokenizer *tok, int32_t id);
const int32_t *kt__tokenizer_eog(const kt__tokenizer *tok, size_t *n); /* all of these, [*n] */
/* The id whose text in the file is exactly s[len]; -1: none. */
int32_t kt__tokenizer_find(const kt__tokenizer *tok, const char *s, size_t len);

/* ---- encoding ---- */

/* Appends the ids of text[len] to ids. flags: KT_TOK_ADD_SPECIAL, KT_TOK_PARSE_SPECIAL. Any bytes
 * are accepted; broken UTF-8 is encoded byte by byte where the vocabulary can. On failure ids is as
 * it was. */
kt_status kt__tokenizer_encode(const kt__tokenizer *tok, const char *text, size_t len,
                               unsigned flags, kt__ids *ids, kt_error *err) KT_CHECKED;

/* A stretch of a rendered prompt. */
typedef struct kt__tok_segment {
    const char *s;
    size_t len;
    bool from_template; /* control tokens are recognised only inside such stretches */
} kt__tok_segment;

/* Encodes the concatenation of the segments. A control token is recognised only where it lies
 * inside one run of adjacent template segments; between recognised tokens the text is encoded as
 * one piece, so the ids equal those of the whole string with KT_TOK_PARSE_SPECIAL whenever the
 * other segments hold no control tokens. flags: KT_TOK_ADD_SPECIAL; a BOS that the template itself
 * wrote at the start is not doubled. */
kt_status kt__tokenizer_encode_segments(const kt__tokenizer *tok, const kt__tok_segment *segments,
                                        size_t n, unsigned flags, kt__ids *ids,
                                        kt_error *err) KT_CHECKED;

/* The prompt of a text with a gap between before[] and after[], neither of which is looked through
 * for control tokens. KT_E_UNSUPPORTED: the vocabulary has no tokens for that. */
kt_status kt__tokenizer_encode_fim(const kt__tokenizer *tok, const char *before, size_t before_len,
                                   const char *after, size_t after_len, kt__ids *ids,
                                   kt_error *err) KT_CHECKED;

/* ---- decoding ---- */

/* Appends the bytes of ids[n] to out: broken UTF-8 stays as it is. flags: KT_TOK_RENDER_SPECIAL.
 * The one space that a SentencePiece vocabulary put before the text is removed again. */
kt_status kt__tokenizer_decode(const kt__tokenizer *tok, const int32_t *ids, size_t n,
                               unsigned flags, kt__buf *out, kt_error *err) KT_CHECKED;

/* Streaming: a token at a time, whole characters out. The concatenated output is that of
 * kt__tokenizer_decode with each maximal broken sequence replaced by U+FFFD. */
typedef struct kt__detok {
    const kt__tokenizer *tok;
    unsigned flags;
    bool strip_space; /* the next text byte is dropped if it is the prefix space */
    unsigned char n_held;
    char held[4]; /* begins a character that is not complete yet; 3 bytes at most */
} kt__detok;

/* at_start: the ids begin a text (the prefix space is removed); false where they continue one, as
 * generated tokens continue a prompt. */
void kt__detok_init(kt__detok *detok, const kt__tokenizer *tok, unsigned flags, bool at_start);
/* Appends what id releases to out. KT_E_ARG for an id outside the vocabulary, KT_E_NOMEM or
 * KT_E_LIMIT where out cannot grow; the state is then unchanged. */
kt_status kt__detok_push(kt__detok *detok, int32_t id, kt__buf *out, kt_error *err) KT_CHECKED;
/* At the end: what is held cannot complete any more and becomes one U+FFFD. */
kt_status kt__detok_finish(kt__detok *detok, kt__buf *out, kt_error *err) KT_CHECKED;

#endif
