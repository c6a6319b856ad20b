/* Pre-tokenizers that split a text in several stages, each of which goes over all pieces of the one
 * before it, the matched and the others: DeepSeek's before V3. A stage is a run of one class of
 * characters, so that its next match is found in one walk. */
#include "tokenizer/pretok.h"

#include <stdint.h>

#include <utf8proc.h>

#include "tokenizer/unicode.h"

typedef struct char_range {
    uint32_t first, last;
} char_range;

static const char_range cased[] = {
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},
    {0xd8, 0xf6},       {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},
    {0x295, 0x2af},     {0x370, 0x373},     {0x376, 0x376},     {0x377, 0x377},
    {0x37b, 0x37d},     {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},
    {0x38c, 0x38c},     {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},
    {0x48a, 0x52f},     {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},
    {0x13f8, 0x13fd},   {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},
    {0x1d6b, 0x1d77},   {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},   {0x1f18, 0x1f1d},
    {0x1f20, 0x1f45},   {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},
    {0x1f5b, 0x1f5b},   {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},
    {0x1fb6, 0x1fbc},   {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},
    {0x1fd0, 0x1fd3},   {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},
    {0x1ff6, 0x1ffc},   {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},
    {0x2115, 0x2115},   {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},
    {0x213c, 0x213f},   {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2183},
    {0x2184, 0x2184},   {0x2c00, 0x2c7b},   {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},
    {0x2cf2, 0x2cf2},   {0x2cf3, 0x2cf3},   {0xa640, 0xa66d},   {0xa680, 0xa69b},
    {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},   {0xab70, 0xabbf},
    {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},   {0xff41, 0xff5a},
    {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb}, {0x10c80, 0x10cb2},
    {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}};
static const char_range marks[] = {{0x21, 0x2f},     {0x3a, 0x7e},     {0x2018, 0x201f},
                                   {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}};
static const char_range east_asian[] = {{0x800, 0x9fa5}, {0xac00, 0xd7ff}};

/* ---- classes of characters ---- */

typedef enum stage_class {
    LINE_END,
    CASED,
    MARK,
    LETTER,
    PUNCTUATION,
    EAST_ASIAN,
    DIGIT,
    SPACE
} stage_class;

static bool is_in(uint32_t cp, const char_range *ranges, size_t n) {
    size_t low = 0;
    while (low < n) {
        size_t middle = (low + n) / 2;
        if (cp >= ranges[middle].first && cp <= ranges[middle].last) return true;
        if (cp > ranges[middle].last)
            low = middle + 1;
        else
            n = middle;
    }
    return false;
}

static bool is_of_class(stage_class what, unsigned cls, uint32_t cp) {
    switch (what) {
    case LINE_END: return cp == '\r' || cp == '\n';
    case CASED: return is_in(cp, cased, sizeof cased / sizeof *cased);
    case MARK: return is_in(cp, marks, sizeof marks / sizeof *marks);
    case LETTER: return (cls & KT__UC_L) != 0;
    case EAST_ASIAN: return is_in(cp, east_asian, sizeof east_asian / sizeof *east_asian);
    case DIGIT: return (cls & KT__UC_N) != 0;
    case SPACE: return (cls & KT__UC_SPACE) != 0;
    default: break;
    }
    if (!(cls & KT__UC_PS)) return false;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* Whether the character at s[i] is of this class; its length. */
static bool class_here(stage_class what, const char *s, size_t i, size_t end, size_t *n,
                       bool *space) {
    uint32_t cp;
    unsigned cls = kt__unicode_next(s + i, end - i, n, &cp);
    *space = (cls & KT__UC_SPACE) != 0;
    return is_of_class(what, cls, cp);
}

/* ---- stages ---- */

typedef enum stage_form {
    ONE,    /* a character */
    RUN,    /* as many as there are */
    SPACED, /* \s?X+ */
    LAST    /* X+ at the end of the piece */
} stage_form;

typedef struct pretok_stage {
    stage_form form;
    stage_class what;
} pretok_stage;

static const pretok_stage deepseek_llm[] = {{ONE, LINE_END}, {SPACED, CASED},   {SPACED, MARK},
                                            {LAST, SPACE},   {RUN, EAST_ASIAN}, {RUN, DIGIT}};
static const pretok_stage deepseek_coder[] = {
    {ONE, LINE_END}, {SPACED, LETTER}, {SPACED, PUNCTUATION}, {RUN, EAST_ASIAN}, {ONE, DIGIT}};

static size_t run_end(stage_class what, const char *s, size_t i, size_t end) {
    size_t n;
    bool space;
    while (i < end && class_here(what, s, i, end, &n, &space)) i += n;
    return i;
}

/* A match at s[i]: its end; 0: none. */
static size_t match_here(const pretok_stage *stage, const char *s, size_t i, size_t end) {
    size_t n, n2;
    bool space, more;
    bool here = class_here(stage->what, s, i, end, &n, &space);
    if (stage->form == ONE) return here ? i + n : 0;
    if (stage->form == SPACED && space && i + n < end &&
        class_here(stage->what, s, i + n, end, &n2, &more))
        return run_end(stage->what, s, i + n + n2, end);
    return here ? run_end(stage->what, s, i + n, end) : 0;
}

/* Where the run at the end of the piece begins. */
static size_t last_run(stage_class what, const char *s, size_t i, size_t end) {
    size_t begin = i, n;
    bool space;
    for (; i < end; i += n)
        if (!class_here(what, s, i, end, &n, &space)) begin = i + n;
    return begin;
}

/* The end of the piece of this stage that begins at s[i]: a match, or what lies before the next one. */
static size_t piece_end(const pretok_stage *stage, const char *s, size_t i, size_t end) {
    size_t n, at = i;
    bool space;
    if (stage->form == LAST) {
        size_t begin = last_run(stage->what, s, i, end);
        return begin == i ? end : begin;
    }
    while (at < end) {
        size_t to = match_here(stage, s, at, end);
        if (to) return at == i ? to : at;
        (void)class_here(stage->what, s, at, end, &n, &space);
        at += n;
    }
    return end;
}

size_t kt__pretok_staged_word(kt__pretok_iter *it) {
    bool coder = it->family == KT__PRETOK_DEEPSEEK_CODER;
    const pretok_stage *stages = coder ? deepseek_coder : deepseek_llm;
    size_t n = coder ? sizeof deepseek_coder / sizeof *deepseek_coder
                     : sizeof deepseek_llm / sizeof *deepseek_llm;
    size_t limit = it->len;
    for (size_t k = 0; k < n; k++) {
        if (it->ends[k] <= it->pos) it->ends[k] = piece_end(&stages[k], it->s, it->pos, limit);
        limit = it->ends[k];
    }
    return limit;
}
