#include "bank/bank_state.h"

#include <string.h>

#include "base/alloc.h"

/* ---- numbers by hash ---- */

enum { FIRST_SLOTS = 64 };

void kt__slots_free(kt__slots *s) {
    kt__free(s->slots);
    *s = (kt__slots){0};
}

/* Where it is, or where it would be. */
static kt__slot *slot_of(const kt__slots *s, uint64_t hash) {
    size_t at = (size_t)hash & (s->n_slots - 1);
    while (s->slots[at].value && s->slots[at].hash != hash) at = (at + 1) & (s->n_slots - 1);
    return &s->slots[at];
}

bool kt__slots_find(const kt__slots *s, uint64_t hash, uint32_t *value) {
    if (!s->n_slots) return false;
    const kt__slot *slot = slot_of(s, hash);
    if (!slot->value) return false;
    *value = slot->value - 1;
    return true;
}

bool kt__slots_reserve(kt__slots *s) {
    if (s->n_slots && s->n + 1 <= s->n_slots / 2) return true;
    kt__slots bigger = {.n_slots = s->n_slots ? 2 * s->n_slots : FIRST_SLOTS, .n = s->n};
    bigger.slots = kt__calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].value) *slot_of(&bigger, s->slots[i].hash) = s->slots[i];
    kt__free(s->slots);
    *s = bigger;
    return true;
}

void kt__slots_put(kt__slots *s, uint64_t hash, uint32_t value) {
    kt__slot *slot = slot_of(s, hash);
    s->n += !slot->value;
    *slot = (kt__slot){hash, value + 1};
}

/* ---- what an entry is about ---- */

enum {
    FEW = 3,  /* entries that a word needs to be what many of them ask of */
    MANY = 8, /* entries on one subject, from which on all of an entry's words are asked for */
};

/* ---- candidates ---- */

static const kt__word *find_word(const kt__word *words, size_t n, uint64_t hash) {
    for (size_t i = 0; i < n; i++)
        if (words[i].hash == hash) return &words[i];
    return NULL;
}

static void add_candidate(kt__word *out, size_t *n, const kt__word *w, bool name) {
    if (w->kind == KT__WORD_COMMON || *n == KT__BANK_WORDS || find_word(out, *n, w->hash)) return;
    out[*n] = *w;
    out[(*n)++].name = name;
}

/* A name is one wherever it is written as such. */
static bool named_in(const kt__word *words, size_t n, uint64_t hash) {
    for (size_t i = 0; i < n; i++)
        if (words[i].hash == hash && words[i].name) return true;
    return false;
}

/* Says something besides what is asked, and of which of several. */
static bool has_subject(const kt__word *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (words[i].kind == KT__WORD_PLAIN) return true;
    return false;
}

size_t kt__bank_candidates(const kt__word *q, size_t n_q, const kt__word *a, size_t n_a,
                           kt__word *out) {
    size_t n = 0;
    for (int shared = 1; shared >= 0; shared--) {
        n = 0;
        for (size_t i = 0; i < n_q; i++) {
            const kt__word *in_answer = find_word(a, n_a, q[i].hash);
            bool name = named_in(q, n_q, q[i].hash) || named_in(a, n_a, q[i].hash);
            bool picks = q[i].name || q[i].kind == KT__WORD_QUALITY;
            if (!shared || in_answer || picks) add_candidate(out, &n, &q[i], name);
        }
        if (has_subject(out, n)) break;
    }
    return n;
}

/* ---- the words that have to be there ---- */

/* A candidate of an item. */
typedef struct candidate {
    uint32_t word;
    uint32_t n_entries;
    kt__word_kind kind;
    bool name, counts;
} candidate;

static size_t read_candidates(const kt_bank *b, const kt__bank_item *item, candidate *out) {
    for (size_t i = 0; i < item->n_words; i++) {
        uint32_t ref = b->refs[item->words + i];
        const kt__bank_word *w = &b->words[ref & ~KT__BANK_NAME];
        out[i] = (candidate){.word = ref & ~KT__BANK_NAME,
                             .n_entries = w->n_entries,
                             .kind = (kt__word_kind)w->kind,
                             .name = ref & KT__BANK_NAME};
    }
    return item->n_words;
}

static bool counts_plain(const candidate *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (c[i].counts && c[i].kind == KT__WORD_PLAIN) return true;
    return false;
}

static size_t count_counting(const candidate *c, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += c[i].counts;
    return found;
}

static uint32_t fewest_entries(const candidate *c, size_t n) {
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (c[i].counts && c[i].n_entries < least) least = c[i].n_entries;
    return least;
}

/* Names alone; else all but relations, and but words that many entries have and others few. */
static void count_subject(candidate *c, size_t n) {
    bool any = false;
    for (size_t i = 0; i < n; i++) any |= c[i].counts = c[i].name;
    if (any) return;
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (c[i].kind == KT__WORD_PLAIN && c[i].n_entries < least) least = c[i].n_entries;
    for (size_t i = 0; i < n; i++) {
        bool asked_often = c[i].kind == KT__WORD_PLAIN && c[i].n_entries >= FEW &&
                           c[i].n_entries / 2 >= least && c[i].n_entries > least;
        c[i].counts = c[i].kind != KT__WORD_RELATION && !asked_often;
    }
}

static void count_all(candidate *c, size_t n) {
    for (size_t i = 0; i < n; i++) c[i].counts = true;
}

/* Two words that are no rare ones by themselves are a subject if one says which of several. */
static bool is_too_common(const candidate *c, size_t n) {
    bool picks = false;
    if (counts_plain(c, n)) return false;
    for (size_t i = 0; i < n; i++) picks |= c[i].counts && c[i].kind == KT__WORD_QUALITY;
    return !picks || count_counting(c, n) < 2;
}

static kt__bank_scope choose_words(candidate *c, size_t n) {
    count_subject(c, n);
    if (!counts_plain(c, n) || fewest_entries(c, n) > MANY) count_all(c, n);
    if (is_too_common(c, n)) return KT__SCOPE_COMMON;
    return fewest_entries(c, n) > KT__BANK_SHARING ? KT__SCOPE_CROWDED : KT__SCOPE_SUBJECT;
}

kt__bank_scope kt__bank_subject(const kt_bank *b, const kt__bank_item *item,
                                uint32_t out[KT__BANK_WORDS], size_t *n) {
    candidate c[KT__BANK_WORDS];
    *n = 0;
    if (!item->asked) return KT__SCOPE_NO_QUESTION;
    if (item->replaced) return KT__SCOPE_REPLACED;
    if (item->too_long) return KT__SCOPE_TOO_LONG;
    size_t n_c = read_candidates(b, item, c);
    kt__bank_scope scope = choose_words(c, n_c);
    if (scope != KT__SCOPE_SUBJECT) return scope;
    for (size_t i = 0; i < n_c; i++)
        if (c[i].counts) out[(*n)++] = c[i].word;
    return scope;
}

/* ---- what is asked for ---- */

enum { AKIN_WORDS = 256, AKIN_BYTES = 4 /* of two words that begin alike */ };

uint32_t kt__bank_answers(const kt__word *q, size_t n_q, const kt__word *a, size_t n_a) {
    uint32_t asks = 0;
    for (size_t i = 0; i < n_q; i++)
        if (q[i].kind != KT__WORD_QUALITY) asks |= q[i].asks;
    for (size_t i = 0; i < n_a; i++)
        if (a[i].kind == KT__WORD_RELATION) asks |= a[i].asks;
    return asks;
}

/* "weigh" and "weight", "repair" and "repaired". */
static bool begin_alike(const kt__word *a, const kt__word *b) {
    size_t n = 0, longer = a->len > b->len ? a->len : b->len;
    if (a->hash == b->hash) return true;
    while (n < a->len && n < b->len && a->s[n] == b->s[n]) n++;
    return n >= AKIN_BYTES && 3 * n >= 2 * longer;
}

static bool in_subject(const kt_bank *b, const uint32_t *subject, size_t n, uint64_t hash) {
    for (size_t i = 0; i < n; i++)
        if (b->words[subject[i]].hash == hash) return true;
    return false;
}

/* Words of the entry's text that are no words of its subject: one of words[n] is akin to one of them; says: there are
 * any. */
static bool has_akin(const kt_bank *b, const kt__bank_item *item, const uint32_t *subject,
                     size_t n_subject, const kt__word *words, size_t n, bool *says) {
    kt__arena arena;
    size_t n_own = 0;
    bool akin = false;
    *says = false;
    kt__arena_init(&arena, 1 << 14, 1 << 20);
    kt__word *own = kt__arena_calloc(&arena, AKIN_WORDS, sizeof *own);
    if (!own || !kt__words_of(&arena, b->texts + item->text, item->n_question + item->n_answer, own,
                              AKIN_WORDS, &n_own))
        akin = true; /* without memory it opens */
    for (size_t i = 0; i < n_own && !akin; i++) {
        if (own[i].kind == KT__WORD_COMMON || in_subject(b, subject, n_subject, own[i].hash))
            continue;
        *says = true;
        for (size_t k = 0; k < n && !akin; k++)
            akin = words[k].kind != KT__WORD_COMMON && begin_alike(&own[i], &words[k]);
    }
    kt__arena_free(&arena);
    return akin;
}

kt__bank_fit kt__bank_item_fit(const kt_bank *b, const kt__bank_item *item, const kt__word *words,
                               size_t n, bool question) {
    uint32_t subject[KT__BANK_WORDS], asks = 0;
    size_t n_subject;
    bool says;
    if (n > KT__ASKING_WORDS) return KT__FIT_OPEN;
    if (kt__words_hash(words, n) == item->question)
        return KT__FIT_AKIN; /* whatever its words are */
    (void)kt__bank_subject(b, item, subject, &n_subject);
    for (size_t i = 0; i < n; i++)
        if (!in_subject(b, subject, n_subject, words[i].hash)) asks |= words[i].asks;
    if (question && kt__asks_other(asks, item->asks, true)) return KT__FIT_OTHER;
    if (kt__asks_alike(asks, item->asks)) return KT__FIT_AKIN;
    if (has_akin(b, item, subject, n_subject, words, n, &says)) return KT__FIT_AKIN;
    if (question && kt__asks_other(asks, item->asks, false)) return KT__FIT_OTHER;
    return question && (says || item->asks) ? KT__FIT_DOUBTFUL : KT__FIT_OPEN;
}
