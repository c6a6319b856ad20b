#include "tutor/rewrite.h"

#include <string.h>

#include "base/hash.h"

enum { WORDS_MOST = 32 };
static const double left_out = 0.35, moved = 0.5, asked = 0.6;
static const uint64_t hash_seed = 0x72657772;

/* A run of bytes of the question. */
typedef struct piece {
    const char *s;
    size_t len;
} piece;

typedef struct rewriting {
    uint64_t number, n_drawn;
    piece words[WORDS_MOST];
    size_t n;
} rewriting;

/* In [0, 1). */
static double draw_number(rewriting *r) {
    uint64_t of[2] = {r->number, r->n_drawn++};
    return (double)(kt__hash_bytes(hash_seed, of, sizeof of).w[0] >> 11) * 0x1p-53;
}

static size_t draw_index(rewriting *r) {
    return (size_t)(draw_number(r) * (double)r->n);
}

/* The words of s[0, len), some of them, without marks at their end. */
static void take_words(rewriting *r, const char *s, size_t len) {
    for (size_t i = 0; i < len && r->n < WORDS_MOST;) {
        size_t end = i;
        while (end < len && s[end] != ' ') end++;
        size_t n = end - i;
        while (n > 0 && strchr("?!.,;:", s[i + n - 1])) n--;
        if (n > 0 && draw_number(r) >= left_out) r->words[r->n++] = (piece){s + i, n};
        i = end + 1;
    }
}

static void move_word(rewriting *r) {
    size_t from = draw_index(r), to = draw_index(r);
    piece w = r->words[from];
    memmove(r->words + from, r->words + from + 1, (r->n - from - 1) * sizeof w);
    memmove(r->words + to + 1, r->words + to, (r->n - 1 - to) * sizeof w);
    r->words[to] = w;
}

static bool join_words(rewriting *r, char *out, size_t size) {
    size_t len = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (len + r->words[i].len + 3 > size) return false;
        if (i) out[len++] = ' ';
        memcpy(out + len, r->words[i].s, r->words[i].len);
        len += r->words[i].len;
    }
    if (draw_number(r) < asked) out[len++] = '?';
    out[len] = '\0';
    return true;
}

bool kt__rewrite_question(const char *question, size_t at, size_t len, uint64_t number, char *out,
                          size_t size) {
    rewriting r = {.number = number};
    take_words(&r, question, at);
    if (r.n == WORDS_MOST) return false;
    r.words[r.n++] = (piece){question + at, len};
    take_words(&r, question + at + len, strlen(question + at + len));
    if (draw_number(&r) < moved) move_word(&r);
    return join_words(&r, out, size) && strcmp(out, question) != 0;
}
