#include "tokenizer/pretok.h"

#include <string.h>

#include <utf8proc.h>

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
static size_t match_contraction(const char *s, size_t i, size_t end, bool fold) {
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
    size_t n, n2, at = match_contraction(s, i, end, true);
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
    size_t n, at = match_contraction(s, i, end, false);
    if (at > i) return at;
    at = s[i] == ' ' ? i + 1 : i;
    if (at == end) return end;
    unsigned cls = class_at(s, at, end, &n);
    if (cls & KT__UC_L) return run_with(s, at + n, end, KT__UC_L);
    if (cls & KT__UC_N) return run_with(s, at + n, end, KT__UC_N);
    if (!(cls & KT__UC_SPACE)) return run_without(s, at + n, end, no_punct);
    return spaces(s, i, end, false);
}

/* ---- letters with case; han says whether \p{Han} is left out of U and W ---- */

static const struct {
    uint32_t first, last;
} han_ranges[] = {{0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},
                  {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},
                  {0x4e00, 0x9fff},   {0xf900, 0xfa6d},   {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3},
                  {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739}, {0x2b740, 0x2b81d},
                  {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2ebf0, 0x2ee5d}, {0x2f800, 0x2fa1d},
                  {0x30000, 0x3134a}, {0x31350, 0x323af}};

/* The script of Chinese characters, Unicode 16. */
static bool is_han(uint32_t cp) {
    if (cp < han_ranges[0].first || cp == UINT32_MAX) return false;
    for (size_t i = 0; i < sizeof han_ranges / sizeof *han_ranges && cp >= han_ranges[i].first; i++)
        if (cp <= han_ranges[i].last) return true;
    return false;
}

static size_t han_run(const char *s, size_t i, size_t end) {
    uint32_t cp;
    size_t n;
    while (i < end && (kt__unicode_next(s + i, end - i, &n, &cp), is_han(cp))) i += n;
    return i;
}

INLINE unsigned case_at(const char *s, size_t i, size_t end, size_t *n, bool han) {
    uint32_t cp;
    unsigned cls = kt__unicode_next(s + i, end - i, n, &cp);
    return han && is_han(cp) ? cls & ~(unsigned)(KT__UC_UPPER | KT__UC_LOWER) : cls;
}

/* U*W+ at s[i]: its end, or 0; *upper_end is the end of U* in any case. U* is greedy: where no
 * character outside U follows that W takes, it gives back up to the last character that is in W
 * too. */
INLINE size_t mixed_case(const char *s, size_t i, size_t end, size_t *upper_end, bool han) {
    size_t n, both_end = 0;
    unsigned cls = 0;
    for (; i < end; i += n) {
        cls = case_at(s, i, end, &n, han);
        if (!(cls & KT__UC_UPPER)) break;
        if (cls & KT__UC_LOWER) both_end = i + n;
    }
    *upper_end = i;
    if (i == end || !(cls & KT__UC_LOWER)) return both_end;
    while (i < end && (case_at(s, i, end, &n, han) & KT__UC_LOWER)) i += n;
    return i;
}

/* The two word alternatives of O200K at s[i], whose class is cls and length n; 0: neither matches.
 */
INLINE size_t cased_word(const char *s, size_t i, size_t end, unsigned cls, size_t n, bool han) {
    size_t upper_end, at;
    if (cls & KT__UC_L) {
        at = mixed_case(s, i, end, &upper_end, han);
        return at ? at : upper_end;
    }
    if ((cls & KT__UC_N) || is_newline(s[i])) return 0;
    at = mixed_case(s, i + n, end, &upper_end, han);
    if (at) return at;
    /* A mark may lead as the prefix or belong to U and W: alone it is a whole U*W+. */
    if (cls & KT__UC_M) return i + n;
    return upper_end > i + n ? upper_end : 0;
}

INLINE size_t word_o200k(const char *s, size_t i, size_t end, int max_digits, bool contractions,
                         bool han) {
    const unsigned no_punct = KT__UC_SPACE | KT__UC_L | KT__UC_N;
    size_t n;
    unsigned cls = class_at(s, i, end, &n);
    if (cls & KT__UC_N) return scan_digits(s, i, end, max_digits);
    size_t at = cased_word(s, i, end, cls, n, han);
    if (at) return contractions ? match_contraction(s, at, end, true) : at;
    at = s[i] == ' ' ? i + 1 : i;
    if (at < end && !(class_at(s, at, end, &n) & no_punct)) {
        at = run_without(s, at + n, end, no_punct);
        while (at < end && (is_newline(s[at]) || (!han && s[at] == '/'))) at++;
        return at;
    }
    return spaces(s, i, end, true);
}

static size_t word_kimi(const char *s, size_t i, size_t end) {
    size_t at = han_run(s, i, end);
    return at > i ? at : word_o200k(s, i, end, 3, true, true);
}

INLINE bool is_ascii_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

INLINE bool is_ascii_punct(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* \p{P} and the other punctuation of ASCII */
INLINE bool punct_at(const char *s, size_t i, size_t end, size_t *n) {
    uint32_t cp;
    if (!(kt__unicode_next(s + i, end - i, n, &cp) & KT__UC_PS)) return false;
    if (cp < 0x80) return true;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
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

/* A run of punctuation, or what lies up to the next. */
static size_t falcon_part(const char *s, size_t i, size_t end) {
    size_t n;
    bool punct = punct_at(s, i, end, &n);
    for (i += n; i < end && punct_at(s, i, end, &n) == punct; i += n) {
    }
    return i;
}

/* Falcon counts digits after each byte has become a character of its own: those of ², ³, ¹, ¼, ½
 * and ¾ in Latin 1 are numbers, wherever they occur. */
INLINE bool is_number_byte(char c) {
    unsigned char b = (unsigned char)c;
    return (b >= '0' && b <= '9') || b == 0xb2 || b == 0xb3 || b == 0xb9 ||
           (b >= 0xbc && b <= 0xbe);
}

/* Where a piece of a word of GPT2 ends: numbers or others, and of the numbers each three ASCII digits. */
static size_t falcon_piece(const char *s, size_t i, size_t end) {
    bool number = is_number_byte(s[i]);
    size_t digits = 0, at = i;
    for (; at < end && is_number_byte(s[at]) == number; at++) {
        digits = number && s[at] >= '0' && s[at] <= '9' ? digits + 1 : 0;
        if (digits == 3) return at - 2 > i ? at - 2 : at + 1;
    }
    return at;
}

/* ---- the walk ---- */

void kt__pretok_begin(kt__pretok_iter *it, kt__pretok_family family, const char *s, size_t len) {
    bool staged = family == KT__PRETOK_DIGITS_GPT2 || family == KT__PRETOK_DEEPSEEK3 ||
                  family == KT__PRETOK_FALCON;
    *it = (kt__pretok_iter){.s = s, .len = len, .part_end = staged ? 0 : len, .family = family};
}

/* The end of the part of a family in stages that begins at the place reached. */
static size_t part_at(const kt__pretok_iter *it) {
    switch (it->family) {
    case KT__PRETOK_DEEPSEEK3: return deepseek3_part(it->s, it->pos, it->len);
    case KT__PRETOK_FALCON: return falcon_part(it->s, it->pos, it->len);
    default: return digits_part(it->s, it->pos, it->len);
    }
}

static size_t falcon_word(kt__pretok_iter *it) {
    if (it->ends[0] <= it->pos) it->ends[0] = word_gpt2(it->s, it->pos, it->part_end);
    return falcon_piece(it->s, it->pos, it->ends[0]);
}

bool kt__pretok_next(kt__pretok_iter *it, const char **word, size_t *len) {
    const char *s = it->s;
    size_t i = it->pos, end = it->part_end, to;
    bool staged = it->family == KT__PRETOK_DEEPSEEK_LLM || it->family == KT__PRETOK_DEEPSEEK_CODER;
    if (i == it->len) return false;
    if (i == end && !staged) end = it->part_end = part_at(it);
    switch (it->family) {
    case KT__PRETOK_CL100K: to = word_cl100k(s, i, end, 3, KT__UC_L); break;
    case KT__PRETOK_QWEN2: to = word_cl100k(s, i, end, 1, KT__UC_L); break;
    case KT__PRETOK_QWEN35: to = word_cl100k(s, i, end, 1, KT__UC_L | KT__UC_M); break;
    case KT__PRETOK_O200K: to = word_o200k(s, i, end, 3, true, false); break;
    case KT__PRETOK_TEKKEN: to = word_o200k(s, i, end, 1, false, false); break;
    case KT__PRETOK_KIMI: to = word_kimi(s, i, end); break;
    case KT__PRETOK_DEEPSEEK3: to = word_deepseek3(s, i, end); break;
    case KT__PRETOK_FALCON: to = falcon_word(it); break;
    case KT__PRETOK_DEEPSEEK_LLM:
    case KT__PRETOK_DEEPSEEK_CODER: to = kt__pretok_staged_word(it); break;
    default: to = word_gpt2(s, i, end); break;
    }
    *word = s + i;
    *len = to - i;
    it->pos = to;
    return true;
}
