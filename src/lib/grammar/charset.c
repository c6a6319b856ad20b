#include "grammar/notation.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_CHAR = 0x10ffff };

void kt__charset_add(kt__charset *set, uint32_t low, uint32_t high) {
    if (set->n > 0 && set->ranges[2 * set->n - 1] + 1 == low) {
        set->ranges[2 * set->n - 1] = high;
        return;
    }
    if (set->n == KT__CHARSET_MAX) kt__charset_normalize(set);
    if (set->n == KT__CHARSET_MAX) {
        set->failed = true;
        return;
    }
    set->ranges[2 * set->n] = low;
    set->ranges[2 * set->n + 1] = high;
    set->n++;
}

void kt__charset_add_set(kt__charset *set, const kt__charset *other) {
    for (uint32_t i = 0; i < other->n; i++)
        kt__charset_add(set, other->ranges[2 * i], other->ranges[2 * i + 1]);
    set->failed |= other->failed;
}

static int by_low(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void kt__charset_normalize(kt__charset *set) {
    uint32_t *r = set->ranges, n = 0;
    qsort(r, set->n, 2 * sizeof *r, by_low);
    for (uint32_t i = 0; i < set->n; i++) {
        if (n > 0 && r[2 * i] <= r[2 * n - 1] + 1) {
            if (r[2 * i + 1] > r[2 * n - 1]) r[2 * n - 1] = r[2 * i + 1];
        } else {
            r[2 * n] = r[2 * i];
            r[2 * n + 1] = r[2 * i + 1];
            n++;
        }
    }
    set->n = n;
}

void kt__charset_invert(kt__charset *set) {
    uint32_t from = 0, n = 0, *r = set->ranges;
    kt__charset_normalize(set);
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t low = r[2 * i], high = r[2 * i + 1];
        if (low > from) {
            r[2 * n] = from;
            r[2 * n++ + 1] = low - 1;
        }
        from = high + 1;
    }
    set->n = n;
    if (from <= MAX_CHAR) kt__charset_add(set, from, MAX_CHAR);
}

/* ---- classes with names ---- */

static const uint32_t digits[] = {'0', '9'};
static const uint32_t word[] = {'0', '9', 'A', 'Z', '_', '_', 'a', 'z'};
static const uint32_t spaces[] = {9,      13,     ' ',    ' ',    0xa0,   0xa0,   0x1680,
                                  0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f,
                                  0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff};

static void add_ranges(kt__charset *set, const uint32_t *ranges, size_t n, bool inverted) {
    if (!inverted) {
        for (size_t i = 0; i < n; i += 2) kt__charset_add(set, ranges[i], ranges[i + 1]);
        return;
    }
    uint32_t from = 0;
    for (size_t i = 0; i < n; i += 2) {
        if (ranges[i] > from) kt__charset_add(set, from, ranges[i] - 1);
        from = ranges[i + 1] + 1;
    }
    kt__charset_add(set, from, MAX_CHAR);
}

#define RANGES(table) table, sizeof(table) / sizeof(*(table))

bool kt__charset_add_escape(kt__charset *set, char name) {
    switch (name) {
    case 'd':
    case 'D': add_ranges(set, RANGES(digits), name == 'D'); return true;
    case 'w':
    case 'W': add_ranges(set, RANGES(word), name == 'W'); return true;
    case 's':
    case 'S': add_ranges(set, RANGES(spaces), name == 'S'); return true;
    default: return false;
    }
}

typedef struct category {
    const char *names; /* between bars */
    uint32_t bits;     /* of utf8proc's categories */
} category;

#define BIT(name) ((uint32_t)1 << UTF8PROC_CATEGORY_##name)
static const category categories[] = {
    {"|L|Letter|", BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO)},
    {"|Lu|Uppercase_Letter|", BIT(LU)},
    {"|Ll|Lowercase_Letter|", BIT(LL)},
    {"|Lt|Titlecase_Letter|", BIT(LT)},
    {"|Lm|Modifier_Letter|", BIT(LM)},
    {"|Lo|Other_Letter|", BIT(LO)},
    {"|M|Mark|Combining_Mark|", BIT(MN) | BIT(MC) | BIT(ME)},
    {"|Mn|Nonspacing_Mark|", BIT(MN)},
    {"|Mc|Spacing_Mark|", BIT(MC)},
    {"|Me|Enclosing_Mark|", BIT(ME)},
    {"|N|Number|", BIT(ND) | BIT(NL) | BIT(NO)},
    {"|Nd|Decimal_Number|digit|", BIT(ND)},
    {"|Nl|Letter_Number|", BIT(NL)},
    {"|No|Other_Number|", BIT(NO)},
    {"|P|Punctuation|punct|", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO)},
    {"|Pc|Connector_Punctuation|", BIT(PC)},
    {"|Pd|Dash_Punctuation|", BIT(PD)},
    {"|Ps|Open_Punctuation|", BIT(PS)},
    {"|Pe|Close_Punctuation|", BIT(PE)},
    {"|Pi|Initial_Punctuation|", BIT(PI)},
    {"|Pf|Final_Punctuation|", BIT(PF)},
    {"|Po|Other_Punctuation|", BIT(PO)},
    {"|S|Symbol|", BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO)},
    {"|Sm|Math_Symbol|", BIT(SM)},
    {"|Sc|Currency_Symbol|", BIT(SC)},
    {"|Sk|Modifier_Symbol|", BIT(SK)},
    {"|So|Other_Symbol|", BIT(SO)},
    {"|Z|Separator|", BIT(ZS) | BIT(ZL) | BIT(ZP)},
    {"|Zs|Space_Separator|", BIT(ZS)},
    {"|Zl|Line_Separator|", BIT(ZL)},
    {"|Zp|Paragraph_Separator|", BIT(ZP)},
    {"|Cc|Control|cntrl|", BIT(CC)},
    {"|Cf|Format|", BIT(CF)},
};

bool kt__charset_add_property(kt__charset *set, const char *name, size_t len) {
    static const char prefix[] = "General_Category=";
    uint32_t bits = 0;
    if (len > sizeof prefix - 1 && memcmp(name, prefix, sizeof prefix - 1) == 0) {
        name += sizeof prefix - 1;
        len -= sizeof prefix - 1;
    }
    for (size_t i = 0; i < sizeof categories / sizeof *categories && len > 0; i++) {
        const char *at = memmem(categories[i].names, strlen(categories[i].names), name, len);
        if (at && at[-1] == '|' && at[len] == '|') bits = categories[i].bits;
    }
    if (bits == 0) return false;
    uint32_t from = UINT32_MAX;
    for (uint32_t c = 0; c <= MAX_CHAR + 1; c++) {
        bool in = c <= MAX_CHAR && bits >> utf8proc_category((utf8proc_int32_t)c) & 1;
        if (in && from == UINT32_MAX) from = c;
        if (!in && from != UINT32_MAX) {
            kt__charset_add(set, from, c - 1);
            from = UINT32_MAX;
        }
    }
    return true;
}

/* ---- as UTF-8 ---- */

typedef struct encoder {
    kt__terms *t;
    const kt__charset *set;
    uint32_t least; /* character with so many bytes as are being written */
} encoder;

enum { SURROGATE_LOW = 0xd800, SURROGATE_HIGH = 0xdfff };

/* How much of low..high is in the set: 0 nothing, 1 something, 2 all. */
static int range_coverage(const kt__charset *set, uint32_t low, uint32_t high) {
    uint32_t a = 0, b = set->n;
    while (a < b) { /* the first range that does not end before low */
        uint32_t mid = (a + b) / 2;
        if (set->ranges[2 * mid + 1] < low)
            a = mid + 1;
        else
            b = mid;
    }
    if (a == set->n || set->ranges[2 * a] > high) return 0;
    return set->ranges[2 * a] <= low && set->ranges[2 * a + 1] >= high ? 2 : 1;
}

/* The same of what UTF-8 has with so many bytes. The rest of a block does not matter, since who
 * follows a text takes UTF-8 only; but a block that has nothing else is empty, so that no byte
 * leads there. */
static int coverage_below(const encoder *e, uint32_t low, uint32_t high) {
    if (low < e->least) low = e->least;
    if (high > MAX_CHAR) high = MAX_CHAR;
    if (low >= SURROGATE_LOW && low <= SURROGATE_HIGH) low = SURROGATE_HIGH + 1;
    if (high >= SURROGATE_LOW && high <= SURROGATE_HIGH) high = SURROGATE_LOW - 1;
    if (low > high) return 0;
    if (low > SURROGATE_HIGH || high < SURROGATE_LOW) return range_coverage(e->set, low, high);
    int below = range_coverage(e->set, low, SURROGATE_LOW - 1);
    int above = range_coverage(e->set, SURROGATE_HIGH + 1, high);
    return below == above ? below : 1;
}

static kt__gid any_continuation(kt__terms *t, unsigned n_bytes) {
    kt__gid out = KT__GPOOL_EPS;
    while (n_bytes-- > 0) out = kt__term_cat(t, t->cont, out);
    return out;
}

static kt__gid encode_block(const encoder *e, uint32_t low, unsigned shift);

/* Bytes first.. of n blocks of 2^shift characters from low on; blocks that continue alike share. */
static kt__gid encode_lead(const encoder *e, uint32_t low, unsigned first, unsigned n,
                           unsigned shift) {
    kt__gpool *p = &e->t->pool;
    kt__gid rest[64];
    uint32_t from = p->n_scratch;
    for (unsigned i = 0; i < n; i++) rest[i] = encode_block(e, low + (i << shift), shift);
    for (unsigned i = 0; i < n; i++) {
        uint32_t set[8] = {0};
        if (rest[i] == KT__GPOOL_EMPTY) continue;
        kt__gid same = rest[i];
        for (unsigned k = i; k < n; k++) {
            if (rest[k] != same) continue;
            set[(first + k) / 32] |= (uint32_t)1 << (first + k) % 32;
            rest[k] = KT__GPOOL_EMPTY;
        }
        kt__gpool_push(p, kt__term_cat(e->t, kt__term_bytes(e->t, set), same));
    }
    return kt__term_or(e->t, from);
}

/* What follows the lead byte: continuation bytes for 2^shift characters from low on. */
static kt__gid encode_block(const encoder *e, uint32_t low, unsigned shift) {
    int covered = coverage_below(e, low, low + ((uint32_t)1 << shift) - 1);
    if (covered == 0) return KT__GPOOL_EMPTY;
    if (shift == 0) return KT__GPOOL_EPS;
    if (covered == 2) return any_continuation(e->t, shift / 6);
    return encode_lead(e, low, 0x80, 64, shift - 6);
}

kt__gid kt__charset_term(kt__terms *t, const kt__charset *set) {
    encoder e = {t, set, 0};
    uint32_t from = t->pool.n_scratch;
    uint32_t ascii[8] = {0};
    if (coverage_below(&e, 0, MAX_CHAR) == 2) return t->any_char;
    for (uint32_t c = 0; c < 0x80; c++)
        if (coverage_below(&e, c, c)) ascii[c / 32] |= (uint32_t)1 << c % 32;
    kt__gpool_push(&t->pool, kt__term_bytes(t, ascii));
    e.least = 0x80;
    kt__gpool_push(&t->pool, encode_lead(&e, 0x80, 0xc2, 30, 6));
    e.least = 0x800;
    kt__gpool_push(&t->pool, encode_lead(&e, 0, 0xe0, 16, 12));
    e.least = 0x10000;
    kt__gpool_push(&t->pool, encode_lead(&e, 0, 0xf0, 5, 18));
    return kt__term_or(t, from);
}
