/* Loading a vocabulary, in three steps that share this header: tokenizer_source.c reads and checks
 * the keys, tokenizer_build.c makes the tables, tokenizer_roles.c finds the special ids.
 *
 * Owns: the checked view of a vocabulary while it is loaded. No other file includes this. */
#ifndef KT_TOKENIZER_TOKENIZER_LOAD_H
#define KT_TOKENIZER_TOKENIZER_LOAD_H

#include "tokenizer/tokenizer_impl.h"

enum { KT__TOK_MAX_EOS = 256 }; /* in kentang.eos_ids */

/* Where the vocabulary comes from; of each pair the one that is set. */
typedef struct kt__tok_source {
    const char *path;         /* for messages */
    kt__str model, pre, arch; /* s NULL: absent */
    const kt__gguf_kv *tokens_kv, *scores_kv, *types_kv, *merges_kv;
    const kt__gguf_kv *eos_ids_kv; /* kentang.eos_ids: all ends of a generation; NULL: absent */
    const kt__gguf_kv *lstrip_kv, *rstrip_kv; /* kentang.lstrip_ids, kentang.rstrip_ids; or NULL */
    const uint8_t *strips;                    /* [n_tokens] or NULL */
    const kt__str *tokens, *merges;
    const float *scores;
    const int32_t *types;
    size_t n_tokens, n_merges;              /* n_merges 0: absent */
    int64_t role_ids[KT__ROLE_COUNT];       /* as in the file; -1: absent or none */
    int add_bos, add_eos, add_space_prefix; /* -1: absent */
    int lowercase, strip_accents, remove_extra_spaces;
    kt__str charsmap; /* empty: none */
} kt__tok_source;

kt_status kt__tok_source_gguf(kt__tok_source *src, const kt__gguf *gguf, kt_error *err) KT_CHECKED;
kt_status kt__tok_source_mem(kt__tok_source *src, const kt__tok_vocab *vocab,
                             kt_error *err) KT_CHECKED;
kt__str kt__tok_source_token(const kt__tok_source *src, size_t i);
kt__str kt__tok_source_merge(const kt__tok_source *src, size_t i);

/* Attributes, bytes, hash tables, merges, scores, the trie of special tokens. tok->spm and tok->pre
 * are set. */
kt_status kt__tok_build(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) KT_CHECKED;
/* Does the text look like a mark of turns, as templates write them ("<|im_start|>", "<turn|>",
 * "[|user|]", "<start_of_turn>")? Files give some of them the type user-defined, whose tokens are
 * found in every text; a message must not be able to end its turn, whatever the type. */
bool kt__tok_is_turn_mark(kt__str text);
/* Special ids, from the file or by text; the end-of-generation set. May turn attributes of
 * well-known texts to control, so it comes before the trie. */
kt_status kt__tok_find_roles(kt__tokenizer *tok, const kt__tok_source *src,
                             kt_error *err) KT_CHECKED;
/* Phi-3's vocabulary, the one whose habits other converters imply by the architecture. */
bool kt__tok_is_phi3(const kt__tokenizer *tok, const kt__tok_source *src);
kt_status kt__tok_build_special(kt__tokenizer *tok, const kt__tok_source *src,
                                kt_error *err) KT_CHECKED;

/* Undoes the GPT-2 byte alphabet: s[len] to at most len bytes; SIZE_MAX where a character is
 * outside. */
size_t kt__tok_decode_gpt2(const char *s, size_t len, char *out);
/* Writes U+2581 as a space; at most len bytes. */
size_t kt__tok_decode_spm(const char *s, size_t len, char *out);
/* Writes the U+2581 that begins a piece as a space; at most len bytes. */
size_t kt__tok_decode_wordpiece(const char *s, size_t len, char *out);
/* "<0xXX>": the byte, else -1. */
int kt__tok_parse_byte(const char *s, size_t len);

/* A name from outside, made printable and short for a message. */
enum { KT__TOK_SHOWN = 64 };
const char *kt__tok_show(kt__str s, char out[KT__TOK_SHOWN]);

#endif
