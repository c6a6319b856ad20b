/* Small vocabularies and plain reference encoders for the tokenizer tests.
 *
 * Owns: a byte-level BPE vocabulary trained here on a few sentences, a SentencePiece-type one
 * written down, and merging done the slow and obvious way. Everything lies in one static structure
 * a program. */
#ifndef KT_TESTS_TEXT_TOK_VOCAB_H
#define KT_TESTS_TEXT_TOK_VOCAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tokenizer.h"

static uint64_t rng_state = 88172645463325252u;

static inline uint32_t rng(uint32_t below) {
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)((rng_state >> 33) % below);
}

enum { MAX_TOKENS = 1200, MAX_MERGES = 400, TEXT_BYTES = 1 << 16 };

typedef struct small_vocab {
    kt__tok_vocab v;
    kt__str tokens[MAX_TOKENS], merges[MAX_MERGES];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    /* BPE: what each token decodes to, and the ids of each merge */
    kt__str bytes[MAX_TOKENS];
    int32_t left[MAX_MERGES], right[MAX_MERGES], into[MAX_MERGES];
    char text[TEXT_BYTES];
    size_t used;
} small_vocab;

static inline kt__str vocab_keep(small_vocab *sv, const char *s, size_t len) {
    assert_true(sv->used + len <= TEXT_BYTES);
    char *at = sv->text + sv->used;
    memcpy(at, s, len);
    sv->used += len;
    return (kt__str){at, len};
}

/* The GPT-2 byte alphabet, told again: printable Latin-1 as itself, the rest from U+0100 in order.
 */
static inline kt__str gpt2_text(small_vocab *sv, kt__str bytes) {
    char out[512];
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        uint32_t b = (unsigned char)bytes.s[i], shifted = 256;
        for (uint32_t k = 0; k < b; k++)
            shifted += !((k >= '!' && k <= '~') || (k >= 0xa1 && k <= 0xac) || k >= 0xae);
        int printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        n += kt__utf8_encode(printable ? b : shifted, out + n);
    }
    return vocab_keep(sv, out, n);
}

static inline int32_t vocab_add(small_vocab *sv, kt__str text, kt__str bytes, int32_t type) {
    int32_t id = (int32_t)sv->v.n_tokens++;
    assert_true(id < MAX_TOKENS);
    sv->tokens[id] = text;
    sv->bytes[id] = bytes;
    sv->types[id] = type;
    sv->scores[id] = 0;
    return id;
}

static inline int32_t vocab_add_plain(small_vocab *sv, const char *s, int32_t type) {
    kt__str text = vocab_keep(sv, s, strlen(s));
    return vocab_add(sv, text, text, type);
}

static inline void vocab_begin(small_vocab *sv, const char *model, const char *pre) {
    memset(sv, 0, sizeof *sv);
    kt__tok_vocab_init(&sv->v);
    sv->v.model = model;
    sv->v.pre = pre;
    sv->v.tokens = sv->tokens;
    sv->v.types = sv->types;
    sv->v.merges = sv->merges;
    sv->v.scores = strcmp(model, "llama") == 0 ? sv->scores : NULL;
}

static inline int32_t vocab_merge(small_vocab *sv, int32_t left, int32_t right) {
    char joined[512];
    size_t m = sv->v.n_merges++, n = 0;
    assert_true(m < MAX_MERGES);
    memcpy(joined, sv->tokens[left].s, sv->tokens[left].len);
    n = sv->tokens[left].len;
    joined[n++] = ' ';
    memcpy(joined + n, sv->tokens[right].s, sv->tokens[right].len);
    sv->merges[m] = vocab_keep(sv, joined, n + sv->tokens[right].len);
    n = sv->bytes[left].len;
    memcpy(joined, sv->bytes[left].s, n);
    memcpy(joined + n, sv->bytes[right].s, sv->bytes[right].len);
    kt__str bytes = vocab_keep(sv, joined, n + sv->bytes[right].len);
    int32_t id = -1;
    for (size_t i = 0; i < sv->v.n_tokens && id < 0; i++)
        if (sv->bytes[i].len == bytes.len && memcmp(sv->bytes[i].s, bytes.s, bytes.len) == 0)
            id = (int32_t)i;
    if (id < 0) id = vocab_add(sv, gpt2_text(sv, bytes), bytes, KT__TOK_NORMAL);
    sv->left[m] = left;
    sv->right[m] = right;
    sv->into[m] = id;
    return id;
}

static const char small_corpus[] =
    "The cat sat on the mat and the dog sat on the cat. There is nothing that the other mother "
    "thinks. Kentang adalah umbi yang tumbuh di dalam tanah, dan kentang goreng adalah makanan "
    "yang "
    "disukai banyak orang. In the morning the sun shines and the singer sings a song; it's a thing "
    "that they're singing. Saya makan nasi goreng dengan telur dan kentang di pagi hari.\n\n\n"
    "        if (nothing) {\n            return things;\n        }\n1234567890 12 34 2024 Größe "
    "Äpfel "
    "\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 "
    "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87";

/* The most frequent pair first, the lowest ids on ties; words as the pre-tokenizer cuts them. */
static inline void bpe_train(small_vocab *sv, size_t n_merges) {
    static int32_t ids[2 * sizeof small_corpus]; /* words end with -1 */
    static unsigned count[MAX_TOKENS][MAX_TOKENS];
    size_t n = 0;
    kt__pretok_iter it;
    const char *word;
    size_t len;
    kt__pretok_begin(&it, KT__PRETOK_CL100K, small_corpus, strlen(small_corpus));
    for (; kt__pretok_next(&it, &word, &len); ids[n++] = -1)
        for (size_t i = 0; i < len; i++) ids[n++] = (unsigned char)word[i];
    for (size_t m = 0; m < n_merges; m++) {
        int32_t best_left = 0, best_right = 0;
        memset(count, 0, sizeof count);
        for (size_t i = 0; i + 1 < n; i++)
            if (ids[i] >= 0 && ids[i + 1] >= 0) count[ids[i]][ids[i + 1]]++;
        for (int32_t a = 0; a < (int32_t)sv->v.n_tokens; a++)
            for (int32_t b = 0; b < (int32_t)sv->v.n_tokens; b++)
                if (count[a][b] > count[best_left][best_right]) {
                    best_left = a;
                    best_right = b;
                }
        if (count[best_left][best_right] == 0) break;
        int32_t id = vocab_merge(sv, best_left, best_right);
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            bool pair = i + 1 < n && ids[i] == best_left && ids[i + 1] == best_right;
            ids[kept++] = pair ? id : ids[i];
            i += pair;
        }
        n = kept;
    }
}

/* 256 bytes, trained merges, special tokens. */
static inline void bpe_vocab(small_vocab *sv, const char *pre, size_t n_merges) {
    vocab_begin(sv, "gpt2", pre);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        kt__str bytes = vocab_keep(sv, &c, 1);
        vocab_add(sv, gpt2_text(sv, bytes), bytes, KT__TOK_NORMAL);
    }
    bpe_train(sv, n_merges);
    sv->v.role_ids[KT__ROLE_BOS] = vocab_add_plain(sv, "<|bos|>", KT__TOK_CONTROL);
    sv->v.role_ids[KT__ROLE_EOS] = vocab_add_plain(sv, "<|endoftext|>", KT__TOK_CONTROL);
    vocab_add_plain(sv, "<|im_start|>", KT__TOK_CONTROL);
    vocab_add_plain(sv, "<|im_end|>", KT__TOK_CONTROL);
    vocab_add_plain(sv, "<tool>", KT__TOK_USER_DEFINED);
    vocab_add_plain(sv, "<tool>>", KT__TOK_CONTROL);
    vocab_add_plain(sv, "[PAD1]", KT__TOK_UNUSED);
}

/* Byte-pair merging of one word, by trying every merge at every place. */
static inline size_t bpe_reference(const small_vocab *sv, const char *s, size_t len, int32_t *ids) {
    size_t n = len;
    for (size_t i = 0; i < len; i++) ids[i] = (unsigned char)s[i];
    for (;;) {
        size_t best = SIZE_MAX, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t m = 0; m < sv->v.n_merges && m < best; m++)
                if (sv->left[m] == ids[i] && sv->right[m] == ids[i + 1]) {
                    best = m;
                    at = i;
                }
        if (best == SIZE_MAX) return n;
        ids[at] = sv->into[best];
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

#define LB "\xe2\x96\x81" /* U+2581 */

/* <unk>, <s>, </s>, bytes (optional), pieces with scores, a user-defined run of spaces. */
static inline void spm_vocab(small_vocab *sv, bool bytes) {
    static const char *const pieces[] = {LB,       LB "t", "he",    "in",       LB "a",
                                         LB "the", "er",   "an",    "on",       "ab",
                                         "bab",    "aba",  LB "ba", LB LB,      LB LB LB LB,
                                         "ing",    "th",   "the",   "e",        "t",
                                         "a",      "o",    "n",     "i",        "h",
                                         "s",      "r",    "b",     "\xc3\xa9", "\xe4\xb8\xad",
                                         "d",      "g",    ".",     LB "and",   "nd",
                                         "ss",     "aa",   "aaaa",  "bb"};
    static const float scores[] = {-1000, -1,   -2,   -3,   -4,   -5,   -6,   -7,   -8,   -9,
                                   -10,   -9,   -12,  -13,  -14,  -15,  -16,  -17,  -100, -101,
                                   -102,  -103, -104, -105, -106, -107, -108, -109, -110, -111,
                                   -112,  -113, -114, -18,  -19,  -20,  -20,  -20,  -20};
    vocab_begin(sv, "llama", NULL);
    sv->v.role_ids[KT__ROLE_UNK] = vocab_add_plain(sv, "<unk>", KT__TOK_UNKNOWN);
    sv->v.role_ids[KT__ROLE_BOS] = vocab_add_plain(sv, "<s>", KT__TOK_CONTROL);
    sv->v.role_ids[KT__ROLE_EOS] = vocab_add_plain(sv, "</s>", KT__TOK_CONTROL);
    for (int b = 0; b < 256 && bytes; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        vocab_add_plain(sv, name, KT__TOK_BYTE);
    }
    assert_int_equal(sizeof pieces / sizeof *pieces, sizeof scores / sizeof *scores);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        sv->scores[vocab_add_plain(sv, pieces[i], KT__TOK_NORMAL)] = scores[i];
    vocab_add_plain(sv, "<user>", KT__TOK_USER_DEFINED);
}

/* The same pieces for the unigram method: the best sum of scores. */
static inline void unigram_vocab(small_vocab *sv, bool bytes) {
    spm_vocab(sv, bytes);
    for (size_t i = 0; i < sv->v.n_tokens; i++) /* a word is better than its parts */
        if (sv->tokens[i].len == 6 && memcmp(sv->tokens[i].s, LB "the", 6) == 0)
            sv->scores[i] = -0.5f;
    sv->v.model = "t5";
    sv->v.remove_extra_spaces = 1;
}

/* [PAD], [UNK], [CLS], [SEP], pieces that begin a word (U+2581) and pieces within one. */
static inline void wordpiece_vocab(small_vocab *sv) {
    static const char *const pieces[] = {LB "a",
                                         LB "b",
                                         LB "c",
                                         "a",
                                         "b",
                                         "ab",
                                         "abc",
                                         "bca",
                                         LB "ca",
                                         LB "ab",
                                         LB "an",
                                         "sa",
                                         LB "bcabc",
                                         LB ".",
                                         LB ",",
                                         LB "$",
                                         LB "s",
                                         "s",
                                         LB "e",
                                         LB "\xc3\xa9",
                                         LB "\xe4\xb8\xad",
                                         LB "\xe6\x96\x87",
                                         LB "the",
                                         "re",
                                         LB "i",
                                         "i",
                                         "\xcc\x87"};
    vocab_begin(sv, "bert", NULL);
    vocab_add_plain(sv, "[PAD]", KT__TOK_CONTROL);
    vocab_add_plain(sv, "[UNK]", KT__TOK_CONTROL);
    vocab_add_plain(sv, "[CLS]", KT__TOK_CONTROL);
    vocab_add_plain(sv, "[SEP]", KT__TOK_CONTROL);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        vocab_add_plain(sv, pieces[i], KT__TOK_NORMAL);
}

static inline int32_t vocab_find(const small_vocab *sv, const char *text, size_t len) {
    for (size_t i = sv->v.n_tokens; i-- > 0;)
        if (sv->tokens[i].len == len && memcmp(sv->tokens[i].s, text, len) == 0) return (int32_t)i;
    return -1;
}

static inline int32_t vocab_id(const small_vocab *sv, const char *text) {
    int32_t id = vocab_find(sv, text, strlen(text));
    if (id < 0) fail_msg("no token %s", text);
    return id;
}

/* SentencePiece merging of s[len], which has U+2581 for spaces: the best score, leftmost, each
 * time. */
static inline size_t spm_reference(const small_vocab *sv, const char *s, size_t len, int32_t *ids) {
    static size_t begin[4096];
    size_t n = 0, n_ids = 0, step;
    uint32_t cp;
    for (size_t i = 0; i < len; i += step) {
        step = kt__utf8_decode(s + i, len - i, &cp);
        if (step == 0) step = 1;
        assert_true(n < 4095);
        begin[n++] = i;
    }
    begin[n] = len;
    for (;;) {
        float best = -1e30f;
        size_t at = SIZE_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            int32_t id = vocab_find(sv, s + begin[i], begin[i + 2] - begin[i]);
            bool usable = id >= 0 && (sv->types[id] == KT__TOK_NORMAL ||
                                      sv->types[id] == KT__TOK_USER_DEFINED);
            if (!usable || sv->scores[id] <= best) continue;
            best = sv->scores[id];
            at = i;
        }
        if (at == SIZE_MAX) break;
        memmove(begin + at + 1, begin + at + 2, (n - at - 1) * sizeof *begin);
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t id = vocab_find(sv, s + begin[i], begin[i + 1] - begin[i]);
        if (id >= 0) {
            ids[n_ids++] = id;
            continue;
        }
        for (size_t k = begin[i]; k < begin[i + 1]; k++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)(unsigned char)s[k]);
            ids[n_ids++] = vocab_id(sv, name);
        }
    }
    return n_ids;
}

static inline kt__tokenizer *tok_open(const small_vocab *sv) {
    kt_error err;
    kt__tokenizer *tok = NULL;
    kt_status status = kt__tokenizer_new(&sv->v, &tok, &err);
    if (status != KT_OK) fail_msg("%s: %s", err.where, err.message);
    return tok;
}

static inline void assert_ids(const kt__ids *ids, const int32_t *expected, size_t n,
                              const char *what) {
    bool same = ids->len == n && (n == 0 || memcmp(ids->data, expected, n * sizeof *expected) == 0);
    if (same) return;
    for (size_t i = 0; i < ids->len; i++) print_error("%d ", (int)ids->data[i]);
    print_error("; expected ");
    for (size_t i = 0; i < n; i++) print_error("%d ", (int)expected[i]);
    fail_msg("; ids of \"%s\"", what);
}

static inline void assert_encodes(const kt__tokenizer *tok, const char *s, size_t len,
                                  unsigned flags, const int32_t *expected, size_t n) {
    kt_error err;
    kt__ids ids;
    kt__ids_init(&ids, SIZE_MAX);
    assert_int_equal(kt__tokenizer_encode(tok, s, len, flags, &ids, &err), KT_OK);
    assert_ids(&ids, expected, n, s);
    kt__ids_free(&ids);
}

#define ENCODES(tok, s, flags, ...)                                          \
    assert_encodes(tok, s, strlen(s), flags, (const int32_t[]){__VA_ARGS__}, \
                   sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

#endif
