/* Pre-tokenizers: cutting text into the words that byte-pair merging does not cross.
 *
 * Owns: the table of pre-tokenizers that GGUF files name (pretok.def) and a scanner for each
 * pattern family, written by hand over the class tables of unicode.h. Each does exactly what the
 * family's regular expression does, leftmost and by ordered alternatives, in time linear in the
 * text whatever it holds: no backtracking engine, no recursion, no allocation. Does not know
 * vocabularies. Any thread.
 *
 * The patterns (a line begins with the bar of its first alternative); \s is the property
 * White_Space, invalid bytes count as characters of no class, and what no alternative matches is a
 * word of its own up to the next match:
 *
 * CL100K       (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
 *              | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * QWEN2        the same with \p{N} for \p{N}{1,3}
 * QWEN35       QWEN2 with [\p{L}\p{M}]+ for \p{L}+ and [^\s\p{L}\p{M}\p{N}] for [^\s\p{L}\p{N}]
 * GPT2         's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * DIGITS_GPT2  split at each \p{N}, then GPT2 on what lies between
 * O200K        with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and
 *              C = (?i:'s|'t|'re|'ve|'m|'ll|'d)?:
 *              [^\r\n\p{L}\p{N}]?U*W+C|[^\r\n\p{L}\p{N}]?U+W*C|\p{N}{1,3}
 *              | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * TEKKEN       O200K without C and with \p{N} for \p{N}{1,3} KIMI         \p{Han}+, else O200K with
 * U and W without \p{Han}, and with [\r\n]* for [\r\n/]* FALCON       split at each run of \p{P}
 * and [$+<=>^`|~], then GPT2, then at each run of the bytes of
 *              0-9, \xb2, \xb3, \xb9 and \xbc-\xbe, then at each [0-9][0-9][0-9]
 * DEEPSEEK3    split at each \p{N}{1,3}, then at each run of U+4E00..9FA5, U+3040..309F and
 *              U+30A0..30FF, then
 *              [!-/:-~&&ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 *              | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * DEEPSEEK_LLM  splits at each [\r\n], then in all pieces at \s?C+ (C: letters with case, as a
 * list),
 *              \s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+,
 *              \s+$, [\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+, \p{N}+
 * DEEPSEEK_CODER  in the same way at [\r\n], \s?\p{L}+, \s?\p{P}+, those East Asian characters,
 * \p{N} */
#ifndef KT_TOKENIZER_PRETOK_H
#define KT_TOKENIZER_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

typedef enum kt__pretok_family {
    KT__PRETOK_CL100K,
    KT__PRETOK_QWEN2,
    KT__PRETOK_QWEN35,
    KT__PRETOK_GPT2,
    KT__PRETOK_DIGITS_GPT2,
    KT__PRETOK_O200K,
    KT__PRETOK_TEKKEN,
    KT__PRETOK_KIMI,
    KT__PRETOK_FALCON,
    KT__PRETOK_DEEPSEEK3,
    KT__PRETOK_DEEPSEEK_LLM,
    KT__PRETOK_DEEPSEEK_CODER,
    KT__PRETOK_FAMILY_COUNT
} kt__pretok_family;

typedef struct kt__pretok {
    const char *name;
    kt__pretok_family family;
    bool whole_words; /* a word in the vocabulary is one token */
    bool add_bos;     /* unless the file says otherwise */
    bool nfc;
} kt__pretok;

/* NULL: unknown. */
const kt__pretok *kt__pretok_find(const char *name, size_t len);

/* A walk over the words of one text. */
typedef struct kt__pretok_iter {
    const char *s;
    size_t len, pos;
    size_t part_end; /* of the present part of a family that splits in stages */
    kt__pretok_family family;
    size_t ends[6]; /* of the present piece of each stage, of pretok_staged.c */
} kt__pretok_iter;

void kt__pretok_begin(kt__pretok_iter *it, kt__pretok_family family, const char *s, size_t len);
/* The next word: words follow one another without gaps and cover the text. false: at the end. */
bool kt__pretok_next(kt__pretok_iter *it, const char **word, size_t *len);

/* pretok_staged.c: the end of the next word of a family whose stages go over all pieces; pos <
 * len. */
size_t kt__pretok_staged_word(kt__pretok_iter *it);

#endif
