#include "tutor/asking_word.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"

enum { WORD_BYTES = 32 };
static const uint64_t hash_seed = 0x61736b73;

/* as: which kind; with: the next word counts, too ("how much", "how old"). */
typedef struct asking {
    const char *word;
    char as;
    bool with;
} asking;

static const asking table[] = {
    {"what", 't', false},   {"which", 't', false},     {"who", 'p', false},
    {"whom", 'p', false},   {"whose", 'p', false},     {"where", 'w', false},
    {"when", 'd', false},   {"why", 'y', false},       {"how", 'h', true},
    {"apa", 't', false},    {"siapa", 'p', false},     {"mana", 'w', false},
    {"dimana", 'w', false}, {"kapan", 'd', false},     {"mengapa", 'y', false},
    {"kenapa", 'y', false}, {"bagaimana", 'h', false}, {"berapa", 'n', false},
};

static bool is_letter(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (unsigned char)c >= 0x80;
}

/* The next word of *at, in lower case; *at is after it. false: there is none. */
static bool next_word(const char **at, char out[WORD_BYTES]) {
    size_t n = 0;
    while (**at && !is_letter(**at)) ++*at;
    for (; is_letter(**at); ++*at)
        if (n + 1 < WORD_BYTES) out[n++] = **at >= 'A' && **at <= 'Z' ? (char)(**at | 32) : **at;
    out[n] = '\0';
    return n > 0;
}

uint64_t kt__asking_word(const char *text) {
    char word[WORD_BYTES], then[WORD_BYTES] = "";
    while (next_word(&text, word)) {
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            if (strcmp(word, table[i].word) != 0) continue;
            if (table[i].with && !next_word(&text, then)) then[0] = '\0';
            return kt__hash_bytes(hash_seed + (uint64_t)table[i].as, then, strlen(then)).w[0] | 1;
        }
    }
    return 0;
}
