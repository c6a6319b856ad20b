#include "tutor/phrase.h"

#include <string.h>

enum { WORDS_MOST = 64 };

static bool is_letter_at(const char *s) {
    unsigned char c = (unsigned char)*s;
    return c >= 0x80 || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

const char *kt__phrase_word(const char *text, const kt__word *w) {
    for (const char *at = text; *at; at++) {
        size_t i = 0;
        if (at > text && is_letter_at(at - 1)) continue;
        while (i < w->len && at[i] && (at[i] | 32) == (w->s[i] | 32)) i++;
        if (i == w->len) return at;
    }
    return NULL;
}

static bool is_in_words(const kt__word *words, size_t n, const kt__word *w) {
    for (size_t i = 0; i < n; i++)
        if (words[i].hash == w->hash) return true;
    return false;
}

bool kt__phrase_find(kt__arena *arena, const char *question, const char *answer, size_t *out_begin,
                     size_t *out_len) {
    kt__word q[WORDS_MOST], a[WORDS_MOST];
    size_t n_q, n_a;
    const char *begin = NULL, *end = NULL;
    if (!kt__words_of(arena, question, strlen(question), q, WORDS_MOST, &n_q) ||
        !kt__words_of(arena, answer, strlen(answer), a, WORDS_MOST, &n_a))
        return false;
    for (size_t i = 0; i < n_q; i++) {
        bool says = q[i].kind == KT__WORD_PLAIN || q[i].kind == KT__WORD_QUALITY || q[i].name;
        const char *at = says && is_in_words(a, n_a, &q[i]) ? kt__phrase_word(question, &q[i])
                                                            : NULL;
        if (!at) continue;
        if (!begin || at < begin) begin = at;
        if (at + q[i].len > end || !end) end = at + q[i].len;
    }
    if (!begin || end - begin >= KT__PHRASE_BYTES) return false;
    *out_begin = (size_t)(begin - question);
    *out_len = (size_t)(end - begin);
    return true;
}
