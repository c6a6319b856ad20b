#include "bank/bank.h"

#include <stdlib.h>
#include <string.h>

#include "bank/bank_state.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

enum {
    QUESTION_WORDS = 256,
    ANSWER_WORDS = 1024,
    WORD_BYTES = 64, /* of a word that are shown */
    MOST_ENTRIES = 1 << 24,
    MOST_TEXT = 1U << 31,
    ARENA_BYTES = 1 << 16,
    ARENA_MOST = 1 << 28
};

/* ---- life ---- */

kt_status kt__bank_open(kt_bank **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a bank of corrections", sizeof **out);
    atomic_init(&(*out)->n_holders, 1);
    pthread_mutex_init(&(*out)->lock, NULL);
    kt__bank_hash_asks(*out);
    return KT_OK;
}

kt_bank *kt_bank_hold(kt_bank *b) {
    if (b) atomic_fetch_add(&b->n_holders, 1);
    return b;
}

void kt_bank_close(kt_bank *b) {
    if (!b || atomic_fetch_sub(&b->n_holders, 1) != 1) return;
    kt__slots_free(&b->by_word);
    kt__slots_free(&b->by_question);
    kt__free(b->items);
    kt__free(b->words);
    kt__free(b->postings);
    kt__free(b->refs);
    kt__free(b->texts);
    pthread_mutex_destroy(&b->lock);
    kt__free(b);
}

void kt_bank_get_info(kt_bank *b, kt_bank_info *out) {
    uint32_t words[KT__BANK_WORDS];
    size_t n;
    *out = (kt_bank_info){0};
    pthread_mutex_lock(&b->lock);
    out->n_entries = b->n_items;
    for (size_t i = 0; i < b->n_items; i++) {
        out->n_replaced += b->items[i].replaced;
        out->n_scoped += kt__bank_subject(b, &b->items[i], words, &n) == KT__SCOPE_SUBJECT;
    }
    out->bytes = sizeof *b + b->cap_items * sizeof *b->items + b->cap_words * sizeof *b->words +
                 b->cap_postings * sizeof *b->postings + b->cap_refs * sizeof *b->refs +
                 b->cap_texts +
                 (b->by_word.n_slots + b->by_question.n_slots) * sizeof *b->by_word.slots;
    pthread_mutex_unlock(&b->lock);
}

/* ---- adding ---- */

/* An entry on its way. */
typedef struct bank_words {
    kt__arena arena;
    kt__word question[QUESTION_WORDS], answer[ANSWER_WORDS];
    kt__word candidates[KT__BANK_WORDS];
    size_t n_question, n_answer, n_candidates;
} bank_words;

static bool read_entry_words(const kt__bank_entry *e, bank_words *w) {
    kt__arena_init(&w->arena, ARENA_BYTES, ARENA_MOST);
    if (!e->question) return true;
    bool fits = kt__words_of(&w->arena, e->question, e->n_question, w->question, QUESTION_WORDS,
                             &w->n_question) &&
                kt__words_of(&w->arena, e->answer, e->n_answer, w->answer, ANSWER_WORDS,
                             &w->n_answer);
    if (fits)
        w->n_candidates = kt__bank_candidates(w->question, w->n_question, w->answer, w->n_answer,
                                              w->candidates);
    return fits;
}

/* Bytes of s[len] that are kept, whole characters. */
static size_t cut_text(const char *s, size_t len, size_t most) {
    if (len <= most) return len;
    return most - kt__utf8_incomplete_tail(s, most);
}

static bool reserve_entry(kt_bank *b, size_t n_text, size_t n_words) {
    bool fits = b->n_items < MOST_ENTRIES && b->n_texts + n_text < MOST_TEXT &&
                kt__vec_reserve(b->items, b->cap_items, b->n_items + 1) &&
                kt__vec_reserve(b->words, b->cap_words, b->n_words + n_words) &&
                kt__vec_reserve(b->postings, b->cap_postings, b->n_postings + n_words) &&
                kt__vec_reserve(b->refs, b->cap_refs, b->n_refs + n_words) &&
                kt__vec_reserve(b->texts, b->cap_texts, b->n_texts + n_text + 1) &&
                kt__slots_reserve(&b->by_question);
    return fits;
}

static uint32_t keep_text(kt_bank *b, const char *s, size_t len) {
    uint32_t at = (uint32_t)b->n_texts;
    if (len) memcpy(b->texts + at, s, len);
    b->n_texts += len;
    return at;
}

/* A text that is shown in prompts and terminals: controls but newlines become blanks. */
static void keep_clean(kt_bank *b, const char *s, size_t len) {
    char *to = b->texts + keep_text(b, s, len);
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)to[i] < 0x20 && to[i] != '\n') || to[i] == 0x7f) to[i] = ' ';
}

/* The word's number. With room for it. */
static uint32_t number_word(kt_bank *b, const kt__word *w) {
    uint32_t number;
    if (kt__slots_find(&b->by_word, w->hash, &number)) return number;
    number = (uint32_t)b->n_words++;
    size_t len = cut_text(w->s, w->len, WORD_BYTES);
    b->words[number] = (kt__bank_word){.hash = w->hash,
                                       .text = keep_text(b, w->s, len),
                                       .n_text = (uint16_t)len,
                                       .kind = (uint8_t)w->kind};
    kt__slots_put(&b->by_word, w->hash, number);
    return number;
}

static void put_words(kt_bank *b, const bank_words *w, uint32_t item) {
    for (size_t i = 0; i < w->n_candidates; i++) {
        const kt__word *c = &w->candidates[i];
        uint32_t number = number_word(b, c);
        kt__bank_word *word = &b->words[number];
        b->refs[b->n_refs++] = number | (c->name ? KT__BANK_NAME : 0);
        b->postings[b->n_postings++] = (kt__bank_posting){item, word->last};
        word->last = (uint32_t)b->n_postings;
        word->n_entries++;
    }
}

/* An earlier entry of the same question counts no more. */
static void replace_entry(kt_bank *b, uint64_t question) {
    uint32_t at;
    if (!kt__slots_find(&b->by_question, question, &at)) return;
    kt__bank_item *item = &b->items[at];
    item->replaced = true;
    for (size_t i = 0; i < item->n_words; i++)
        b->words[b->refs[item->words + i] & ~KT__BANK_NAME].n_entries--;
}

/* With the lock, and room. */
static void put_entry(kt_bank *b, const kt__bank_entry *e, const bank_words *w, size_t n_question,
                      size_t n_answer) {
    uint32_t at = (uint32_t)b->n_items++;
    b->items[at] = (kt__bank_item){
        .id = e->id,
        .question = kt__words_hash(w->question, w->n_question),
        .text = b->n_texts,
        .n_question = (uint32_t)n_question,
        .n_answer = (uint32_t)n_answer,
        .words = (uint32_t)b->n_refs,
        .asks = kt__bank_answers(w->question, w->n_question, w->answer, w->n_answer),
        .n_words = (uint8_t)w->n_candidates,
        .asked = e->question != NULL,
        .too_long = e->n_answer > KT__BANK_ANSWER_MAX};
    keep_clean(b, e->question, n_question);
    keep_clean(b, e->answer, n_answer);
    if (!e->question) return;
    replace_entry(b, b->items[at].question);
    kt__slots_put(&b->by_question, b->items[at].question, at);
    put_words(b, w, at);
}

static bool reserve_word_slots(kt_bank *b, size_t n) {
    kt__slots *s = &b->by_word;
    size_t before = s->n;
    bool fits = true;
    for (size_t i = 0; fits && i < n; i++, s->n++) fits = kt__slots_reserve(s);
    s->n = before;
    return fits;
}

kt_status kt__bank_add(kt_bank *b, const kt__bank_entry *e, kt_error *err) {
    kt_status status = KT_OK;
    bank_words *w = kt__calloc(1, sizeof *w);
    if (!w) return kt__fail_nomem(err, "a correction's words", sizeof *w);
    size_t n_question = e->question ? cut_text(e->question, e->n_question, KT__BANK_QUESTION_MAX)
                                    : 0;
    size_t n_answer = e->n_answer > KT__BANK_ANSWER_MAX ? 0 : e->n_answer;
    size_t n_text = n_question + n_answer;
    if (!read_entry_words(e, w)) {
        status = kt__fail_nomem(err, "a correction's words", e->n_question + e->n_answer);
        goto out;
    }
    pthread_mutex_lock(&b->lock);
    if (reserve_entry(b, n_text + w->n_candidates * WORD_BYTES, w->n_candidates) &&
        reserve_word_slots(b, w->n_candidates))
        put_entry(b, e, w, n_question, n_answer);
    else
        status = kt__fail_nomem(err, "the bank of corrections", b->n_items);
    pthread_mutex_unlock(&b->lock);
out:
    kt__arena_free(&w->arena);
    kt__free(w);
    return status;
}

/* ---- finding ---- */

static int compare_item(const void *key, const void *item) {
    uint64_t id = *(const uint64_t *)key, other = ((const kt__bank_item *)item)->id;
    return id < other ? -1 : id > other;
}

static const kt__bank_item *item_of(const kt_bank *b, uint64_t id) {
    if (!b->n_items) return NULL;
    return bsearch(&id, b->items, b->n_items, sizeof *b->items, compare_item);
}

/* A text's words, and those that the bank has as their numbers, sorted. */
typedef struct known_words {
    uint32_t *numbers;
    size_t n;
    const kt__word *words; /* [n_words] */
    size_t n_words;
    bool question; /* the text is one */
} known_words;

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool has_number(const known_words *k, uint32_t number) {
    return bsearch(&number, k->numbers, k->n, sizeof number, compare_numbers) != NULL;
}

static void know_words(const kt_bank *b, const kt__word *words, size_t n, known_words *out) {
    uint32_t number;
    size_t n_unique = 0;
    out->n = 0;
    for (size_t i = 0; i < n; i++)
        if (kt__slots_find(&b->by_word, words[i].hash, &number)) out->numbers[out->n++] = number;
    if (out->n) qsort(out->numbers, out->n, sizeof *out->numbers, compare_numbers);
    for (size_t i = 0; i < out->n; i++)
        if (!i || out->numbers[i] != out->numbers[i - 1])
            out->numbers[n_unique++] = out->numbers[i];
    out->n = n_unique;
}

static int words_in(const kt_bank *b, const kt__bank_item *item, const known_words *k) {
    uint32_t subject[KT__BANK_WORDS];
    size_t n;
    (void)kt__bank_subject(b, item, subject, &n);
    for (size_t i = 0; i < n; i++)
        if (!has_number(k, subject[i])) return 0;
    return (int)n;
}

/* < 0: x comes first. */
static int compare_hits(const kt__bank_hit *x, const kt__bank_hit *y) {
    bool other = x->fit == KT__FIT_OTHER;
    if (other != (y->fit == KT__FIT_OTHER)) return other ? 1 : -1;
    if (x->n_words != y->n_words) return x->n_words > y->n_words ? -1 : 1;
    return x->id > y->id ? -1 : 1;
}

/* Keeps hits in their order; returns their number. */
static size_t insert_hit(kt__bank_hit *hits, size_t n, size_t cap, kt__bank_hit hit) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        if (hits[i].id == hit.id) return n;
    while (at < n && compare_hits(&hits[at], &hit) < 0) at++;
    if (at == cap) return n;
    if (n == cap) n--;
    memmove(hits + at + 1, hits + at, (n - at) * sizeof *hits);
    hits[at] = hit;
    return n + 1;
}

/* A subject has a word that few entries share: these words' lists are all that is read. */
static size_t find_known(const kt_bank *b, const known_words *k, kt__bank_hit *hits, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++) {
        const kt__bank_word *w = &b->words[k->numbers[i]];
        if (w->n_entries > KT__BANK_SHARING) continue;
        uint32_t left = w->n_entries;
        for (uint32_t p = w->last; p && left; p = b->postings[p - 1].before) {
            const kt__bank_item *item = &b->items[b->postings[p - 1].entry];
            if (item->replaced) continue;
            left--;
            int n_words = words_in(b, item, k);
            if (!n_words) continue;
            kt__bank_fit fit = kt__bank_item_fit(b, item, k->words, k->n_words, k->question);
            n = insert_hit(hits, n, cap, (kt__bank_hit){item->id, n_words, fit});
        }
    }
    return n;
}

size_t kt__bank_find(kt_bank *b, const char *text, size_t len, kt__bank_hit *hits, size_t cap) {
    kt__arena arena;
    size_t n = 0, n_words = 0, most = len / 2 + 2;
    if (most > KT__BANK_TEXT_WORDS) most = KT__BANK_TEXT_WORDS;
    kt__arena_init(&arena, ARENA_BYTES, ARENA_MOST);
    kt__word *words = kt__arena_calloc(&arena, most, sizeof *words);
    known_words k = {.numbers = kt__arena_calloc(&arena, most, sizeof(uint32_t))};
    if (cap && words && k.numbers && kt__words_of(&arena, text, len, words, most, &n_words)) {
        k.words = words;
        k.n_words = n_words;
        k.question = kt__words_ask(text, len, words, n_words);
        pthread_mutex_lock(&b->lock);
        know_words(b, words, n_words, &k);
        n = find_known(b, &k, hits, cap);
        pthread_mutex_unlock(&b->lock);
    }
    kt__arena_free(&arena);
    return n;
}

size_t kt__bank_open_in(kt_bank *b, const char *text, size_t len, kt__bank_hit *hits, size_t cap) {
    size_t n = kt__bank_find(b, text, len, hits, cap);
    while (n > 0 && hits[n - 1].fit == KT__FIT_OTHER) n--; /* they come last */
    return n;
}

kt__bank_fit kt__bank_fit_of(kt_bank *b, uint64_t id, const char *text, size_t len) {
    kt__arena arena;
    size_t n = 0;
    kt__bank_fit fit = KT__FIT_OPEN;
    kt__arena_init(&arena, ARENA_BYTES, ARENA_MOST);
    kt__word *words = kt__arena_calloc(&arena, QUESTION_WORDS, sizeof *words);
    if (words && kt__words_of(&arena, text, len, words, QUESTION_WORDS, &n)) {
        bool question = kt__words_ask(text, len, words, n);
        pthread_mutex_lock(&b->lock);
        const kt__bank_item *item = item_of(b, id);
        if (item) fit = kt__bank_item_fit(b, item, words, n, question);
        pthread_mutex_unlock(&b->lock);
    }
    kt__arena_free(&arena);
    return fit;
}

bool kt__bank_asked(kt_bank *b, const char *text, size_t len, uint64_t *id) {
    kt__arena arena;
    uint32_t at;
    size_t n = 0;
    bool found = false;
    kt__arena_init(&arena, ARENA_BYTES, ARENA_MOST);
    kt__word *words = kt__arena_calloc(&arena, QUESTION_WORDS, sizeof *words);
    if (!words || !kt__words_of(&arena, text, len, words, QUESTION_WORDS, &n)) n = 0;
    if (n > 0 && n < QUESTION_WORDS) { /* of a longer one the rest is not known */
        pthread_mutex_lock(&b->lock);
        found = kt__slots_find(&b->by_question, kt__words_hash(words, n), &at);
        if (found) *id = b->items[at].id;
        pthread_mutex_unlock(&b->lock);
    }
    kt__arena_free(&arena);
    return found;
}

/* ---- showing ---- */

void kt__bank_note(const char *question, size_t n_question, const char *answer, size_t n_answer,
                   kt__buf *out) {
    (void)kt__buf_puts(out, "Earlier correction:\nQ: ");
    (void)kt__buf_append(out, question, n_question);
    (void)kt__buf_puts(out, "\nA: ");
    (void)kt__buf_append(out, answer, n_answer);
    (void)kt__buf_puts(out, "\n\n");
}

bool kt__bank_write_note(kt_bank *b, uint64_t id, kt__buf *out) {
    pthread_mutex_lock(&b->lock);
    const kt__bank_item *item = item_of(b, id);
    if (item) {
        const char *text = b->texts + item->text;
        kt__bank_note(text, item->n_question, text + item->n_question, item->n_answer, out);
    }
    pthread_mutex_unlock(&b->lock);
    return item != NULL;
}

/* An entry's answer, or its question. */
static bool write_part(kt_bank *b, uint64_t id, bool answer, kt__buf *out) {
    pthread_mutex_lock(&b->lock);
    const kt__bank_item *item = item_of(b, id);
    if (item) {
        const char *text = b->texts + item->text + (answer ? item->n_question : 0);
        (void)kt__buf_append(out, text, answer ? item->n_answer : item->n_question);
    }
    pthread_mutex_unlock(&b->lock);
    return item != NULL;
}

bool kt__bank_write_question(kt_bank *b, uint64_t id, kt__buf *out) {
    return write_part(b, id, false, out);
}

bool kt__bank_write_answer(kt_bank *b, uint64_t id, kt__buf *out) {
    return write_part(b, id, true, out);
}

void kt__bank_write_scope(kt_bank *b, uint64_t id, kt__buf *out) {
    static const char *const names[] = {
        [KT__SCOPE_SUBJECT] = "subject",   [KT__SCOPE_NO_QUESTION] = "no_question",
        [KT__SCOPE_COMMON] = "common",     [KT__SCOPE_CROWDED] = "crowded",
        [KT__SCOPE_TOO_LONG] = "too_long", [KT__SCOPE_REPLACED] = "replaced"};
    uint32_t subject[KT__BANK_WORDS];
    size_t n;
    pthread_mutex_lock(&b->lock);
    const kt__bank_item *item = item_of(b, id);
    if (item) {
        kt__bank_scope scope = kt__bank_subject(b, item, subject, &n);
        kt__json_member(out, "scope", names[scope]);
        kt__json_key(out, "subject");
        (void)kt__buf_putc(out, '[');
        for (size_t i = 0; i < n; i++) {
            const kt__bank_word *w = &b->words[subject[i]];
            if (i) (void)kt__buf_putc(out, ',');
            kt__json_string(out, b->texts + w->text, w->n_text, KT__JSON_PLAIN);
        }
        (void)kt__buf_putc(out, ']');
    }
    pthread_mutex_unlock(&b->lock);
}
