/* kt__bank_summarise: a question for what was learned, and its answer. */
#include <string.h>

#include "bank/bank.h"
#include "bank/bank_state.h"
#include "base/text.h"

enum {
    ASKED_BYTES = 96,
    ASKED_WORDS = 24,
    LINE_BYTES = 160,
    MOST_LISTED = 8,
    ARENA_BLOCK = 1 << 12,
    ARENA_MOST = 1 << 16
};

typedef struct summary_words {
    const char *one, *ahead, *after;       /* of how many there are */
    const char *older_ahead, *older_after; /* of those that are not listed */
    const char *const *asks;
} summary_words;

/* Only these words, whatever the case and punctuation: a question that has others is about something else. */
static const char *const english_asks[] = {"What have you learned?",
                                           "What did you learn?",
                                           "Have you learned anything?",
                                           "What have you learned so far?",
                                           "What have you learned from me?",
                                           "What did you learn from me?",
                                           "What have I taught you?",
                                           "What did I teach you?",
                                           "Tell me what you have learned.",
                                           "Show me what you have learned.",
                                           "List what you have learned.",
                                           "Have you learned something new?",
                                           "What have you learnt?",
                                           "Which corrections do you know?",
                                           NULL};
static const char *const indonesian_asks[] = {"Apa yang sudah kamu pelajari?",
                                              "Apa yang kamu pelajari?",
                                              "Apa yang telah kamu pelajari?",
                                              "Apa saja yang sudah kamu pelajari?",
                                              "Kamu sudah belajar apa?",
                                              "Sudah belajar apa?",
                                              "Apa yang kamu pelajari dariku?",
                                              "Apa yang sudah kuajarkan?",
                                              "Apa yang sudah aku ajarkan?",
                                              "Apa yang sudah saya ajarkan?",
                                              "Apa yang sudah Anda pelajari?",
                                              "Apa yang telah Anda pelajari?",
                                              NULL};

static const summary_words languages[KT__BANK_LANGUAGES] = {
    {"I have learned from one correction:", "I have learned from ", " corrections:", "and ",
     " earlier.", english_asks},
    {"Aku sudah belajar dari satu koreksi:", "Aku sudah belajar dari ", " koreksi:", "dan ",
     " yang lebih lama.", indonesian_asks},
};
_Static_assert(sizeof english_asks / sizeof *english_asks <= KT__BANK_ASKS, "english");
_Static_assert(sizeof indonesian_asks / sizeof *indonesian_asks <= KT__BANK_ASKS, "indonesian");

/* 0: of no words, or of more than any of these questions has. */
static uint64_t hash_of(const char *text, size_t len) {
    kt__word words[ASKED_WORDS];
    kt__arena arena;
    size_t n = 0;
    if (len > ASKED_BYTES) return 0;
    kt__arena_init(&arena, ARENA_BLOCK, ARENA_MOST);
    bool some = kt__words_of(&arena, text, len, words, ASKED_WORDS, &n) && n && n < ASKED_WORDS;
    uint64_t hash = some ? kt__words_hash(words, n) : 0;
    kt__arena_free(&arena);
    return hash;
}

void kt__bank_hash_asks(kt_bank *b) {
    for (size_t k = 0; k < KT__BANK_LANGUAGES; k++)
        for (size_t i = 0; languages[k].asks[i]; i++)
            b->asks[k][i] = hash_of(languages[k].asks[i], strlen(languages[k].asks[i]));
}

static const summary_words *language_asked(const kt_bank *b, const char *text, size_t len) {
    uint64_t hash = hash_of(text, len);
    for (size_t k = 0; hash && k < KT__BANK_LANGUAGES; k++)
        for (size_t i = 0; i < KT__BANK_ASKS; i++)
            if (b->asks[k][i] == hash) return &languages[k];
    return NULL;
}

/* On one line, cut at a whole character. */
static void put_line(kt__buf *out, const char *s, size_t len) {
    size_t n = len <= LINE_BYTES ? len : LINE_BYTES - kt__utf8_incomplete_tail(s, LINE_BYTES);
    for (size_t i = 0; i < n; i++) (void)kt__buf_putc(out, s[i] == '\n' ? ' ' : s[i]);
    if (n < len) (void)kt__buf_puts(out, "...");
}

static void put_item(const kt_bank *b, const kt__bank_item *item, kt__buf *out) {
    const char *text = b->texts + item->text;
    (void)kt__buf_puts(out, "\n- ");
    put_line(out, text, item->n_question);
    if (item->n_question) (void)kt__buf_putc(out, ' ');
    put_line(out, text + item->n_question, item->n_answer);
}

/* With the lock. */
static size_t count_items(const kt_bank *b) {
    size_t n = 0;
    for (size_t i = 0; i < b->n_items; i++) n += !b->items[i].replaced;
    return n;
}

size_t kt__bank_summarise(kt_bank *b, const char *text, size_t len, kt__buf *out, uint64_t *ids,
                          size_t cap) {
    const summary_words *words = language_asked(b, text, len);
    size_t n = 0;
    if (!words) return 0;
    pthread_mutex_lock(&b->lock);
    size_t n_all = count_items(b), most = cap < MOST_LISTED ? cap : MOST_LISTED;
    if (n_all == 1) (void)kt__buf_puts(out, words->one);
    if (n_all > 1) (void)kt__buf_printf(out, "%s%zu%s", words->ahead, n_all, words->after);
    for (size_t i = b->n_items; i > 0 && n < most; i--) {
        const kt__bank_item *item = &b->items[i - 1];
        if (item->replaced) continue;
        put_item(b, item, out);
        ids[n++] = item->id;
    }
    if (n_all > n)
        (void)kt__buf_printf(out, "\n%s%zu%s", words->older_ahead, n_all - n, words->older_after);
    pthread_mutex_unlock(&b->lock);
    return n;
}
