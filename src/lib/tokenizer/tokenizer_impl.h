/* Internal to the tokenizer: the vocabulary's tables and the state of one encode call.
 *
 * Owns: the structures that tokenizer*.c and a file for each method (bpe.c, spm.c, wordpiece.c,
 * spm.c) share; no other room includes this. A
 * kt__tokenizer is read-only after load except for the atomics in `whole`; a kt__encoder belongs to
 * one call.
 *
 * Token bytes ("bytes" below) are what a token decodes to: the GPT-2 byte alphabet and U+2581 are
 * undone at load, so that words are looked up as they occur in the text. */
#ifndef KT_TOKENIZER_TOKENIZER_IMPL_H
#define KT_TOKENIZER_TOKENIZER_IMPL_H

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tokenizer/piece_index.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tokenizer.h"

/* Open addressing, linear probing, power-of-two sizes at most half full; zeroed is empty. */
typedef struct kt__tok_slot {
    uint32_t tag; /* upper half of the hash */
    uint32_t id1; /* id + 1 */
} kt__tok_slot;

typedef struct kt__merge_slot {
    int32_t left1, right; /* left + 1; 0: empty */
    uint32_t rank, id;    /* id: what the two become */
} kt__merge_slot;

/* Does the token's own text encode to it alone? Learnt when a word asks. */
enum { KT__WHOLE_UNKNOWN, KT__WHOLE_YES, KT__WHOLE_NO };

/* How the ids of a stretch are found. */
typedef enum kt__tok_method {
    KT__TOK_MERGES,    /* from small to large: byte-level BPE, SentencePiece's BPE */
    KT__TOK_WORDPIECE, /* wordpiece.c */
    KT__TOK_UNIGRAM    /* spm.c */
} kt__tok_method;

struct kt__tokenizer {
    bool by_merges; /* with spm: as BPE, over characters and within lines (gemma4) */
    bool spm;       /* texts write a space as U+2581; else they are in the byte alphabet of GPT-2 */
    kt__tok_method method;
    const kt__pretok *pre; /* BPE only */
    char kind[64];
    const char *warning;
    size_t n_vocab;
    const kt__gguf_kv *tokens_kv; /* where texts lie: the file, */
    const kt__str *tokens_mem;    /* or memory */

    uint8_t *attr;       /* [n_vocab] kt__tok_attr */
    uint32_t *offset;    /* [n_vocab + 1] into bytes */
    char *bytes;         /* and 16 readable bytes after the last */
    size_t max_bytes;    /* of a token that merging may make */
    size_t bytes_per_id; /* kt__tokenizer_bytes_per_id */
    kt__tok_slot *slots;
    unsigned slot_bits;
    uint64_t
        seed; /* of the hash: a new one at each load, so that no file can be built to collide */
    _Atomic uint8_t *whole; /* [n_vocab] */
    int32_t byte_id[256];   /* the token of a single byte; -1: none */

    kt__merge_slot *merges; /* BPE; NULL: scores say which pair is merged first */
    unsigned merge_bits;

    float *scores; /* SPM, [n_vocab] */
    bool add_space_prefix;
    bool inner_space; /* SPM: some token holds a space after something else */

    kt__piece_index pieces;   /* WordPiece, unigram */
    bool lowercase;           /* WordPiece: texts are made small, */
    bool strip_accents;       /* and lose their accents */
    kt__charsmap charsmap;    /* unigram: what texts are normalised by */
    bool remove_extra_spaces; /* unigram: any white space is one space, none at the ends */
    bool has_bytes;           /* unigram: what is unknown becomes bytes */
    double unknown_score;     /* unigram: of a character without a piece */

    kt__special *special;
    bool has_strips; /* white space around some special tokens belongs to them */
    int32_t role_ids[KT__ROLE_COUNT];
    int32_t *eog;
    size_t n_eog;
    bool add_bos, add_eos;
};

/* ---- vocabulary access ---- */

static inline bool kt__tok_equals(kt__str s, const char *text) {
    return s.s && s.len == strlen(text) && memcmp(s.s, text, s.len) == 0;
}

static inline kt__str kt__tok_text(const kt__tokenizer *tok, size_t id) {
    return tok->tokens_kv ? kt__gguf_array_str(tok->tokens_kv, id) : tok->tokens_mem[id];
}

static inline kt__str kt__tok_bytes(const kt__tokenizer *tok, size_t id) {
    return (kt__str){tok->bytes + tok->offset[id], tok->offset[id + 1] - tok->offset[id]};
}

/* An attribute's upper bit marks a token that merging never gives, whatever its type. */
enum { KT__TOK_NO_MERGE = 0x80 };

static inline kt__tok_attr kt__tok_attr_of(const kt__tokenizer *tok, size_t id) {
    return (kt__tok_attr)(tok->attr[id] & ~KT__TOK_NO_MERGE);
}

/* Looked for in texts before merging? */
static inline bool kt__tok_is_special(const kt__tokenizer *tok, size_t id) {
    kt__tok_attr attr = kt__tok_attr_of(tok, id);
    return attr == KT__TOK_CONTROL || attr == KT__TOK_UNKNOWN || attr == KT__TOK_USER_DEFINED;
}

/* May merging or a whole-word lookup give this token? (SentencePiece's unused pieces are pieces.)
 */
static inline bool kt__tok_mergeable(const kt__tokenizer *tok, size_t id) {
    return tok->attr[id] == KT__TOK_NORMAL || tok->attr[id] == KT__TOK_USER_DEFINED ||
           (tok->attr[id] == KT__TOK_UNUSED && tok->spm);
}

/* 64 x 64 -> 128 bits, folded. */
static inline uint64_t kt__tok_mix(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t kt__tok_load(const char *s, size_t n) {
    uint64_t v = 0;
    if (n == 8) {
        memcpy(&v, s, 8);
    } else {
        uint32_t w;
        memcpy(&w, s, 4);
        v = w;
    }
    return v;
}

/* A hash of s[len] that reads nothing outside. */
static inline uint64_t kt__tok_hash(uint64_t seed, const char *s, size_t len) {
    const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd6e8feb86659fd93u;
    uint64_t h = seed ^ kt__tok_mix(len + 1, k1), a, b;
    for (; len > 16; len -= 16, s += 16)
        h = kt__tok_mix(kt__tok_load(s, 8) ^ h, kt__tok_load(s + 8, 8) ^ k0);
    if (len >= 8) {
        a = kt__tok_load(s, 8);
        b = kt__tok_load(s + len - 8, 8);
    } else if (len >= 4) {
        a = kt__tok_load(s, 4);
        b = kt__tok_load(s + len - 4, 4);
    } else if (len > 0) {
        a = (uint64_t)(unsigned char)s[0] << 16 | (uint64_t)(unsigned char)s[len / 2] << 8 |
            (unsigned char)s[len - 1];
        b = 0;
    } else {
        a = b = 0;
    }
    return kt__tok_mix(a ^ h ^ k1, b ^ seed ^ k0);
}

/* The mergeable token with these bytes; -1: none. */
int32_t kt__tok_lookup(const kt__tokenizer *tok, uint64_t hash, const char *s, size_t len);
/* The slot of a merge; left1 0 where there is none. */
const kt__merge_slot *kt__tok_merge(const kt__tokenizer *tok, int32_t left, int32_t right);

/* A SentencePiece score as a rank: better scores are smaller, equal scores equal. */
static inline uint32_t kt__spm_rank(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 and +0 are equal */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

/* ---- one encode call ---- */

/* A word met before in this call: its ids are in the output already. */
typedef struct kt__word_memo {
    const char *s; /* NULL: empty */
    uint32_t len, n_ids;
    size_t first; /* in ids->data */
} kt__word_memo;

/* A piece of the word being merged; pieces form a list. */
typedef struct kt__symbol {
    uint32_t at; /* its begin in the word */
    uint32_t id; /* with merges: its token, or KT__NO_TOKEN; else unused */
    uint32_t prev,
        next; /* indices; the list ends with the count of symbols, KT__NO_SYMBOL before the first */
    uint32_t rank; /* of the merge with the next symbol, smaller first; KT__NO_RANK: none */
    uint32_t into; /* the token that merge makes */
} kt__symbol;

enum {
    KT__SMALL_WORD = 64, /* symbols up to which the best pair is found by scanning */
    KT__MEMO_BITS = 13,
    KT__MEMO_MIN_TEXT = 4096, /* bytes of text that pay for a memo */
    KT__MEMO_MAX_WORD = 255
};
#define KT__NO_RANK UINT32_MAX
#define KT__NO_TOKEN UINT32_MAX
#define KT__NO_SYMBOL UINT32_MAX

typedef struct kt__encoder {
    const kt__tokenizer *tok;
    kt__ids *ids;
    kt_error *err;
    kt__arena arena;     /* rewritten text, alive until the end of the call */
    kt__word_memo *memo; /* [1 << KT__MEMO_BITS]; NULL for short texts */
    size_t stretch_ids;  /* ids->len where the present stretch begins */
    bool saw_unknown;    /* the present word holds an unknown token */
    kt__symbol *symbols; /* for long words */
    size_t symbols_cap;
    uint64_t *heap; /* rank << 32 | symbol, smallest first: the leftmost of equal ranks */
    size_t heap_len, heap_cap;
} kt__encoder;

/* Append the ids of a stretch of text without special tokens. */
kt_status kt__bpe_encode(kt__encoder *enc, const char *s, size_t len) KT_CHECKED;
kt_status kt__spm_encode(kt__encoder *enc, const char *s, size_t len) KT_CHECKED;
kt_status kt__wordpiece_encode(kt__encoder *enc, const char *s, size_t len) KT_CHECKED;
kt_status kt__unigram_encode(kt__encoder *enc, const char *s, size_t len) KT_CHECKED;
/* Appends the ids of one word, which merging does not leave. */
kt_status kt__word_encode(kt__encoder *enc, const char *s, size_t len) KT_CHECKED;
/* Merges the pieces of the word s[len] until no pair has a rank: the lowest rank first, the
 * leftmost of equals. symbols[n + 1] are linked and unrated; symbols[n].at is len. */
kt_status kt__merge_run(kt__encoder *enc, kt__symbol *symbols, size_t n, const char *s) KT_CHECKED;

/* Reserves room for n more ids. */
kt_status kt__ids_reserve(kt__ids *ids, size_t n, kt_error *err) KT_CHECKED;

#endif
