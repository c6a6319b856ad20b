#include "tokenizer/pretok.h"

#include <string.h>

#include "tokenizer/unicode.h"

static const kt__pretok table[] = {
#define BOS 1
#define WHOLE 2
#define NFC 4
#define X(name, family, flags) \
    {name, KT__PRETOK_##family, ((flags)&WHOLE) != 0, ((flags)&BOS) != 0, ((flags)&NFC) != 0},
#include "tokenizer/pretok.def"
#undef X
#undef NFC
#undef WHOLE
#undef BOS
};

const kt__pretok *kt__pretok_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0) return &table[i];
    return NULL;
}

/* ---- steps over characters; all work on s[i..end) ---- */

#define INLINE static inline __attribute__((always_inline))

INLINE unsigned class_at(const char *s, size_t i, size_t end, size_t *n) {
    uint32_t cp;
    return kt__unicode_next(s + i, end - i, n, &cp);
}

/* The end of the run of characters with any bit of mask. */
INLINE size_t run_with(const char *s, size_t i, size_t end, unsigned mask) {
    size_t n;
    while (i < end && (class_at(s, i, end, &n) & mask)) i += n;
    return i;
}

/* The end of the run of characters without any bit of mask. */
INLINE size_t run_without(const char *s, size_t i, size_t end, unsigned mask) {
    size_t n;
    while (i < end && !(class_at(s, i, end, &n) & mask)) i += n;
    return i;
}

INLINE bool is_newline(char c) {
    return c == '\r' || c == '\n';
}

INLINE size_t newlines(const char *s, size_t i, size_t end) {
    while (i < end && is_newline(s[i])) i++;
    return i;
}

/* At most max characters of \p{N}. */
INLINE size_t scan_digits(const char *s, size_t i, size_t end, int max) {
    size_t n;
    for (; max > 0 && i < end && (class_at(s, i, end, &n) & KT__UC_N); max--) i += n;
    return i;
}

/* 's|'t|'re|'ve|'m|'ll|'d at s[i]: its end, or i. Case folding adds capitals and U+017F, whose
 * simple fold is s. */
static size_t contraction(const char *s, size_t i, size_t end, bool fold) {
    if (end - i < 2 || s[i] != '\'') return i;
    unsigned char a = (unsigned char)s[i + 1], b = end - i > 2 ? (unsigned char)s[i + 2] : 0;
    if (fold && a == 0xc5 && b == 0xbf) return i + 3;
    if (fold && a < 0x80) a |= 0x20;
    if (fold && b < 0x80) b |= 0x20;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
    return i;
}

/* \s*[\r\n]+ (only with by_line), else \s+(?!\S), else \s+; s[i] begins whitespace. */
INLINE size_t spaces(const char *s, size_t i, size_t end, bool by_line) {
    size_t at = i, last = i, after_newline = 0, n;
    while (at < end && (class_at(s, at, end, &n) & KT__UC_SPACE)) {
        if (by_line && is_newline(s[at])) after_newline = at + 1;
        last = at;
        at += n;
    }
    if (after_newline) return after_newline;
    return at == end || last == i ? at : last;
}

/* ---- one word of each family; i < end, returns its end > i ---- */

INLINE size_t word_cl100k(const char *s, size_t i, size_t end, int max_digits, unsigned word) {
    const unsigned no_punct = KT__UC_SPACE | KT__UC_N | word;
    size_t n, n2, at = contraction(s, i, end, true);
    if (at > i) return at;
    unsigned cls = class_at(s, i, end, &n);
    if (cls & word) return run_with(s, i + n, end, word);
    if (cls & KT__UC_N) return scan_digits(s, i, end, max_digits);
    if (!is_newline(s[i]) && i + n < end && (class_at(s, i + n, end, &n2) & word))
        return run_with(s, i + n + n2, end, word);
    at = s[i] == ' ' ? i + 1 : i;
    if (at < end && !(class_at(s, at, end, &n) & no_punct))
        return newlines(s, run_without(s, at + n, end, no_punct), end);
    return spaces(s, i, end, true);
}

INLINE size_t word_gpt2(const char *s, size_t i, size_t end) {
    const unsigned no_punct = KT__UC_SPACE | KT__UC_L | KT__UC_N;
    size_t n, at = contraction(s, i, end, false);
    if (at > i) return at;
    at = s[i] == ' ' ? i + 1 : i;
    if (at == end) return end;
    unsigned cls = class_at(s, at, end, &n);
    if (cls & KT__UC_L) return run_with(s, at + n, end, KT__UC_L);
    if (cls & KT__UC_N) return run_with(s, at + n, end, KT__UC_N);
    if (!(cls & KT__UC_SPACE)) return run_without(s, at + n, end, no_punct);
    return spaces(s, i, end, false);
}

/* U*W+ at s[i]: its end, or 0; *upper_end is the end of U* in any case. U* is greedy: where no
 * character outside U follows that W takes, it gives back up to the last character that is in W
 * too. */
static size_t mixed_case(const char *s, size_t i, size_t end, size_t *upper_end) {
    size_t n, both_end = 0;
    unsigned cls = 0;
    for (; i < end; i += n) {
        cls = class_at(s, i, end, &n);
        if (!(cls & KT__UC_UPPER)) break;
        if (cls & KT__UC_LOWER) both_end = i + n;
    }
    *upper_end = i;
    if (i < end && (cls & KT__UC_LOWER)) return run_with(s, i, end, KT__UC_LOWER);
    return both_end;
}

/* The two word alternatives of O200K at s[i], whose class is cls and length n; 0: neither matches.
 */
static size_t cased_word(const char *s, size_t i, size_t end, unsigned cls, size_t n) {
    size_t upper_end, at;
    if (cls & KT__UC_L) {
        at = mixed_case(s, i, end, &upper_end);
        return at ? at : upper_end;
    }
    if ((cls & KT__UC_N) || is_newline(s[i])) return 0;
    at = mixed_case(s, i + n, end, &upper_end);
    if (at) return at;
    /* A mark may lead as the prefix or belong to U and W: alone it is a whole U*W+. */
    if (cls & KT__UC_M) return i + n;
    return upper_end > i + n ? upper_end : 0;
}

INLINE size_t word_o200k(const char *s, size_t i, size_t end, int max_digits, bool contractions) {
    const unsigned no_punct = KT__UC_SPACE | KT__UC_L | KT__UC_N;
    size_t n;
    unsigned cls = class_at(s, i, end, &n);
    if (cls & KT__UC_N) return scan_digits(s, i, end, max_digits);
    size_t at = cased_word(s, i, end, cls, n);
    if (at) return contractions ? contraction(s, at, end, true) : at;
    at = s[i] == ' ' ? i + 1 : i;
    if (at < end && !(class_at(s, at, end, &n) & no_punct)) {
        at = run_without(s, at + n, end, no_punct);
        while (at < end && (is_newline(s[at]) || s[at] == '/')) at++;
        return at;
    }
    return spaces(s, i, end, true);
}

INLINE bool is_ascii_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

INLINE bool is_ascii_punct(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* What no alternative matches, up to where one does: characters that are neither letter, mark,
 * punctuation, symbol nor space, the last of which may be the prefix of a word. */
static size_t deepseek3_gap(const char *s, size_t i, size_t end) {
    const unsigned begins = KT__UC_L | KT__UC_M | KT__UC_PS | KT__UC_SPACE;
    size_t n, n2;
    for (size_t at = i; at < end; at += n) {
        if (class_at(s, at, end, &n) & begins) return at;
        bool prefix = at + n < end && (class_at(s, at + n, end, &n2) & (KT__UC_L | KT__UC_M));
        if (prefix && at > i) return at;
    }
    return end;
}

static size_t word_deepseek3(const char *s, size_t i, size_t end) {
    const unsigned word = KT__UC_L | KT__UC_M;
    size_t n, n2, at;
    unsigned cls = class_at(s, i, end, &n);
    if (is_ascii_punct(s[i]) && i + 1 < end && is_ascii_letter(s[i + 1])) {
        for (at = i + 2; at < end && is_ascii_letter(s[at]);) at++;
        return at;
    }
    if (cls & word) return run_with(s, i + n, end, word);
    bool prefix = !(cls & KT__UC_PS) && !is_newline(s[i]);
    if (prefix && i + n < end && (class_at(s, i + n, end, &n2) & word))
        return run_with(s, i + n + n2, end, word);
    at = s[i] == ' ' ? i + 1 : i;
    if (at < end && (class_at(s, at, end, &n) & KT__UC_PS))
        return newlines(s, run_with(s, at + n, end, KT__UC_PS), end);
    if (cls & KT__UC_SPACE) return spaces(s, i, end, true);
    return deepseek3_gap(s, i, end);
}

/* ---- stages ---- */

static bool is_deepseek3_cjk(uint32_t cp) {
    return (cp >= 0x4e00 && cp <= 0x9fa5) || (cp >= 0x3040 && cp <= 0x30ff);
}

/* The end of the part at s[i]: up to three digits, a run of those CJK characters, or what lies
 * between. */
static size_t deepseek3_part(const char *s, size_t i, size_t end) {
    uint32_t cp;
    size_t n;
    if (kt__unicode_next(s + i, end - i, &n, &cp) & KT__UC_N) return scan_digits(s, i, end, 3);
    bool cjk = is_deepseek3_cjk(cp);
    for (i += n; i < end; i += n) {
        unsigned cls = kt__unicode_next(s + i, end - i, &n, &cp);
        if ((cls & KT__UC_N) || is_deepseek3_cjk(cp) != cjk) break;
    }
    return i;
}

/* A digit, or what lies up to the next. */
static size_t digits_part(const char *s, size_t i, size_t end) {
    size_t n;
    if (class_at(s, i, end, &n) & KT__UC_N) return i + n;
    return run_without(s, i + n, end, KT__UC_N);
}

/* ---- the walk ---- */

void kt__pretok_begin(kt__pretok_iter *it, kt__pretok_family family, const char *s, size_t len) {
    bool staged = family == KT__PRETOK_DIGITS_GPT2 || family == KT__PRETOK_DEEPSEEK3;
    *it = (kt__pretok_iter){.s = s, .len = len, .part_end = staged ? 0 : len, .family = family};
}

bool kt__pretok_next(kt__pretok_iter *it, const char **word, size_t *len) {
    const char *s = it->s;
    size_t i = it->pos, end = it->part_end, to;
    bool staged = it->family == KT__PRETOK_DEEPSEEK_LLM || it->family == KT__PRETOK_DEEPSEEK_CODER;
    if (i == it->len) return false;
    if (i == end && !staged) {
        end = it->family == KT__PRETOK_DEEPSEEK3 ? deepseek3_part(s, i, it->len)
                                                 : digits_part(s, i, it->len);
        it->part_end = end;
    }
    switch (it->family) {
    case KT__PRETOK_CL100K: to = word_cl100k(s, i, end, 3, KT__UC_L); break;
    case KT__PRETOK_QWEN2: to = word_cl100k(s, i, end, 1, KT__UC_L); break;
    case KT__PRETOK_QWEN35: to = word_cl100k(s, i, end, 1, KT__UC_L | KT__UC_M); break;
    case KT__PRETOK_O200K: to = word_o200k(s, i, end, 3, true); break;
    case KT__PRETOK_TEKKEN: to = word_o200k(s, i, end, 1, false); break;
    case KT__PRETOK_DEEPSEEK3: to = word_deepseek3(s, i, end); break;
    case KT__PRETOK_DEEPSEEK_LLM:
    case KT__PRETOK_DEEPSEEK_CODER: to = kt__pretok_staged_word(it); break;
    default: to = word_gpt2(s, i, end); break;
    }
    *word = s + i;
    *len = to - i;
    it->pos = to;
    return true;
}
