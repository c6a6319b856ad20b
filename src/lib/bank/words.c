#include "bank/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "jinja/jinja_text.h"
#include "tokenizer/unicode.h"

enum { PLURAL_BYTES = 5, NYA_BYTES = 7, HASH_SEED = 0x776f7264 };

/* ---- what words do ---- */

/* Kinds of things that are asked for. */
enum {
    PLACE = 1 << 0,
    TIME = 1 << 1,
    PERSON = 1 << 2,
    REASON = 1 << 3,
    NUMBER = 1 << 4,
    PRICE = 1 << 5,
    WEIGHT = 1 << 6,
    SIZE = 1 << 7,
    AGE = 1 << 8,
    COLOUR = 1 << 9,
    FOOD = 1 << 10,
    SECRET = 1 << 11,
    CONTACT = 1 << 12,
    VEHICLE = 1 << 13,
    JOB = 1 << 14,
    OPINION = 1 << 15,
    LANGUAGE = 1 << 16,
    AMOUNT =
        1 << 17, /* "how much": of what another word says, else any of counts, prices and weights */
    DEGREE = 1 << 18, /* "how" ahead of a quality */
    ASKED_SHIFT =
        20, /* above: the first four kinds again, where an asking word says them: "where" */
    ASKED = (PLACE | TIME | PERSON | REASON) << ASKED_SHIFT,
    KINDS = AMOUNT - 1,
    MEASURES = TIME | NUMBER | PRICE | WEIGHT | SIZE | AGE,
    WIDE = PLACE | TIME | PERSON | NUMBER /* any answer may be one of these */
};
#define ASKING(kinds) ((kinds) | (kinds) << ASKED_SHIFT)

typedef struct known_word {
    const char *word;
    kt__word_kind kind;
    uint32_t asks;
} known_word;

static const known_word known[] = {
#define KIND_C KT__WORD_COMMON
#define KIND_R KT__WORD_RELATION
#define KIND_Q KT__WORD_QUALITY
#define C(w) {w, KIND_C, 0},
#define R(w) {w, KIND_R, 0},
#define Q(w) {w, KIND_Q, 0},
#define A(kind, w, kinds) {w, KIND_##kind, kinds},
#include "bank/word_kinds.def"
#undef C
#undef R
#undef Q
#undef A
};

static int compare_known(const void *key, const void *known_one) {
    const kt__word *w = key;
    const char *other = ((const known_word *)known_one)->word;
    size_t n = strlen(other);
    int order = memcmp(w->s, other, w->len < n ? w->len : n);
    return order ? order : w->len < n ? -1 : w->len > n;
}

static known_word look_up(const char *s, size_t len) {
    const kt__word w = {.s = s, .len = len};
    if (len == 1 && (s[0] < '0' || s[0] > '9')) return (known_word){.kind = KT__WORD_COMMON};
    const known_word *found = bsearch(&w, known, sizeof known / sizeof known[0], sizeof known[0],
                                      compare_known);
    return found ? *found : (known_word){.kind = KT__WORD_PLAIN};
}

/* ---- scripts ---- */

typedef enum script {
    SCRIPT_NONE,  /* no part of a word */
    SCRIPT_WORDS, /* blanks between words */
    SCRIPT_PAIRS, /* none: Han, Thai, ...; and Korean, whose particles are written without one */
    SCRIPT_GLUE   /* of these, what joins words: hiragana, and particles of Chinese */
} script;

typedef struct char_range {
    uint32_t from, to;
} char_range;

static const char_range without_blanks[] = {
    {0x0e01, 0x0eff}, {0x0f00, 0x109f}, {0x1780, 0x17ff}, {0x3400, 0x4dbf},
    {0x4e00, 0x9fff}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0x20000, 0x3ffff},
};

/* Characters of Chinese that are words without a meaning of their own, sorted: articles,
 * pronouns, measures, and what asks, joins or denies. */
static const uint32_t particles[] = {
    0x4e00, 0x4e0d, 0x4e2a, 0x4e3a, 0x4e48, 0x4e4b, 0x4e86, 0x4ec0, 0x4ed6, 0x4eec, 0x4f1a, 0x4f55,
    0x4f60, 0x5417, 0x5427, 0x5462, 0x548c, 0x54ea, 0x554a, 0x5728, 0x591a, 0x5979, 0x5b83, 0x600e,
    0x60a8, 0x6211, 0x662f, 0x6709, 0x6ca1, 0x7684, 0x8981, 0x8bf7, 0x8c01, 0x8fd9, 0x90a3,
};

static bool is_particle(uint32_t cp) {
    if (cp >= 0x3040 && cp <= 0x309f) return true;
    for (size_t i = 0; i < sizeof particles / sizeof particles[0]; i++)
        if (particles[i] == cp) return true;
    return false;
}

static script script_of(uint32_t cp, uint8_t class) {
    if (!(class & (KT__UC_L | KT__UC_N | KT__UC_M))) return SCRIPT_NONE;
    if (cp < 0x0e01) return SCRIPT_WORDS;
    if (is_particle(cp)) return SCRIPT_GLUE;
    for (size_t i = 0; i < sizeof without_blanks / sizeof without_blanks[0]; i++)
        if (cp >= without_blanks[i].from && cp <= without_blanks[i].to) return SCRIPT_PAIRS;
    return SCRIPT_WORDS;
}

/* ---- reading ---- */

/* A text that is being read, a character ahead. */
typedef struct word_reader {
    kt__arena *arena;
    const char *s;
    size_t len, at;
    size_t n; /* bytes of the character that comes; 0: none */
    uint32_t cp;
    script script;
    bool begins; /* a sentence begins here */
    kt__word *words;
    size_t most, n_words;
} word_reader;

static void look_ahead(word_reader *r) {
    r->n = 0;
    r->script = SCRIPT_NONE;
    if (r->at >= r->len) return;
    uint8_t class = kt__unicode_next(r->s + r->at, r->len - r->at, &r->n, &r->cp);
    if (r->cp != UINT32_MAX) r->script = script_of(r->cp, class);
}

static void step_over(word_reader *r) {
    r->at += r->n;
    look_ahead(r);
}

static bool is_apostrophe(uint32_t cp) {
    return cp == '\'' || cp == 0x2019 || cp == 0x02bc;
}

static bool ends_sentence(uint32_t cp) {
    return cp == '.' || cp == '?' || cp == '!' || cp == ':' || cp == '\n' || cp == '"' ||
           cp == 0x201c || cp == 0x201e || cp == 0xbf || cp == 0xa1;
}

/* The word without what its language hangs on it, where that can be seen by its letters alone. */
static size_t stem_of(const char *s, size_t len) {
    if (len >= NYA_BYTES && kt__ends_with(s, len, "nya")) return len - 3;
    if (len >= PLURAL_BYTES && s[len - 1] == 's' && s[len - 2] != 's') return len - 1;
    return len;
}

static void put_word(word_reader *r, const char *s, size_t len, bool name) {
    if (len == 0 || r->n_words == r->most) return;
    known_word w = look_up(s, len);
    size_t stem = stem_of(s, len);
    if (w.kind == KT__WORD_PLAIN) w = look_up(s, stem);
    bool degree = r->n_words && r->words[r->n_words - 1].asks & DEGREE;
    if (degree && w.kind == KT__WORD_QUALITY) w.kind = KT__WORD_RELATION;
    r->words[r->n_words++] = (kt__word){.hash = kt__hash_bytes(HASH_SEED, s, stem).w[0],
                                        .s = s,
                                        .len = stem,
                                        .kind = w.kind,
                                        .name = name && w.kind == KT__WORD_PLAIN,
                                        .asks = w.asks};
}

/* A run of letters in lower case; at least as long as it was, and rarely longer. */
static bool read_run(word_reader *r) {
    size_t from = r->at, end = from, n = 0;
    bool name = false, first = true;
    for (word_reader ahead = *r; ahead.script == SCRIPT_WORDS; step_over(&ahead))
        end = ahead.at + ahead.n;
    char *out = kt__arena_alloc_aligned(r->arena, 3 * (end - from) + 12, 1);
    if (!out) return false;
    for (; r->at < end; step_over(r)) {
        uint32_t lower[3];
        size_t n_lower = kt__j_lower(r->cp, lower);
        if (first) name = !r->begins && lower[0] != r->cp;
        first = false;
        for (size_t i = 0; i < n_lower; i++) n += kt__utf8_encode(lower[i], out + n);
    }
    put_word(r, out, n, name);
    r->begins = false;
    return true;
}

/* What is written after an apostrophe: 's, 't, 'll and so on are no words. */
static void skip_suffix(word_reader *r) {
    word_reader ahead = *r;
    int n = 0;
    step_over(&ahead);
    while (ahead.script == SCRIPT_WORDS && n < 3) {
        step_over(&ahead);
        n++;
    }
    step_over(r);
    if (n > 2) return;
    while (n-- > 0) step_over(r);
}

/* Overlapping pairs; a character alone is a word. */
static void read_pairs(word_reader *r) {
    size_t before = r->at, n = r->n, n_chars = 0;
    for (; r->script == SCRIPT_PAIRS; step_over(r)) {
        if (n_chars++) {
            put_word(r, r->s + before, r->at + r->n - before, false);
            before = r->at;
        }
        n = r->n;
    }
    if (n_chars == 1) put_word(r, r->s + before, n, false);
    r->begins = false;
}

static bool read_words(word_reader *r) {
    r->begins = true;
    look_ahead(r);
    while (r->n && r->n_words < r->most) {
        if (r->script == SCRIPT_WORDS) {
            if (!read_run(r)) return false;
            if (r->n && is_apostrophe(r->cp)) skip_suffix(r);
        } else if (r->script == SCRIPT_PAIRS) {
            read_pairs(r);
        } else {
            r->begins = r->begins || ends_sentence(r->cp);
            step_over(r);
        }
    }
    return true;
}

bool kt__words_of(kt__arena *arena, const char *text, size_t len, kt__word *words, size_t most,
                  size_t *n) {
    word_reader r = {.arena = arena, .words = words, .most = most};
    kt_error ignored;
    *n = 0;
    if (kt__unicode_nfc(arena, text, len, &r.s, &r.len, &ignored) != KT_OK) return false;
    bool fits = read_words(&r);
    *n = r.n_words;
    return fits;
}

uint64_t kt__words_hash(const kt__word *words, size_t n) {
    kt__hash h;
    kt__hash_init(&h, HASH_SEED + 1);
    for (size_t i = 0; i < n; i++) kt__hash_add(&h, &words[i].hash, sizeof words[i].hash);
    return kt__hash_end(&h).w[0];
}

/* ---- asking ---- */

bool kt__words_ask(const char *text, size_t len, const kt__word *words, size_t n) {
    static const char *const marks[] = {"?", "\xef\xbc\x9f", "\xd8\x9f"};
    if (n == 0 || n > KT__ASKING_WORDS) return false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (memmem(text, len, marks[i], strlen(marks[i]))) return true;
    return words[0].asks & (ASKED | AMOUNT | DEGREE);
}

static uint32_t kinds_of(uint32_t asks) {
    bool any = asks & AMOUNT && !(asks & MEASURES);
    return (asks & KINDS) | (any ? NUMBER | PRICE | WEIGHT : 0);
}

bool kt__asks_alike(uint32_t asked, uint32_t answered) {
    return kinds_of(asked) & kinds_of(answered);
}

bool kt__asks_other(uint32_t asked, uint32_t answered, bool akin) {
    uint32_t by_word = asked & ASKED, as_word = answered & ASKED;
    if (by_word && as_word && !(by_word & as_word)) return true;
    asked = kinds_of(asked);
    answered = kinds_of(answered);
    if (akin || !asked) return false;
    return answered ? !(asked & answered) : !(asked & WIDE);
}
